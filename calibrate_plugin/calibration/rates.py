"""From what a judge says about everything to what people would say about it: the corrected rate of production.

Which correction is valid follows from how the gold items were chosen, never from taste:

- chosen by the judge's label: what gold says given the judge is kept, so post-stratification;
- chosen by the human label (balanced gold): the judge's true positive and true negative rates are kept, so Rogan and Gladen
  (1978), with the interval of Lee et al. (2025, arXiv 2511.21140), which carries the noise of production too;
- chosen at random: everything is kept, so prediction-powered inference (Angelopoulos et al. 2023, PPI++), which needs no
  judge that is better than chance.

A point outside 0 to 1 is no number (``at_boundary``) and is never clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling, t_quantile, wilson
from calibrate_plugin.calibration.design import UNKNOWN, Design
from calibrate_plugin.calibration.gold import DECIDED, Gold
from calibrate_plugin.calibration.panel import Panel, share_of
from calibrate_plugin.calibration.resampling import draws, ends_of_draws, quotient
from calibrate_plugin.model import Interval, IntervalReason, Measure, Reason

Array = NDArray[Any]
Correction = Literal["post-stratification", "rogan-gladen", "prediction-powered"]


@dataclass(frozen=True, slots=True)
class Production:
    """What the judge said about all items of a period: ``judged`` (q,) items by level. ``period`` names it (a day, a week)."""

    judged: tuple[int, ...]
    period: str | None = None


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The rate of *pass* (on ratings: the mean) that people would give the items of a period.

    ``observed`` is the judge's own; ``rate`` the corrected one, or the reason why none is valid; ``method`` the correction
    that the design asks for. ``n_gold`` gold items and ``n_production`` judged ones stand behind it. ``tpr`` and ``tnr`` (pass
    positive) are told where they are what the correction rests on.
    """

    period: str | None
    rate: Measure
    observed: Measure
    method: Correction | None
    n_gold: int
    n_production: int
    tpr: Measure | None = None
    tnr: Measure | None = None


def corrected_rates(
    panel: Panel,
    judge: int,
    gold: Gold,
    production: Sequence[Production],
    resampling: Resampling,
    *,
    design: Design = UNKNOWN,
) -> tuple[CorrectedRate, ...]:
    """The corrected rate of each period, by the correction that ``design`` allows.

    Only for binary scales and ratings with levels; the gold must not have been used to make the judge. Raises ValueError
    where a period does not have one count per level.
    """
    if panel.scale.levels is None or panel.scale.kind not in ("binary", "rating"):
        return tuple(_refused(p, "not_applicable", 0) for p in production)
    q = panel.levels
    for p in production:
        if len(p.judged) != q:
            raise ValueError(
                f"the judged items of {p.period or 'production'} have {len(p.judged)} counts; the scale has {q} levels"
            )
    own = panel.own[judge]
    at = (gold.state == DECIDED) & (own >= 0) & design.chosen(panel.n)
    stratum, weight = design.of_items(at)
    table = _Table(panel, own[at].astype(np.int64), gold.level[at].astype(np.int64), stratum, weight)
    name = panel.name(judge)
    return tuple(_corrected(table, name, design, p, resampling.about("rate", name, p.period or "")) for p in production)


class _Table:
    """The gold items that the judge answered too."""

    def __init__(self, panel: Panel, judge: Array, gold: Array, stratum: Array, weight: Array) -> None:
        self.q = panel.levels
        self.binary = panel.scale.kind == "binary"
        self.places = np.array([1.0, 0.0]) if self.binary else panel.places.astype(np.float64)
        self.judge, self.gold, self.stratum, self.weight = judge, gold, stratum, weight

    @property
    def n(self) -> int:
        return len(self.judge)

    @property
    def cells(self) -> Array:
        found = np.bincount(self.judge * self.q + self.gold, minlength=self.q * self.q)
        return np.asarray(found.reshape(self.q, self.q))

    @property
    def even(self) -> bool:
        """Whether items with the same answer of the judge weigh the same."""
        return all(np.ptp(self.weight[self.judge == k]) == 0 for k in np.unique(self.judge))


def _corrected(
    table: _Table, judge: str, design: Design, production: Production, resampling: Resampling
) -> CorrectedRate:
    level = resampling.level
    judged = np.array(production.judged, dtype=np.int64)
    n, n_production = table.n, int(judged.sum())
    if not n_production:
        return _refused(production, "no_labels", n)
    if not n:
        return _refused(production, "no_gold", 0, _observed(table, judged, level))
    observed = _observed(table, judged, level)
    if design.kind == "unknown":
        return _refused(production, "no_design", n, observed)
    tpr = tnr = None
    method: Correction
    if design.kind == "random":
        method = "prediction-powered"
        rate = _powered(table, judged, level)
    elif design.kind == "by_judge":
        method = "post-stratification"
        if design.lopsided and design.judge not in (None, judge):
            return _refused(production, "no_weights", n, observed)
        rate = _post_stratified(table, judged, level) if table.even else _reweighted(table, judged, resampling)
    elif not table.binary:
        return _refused(production, "wrong_design", n, observed)
    else:
        method = "rogan-gladen"
        rate, tpr, tnr = _rogan_gladen(table, judged, level)
    if resampling.method == "none" and rate.value is not None:
        rate = _without_interval(rate, "not_asked")
    elif min(n, n_production) < FEWEST_ITEMS and rate.interval is not None:
        rate = _without_interval(rate, "too_few_items")
    return CorrectedRate(production.period, rate, observed, method, n, n_production, tpr, tnr)


def _refused(production: Production, reason: Reason, n: int, observed: Measure | None = None) -> CorrectedRate:
    total = sum(production.judged)
    nothing = Measure(None, reason, n, None)
    return CorrectedRate(
        production.period, nothing, observed or Measure(None, "no_labels", total, None), None, n, total
    )


def _observed(table: _Table, judged: Array, level: float) -> Measure:
    n = int(judged.sum())
    if table.binary:
        return share_of(int(judged[0]), n, level)
    mean = float(judged @ table.places) / n
    if n < FEWEST_ITEMS:
        return Measure(mean, None, n, None, None, "too_few_items")
    half = t_quantile(1 - (1 - level) / 2, n - 1) * sqrt(float(judged @ (table.places - mean) ** 2) / (n - 1) / n)
    return Measure(mean, None, n, None, Interval(mean - half, mean + half, level, "mean"))


# --- gold chosen by the human label


def rogan_gladen(observed: float, tpr: float, tnr: float) -> float:
    """The true rate behind a judge's ``observed`` rate of positives (Rogan and Gladen 1978); may lie outside 0 to 1.

    Raises ValueError where the judge is no better than chance (TPR + TNR of 1 or less).

    >>> round(rogan_gladen(.80, .92, .88), 4), round(rogan_gladen(.90, 122 / 140, .80), 4)
    (0.85, 1.0426)
    """
    if tpr + tnr <= 1:
        raise ValueError(
            f"TPR {tpr} and TNR {tnr} do not exceed 1 together; the observed rate says nothing about the true one"
        )
    return (observed + tnr - 1) / (tpr + tnr - 1)


def lee_interval(
    observed: tuple[int, int], right_on_pass: tuple[int, int], right_on_fail: tuple[int, int], level: float = 0.95
) -> Interval | None:
    """The interval of the corrected rate (Lee et al. 2025); counts are (successes, trials). None where the smoothed judge is
    no better than chance.

    ``observed``: positives of all judged items; ``right_on_pass``: true positives of the gold positives; ``right_on_fail``:
    true negatives of the gold negatives. The ends are cut at 0 and 1.

    >>> ends = lee_interval((400, 1000), (180, 200), (140, 200))
    >>> round(ends.low, 4), round(ends.high, 4)
    (0.0564, 0.2627)
    """
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    n = observed[1] + z * z
    p = (observed[0] + z * z / 2) / n
    m1, m0 = right_on_pass[1] + 2, right_on_fail[1] + 2
    q1, q0 = (right_on_pass[0] + 1) / m1, (right_on_fail[0] + 1) / m0
    youden = q0 + q1 - 1
    if youden <= 0:
        return None
    theta = (p + q0 - 1) / youden
    on_fail, on_pass = q0 * (1 - q0) / m0, q1 * (1 - q1) / m1
    # The smoothed point may lie outside 0 to 1, its variance may not.
    inside = min(1.0, max(0.0, theta))
    error = sqrt(p * (1 - p) / n + (1 - inside) ** 2 * on_fail + inside**2 * on_pass) / youden
    shift = 2 * z * z * (-(1 - theta) * on_fail + theta * on_pass)
    low, high = theta + shift - z * error, theta + shift + z * error
    return Interval(min(1.0, max(0.0, low)), min(1.0, max(0.0, high)), level, "lee")


def _rogan_gladen(table: _Table, judged: Array, level: float) -> tuple[Measure, Measure, Measure]:
    cells, n = table.cells, table.n
    on_pass, on_fail = int(cells[:, 0].sum()), int(cells[:, 1].sum())
    none: Measure = Measure(None, "one_class", 0, None)
    tpr = share_of(int(cells[0, 0]), on_pass, level) if on_pass else none
    tnr = share_of(int(cells[1, 1]), on_fail, level) if on_fail else none
    if tpr.value is None or tnr.value is None:
        return Measure(None, "one_class", n, None), tpr, tnr
    total = int(judged.sum())
    ends = lee_interval((int(judged[0]), total), (int(cells[0, 0]), on_pass), (int(cells[1, 1]), on_fail), level)
    if tpr.value + tnr.value <= 1 or ends is None:
        return Measure(None, "no_better_than_chance", n, None), tpr, tnr
    seen = wilson(int(judged[0]), total, level)
    most = wilson(int(cells[0, 0]), on_pass, level).high
    least = 1 - wilson(int(cells[1, 1]), on_fail, level).high
    if seen.low > most or seen.high < least:
        return Measure(None, "infeasible", n, None), tpr, tnr
    value = rogan_gladen(int(judged[0]) / total, tpr.value, tnr.value)
    return _inside(value, n, ends, {"tpr": tpr.value, "tnr": tnr.value}), tpr, tnr


# --- gold chosen by the judge's label


def post_stratified(gold: Sequence[tuple[int, int]], judged: Sequence[int], level: float = 0.95) -> Measure:
    """The rate of positives from (positives, items) of the gold in each stratum and the strata's sizes in production.

    The interval adds up the strata's Wilson intervals (square-and-add, Newcombe 1998; Zou and Donner 2008) and the noise of
    production. ``details["se"]`` is the standard error of the gold part alone. ``no_gold`` where a stratum of production
    has none.

    >>> found = post_stratified([(40, 50), (2, 50)], [50, 950])
    >>> round(found.value, 4), round(found.details["se"], 4)
    (0.078, 0.0265)
    """
    total = sum(judged)
    n = sum(m for _, m in gold)
    shares = [size / total for size in judged]
    if any(size and not m for (_, m), size in zip(gold, judged, strict=True)):
        return Measure(None, "no_gold", n, None)
    parts = [(w, x / m, wilson(x, m, level)) for w, (x, m) in zip(shares, gold, strict=True) if w]
    rate = sum(w * p for w, p, _ in parts)
    variance = sum(w * w * x / m * (1 - x / m) / m for w, (x, m) in zip(shares, gold, strict=True) if w)
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    noise = z * z * sum(w * (p - rate) ** 2 for w, p, _ in parts) / total
    below = sqrt(sum((w * (p - ends.low)) ** 2 for w, p, ends in parts) + noise)
    above = sqrt(sum((w * (ends.high - p)) ** 2 for w, p, ends in parts) + noise)
    interval = Interval(max(0.0, rate - below), min(1.0, rate + above), level, "square-and-add")
    return Measure(rate, None, n, None, interval, None, {"se": sqrt(variance)})


def _post_stratified(table: _Table, judged: Array, level: float) -> Measure:
    cells = table.cells
    if table.binary:
        return post_stratified([(int(row[0]), int(row.sum())) for row in cells], judged.tolist(), level)
    used = judged > 0
    sizes = cells.sum(axis=1)
    if (sizes[used] == 0).any():
        return Measure(None, "no_gold", table.n, None)
    share = judged[used] / judged.sum()
    means = cells[used] @ table.places / sizes[used]
    rate = float(share @ means)
    squares = cells[used] @ table.places**2 / sizes[used] - means**2
    # A stratum with one item shows no spread of its own: it takes that of all.
    pooled = float((squares * sizes[used]).sum() / max(1, (sizes[used] - 1).sum()))
    spread = np.where(sizes[used] > 1, squares * sizes[used] / np.maximum(sizes[used] - 1, 1), pooled)
    variance = float((share**2 * spread / sizes[used]).sum())
    noise = float((share * (means - rate) ** 2).sum()) / float(judged.sum())
    half = t_quantile(1 - (1 - level) / 2, max(1, table.n - int(used.sum()))) * sqrt(variance + noise)
    interval = Interval(rate - half, rate + half, level, "stratified mean")
    return Measure(rate, None, table.n, None, interval, None, {"se": sqrt(variance)})


def _reweighted(table: _Table, judged: Array, resampling: Resampling) -> Measure:
    """Strata that are not this judge's labels: gold given the judge is weighted, items resampled inside their strata."""
    keys = np.column_stack([table.judge, table.gold, table.stratum, table.weight])
    patterns, items = np.unique(keys, axis=0, return_counts=True)
    judge, gold = patterns[:, 0].astype(np.int64), patterns[:, 1].astype(np.int64)
    _, stratum = np.unique(patterns[:, 2], return_inverse=True)
    weight = patterns[:, 3]
    given = (judge[:, None] == np.arange(table.q)).astype(np.float64)
    scored = given * table.places[gold][:, None]
    share = judged / judged.sum()

    def rate(m: Array, mix: Array) -> Array:
        means = quotient((m * weight) @ scored, (m * weight) @ given)
        return np.asarray(np.where(mix > 0, mix * means, 0.0).sum(axis=-1))

    value = float(rate(items.astype(np.float64), share))
    if not np.isfinite(value):
        return Measure(None, "no_gold", table.n, None)
    rng = resampling.generator()
    found = []
    for real, _ in draws(
        items, stratum.reshape(-1), rng, resampling.resamples if resampling.method != "none" else 1, 0.0
    ):
        mix = rng.multinomial(int(judged.sum()), share, size=len(real)) / judged.sum()
        found.append(rate(real, mix))
    interval, why = ends_of_draws(np.concatenate(found), table.n, resampling)
    return (
        _inside(value, table.n, interval, {}, why)
        if table.binary
        else Measure(value, None, table.n, None, interval, why)
    )


# --- gold chosen at random


@dataclass(frozen=True, slots=True)
class Powered:
    """A prediction-powered mean: ``value``, its standard error ``se`` and the power tuning ``lam`` that was used."""

    value: float
    se: float
    lam: float

    def wald(self, level: float = 0.95) -> Interval:
        half = NormalDist().inv_cdf(1 - (1 - level) / 2) * self.se
        return Interval(self.value - half, self.value + half, level, "wald")


def prediction_powered(cells: Array, places: Array, judged: Array, lam: float | None = None) -> Powered:
    """The mean of gold over production (Angelopoulos et al. 2023): lam * mean(judge) + mean(gold - lam * judge).

    ``cells`` (q, q) gold items by judge's level and gold level, ``places`` (q,) their numbers, ``judged`` (q,) production
    items by judge's level. ``lam`` 0 uses the labels alone, 1 is plain PPI; None tunes it (PPI++), inside 0 to 1.

    >>> cells = np.array([[78, 2], [7, 13]])
    >>> found = prediction_powered(cells, np.array([1., 0.]), np.array([400, 100]))
    >>> round(found.value, 3), round(found.lam, 3), [round(e, 3) for e in (found.wald().low, found.wald().high)]
    (0.85, 0.525, [0.796, 0.904])
    """
    n, total = float(cells.sum()), float(judged.sum())
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    gold, own = float(columns @ places) / n, float(rows @ places) / n
    everywhere = float(judged @ places) / total
    if lam is None:
        together = (float(places @ cells @ places) - n * gold * own) / max(n - 1, 1)
        every = rows + judged
        mean = float(every @ places) / (n + total)
        spread = float(every @ (places - mean) ** 2) / (n + total - 1)
        lam = min(1.0, max(0.0, together / ((1 + n / total) * spread))) if spread > 0 else 0.0
    off = places[None, :] - lam * places[:, None]
    middle = float((cells * off).sum()) / n
    labelled = float((cells * (off - middle) ** 2).sum()) / max(n - 1, 1)
    unlabelled = float(judged @ (places - everywhere) ** 2) / max(total - 1, 1)
    return Powered(lam * everywhere + middle, sqrt(lam * lam * unlabelled / total + labelled / n), lam)


def _powered(table: _Table, judged: Array, level: float) -> Measure:
    cells = table.cells.astype(np.float64)
    found = prediction_powered(cells, table.places, judged)
    details = {"lam": found.lam, "se": found.se}
    if not table.binary:
        half = t_quantile(1 - (1 - level) / 2, max(1, table.n - 1)) * found.se
        ends = Interval(found.value - half, found.value + half, level, "prediction-powered")
        return Measure(found.value, None, table.n, None, ends, None, details)
    # Wilson's interval at the number of labels that would be as sure alone. How much surer is read off after one more item of
    # each cell: a handful of failures cannot show the disagreement that there is.
    smooth = prediction_powered(cells + 1, table.places, judged)
    alone = (cells.sum(axis=0) + 2) / (table.n + 4)
    variance = float(alone[0] * alone[1]) / (table.n + 3)
    effective = table.n / min(1.0, max(0.05, smooth.se**2 / variance))
    inside = min(1.0, max(0.0, found.value))
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    centre = (inside + z * z / (2 * effective)) / (1 + z * z / effective)
    half = z * sqrt(inside * (1 - inside) / effective + z * z / (4 * effective**2)) / (1 + z * z / effective)
    ends = Interval(max(0.0, centre - half), min(1.0, centre + half), level, "prediction-powered")
    return _inside(found.value, table.n, ends, details)


def _inside(
    value: float, n: int, interval: Interval | None, details: dict[str, float], why: IntervalReason | None = None
) -> Measure:
    """A share, or the reason ``at_boundary`` with its interval: a point outside 0 to 1 is not cut."""
    if -1e-12 <= value <= 1 + 1e-12:
        return Measure(min(1.0, max(0.0, value)), None, n, None, interval, why, details)
    return Measure(None, "at_boundary", n, None, interval, why, details)


def _without_interval(rate: Measure, why: IntervalReason) -> Measure:
    return Measure(rate.value, rate.reason, rate.n_items, rate.n_pairs, None, why, rate.details, rate.warnings)


__all__ = [
    "CorrectedRate",
    "Correction",
    "Powered",
    "Production",
    "corrected_rates",
    "lee_interval",
    "post_stratified",
    "prediction_powered",
    "rogan_gladen",
]
