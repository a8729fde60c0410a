"""Cohen's kappas of pairs of named raters, their means, and differences of such means, all from the same items.

Every pair of raters has its own table, but an item enters many of them; so a resample draws items, and all tables and
means follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, point
from calibrate_plugin.agreement.statistics import Cohen
from calibrate_plugin.agreement.weights import weights_of
from calibrate_plugin.calibration.panel import Panel
from calibrate_plugin.calibration.resampling import (
    FEW_DIFFERENCES,
    FEWEST_RARE,
    draws,
    ends_of_draws,
    ends_of_pulls,
    pseudo_answers,
    quotient,
)
from calibrate_plugin.model import Interval, IntervalReason, Measure, Reason
from calibrate_plugin.ratings.counting import of_pair

Array = NDArray[Any]
Ends = tuple[Interval | None, IntervalReason | None]
Pair = tuple[int, int]

#: With more different patterns than this there are as many items, and the large-sample interval serves.
MOST_PATTERNS = 300
#: So it does with this many items and FEW_RARE answers beside each rater's most frequent one.
MANY_ITEMS, FEW_RARE = 5_000, 50
_WORK = 5e9


@dataclass(frozen=True, slots=True)
class Distances:
    """How far apart levels are (0 to 1). With ``wrong`` there is one level more, as far as can be from every other: no
    answer where one was asked for."""

    places: Array
    ordered: bool
    span: float
    swap: Array | None = None
    wrong: bool = False

    @property
    def levels(self) -> int:
        return len(self.places) + self.wrong

    def between(self, a: Array, b: Array) -> Array:
        """Elementwise, for level indices of one shape; -1 reads as anything."""
        if not self.ordered:
            return np.asarray(a != b, dtype=np.float64)
        places = np.append(self.places, np.nan) if self.wrong else self.places
        apart = np.abs(places[a] - places[b]) / self.span
        return np.where(a == b, 0.0, np.nan_to_num(apart, nan=1.0)) if self.wrong else apart

    def expected(self, p: Array) -> Array:
        """(..., q) how far each level is, on average, from an answer drawn with weights ``p`` (..., q); times their sum."""
        total = p.sum(axis=-1, keepdims=True)
        if not self.ordered:
            return np.asarray(total - p)
        known = p[..., : len(self.places)]
        below, moment = np.cumsum(known, axis=-1), np.cumsum(known * self.places, axis=-1)
        there = below[..., -1:]
        apart = self.places * (2 * below - there) + moment[..., -1:] - 2 * moment
        if not self.wrong:
            return np.asarray(apart / self.span)
        return np.concatenate([apart / self.span + (total - there), there], axis=-1)

    def margins(self, p: Array) -> Array:
        """Margins for chance: averaged over the swap where two responses are shuffled."""
        return p if self.swap is None else (p + p[..., self.swap]) / 2


def distances_of(panel: Panel, *, wrong: bool = False) -> Distances:
    scale = panel.scale
    if scale.kind == "rating":
        assert scale.low is not None and scale.high is not None
        span = float(scale.high - scale.low)
    else:
        span = float(len(scale.labels) - 1)
    swap = None
    if scale.kind == "preference" and not scale.fixed:
        swap = np.array([1, 0, *range(2, panel.levels + wrong)])
    return Distances(panel.places, scale.ordered, span, swap, wrong)


@dataclass(frozen=True, slots=True)
class Named:
    """Counted patterns of named answers: ``answers`` (P, R) each rater's level (-1: none), ``items`` (P,) how many items
    show them, with the ``stratum`` (P,) they lie in and the ``weight`` (P,) of each item (mean 1)."""

    answers: Array
    items: Array
    stratum: Array
    weight: Array

    @property
    def n(self) -> int:
        return int(self.items.sum())


def named(columns: Sequence[Array], stratum: Array, weight: Array) -> Named:
    """Items with equal answers counted together; ``columns`` are (N,) levels, one array per rater."""
    frame = pl.DataFrame(
        {**{f"r{i}": c for i, c in enumerate(columns)}, "stratum": stratum.astype(np.int64), "weight": weight}
    )
    keys = frame.columns
    counted = frame.group_by(keys).len().sort(keys)
    answers = counted.select(keys[: len(columns)]).to_numpy().astype(np.int64).reshape(counted.height, len(columns))
    items = counted["len"].to_numpy().astype(np.int64)
    weights = counted["weight"].to_numpy()
    total = float((items * weights).sum())
    _, strata = np.unique(counted["stratum"].to_numpy(), return_inverse=True)
    return Named(answers, items, strata.reshape(-1), weights * (items.sum() / total) if total else weights)


@dataclass(frozen=True, slots=True)
class Found:
    """Kappas of pairs, their means by group, and contrasts (first group's mean minus the second's)."""

    kappas: Mapping[Pair, Measure]
    means: Mapping[str, Measure]
    contrasts: Mapping[tuple[str, str], Measure]
    undefined: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


def mean_kappas(
    panel: Panel,
    table: Named,
    groups: Mapping[str, Sequence[Pair]],
    casts: Sequence[tuple[int, ...]],
    resampling: Resampling,
    contrasts: Sequence[tuple[str, str]] = (),
    *,
    wrong: bool = False,
) -> Found:
    """The mean of Cohen's kappas over each group of pairs of raters (columns of ``table``), and differences of means.

    Undefined pairs are left out and counted. ``casts`` are the sets of raters that a pseudo-item may have answers of.
    """
    distances = distances_of(panel, wrong=wrong)
    if panel.scale.levels is None:
        table, distances = _without_unused(table, distances)
    pairs = list(dict.fromkeys(p for group in groups.values() for p in group))
    sums = _PairSums(table, pairs, distances)
    measured = [_pair_measure(panel, table, sums, k, wrong) for k in range(len(pairs))]
    defined = np.array([m.value is not None for m in measured], dtype=bool)
    members = {name: np.array([pairs.index(p) for p in group], dtype=np.int64) for name, group in groups.items()}
    inside = {name: at[defined[at]] if len(at) else at for name, at in members.items()}
    values = {name: float(np.mean([measured[k].value for k in at])) if len(at) else None for name, at in inside.items()}
    ends = _ends(table, sums, inside, casts, resampling, contrasts, measured, values)
    kappas = {}
    for k, pair in enumerate(pairs):
        interval, why = ends.get(k, (None, None))
        kappas[pair] = replace(measured[k], interval=interval, interval_reason=why)
    means: dict[str, Measure] = {}
    for name, at in members.items():
        interval, why = ends.get(name, (None, None))
        reason = None if values[name] is not None else _first_reason([measured[k] for k in at])
        means[name] = Measure(
            values[name],
            reason,
            _items_of(table, [pairs[k] for k in inside[name]]),
            sum(measured[k].n_items for k in inside[name]),
            interval,
            why,
            {"kind": "mean of cohen", "pairs": len(inside[name]), "undefined_pairs": len(at) - len(inside[name])},
        )
    rarest = _rarest(table, len(distances.places))
    differences: dict[tuple[str, str], Measure] = {}
    for first, second in contrasts:
        a, b = values[first], values[second]
        interval, why = ends.get((first, second), (None, None))
        both = None if a is None or b is None else a - b
        differing = _differing(table, groups[first])
        differences[first, second] = Measure(
            both,
            None if both is not None else means[first if a is None else second].reason,
            table.n,
            None,
            interval,
            why,
            {"rarest": rarest, "differing": differing},
            () if both is None else _handful(rarest, differing),
        )
    undefined = {name: len(members[name]) - len(at) for name, at in inside.items()}
    return Found(kappas, means, differences, undefined, groups)


def _without_unused(table: Named, distances: Distances) -> tuple[Named, Distances]:
    """Of the many values of a rating without a step only those that occur in this table."""
    answers, q = table.answers, len(distances.places)
    used = np.unique(answers[(answers >= 0) & (answers < q)])
    fresh = np.full(q + 2, -1, dtype=np.int64)  # the last two: a wrong answer, and none
    fresh[used] = np.arange(len(used))
    fresh[q] = len(used)
    return replace(table, answers=fresh[answers]), replace(distances, places=distances.places[used])


class _PairSums:
    """What a kappa is made of, as sums over items: (P, K, 2 + 2 q) for K pairs of columns of the table."""

    def __init__(self, table: Named, pairs: Sequence[Pair], distances: Distances) -> None:
        self.table = table
        self.pairs = pairs
        self.distances = distances
        self.q = distances.levels

    @cached_property
    def features(self) -> Array:
        return self.of(self.table.answers)

    def of(self, answers: Array) -> Array:
        """``answers`` (E, R) -> (E, K, 2 + 2 q): distance, pairs, own margin, other margin."""
        e, q = len(answers), self.q
        out = np.zeros((e, len(self.pairs), 2 + 2 * q))
        rows = np.arange(e)
        for k, (a, b) in enumerate(self.pairs):
            mine, theirs = answers[:, a], answers[:, b]
            both = (mine >= 0) & (theirs >= 0)
            out[:, k, 0] = self.distances.between(mine, theirs) * both
            out[:, k, 1] = both
            at = rows[both]
            out[at, k, 2 + mine[both]] = 1
            out[at, k, 2 + q + theirs[both]] = 1
        return out

    def kappa(self, sums: Array) -> Array:
        """(..., K, 2 + 2 q) -> (..., K), NaN where undefined."""
        apart, pairs = sums[..., 0], sums[..., 1]
        mine = self.distances.margins(sums[..., 2 : 2 + self.q])
        theirs = self.distances.margins(sums[..., 2 + self.q :])
        chance = (mine * self.distances.expected(theirs)).sum(axis=-1)
        # A margin of one value leaves rounding dust where the exact sum is 0.
        chance = np.where(chance > 1e-9 * pairs * pairs, chance, 0.0)
        return 1 - quotient(apart * pairs, chance)

    def totals(self, k: int) -> Array:
        """The sums of one pair over all items, weighted."""
        table = self.table
        a, b = self.pairs[k]
        mine, theirs = table.answers[:, a], table.answers[:, b]
        both = (mine >= 0) & (theirs >= 0)
        m = (table.items * table.weight)[both]
        return np.concatenate(
            [
                [float((m * self.distances.between(mine[both], theirs[both])).sum()), float(m.sum())],
                np.bincount(mine[both], weights=m, minlength=self.q),
                np.bincount(theirs[both], weights=m, minlength=self.q),
            ]
        )

    def pulls(self, k: int) -> Array:
        """(P,) what one item of each pattern adds to the error of the kappa of pair k (its influence over its share)."""
        a, b = self.pairs[k]
        mine, theirs = self.table.answers[:, a], self.table.answers[:, b]
        both = (mine >= 0) & (theirs >= 0)
        sums = self.totals(k)
        n = sums[1]
        d = self.distances
        p, r = d.margins(sums[2 : 2 + self.q]) / n, d.margins(sums[2 + self.q :]) / n
        from_theirs, from_mine = d.expected(r), d.expected(p)
        observed, chance = sums[0] / n, float((p * from_theirs).sum())
        from_theirs, from_mine = d.margins(from_theirs), d.margins(from_mine)
        moved = from_theirs[mine] + from_mine[theirs] - 2 * chance
        apart = d.between(mine, theirs) - observed
        pull = np.where(both, (observed * moved / chance - apart) / (chance * n), 0.0)
        return np.asarray(pull * self.table.weight)


def _pair_measure(panel: Panel, table: Named, sums: _PairSums, k: int, wrong: bool) -> Measure:
    a, b = sums.pairs[k]
    mine, theirs = table.answers[:, a], table.answers[:, b]
    both = (mine >= 0) & (theirs >= 0)
    n = int(table.items[both].sum())
    about = {"kind": "cohen", "weights": "linear" if panel.scale.ordered else "identity"}
    used = np.union1d(mine[both], theirs[both])
    reason: Reason | None = None
    if n == 0:
        reason = "nothing_to_compare"
    elif n == 1:
        reason = "single_item"
    elif len(used) == 1:
        reason = "same_answer"
    if reason is not None:
        return Measure(None, reason, n, n, details=about)
    if panel.scale.levels is not None and not wrong and (table.weight == 1).all():
        q = panel.levels
        cells = np.bincount(mine[both] * q + theirs[both], weights=table.items[both], minlength=q * q)
        value = point(of_pair(cells.reshape(q, q).astype(np.int64)), Cohen(weights_of(panel.scale)))
    else:
        value = float(sums.kappa(sums.totals(k)))
    return Measure(value, None, n, n, details=about)


def _ends(
    table: Named,
    sums: _PairSums,
    inside: Mapping[str, Array],
    casts: Sequence[tuple[int, ...]],
    resampling: Resampling,
    contrasts: Sequence[tuple[str, str]],
    measured: Sequence[Measure],
    values: Mapping[str, float | None],
) -> dict[Any, Ends]:
    """The interval of each pair (by its index), mean (by its name) and contrast (by its two names)."""
    asked = [c for c in contrasts if values[c[0]] is not None and values[c[1]] is not None]
    wanted = [
        *(k for k, m in enumerate(measured) if m.value is not None),
        *(n for n, v in values.items() if v is not None),
    ]
    n = table.n
    if resampling.method == "none":
        return dict.fromkeys([*wanted, *asked], (None, "not_asked"))
    if n < FEWEST_ITEMS:
        return dict.fromkeys([*wanted, *asked], (None, "too_few_items"))
    width = len(sums.pairs) * (2 + 2 * sums.q)
    work = float(resampling.resamples) * len(table.items) * width
    found: dict[Any, Ends] = {}
    many = n >= MANY_ITEMS and _rarest(table, len(sums.distances.places)) >= FEW_RARE
    if resampling.method == "item-jackknife" or many or len(table.items) > MOST_PATTERNS or work > _WORK:
        pulls = {k: sums.pulls(k) for k, m in enumerate(measured) if m.value is not None}
        mean = {name: np.mean([pulls[k] for k in at], axis=0) for name, at in inside.items() if len(at)}
        for k, pull in pulls.items():
            value = measured[k].value
            assert value is not None
            few = measured[k].n_items < FEWEST_ITEMS
            found[k] = (
                (None, "too_few_items")
                if few
                else ends_of_pulls(value, pull, table.items, resampling, table.stratum, high=1)
            )
        for name, pull in mean.items():
            found[name] = ends_of_pulls(values[name] or 0.0, pull, table.items, resampling, table.stratum, high=1)
        for a, b in asked:
            difference = (values[a] or 0.0) - (values[b] or 0.0)
            found[a, b] = ends_of_pulls(difference, mean[a] - mean[b], table.items, resampling, table.stratum)
        return found
    kappas = _replicates(table, sums, casts, sum(len(at) > 0 for at in inside.values()), resampling)
    averages = {name: _mean_of(kappas[:, at]) for name, at in inside.items() if len(at)}
    for k, m in enumerate(measured):
        if m.value is not None:
            few = m.n_items < FEWEST_ITEMS
            found[k] = (None, "too_few_items") if few else ends_of_draws(kappas[:, k], m.n_items, resampling)
    for name, replicates in averages.items():
        found[name] = ends_of_draws(replicates, n, resampling)
    for a, b in asked:
        found[a, b] = ends_of_draws(averages[a] - averages[b], n, resampling)
    return found


def _replicates(
    table: Named, sums: _PairSums, casts: Sequence[tuple[int, ...]], means: int, resampling: Resampling
) -> Array:
    """(B, K) the kappa of each pair in each resample, NaN where it is undefined there.

    Three pseudo-items for each of the ``means`` that are compared: a judge that never erred on 50 items beside people who
    did would else look better than they are for sure.
    """
    pseudo = 3.0 * means if resampling.method == "item-bootstrap+3" and casts else 0.0
    rng = resampling.generator()
    flat = sums.features.reshape(len(table.items), -1)
    width = flat.shape[1]
    strata = int(table.stratum.max()) + 1
    spread = [_given(table, h, sums.distances) for h in range(strata)]
    counts = np.bincount(table.stratum, weights=table.items, minlength=strata)
    share = [float(table.weight[table.stratum == h][0]) if (table.stratum == h).any() else 1.0 for h in range(strata)]
    even = bool((table.weight == 1).all())
    kappas = []
    for real, extra in draws(table.items, table.stratum, rng, resampling.resamples, pseudo, width):
        totals = (real if even else real * table.weight) @ flat
        for h in range(strata):
            owner = np.repeat(np.arange(len(extra)), extra[:, h])
            if len(owner):
                made = _pseudo_items(table.answers.shape[1], casts, spread[h], int(counts[h]), len(owner), rng)
                first = np.flatnonzero(np.diff(owner, prepend=-1))
                totals[owner[first]] += share[h] * np.add.reduceat(sums.of(made).reshape(len(owner), -1), first)
        kappas.append(sums.kappa(totals.reshape(len(real), len(sums.pairs), -1)))
    return np.concatenate(kappas)


def _pseudo_items(
    raters: int, casts: Sequence[tuple[int, ...]], given: Array, n: int, count: int, rng: np.random.Generator
) -> Array:
    """(count, R) answers of pseudo-items, each of the raters of one of ``casts``."""
    cast = np.array(casts)[rng.integers(len(casts), size=count)]
    answers = np.full((count, raters), -1, dtype=np.int64)
    np.put_along_axis(answers, cast, pseudo_answers(given, n, (count, cast.shape[1]), rng), axis=1)
    return answers


def _given(table: Named, stratum: int, distances: Distances) -> Array:
    """(q,) how often each level was given in a stratum; what was not answered at all is no level of its own."""
    at = table.stratum == stratum
    answers, items = table.answers[at], table.items[at]
    m = np.broadcast_to(items[:, None], answers.shape)
    q = len(distances.places)
    told = (answers >= 0) & (answers < q)
    return np.bincount(answers[told], weights=m[told], minlength=q)


def _mean_of(kappas: Array) -> Array:
    """Mean over the pairs that are defined in a resample."""
    fine = np.isfinite(kappas)
    return quotient(np.where(fine, kappas, 0).sum(axis=1), fine.sum(axis=1))


def _items_of(table: Named, pairs: Sequence[Pair]) -> int:
    enters = np.zeros(len(table.items), dtype=bool)
    for a, b in pairs:
        enters |= (table.answers[:, a] >= 0) & (table.answers[:, b] >= 0)
    return int(table.items[enters].sum())


def _rarest(table: Named, levels: int) -> float:
    """Of the raters' answers other than their own most frequent one, the smallest number: a kappa hangs on them. Weighted
    items count for as many as would be as sure (Kish)."""
    fewest = float(table.n)
    for column in table.answers.T:
        told = (column >= 0) & (column < levels)
        if not told.any():
            continue
        m, w, level = table.items[told], table.weight[told], column[told]
        rest = level != int(np.bincount(level, weights=m * w).argmax())
        squares = float((m * w * w)[rest].sum())
        fewest = min(fewest, float((m * w)[rest].sum()) ** 2 / squares if squares else 0.0)
    return fewest


def _differing(table: Named, pairs: Sequence[Pair]) -> float:
    """On how many items the raters of ``pairs`` differ; an item counts by the share of its pairs that do."""
    differ, told = np.zeros(len(table.items)), np.zeros(len(table.items))
    for a, b in pairs:
        mine, theirs = table.answers[:, a], table.answers[:, b]
        both = (mine >= 0) & (theirs >= 0)
        told += both
        differ += both & (mine != theirs)
    return float(table.items @ np.divide(differ, told, out=np.zeros_like(differ), where=told > 0))


def _handful(rarest: float, differing: float) -> tuple[str, ...]:
    """The warnings of a difference of kappas that hangs on a few items."""
    return (
        *(("rare_answer",) if rarest < FEWEST_RARE else ()),
        *(("handful",) if min(rarest, differing) < FEW_DIFFERENCES else ()),
    )


def _first_reason(measures: Sequence[Measure]) -> Reason:
    """Of several undefined pairs the reason nearest to a number."""
    seen = {m.reason for m in measures}
    order: tuple[Reason, ...] = ("same_answer", "single_item", "nothing_to_compare")
    return next((r for r in order if r in seen), "nothing_to_compare")


__all__ = ["Distances", "Found", "Named", "distances_of", "mean_kappas", "named"]
