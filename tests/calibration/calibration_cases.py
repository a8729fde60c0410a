"""Small data that several tests of calibration share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.panel import Panel, panel
from calibrate_plugin.model import Scale

BINARY = Scale("binary", ("pass", "fail"))
FIVE = Scale("rating", low=Fraction(1), high=Fraction(5), step=Fraction(1))
QUIET = Resampling(method="none")
FAST = Resampling(resamples=1000)

#: practice.md 2.1: both pass, only the first, only the second, both fail.
TWO_BY_TWO = {
    "seed 001": (70, 10, 5, 15),
    "seed 001 skewed": (90, 4, 4, 2),
    "Cohen": (20, 5, 10, 15),
    "rare": (90, 5, 4, 1),
    "no agreed failure": (118, 5, 2, 0),
    "seed 001 grader": (122, 18, 12, 48),
}
#: practice.md 2.3: twelve items on a scale of 1 to 5.
HUMAN = [5, 5, 5, 4, 5, 5, 3, 5, 4, 1, 5, 2]
JUDGE = [5, 4, 5, 4, 5, 5, 4, 5, 5, 2, 4, 2]


def spread(a: int, b: int, c: int, d: int) -> tuple[list[int], list[int]]:
    """The levels of two raters whose table of counts is a, b, c, d."""
    return [0] * a + [0] * b + [1] * c + [1] * d, [0] * a + [1] * b + [0] * c + [1] * d


def rated(values: Sequence[int | None]) -> list[int | None]:
    """Levels of ratings from 1 to 5."""
    return [None if v is None else v - 1 for v in values]


def frame_of(columns: Mapping[int, Sequence[int | None]], places: Sequence[float] | None = None) -> pl.DataFrame:
    """Answers as the comparisons of the agreement core read them; a rater is a number."""
    rows = [
        (item, rater, level, float(level if places is None else places[level]))
        for rater, levels in columns.items()
        for item, level in enumerate(levels)
        if level is not None
    ]
    schema = {"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def urn(n: int, pass_rate: float, loyalty: Sequence[float], rng: np.random.Generator) -> list[NDArray[Any]]:
    """Raters who say, each with its own ``loyalty``, what the item has in it, and else what chance says. The kappa of two
    of them is exactly the product of their loyalties, for any number of categories and any weights."""
    inside = (rng.random(n) >= pass_rate).astype(np.int64)
    return [np.where(rng.random(n) < part, inside, (rng.random(n) >= pass_rate).astype(np.int64)) for part in loyalty]


def urn_panel(n: int, pass_rate: float, people: Sequence[float], judge: float, rng: np.random.Generator) -> Panel:
    *humans, machine = urn(n, pass_rate, [*people, judge], rng)
    return panel(BINARY, {f"person {i}": levels for i, levels in enumerate(humans)}, {"judge": machine})
