"""Two judges, or two versions of one, on the same items: which is nearer to the people, and is the difference real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt
from statistics import NormalDist
from typing import Any

from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling
from calibrate_plugin.calibration.design import UNKNOWN, Design
from calibrate_plugin.calibration.gold import DECIDED, Gold
from calibrate_plugin.calibration.kappas import mean_kappas, named
from calibrate_plugin.calibration.panel import Panel
from calibrate_plugin.model import Interval, Measure

Array = NDArray[Any]
#: Above this many discordant items the binomial sum is taken from its continuous form.
_MOST_SUMMED = 2_000


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Judge ``a`` and judge ``b`` on the items that both answered.

    ``kappa_difference``: a's mean Cohen kappa with the annotators minus b's, items resampled. Against gold:
    ``accuracy_difference`` (a minus b), the discordant items ``only_a`` and ``only_b`` right, and McNemar's exact two-sided
    ``p_value``; None where there is no gold. ``gold_kappa_difference``: the same for kappa against the gold.
    Where the design is not random the kappa differences are design-weighted.
    """

    a: str
    b: str
    n_items: int
    kappa_difference: Measure
    accuracy_difference: Measure | None = None
    gold_kappa_difference: Measure | None = None
    only_a: int | None = None
    only_b: int | None = None
    p_value: float | None = None


def side_by_side(
    panel: Panel, judges: Sequence[int], resampling: Resampling, *, gold: Gold | None = None, design: Design = UNKNOWN
) -> tuple[JudgePair, ...]:
    """Every two of ``judges``, first against second."""
    pairs = [(a, b) for i, a in enumerate(judges) for b in judges[i + 1 :]]
    return tuple(_pair(panel, a, b, resampling, gold, design) for a, b in pairs)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p value of the discordant items (McNemar 1947): as often right alone, by a fair coin?

    >>> round(mcnemar(12, 4), 4), round(mcnemar(9, 1), 4), mcnemar(0, 0)
    (0.0768, 0.0215, 1.0)
    """
    n, fewer = only_a + only_b, min(only_a, only_b)
    if n <= _MOST_SUMMED:
        return min(1.0, float(Fraction(2 * sum(comb(n, i) for i in range(fewer + 1)), 2**n)))
    from scipy.special import bdtr

    return min(1.0, float(2 * bdtr(fewer, n, 0.5)))


def paired_difference(only_a: int, only_b: int, n: int, level: float) -> Interval:
    """The interval of a difference of two shares on the same n items (Bonett and Price 2012: one more of each discordant).

    >>> ends = paired_difference(12, 4, 100, 0.95)
    >>> round(ends.low, 3), round(ends.high, 3)
    (-0.002, 0.159)
    """
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    p, q = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = z * sqrt((p + q - (p - q) ** 2) / (n + 2))
    return Interval(max(-1.0, p - q - half), min(1.0, p - q + half), level, "bonett-price")


def _pair(panel: Panel, a: int, b: int, resampling: Resampling, gold: Gold | None, design: Design) -> JudgePair:
    resampling = resampling.about("side by side", panel.name(a), panel.name(b))
    both = (panel.own[a] >= 0) & (panel.own[b] >= 0) & design.chosen(panel.n)
    shared = both & (panel.humans() > 0)
    people = [r for r in panel.annotators if bool((panel.own[r][shared] >= 0).any())]
    stratum, weight = design.of_items(shared)
    table = named([panel.own[r][shared] for r in (a, b, *people)], stratum, weight)
    columns = range(2, 2 + len(people))
    groups = {"a": [(0, c) for c in columns], "b": [(1, c) for c in columns]}
    casts = [(0, 1, c) for c in columns]
    contrast = ("a", "b")
    found = mean_kappas(panel, table, groups, casts, resampling, [contrast])
    told = JudgePair(panel.name(a), panel.name(b), int(both.sum()), found.contrasts[contrast])
    if gold is None:
        return told
    known = both & (gold.state == DECIDED) & (gold.level >= 0)
    n = int(known.sum())
    if not n or panel.scale.levels is None:
        reason = "not_applicable" if panel.scale.levels is None else "no_gold"
        nothing = Measure(None, "no_gold" if reason == "no_gold" else "not_applicable", n, None)
        return JudgePair(told.a, told.b, told.n_items, told.kappa_difference, nothing, nothing)
    right_a, right_b = (panel.own[r][known] == gold.level[known] for r in (a, b))
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    few = n < FEWEST_ITEMS
    accuracy = Measure(
        (only_a - only_b) / n,
        None,
        n,
        None,
        None if few or resampling.method == "none" else paired_difference(only_a, only_b, n, resampling.level),
        "too_few_items" if few else "not_asked" if resampling.method == "none" else None,
    )
    stratum, weight = design.of_items(known)
    table = named([panel.own[a][known], panel.own[b][known], gold.level[known]], stratum, weight)
    against = {"a": [(0, 2)], "b": [(1, 2)]}
    kappas = mean_kappas(panel, table, against, [(0, 1, 2)], resampling.about("gold"), [contrast])
    return JudgePair(
        told.a,
        told.b,
        told.n_items,
        told.kappa_difference,
        accuracy,
        kappas.contrasts[contrast],
        only_a,
        only_b,
        mcnemar(only_a, only_b),
    )


__all__ = ["JudgePair", "mcnemar", "paired_difference", "side_by_side"]
