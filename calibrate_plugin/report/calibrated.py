"""How good the judges of a study are: what ``calibration`` finds, put together per dimension and beside a report.

A report is made first and calibrated after, by whoever wants it: the headline numbers follow a store label by label, these
are computed anew from all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.alt_test import AltTest, alt_test
from calibrate_plugin.calibration.ceiling import Ceiling, Pairs, Verdict, ceiling, judges_together
from calibrate_plugin.calibration.confidence import Confidence, draws_of, of_draws, of_stated
from calibrate_plugin.calibration.design import Design
from calibrate_plugin.calibration.gold import (
    DECIDED,
    AgainstGold,
    ClassMeasures,
    Gold,
    adjudicated,
    against_gold,
    majority,
    resolved,
    single,
)
from calibrate_plugin.calibration.icc import Reliability, reliability
from calibrate_plugin.calibration.panel import JudgeCoverage, coverage, panel_of
from calibrate_plugin.calibration.paradox import Paradox, explain
from calibrate_plugin.calibration.position import Position, orders_of, position
from calibrate_plugin.calibration.rates import CorrectedRate, Production, corrected_rates
from calibrate_plugin.calibration.side_by_side import JudgePair, side_by_side
from calibrate_plugin.calibration.thresholds import Thresholds, scores_of, thresholds
from calibrate_plugin.model import (
    OWN,
    SAMPLE_FACT,
    CalibrationNumber,
    Counts,
    DimensionReport,
    EvaluatorReport,
    Measure,
    Reason,
    Report,
    Sampling,
    Study,
    number,
)
from calibrate_plugin.ratings.rules import Answers, Ratings
from calibrate_plugin.ratings.rulings import before_rulings, ruled

Array = NDArray[Any]
#: Resamples behind an interval here: a percentile of 2,000 is sure to a fiftieth of the interval's width.
RESAMPLES = 2_000
#: With more judges than this, only the versions of one evaluator are compared with each other.
MOST_COMPARED = 8
#: The latest spans of which a corrected rate is told.
MOST_PERIODS = 60
#: Item facts that say which part of the gold an item belongs to.
SPLIT = "split"


@dataclass(frozen=True, slots=True)
class GoldNumbers:
    """The numbers of a judge against gold that may be judged: as labelled where the design is random or not recorded,
    weighted by the inclusion probabilities where it is not random, and the reason why there is none where those are
    missing. ``positive`` is the class that precision, recall, TPR and TNR speak of; None on ratings."""

    positive: str | None
    weighted: bool
    measures: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """One version of one evaluator. What does not apply to its scale, or was never given, is None.

    ``live`` is as in the report: None where several versions answered and none is named, and then no word is said.
    """

    evaluator: str
    version: str
    live: bool | None
    coverage: JudgeCoverage
    beside_humans: Ceiling | None
    alt_test: AltTest | None
    against_gold: AgainstGold | None
    gold_numbers: GoldNumbers | None
    thresholds: Thresholds | None
    draws: Confidence | None
    stated: Confidence | None
    position: Position | None
    corrected_rate: tuple[CorrectedRate, ...]
    paradox: Paradox | None

    @property
    def name(self) -> str:
        return f"{self.evaluator} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Sampled:
    """How the labelled items were chosen, as the numbers of a dimension take it. ``chosen`` items have an inclusion
    probability; ``unknown`` were labelled and have none, so they stand outside of every weighted number."""

    design: Sampling
    weighted: bool
    chosen: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of one dimension. ``gold`` says what judges are held against: its rule, source and how many items it
    decides, ties and leaves open. ``silent`` judges were asked and never gave an answer that counts."""

    gold: Gold
    sampled: Sampled | None
    judges: tuple[JudgeCalibration, ...]
    silent: tuple[JudgeCalibration, ...]
    judges_together: Pairs | None
    judges_compared: tuple[JudgePair, ...]
    icc: Reliability | None
    paradox: Paradox | None

    def of(self, evaluator: EvaluatorReport) -> JudgeCalibration | None:
        """The calibration of an evaluator of the same report."""
        key = (evaluator.evaluator, evaluator.version)
        return next((judge for judge in self.judges if (judge.evaluator, judge.version) == key), None)

    def numbers(self) -> Iterator[CalibrationNumber]:
        """Every number that is told in tables and pushed."""
        for judge in (*self.judges, *self.silent):
            yield from _of_judge(judge)
        for pair in self.judges_compared:
            told = {
                "kappa_difference": pair.kappa_difference,
                "accuracy_difference": pair.accuracy_difference,
                "gold_kappa_difference": pair.gold_kappa_difference,
            }
            for name, measure in told.items():
                if measure is not None:
                    yield CalibrationNumber(f"judges_compared.{name}", measure, pair.a, None, pair.b)
        if self.icc is not None:
            yield CalibrationNumber("icc.single", self.icc.single)
            yield CalibrationNumber("icc.mean", self.icc.mean)


def of(dimension: DimensionReport) -> Calibration | None:
    """The calibration of a dimension of a report, if it has been made."""
    found = dimension.calibration
    return found if isinstance(found, Calibration) else None


def calibrated(report: Report, study: Study, ratings: Ratings, items: pl.DataFrame) -> Report:
    """The report with the calibration of every dimension. ``ratings`` are those behind it, ``items`` the facts of items
    (columns of ``model.ITEMS``). Slices stay as they are.

    Raises ValueError where ``study.gold`` names nobody.
    """
    known = {r.name for a in ratings.answers.values() for r in a.raters if r.kind == "annotator"}
    if study.gold not in (None, "majority", "adjudicated", *known):
        names = ", ".join(sorted(known)) or "there is none yet"
        raise ValueError(f'study.gold is {study.gold!r}; write "majority", "adjudicated" or an annotator: {names}')
    dimensions = tuple(
        replace(one, calibration=_Maker(study, ratings, ratings.answers[one.name], one, items).calibration())
        for one in report.dimensions
    )
    return replace(report, dimensions=dimensions)


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """The gold answer of an item as people write it. ``unanimous``: every annotator said so, two or more of them."""

    item: str
    value: str
    unanimous: bool


def gold_answers(study: Study, ratings: Ratings, report: DimensionReport, items: pl.DataFrame) -> list[GoldAnswer]:
    """What judges are held against, item by item, in the order of their names."""
    return _Maker(study, ratings, ratings.answers[report.name], report, items).gold_answers()


class _Maker:
    def __init__(
        self, study: Study, ratings: Ratings, answers: Answers, report: DimensionReport, items: pl.DataFrame
    ) -> None:
        self.study, self.labels, self.report, self.items = study, ratings.labels, report, items
        self.answers = answers = _by_name(answers, ratings.labels)
        self.panel = panel_of(answers)
        # What people said once they had talked about an item does not show how far they agree on their own.
        alone = before_rulings(answers, ratings.labels)
        self.alone = self.panel if alone is answers else panel_of(alone)
        self.resampling = Resampling(
            study.seed, min(study.resamples, RESAMPLES), study.level, "item-bootstrap+3"
        ).about(report.name, "calibration")
        self.gold = self._gold()
        self.scale = answers.dimension.scale

    def calibration(self) -> Calibration | None:
        panel = self.panel
        if not panel.evaluators and not panel.annotators:
            return None
        self.facts = self._facts()
        plain, sampled = self._design()
        reports = {(e.evaluator, e.version): e for e in self.report.evaluators}
        judges: list[JudgeCalibration] = []
        silent: list[JudgeCalibration] = []
        for judge in panel.evaluators:
            rater = self.answers.raters[judge]
            found = reports.get((rater.name, rater.version))
            (judges if found is not None else silent).append(self._judge(judge, found, plain))
        heard = [j for j in panel.evaluators if bool((panel.own[j] >= 0).any())]
        live = [j for j in heard if self.answers.live.get(self.answers.raters[j].name) is not None]
        return Calibration(
            gold=self.gold,
            sampled=sampled,
            judges=tuple(judges),
            silent=tuple(silent),
            judges_together=judges_together(panel, live, self.resampling) if len(live) <= MOST_COMPARED else None,
            judges_compared=self._compared(heard, plain),
            icc=reliability(panel, self.resampling) if self.scale.kind == "rating" else None,
            paradox=self._of_people(),
        )

    def _judge(self, judge: int, found: EvaluatorReport | None, plain: Design) -> JudgeCalibration:
        panel, rater, resampling = self.panel, self.answers.raters[judge], self.resampling
        design = self._of_judge(plain, judge)
        live = found.live if found is not None else None if self.answers.live.get(rater.name) is None else True
        told = found is not None
        beside = test = against = numbers = None
        if told and panel.annotators:
            beside = ceiling(self.alone, judge, resampling, margin=self.study.margin, design=design)
            test = alt_test(self.alone, judge, resampling)
            if live is None:
                beside = replace(beside, verdict=Verdict(None, "no_live_version", self.study.margin))
            test = _tested(test, beside, design, live)
        if told and (panel.annotators or panel.golds):
            against = against_gold(panel, judge, self.gold, resampling, design=design)
            numbers = _gold_numbers(against, design, self.answers.dimension.positive)
        draws = stated = None
        if told and self._given("sample", "execution") and self.scale.levels is not None:
            drawn = draws_of(self.answers, self.labels, judge, panel.n)
            if int(drawn.counts.sum(axis=1).max(initial=0)) > 1:
                draws = of_draws(drawn, self.scale, self.gold, resampling, design=design)
        if told and self._given("confidence") and (confidences := self._confidences(judge)) is not None:
            stated = of_stated(confidences, panel.own[judge], self.gold, resampling, design=design)
        orders = None
        if self.scale.kind == "preference" and self._given("order"):
            orders = orders_of(self.answers, self.labels, judge, panel.n)
        return JudgeCalibration(
            evaluator=rater.name,
            version=rater.version,
            live=live,
            coverage=coverage(panel, judge, self.study.level),
            beside_humans=beside,
            alt_test=test,
            against_gold=against,
            gold_numbers=numbers,
            thresholds=self._thresholds(judge),
            draws=draws,
            stated=stated,
            position=None if orders is None else position(orders, resampling.about("position", panel.name(judge))),
            corrected_rate=self._rates(judge, design, live) if told else (),
            paradox=None if found is None else _paradox(found.counts, found.agreement.n_items),
        )

    def _of_people(self) -> Paradox | None:
        pairs = self.report.annotators.pairs
        if len(pairs) != 1 or pairs[0].counts is None:
            return None
        return _paradox(pairs[0].counts, pairs[0].agreement.n_items)

    def _gold(self) -> Gold:
        panel, asked = self.panel, self.study.gold
        if asked == "adjudicated" or (asked is None and panel.golds):
            found = adjudicated(panel, self._ruled())
            return resolved(majority(panel), found) if asked is None and self._only_disputed() else found
        for annotator in panel.annotators:
            if asked not in (None, "majority") and panel.name(annotator) == asked:
                return single(panel, annotator)
        return majority(panel)

    def _only_disputed(self) -> bool:
        """Whether all gold is of people who were asked because the annotators disagreed: rulings, and answers of a review."""
        frame = self.answers.frame
        rows = frame.filter(pl.col("cause").is_null() & pl.col("rater").is_in(list(self.panel.golds)))["row"]
        told = self.labels.select("source", "job")[rows]
        disputed = (pl.col("source") == OWN) | pl.col("job").is_in(list(self.study.review)).fill_null(False)
        return told.filter(~disputed).is_empty()

    def gold_answers(self) -> list[GoldAnswer]:
        codes = self.answers.frame.select("item", "row").drop_nulls("item").unique("item").sort("item")
        names = self.labels["item"].gather(codes["row"])
        found = []
        for code, name in zip(codes["item"], names, strict=True):
            if self.gold.state[code] != DECIDED:
                continue
            level, value = int(self.gold.level[code]), float(self.gold.value[code])
            said = self.scale.names[level] if level >= 0 and self.scale.levels is not None else number(value)
            own = [int(self.panel.own[a][code]) for a in self.panel.annotators if self.panel.own[a][code] >= 0]
            found.append(GoldAnswer(name, said, len(own) > 1 and set(own) == {level}))
        return found

    def _ruled(self) -> Array | None:
        """(N,) the level of each item's ruling, -1 where there is none."""
        rows = ruled(self.answers, self.labels).filter(pl.col("cause").is_null())
        if rows.is_empty():
            return None
        level = np.full(self.panel.n, -1, dtype=np.int64)
        for item, rater in rows.select("item", "rater").iter_rows():
            level[item] = self.panel.own[rater][item]
        return level

    def _given(self, *columns: str) -> bool:
        labels = self.labels
        return any(c in labels.columns and labels[c].null_count() < labels.height for c in columns)

    # --- how items were chosen

    def _facts(self) -> dict[str, Array]:
        """The facts that are asked for, as (N,) text by item code (None: the item has none)."""
        sampling = self.study.design
        wanted = [SPLIT] if self.scale.kind == "binary" else []
        if sampling is not None:
            wanted += [sampling.probability, SAMPLE_FACT if sampling.kind == "random" else sampling.stratum]
        facts = self.items.filter(pl.col("fact").is_in(wanted)) if wanted else self.items.clear()
        found: dict[str, Array] = {}
        if facts.is_empty():
            return found
        codes = self.answers.frame.select("item", "row").unique("item")
        named = pl.DataFrame({"code": codes["item"], "item": self.labels["item"].gather(codes["row"])})
        joined = named.join(facts.unique(["item", "fact"], keep="first", maintain_order=True), on="item")
        for (fact,), part in joined.partition_by("fact", as_dict=True).items():
            column = np.full(self.panel.n, None, dtype=object)
            column[part["code"].to_numpy()] = part["value"].to_numpy()
            found[str(fact)] = column
        return found

    def _design(self) -> tuple[Design, Sampled | None]:
        sampling = self.study.design
        if sampling is None:
            return Design(), None
        labelled = self.panel.humans() > 0
        for gold in self.panel.golds:
            labelled |= self.panel.own[gold] >= 0
        if sampling.kind == "random":
            if not {SAMPLE_FACT, sampling.probability} <= self.facts.keys():
                return Design("random"), Sampled(sampling, False, int(labelled.sum()), 0)
            # What people labelled beside a sample of the study's own was chosen nobody knows how.
            drawn = np.array([s is not None for s in self.facts[SAMPLE_FACT]])
            told = Sampled(sampling, False, int((labelled & drawn).sum()), int((labelled & ~drawn).sum()))
            return Design("random", np.where(drawn, 0, -1)), told
        # Balanced by what people say about another question, items are as lopsided here as any other strata make them.
        own = sampling.kind == "balanced" and sampling.dimension == self.report.name
        kind = "by_gold" if own else "by_judge"
        probability = _shares(self.facts.get(sampling.probability), self.panel.n)
        known = probability > 0
        if not known.any() and self.items["fact"].is_in([sampling.probability]).any():
            return Design(), None  # the sample is of other items
        if not known.any():
            return Design(kind, judge=sampling.judge or ""), Sampled(sampling, False, 0, int(labelled.sum()))  # type: ignore[arg-type]
        given = self.facts.get(sampling.stratum)
        stratum: Array = np.zeros(self.panel.n, dtype=np.int64)
        if given is not None:
            _, stratum = np.unique(np.array(["" if s is None else s for s in given], dtype=object), return_inverse=True)
        stratum = np.where(known, stratum.reshape(-1), -1)
        design = Design(kind, stratum, probability, sampling.judge or "")  # type: ignore[arg-type]
        return design, Sampled(sampling, True, int(known.sum()), int((labelled & ~known).sum()))

    def _of_judge(self, design: Design, judge: int) -> Design:
        """The design as it concerns a judge: whether the strata are its own labels."""
        sampling = self.study.design
        if sampling is None or design.kind != "by_judge":
            return design
        rater = self.answers.raters[judge]
        versions = {r.version for r in self.answers.raters if r.kind == "evaluator" and r.name == rater.name}
        own = sampling.judge == rater.label or (sampling.judge == rater.name and len(versions) == 1)
        own &= sampling.kind == "stratified" and sampling.dimension in (None, self.report.name)
        # A name that no judge has keeps a judge apart from strata that are not made of its labels.
        return replace(design, judge=self.panel.name(judge) if own else "\0")

    # --- parts of one judge

    def _confidences(self, judge: int) -> Array | None:
        rows = self.answers.frame.filter((pl.col("rater") == judge) & pl.col("cause").is_null())
        given = self.labels["confidence"].gather(rows["row"]).cast(pl.Float64)
        inside = (given >= 0) & (given <= 1)
        if not inside.fill_null(False).any():
            return None
        found = np.full(self.panel.n, np.nan)
        found[rows["item"].to_numpy()] = pl.select(pl.when(inside).then(given).otherwise(np.nan)).to_series().to_numpy()
        return found

    def _thresholds(self, judge: int) -> Thresholds | None:
        """Only for a judge that answers a pass/fail question with numbers and has no verdict for them yet."""
        pass_if = self.answers.dimension.pass_if
        if self.scale.kind != "binary" or {"*", self.answers.raters[judge].name} & set(pass_if):
            return None
        state = coverage(self.panel, judge)
        if state.failed <= state.answered:
            return None
        scores = scores_of(self.answers, self.labels, judge, self.panel.n)
        if len(np.unique(scores[np.isfinite(scores)])) < 3:
            return None
        passed = np.where(self.gold.level < 0, -1, (self.gold.level == 0).astype(np.int64))
        split = self.facts.get(SPLIT)
        dev = test = None
        if split is not None:
            dev, test = (np.array([s == part for s in split]) for part in ("dev", "test"))
            if test.any() and not (dev & (passed >= 0)).any():
                refused = Measure(None, "only_test", 0)
                return Thresholds((), (), refused, "youden", None, None, "only_test", "only_test")
        return thresholds(scores, passed, dev=dev, test=test, level=self.study.level)

    def _rates(self, judge: int, design: Design, live: bool | None) -> tuple[CorrectedRate, ...]:
        if self.scale.levels is None or self.scale.kind not in ("binary", "rating"):
            return ()
        found = corrected_rates(self.panel, judge, self.gold, self._production(judge), self.resampling, design=design)
        refused: Reason | None = None
        if live is None:
            refused = "no_live_version"
        elif design.kind not in ("unknown", "random"):
            # A judge that answered nothing but a sample chosen by labels has said nothing about production.
            sample = design.chosen(self.panel.n) if design.weighted else self.gold.level >= 0
            refused = None if ((self.panel.own[judge] >= 0) & ~sample).any() else "wrong_design"
        if refused is None:
            return found
        return tuple(replace(r, rate=Measure(None, refused, r.rate.n_items), method=None) for r in found)

    def _production(self, judge: int) -> list[Production]:
        """What the judge said about all items, then span by span."""
        own = self.panel.own[judge]
        judged = np.bincount(own[own >= 0], minlength=self.panel.levels)
        found = [Production(tuple(map(int, judged)))]
        if not self._given("at") or self.study.design is None:
            return found
        rows = self.answers.frame.filter((pl.col("rater") == judge) & pl.col("cause").is_null())
        form = "%G-W%V" if self.study.design.period == "week" else "%Y-%m-%d"
        day = self.labels["at"].gather(rows["row"]).dt.date()
        told = pl.DataFrame({"day": day, "level": rows["level"]}).drop_nulls().group_by("day", "level").len()
        counted = (
            told.with_columns(pl.col("day").dt.strftime(form).alias("period"))
            .group_by("period", "level")
            .agg(pl.col("len").sum())
            .sort("period", "level")
        )
        spans = counted.partition_by("period", as_dict=True, maintain_order=True)
        for (period,), part in list(spans.items())[-MOST_PERIODS:]:
            levels = np.zeros(self.panel.levels, dtype=np.int64)
            levels[part["level"].to_numpy()] = part["len"].to_numpy()
            found.append(Production(tuple(map(int, levels)), str(period)))
        return found

    def _compared(self, judges: Sequence[int], design: Design) -> tuple[JudgePair, ...]:
        gold = self.gold if self.gold.counts["decided"] else None
        if len(judges) <= MOST_COMPARED:
            groups = [list(judges)]
        else:
            names: dict[str, list[int]] = {}
            for judge in judges:
                names.setdefault(self.answers.raters[judge].name, []).append(judge)
            groups = [versions for versions in names.values() if 2 <= len(versions) <= MOST_COMPARED]
        return tuple(
            pair
            for group in groups
            for pair in side_by_side(self.panel, group, self.resampling, gold=gold, design=design)
        )


def _by_name(answers: Answers, labels: pl.DataFrame) -> Answers:
    """The answers with items coded in the order of their names, so that no sum tells in which order labels came."""
    rows = answers.frame
    if rows["item"].null_count() == rows.height:
        return answers
    told = rows.select("item", "row").drop_nulls("item") if rows["item"].null_count() else rows
    row = np.full(int(told["item"].max()) + 1, -1, dtype=np.int64)  # type: ignore[arg-type]
    row[told["item"].to_numpy()] = told["row"].to_numpy()
    codes = np.flatnonzero(row >= 0)
    order = labels["item"].gather(row[codes]).arg_sort().to_numpy()
    places = np.zeros(len(row), dtype=np.uint32)
    places[codes[order]] = np.arange(len(codes), dtype=np.uint32)
    return replace(answers, frame=rows.with_columns(item=pl.Series(places).gather(rows["item"])))


def _shares(given: Array | None, n: int) -> Array:
    """(n,) inclusion probabilities; 0 where none is told or it is none."""
    found = np.zeros(n)
    if given is None:
        return found
    for i, text in enumerate(given):
        if text is not None:
            try:
                value = float(text)
            except ValueError:
                continue
            found[i] = value if 0 < value <= 1 else 0.0
    return found


def _paradox(counts: Counts, n_items: int) -> Paradox | None:
    if len(counts.labels) != 2:
        return None
    found = explain(np.array(counts.table))
    # The standard error is for pairs that share no item.
    together = sum(map(sum, counts.table)) > n_items
    return replace(found, standard_error=None) if found is not None and together else found


def _tested(test: AltTest, beside: Ceiling, design: Design, live: bool | None) -> AltTest:
    """The alternative annotator test without its outcome where that would rest on nothing."""
    reason: Reason | None = None
    if live is None:
        reason = "no_live_version"
    elif design.kind not in ("unknown", "random"):
        # It has no weighted form, and a sample chosen by labels shows who wins on easy or hard items only.
        reason = "wrong_design"
    elif test.passed and beside.difference.value is None:
        reason = beside.difference.reason
    elif test.passed and "rare_answer" in beside.difference.warnings:
        # Ties count for the judge: where nearly all answers are one, whoever always gives it wins.
        reason = "rare_answer"
    elif test.passed and (wrong := beside.as_wrong) is not None:
        held = wrong.interval is not None and wrong.interval.low > -beside.verdict.margin
        reason = None if held else "unanswered"
    return test if reason is None else replace(test, passed=None, reason=test.reason or reason)


#: What stays true of a sample that was chosen by the judge's label, and by the human one.
_KEPT: Mapping[str, tuple[str, ...]] = {"by_judge": ("precision",), "by_gold": ("recall", "tpr", "tnr")}


def _gold_numbers(against: AgainstGold, design: Design, positive: str | None) -> GoldNumbers:
    treatment = against.weighted or against.left_out
    measures = {"accuracy": treatment.accuracy, "kappa": treatment.kappa}
    one: ClassMeasures | None = None
    if treatment.classes:
        one = treatment.positive(positive) if positive is not None else treatment.classes[0]
        measures |= {"precision": one.precision, "recall": one.recall, "f1": one.f1, "tpr": one.tpr, "tnr": one.tnr}
    if treatment.errors is not None:
        names = ("mae", "bias", "within_one", "pearson", "spearman")
        measures |= {name: getattr(treatment.errors, name) for name in names}
    if design.lopsided:
        kept = _KEPT[design.kind] if design.judge != "\0" else ()
        measures = {n: m if n in kept else _without(m, "no_weights") for n, m in measures.items()}
    return GoldNumbers(one.positive if one else None, against.weighted is not None, measures)


def _without(measure: Measure, reason: Reason) -> Measure:
    return measure if measure.value is None else Measure(None, reason, measure.n_items, measure.n_pairs)


def _of_judge(judge: JudgeCalibration) -> Iterable[CalibrationNumber]:
    def told(name: str, measure: Measure, kind: str | None = None) -> CalibrationNumber:
        return CalibrationNumber(name, measure, judge.evaluator, judge.version, None, kind)

    yield told("coverage", judge.coverage.share)
    if (beside := judge.beside_humans) is not None:
        yield told("beside_humans.human_human", beside.human_human.mean)
        yield told("beside_humans.judge_human", beside.judge_human.mean)
        yield told("beside_humans.difference", beside.difference)
        if beside.weighted is not None:
            yield told("beside_humans.weighted", beside.weighted)
        if beside.as_wrong is not None:
            yield told("beside_humans.as_wrong", beside.as_wrong)
    if (test := judge.alt_test) is not None:
        yield told("alt_test.winning_rate", test.winning_rate)
        yield told("alt_test.advantage", test.advantage)
    if (numbers := judge.gold_numbers) is not None:
        for name, measure in numbers.measures.items():
            classed = name in ("precision", "recall", "f1", "tpr", "tnr")
            yield told(f"against_gold.{name}", measure, numbers.positive if classed else None)
    if judge.against_gold is not None:
        yield told("against_gold.accuracy_as_wrong", judge.against_gold.as_wrong.accuracy)
        yield told("against_gold.soft", judge.against_gold.soft)
    for source, confidence in (("draws", judge.draws), ("stated", judge.stated)):
        if confidence is not None:
            used = confidence.weighted or confidence
            for name in ("ece", "brier", "base_rate_brier", "gap", "accuracy"):
                yield told(f"confidence.{name}", getattr(used, name), source)
    if judge.position is not None:
        yield told("position.consistent", judge.position.consistent)
        yield told("position.first_share", judge.position.first_share)
    if judge.thresholds is not None:
        yield told("thresholds.area", judge.thresholds.area)
        if (test_row := judge.thresholds.test) is not None:
            for name in ("tpr", "tnr", "accuracy"):
                yield told(f"thresholds.test.{name}", getattr(test_row, name))
    for rate in judge.corrected_rate:
        yield told("corrected_rate", rate.rate, rate.period)
        yield told("observed_rate", rate.observed, rate.period)


__all__ = [
    "Calibration",
    "GoldAnswer",
    "GoldNumbers",
    "JudgeCalibration",
    "Sampled",
    "calibrated",
    "gold_answers",
    "of",
]
