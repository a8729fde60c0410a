"""Resampling items inside strata, for numbers that compare named raters or weigh their items.

The same interval as in the agreement core (``item-bootstrap+3``), written for several strata and for pseudo-items with any
number of answers; and its large-sample form (``item-delta``), each item's pull on the number, for data with so many
different patterns that a bootstrap costs more than it tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, t_quantile
from calibrate_plugin.model import Interval, IntervalReason

Array = NDArray[Any]
#: A rater with fewer answers than this beside the most frequent one decides a kappa by a handful.
FEWEST_RARE = 5
#: With fewer rare answers, or items on which raters differ, an interval is too narrow: in simulations
#: (``tests/benchmarks/coverage.py``) it held the truth in 85 to 92 % of the cases.
FEW_DIFFERENCES = 8
_CELLS = 2_000_000
_FEW_EACH = 6


def draws(
    items: Array, stratum: Array, rng: np.random.Generator, resamples: int, pseudo: float, width: int = 1
) -> Iterator[tuple[Array, Array]]:
    """Resamples of as many items as each stratum has, in blocks: counts of each pattern (b, P) and of pseudo-items (b, H).

    ``items`` (P,) how many items show each pattern, ``stratum`` (P,) 0 to H - 1. ``pseudo`` items are mixed in, each stratum
    its share. ``width`` is how many numbers are made of a pattern, so that blocks stay small.
    """
    groups = [np.flatnonzero(stratum == h) for h in range(int(stratum.max()) + 1)]
    total = float(items.sum())
    # So many at a time that neither the counts, nor the draws behind them, nor what is made of them grows large.
    step = max(1, _CELLS // max(len(items), width, min(int(total), _FEW_EACH * len(items))))
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        real = np.zeros((b, len(items)))
        extra = np.zeros((b, len(groups)), dtype=np.int64)
        for h, at in enumerate(groups):
            n = int(items[at].sum())
            if not n:
                continue
            drawn = _counts(items[at], pseudo * n / total, b, rng)
            real[:, at] = drawn[:, :-1]
            extra[:, h] = drawn[:, -1]
        yield real, extra


def _counts(items: Array, pseudo: float, b: int, rng: np.random.Generator) -> Array:
    """(b, P + 1) how often each pattern is drawn in n = sum of ``items`` (P,) draws, and last the pseudo-items."""
    n, p = int(items.sum()), len(items)
    if n > _FEW_EACH * p:
        mixed = np.append(items, pseudo)
        return rng.multinomial(n, mixed / mixed.sum(), size=b)
    # With few items to a pattern, drawing items is cheaper than drawing the count of each pattern.
    pattern = np.append(np.repeat(np.arange(p), items), p)
    item = np.minimum((rng.random((b, n)) * (n + pseudo)).astype(np.int64), n)
    at = pattern[item] + (np.arange(b) * (p + 1))[:, None]
    return np.bincount(at.reshape(-1), minlength=b * (p + 1)).reshape(b, p + 1)


def pseudo_answers(given: Array, n: int, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """``shape`` = (count, raters) answers of pseudo-items: everybody says what the last one says half the time, and else
    what chance says, each for themselves.

    ``given`` (q,) is how often each level was given on ``n`` items; a little of every level is mixed in.
    """
    q = len(given)
    p = (n * given / given.sum() + 1 / q) / (n + 1)
    edges = np.cumsum(p)
    answers = np.minimum(np.searchsorted(edges, rng.random(shape), side="right"), q - 1)
    return np.where(rng.random(shape) < 0.5, answers[:, -1:], answers)


def ends_of_draws(replicates: Array, n: int, resampling: Resampling) -> tuple[Interval | None, IntervalReason | None]:
    """Percentiles of the defined ones, widened by the t quantile (Hesterberg 2015) unless plain percentiles are asked for."""
    defined = replicates[np.isfinite(replicates)]
    discarded = len(replicates) - len(defined)
    if discarded * 2 > len(replicates):
        return None, "too_many_undefined"
    tail = (1 - resampling.level) / 2
    ends = (tail, 1 - tail)
    if resampling.method == "item-bootstrap+3":
        half = float(np.sqrt(n / (n - 1))) * t_quantile(1 - tail, n - 1)
        ends = (NormalDist().cdf(-half), NormalDist().cdf(half))
    low, high = np.quantile(defined, ends)
    method = "item-bootstrap+3" if resampling.method == "item-bootstrap+3" else "percentile"
    return Interval(float(low), float(high), resampling.level, method, len(replicates), discarded), None


def ends_of_pulls(
    value: float,
    pulls: Array,
    items: Array,
    resampling: Resampling,
    stratum: Array | None = None,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    as_correlation: bool = False,
) -> tuple[Interval | None, IntervalReason | None]:
    """The interval of a number whose error is the sum of the ``pulls`` (P,) of ``items`` (P,) items each.

    ``as_correlation``: made on Fisher's z scale and turned back, so that it stays inside -1 to 1.
    """
    n = int(items.sum())
    if resampling.method == "none":
        return None, "not_asked"
    if n < FEWEST_ITEMS:
        return None, "too_few_items"
    error = standard_error(pulls, items, stratum)
    strata = 1 if stratum is None else len(np.unique(stratum))
    half = t_quantile(1 - (1 - resampling.level) / 2, max(n - strata, 1)) * error
    if as_correlation and abs(value) < 1:
        centre, spread = np.arctanh(value), half / (1 - value**2)
        bounds = (float(np.tanh(centre - spread)), float(np.tanh(centre + spread)))
    else:
        bounds = (max(value - half, low), min(value + half, high))
    return Interval(float(bounds[0]), float(bounds[1]), resampling.level, "item-delta"), None


def standard_error(pulls: Array, items: Array, stratum: Array | None = None) -> float:
    """Of a sum of independent pulls, items drawn inside their strata."""
    variance = 0.0
    for h in np.unique(stratum) if stratum is not None else [None]:
        at = slice(None) if h is None or stratum is None else stratum == h
        m, z = items[at].astype(np.float64), pulls[at]
        n = float(m.sum())
        if n > 1:
            mean = float((m * z).sum() / n)
            variance += n / (n - 1) * float((m * (z - mean) ** 2).sum())
    return float(np.sqrt(variance))


def quotient(numerator: Any, denominator: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(denominator) != 0, np.divide(numerator, denominator), np.nan)


__all__ = [
    "FEWEST_RARE",
    "FEW_DIFFERENCES",
    "draws",
    "ends_of_draws",
    "ends_of_pulls",
    "pseudo_answers",
    "quotient",
    "standard_error",
]
