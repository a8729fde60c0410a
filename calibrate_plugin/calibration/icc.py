"""Intraclass correlation of ratings, one-way: raters are not told apart (Shrout and Fleiss 1979).

ICC(1) is the reliability of one rating, ICC(1,k) of the mean of an item's ratings. With unequal numbers of ratings per item
k is their effective mean, (N - sum of squares / N) / (items - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.kappas import MOST_PATTERNS
from calibrate_plugin.calibration.panel import Panel
from calibrate_plugin.calibration.resampling import draws, ends_of_draws, ends_of_pulls, pseudo_answers, quotient
from calibrate_plugin.model import Measure, Reason

Array = NDArray[Any]
Form = Literal["single", "mean"]


@dataclass(frozen=True, slots=True)
class Reliability:
    """ICC(1) and ICC(1,k) of the annotators' ratings, on items with two or more."""

    single: Measure
    mean: Measure


def reliability(panel: Panel, resampling: Resampling) -> Reliability:
    """The annotators' intraclass correlations; not applicable to scales that are no ratings.

    >>> from fractions import Fraction
    >>> from calibrate_plugin.model import Scale
    >>> from calibrate_plugin.calibration.panel import panel
    >>> scale = Scale("rating", low=Fraction(1), high=Fraction(9), step=Fraction(1))
    >>> judged = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> raters = {f"r{i}": [row[i] - 1 for row in judged] for i in range(4)}
    >>> found = reliability(panel(Scale("rating", low=Fraction(1), high=Fraction(10), step=Fraction(1)), raters),
    ...                     Resampling(method="none"))
    >>> round(found.single.value, 2), round(found.mean.value, 2)
    (0.17, 0.44)
    """
    humans = panel.humans()
    at = humans >= 2
    n = int(at.sum())
    reason: Reason | None = None
    if panel.scale.kind != "rating":
        reason = "not_applicable"
    elif n == 0:
        reason = "nothing_to_compare"
    elif n == 1:
        reason = "single_item"
    if reason is not None:
        undefined = Measure(None, reason, n if panel.scale.kind == "rating" else 0, None)
        return Reliability(undefined, undefined)
    middle = float(panel.places.mean())
    m, s1, s2, low, high = _nothing(n)
    given = np.zeros(panel.levels)
    for a in panel.annotators:
        own = panel.own[a][at]
        told = own >= 0
        value = np.where(told, panel.places[own] - middle, 0.0)
        m, s1, s2 = m + told, s1 + value, s2 + value**2
        low, high = np.where(told, np.minimum(low, value), low), np.where(told, np.maximum(high, value), high)
        given += np.bincount(own[told], minlength=panel.levels)
    if low.min() == high.max():
        constant = Measure(None, "same_answer", n, None)
        return Reliability(constant, constant)
    # Per item: 1, ratings, their squared number, sum, sum of squares, square of the sum over their number.
    features = np.column_stack([np.ones(n), m, m**2, s1, s2, s1**2 / m])
    patterns, inverse, items = np.unique(features.round(9), axis=0, return_inverse=True, return_counts=True)
    first = np.zeros(len(patterns), dtype=np.int64)
    first[inverse.reshape(-1)] = np.arange(n)
    features = features[first]
    resampling = resampling.about("icc")
    k0 = float(_k0(items @ features))
    measures: list[Measure] = []
    forms: tuple[Form, Form] = ("single", "mean")
    replicates = _replicates(features, items, panel, middle, given, n, resampling)
    for form in forms:
        point = float(_icc(items @ features, form))
        details = {"form": "ICC(1)" if form == "single" else "ICC(1,k)", "k": k0}
        if not np.isfinite(point):
            measures.append(Measure(None, "same_answer", n, None, details=details))
            continue
        if replicates is None:
            ends, why = ends_of_pulls(point, _pulls(features, items, form), items, resampling, high=1)
        else:
            ends, why = ends_of_draws(_icc(replicates, form), n, resampling)
        measures.append(Measure(point, None, n, int(m.sum()), ends, why, details))
    return Reliability(*measures)


def _nothing(n: int) -> tuple[Array, Array, Array, Array, Array]:
    zeros, top = np.zeros(n), np.full(n, np.inf)
    return zeros, zeros, zeros, top, -top


def _k0(sums: Array) -> Array:
    n, ratings, squares = sums[..., 0], sums[..., 1], sums[..., 2]
    return quotient(ratings - squares / ratings, n - 1)


def _icc(sums: Array, form: Form) -> Array:
    n, ratings, _, total, squares, between = (sums[..., i] for i in range(6))
    with np.errstate(divide="ignore", invalid="ignore"):
        msb = (between - total**2 / ratings) / (n - 1)
        msw = (squares - between) / (ratings - n)
        if form == "mean":
            return quotient(msb - msw, np.where(msb > 1e-12, msb, 0.0))
        below = msb + (_k0(sums) - 1) * msw
        return quotient(msb - msw, np.where(below > 1e-12, below, 0.0))


def _pulls(features: Array, items: Array, form: Form) -> Array:
    """Leaving one item out at a time, as pulls (Tukey 1958)."""
    sums, n = items @ features, float(items.sum())
    left = _icc(sums - features, form)
    return np.nan_to_num((n - 1) / n * (float(_icc(sums, form)) - left))


def _replicates(
    features: Array, items: Array, panel: Panel, middle: float, given: Array, n: int, resampling: Resampling
) -> Array | None:
    """Sums in each resample; None where there is to be no bootstrap."""
    if resampling.method in ("none", "item-jackknife") or len(items) > MOST_PATTERNS or n < 10:
        return None
    rng = resampling.generator()
    pseudo = 3.0 if resampling.method == "item-bootstrap+3" else 0.0
    found = []
    for real, extra in draws(items, np.zeros(len(items), dtype=np.int64), rng, resampling.resamples, pseudo):
        sums = real @ features
        owner = np.repeat(np.arange(len(extra)), extra[:, 0])
        if len(owner):
            value = panel.places[pseudo_answers(given, n, (len(owner), 2), rng)] - middle
            s1, s2 = value.sum(axis=1), (value**2).sum(axis=1)
            ones = np.ones(len(owner))
            np.add.at(sums, owner, np.column_stack([ones, 2 * ones, 4 * ones, s1, s2, s1**2 / 2]))
        found.append(sums)
    return np.asarray(np.concatenate(found))


__all__ = ["Reliability", "reliability"]
