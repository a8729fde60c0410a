"""Is this judge as good as another annotator? The annotators with each other are the ceiling, person by person.

The mean of Cohen's kappas over (judge, annotator) pairs minus the mean over annotator pairs, on the items that the judge
and two or more annotators answered. Never Fleiss' kappa against Cohen's: pooling charges leniency to one side only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.design import UNKNOWN, Design
from calibrate_plugin.calibration.kappas import Found, mean_kappas, named
from calibrate_plugin.calibration.panel import Panel
from calibrate_plugin.calibration.resampling import FEWEST_RARE
from calibrate_plugin.model import IntervalReason, Measure, Reason

Array = NDArray[Any]
Word = Literal["below the annotators", "like another annotator", "cannot tell yet", "no human ceiling"]
VerdictReason = Reason | IntervalReason | Literal["one_annotator", "rare_answer", "unanswered"]


@dataclass(frozen=True, slots=True)
class NamedKappa:
    """Cohen's kappa of two raters on the items of this comparison."""

    a: str
    b: str
    kappa: Measure


@dataclass(frozen=True, slots=True)
class Pairs:
    """One kind of pair: the mean of the defined kappas, each of them, and how many are undefined."""

    mean: Measure
    pairs: tuple[NamedKappa, ...]
    undefined: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the difference says, for these annotators only.

    ``word`` is None where there is no verdict, for ``reason``. Beside "cannot tell yet", ``more_items`` is how many more
    items would decide it if the difference stays as it is. Two reasons keep a judge whose difference is near enough from
    the favourable word: ``rare_answer``, a rater gave answers other than the most frequent one fewer than 5 times, so there
    was hardly anything to agree on; ``unanswered``, it does not hold once the items that the judge was asked about and left
    without an answer count as wrong.
    """

    word: Word | None
    reason: VerdictReason | None
    margin: float
    more_items: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A judge beside its humans. ``difference`` is judge-human minus human-human.

    ``weighted`` is the difference with items weighted by their inclusion probabilities, where the design is not random;
    the verdict then speaks of it. ``as_wrong`` takes the items that the judge was asked about and did not answer as
    answers that nobody gave; None where it answered all. ``annotators`` are those the numbers speak for.
    """

    judge: str
    annotators: tuple[str, ...]
    human_human: Pairs
    judge_human: Pairs
    difference: Measure
    weighted: Measure | None
    as_wrong: Measure | None
    unanswered: int
    verdict: Verdict


_CONTRAST = ("judge-human", "human-human")


def ceiling(
    panel: Panel, judge: int, resampling: Resampling, *, margin: float = 0.10, design: Design = UNKNOWN
) -> Ceiling:
    """The judge beside the annotators of ``panel``, and the verdict with ``margin`` (kappa points, above 0).

    >>> from calibrate_plugin.model import Scale
    >>> from calibrate_plugin.calibration.panel import panel
    >>> asha, ben = [0, 0, 1, 0], [0, 1, 1, 0]
    >>> small = panel(Scale("binary", ("pass", "fail")), {"Asha": asha, "Ben": ben}, {"judge": [0, 0, 1, 1]})
    >>> found = ceiling(small, 2, Resampling())
    >>> found.human_human.mean.value, found.judge_human.mean.value, found.difference.value, found.verdict.reason
    (0.5, 0.25, -0.25, 'too_few_items')
    """
    if not margin > 0:
        raise ValueError(f"margin is {margin}; give how far below the annotators still counts as like them, e.g. 0.10")
    resampling = resampling.about("ceiling", panel.name(judge))
    humans, sampled = panel.humans(), design.chosen(panel.n)
    answered = panel.own[judge] >= 0
    shared = answered & (humans >= 2) & sampled
    if not (humans >= 2).any():
        return _without_ceiling(panel, judge, resampling, margin)
    plain = _compare(panel, judge, panel.own[judge], shared, UNKNOWN, resampling)
    people = [a for a in panel.annotators if bool((panel.own[a][shared] >= 0).any())]
    weighted = None
    if design.weighted:
        found = _compare(panel, judge, panel.own[judge], shared, design, resampling.about("weighted"))
        weighted = _told(found.contrasts[_CONTRAST], weighted=True)
    left = panel.unanswered(judge) & (humans >= 2) & sampled
    as_wrong = None
    if left.any() and shared.any():
        own = np.where(left, panel.levels, panel.own[judge])
        found = _compare(panel, judge, own, shared | left, design, resampling.about("as wrong"), wrong=True)
        as_wrong = _told(found.contrasts[_CONTRAST], weighted=design.weighted)
    difference = plain.contrasts[_CONTRAST]
    names = [judge, *people]
    return Ceiling(
        judge=panel.name(judge),
        annotators=tuple(panel.name(a) for a in people),
        human_human=_pairs(panel, names, plain, "human-human"),
        judge_human=_pairs(panel, names, plain, "judge-human"),
        difference=difference,
        weighted=weighted,
        as_wrong=as_wrong,
        unanswered=int(left.sum()),
        verdict=verdict(weighted if weighted is not None else difference, margin, as_wrong=as_wrong, design=design),
    )


def verdict(
    difference: Measure, margin: float, *, as_wrong: Measure | None = None, design: Design = UNKNOWN
) -> Verdict:
    """What an interval of the difference says, checked in the order: below, like, cannot tell.

    >>> from calibrate_plugin.model import Interval
    >>> told = verdict(Measure(-.1, None, 100, None, Interval(-.306, .093, .95, "given")), .1)
    >>> told.word, told.more_items
    ('cannot tell yet', 273)
    """
    warnings = difference.warnings
    if design.lopsided:
        return Verdict(None, "no_weights", margin, None, warnings)
    if difference.value is None:
        return Verdict(None, difference.reason, margin, None, warnings)
    interval = difference.interval
    if interval is None:
        return Verdict(None, difference.interval_reason, margin, None, warnings)
    if interval.high < 0:
        return Verdict("below the annotators", None, margin, None, warnings)
    if interval.low > -margin:
        if "rare_answer" in warnings:
            rarest = difference.details.get("rarest", 0)
            more = ceil(difference.n_items * (FEWEST_RARE / rarest - 1)) if rarest else None
            return Verdict("cannot tell yet", "rare_answer", margin, more, warnings)
        if as_wrong is not None and (as_wrong.interval is None or as_wrong.interval.low <= -margin):
            return Verdict("cannot tell yet", "unanswered", margin, None, warnings)
        return Verdict("like another annotator", None, margin, None, warnings)
    # Either end may get across its line first: the upper one below 0, or the lower one above -margin.
    ways = [
        (interval.high - difference.value, -difference.value),
        (difference.value - interval.low, difference.value + margin),
    ]
    times = min((half / distance) ** 2 for half, distance in ways if distance > 1e-9)
    more = max(1, ceil(difference.n_items * times - 1e-9) - difference.n_items)
    return Verdict("cannot tell yet", None, margin, more, warnings)


def judges_together(panel: Panel, judges: Sequence[int], resampling: Resampling) -> Pairs | None:
    """Judge-judge pairs, on all items that two of them answered; None for a single judge."""
    if len(judges) < 2:
        return None
    at = sum(((panel.own[j] >= 0).astype(np.int32) for j in judges), np.zeros(panel.n, dtype=np.int32)) >= 2
    stratum, weight = UNKNOWN.of_items(at)
    table = named([panel.own[j][at] for j in judges], stratum, weight)
    pairs = [(i, k) for i in range(len(judges)) for k in range(i + 1, len(judges))]
    found = mean_kappas(panel, table, {"judge-judge": pairs}, pairs, resampling.about("judge-judge"))
    return _pairs(panel, judges, found, "judge-judge")


def _compare(
    panel: Panel,
    judge: int,
    own: Array,
    at: Array,
    design: Design,
    resampling: Resampling,
    *,
    wrong: bool = False,
) -> Found:
    people = [a for a in panel.annotators if bool((panel.own[a][at] >= 0).any())]
    stratum, weight = design.of_items(at)
    table = named([own[at], *(panel.own[a][at] for a in people)], stratum, weight)
    columns = range(1, len(people) + 1)
    beside = [(0, a) for a in columns]
    together = [(a, b) for a in columns for b in columns if a < b and _meet(table.answers, a, b)]
    casts = [(0, *two) for a, b in together for two in ((a, b), (b, a))]
    groups = {"judge-human": beside, "human-human": together}
    return mean_kappas(panel, table, groups, casts, resampling, [_CONTRAST], wrong=wrong)


def _without_ceiling(panel: Panel, judge: int, resampling: Resampling, margin: float) -> Ceiling:
    """No item has two annotators: the judge beside them is all there is."""
    at = (panel.own[judge] >= 0) & (panel.humans() > 0)
    people = [a for a in panel.annotators if bool((panel.own[a][at] >= 0).any())]
    stratum, weight = UNKNOWN.of_items(at)
    table = named([panel.own[judge][at], *(panel.own[a][at] for a in people)], stratum, weight)
    beside = [(0, a) for a in range(1, len(people) + 1)]
    found = mean_kappas(panel, table, {"judge-human": beside}, beside, resampling)
    nothing = Measure(None, "nothing_to_compare", 0, 0)
    return Ceiling(
        judge=panel.name(judge),
        annotators=tuple(panel.name(a) for a in people),
        human_human=Pairs(nothing, (), 0),
        judge_human=_pairs(panel, [judge, *people], found, "judge-human"),
        difference=nothing,
        weighted=None,
        as_wrong=None,
        unanswered=int((panel.unanswered(judge) & (panel.humans() > 0)).sum()),
        verdict=Verdict("no human ceiling", "one_annotator", margin),
    )


def _meet(answers: Array, a: int, b: int) -> bool:
    return bool(((answers[:, a] >= 0) & (answers[:, b] >= 0)).any())


def _pairs(panel: Panel, raters: Sequence[int], found: Found, group: str) -> Pairs:
    pairs = tuple(
        NamedKappa(panel.name(raters[a]), panel.name(raters[b]), found.kappas[a, b]) for a, b in found.groups[group]
    )
    return Pairs(found.means[group], pairs, found.undefined[group])


def _told(measure: Measure, *, weighted: bool) -> Measure:
    return replace(measure, details={**measure.details, "weighted": weighted})


__all__ = ["Ceiling", "NamedKappa", "Pairs", "Verdict", "Word", "ceiling", "judges_together", "verdict"]
