"""The same numbers on ratings without a step, where answers do not repeat and so cannot be counted.

Everything is a sum per item: distances inside the item, and distances to all answers by way of sorted prefix sums, so the
cost is n log n. Sums over items are exactly rounded, so the order of the items never shows. Intervals leave out one item
at a time, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, t_quantile
from calibrate_plugin.model import Interval, Measure, Reason

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Answers with the item of each: ``item`` (n,) codes in ascending order, ``value`` (n,) numbers; ``own``, where one
    rater is set apart, holds that rater's answer to the same item beside each of them."""

    item: Array
    value: Array
    own: Array | None = None

    def paired(self) -> Group:
        """Only the answers on items that have a pair."""
        if self.own is not None:
            return self
        keep = np.bincount(inverse := _counted_off(self.item))[inverse] > 1
        return Group(self.item[keep], self.value[keep])


def agreement_and_kappa(group: Group, span: float, resampling: Resampling) -> tuple[Measure, Measure]:
    """Mean of 1 - distance / ``span`` over pairs, and its kappa: Cohen's where ``own`` is set apart, else Fleiss'."""
    group = group.paired()
    if not len(group.value):
        empty = Measure(None, "nothing_to_compare", 0, 0)
        return empty, empty
    sums = _against(group) if group.own is not None else _together(group)
    apart, pairs, expected, couples, left = sums
    n_items, n_pairs = len(apart), int(pairs.sum())
    total = fsum(apart)
    agreement = 1 - total / (span * n_pairs)
    dropped = n_pairs - pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        without = 1 - (total - apart) / (span * dropped)
        chance_apart = expected / couples
        # Without any distance there is no kappa: the reasons below say so.
        kappa = 1 - (total / n_pairs) / chance_apart if chance_apart else 0.0
        expected_left, couples_left = left
        kappa_without = 1 - ((total - apart) / dropped) / (expected_left / couples_left)
    answers = group.value if group.own is None else np.concatenate([group.value, group.own])
    reason: Reason | None = None
    if n_items == 1:
        reason = "single_item"
    elif (answers == answers[0]).all():
        reason = "same_answer"
    return (
        _measure(float(agreement), None, n_items, n_pairs, without, resampling),
        _measure(
            float(kappa),
            reason,
            n_items,
            n_pairs,
            kappa_without,
            resampling,
            {"chance": float(1 - chance_apart / span)},
        ),
    )


def alpha_interval(group: Group, resampling: Resampling) -> Measure:
    """Krippendorff's alpha with squared differences: 1 - (n - 1) sum_u [(m s2 - s1^2) / (m - 1)] / (n S2 - S1^2)."""
    group = group.paired()
    if not len(group.value):
        return Measure(None, "nothing_to_compare", 0, 0, details={"metric": "interval"})
    value = group.value - fsum(group.value) / len(group.value)
    inverse = _counted_off(group.item)
    m = np.bincount(inverse).astype(np.float64)
    s1, s2 = np.bincount(inverse, weights=value), np.bincount(inverse, weights=value**2)
    inside = (m * s2 - s1**2) / (m - 1)

    def alpha(n: Any, observed: Any, total: Any, squares: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1 - (n - 1) * observed / (n * squares - total**2)

    n = m.sum()
    reason: Reason | None = "single_item" if len(m) == 1 else "same_answer" if np.ptp(group.value) == 0 else None
    observed, total, squares = fsum(inside), fsum(s1), fsum(s2)
    without = alpha(n - m, observed - inside, total - s1, squares - s2)
    pairs = int((m * (m - 1) / 2).sum())
    point = float(alpha(n, observed, total, squares)) if reason is None else 0.0
    return _measure(point, reason, len(m), pairs, without, resampling, {"metric": "interval"})


def mean(group: Group, resampling: Resampling) -> Measure:
    """The mean answer, every answer alike, items resampled."""
    if not len(group.value):
        return Measure(None, "no_labels", 0, None)
    inverse = _counted_off(group.item)
    m, s = np.bincount(inverse), np.bincount(inverse, weights=group.value)
    total, n = fsum(s), len(group.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (total - s) / (n - m)
    return _measure(total / n, None, len(m), None, without, resampling, {"n_labels": n}, most=None)


def _together(group: Group) -> tuple[Array, Array, Any, Any, tuple[Any, Any]]:
    inverse = _counted_off(group.item)
    order = np.lexsort((group.value, inverse))
    value, item = group.value[order], inverse[order]
    size = np.bincount(item)
    rank = np.arange(len(value)) - np.repeat(np.cumsum(size) - size, size)
    apart = np.bincount(item, weights=value * (2 * rank - size[item] + 1))
    to_all = _distance_sums(value, value)
    expected = fsum(to_all)
    total = float(len(value))
    expected_left = expected - 2 * np.bincount(item, weights=to_all) + 2 * apart
    return apart, size * (size - 1) / 2, expected, total**2, (expected_left, (total - size) ** 2)


def _against(group: Group) -> tuple[Array, Array, Any, Any, tuple[Any, Any]]:
    assert group.own is not None
    inverse = _counted_off(group.item)
    own = group.own[np.flatnonzero(np.diff(inverse, prepend=-1))]
    pairs = np.bincount(inverse).astype(np.float64)
    apart = np.bincount(inverse, weights=np.abs(group.own - group.value))
    theirs = _distance_sums(group.own, group.value)  # of each answer to every own answer, one per pair
    mine = _distance_sums(group.value, own)  # of each own answer to every answer
    expected = fsum(theirs)
    total = float(len(group.value))
    expected_left = expected - np.bincount(inverse, weights=theirs) - pairs * mine + pairs * apart
    return apart, pairs, expected, total**2, (expected_left, (total - pairs) ** 2)


def _counted_off(item: Array) -> Array:
    """The items of sorted codes numbered 0, 1, 2 ..."""
    numbered: Array = np.cumsum(np.diff(item, prepend=item[:1]) != 0)
    return numbered


def _distance_sums(points: Array, at: Array) -> Array:
    """The sum of distances from each of ``at`` to all ``points``."""
    ordered = np.sort(points)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    # Looked up in ascending order, since a search that jumps about waits for memory.
    order = np.argsort(at)
    value = at[order]
    k = np.searchsorted(ordered, value)
    total: Array = np.empty(len(at))
    total[order] = value * k - sums[k] + (sums[-1] - sums[k]) - value * (len(points) - k)
    return total


def _measure(
    value: float,
    reason: Reason | None,
    n_items: int,
    n_pairs: int | None,
    without: Array,
    resampling: Resampling,
    details: dict[str, Any] | None = None,
    most: float | None = 1.0,
) -> Measure:
    about = details or {}
    if reason is not None:
        return Measure(None, reason, n_items, n_pairs, details={k: v for k, v in about.items() if k != "chance"})
    if resampling.method == "none":
        return Measure(value, None, n_items, n_pairs, None, "not_asked", about)
    if n_items < FEWEST_ITEMS:
        return Measure(value, None, n_items, n_pairs, None, "too_few_items", about)
    left = without[np.isfinite(without)]
    if len(left) * 2 < n_items:
        return Measure(value, None, n_items, n_pairs, None, "too_many_undefined", about)
    spread = fsum((left - fsum(left) / len(left)) ** 2)
    half = t_quantile(1 - (1 - resampling.level) / 2, n_items - 1) * sqrt((n_items - 1) / n_items * spread)
    high = value + half if most is None else min(value + half, most)
    ends = Interval(value - half, high, resampling.level, "item-jackknife", n_items, n_items - len(left))
    return Measure(value, None, n_items, n_pairs, ends, None, about)
