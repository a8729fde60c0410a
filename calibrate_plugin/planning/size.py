"""How many items it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, sqrt
from statistics import NormalDist

import numpy as np

from calibrate_plugin.calibration.paradox import kappa_standard_error

#: Asking for more items than this is asking for what nobody labels.
MOST_ITEMS = 10_000_000


def items_for_kappa(kappa: float, pass_rate: float, half_width: float, level: float = 0.95) -> int:
    """Items that two raters must share for an interval of ``half_width`` around their kappa on a binary scale.

    Both are taken to pass ``pass_rate`` of the items, since skewed answers make kappa far less sure: at a kappa of .6 one
    half-width of .14 takes 126 items at 50 % pass and 687 at 95 %. Raises ValueError for what cannot be.

    >>> items_for_kappa(.6, .5, .14), items_for_kappa(.6, .95, .14)
    (126, 687)
    """
    _share("pass_rate", pass_rate)
    if not half_width > 0:
        raise ValueError(f"half_width is {half_width}; give how far the interval may reach to each side, e.g. 0.1")
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    return ceil((z * kappa_spread(kappa, pass_rate) / half_width) ** 2 - 1e-9)


def kappa_half_width(kappa: float, pass_rate: float, items: int, level: float = 0.95) -> float:
    """The half-width that ``items`` shared items give.

    >>> round(kappa_half_width(.6, .9, 100), 3)
    0.265
    """
    _share("pass_rate", pass_rate)
    return NormalDist().inv_cdf(1 - (1 - level) / 2) * kappa_spread(kappa, pass_rate) / sqrt(items)


def kappa_spread(kappa: float, pass_rate: float) -> float:
    """The standard error of kappa of one item: divide by the root of the number of items (Fleiss, Cohen, Everitt 1969)."""
    p, q = pass_rate, 1 - pass_rate
    least = -min(p, q) / max(p, q)
    if not least <= kappa < 1:
        raise ValueError(f"kappa is {kappa}; with {p:.0%} pass on both sides it lies between {least:.2f} and below 1")
    off = p * q * (1 - kappa)
    return kappa_standard_error(np.array([[p - off, off], [off, q - off]]))


def items_for_share(share: float, half_width: float, level: float = 0.95) -> int:
    """Items for a Wilson interval of a share (accuracy, TPR, a pass rate) that is at most 2 * ``half_width`` wide.

    >>> items_for_share(.9, .05)
    141
    """
    _share("share", share)
    if not 0 < half_width < 0.5:
        raise ValueError(
            f"half_width is {half_width}; give how far the interval may reach to each side, between 0 and 0.5"
        )
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)

    def half(n: int) -> float:
        return z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)

    return _first(lambda n: half(n) <= half_width)


def gold_per_class(observed: float, bound: float, *, one_sided: bool = False, level: float = 0.95) -> int:
    """Gold items of one class so that a judge that is right on ``observed`` of them has a Wilson lower bound of at least
    ``bound``, at this number and at every larger one (successes: floor(observed * n)).

    >>> gold_per_class(.90, .80), gold_per_class(.90, .80, one_sided=True)
    (74, 55)
    """
    _share("bound", bound)
    if not bound < observed <= 1:
        raise ValueError(
            f"observed is {observed} and bound is {bound}; no number of items brings a bound above what is observed"
        )
    tail = (1 - level) if one_sided else (1 - level) / 2
    z = NormalDist().inv_cdf(1 - tail)

    def holds(n: int) -> bool:
        return _wilson_low(floor(observed * n + 1e-9), n, z) >= bound

    def surely(n: int) -> bool:
        # One success less than observed * n is never above the floor, and its bound rises with n.
        return _wilson_low(max(0.0, observed * n - 1), n, z) >= bound

    n = _first(surely)
    while n > 1 and holds(n - 1):
        n -= 1
    return n


def people_for(kappa: float, reliability: float) -> int:
    """People per item so that their answers together have ``reliability``, where one has ``kappa`` with another (Spearman
    1910, Brown 1910; kappa stands for the reliability of one, Fleiss and Cohen 1973). Never fewer than two, which any
    agreement takes.

    >>> people_for(.6, .8), people_for(.4, .8), people_for(.8, .8)
    (3, 6, 2)
    """
    _share("kappa", kappa)
    _share("reliability", reliability)
    return max(2, ceil(reliability * (1 - kappa) / (kappa * (1 - reliability)) - 1e-9))


def _first(holds: Callable[[int], bool]) -> int:
    """The smallest n of a condition that holds for every larger n too."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, high * 2
        if high > MOST_ITEMS:
            raise ValueError(f"more than {MOST_ITEMS:,} items would be needed; ask for less")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _wilson_low(successes: float, n: int, z: float) -> float:
    p = successes / n
    centre = p + z * z / (2 * n)
    return (centre - z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)


@dataclass(frozen=True, slots=True)
class GoldSplit:
    """How many gold items of each class make a corrected rate surest."""

    passes: int
    fails: int


def gold_split(total: int, observed: float, tpr: float, tnr: float, pilot: int = 10) -> GoldSplit:
    """The best split of ``total`` balanced gold items for a Rogan-Gladen correction (Lee et al. 2025).

    ``observed`` is the judge's rate of pass in production, ``tpr`` and ``tnr`` what a pilot of ``pilot`` items per class
    showed (smoothed, so that a perfect pilot does not starve a class).

    >>> gold_split(200, .8, .92, .88), gold_split(200, .4, .9, .7)
    (GoldSplit(passes=157, fails=43), GoldSplit(passes=64, fails=136))
    """
    _share("observed", observed)
    if total < 2:
        raise ValueError(f"total is {total}; a correction needs gold of both classes")
    q1, q0 = (tpr * pilot + 1) / (pilot + 2), (tnr * pilot + 1) / (pilot + 2)
    passes = round(total / (1 + (1 / observed - 1) * sqrt((1 - q0) / (1 - q1))))
    passes = min(total - 1, max(1, passes))
    return GoldSplit(passes, total - passes)


def _share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; give a share between 0 and 1, e.g. 0.8")


__all__ = [
    "GoldSplit",
    "gold_per_class",
    "gold_split",
    "items_for_kappa",
    "items_for_share",
    "kappa_half_width",
    "kappa_spread",
    "people_for",
]
