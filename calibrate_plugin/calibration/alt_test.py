"""May the judge stand in for a person? The alternative annotator test (Calderon, Reichart and Dror, ACL 2025).

Each annotator in turn is left out, and on every item the judge and the annotator are scored against the remaining people.
The judge wins over an annotator where the annotator is better on less than a share epsilon more of the items than the
judge, tested one-sided and corrected for several annotators (Benjamini and Yekutieli 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, t_probability
from calibrate_plugin.calibration.panel import Panel
from calibrate_plugin.calibration.resampling import ends_of_pulls
from calibrate_plugin.model import Measure, Reason

Array = NDArray[Any]
#: With fewer items per annotator than this the t test's normality is not to be leaned on.
FEWEST_FOR_T = 30


@dataclass(frozen=True, slots=True)
class AnnotatorTest:
    """The judge against one annotator, on the ``n_items`` items that the judge, the annotator and somebody else answered.

    ``human_better``, ``judge_better``, ``ties``: items. ``mean`` and ``sd`` are of d = (annotator at least as good) - (judge
    at least as good). ``statistic`` is t, or Wilcoxon's sum of positive ranks. ``threshold`` is the corrected one for this
    ``p_value``. ``advantage`` is the share of items on which the judge is at least as good.
    """

    annotator: str
    n_items: int
    human_better: int
    judge_better: int
    ties: int
    mean: float
    sd: float
    test: Literal["t", "wilcoxon"]
    statistic: float | None
    p_value: float | None
    threshold: float
    rejected: bool
    advantage: float


@dataclass(frozen=True, slots=True)
class AltTest:
    """``winning_rate``: the share of annotators over whom the judge wins; ``advantage`` the mean of theirs. ``passed`` where
    the judge wins over at least half of them; None where there is no test, for ``reason``."""

    judge: str
    epsilon: float
    q: float
    winning_rate: Measure
    advantage: Measure
    annotators: tuple[AnnotatorTest, ...]
    passed: bool | None
    reason: Reason | None


def alt_test(panel: Panel, judge: int, resampling: Resampling, *, epsilon: float = 0.15, q: float = 0.05) -> AltTest:
    """The test of one judge against three annotators or more.

    ``epsilon`` is what a person costs more than a judge, in share of items: .2 for experts, .15 for skilled people, .1 for a
    crowd; ``q`` the false discovery rate. Categories are scored by the share of people who say the same, ordered scales by
    the root mean squared distance to them.
    """
    if not 0 <= epsilon < 1:
        raise ValueError(f"epsilon is {epsilon}; give a share of items from 0 to below 1, e.g. 0.15")
    rows = [(a, *_compare(panel, judge, a)) for a in panel.annotators]
    rows = [row for row in rows if len(row[1])]
    if len(rows) < 3:
        nothing = Measure(None, "too_few_annotators", 0, None)
        return AltTest(panel.name(judge), epsilon, q, nothing, nothing, (), None, "too_few_annotators")
    tests = [_test(d, epsilon) for _, _, d in rows]
    thresholds, rejected = benjamini_yekutieli([p for _, _, p in tests], q)
    annotators = []
    for (a, _, d), (name, statistic, p), threshold, won in zip(rows, tests, thresholds, rejected, strict=True):
        annotators.append(
            AnnotatorTest(
                annotator=panel.name(a),
                n_items=len(d),
                human_better=int((d > 0).sum()),
                judge_better=int((d < 0).sum()),
                ties=int((d == 0).sum()),
                mean=float(d.mean()),
                sd=float(d.std(ddof=1)) if len(d) > 1 else 0.0,
                test=name,
                statistic=statistic,
                p_value=p,
                threshold=threshold,
                rejected=won,
                advantage=float((d <= 0).mean()),
            )
        )
    n_items = int(np.unique(np.concatenate([at for _, at, _ in rows])).size)
    rate = sum(rejected) / len(rejected)
    few = min(t.n_items for t in annotators) < FEWEST_ITEMS
    return AltTest(
        judge=panel.name(judge),
        epsilon=epsilon,
        q=q,
        winning_rate=Measure(
            rate,
            None,
            n_items,
            None,
            None,
            "too_few_items" if few else "not_applicable",
            {"won": sum(rejected), "of": len(rejected)},
        ),
        advantage=_advantage(panel.n, rows, n_items, resampling),
        annotators=tuple(annotators),
        passed=None if few else rate >= 0.5,
        reason=None,
    )


def benjamini_yekutieli(p_values: list[float | None], q: float) -> tuple[list[float], list[bool]]:
    """The threshold of each p value and whether its hypothesis is rejected; an undefined one (None) never is.

    >>> thresholds, rejected = benjamini_yekutieli([.0008, .02896, .4510], .05)
    >>> [round(t, 5) for t in thresholds], rejected
    ([0.00909, 0.01818, 0.02727], [True, False, False])
    """
    m = len(p_values)
    harmonic = sum(1 / i for i in range(1, m + 1))
    order = sorted(range(m), key=lambda i: (inf if p_values[i] is None else p_values[i], i))
    thresholds, last = [0.0] * m, -1
    for rank, i in enumerate(order):
        thresholds[i] = (rank + 1) * q / (m * harmonic)
        p = p_values[i]
        if p is not None and p <= thresholds[i]:
            last = rank
    rejected = [False] * m
    for rank, i in enumerate(order):
        rejected[i] = rank <= last and p_values[i] is not None
    return thresholds, rejected


def _compare(panel: Panel, judge: int, annotator: int) -> tuple[Array, Array]:
    """The items on which both can be scored against somebody else, and d (1, 0 or -1) on each."""
    own, machine = panel.own[annotator], panel.own[judge]
    at = np.flatnonzero((own >= 0) & (machine >= 0))
    others = [r for r in panel.annotators if r != annotator]
    count = np.zeros(len(at), dtype=np.int64)
    # Both meet the same people, so sums rank them as shares and root means would, without rounding.
    human: Array = np.zeros(len(at))
    judged: Array = np.zeros(len(at))
    ordered = panel.scale.ordered
    mine, its = panel.places[own[at]], panel.places[machine[at]]
    for other in others:
        theirs = panel.own[other][at]
        there = theirs >= 0
        count += there
        if ordered:
            place = panel.places[theirs]
            human -= np.where(there, (mine - place) ** 2, 0)
            judged -= np.where(there, (its - place) ** 2, 0)
        else:
            human += there & (theirs == own[at])
            judged += there & (theirs == machine[at])
    known = count > 0
    apart = human[known] - judged[known]
    if ordered:  # distances of uneven values carry rounding, ties must not
        scale = np.abs(human[known]) + np.abs(judged[known]) + 1e-300
        apart = np.where(np.abs(apart) <= 1e-12 * scale, 0, apart)
    return at[known], np.sign(apart).astype(np.int64)


def _test(d: Array, epsilon: float) -> tuple[Literal["t", "wilcoxon"], float | None, float | None]:
    n = len(d)
    if n < FEWEST_FOR_T:
        statistic, p = wilcoxon_less(d - epsilon)
        return "wilcoxon", statistic, p
    sd = float(d.std(ddof=1))
    apart = float(d.mean()) - epsilon
    if sd == 0:
        # All items alike: the mean is certain. Exactly at epsilon nothing is shown.
        return "t", None if apart == 0 else inf * apart, None if apart == 0 else 0.0 if apart < 0 else 1.0
    t = apart / (sd / sqrt(n))
    return "t", t, t_probability(t, n - 1)


def wilcoxon_less(values: Array) -> tuple[float | None, float | None]:
    """Wilcoxon's signed-rank test that ``values`` lie below 0: the sum of the positive ones' ranks and its exact p value.

    Zeros are left out; equal sizes share their ranks; the p value is over all signs of the ranks as they are. None where
    every value is 0.

    >>> wilcoxon_less(np.array([-1., -2., -3., -4., 0.5]))
    (1.0, 0.0625)
    """
    known = values[np.abs(values) > 1e-12]
    if not len(known):
        return None, None
    size = np.round(np.abs(known), 12)
    _, inverse, counts = np.unique(size, return_inverse=True, return_counts=True)
    twice = (2 * np.cumsum(counts) - counts + 1)[inverse.reshape(-1)]  # twice the midrank, a whole number
    ways = np.zeros(int(twice.sum()) + 1)
    ways[0] = 1.0
    for rank in twice:
        ways[rank:] = (ways[rank:] + ways[: len(ways) - rank]) / 2 if rank else ways
        ways[:rank] /= 2
    positive = int(twice[known > 0].sum())
    return positive / 2, float(min(1.0, ways[: positive + 1].sum()))


def _advantage(n: int, rows: list[tuple[int, Array, Array]], n_items: int, resampling: Resampling) -> Measure:
    value = float(np.mean([(d <= 0).mean() for _, _, d in rows]))
    pulls = np.zeros(n)
    entered = np.zeros(n, dtype=bool)
    for _, at, d in rows:
        won = d <= 0
        pulls[at] += (won - won.mean()) / len(d) / len(rows)
        entered[at] = True
    ends, why = ends_of_pulls(value, pulls[entered], np.ones(n_items, dtype=np.int64), resampling, low=0, high=1)
    return Measure(value, None, n_items, None, ends, why)


__all__ = ["AltTest", "AnnotatorTest", "alt_test", "benjamini_yekutieli", "wilcoxon_less"]
