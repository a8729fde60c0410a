"""The numbers, each a function of sums over counted patterns.

A statistic turns patterns into features (P, f), whole numbers that add up over items, and sums of features into a value.
The same few lines therefore give the exact value (sums as Python integers, divided once), every replicate of a bootstrap
and every leave-one-out value of a jackknife (sums as float arrays (..., f)).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.weights import Weights
from calibrate_plugin.model import Reason
from calibrate_plugin.ratings.counting import Patterns

Array = NDArray[Any]
AlphaMetric = Literal["nominal", "ordinal", "interval", "ratio"]


class Statistic(Protocol):
    """``sizes`` are the numbers of answers per item that occur, where a statistic needs items of one size apart."""

    def enters(self, patterns: Patterns) -> Array:
        """(P,) whether items of a pattern have a part in the number; they are what a bootstrap resamples."""
        ...

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        """(P, f) whole numbers."""
        ...

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        """Numerator and denominator from sums (..., f); the denominator is 0 exactly where the value is undefined."""
        ...


def pairs_of(patterns: Patterns) -> Array:
    """(P,) how many pairs of answers one item has: all pairs, or the own answer with each other one."""
    size = patterns.size
    pairs: Array = size * (size - 1) // 2 if patterns.own is None else np.where(patterns.own >= 0, size, 0)
    return pairs


def shared_of(patterns: Patterns) -> Array:
    """(P, q) in how many pairs of one item both answers are a level."""
    if patterns.own is None:
        return np.asarray(patterns.answers * (patterns.answers - 1) // 2)
    return np.asarray(patterns.answers * (patterns.own[:, None] == np.arange(patterns.levels)))


def disagreement_of(patterns: Patterns, distance: Array) -> Array:
    """(P,) the sum of distances over the pairs of one item."""
    answers = patterns.answers
    apart: Array
    if patterns.own is None:
        # Whole numbers below 2**53 are exact as floats, and floats are multiplied many times faster.
        apart = ((answers.astype(np.float64) @ distance.astype(np.float64)) * answers).sum(axis=1) / 2
        if np.issubdtype(distance.dtype, np.integer):
            most = int(patterns.size.max(initial=0)) ** 2 * int(distance.max(initial=0))
            apart = apart.astype(np.int64) if most < 2**53 else ((answers @ distance) * answers).sum(axis=1) // 2
    else:
        apart = (distance[patterns.own] * answers).sum(axis=1) * (patterns.own >= 0)
    return apart


def reason_of(patterns: Patterns, *, chance_corrected: bool, constant_is_defined: bool = False) -> Reason | None:
    """The first reason, in the order of the contract, why a number over pairs is undefined."""
    with_pairs = patterns.where(pairs_of(patterns) > 0)
    items = int(with_pairs.items.sum())
    if items == 0:
        return "nothing_to_compare"
    if not chance_corrected:
        return None
    if items == 1:
        return "single_item"
    used = with_pairs.answers.sum(axis=0) > 0
    if with_pairs.own is not None:
        used = used | (np.bincount(with_pairs.own, minlength=patterns.levels) > 0)
    return "same_answer" if used.sum() == 1 and not constant_is_defined else None


def reason_of_specific(patterns: Patterns, level: int) -> Reason | None:
    """Why there is no agreement on one level: no pair, or nobody who gave it."""
    reason = reason_of(patterns, chance_corrected=False)
    if reason is not None:
        return reason
    paired = patterns.where(pairs_of(patterns) > 0)
    given = paired.answers[:, level].any() or (paired.own is not None and (paired.own == level).any())
    return None if given else "same_answer"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Mean of w over all pairs, every pair alike; or (``items``) the mean over items of each item's mean."""

    weights: Weights
    form: Literal["pairs", "items"] = "pairs"

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        if self.form == "items":
            return _by_size(patterns, self.weights.distance, sizes)
        return np.column_stack([disagreement_of(patterns, self.weights.distance), pairs_of(patterns)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        if self.form == "items":
            apart = _means_by_size(sums, sizes, self.weights.levels)[0]
            return self.weights.span - apart, self.weights.span + 0.0 * apart
        apart, pairs = sums[..., 0], sums[..., 1]
        return self.weights.span * pairs - apart, self.weights.span * pairs


@dataclass(frozen=True, slots=True)
class Cohen:
    """One rater's answers against the answers beside them, margins kept apart (Cohen 1960, 1968; pooled over pairs)."""

    weights: Weights

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        assert patterns.own is not None
        pairs = pairs_of(patterns)
        mine = (patterns.own[:, None] == np.arange(patterns.levels)) * pairs[:, None]
        theirs = patterns.answers * (pairs > 0)[:, None]
        return np.column_stack([disagreement_of(patterns, self.weights.distance), pairs, mine, theirs])

    def _chance(self, sums: Array) -> tuple[Any, Any]:
        """Expected disagreement over span, as a sum over all couples of answers, and how many couples there are."""
        q = self.weights.levels
        mine, theirs, pairs = sums[..., 2 : 2 + q], sums[..., 2 + q :], sums[..., 1]
        scale = 1
        if self.weights.swap is not None:
            mine, theirs, scale = mine + mine[..., self.weights.swap], theirs + theirs[..., self.weights.swap], 4
        expected = ((mine @ _like(self.weights.distance, sums)) * theirs).sum(axis=-1)
        return expected, scale * pairs * pairs

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        expected, couples = self._chance(sums)
        return expected * sums[..., 1] - sums[..., 0] * couples, expected * sums[..., 1]

    def chance(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        expected, couples = self._chance(sums)
        return couples * self.weights.span - expected, couples * self.weights.span


@dataclass(frozen=True, slots=True)
class Fleiss:
    """All answers in one list (Fleiss 1971). ``pairs``: agreement pooled over pairs, the list holds the answers of items
    with two or more. ``items`` (Gwet): mean agreement over items, shares averaged over items with one or more."""

    weights: Weights
    form: Literal["pairs", "items"] = "pairs"

    def enters(self, patterns: Patterns) -> Array:
        return patterns.size >= (2 if self.form == "pairs" else 1)

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        if self.form == "items":
            return _by_size(patterns, self.weights.distance, sizes)
        pairs = pairs_of(patterns)
        return np.column_stack(
            [disagreement_of(patterns, self.weights.distance), pairs, patterns.answers * (pairs > 0)[:, None]]
        )

    def _chance(self, sums: Array) -> tuple[Any, Any]:
        listed = sums[..., 2:]
        n = listed.sum(axis=-1)
        scale = 1
        if self.weights.swap is not None:
            listed, scale = listed + listed[..., self.weights.swap], 4
        return ((listed @ _like(self.weights.distance, sums)) * listed).sum(axis=-1), scale * n * n

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        if self.form == "items":
            apart, shares = _means_by_size(sums, sizes, self.weights.levels)
            expected = self._spread(shares)
            return expected - apart, expected
        expected, couples = self._chance(sums)
        return expected * sums[..., 1] - sums[..., 0] * couples, expected * sums[..., 1]

    def chance(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        if self.form == "items":
            expected = self._spread(_means_by_size(sums, sizes, self.weights.levels)[1])
            return self.weights.span - expected, self.weights.span
        expected, couples = self._chance(sums)
        return couples * self.weights.span - expected, couples * self.weights.span

    def _spread(self, shares: Array) -> Any:
        """Mean distance of two answers drawn by ``shares``."""
        if self.weights.swap is not None:
            shares = (shares + shares[..., self.weights.swap]) / 2
        return ((shares @ self.weights.distance) * shares).sum(axis=-1)


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha, missing ratings allowed (Krippendorff 2004, chapter 11).

    ``places`` (q,) are the levels' values, for interval and ratio; ordinal distances come from the answers themselves.
    ``swap`` (q,), where two responses are shuffled, averages the answers that make up chance over their exchange.
    """

    metric: AlphaMetric
    places: Array
    swap: Array | None = None

    def enters(self, patterns: Patterns) -> Array:
        return patterns.size >= 2

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        answers = patterns.answers * (patterns.size >= 2)[:, None]
        if self.metric == "ordinal":
            i, j = np.triu_indices(patterns.levels, 1)
            apart = answers[:, i] * answers[:, j]
        else:
            apart = (((answers @ self._distance()) * answers).sum(axis=1) / 2)[:, None]
        unit = _unit(sizes)
        share = np.where(patterns.size > 1, patterns.size - 1, 1)
        each = unit // share if unit > 1 or not (sizes > 2).any() else 1 / share
        return np.column_stack([answers, apart * each[:, None]])

    def _distance(self) -> Array:
        v = self.places.astype(np.float64)
        if self.metric == "nominal":
            return 1.0 - np.eye(len(v))
        if self.metric == "interval":
            return (v[:, None] - v[None, :]) ** 2
        total = v[:, None] + v[None, :]
        return np.where(total > 0, (v[:, None] - v[None, :]) / np.where(total > 0, total, 1), 0.0) ** 2

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        q = len(self.places)
        sums = sums.astype(np.float64)
        listed = sums[..., :q]
        n = listed.sum(axis=-1)
        weighted = sums[..., q:] / _unit(sizes)
        if self.swap is not None:
            listed = (listed + listed[..., self.swap]) / 2
        if self.metric == "ordinal":
            ranks = np.cumsum(listed, axis=-1) - listed / 2
            i, j = np.triu_indices(q, 1)
            distance = (ranks[..., i] - ranks[..., j]) ** 2
            observed = (weighted * distance).sum(axis=-1)
            expected = (listed[..., i] * listed[..., j] * distance).sum(axis=-1)
        else:
            observed = weighted[..., 0]
            expected = ((listed @ self._distance()) * listed).sum(axis=-1) / 2
        return expected - (n - 1) * observed, expected


@dataclass(frozen=True, slots=True)
class ChanceByScale:
    """Items form of agreement corrected by a chance that does not come from paired margins.

    ``gwet``: AC1, or AC2 with weights (Gwet 2008, 2014). ``uniform``: Brennan and Prediger 1981; PABAK on two categories.
    """

    weights: Weights
    chance_model: Literal["gwet", "uniform"]

    def enters(self, patterns: Patterns) -> Array:
        return patterns.size >= (1 if self.chance_model == "gwet" and patterns.own is None else 2)

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        return _by_size(patterns, self.weights.distance, sizes)

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        q = self.weights.levels
        apart, shares = _means_by_size(sums, sizes, q)
        total = q * q - float(self.weights.distance.sum()) / self.weights.span
        if self.weights.swap is not None:
            shares = (shares + shares[..., self.weights.swap]) / 2
        if self.chance_model == "gwet":
            chance = total / (q * (q - 1)) * (shares * (1 - shares)).sum(axis=-1)
        else:
            chance = total / (q * q) + 0.0 * apart
        return 1 - apart / self.weights.span - chance, 1 - chance


@dataclass(frozen=True, slots=True)
class Pabak:
    """Agreement over pairs against uniform chance: (q p_o - 1) / (q - 1) for identity weights (Byrt et al. 1993)."""

    weights: Weights

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        return np.column_stack([disagreement_of(patterns, self.weights.distance), pairs_of(patterns)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        # 1 - D_o / D_e, with D_e the mean distance over all q^2 couples of categories.
        q, every = self.weights.levels, int(self.weights.distance.sum())
        apart, pairs = sums[..., 0], sums[..., 1]
        return every * pairs - apart * (q * q), every * pairs


@dataclass(frozen=True, slots=True)
class SpecificAgreement:
    """Among pairs in which somebody gave ``level``, the share of such answers that are met: 2a / (2a + b + c)."""

    level: int

    def enters(self, patterns: Patterns) -> Array:
        return pairs_of(patterns) > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        given, size = patterns.answers[:, self.level], patterns.size
        if patterns.own is None:
            return np.column_stack([given * (given - 1), given * (size - given)])
        mine = (patterns.own == self.level).astype(np.int64)
        here = (patterns.own >= 0).astype(np.int64)
        return np.column_stack([2 * mine * given, mine * (size - given) + (here - mine) * given])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 0] + sums[..., 1]


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of ``places`` (q,), whole numbers over ``unit``: over all answers, or over the own answers only."""

    places: Array
    unit: int
    own: bool = False

    def enters(self, patterns: Patterns) -> Array:
        return patterns.own >= 0 if self.own and patterns.own is not None else patterns.size > 0

    def features(self, patterns: Patterns, sizes: Array) -> Array:
        if self.own and patterns.own is not None:
            given = (patterns.own[:, None] == np.arange(patterns.levels)).astype(np.int64)
        else:
            given = patterns.answers
        return np.column_stack([given @ self.places, given.sum(axis=1)])

    def ratio(self, sums: Array, sizes: Array) -> tuple[Any, Any]:
        return sums[..., 0], sums[..., 1] * self.unit


def value_of(numerator: Any, denominator: Any) -> float:
    """One division of whole numbers, correctly rounded, or of floats."""
    if isinstance(numerator, int) and isinstance(denominator, int):
        return float(Fraction(numerator, denominator))
    return float(numerator) / float(denominator)


def _unit(sizes: Array) -> int:
    """A whole number that every item's answers but one divide, so that sums stay whole; 1 where it would be too large."""
    unit = lcm(*(int(size) - 1 for size in sizes if size > 1))
    return unit if unit < 2**20 else 1


def _like(distance: Array, sums: Array) -> Array:
    return distance.astype(object) if sums.dtype == object else distance


def _by_size(patterns: Patterns, distance: Array, sizes: Array) -> Array:
    """Per size of item: summed distances, number of items, and each level's answers: (P, len(sizes) * (2 + q))."""
    size = patterns.size
    part = np.column_stack(
        [disagreement_of(patterns, distance), np.ones(len(patterns), dtype=np.int64), patterns.answers]
    )
    of_size: Array = (size[:, None] == sizes[None, :])[:, :, None] * part[:, None, :]
    return of_size.reshape(len(patterns), -1)


def _means_by_size(sums: Array, sizes: Array, q: int) -> tuple[Any, Any]:
    """Mean distance of an item's pairs (items with two or more answers), mean share of each level (items with any)."""
    parts = sums.astype(np.float64).reshape(*sums.shape[:-1], len(sizes), 2 + q)
    apart: Any = 0.0
    shares: Any = 0.0
    paired: Any = 0.0
    items: Any = 0.0
    for k, size in enumerate(sizes):
        if size > 1:
            apart = apart + parts[..., k, 0] / (size * (size - 1) / 2)
            paired = paired + parts[..., k, 1]
        if size > 0:
            shares = shares + parts[..., k, 2:] / size
            items = items + parts[..., k, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(apart, paired), np.divide(shares, np.asarray(items)[..., None])


__all__ = [
    "Agreement",
    "Alpha",
    "AlphaMetric",
    "ChanceByScale",
    "Cohen",
    "Fleiss",
    "Mean",
    "Pabak",
    "SpecificAgreement",
    "Statistic",
    "disagreement_of",
    "pairs_of",
    "reason_of",
    "reason_of_specific",
    "value_of",
]
