"""The common model: what a label is, what a scale is, and what a report says about them.

Nothing here reads, writes or asks the time. Every other part of the package speaks in these types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal, Protocol

import polars as pl

Kind = Literal["annotator", "evaluator", "gold"]
ScaleKind = Literal["binary", "nominal", "ordinal", "rating", "preference"]

UTC = pl.Datetime("us", "UTC")

#: The columns of a page of labels, as a source gives them. One row is one answer of one rater to one field of one item.
#: ``value`` is JSON text, exactly what the source said (``"Pass"``, ``4``, ``true``, ``["a","b"]``), or null.
LABELS: dict[str, pl.DataType | type[pl.DataType]] = {
    "record": pl.String,  # the source's id of the record; with `field` unique in the source. Null: the source has none
    "seq": pl.Int64,  # the source's own order of records (row number, annotation id); breaks ties of time
    "item": pl.String,  # what was judged, as the source names it. Null: the record does not say
    "field": pl.String,  # control, score name, dimension column
    "value": pl.String,  # JSON text; null where there is no answer
    "state": pl.String,  # one of STATES
    "retired": pl.String,  # why the source itself no longer stands by it (one of RETIRED), else null
    "rater": pl.String,  # the source's id of the rater. Null: unknown
    "kind": pl.String,  # one of KINDS
    "version": pl.String,  # of the evaluator, or of the guideline a person used
    "job": pl.String,  # the labelling job a human label was given in
    "run": pl.String,  # the evaluation run an evaluator's label was given in
    "task": pl.String,  # the platform's container of the record (a Label Studio task)
    "at": UTC,  # when it was answered
    "placed": UTC,  # where it lies on the platform's own time axis, if that is another one
    "reason": pl.String,  # the written reason
    "confidence": pl.Float64,  # the rater's own, 0 to 1
    "sample": pl.String,  # which of k draws of one evaluator
    "order": pl.String,  # in which order a pair of responses was shown
    "execution": pl.String,  # rows of one execution are one answer set
    "blind": pl.Boolean,  # false: the person had seen a judge's answer for it
    "seconds": pl.Float64,  # how long the answer took, as far as the platform knows
    "link": pl.String,  # a URL where a person can look at it
}
KINDS: tuple[Kind, ...] = ("annotator", "evaluator", "gold")
#: The source under which the study itself speaks (samples, splits, rulings); no ``[sources.NAME]`` may be called so.
OWN = "study"
STATES = ("answered", "cleared", "skipped", "failed")
RETIRED = ("annotator_deleted", "job_deleted", "item_deleted", "run_deleted", "run_failed", "label_deleted", "expired")

#: What a source knows about items beside their labels: one row per item and fact (system, language, day).
ITEMS: dict[str, pl.DataType | type[pl.DataType]] = {"item": pl.String, "fact": pl.String, "value": pl.String}

#: The fact of an item that a sample of the study drew: which one.
SAMPLE_FACT = "sample"
#: The fact of an item that names the model behind an evaluator's answer: this, then the evaluator's id in its source.
MODEL_FACT = "model: "

#: What a source could not read as a label. It never stops or bends the rest.
ASIDE: dict[str, pl.DataType | type[pl.DataType]] = {
    "record": pl.String,  # where: "labels.csv:17", "annotation 12", a score id
    "item": pl.String,
    "field": pl.String,
    "rater": pl.String,
    "value": pl.String,
    "cause": pl.String,  # a short code: "unreadable", "no_item", "unknown_kind", "prefilled", ...
    "message": pl.String,  # what is wrong and the way out
}


def frame(schema: Mapping[str, Any], rows: Mapping[str, Sequence[Any]] | pl.DataFrame | None = None) -> pl.DataFrame:
    """A frame with exactly the columns of ``schema``, in its order; what is not given is null."""
    if rows is None:
        return pl.DataFrame(schema=dict(schema))
    given = (
        rows
        if isinstance(rows, pl.DataFrame)
        else pl.DataFrame({k: pl.Series(k, list(v), dtype=schema[k]) for k, v in rows.items()})
    )
    unknown = [c for c in given.columns if c not in schema]
    if unknown:
        raise ValueError(f"not columns of this table: {', '.join(unknown)}; it has {', '.join(schema)}")
    return given.select(
        pl.col(name).cast(dtype) if name in given.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """A declared scale. Its ends and categories are declared, never taken from the values seen.

    ``labels`` are the categories in order (binary: pass first; preference: first response, second response, tie).
    A rating has ``low`` and ``high``; with a ``step`` its levels are ``low, low + step, ... high``, or ``points`` lists
    them where they are unevenly spaced.
    """

    kind: ScaleKind
    labels: tuple[str, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None
    points: tuple[Fraction, ...] = ()
    fixed: bool = True  # preference: the two names are the same two systems on every item

    @property
    def levels(self) -> int | None:
        """How many categories the scale has; None for a rating without a step."""
        if self.kind != "rating":
            return len(self.labels)
        if self.points:
            return len(self.points)
        if self.step is None:
            return None
        assert self.low is not None and self.high is not None
        return int((self.high - self.low) / self.step) + 1

    @property
    def ordered(self) -> bool:
        return self.kind in ("ordinal", "rating")

    @property
    def positions(self) -> tuple[Fraction, ...]:
        """The numeric place of each level: its value on a rating, its rank (0, 1, ...) elsewhere."""
        if self.kind == "rating":
            n = self.levels
            if self.points:
                return self.points
            if n is None:
                return ()
            assert self.low is not None and self.step is not None
            return tuple(self.low + self.step * i for i in range(n))
        return tuple(Fraction(i) for i in range(len(self.labels)))

    @property
    def names(self) -> tuple[str, ...]:
        """How each level is written."""
        return tuple(number(p) for p in self.positions) if self.kind == "rating" else self.labels


@dataclass(frozen=True, slots=True)
class Dimension:
    """One question asked about an item: its scale, and how what sources say becomes an answer on it.

    ``values`` are the scale's categories as declared, with their types: the text ``"1"`` answers a declared ``1``, but a
    number never answers a declared text. ``untyped`` (declared on a command line, where nothing has a type) lets any
    spelling match. ``map`` sends the spelling of a source's value to a category or to one of ``abstain``.
    ``pass_if`` gives an evaluator's own number a verdict: evaluator (or ``"*"``) -> (``">="``, threshold).
    ``choice`` makes the dimension "was this choice among those ticked"; ``whole_set`` compares sets of choices as wholes.
    ``positive`` is the class that precision, recall, TPR and TNR speak of; None: the first one (on a binary scale *pass*).
    """

    name: str
    scale: Scale
    values: tuple[str | int | float | bool, ...] = ()
    untyped: bool = False
    map: Mapping[str, str] = field(default_factory=dict)
    abstain: tuple[str, ...] = ()
    pass_if: Mapping[str, tuple[str, Fraction]] = field(default_factory=dict)
    choice: str | None = None
    whole_set: bool = False
    flipped: Literal["no_answer", "tie"] = "no_answer"
    positive: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the items that people labelled were chosen from all that the judges answered.

    ``random``: all alike. ``stratified``: in strata of what ``judge`` (with several versions: its name and version) said
    about ``dimension``. ``balanced``: so many of each human label on ``dimension``. ``stratum`` and ``probability`` name the
    item facts that hold each chosen item's stratum and inclusion probability. ``period`` is how long the spans are of which
    the corrected rate is told.
    """

    kind: Literal["random", "stratified", "balanced"]
    dimension: str | None = None
    judge: str | None = None
    stratum: str = "stratum"
    probability: str = "probability"
    period: Literal["day", "week"] = "week"


@dataclass(frozen=True, slots=True)
class Study:
    """The settings that decide which labels count and how they are compared; never where they come from.

    ``fields`` maps (source, field) to the dimensions it answers; a field not named there answers the dimension of its own
    name. ``people`` maps (source, rater id) to one person's name, ``kinds`` a rater to another kind, ``live``
    (dimension, evaluator) to its live version ("" as dimension: in all of them). ``ignore`` lists deleted annotators,
    jobs and runs. What people answer in the jobs of ``review`` they were asked because others disagreed: it is gold. The same
    rater id in two sources is one rater, unless ``namespaces`` gives one of them a prefix.
    An annotator's answer that took less than ``fast_seconds`` was given faster than anybody reads; with ``leave_out_fast`` it
    does not count.
    ``pseudonyms``: people are called by names that ``pseudonym_key`` makes of their ids, the same for ever under one key, and
    by numbers where there is none.
    ``gold`` is what judges are held against: ``adjudicated`` (the sources of gold), ``majority`` (of the annotators, on
    ordered scales the median) or an annotator's name; None: adjudicated where there is such an answer, else the majority.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[tuple[str, str], str] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    live: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ignore: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    review: tuple[str, ...] = ()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    count_not_blind: bool = False
    fast_seconds: float = 3.0
    leave_out_fast: bool = False
    seed: int = 0
    resamples: int = 5000
    level: float = 0.95
    margin: float = 0.10
    bands: str = "landis-koch"
    gold: str | None = None
    pseudonyms: bool = False
    pseudonym_key: str = field(default="", repr=False)
    design: Sampling | None = None


def number(value: Fraction | float | int) -> str:
    """A number as people write it: ``4`` for 4.0, ``0.5`` for 1/2."""
    if isinstance(value, int | Fraction) and value.denominator == 1:
        return str(value.numerator)
    as_float = float(value)
    return str(int(as_float)) if as_float.is_integer() else repr(as_float)


Reason = Literal[
    "nothing_to_compare",
    "single_item",
    "same_answer",
    "not_applicable",
    "no_live_version",
    "no_labels",
    "no_gold",
    "one_class",
    "at_boundary",
    "infeasible",
    "constant_side",
    "never_predicted",
    "too_few_annotators",
    "never_differs",
    "no_weights",
    "no_design",
    "wrong_design",
    "no_better_than_chance",
    "no_split",
    "only_test",
    "rare_answer",
    "unanswered",
]
IntervalReason = Literal["too_few_items", "too_many_undefined", "not_applicable", "not_asked"]

#: What each reason means and what to do about it, for every screen.
REASONS: dict[str, str] = {
    "nothing_to_compare": "no item has both answers; let a second annotator label the same items, or run the evaluator on them",
    "single_item": "every pair comes from one item, which cannot show what chance would do; label more items",
    "same_answer": "every paired answer is the same; nothing is wrong, one different answer will make it defined",
    "not_applicable": "this number does not exist for this scale",
    "no_live_version": "several versions of the evaluator and none is named as live; name one",
    "no_labels": "there are no labels",
    "no_gold": "there are no gold answers",
    "one_class": "the gold answers are all of one class",
    "at_boundary": "the estimate lies outside 0 to 1",
    "infeasible": "the observed rate cannot come from a judge with this accuracy",
    "constant_side": "one side gave the same answer to every item, so nothing can rise and fall with it",
    "never_predicted": "the evaluator never gave this answer",
    "too_few_annotators": "this test needs three annotators who share items; let more people label the same items",
    "never_differs": "the draws of the evaluator never differ (temperature 0?), so they tell nothing about its confidence",
    "no_weights": "the items were chosen by their labels and with what probability is not recorded; store the inclusion probabilities",
    "no_design": "how the gold items were chosen is not recorded; store the sampling design",
    "wrong_design": "not valid for the way in which the gold items were chosen",
    "no_better_than_chance": "true positive and true negative rate together do not exceed 1, so the evaluator's rate says nothing about the true one",
    "no_split": "no items were kept for a test; split the gold into dev and test",
    "only_test": "these items are the test split, which is no place to choose anything; use the dev split",
    "rare_answer": "a rater gave answers other than the most frequent one fewer than 5 times, so there was hardly anything to agree on; label more items on which answers differ",
    "unanswered": "it does not hold once the items that the judge left without an answer count as wrong",
    "too_few_items": "fewer than 10 items: the value and its counts, but no interval and no verdict",
    "too_many_undefined": "most resamples are undefined; label more items",
    "not_asked": "no interval was asked for",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """``low`` to ``high`` at ``level`` (0.95); ``discarded`` of ``resamples`` were undefined and left out."""

    low: float
    high: float
    level: float
    method: str
    resamples: int = 0
    discarded: int = 0


@dataclass(frozen=True, slots=True)
class Measure:
    """A number, or the reason why there is none, with the counts behind it and its interval.

    ``details`` holds what belongs to one kind of number only: a kappa's ``kind``, ``chance`` and ``form``, alpha's
    ``metric``, a score's ``n_labels``.
    """

    value: float | None
    reason: Reason | None
    n_items: int
    n_pairs: int | None = None
    interval: Interval | None = None
    interval_reason: IntervalReason | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """A table of counts: ``table[i][j]`` items or pairs where rows said ``labels[i]`` and columns ``labels[j]``."""

    labels: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    rows: str
    columns: str


@dataclass(frozen=True, slots=True)
class PairReport:
    """Two raters on the items that both answered."""

    a: str
    b: str
    agreement: Measure
    kappa: Measure
    counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class RaterReport:
    """One rater with the other annotators."""

    rater: str
    score: Measure
    agreement: Measure
    kappa: Measure


@dataclass(frozen=True, slots=True)
class AnnotatorsReport:
    agreement: Measure
    kappa: Measure
    alpha: Measure
    alphas: Mapping[str, Measure]
    ac: Measure
    pabak: Measure
    positive_agreement: Measure
    negative_agreement: Measure
    counted: tuple[str, ...]
    pairs: tuple[PairReport, ...]
    each: tuple[RaterReport, ...]


@dataclass(frozen=True, slots=True)
class EvaluatorReport:
    """One version of one evaluator with the annotators. ``live`` is None where several versions have answered and
    none is named as live, False for a version that a run report shows although another one is live."""

    evaluator: str
    version: str
    live: bool | None
    score: Measure
    on_shared_items: tuple[Measure, Measure]  # evaluator, humans
    agreement: Measure
    kappa: Measure
    counts: Counts
    each: tuple[PairReport, ...]  # a = the evaluator, b = each annotator
    pabak: Measure
    positive_agreement: Measure
    negative_agreement: Measure


@dataclass(frozen=True, slots=True)
class RaterInfo:
    """Who answered a dimension: ``answers`` that count, on ``items``; ``distribution`` over the scale's levels."""

    name: str
    kind: Kind
    version: str
    answers: int
    items: int
    distribution: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided about an item on which answers differed, and why they did. ``at``: when it was first ruled on."""

    item: str
    dimension: str
    value: str
    cause: str | None
    reason: str | None
    by: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One counted answer beside another, as lists show it. ``after_ruling``: given when the item had been ruled on."""

    rater: str
    kind: Kind
    version: str
    value: str
    reason: str | None
    at: datetime | None
    link: str | None
    after_ruling: bool = False


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An item whose counted answers differ, the widest difference first. ``distance`` is 1 - agreement of the worst pair."""

    item: str
    distance: float
    among_humans: bool
    with_judge: bool
    answers: tuple[Answer, ...]
    ruling: Ruling | None = None


@dataclass(frozen=True, slots=True)
class Disagreements:
    """``human_items``: items on which two annotators differ; ``judge_items``: on which an evaluator and an annotator
    differ; ``pairs``: all differing pairs of both kinds. ``listed`` are the first of them, worst first."""

    human_items: int
    judge_items: int
    pairs: int
    listed: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A label that does not count, and its one cause."""

    cause: str
    record: str
    item: str | None
    rater: str | None
    value: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Slice:
    """A dimension limited to the items whose ``fact`` is ``value``."""

    fact: str
    value: str
    report: DimensionReport


@dataclass(frozen=True, slots=True)
class CalibrationNumber:
    """One number of a calibration. ``evaluator`` is None for numbers of the annotators; ``other`` is the second judge where
    two are compared; ``kind`` tells numbers of one name apart (the positive class, a period)."""

    name: str
    measure: Measure
    evaluator: str | None = None
    version: str | None = None
    other: str | None = None
    kind: str | None = None


class Calibrated(Protocol):
    """How good the judges of a dimension are. All of it is ``report.calibrated.Calibration``; here are its numbers."""

    def numbers(self) -> Iterable[CalibrationNumber]: ...


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that a dimension's labels were to reach. ``what``: ``items`` (answered by enough people), ``gold`` (of the class
    with the fewest) or ``half_width`` (of the annotators' kappa, at most). ``reached`` is None where there is no number, for
    ``reason``."""

    what: Literal["items", "gold", "half_width"]
    asked: float
    reached: float | None
    met: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TestUse:
    """How often numbers of a judge version on the test split were looked at."""

    __test__ = False

    evaluator: str
    version: str
    uses: int


@dataclass(frozen=True, slots=True)
class Labelling:
    """How the labels of a dimension came to be. ``people``: how many were to answer each item; ``moved``: what was changed of
    the target once labelling had begun; ``causes``: the rulings on disagreements by cause."""

    goals: tuple[Goal, ...] = ()
    people: int | None = None
    moved: str | None = None
    causes: Mapping[str, int] = field(default_factory=dict)
    test_uses: tuple[TestUse, ...] = ()


@dataclass(frozen=True, slots=True)
class DimensionReport:
    name: str
    scale: Scale
    human_score: Measure
    raters: tuple[RaterInfo, ...]
    annotators: AnnotatorsReport
    evaluators: tuple[EvaluatorReport, ...]
    judges: tuple[PairReport, ...]
    fleiss_all: Measure
    alpha_all: Measure
    disagreements: Disagreements
    set_aside: Mapping[str, int]
    set_aside_listed: tuple[SetAside, ...]
    slices: tuple[Slice, ...]
    notes: tuple[str, ...] = ()
    calibration: Calibrated | None = None
    labelling: Labelling | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the sources meet. ``unjoined`` items have only evaluator labels or only human ones."""

    items: int
    with_humans: int
    with_evaluators: int
    with_both: int
    labels: int
    counted: int
    unread: Mapping[str, int]  # records that could not be read as labels, by cause
    unread_listed: tuple[SetAside, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """``only`` says in words what the report is limited to; nothing: it is the whole study's."""

    study: str
    generated_at: datetime
    dimensions: tuple[DimensionReport, ...]
    coverage: Coverage
    bands: str = "landis-koch"
    sources: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
