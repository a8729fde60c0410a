"""How much two answers agree: w(a, b) = 1 - distance(a, b) / span, in whole numbers as long as the scale allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.model import Scale

Array = NDArray[Any]
WeightName = Literal["identity", "linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Weights:
    """``distance`` (q, q), zero on the diagonal, and the ``span`` it is divided by; both whole numbers.

    ``swap`` (q,), where two responses are shuffled, names the level that each level becomes when they change places:
    chance then uses the margins averaged over the swap.
    """

    distance: Array
    span: int
    name: str
    swap: Array | None = None

    @property
    def levels(self) -> int:
        return len(self.distance)


def weights_of(scale: Scale, name: WeightName | None = None) -> Weights:
    """The weights of a scale: linear on ordered scales, else identity; or those that ``name`` asks for.

    >>> weights_of(Scale("ordinal", ("low", "mid", "high"))).distance.tolist()
    [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    """
    chosen = name or ("linear" if scale.ordered else "identity")
    q = scale.levels
    if q is None:
        raise ValueError("a rating without a step has no levels; give it a step")
    if chosen == "identity":
        swap = np.array([1, 0, *range(2, q)]) if scale.kind == "preference" and not scale.fixed else None
        return Weights(1 - np.eye(q, dtype=np.int64), 1, chosen, swap)
    ends = (scale.low, scale.high) if scale.kind == "rating" else (None, None)
    return spaced(scale.positions, chosen, ends=ends)


def spaced(
    positions: Sequence[Fraction], name: WeightName, *, ends: tuple[Fraction | None, Fraction | None] = (None, None)
) -> Weights:
    """Linear or quadratic weights of levels that lie at ``positions`` of a scale from ``ends[0]`` to ``ends[1]``."""
    low = positions[0] if ends[0] is None else ends[0]
    high = positions[-1] if ends[1] is None else ends[1]
    places, unit = whole([p - low for p in (*positions, high)])
    apart = np.abs(places[:-1, None] - places[None, :-1])
    span = (high - low) * unit
    assert span.denominator == 1
    if name == "linear":
        return Weights(apart, int(span), name)
    return Weights(apart**2 if span < 2**20 else apart.astype(np.float64) ** 2, int(span) ** 2, name)


def whole(values: Sequence[Fraction]) -> tuple[Array, int]:
    """``values`` as whole numbers of one ``1 / unit``, and that unit; as floats where whole ones would be too large to be
    multiplied and summed."""
    unit = lcm(*(v.denominator for v in values))
    scaled = [int(v * unit) for v in values]
    fits = max(map(abs, scaled), default=0) < 2**40
    return np.array(scaled, dtype=np.int64 if fits else np.float64), unit
