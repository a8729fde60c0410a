"""A judge that gives numbers beside people who say pass or fail: what every threshold would do, and the one to take.

The threshold is chosen on the dev items and told on the test items; what it does on the items that chose it is no evidence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, wilson
from calibrate_plugin.calibration.panel import share_of
from calibrate_plugin.model import Interval, Measure, Reason
from calibrate_plugin.ratings.rules import Answers

Array = NDArray[Any]
Criterion = Literal["youden", "kappa", "accuracy"]
#: A table with more rows than this is no longer read; thresholds are then taken at equal shares of the items.
MOST_ROWS = 101


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """What passing everything at or above ``threshold`` does, pass being the positive class."""

    threshold: float
    true_pass: int
    false_fail: int
    false_pass: int
    true_fail: int

    @property
    def tpr(self) -> float:
        return self.true_pass / (self.true_pass + self.false_fail)

    @property
    def tnr(self) -> float:
        return self.true_fail / (self.true_fail + self.false_pass)

    @property
    def youden(self) -> float:
        return self.tpr + self.tnr - 1

    @property
    def accuracy(self) -> float:
        return (self.true_pass + self.true_fail) / self._n

    @property
    def kappa(self) -> float:
        """0 where the threshold passes all or none."""
        said, told = self.true_pass + self.false_pass, self.true_pass + self.false_fail
        n = self._n
        chance = said * told + (n - said) * (n - told)
        return ((self.true_pass + self.true_fail) * n - chance) / (n * n - chance)

    @property
    def _n(self) -> int:
        return self.true_pass + self.false_fail + self.false_pass + self.true_fail


@dataclass(frozen=True, slots=True)
class OnTest:
    """The chosen threshold on the items that did not choose it."""

    row: ThresholdRow
    tpr: Measure
    tnr: Measure
    accuracy: Measure


@dataclass(frozen=True, slots=True)
class Thresholds:
    """``rows``: the table, on the dev items where there is a split, else on all. ``roc``: (false pass rate, TPR) from (0, 0)
    to (1, 1). ``area``: the chance that a passing item has the higher number (ties half). ``chosen`` is the best threshold
    by ``criterion``; ``test`` what it does on the test items, None for ``test_reason``."""

    rows: tuple[ThresholdRow, ...]
    roc: tuple[tuple[float, float], ...]
    area: Measure
    criterion: Criterion
    chosen: float | None
    test: OnTest | None
    test_reason: Reason | None
    reason: Reason | None


def thresholds(
    scores: Array,
    passed: Array,
    *,
    dev: Array | None = None,
    test: Array | None = None,
    criterion: Criterion = "youden",
    level: float = 0.95,
) -> Thresholds:
    """``scores`` (N,) numbers of the judge (NaN: none), ``passed`` (N,) gold: 1 pass, 0 fail, -1 unknown; ``dev`` and
    ``test`` (N,) masks.

    >>> found = thresholds(np.array([.1, .4, .6, .9, .2, .8]), np.array([0, 0, 1, 1, 1, 1]))
    >>> found.chosen, found.area.value, found.test_reason
    (0.6, 0.875, 'no_split')
    """
    known = np.isfinite(scores) & (passed >= 0)
    used = known if dev is None else known & dev
    score, right = scores[used], passed[used] == 1
    reason = _reason(right)
    area = _area(score, right, level) if reason is None else Measure(None, reason, len(score), None)
    if reason is not None:
        return Thresholds((), (), area, criterion, None, None, reason, reason)
    values, below_pass, below_fail = _steps(score, right)
    m, k = int(right.sum()), int((~right).sum())
    every = [
        ThresholdRow(float(t), m - int(p), int(p), k - int(f), int(f))
        for t, p, f in zip(values, below_pass, below_fail, strict=True)
    ]
    best = max(every, key=lambda row: (getattr(row, criterion), -row.threshold))
    shown = _thinned(every, best)
    roc = [(0.0, 0.0), *((1 - row.tnr, row.tpr) for row in reversed(shown))]
    told, why = _on_test(scores, passed, known, test, best.threshold, level)
    return Thresholds(tuple(shown), tuple(roc), area, criterion, best.threshold, told, why, None)


def scores_of(answers: Answers, labels: pl.DataFrame, rater: int, n: int) -> Array:
    """(n,) the evaluator's own numbers by item code, read from the raw values of its latest labels; NaN where there is none.

    ``labels`` are those of the ratings that ``answers`` belong to. A number that the dimension has no verdict for yet
    stands among the failed answers, so those are read too.
    """
    rows = answers.frame.filter(
        (pl.col("rater") == rater) & (pl.col("cause").is_null() | (pl.col("cause") == "failed"))
    )
    about = labels[rows["row"].to_numpy()].select(c for c in ("value", "at", "seq") if c in labels.columns)
    rows = pl.concat([rows.select("row", "item"), about], how="horizontal")
    read = {v: _number(v) for v in rows["value"].drop_nulls().unique()}
    rows = rows.with_columns(pl.col("value").replace_strict(read, default=None, return_dtype=pl.Float64).alias("score"))
    by = [c for c in ("at", "seq", "row") if c in rows.columns]
    latest = rows.filter(pl.col("score").is_not_null()).sort(by).unique("item", keep="last", maintain_order=True)
    found = np.full(n, np.nan)
    found[latest["item"].to_numpy()] = latest["score"].to_numpy()
    return found


def _number(raw: str) -> float | None:
    try:
        value = json.loads(raw)
        read = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, RecursionError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def _reason(right: Array) -> Reason | None:
    if not len(right):
        return "nothing_to_compare"
    return "one_class" if right.all() or not right.any() else None


def _steps(score: Array, right: Array) -> tuple[Array, Array, Array]:
    """The distinct scores, and how many passes and fails lie below each."""
    values, inverse = np.unique(score, return_inverse=True)
    inverse = inverse.reshape(-1)
    passes = np.bincount(inverse[right], minlength=len(values))
    fails = np.bincount(inverse[~right], minlength=len(values))
    return values, np.cumsum(passes) - passes, np.cumsum(fails) - fails


def _thinned(rows: Sequence[ThresholdRow], best: ThresholdRow) -> list[ThresholdRow]:
    if len(rows) <= MOST_ROWS:
        return list(rows)
    below = np.array([row.false_fail + row.true_fail for row in rows])
    wanted = np.linspace(0, below[-1], MOST_ROWS - 1)
    kept = set(np.searchsorted(below, wanted).tolist()) | {rows.index(best)}
    return [rows[i] for i in sorted(kept)]


def _area(score: Array, right: Array, level: float) -> Measure:
    """Area under the curve with DeLong's standard error (1988) on the logit scale; with both classes wholly apart the
    interval of a share of the smaller class."""
    values, below_pass, below_fail = _steps(score, right)
    at = np.searchsorted(values, score)
    m, k = int(right.sum()), int((~right).sum())
    passes, fails = np.append(below_pass, m), np.append(below_fail, k)
    over = (fails[at] + fails[at + 1])[right] / (2 * k)
    under = 1 - (passes[at] + passes[at + 1])[~right] / (2 * m)
    area = float(over.mean())
    n = len(score)
    if min(m, k) < 2 or n < FEWEST_ITEMS:
        return Measure(area, None, n, None, None, "too_few_items")
    error = math.sqrt(over.var(ddof=1) / m + under.var(ddof=1) / k)
    if area in (0.0, 1.0) or error == 0:
        ends = wilson(round(area * min(m, k)), min(m, k), level)
        return Measure(area, None, n, None, ends)
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    centre, half = math.log(area / (1 - area)), z * error / (area * (1 - area))
    low, high = (1 / (1 + math.exp(-x)) if x > -700 else 0.0 for x in (centre - half, centre + half))
    return Measure(area, None, n, None, Interval(low, high, level, "delong-logit"))


def _on_test(
    scores: Array, passed: Array, known: Array, test: Array | None, threshold: float, level: float
) -> tuple[OnTest | None, Reason | None]:
    if test is None:
        return None, "no_split"
    used = known & test
    right = passed[used] == 1
    reason = _reason(right)
    if reason is not None:
        return None, "no_split" if reason == "nothing_to_compare" else reason
    said = scores[used] >= threshold
    row = ThresholdRow(
        threshold,
        int((said & right).sum()),
        int((~said & right).sum()),
        int((said & ~right).sum()),
        int((~said & ~right).sum()),
    )
    n, m = len(right), int(right.sum())
    tpr, tnr = share_of(row.true_pass, m, level), share_of(row.true_fail, n - m, level)
    return OnTest(row, tpr, tnr, share_of(row.true_pass + row.true_fail, n, level)), None


__all__ = ["Criterion", "OnTest", "ThresholdRow", "Thresholds", "scores_of", "thresholds"]
