"""How far and in which direction a judge is off on an ordered scale, and whether it rises and falls with the gold.

Statistics of the counted table (judge's level against gold level), so weights and strata work as everywhere; and the same
numbers for two lists of values on a rating without a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.agreement.statistics import pairs_of
from calibrate_plugin.calibration.resampling import ends_of_pulls
from calibrate_plugin.model import Measure, Reason
from calibrate_plugin.ratings.counting import Patterns

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _OfPlaces:
    """``places`` (q,) of the levels as whole numbers, ``unit`` of them to one point of the scale."""

    places: Array
    unit: int

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0


@dataclass(frozen=True, slots=True)
class AbsoluteError(_OfPlaces):
    """Mean absolute difference, in points of the scale."""

    top: ClassVar[float] = inf

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        apart = np.abs(self.places[patterns.own][:, None] - self.places[None, :])
        return np.column_stack([(apart * patterns.answers).sum(axis=1), pairs_of(patterns)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 1] * self.unit


@dataclass(frozen=True, slots=True)
class Bias(_OfPlaces):
    """Mean of judge minus gold, in points of the scale."""

    top: ClassVar[float] = inf

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        apart = self.places[patterns.own][:, None] - self.places[None, :]
        return np.column_stack([(apart * patterns.answers).sum(axis=1), pairs_of(patterns)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 1] * self.unit


@dataclass(frozen=True, slots=True)
class WithinOne(_OfPlaces):
    """The share of answers at most one point (on an ordinal scale one category) from the gold."""

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        near = np.abs(self.places[patterns.own][:, None] - self.places[None, :]) <= self.unit
        return np.column_stack([(near * patterns.answers).sum(axis=1), pairs_of(patterns)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 1]


@dataclass(frozen=True, slots=True)
class Pearson(_OfPlaces):
    """Product-moment correlation of the places."""

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        x, y = self.places[patterns.own], self.places
        n, a = pairs_of(patterns), patterns.answers
        return np.column_stack([n, x * n, a @ y, x * x * n, a @ (y * y), x * (a @ y)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        n, x, y, xx, yy, xy = (sums[..., i] for i in range(6))
        return n * xy - x * y, _root((n * xx - x * x) * (n * yy - y * y), n * xx * n * yy)


@dataclass(frozen=True, slots=True)
class Spearman:
    """Rank correlation with midranks, of the cells of a q x q table."""

    levels: int

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        q = self.levels
        cells = np.zeros((len(patterns), q, q), dtype=np.int64)
        assert patterns.own is not None
        cells[np.arange(len(patterns)), patterns.own] = patterns.answers
        return cells.reshape(len(patterns), q * q)

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        q = self.levels
        cells = sums.reshape(*sums.shape[:-1], q, q)
        rows, columns = cells.sum(axis=-1), cells.sum(axis=-2)
        # Twice the midrank less the mean rank: whole numbers that sum to 0 over the answers.
        n = np.asarray(rows.sum(axis=-1))[..., None]
        x = 2 * np.cumsum(rows, axis=-1) - rows - n
        y = 2 * np.cumsum(columns, axis=-1) - columns - n
        together = ((cells * y[..., None, :]).sum(axis=-1) * x).sum(axis=-1)
        spread = (rows * x * x).sum(axis=-1) * (columns * y * y).sum(axis=-1)
        return together, _root(spread, n[..., 0].astype(np.float64) ** 6)


@dataclass(frozen=True, slots=True)
class Errors:
    """A judge's numbers beside gold numbers."""

    mae: Measure
    bias: Measure
    within_one: Measure
    pearson: Measure
    spearman: Measure


def errors_of_values(judge: Array, gold: Array, resampling: Resampling, *, weight: Array | None = None) -> Errors:
    """The errors of (n,) judge's values against (n,) gold values, by each item's pull on each number.

    >>> told = errors_of_values(np.array([5., 4, 5, 4]), np.array([5., 5, 5, 4]), Resampling(method="none"))
    >>> told.mae.value, told.bias.value, told.within_one.value
    (0.25, -0.25, 1.0)
    """
    n = len(judge)
    if not n:
        nothing = Measure(None, "nothing_to_compare", 0, 0)
        return Errors(nothing, nothing, nothing, nothing, nothing)
    w = np.ones(n) if weight is None else weight / weight.mean()
    off = judge - gold
    return Errors(
        _mean(np.abs(off), w, resampling),
        _mean(off, w, resampling),
        _mean((np.abs(off) <= 1 + 1e-9).astype(np.float64), w, resampling),
        _correlation(judge, gold, w, resampling),
        spearman_of_values(judge, gold, w, resampling),
    )


def spearman_of_values(judge: Array, gold: Array, weight: Array, resampling: Resampling) -> Measure:
    """Rank correlation with midranks and the interval of its linear part, ties and all."""
    share = weight / weight.sum()
    f, of_judge = _midranks(judge, share)
    g, of_gold = _midranks(gold, share)
    together, across = float((share * f * g).sum()), (of_judge(g), of_gold(f))
    squares = float((share * f * f).sum()), float((share * g * g).sum())
    spread = (squares[0] - 0.25) * (squares[1] - 0.25)
    reason = _undefined(judge, gold)
    if reason is not None:
        return Measure(None, reason, len(judge), len(judge))
    rho = (together - 0.25) / sqrt(spread)
    # Each average over items of functions of ranks moves in three ways: the item itself, and the ranks it lends to others.
    pull_together = f * g + across[0] + across[1] - 3 * together
    pull_f = f * f + 2 * of_judge(f) - 3 * squares[0]
    pull_g = g * g + 2 * of_gold(g) - 3 * squares[1]
    pulls = pull_together / sqrt(spread) - rho / 2 * (pull_f / (squares[0] - 0.25) + pull_g / (squares[1] - 0.25))
    return _told(rho, pulls * share, resampling, as_correlation=True)


def _midranks(values: Array, share: Array) -> tuple[Array, Any]:
    """Mid-distribution function at each value, and x -> the mean over items above (half of those equal) of x."""
    _, inverse = np.unique(values, return_inverse=True)
    inverse = inverse.reshape(-1)
    mass = np.bincount(inverse, weights=share)
    mid = np.cumsum(mass) - mass / 2

    def above(x: Array) -> Array:
        sums = np.bincount(inverse, weights=share * x)
        return np.asarray((sums.sum() - np.cumsum(sums) + sums / 2)[inverse])

    return mid[inverse], above


def _correlation(x: Array, y: Array, weight: Array, resampling: Resampling) -> Measure:
    reason = _undefined(x, y)
    if reason is not None:
        return Measure(None, reason, len(x), len(x))
    share = weight / weight.sum()
    a, b = x - (share * x).sum(), y - (share * y).sum()
    a, b = a / sqrt((share * a * a).sum()), b / sqrt((share * b * b).sum())
    r = float((share * a * b).sum())
    return _told(r, (a * b - r / 2 * (a * a + b * b)) * share, resampling, as_correlation=True)


def _mean(values: Array, weight: Array, resampling: Resampling) -> Measure:
    share = weight / weight.sum()
    mean = float((share * values).sum())
    return _told(mean, (values - mean) * share, resampling)


def _told(value: float, pulls: Array, resampling: Resampling, *, as_correlation: bool = False) -> Measure:
    n = len(pulls)
    interval, why = ends_of_pulls(value, pulls, np.ones(n, dtype=np.int64), resampling, as_correlation=as_correlation)
    return Measure(value, None, n, n, interval, why)


def _undefined(x: Array, y: Array) -> Reason | None:
    if len(x) == 1:
        return "single_item"
    return "constant_side" if np.ptp(x) == 0 or np.ptp(y) == 0 else None


def _root(spread: Any, scale: Any) -> Any:
    """Square root of a product of spreads; exact 0 where a side is constant, whatever rounding left of it."""
    if isinstance(spread, int):
        return sqrt(spread)
    spread = np.asarray(spread, dtype=np.float64)
    return np.sqrt(np.where(spread > 1e-12 * np.asarray(scale, dtype=np.float64), spread, 0.0))


__all__ = [
    "AbsoluteError",
    "Bias",
    "Errors",
    "Pearson",
    "Spearman",
    "WithinOne",
    "errors_of_values",
    "spearman_of_values",
]
