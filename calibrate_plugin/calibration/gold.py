"""A judge against gold: an expert's answers, the annotators' majority, or adjudicated answers.

Everything is counted in one table (judge's level against gold level), whose margin of failures stands beside it: both
ways of treating them are told, left out and as wrong. Ties of the annotators are a state that is counted, not a label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement import continuous
from calibrate_plugin.agreement.compare import bin_names
from calibrate_plugin.agreement.estimate import Resampling, estimate
from calibrate_plugin.agreement.statistics import Agreement, Cohen, SpecificAgreement, Statistic, reason_of
from calibrate_plugin.agreement.weights import Weights, weights_of, whole
from calibrate_plugin.calibration.design import UNKNOWN, Design, Stratum, weighted_estimate
from calibrate_plugin.calibration.errors import (
    AbsoluteError,
    Bias,
    Errors,
    Pearson,
    Spearman,
    WithinOne,
    errors_of_values,
    spearman_of_values,
)
from calibrate_plugin.calibration.panel import JudgeCoverage, Panel, coverage, share_of
from calibrate_plugin.calibration.resampling import ends_of_pulls
from calibrate_plugin.model import Counts, Measure, Reason
from calibrate_plugin.ratings.counting import Patterns, canonical, of_pair

Array = NDArray[Any]
GoldRule = Literal["single", "majority", "adjudicated"]

NO_ITEM, DECIDED, TIED, TOO_FEW = 0, 1, 2, 3
#: Above this many levels every cell as a number of its own costs more than it tells; ranks are then handled by value.
_MOST_RANKED = 11
_BINS = 10


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold answer of each item: ``level`` (N,) index into the panel's places (-1: none), ``value`` (N,) its place
    (NaN: none), ``state`` (N,) one of NO_ITEM, DECIDED, TIED, TOO_FEW. ``source`` says whose answers it is made of;
    ``resolved`` of them are of people who were asked because the annotators disagreed."""

    rule: GoldRule
    source: str
    level: Array
    value: Array
    state: Array
    resolved: int = 0

    @property
    def counts(self) -> dict[str, int]:
        found = np.bincount(self.state, minlength=4)
        return {"decided": int(found[DECIDED]), "tied": int(found[TIED]), "too_few": int(found[TOO_FEW])}


def single(panel: Panel, rater: int) -> Gold:
    """One expert's answers are the gold."""
    return _gold(panel, "single", panel.name(rater), panel.own[rater], np.zeros(panel.n, dtype=bool))


def adjudicated(panel: Panel, ruled: Array | None = None) -> Gold:
    """The answers of the sources of gold; an item on which two of them differ is tied. ``ruled`` (N,) are the levels that
    rulings on disagreements gave (-1: none): those stand whatever else was said."""
    level: Array = np.full(panel.n, -1, dtype=np.int64)
    tied: Array = np.zeros(panel.n, dtype=bool)
    for rater in panel.golds:
        own = panel.own[rater]
        tied |= (level >= 0) & (own >= 0) & (own != level)
        level = np.where(level >= 0, level, own)
    if ruled is not None:
        level, tied = np.where(ruled >= 0, ruled, level), tied & (ruled < 0)
    names = ", ".join(panel.name(r) for r in panel.golds)
    return _gold(panel, "adjudicated", names, np.where(tied, -1, level), tied)


def majority(panel: Panel, least: int = 2) -> Gold:
    """What most annotators said, on ordered scales the middle of what they said; ``least`` answers at least.

    >>> from calibrate_plugin.model import Scale
    >>> from calibrate_plugin.calibration.panel import panel
    >>> three = panel(Scale("nominal", ("a", "b", "c")), {"x": [0, 0, 0], "y": [0, 1, None], "z": [1, 2, None]})
    >>> majority(three).counts
    {'decided': 1, 'tied': 1, 'too_few': 1}
    """
    if least < 2:
        raise ValueError(f"a majority of {least} is one person's answer; name that person as the single expert instead")
    humans = panel.humans()
    some, enough = humans > 0, humans >= least
    answers = np.array([panel.own[a] for a in panel.annotators], dtype=np.int32).reshape(len(panel.annotators), panel.n)
    if panel.scale.ordered:
        level, value, tied = _median(panel, answers, humans)
    else:
        counts = np.stack([(answers == k).sum(axis=0) for k in range(panel.levels)])
        most = counts.max(axis=0, initial=0)
        level = counts.argmax(axis=0)
        tied = ((counts == most).sum(axis=0) > 1) & some
        value = panel.places[level]
    names = ", ".join(panel.name(a) for a in panel.annotators)
    decided = enough & ~tied
    state = np.where(decided, DECIDED, np.where(enough & tied, TIED, np.where(some, TOO_FEW, NO_ITEM)))
    return Gold("majority", names, np.where(decided, level, -1), np.where(decided, value, np.nan), state)


def resolved(gold: Gold, by: Gold) -> Gold:
    """``gold``, and on the items that ``by`` decides its answers: what was ruled on where people disagreed. Alone such answers
    would speak for disputed items only.

    >>> from calibrate_plugin.model import Scale
    >>> from calibrate_plugin.calibration.panel import panel
    >>> two = panel(Scale("binary", ("pass", "fail")), {"a": [0, 1, 0], "b": [0, 1, 1]}, gold={"ruling": [None, None, 1]})
    >>> found = resolved(majority(two), adjudicated(two))
    >>> found.level.tolist(), found.counts, found.resolved
    ([0, 1, 1], {'decided': 3, 'tied': 0, 'too_few': 0}, 1)
    """
    at = by.state == DECIDED
    return replace(
        gold,
        level=np.where(at, by.level, gold.level),
        value=np.where(at, by.value, gold.value),
        state=np.where(at, DECIDED, gold.state),
        resolved=int(at.sum()),
    )


def _median(panel: Panel, answers: Array, humans: Array) -> tuple[Array, Array, Array]:
    ordered = np.sort(np.where(answers < 0, np.iinfo(np.int32).max, answers), axis=0)
    if not len(ordered):
        ordered = np.zeros((1, panel.n), dtype=np.int32)
    at = np.arange(panel.n)
    known = np.maximum(humans, 1)
    lower, upper = ordered[(known - 1) // 2, at], ordered[known // 2, at]
    lower, upper = (np.where(humans > 0, x, 0) for x in (lower, upper))
    if not panel.levels:
        return np.full(panel.n, -1), np.full(panel.n, np.nan), np.zeros(panel.n, dtype=bool)
    value = (panel.places[lower] + panel.places[upper]) / 2
    if panel.scale.levels is None:  # between two numbers lies a third; between two levels there may be none
        return np.where(lower == upper, lower, -1), value, np.zeros(panel.n, dtype=bool)
    return lower, value, lower != upper


def _gold(panel: Panel, rule: GoldRule, source: str, level: Array, tied: Array) -> Gold:
    state = np.where(tied, TIED, np.where(level >= 0, DECIDED, NO_ITEM))
    places = panel.places if panel.levels else np.zeros(1)
    return Gold(rule, source, level, np.where(level >= 0, places[np.maximum(level, 0)], np.nan), state)


@dataclass(frozen=True, slots=True)
class ClassMeasures:
    """One category as the positive class against all others. ``youden`` is TPR + TNR - 1, ``alignment`` the harmonic mean
    of the two (Shankar et al. 2024, where fails are positive: coverage and one less the false-failure rate)."""

    positive: str
    precision: Measure
    tpr: Measure
    tnr: Measure
    f1: Measure
    youden: float | None
    alignment: float | None

    @property
    def recall(self) -> Measure:
        return self.tpr


@dataclass(frozen=True, slots=True)
class Treatment:
    """The numbers under one treatment of failed answers. ``classes`` are empty on ratings, ``errors`` None on scales
    without order and where failures count as wrong (no answer has no distance)."""

    accuracy: Measure
    kappa: Measure
    classes: tuple[ClassMeasures, ...]
    errors: Errors | None

    def positive(self, name: str) -> ClassMeasures:
        """The numbers with the declared positive class. Raises ValueError for one that is not on the scale."""
        for one in self.classes:
            if one.positive == name:
                return one
        raise ValueError(
            f"{name!r} is no class of this scale; declare one of {', '.join(c.positive for c in self.classes)}"
        )


@dataclass(frozen=True, slots=True)
class AgainstGold:
    """A judge against gold. ``failed`` (by gold level) are items that it was asked about and gave no answer to.

    ``left_out`` and ``as_wrong`` are the two treatments of those; ``weighted`` is ``left_out`` with items weighted by their
    inclusion probabilities, where the design is not random. ``weighted_reason`` says why there is none although there
    should be. ``soft`` is the mean share of an item's annotators who gave the judge's answer: no majority is needed.
    """

    judge: str
    gold: str
    rule: GoldRule
    gold_counts: Mapping[str, int]
    coverage: JudgeCoverage
    counts: Counts
    failed: tuple[int, ...]
    left_out: Treatment
    as_wrong: Treatment
    weighted: Treatment | None
    weighted_reason: Reason | None
    soft: Measure


def against_gold(
    panel: Panel, judge: int, gold: Gold, resampling: Resampling, *, design: Design = UNKNOWN
) -> AgainstGold:
    """The judge's answers against ``gold`` (made from the same panel).

    >>> from calibrate_plugin.model import Scale
    >>> from calibrate_plugin.calibration.panel import panel
    >>> person = [1] * 60 + [0] * 140
    >>> grader = [1] * 48 + [0] * 12 + [1] * 18 + [0] * 122
    >>> seen = panel(Scale("binary", ("pass", "fail")), {"person": person}, {"grader": grader})
    >>> fail = against_gold(seen, 1, single(seen, 0), Resampling()).left_out.positive("fail")
    >>> [round(m.value, 4) for m in (fail.precision, fail.recall, fail.f1)]
    [0.7273, 0.8, 0.7619]
    """
    resampling = resampling.about("gold", gold.rule, panel.name(judge))
    sampled = design.chosen(panel.n)
    own = panel.own[judge]
    known = (gold.state == DECIDED) & sampled
    both = known & (own >= 0)
    failed = known & panel.unanswered(judge)
    about = (panel.name(judge), gold.source, gold.rule, gold.counts, coverage(panel, judge, resampling.level))
    soft = _soft(panel, judge, sampled, resampling)
    reason: Reason | None = "no_weights" if design.lopsided else None
    if panel.scale.levels is None:
        counts, left = _by_value(panel, own, gold, both, resampling)
        nothing = Measure(None, "not_applicable", int((both | failed).sum()), None)
        wrong = Treatment(nothing, nothing, (), None)
        weighted = None
        if design.weighted:
            _, weight = design.of_items(both)
            weighted = _by_value(panel, own, gold, both, resampling.about("weighted"), weight)[1]
        lost = np.bincount(_bin(panel, gold.value[failed]), minlength=_BINS)
        return AgainstGold(*about, counts, tuple(map(int, lost)), left, wrong, weighted, reason, soft)
    q = panel.levels
    cells = np.bincount(own[both] * q + gold.level[both], minlength=q * q).reshape(q, q)
    lost = np.bincount(gold.level[failed], minlength=q)
    left_out = _treatment(panel, [Stratum(of_pair(cells), 1.0)], False, resampling, weighted=False)
    extended = np.zeros((q + 1, q + 1), dtype=np.int64)
    extended[:q, :q], extended[q, :q] = cells, lost
    as_wrong = _treatment(panel, [Stratum(of_pair(extended), 1.0)], True, resampling.about("as wrong"), weighted=False)
    weighted = None
    if design.weighted:
        weighted = _treatment(
            panel, _strata(own, gold.level, both, q, design), False, resampling.about("weighted"), weighted=True
        )
    told = Counts(panel.scale.names, tuple(tuple(map(int, row)) for row in cells), panel.name(judge), gold.source)
    return AgainstGold(*about, told, tuple(map(int, lost)), left_out, as_wrong, weighted, reason, soft)


def _strata(own: Array, level: Array, at: Array, q: int, design: Design) -> list[Stratum]:
    stratum, weight = design.of_items(at)
    found, part = np.unique(stratum, return_inverse=True)
    weights, which = np.unique(weight, return_inverse=True)
    part = part.reshape(-1) * len(weights) + which.reshape(-1)
    cells = np.bincount((part * q + own[at]) * q + level[at], minlength=len(found) * len(weights) * q * q)
    tables = cells.reshape(-1, q, q)
    return [Stratum(of_pair(t), float(weights[k % len(weights)])) for k, t in enumerate(tables) if t.any()]


@dataclass(frozen=True, slots=True)
class Share:
    """The share of items in the cells ``out_of`` (q, q) of judge against gold that lie in the cells ``hit``."""

    hit: Array
    out_of: Array

    def enters(self, patterns: Patterns) -> Array:
        return patterns.size > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        own = patterns.own
        return np.column_stack(
            [(self.hit[own] * patterns.answers).sum(axis=1), (self.out_of[own] * patterns.answers).sum(axis=1)]
        )

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 1]


def _treatment(
    panel: Panel, strata: list[Stratum], wrong: bool, resampling: Resampling, *, weighted: bool
) -> Treatment:
    strata = [s for s in strata if len(s.patterns)]
    q = panel.levels
    size = q + wrong
    scale = panel.scale
    merged = _merged(strata, size)
    plain = reason_of(merged, chance_corrected=False)
    alike = Weights(1 - np.eye(size, dtype=np.int64), 1, "identity")
    statistics: dict[str, Statistic] = {}
    reasons: dict[str, Reason | None] = {}
    if not wrong:
        statistics["kappa"] = Cohen(weights_of(scale))
        reasons["kappa"] = reason_of(merged, chance_corrected=True)
    if scale.ordered and not wrong:
        places, unit = whole(scale.positions)
        numbers: dict[str, Statistic] = {
            "mae": AbsoluteError(places, unit),
            "bias": Bias(places, unit),
            "within_one": WithinOne(places, unit),
            "pearson": Pearson(places, unit),
        }
        statistics |= numbers | ({"spearman": Spearman(q)} if q <= _MOST_RANKED else {})
        constant = _constant(merged) or plain
        reasons |= dict.fromkeys(("mae", "bias", "within_one"), plain)
        reasons |= dict.fromkeys(("pearson", "spearman"), constant)
    classes = range(q) if scale.kind != "rating" else range(0)
    for k in classes:
        statistics[f"f1 {k}"] = SpecificAgreement(k)
        reasons[f"f1 {k}"] = plain or _f1_reason(merged, k)
    if weighted:
        statistics["accuracy"] = Agreement(alike)
        reasons["accuracy"] = plain
        for k in classes:
            for name, (hit, out_of) in _class_cells(size, k, wrong).items():
                statistics[f"{name} {k}"] = Share(hit, out_of)
                reasons[f"{name} {k}"] = plain or _share_reason(merged, out_of, name)
        found = weighted_estimate(strata, statistics, reasons, resampling)
    else:
        found = estimate(merged, statistics, reasons, resampling)
        found["accuracy"] = _share(
            merged, np.eye(size, dtype=bool), np.ones((size, size), dtype=bool), "tpr", resampling
        )
        for k in classes:
            for name, (hit, out_of) in _class_cells(size, k, wrong).items():
                found[f"{name} {k}"] = _share(merged, hit, out_of, name, resampling)
    if scale.ordered and not wrong and q > _MOST_RANKED:
        found["spearman"] = _ranked_by_value(panel, strata, reasons["spearman"], resampling)
    return Treatment(
        found["accuracy"],
        found.get("kappa", Measure(None, "not_applicable", found["accuracy"].n_items, None)),
        tuple(_class_measures(panel, k, found) for k in classes),
        Errors(*(found[n] for n in ("mae", "bias", "within_one", "pearson", "spearman"))) if "mae" in found else None,
    )


def _merged(strata: list[Stratum], size: int) -> Patterns:
    if not strata:
        return Patterns(np.zeros((0, size), dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    parts = [s.patterns for s in strata]
    own = np.concatenate([p.own for p in parts if p.own is not None])
    return canonical(np.concatenate([p.answers for p in parts]), np.concatenate([p.items for p in parts]), own)


def _class_cells(size: int, k: int, wrong: bool) -> dict[str, tuple[Array, Array]]:
    """Which cells (judge, gold) each share counts; the level beyond the scale is the judge's missing answer."""
    judge = np.arange(size)[:, None] == k
    gold = np.arange(size)[None, :] == k
    hit = judge & gold
    given = np.broadcast_to(np.arange(size)[:, None] < size - wrong, (size, size))
    every = np.ones((size, size), dtype=bool)
    return {
        "precision": (hit, judge & every),
        "tpr": (hit, gold & every),
        "tnr": (~judge & ~gold & given, ~gold & every),
    }


def _share(merged: Patterns, hit: Array, out_of: Array, name: str, resampling: Resampling) -> Measure:
    reason = reason_of(merged, chance_corrected=False) or _share_reason(merged, out_of, name)
    if reason is not None:
        return Measure(None, reason, 0, None)
    sums = merged.items @ Share(hit, out_of).features(merged, np.ones(1))
    told = share_of(int(sums[0]), int(sums[1]), resampling.level)
    if resampling.method == "none":
        return replace(told, interval=None, interval_reason="not_asked")
    return told


def _share_reason(merged: Patterns, out_of: Array, name: str) -> Reason | None:
    if (merged.items * (out_of[merged.own] * merged.answers).sum(axis=1)).sum():
        return None
    return "never_predicted" if name == "precision" else "one_class"


def _f1_reason(merged: Patterns, k: int) -> Reason | None:
    return None if ((merged.own == k) | (merged.answers[:, k] > 0)).any() else "one_class"


def _class_measures(panel: Panel, k: int, found: Mapping[str, Measure]) -> ClassMeasures:
    tpr, tnr = found[f"tpr {k}"], found[f"tnr {k}"]
    youden = alignment = None
    if tpr.value is not None and tnr.value is not None:
        youden = tpr.value + tnr.value - 1
        total = tpr.value + tnr.value
        alignment = 2 * tpr.value * tnr.value / total if total else 0.0
    return ClassMeasures(panel.scale.names[k], found[f"precision {k}"], tpr, tnr, found[f"f1 {k}"], youden, alignment)


def _constant(merged: Patterns) -> Reason | None:
    if not len(merged) or merged.own is None:
        return None
    if int(merged.items.sum()) == 1:
        return "single_item"
    one_side = len(np.unique(merged.own)) == 1 or (merged.answers.sum(axis=0) > 0).sum() == 1
    return "constant_side" if one_side else None


def _ranked_by_value(panel: Panel, strata: list[Stratum], reason: Reason | None, resampling: Resampling) -> Measure:
    parts = [(s.patterns, s.weight) for s in strata]
    judge = np.concatenate([np.repeat(panel.places[p.own], p.items) for p, _ in parts]) if parts else np.empty(0)
    if reason is not None:
        return Measure(None, reason, len(judge), len(judge))
    gold = np.concatenate([np.repeat(p.answers @ panel.places, p.items) for p, _ in parts])
    weight = np.concatenate([np.full(int(p.items.sum()), w) for p, w in parts])
    return spearman_of_values(judge, gold, weight / weight.mean(), resampling)


def _by_value(
    panel: Panel, own: Array, gold: Gold, both: Array, resampling: Resampling, weight: Array | None = None
) -> tuple[Counts, Treatment]:
    """A rating without a step: no levels, so no accuracy; errors, correlations and the linear kappa."""
    scale = panel.scale
    assert scale.low is not None and scale.high is not None
    judge, right = panel.places[own[both]] if panel.levels else np.empty(0), gold.value[both]
    cells = np.bincount(_bin(panel, judge) * _BINS + _bin(panel, right), minlength=_BINS * _BINS).reshape(_BINS, _BINS)
    names = bin_names(scale)
    counts = Counts(names, tuple(tuple(map(int, row)) for row in cells), "judge", gold.source)
    nothing = Measure(None, "not_applicable", len(judge), None)
    kappa = nothing
    if weight is None:
        group = continuous.Group(np.flatnonzero(both), right, judge)
        kappa = continuous.agreement_and_kappa(group, float(scale.high - scale.low), resampling)[1]
    return counts, Treatment(nothing, kappa, (), errors_of_values(judge, right, resampling, weight=weight))


def _bin(panel: Panel, value: Array) -> Array:
    assert panel.scale.low is not None and panel.scale.high is not None
    low, span = float(panel.scale.low), float(panel.scale.high - panel.scale.low)
    return np.clip(((value - low) / span * _BINS).astype(np.int64), 0, _BINS - 1)


def _soft(panel: Panel, judge: int, sampled: Array, resampling: Resampling) -> Measure:
    own = panel.own[judge]
    humans = panel.humans()
    at = (own >= 0) & (humans > 0) & sampled
    n = int(at.sum())
    if panel.scale.levels is None:
        return Measure(None, "not_applicable", n, None)
    if not n:
        return Measure(None, "nothing_to_compare", 0, 0)
    same = np.zeros(panel.n, dtype=np.int64)
    for a in panel.annotators:
        same += panel.own[a] == own
    share = same[at] / humans[at]
    value = float(share.mean())
    ends, why = ends_of_pulls(value, (share - value) / n, np.ones(n, dtype=np.int64), resampling, low=0, high=1)
    return Measure(value, None, n, int(humans[at].sum()), ends, why)


__all__ = [
    "AgainstGold",
    "ClassMeasures",
    "Gold",
    "GoldRule",
    "Treatment",
    "adjudicated",
    "against_gold",
    "majority",
    "resolved",
    "single",
]
