"""The numbers as functions, for a table of answers and no study.

Each takes ``answers`` in one of these shapes, and gives a ``Measure``: a value with its counts, or the reason why there is
none.

- A table with the columns ``item``, ``rater`` and ``value``: polars, pandas, pyarrow, a DuckDB relation, a dict of arrays;
  one row per rater and item, a missing value is no answer, other columns do not matter.
- A table of counts (q, q) of two raters: how many items the one gave level i and the other level j.
- ``Patterns``: any counted table, as ``calibrate_plugin.ratings.counting`` makes them.

``scale`` is a ``Scale`` or its text as on the command line: ``"binary:Pass/Fail"``, ``"nominal:a/b/c"``,
``"ordinal:low/mid/high"``, ``"rating:1..5"``, ``"preference:A/B/tie"``. ``weights`` are ``"identity"``, ``"linear"`` or
``"quadratic"``, or a matrix (q, q) of disagreement weights, 0 for equal answers and the largest for the worst; without
them ordered scales take linear ones. With a ``Resampling`` there is an interval too.

All raise ValueError, with the way out, for a table that lacks a column, a second answer of a rater to an item, a value that
is not on the scale, and weights that do not fit it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from calibrate_plugin import scales
from calibrate_plugin.agreement import continuous
from calibrate_plugin.agreement.estimate import Resampling, estimate
from calibrate_plugin.agreement.statistics import (
    Agreement,
    Alpha,
    AlphaMetric,
    ChanceByScale,
    Cohen,
    Fleiss,
    Pabak,
    SpecificAgreement,
    Statistic,
    reason_of,
    reason_of_specific,
)
from calibrate_plugin.agreement.weights import WeightName, Weights, weights_of, whole
from calibrate_plugin.model import Dimension, Measure, Reason, Scale, number
from calibrate_plugin.ratings.answers import REJECTED, levels
from calibrate_plugin.ratings.counting import Patterns, canonical, item_table, of_pair, rater_pairs

Array = NDArray[Any]
#: Anything that holds answers: see the top of this module.
Answers: TypeAlias = Any
WeightsGiven: TypeAlias = WeightName | ArrayLike | None
Form: TypeAlias = Literal["pairs", "items"]
_NO_INTERVAL = Resampling(method="none")


def percent_agreement(
    answers: Answers,
    scale: Scale | str,
    *,
    weights: WeightsGiven = None,
    form: Form = "pairs",
    resampling: Resampling | None = None,
) -> Measure:
    """Mean agreement w of two answers to the same item, from 0 to 1; w is 1 - distance / (top - bottom of the scale).

    ``form``: ``"pairs"`` pools all pairs of answers; ``"items"`` takes each item's mean first (Gwet 2014, chapter 2).
    Undefined (``nothing_to_compare``) where no item has two answers.

    >>> table = {"item": [1, 1, 2, 2], "rater": ["a", "b", "a", "b"], "value": [4, 4, 3, 2]}
    >>> percent_agreement(table, "rating:1..5").value
    0.875
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        _only("pairs", form)
        return continuous.agreement_and_kappa(given.together(), given.span, resampling or _NO_INTERVAL)[0]
    patterns = given.patterns if form == "pairs" else given.together
    reason = reason_of(patterns, chance_corrected=False)
    return _one(patterns, Agreement(given.weights, form), reason, resampling, form=form, weights=given.weights.name)


def cohen_kappa(
    answers: Answers,
    scale: Scale | str,
    *,
    raters: tuple[Any, Any] | None = None,
    weights: WeightsGiven = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Cohen's kappa of two raters, from -1 to 1: 1 - observed / expected disagreement, margins kept apart.

    ``raters`` names the two where the table has more. ``details`` holds the chance agreement. Source: Cohen 1960; weighted
    Cohen 1968. Undefined: ``nothing_to_compare``, ``single_item``, ``same_answer``.

    >>> cohen_kappa([[70, 10], [5, 15]], "binary:Pass/Fail").value.__round__(4)
    0.5714
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        group = given.pair(raters)
        kappa = continuous.agreement_and_kappa(group, given.span, resampling or _NO_INTERVAL)[1]
        return _with(kappa, kind="cohen", weights="linear")
    patterns = given.pair(raters)
    reason = reason_of(patterns, chance_corrected=True)
    return _one(patterns, Cohen(given.weights), reason, resampling, kind="cohen", weights=given.weights.name)


def fleiss_kappa(
    answers: Answers,
    scale: Scale | str,
    *,
    form: Form = "pairs",
    weights: WeightsGiven = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Fleiss' kappa of any number of raters, from -1 to 1; items may have different numbers of answers.

    ``form``: ``"pairs"`` pools the pairs, and chance is that of all answers on items with two or more; ``"items"`` means
    over items, and chance takes each item's shares alike (Gwet 2014). With as many answers on every item both are the
    same. Source: Fleiss 1971. Undefined: ``nothing_to_compare``, ``single_item``, ``same_answer``.

    >>> table = {"item": [1, 1, 1, 2, 2, 2], "rater": list("abcabc"), "value": list("TTTTFF")}
    >>> fleiss_kappa(table, "binary:T/F").value
    0.25
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        _only("pairs", form)
        kappa = continuous.agreement_and_kappa(given.together(), given.span, resampling or _NO_INTERVAL)[1]
        return _with(kappa, kind="fleiss", form=form, weights="linear")
    patterns = given.together
    reason = reason_of(patterns, chance_corrected=True)
    about = {"kind": "fleiss", "form": form, "weights": given.weights.name}
    return _one(patterns, Fleiss(given.weights, form), reason, resampling, **about)


def pooled_agreement(
    answers: Answers,
    scale: Scale | str,
    rater: Any = None,
    *,
    weights: WeightsGiven = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Mean agreement w of one rater (an evaluator, say) with each other answer to the same item, from 0 to 1.

    ``rater`` names the one; counted tables have it set apart already. Undefined: ``nothing_to_compare``.

    >>> table = {"item": [1, 1, 1, 2, 2], "rater": list("jabja"), "value": list("TTFFF")}
    >>> pooled_agreement(table, "binary:T/F", "j").value
    0.6666666666666666
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        group = given.beside(rater)
        return continuous.agreement_and_kappa(group, given.span, resampling or _NO_INTERVAL)[0]
    patterns = given.beside(rater)
    reason = reason_of(patterns, chance_corrected=False)
    return _one(patterns, Agreement(given.weights), reason, resampling, weights=given.weights.name)


def pooled_kappa(
    answers: Answers,
    scale: Scale | str,
    rater: Any = None,
    *,
    weights: WeightsGiven = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Cohen's kappa of one rater with the others, from -1 to 1: over (its answer, another's answer) pairs, the two sides
    kept apart, its answer standing once per pair.

    ``rater`` names the one; counted tables have it set apart already. Source: Cohen 1960, on pooled pairs. Undefined:
    ``nothing_to_compare``, ``single_item``, ``same_answer``.

    >>> table = {"item": [1, 1, 1, 2, 2, 3, 3, 3, 3], "rater": list("jabjajabc"), "value": list("TTFTTFFTF")}
    >>> pooled_kappa(table, "binary:T/F", "j").value.__round__(6)
    0.333333
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        kappa = continuous.agreement_and_kappa(given.beside(rater), given.span, resampling or _NO_INTERVAL)[1]
        return _with(kappa, kind="cohen", weights="linear")
    patterns = given.beside(rater)
    reason = reason_of(patterns, chance_corrected=True)
    return _one(patterns, Cohen(given.weights), reason, resampling, kind="cohen", weights=given.weights.name)


def krippendorff_alpha(
    answers: Answers,
    scale: Scale | str,
    *,
    metric: AlphaMetric | None = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Krippendorff's alpha of any number of raters with gaps, at most 1.

    ``metric``: ``"nominal"``, ``"ordinal"``, ``"interval"`` or ``"ratio"`` (no level below 0); by default ordinal on
    ordinal scales, interval on ratings, else nominal. A rating without a step has the interval metric only. Source:
    Krippendorff 2004, chapter 11. Undefined: ``nothing_to_compare``, ``single_item``, ``same_answer``.

    >>> table = {"item": [1, 1, 2, 2, 3, 3, 4, 4], "rater": list("abababab"), "value": list("TTTFFFTT")}
    >>> krippendorff_alpha(table, "nominal:T/F").value.__round__(4)
    0.5333
    """
    given = _given(answers, scale, None)
    usual: AlphaMetric = {"ordinal": "ordinal", "rating": "interval"}.get(given.scale.kind, "nominal")  # type: ignore[assignment]
    chosen = metric or usual
    if chosen not in ("nominal", "ordinal", "interval", "ratio"):
        raise ValueError(f"metric is {metric!r}; it is one of nominal, ordinal, interval, ratio")
    if isinstance(given, _Measured):
        if chosen != "interval":
            raise ValueError(f"metric is {chosen!r}, but a rating without a step has interval only; give it a step")
        return continuous.alpha_interval(given.together(), resampling or _NO_INTERVAL)
    if chosen != "nominal" and given.scale.kind in ("nominal", "preference"):
        raise ValueError(f"metric is {chosen!r}, but a {given.scale.kind} scale has no order; its metric is nominal")
    if chosen == "ratio" and given.scale.positions[0] < 0:
        raise ValueError("metric is 'ratio', but the scale goes below 0; use interval")
    reason = reason_of(given.together, chance_corrected=True)
    statistic = Alpha(chosen, whole(given.scale.positions)[0], given.weights.swap)
    return _one(given.together, statistic, reason, resampling, metric=chosen)


def gwet_ac(
    answers: Answers, scale: Scale | str, *, weights: WeightsGiven = None, resampling: Resampling | None = None
) -> Measure:
    """Gwet's AC1 (identity weights) or AC2 of any number of raters with gaps, from -1 to 1; items form.

    Chance depends on the number of levels declared, used or not, so a rating needs a step (else ``not_applicable``). It
    stays defined where all answers are the same. Source: Gwet 2008; 2014, chapters 4 and 5. Undefined:
    ``nothing_to_compare``, ``single_item``.

    >>> gwet_ac([[90, 4], [4, 2]], "binary:Pass/Fail").value.__round__(4)
    0.9098
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        return _not_applicable()
    about = {
        "kind": "AC1" if given.weights.name == "identity" else "AC2",
        "form": "items",
        "weights": given.weights.name,
    }
    reason = reason_of(given.together, chance_corrected=True, constant_is_defined=True)
    return _one(given.together, ChanceByScale(given.weights, "gwet"), reason, resampling, **about)


def brennan_prediger(
    answers: Answers, scale: Scale | str, *, weights: WeightsGiven = None, resampling: Resampling | None = None
) -> Measure:
    """Agreement over items against a chance that takes every declared level as equally likely, at most 1.

    Source: Brennan and Prediger 1981; weighted and with gaps Gwet 2014. A rating without a step is ``not_applicable``.
    Undefined: ``nothing_to_compare``, ``single_item``.

    >>> brennan_prediger([[20, 5], [10, 15]], "binary:Yes/No").value.__round__(4)
    0.4
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        return _not_applicable()
    reason = reason_of(given.together, chance_corrected=True, constant_is_defined=True)
    about = {"form": "items", "weights": given.weights.name}
    return _one(given.together, ChanceByScale(given.weights, "uniform"), reason, resampling, **about)


def pabak(
    answers: Answers,
    scale: Scale | str,
    *,
    form: Form = "pairs",
    weights: WeightsGiven = None,
    resampling: Resampling | None = None,
) -> Measure:
    """Prevalence-adjusted bias-adjusted kappa, at most 1: agreement p against equally likely levels, which for q levels
    and identity weights is (q p - 1) / (q - 1).

    ``form``: p over pooled ``"pairs"``, or over ``"items"``, which is Brennan and Prediger's number by another name.
    Explains a low kappa beside a high agreement; it is no gate. Source: Byrt, Bishop and Carlin 1993. A rating without a
    step is ``not_applicable``. Undefined: ``nothing_to_compare``, ``single_item``.

    >>> pabak([[90, 4], [4, 2]], "binary:Pass/Fail").value
    0.84
    """
    given = _given(answers, scale, weights)
    if isinstance(given, _Measured):
        return _not_applicable()
    patterns = given.patterns if form == "pairs" else given.together
    statistic = Pabak(given.weights) if form == "pairs" else ChanceByScale(given.weights, "uniform")
    reason = reason_of(patterns, chance_corrected=True, constant_is_defined=True)
    return _one(patterns, statistic, reason, resampling, form=form, weights=given.weights.name)


def positive_agreement(answers: Answers, scale: Scale | str, *, resampling: Resampling | None = None) -> Measure:
    """Of the *pass* answers in pairs, the share that the other answer meets, from 0 to 1: 2a / (2a + b + c).

    For a binary scale, whose first value is pass. Source: Cicchetti and Feinstein 1990. Undefined:
    ``nothing_to_compare``, ``same_answer`` (nobody passed anything).

    >>> positive_agreement([[90, 4], [4, 2]], "binary:Pass/Fail").value.__round__(3)
    0.957
    """
    return _specific(answers, scale, 0, resampling)


def negative_agreement(answers: Answers, scale: Scale | str, *, resampling: Resampling | None = None) -> Measure:
    """Of the *fail* answers in pairs, the share that the other answer meets, from 0 to 1: 2d / (2d + b + c).

    For a binary scale, whose second value is fail. Source: Cicchetti and Feinstein 1990. Undefined:
    ``nothing_to_compare``, ``same_answer`` (nobody failed anything).

    >>> negative_agreement([[90, 4], [4, 2]], "binary:Pass/Fail").value.__round__(3)
    0.333
    """
    return _specific(answers, scale, 1, resampling)


def _specific(answers: Answers, scale: Scale | str, level: int, resampling: Resampling | None) -> Measure:
    given = _given(answers, scale, None)
    if given.scale.kind != "binary" or isinstance(given, _Measured):
        raise ValueError(f"positive and negative agreement are of a binary scale, but this one is {given.scale.kind}")
    return _one(given.patterns, SpecificAgreement(level), reason_of_specific(given.patterns, level), resampling)


def _one(
    patterns: Patterns, statistic: Statistic, reason: Reason | None, resampling: Resampling | None, **about: Any
) -> Measure:
    return estimate(patterns, {"": statistic}, {"": reason}, resampling or _NO_INTERVAL, {"": about})[""]


def _with(measure: Measure, **about: Any) -> Measure:
    return replace(measure, details={**about, **measure.details})


def _not_applicable() -> Measure:
    return Measure(None, "not_applicable", 0, 0)


def _only(wanted: Form, form: Form) -> None:
    if form != wanted:
        raise ValueError(f"form is {form!r}, but a rating without a step has {wanted!r} only; give it a step")


@dataclass(frozen=True)
class _Counted:
    """Answers on a scale with levels: as patterns, or as coded rows (columns item, rater, level; sorted by item) with the
    raters' names."""

    scale: Scale
    weights: Weights
    counted: Patterns | None
    rows: pl.DataFrame
    raters: tuple[Any, ...]

    @property
    def patterns(self) -> Patterns:
        """As they were counted, or else everybody's answers together."""
        return self.together if self.counted is None else self.counted

    @property
    def together(self) -> Patterns:
        """Everybody's answers together."""
        assert self.scale.levels is not None
        if self.counted is not None:
            if self.counted.own is None:
                return self.counted
            own = np.eye(self.counted.levels, dtype=np.int64)[self.counted.own] * (self.counted.own >= 0)[:, None]
            return canonical(self.counted.answers + own, self.counted.items)
        # Whose an answer is does not matter here, so the k-th answers of all items stand as one rater.
        sizes = np.bincount(self.rows["item"].to_numpy())
        kth = np.arange(self.rows.height) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = self.rows.with_columns(pl.Series("rater", kth, dtype=pl.Int32))
        return item_table(rows, self.scale.levels, range(int(sizes.max(initial=0))), ()).annotated()

    def pair(self, raters: tuple[Any, Any] | None) -> Patterns:
        """One rater against the other."""
        if self.counted is not None:
            return _apart(self.counted)
        assert self.scale.levels is not None
        first, second = _two(self.raters, raters)
        rows = self.rows.filter(pl.col("rater").is_in([first, second]))
        table = item_table(rows, self.scale.levels, (first, second), ())
        nothing = np.zeros((self.scale.levels, self.scale.levels), dtype=np.int64)
        return of_pair(rater_pairs(table, (first, second)).get((first, second), nothing))

    def beside(self, rater: Any) -> Patterns:
        """One rater against all others."""
        if self.counted is not None:
            return _apart(self.counted)
        assert self.scale.levels is not None
        one = _named(self.raters, rater)
        others = [r for r in range(len(self.raters)) if r != one]
        return item_table(self.rows, self.scale.levels, others, (one,)).against(one)


@dataclass(frozen=True)
class _Measured:
    """Answers on a rating without a step: coded rows (columns item, rater, number) with the raters' names."""

    scale: Scale
    rows: pl.DataFrame
    raters: tuple[Any, ...]

    @property
    def span(self) -> float:
        assert self.scale.low is not None and self.scale.high is not None
        return float(self.scale.high - self.scale.low)

    def together(self) -> continuous.Group:
        return continuous.Group(self.rows["item"].to_numpy(), self.rows["number"].to_numpy())

    def pair(self, raters: tuple[Any, Any] | None) -> continuous.Group:
        first, second = _two(self.raters, raters)
        return self._against(first, pl.col("rater") == second)

    def beside(self, rater: Any) -> continuous.Group:
        one = _named(self.raters, rater)
        return self._against(one, pl.col("rater") != one)

    def _against(self, one: int, others: pl.Expr) -> continuous.Group:
        mine = self.rows.filter(pl.col("rater") == one).select("item", pl.col("number").alias("own"))
        both = self.rows.filter(others).join(mine, on="item", maintain_order="left")
        return continuous.Group(*(both[c].to_numpy() for c in ("item", "number", "own")))


def _given(answers: Answers, scale: Scale | str, weights: WeightsGiven) -> _Counted | _Measured:
    if isinstance(scale, str):
        scale = scales.parse(f"value={scale}").scale
    if scale.levels is None:
        if weights is not None and not (isinstance(weights, str) and weights == "linear"):
            raise ValueError("a rating without a step has linear weights only; give it a step")
        if _counts(answers):
            raise ValueError("a rating without a step has no table of counts; give it a step")
        return _Measured(scale, *_coded(answers, scale))
    chosen = _weights(scale, weights)
    nothing = pl.DataFrame(schema={"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32})
    if _counts(answers):
        return _Counted(scale, chosen, _patterns(answers, scale.levels), nothing, ())
    return _Counted(scale, chosen, None, *_coded(answers, scale))


def _counts(answers: Answers) -> bool:
    """Whether these are counts already, rather than a table of answers."""
    nested = isinstance(answers, list | tuple) and bool(answers) and isinstance(answers[0], list | tuple | np.ndarray)
    return nested or isinstance(answers, Patterns | np.ndarray)


def _patterns(answers: Answers, q: int) -> Patterns:
    if isinstance(answers, Patterns):
        if answers.levels != q:
            raise ValueError(f"the patterns have {answers.levels} levels, but the scale has {q}")
        return answers
    table = np.asarray(answers)
    if table.shape != (q, q):
        raise ValueError(f"the table of counts is {table.shape}, but the scale has {q} levels: it must be ({q}, {q})")
    if not np.issubdtype(table.dtype, np.number) or (table < 0).any() or (table != np.floor(table)).any():
        raise ValueError("a table of counts holds whole numbers, 0 or more")
    return of_pair(table.astype(np.int64))


def _weights(scale: Scale, weights: WeightsGiven) -> Weights:
    if weights is None:
        return weights_of(scale)
    if isinstance(weights, str):
        if weights not in ("identity", "linear", "quadratic"):
            raise ValueError(f"weights are {weights!r}; they are identity, linear, quadratic or a matrix")
        if weights != "identity" and scale.kind in ("nominal", "preference"):
            raise ValueError(f"weights are {weights!r}, but a {scale.kind} scale has no order; give a matrix")
        return weights_of(scale, cast(WeightName, weights))
    matrix = np.asarray(weights)
    q = scale.levels
    if matrix.shape != (q, q) or not np.issubdtype(matrix.dtype, np.number):
        raise ValueError(
            f"the weights are {matrix.shape}, but the scale has {q} levels: they must be ({q}, {q}) numbers"
        )
    off = ~np.eye(len(matrix), dtype=bool)
    if not np.isfinite(matrix).all() or (matrix != matrix.T).any() or np.diag(matrix).any() or (matrix[off] <= 0).any():
        raise ValueError(
            "the matrix holds disagreement weights: 0 on the diagonal, above 0 elsewhere, the same both ways round"
        )
    exact = (matrix == np.floor(matrix)).all() and matrix.max() < 2**31
    distance = matrix.astype(np.int64 if exact else np.float64)
    return Weights(distance, distance.max().item(), "given")


def _coded(answers: Answers, scale: Scale) -> tuple[pl.DataFrame, tuple[Any, ...]]:
    """The rows that hold an answer, items and raters as codes, and the names of the raters (sorted)."""
    named = _table(answers)
    raters = named["rater"].unique().sort()
    places = pl.DataFrame({"rater": raters, "_rater": pl.int_range(len(raters), dtype=pl.Int32, eager=True)})
    table = named.join(places, on="rater", maintain_order="left").with_columns(
        (pl.col("item").rank("dense") - 1).cast(pl.UInt32)
    )
    key = pl.col("item").cast(pl.Int64) * len(raters) + pl.col("_rater")
    if table.select(key.n_unique()).item() < table.height:
        item, rater = named.filter(table.select(key.is_duplicated()).to_series()).row(0)[:2]
        raise ValueError(f"rater {rater!r} answers item {item!r} more than once; keep one row per rater and item")
    table = table.filter(pl.col("value").is_not_null())
    found = table["value"].unique()
    raws = [json.dumps(_plain(v)) for v in found.to_list()]
    of = levels(Dimension("value", scale, untyped=True), raws)
    if wrong := [raw for raw in raws if of[raw][0] == REJECTED]:
        raise ValueError(f"the value {sorted(wrong)[0]} is not on the scale; it has {_told(scale)}")
    known = pl.DataFrame(
        {"value": found, "level": [of[r][0] for r in raws], "number": [of[r][1] for r in raws]},
        schema_overrides={"level": pl.Int32, "number": pl.Float64},
    )
    rows = table.join(known, on="value", maintain_order="left").select(
        "item", pl.col("_rater").alias("rater"), "level", "number"
    )
    return rows.sort("item", "rater"), tuple(raters.to_list())


def _table(answers: Answers) -> pl.DataFrame:
    try:
        table = answers.collect() if isinstance(answers, pl.LazyFrame) else pl.DataFrame(answers)
        # numpy arrays of Python objects are opaque to polars until they are lists.
        objects = [pl.Series(c.name, c.to_list()) for c in table if c.dtype == pl.Object]
    except Exception as error:  # what polars raises depends on what it was given
        raise ValueError(f"the answers cannot be read as a table: {error}") from error
    for column in ("item", "rater", "value"):
        if column not in table.columns:
            raise ValueError(f"the table has no column {column!r}; it has {', '.join(map(repr, table.columns))}")
    table = table.with_columns(objects).select("item", "rater", "value")
    named = [c.name for c in table if c.dtype in (pl.Categorical, pl.Enum)]
    table = table.with_columns(pl.col(named).cast(pl.String))
    for column in ("item", "rater"):
        if table[column].null_count():
            raise ValueError(f"a row has no {column}; name it, or leave the row out")
    return table.with_columns(pl.col("value").fill_nan(None)) if table["value"].dtype.is_float() else table


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    return value if isinstance(value, str | bool | int | float) else str(value)


def _told(scale: Scale) -> str:
    if scale.kind == "rating" and not scale.points:
        assert scale.low is not None and scale.high is not None
        step = "" if scale.step is None else f" in steps of {number(scale.step)}"
        return f"values from {number(scale.low)} to {number(scale.high)}{step}"
    return ", ".join(scale.names)


def _apart(patterns: Patterns) -> Patterns:
    if patterns.own is None:
        raise ValueError("these patterns set no rater apart; give patterns with own, a (q, q) table or rows")
    return patterns


def _two(present: Sequence[Any], wanted: tuple[Any, Any] | None) -> tuple[int, int]:
    if wanted is None:
        if len(present) > 2:
            raise ValueError(f"there are {len(present)} raters; name two of them, e.g. raters={tuple(present[:2])!r}")
        # With one rater, or none, there is nobody to compare with: the other one has answered nothing.
        return 0, 1
    first, second = wanted
    if first == second:
        raise ValueError(f"raters names {first!r} twice; name two raters")
    return _named(present, first), _named(present, second)


def _named(present: Sequence[Any], wanted: Any) -> int:
    if wanted not in present:
        raise ValueError(f"there is no rater {wanted!r}; there are: {', '.join(map(repr, present))}")
    return list(present).index(wanted)
