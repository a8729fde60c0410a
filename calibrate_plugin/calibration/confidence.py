"""Is the judge right as often as it is sure? From k draws of one judge on one item, or from a confidence that it states.

Of k draws the answer is the mode (on ordered scales the median) and the confidence the share of the successful draws that
gave it. Draws that never differ, as at temperature 0, say nothing about confidence and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import exp, floor, lgamma, log
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.design import UNKNOWN, Design
from calibrate_plugin.calibration.gold import DECIDED, Gold
from calibrate_plugin.calibration.panel import share_of
from calibrate_plugin.calibration.resampling import ends_of_pulls
from calibrate_plugin.model import Measure, Reason, Scale
from calibrate_plugin.ratings.rules import Answers

Array = NDArray[Any]
BINS = 10


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of one judge: ``counts`` (N, q) successful draws by level, ``failed`` (N,) draws without an answer."""

    counts: Array
    failed: Array


@dataclass(frozen=True, slots=True)
class Bin:
    """Items whose confidence lies in [low, high) (one value for draws; the last bin holds its upper end too).

    ``confidence`` is their mean, ``accuracy`` the share that is right, ``gap`` confidence minus accuracy; all None in an
    empty bin.
    """

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: Measure | None
    gap: float | None


@dataclass(frozen=True, slots=True)
class Confidence:
    """How well confidence and being right go together, over the items with an answer, a confidence and gold.

    ``ece`` is the expected calibration error, in ``details["noise"]`` beside what a judge with perfect confidences would
    show for chance alone; ``brier`` the mean squared error of the confidence, ``base_rate_brier`` that of always stating the
    accuracy; ``gap`` mean confidence minus accuracy (above 0: too sure). ``tied`` items have no answer, ``failed_items`` no
    successful draw. ``weighted`` are the numbers with items weighted by their inclusion probabilities.
    """

    source: Literal["draws", "stated"]
    ece: Measure
    brier: Measure
    base_rate_brier: Measure
    gap: Measure
    accuracy: Measure
    bins: tuple[Bin, ...]
    tied: int = 0
    failed_items: int = 0
    failed_draws: int = 0
    draws_per_item: Mapping[int, int] | None = None
    weighted: Confidence | None = None


def of_draws(draws: Draws, scale: Scale, gold: Gold, resampling: Resampling, *, design: Design = UNKNOWN) -> Confidence:
    """Calibration of the share of draws; one group per distinct confidence."""
    k = draws.counts.sum(axis=1)
    given = k > 0
    level, tied = answer_of_draws(draws.counts, scale)
    at = given & ~tied & (gold.state == DECIDED) & (gold.level >= 0)
    failed_items = int(((draws.failed > 0) & ~given).sum())
    sizes = {int(size): int(n) for size, n in zip(*np.unique(k[given], return_counts=True), strict=True)}
    about = {
        "tied": int((tied & given).sum()),
        "failed_items": failed_items,
        "failed_draws": int(draws.failed.sum()),
        "draws_per_item": sizes,
    }
    reason: Reason | None = None
    if not (k > 1).any():
        reason = "nothing_to_compare"
    elif (draws.counts.max(axis=1) == k)[given].all():
        reason = "never_differs"
    elif not at.any():
        reason = "no_gold" if not (gold.state == DECIDED).any() else "nothing_to_compare"
    chosen = np.take_along_axis(draws.counts, np.maximum(level, 0)[:, None], axis=1)[:, 0]
    shares = [Fraction(int(j), int(n)) for j, n in zip(chosen[at], k[at], strict=True)] if at.any() else []
    values = sorted(set(shares))
    places = {v: i for i, v in enumerate(values)}
    group = np.array([places[s] for s in shares], dtype=np.int64)
    edges = [(float(v), float(v)) for v in values]
    confidence = np.array([float(s) for s in shares])
    right = level[at] == gold.level[at]
    return _calibration("draws", confidence, right, group, edges, at, reason, resampling, design, about)


def of_stated(
    stated: Array,
    level: Array,
    gold: Gold,
    resampling: Resampling,
    *,
    bins: int = BINS,
    design: Design = UNKNOWN,
) -> Confidence:
    """Calibration of the confidence that the judge states: ``stated`` (N,) 0 to 1, NaN where it states none, beside its
    answer's ``level`` (N,). Raises ValueError for a confidence outside 0 to 1."""
    outside = stated[(stated < 0) | (stated > 1)]
    if len(outside):
        raise ValueError(f"a stated confidence is {outside[0]:g}; give a share from 0 to 1")
    at = np.isfinite(stated) & (level >= 0) & (gold.state == DECIDED) & (gold.level >= 0)
    confidence = stated[at]
    group = bin_of(confidence, bins)
    edges = [(i / bins, (i + 1) / bins) for i in range(bins)]
    right = level[at] == gold.level[at]
    reason: Reason | None = None
    if not at.any():
        reason = "no_gold" if not (gold.state == DECIDED).any() else "nothing_to_compare"
    return _calibration("stated", confidence, right, group, edges, at, reason, resampling, design, {})


def answer_of_draws(counts: Array, scale: Scale) -> tuple[Array, Array]:
    """The answer (N,) of an item's draws (N, q), -1 where there is none, and whether they tie."""
    total = counts.sum(axis=1)
    if scale.ordered:
        upto = np.cumsum(counts, axis=1)
        lower = (upto >= ((total + 1) // 2)[:, None]).argmax(axis=1)
        upper = (upto >= (total // 2 + 1)[:, None]).argmax(axis=1)
        tied = (lower != upper) & (total > 0)
        return np.where((total > 0) & ~tied, lower, -1), tied
    most = counts.max(axis=1)
    tied = ((counts == most[:, None]).sum(axis=1) > 1) & (total > 0)
    return np.where((total > 0) & ~tied, counts.argmax(axis=1), -1), tied


def draws_of(answers: Answers, labels: pl.DataFrame, rater: int, n: int) -> Draws:
    """The draws behind an evaluator's answers, by item code; ``labels`` are those of the same ratings.

    A draw is a label that says which sample it is or of which execution; only the set that the counted answer was made
    of is read.
    """
    q = answers.dimension.scale.levels
    if q is None:
        raise ValueError("draws of a rating without a step cannot be counted; give it a step")
    rows = answers.frame.filter(
        (pl.col("rater") == rater)
        & (pl.col("cause").is_null() | pl.col("cause").is_in(["sampled", "tied", "failed", "abstained"]))
    )
    text = pl.lit(None, dtype=pl.String)
    about = labels[rows["row"].to_numpy()]
    run = pl.col("run").fill_null("") if "run" in about.columns else pl.lit("")
    execution = pl.col("execution") if "execution" in about.columns else text
    sample = pl.col("sample") if "sample" in about.columns else text
    named = about.select(
        pl.when(execution.is_not_null())
        .then("e:" + execution)
        .when(sample.is_not_null())
        .then("s:" + run)
        .otherwise(text)
        .alias("set")
    )
    rows = pl.concat([rows.select("row", "item", "level", "cause"), named], how="horizontal")
    rows = rows.filter(pl.col("set").is_not_null())
    standing = pl.col("cause").is_null() | pl.col("cause").is_in(["tied", "sampled"])
    newest = (
        rows.filter(standing)
        .unique("item", keep="first", maintain_order=True)
        .select("item", pl.col("set").alias("newest"))
    )
    rows = rows.join(newest, on="item", how="left").filter(
        pl.col("newest").is_null() | (pl.col("newest") == pl.col("set"))
    )
    # The head of a set carries the set's answer; what it said itself is the raw level, read again.
    raw = _raw_levels(answers, labels, rows["row"], rater)
    item = rows["item"].to_numpy()
    counts = np.zeros((n, q), dtype=np.int64)
    failed = np.zeros(n, dtype=np.int64)
    good = raw >= 0
    np.add.at(counts, (item[good], raw[good]), 1)
    np.add.at(failed, item[~good], 1)
    return Draws(counts, failed)


def _raw_levels(answers: Answers, labels: pl.DataFrame, rows: pl.Series, rater: int) -> Array:
    from calibrate_plugin.ratings.answers import levels

    value = labels["value"].gather(rows)
    found = levels(answers.dimension, value.drop_nulls().unique(), evaluator=answers.raters[rater].name)
    return np.array([-2 if v is None else found[v][0] for v in value], dtype=np.int64)


def bin_of(confidence: Array, bins: int) -> Array:
    """Which of ``bins`` equal parts of 0 to 1 each confidence lies in, by its decimal spelling: 0.29 is 29 hundredths."""
    values, inverse = np.unique(confidence, return_inverse=True)
    at = [min(bins - 1, floor(Fraction(repr(float(v))) * bins)) for v in values]
    return np.array(at, dtype=np.int64)[inverse.reshape(-1)] if len(values) else np.empty(0, dtype=np.int64)


def _calibration(
    source: Literal["draws", "stated"],
    confidence: Array,
    right: Array,
    group: Array,
    edges: list[tuple[float, float]],
    at: Array,
    reason: Reason | None,
    resampling: Resampling,
    design: Design,
    about: Mapping[str, Any],
) -> Confidence:
    n = len(confidence)
    if reason is None and design.weighted:
        stratum, weight = design.of_items(at)
        plain = _numbers(source, confidence, right, group, edges, np.ones(n), None, resampling, about)
        weighted = _numbers(source, confidence, right, group, edges, weight / weight.mean(), stratum, resampling, {})
        return Confidence(**{**_fields(plain), "weighted": weighted})
    if reason is not None:
        nothing = Measure(None, reason, n, None)
        accuracy = share_of(int(right.sum()), n, resampling.level) if n else nothing
        return Confidence(source, nothing, nothing, nothing, nothing, accuracy, (), **about)
    return _numbers(source, confidence, right, group, edges, np.ones(n), None, resampling, about)


def _fields(told: Confidence) -> dict[str, Any]:
    return {name: getattr(told, name) for name in told.__dataclass_fields__}


def _numbers(
    source: Literal["draws", "stated"],
    confidence: Array,
    right: Array,
    group: Array,
    edges: list[tuple[float, float]],
    weight: Array,
    stratum: Array | None,
    resampling: Resampling,
    about: Mapping[str, Any],
) -> Confidence:
    n = len(confidence)
    hit = right.astype(np.float64)
    total = weight.sum()
    m = np.bincount(group, weights=weight, minlength=len(edges))
    sure = np.bincount(group, weights=weight * confidence, minlength=len(edges))
    won = np.bincount(group, weights=weight * hit, minlength=len(edges))
    count = np.bincount(group, minlength=len(edges))
    wins = np.bincount(group, weights=hit, minlength=len(edges)).astype(np.int64)
    bins = []
    for k, (low, high) in enumerate(edges):
        if not count[k]:
            bins.append(Bin(low, high, 0, None, None, None))
            continue
        share = share_of(int(wins[k]), int(count[k]), resampling.level)
        if stratum is not None:
            share = Measure(won[k] / m[k], None, int(count[k]), None, None, "not_asked")
        bins.append(Bin(low, high, int(count[k]), sure[k] / m[k], share, (sure[k] - won[k]) / m[k]))
    accuracy = float((weight * hit).sum() / total)
    noise = sum(m[k] / total * _chance_gap(int(count[k]), sure[k] / m[k]) for k in range(len(edges)) if count[k])
    ece = Measure(
        float(np.abs(sure - won).sum() / total), None, n, None, None, "not_applicable", {"noise": float(noise)}
    )

    def mean(values: Array) -> Measure:
        value = float((weight * values).sum() / total)
        pulls = weight * (values - value) / total
        ends, why = ends_of_pulls(value, pulls, np.ones(n, dtype=np.int64), resampling, stratum)
        return Measure(value, None, n, None, ends, why)

    right_share = share_of(int(right.sum()), n, resampling.level) if stratum is None else mean(hit)
    base = Measure(accuracy * (1 - accuracy), None, n, None, None, "not_applicable")
    return Confidence(
        source, ece, mean((confidence - hit) ** 2), base, mean(confidence - hit), right_share, tuple(bins), **about
    )


def _chance_gap(n: int, p: float) -> float:
    """The mean absolute difference of a share of n from its true p (De Moivre's mean deviation of the binomial)."""
    if p <= 0 or p >= 1:
        return 0.0
    v = min(n, floor(n * p) + 1)
    ways = lgamma(n + 1) - lgamma(v + 1) - lgamma(n - v + 1)
    return 2 * v / n * exp(ways + v * log(p) + (n - v + 1) * log(1 - p))


__all__ = ["BINS", "Bin", "Confidence", "Draws", "answer_of_draws", "bin_of", "draws_of", "of_draws", "of_stated"]
