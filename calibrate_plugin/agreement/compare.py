"""Every number over one dimension's counted answers, by whose answers are compared with whose.

``Counted`` serves scales with levels, ``Measured`` ratings without a step; both answer the same questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement import continuous
from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, estimate, wilson
from calibrate_plugin.agreement.statistics import (
    Agreement,
    Alpha,
    AlphaMetric,
    ChanceByScale,
    Cohen,
    Fleiss,
    Mean,
    Pabak,
    SpecificAgreement,
    Statistic,
    disagreement_of,
    reason_of,
    reason_of_specific,
)
from calibrate_plugin.agreement.weights import weights_of, whole
from calibrate_plugin.model import Counts, Measure, Reason, Scale
from calibrate_plugin.ratings.counting import Patterns, item_table, of_pair

Array = NDArray[Any]
ABSENT = Measure(None, "not_applicable", 0, 0)
#: Ratings without a step are shown in this many equal parts of their scale, and only shown so.
BINS = 10
#: With more pairs of annotators times levels than this, what is told of single ones and pairs is resampled less.
MOST_PAIRWISE = 12_000


@dataclass(frozen=True, slots=True)
class Together:
    """A set of raters with each other."""

    agreement: Measure
    kappa: Measure
    alpha: Measure
    alphas: Mapping[str, Measure]
    ac: Measure
    pabak: Measure
    positive: Measure
    negative: Measure


@dataclass(frozen=True, slots=True)
class Beside:
    """One rater with the annotators beside it: ``score`` over all its answers, ``shared`` and ``theirs`` over the items
    that annotators answered too."""

    score: Measure
    shared: Measure
    theirs: Measure
    agreement: Measure
    kappa: Measure
    pabak: Measure
    positive: Measure
    negative: Measure
    counts: Counts


class Comparison(Protocol):
    """Answers of one dimension, ready to be compared. Raters are indices."""

    def counted(self) -> tuple[int, ...]:
        """The annotators at least one of whose items another annotator answered too."""
        ...

    def human_score(self) -> Measure: ...

    def among_annotators(self) -> Together: ...

    def beside(self, rater: int, rows: str, columns: str) -> Beside: ...

    def pair(self, a: int, b: int, rows: str, columns: str) -> tuple[Measure, Measure, Counts] | None:
        """Agreement, kappa and counts of two raters; None where they share no item."""
        ...

    def all_raters(self, judges: Sequence[int]) -> tuple[Measure, Measure]:
        """Fleiss' kappa and alpha of annotators and judges alike."""
        ...

    def distribution(self, rater: int) -> tuple[int, ...]: ...

    def differing(self, judges: Sequence[int]) -> tuple[Array, Array, Array]:
        """(N,) by item code: do annotators differ, does a judge differ from one, distance of the worst pair (0 to 1)."""
        ...

    def differing_pairs(self, judges: Sequence[int]) -> int: ...


def compare(
    scale: Scale, answers: pl.DataFrame, annotators: Sequence[int], evaluators: Sequence[int], resampling: Resampling
) -> Comparison:
    """``answers``: columns item (code), rater, level, number; one row per rater and item."""
    if scale.levels is None:
        return Measured(scale, answers, tuple(annotators), tuple(evaluators), resampling)
    return Counted(scale, item_table(answers, scale.levels, annotators, evaluators), resampling)


class CountedTable(Protocol):
    """What the numbers over levels are made from: tables of counted patterns, be they of items or added up."""

    @property
    def levels(self) -> int: ...

    @property
    def annotators(self) -> tuple[int, ...]: ...

    @property
    def evaluators(self) -> tuple[int, ...]: ...

    def annotated(self) -> Patterns: ...

    def against(self, rater: int) -> Patterns: ...

    def pairs(self) -> Mapping[tuple[int, int], Array]: ...

    def sharing(self) -> tuple[int, ...]: ...

    def together(self, judges: Sequence[int]) -> Patterns: ...

    def spread(self, rater: int) -> tuple[int, ...]: ...

    def differing(self, places: Array, judges: Sequence[int]) -> tuple[Array, Array, Array]: ...


class Counted:
    """Answers on a scale with levels, by counted patterns."""

    def __init__(self, scale: Scale, table: CountedTable, resampling: Resampling) -> None:
        self.scale = scale
        self.table = table
        self.resampling = resampling
        self.weights = weights_of(scale)
        self.places, self.unit = whole(scale.positions)
        self.thrifty = resampling
        if len(table.annotators) ** 2 * (10 + table.levels) > MOST_PAIRWISE:
            self.thrifty = replace(
                resampling,
                resamples=min(resampling.resamples, 1_000),
                most_patterns=min(100, max(20, 5_000 // (10 + table.levels))),
            )

    @cached_property
    def _pairs(self) -> Mapping[tuple[int, int], Array]:
        return self.table.pairs()

    def counted(self) -> tuple[int, ...]:
        return self.table.sharing()

    def human_score(self) -> Measure:
        return self._score(self.table.annotated(), False, self.resampling.about("human score"))

    def among_annotators(self) -> Together:
        counted = self.counted()
        everyone = self.table.annotated()
        if len(counted) == 2:
            pair = of_pair(self._pairs[counted[0], counted[1]])
            about = self.resampling.about("annotators")
            agreement = self._between(pair, Cohen(self.weights), {"kind": "cohen"}, about)
        else:
            kind = {"kind": "fleiss", "form": "pairs"} if len(counted) > 2 else {"kind": None}
            agreement = self._between(everyone, Fleiss(self.weights), kind, self.resampling.about("annotators"))
        alphas = self._alphas(everyone, "annotators")
        reason = reason_of(everyone, chance_corrected=True, constant_is_defined=True)
        ac = estimate(
            everyone,
            {"ac": ChanceByScale(self.weights, "gwet")},
            {"ac": reason},
            self.resampling.about("annotators", "ac"),
            {"ac": {"weights": self.weights.name, "form": "items", "kind": self._ac_name}},
        )["ac"]
        return Together(
            agreement["agreement"],
            agreement["kappa"],
            alphas[main_metric(self.scale)],
            alphas,
            ac,
            agreement["pabak"],
            agreement.get("positive", ABSENT),
            agreement.get("negative", ABSENT),
        )

    def beside(self, rater: int, rows: str, columns: str) -> Beside:
        patterns = self.table.against(rater)
        shared = patterns.where(patterns.size > 0)
        draws = self.thrifty if rater in self.table.annotators else self.resampling
        found = self._between(patterns, Cohen(self.weights), {"kind": "cohen"}, draws.about("beside", rows))
        assert shared.own is not None
        cells = np.zeros((self.table.levels, self.table.levels), dtype=np.int64)
        np.add.at(cells, shared.own, shared.answers * shared.items[:, None])
        return Beside(
            self._score(patterns, True, draws.about("score", rows)),
            self._score(shared, True, draws.about("shared", rows)),
            self._score(Patterns(shared.answers, shared.items), False, draws.about("theirs", rows)),
            found["agreement"],
            found["kappa"],
            found["pabak"],
            found.get("positive", ABSENT),
            found.get("negative", ABSENT),
            self._counts(cells, rows, columns),
        )

    def pair(self, a: int, b: int, rows: str, columns: str) -> tuple[Measure, Measure, Counts] | None:
        cells = self._pairs.get((a, b))
        if cells is None and (b, a) in self._pairs:
            cells = self._pairs[b, a].T
        if cells is None:
            return None
        draws = self.thrifty.about("pair", rows, columns)
        found = self._between(of_pair(cells), Cohen(self.weights), {"kind": "cohen"}, draws, brief=True)
        return found["agreement"], found["kappa"], self._counts(cells, rows, columns)

    def all_raters(self, judges: Sequence[int]) -> tuple[Measure, Measure]:
        patterns = self.table.together(judges)
        kind = {"kind": "fleiss", "form": "pairs"}
        draws = self.resampling.about("all raters")
        kappa = self._between(patterns, Fleiss(self.weights), kind, draws, brief=True)["kappa"]
        metric = main_metric(self.scale)
        return kappa, self._alphas(patterns, "all raters", (metric,))[metric]

    def distribution(self, rater: int) -> tuple[int, ...]:
        return self.table.spread(rater)

    def differing(self, judges: Sequence[int]) -> tuple[Array, Array, Array]:
        places = self.places if self.scale.ordered else np.arange(self.table.levels)
        among, judged, worst = self.table.differing(places, judges)
        if not self.scale.ordered:
            return among, judged, (worst > 0).astype(np.float64)
        return (
            among,
            judged,
            worst * (int(self.weights.distance.max()) / (self.places.max() - self.places.min())) / (self.weights.span),
        )

    def differing_pairs(self, judges: Sequence[int]) -> int:
        distance = 1 - np.eye(self.table.levels, dtype=np.int64)

        tables = [self.table.annotated(), *(self.table.against(j) for j in judges)]
        return int(sum((disagreement_of(t, distance) * t.items).sum() for t in tables))

    @property
    def _ac_name(self) -> str:
        return "AC1" if self.weights.name == "identity" else "AC2"

    def _score(self, patterns: Patterns, own: bool, resampling: Resampling) -> Measure:
        if self.scale.kind not in ("binary", "rating"):
            n = int(patterns.items.sum())
            return Measure(None, "not_applicable" if n else "no_labels", n, None)
        binary = self.scale.kind == "binary"
        places = np.array([1, 0]) if binary else self.places
        statistic = Mean(places, 1 if binary else self.unit, own)
        entering = patterns.where(statistic.enters(patterns))
        n_items = int(entering.items.sum())
        if not n_items:
            return Measure(None, "no_labels", 0, None, details={"n_labels": 0})
        labels = n_items if own else int((entering.items * entering.size).sum())
        single = binary and labels == n_items
        draws = replace(resampling, method="none") if single else resampling
        measure = estimate(entering, {"m": statistic}, {"m": None}, draws, {"m": {"n_labels": labels}})["m"]
        if not single or resampling.method == "none":
            return measure
        if n_items < FEWEST_ITEMS:
            return replace(measure, interval_reason="too_few_items")
        assert measure.value is not None
        ends = wilson(round(measure.value * n_items), n_items, self.resampling.level)
        return replace(measure, interval=ends, interval_reason=None)

    def _between(
        self,
        patterns: Patterns,
        kappa: Statistic,
        kind: Mapping[str, Any],
        resampling: Resampling,
        *,
        brief: bool = False,
    ) -> dict[str, Measure]:
        statistics: dict[str, Statistic] = {"agreement": Agreement(self.weights), "kappa": kappa}
        corrected = reason_of(patterns, chance_corrected=True)
        plain = reason_of(patterns, chance_corrected=False)
        reasons: dict[str, Reason | None] = {"agreement": plain, "kappa": corrected}
        if not brief:
            statistics["pabak"] = Pabak(self.weights)
            reasons["pabak"] = reason_of(patterns, chance_corrected=True, constant_is_defined=True)
            if self.scale.kind == "binary":
                statistics |= {"positive": SpecificAgreement(0), "negative": SpecificAgreement(1)}
                reasons |= {"positive": reason_of_specific(patterns, 0), "negative": reason_of_specific(patterns, 1)}
        about = {"kappa": dict(kind) | {"weights": self.weights.name}, "pabak": {"weights": self.weights.name}}
        return estimate(patterns, statistics, reasons, resampling, about)

    def _alphas(
        self, patterns: Patterns, subject: str, metrics: tuple[AlphaMetric, ...] | None = None
    ) -> dict[str, Measure]:
        reason = reason_of(patterns, chance_corrected=True)
        metrics = metrics or alpha_metrics(self.scale)
        return estimate(
            patterns,
            {m: Alpha(m, self.places, self.weights.swap) for m in metrics},
            dict.fromkeys(metrics, reason),
            self.resampling.about(subject, "alpha"),
            {m: {"metric": m} for m in metrics},
        )

    def _counts(self, cells: Array, rows: str, columns: str) -> Counts:
        return Counts(self.scale.names, tuple(tuple(map(int, row)) for row in cells), rows, columns)


class Measured:
    """Answers on a rating without a step, by their numbers."""

    def __init__(
        self,
        scale: Scale,
        answers: pl.DataFrame,
        annotators: tuple[int, ...],
        evaluators: tuple[int, ...],
        resampling: Resampling,
    ) -> None:
        assert scale.low is not None and scale.high is not None
        self.scale = scale
        self.low, self.span = float(scale.low), float(scale.high - scale.low)
        self.annotators, self.evaluators = annotators, evaluators
        self.resampling = resampling
        # By value and not by rater, so that what raters are called does not show in the last bit of a sum.
        ordered = answers.sort("item", "number")
        self.item, self.rater, self.value = (ordered[c].to_numpy() for c in ("item", "rater", "number"))
        self.human = np.isin(self.rater, annotators)
        self.n = int(self.item.max()) + 1 if len(self.item) else 0

    def _of(self, rater: int) -> tuple[Array, Array]:
        at = self.rater == rater
        return self.item[at], self.value[at]

    def _humans(self, but: int | None = None) -> continuous.Group:
        at = self.human if but is None else self.human & (self.rater != but)
        return continuous.Group(self.item[at], self.value[at])

    def _beside(self, rater: int, others: continuous.Group) -> continuous.Group:
        own = np.full(self.n, np.nan)
        item, value = self._of(rater)
        own[item] = value
        mine = own[others.item]
        both = ~np.isnan(mine)
        return continuous.Group(others.item[both], others.value[both], mine[both])

    def counted(self) -> tuple[int, ...]:
        shared = set(np.unique(self._humans().paired().item).tolist())
        return tuple(a for a in self.annotators if not shared.isdisjoint(self._of(a)[0].tolist()))

    def human_score(self) -> Measure:
        return continuous.mean(self._humans(), self.resampling)

    def among_annotators(self) -> Together:
        counted = self.counted()
        group, kind = self._humans(), {"kind": "fleiss", "form": "pairs"} if len(counted) > 2 else {"kind": None}
        if len(counted) == 2:
            item, value = self._of(counted[1])
            group, kind = self._beside(counted[0], continuous.Group(item, value)), {"kind": "cohen"}
        agreement, kappa = continuous.agreement_and_kappa(group, self.span, self.resampling)
        alpha = continuous.alpha_interval(self._humans(), self.resampling)
        return Together(agreement, _about(kappa, kind), alpha, {"interval": alpha}, ABSENT, ABSENT, ABSENT, ABSENT)

    def beside(self, rater: int, rows: str, columns: str) -> Beside:
        group = self._beside(rater, self._humans(rater))
        agreement, kappa = continuous.agreement_and_kappa(group, self.span, self.resampling)
        item, value = self._of(rater)
        shared = np.isin(item, group.item)
        return Beside(
            continuous.mean(continuous.Group(item, value), self.resampling),
            continuous.mean(continuous.Group(item[shared], value[shared]), self.resampling),
            continuous.mean(continuous.Group(group.item, group.value), self.resampling),
            agreement,
            _about(kappa, {"kind": "cohen"}),
            ABSENT,
            ABSENT,
            ABSENT,
            self._counts(group, rows, columns),
        )

    def pair(self, a: int, b: int, rows: str, columns: str) -> tuple[Measure, Measure, Counts] | None:
        item, value = self._of(b)
        group = self._beside(a, continuous.Group(item, value))
        if not len(group.value):
            return None
        agreement, kappa = continuous.agreement_and_kappa(group, self.span, self.resampling)
        return agreement, _about(kappa, {"kind": "cohen"}), self._counts(group, rows, columns)

    def all_raters(self, judges: Sequence[int]) -> tuple[Measure, Measure]:
        at = self.human | np.isin(self.rater, list(judges))
        group = continuous.Group(self.item[at], self.value[at])
        kappa = continuous.agreement_and_kappa(group, self.span, self.resampling)[1]
        return _about(kappa, {"kind": "fleiss", "form": "pairs"}), continuous.alpha_interval(group, self.resampling)

    def distribution(self, rater: int) -> tuple[int, ...]:
        return tuple(np.bincount(self._bin(self._of(rater)[1]), minlength=BINS).tolist())

    def differing(self, judges: Sequence[int]) -> tuple[Array, Array, Array]:
        low, high = np.full(self.n, np.inf), np.full(self.n, -np.inf)
        people = self._humans()
        np.minimum.at(low, people.item, people.value)
        np.maximum.at(high, people.item, people.value)
        given = np.isfinite(low)
        worst = np.where(given, high - low, 0.0)
        among, judged = worst > 0, np.zeros(self.n, dtype=bool)
        for judge in judges:
            item, value = self._of(judge)
            apart = np.zeros(self.n)
            apart[item] = np.where(given[item], np.maximum(np.abs(value - low[item]), np.abs(value - high[item])), 0.0)
            judged |= apart > 0
            worst = np.maximum(worst, apart)
        return among, judged, worst / self.span

    def differing_pairs(self, judges: Sequence[int]) -> int:
        people = self._humans()
        size = np.bincount(people.item, minlength=self.n)
        _, same = np.unique(np.column_stack([people.item, people.value]), axis=0, return_counts=True)
        apart = int((size * (size - 1) // 2).sum() - (same * (same - 1) // 2).sum())
        for judge in judges:
            group = self._beside(judge, people)
            assert group.own is not None
            apart += int((group.own != group.value).sum())
        return apart

    def _bin(self, value: Array) -> Array:
        return np.clip(((value - self.low) / self.span * BINS).astype(np.int64), 0, BINS - 1)

    def _counts(self, group: continuous.Group, rows: str, columns: str) -> Counts:
        assert group.own is not None
        cells = np.bincount(self._bin(group.own) * BINS + self._bin(group.value), minlength=BINS * BINS)
        table = tuple(tuple(map(int, row)) for row in cells.reshape(BINS, BINS))
        return Counts(bin_names(self.scale), table, rows, columns)


def bin_names(scale: Scale) -> tuple[str, ...]:
    """The equal parts in which a rating without a step is shown."""
    assert scale.low is not None and scale.high is not None
    edges = np.linspace(float(scale.low), float(scale.high), BINS + 1)
    return tuple(f"{a:g}–{b:g}" for a, b in pairwise(edges))


def alpha_metrics(scale: Scale) -> tuple[AlphaMetric, ...]:
    """The distances that make sense on a scale, the usual one last but for ratio."""
    if scale.kind == "ordinal":
        return ("nominal", "ordinal")
    if scale.kind != "rating":
        return ("nominal",)
    low = scale.points[0] if scale.points else scale.low
    assert low is not None
    return ("nominal", "ordinal", "interval", *(("ratio",) if low >= 0 else ()))


def main_metric(scale: Scale) -> AlphaMetric:
    """Alpha's metric that stands for the scale."""
    return "ordinal" if scale.kind == "ordinal" else "interval" if scale.kind == "rating" else "nominal"


def _about(kappa: Measure, kind: Mapping[str, Any]) -> Measure:
    return replace(kappa, details={**kind, "weights": "linear", **kappa.details})


__all__ = ["BINS", "Beside", "Comparison", "Together", "bin_names", "compare"]
