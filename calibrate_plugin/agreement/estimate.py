"""A statistic of counted patterns as a ``Measure``: its value or the reason why there is none, and its interval.

The default interval, ``item-bootstrap+3``, resamples items (never pairs, which share answers): one multinomial draw over
the patterns plays a whole resample, so its cost does not grow with the items. Three pseudo-items, half full agreement and
half chance, stand in for the disagreement that a small sample did not happen to show (as Agresti and Coull's plus four do
for a share), and the percentiles are widened by the t quantile (Hesterberg 2015). The value itself is never smoothed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.statistics import Mean, Statistic, pairs_of, shared_of, value_of
from calibrate_plugin.model import Interval, IntervalReason, Measure, Reason
from calibrate_plugin.ratings.counting import Patterns

Array = NDArray[Any]
Method = Literal["item-bootstrap+3", "percentile", "bca", "item-jackknife", "none"]

#: Under this many items there is a value and no interval.
FEWEST_ITEMS = 10
#: Above this many patterns a bootstrap costs more than it tells; there are then as many items, and a jackknife serves.
MOST_PATTERNS = 2_000
#: So does one with more whole numbers (patterns times features) than this.
MOST_FEATURES = 200_000
#: Degrees of freedom from which Student's t is told from the normal distribution by a short series.
_MANY = 1000
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are made. ``subject`` keeps the draws of different numbers apart while the seed stays one; above
    ``most_patterns`` a jackknife stands for the bootstrap."""

    seed: int = 0
    resamples: int = 5000
    level: float = 0.95
    method: Method = "item-bootstrap+3"
    subject: str = ""
    most_patterns: int = MOST_PATTERNS

    def about(self, *subject: str) -> Resampling:
        return replace(self, subject="\x1f".join((self.subject, *subject)))

    def generator(self) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.seed}\x1f{self.subject}".encode("utf-8", "surrogatepass")).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def estimate(
    patterns: Patterns,
    statistics: Mapping[str, Statistic],
    reasons: Mapping[str, Reason | None],
    resampling: Resampling,
    details: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Measure]:
    """Each of ``statistics`` on ``patterns`` as a Measure. ``reasons`` says why one is undefined (None: it is not).

    Statistics over the same items share their draws, so a difference of two of them can be taken replicate by replicate.
    """
    found: dict[str, Measure] = {}
    shared: dict[bytes, tuple[Patterns, list[str]]] = {}
    for name, statistic in statistics.items():
        enters = statistic.enters(patterns)
        shared.setdefault(enters.tobytes(), (patterns.where(enters), []))[1].append(name)
    for entering, names in shared.values():
        n_pairs = int((pairs_of(entering) * entering.items).sum())
        defined = {name: statistics[name] for name in names if reasons[name] is None}
        values = {name: point(entering, s) for name, s in defined.items()}
        ends = intervals(entering, defined, values, resampling) if defined else {}
        for name in names:
            reason, value = reasons[name], values.get(name)
            interval, why = ends.get(name, (None, None))
            about = dict((details or {}).get(name, {}))
            if name in values and hasattr(statistics[name], "chance"):
                about["chance"] = chance(entering, statistics[name])
            is_mean = isinstance(statistics[name], Mean)
            found[name] = Measure(
                value=value,
                reason=reason,
                n_items=_bearing(entering, statistics[name]),
                n_pairs=None if is_mean else n_pairs,
                interval=interval,
                interval_reason=why,
                details=about,
                warnings=() if is_mean or reason else (*_rare(entering), *(_handful(entering) if interval else ())),
            )
    return {name: found[name] for name in statistics}


def point(patterns: Patterns, statistic: Statistic) -> float:
    """The value itself: whole sums, divided once."""
    sizes = _sizes(patterns)
    return value_of(*statistic.ratio(_exact(_totals(patterns, statistic, sizes)), sizes))


def chance(patterns: Patterns, statistic: Any) -> float:
    """What chance alone would give: the second term of a kappa."""
    sizes = _sizes(patterns)
    return value_of(*statistic.chance(_exact(_totals(patterns, statistic, sizes)), sizes))


def intervals(
    patterns: Patterns, statistics: Mapping[str, Statistic], values: Mapping[str, float], resampling: Resampling
) -> dict[str, tuple[Interval | None, IntervalReason | None]]:
    """The interval of each statistic, or why there is none; all from the same resamples of items."""
    if resampling.method == "none":
        return dict.fromkeys(statistics, (None, "not_asked"))
    found: dict[str, tuple[Interval | None, IntervalReason | None]] = {}
    drawn: tuple[dict[str, Statistic], dict[str, Statistic]] = ({}, {})
    for name, statistic in statistics.items():
        if _bearing(patterns, statistic) < FEWEST_ITEMS:
            found[name] = (None, "too_few_items")
        elif resampling.method == "item-jackknife" or _costly(patterns, statistic, resampling.most_patterns):
            found[name] = _jackknife_interval(patterns, statistic, values[name], resampling)
        else:
            drawn[isinstance(statistic, Mean)][name] = statistic
    for group in drawn:
        for name, draws in replicates(patterns, group, resampling).items():
            found[name] = _percentiles(patterns, group[name], values[name], draws, resampling)
    return found


def _bearing(patterns: Patterns, statistic: Statistic) -> int:
    """How many items a number stands on: items with one answer may have a part in its chance, and have none in it."""
    bears = patterns.size >= 0 if isinstance(statistic, Mean) else pairs_of(patterns) > 0
    return int(patterns.items[bears].sum())


def _costly(patterns: Patterns, statistic: Statistic, most: int) -> bool:
    if isinstance(statistic, Mean):
        # Many patterns have one sum of answers, so what a mean tells apart is few.
        return len(patterns) > most and len(_told_apart(patterns, {"": statistic}, _sizes(patterns))[1]) > most
    return len(patterns) > most or len(patterns) * _width(patterns, statistic) > MOST_FEATURES


def replicates(patterns: Patterns, statistics: Mapping[str, Statistic], resampling: Resampling) -> dict[str, Array]:
    """Each statistic's value in every resample (B,), NaN where it is undefined there."""
    if not statistics:
        return {}
    pseudo = 3 if resampling.method == "item-bootstrap+3" else 0
    singles = any(isinstance(s, Mean) for s in statistics.values())
    n = int(patterns.items.sum())
    size_of_pseudo = 1 if singles or patterns.own is not None else 2
    sizes = np.union1d(_sizes(patterns), [size_of_pseudo]) if pseudo else _sizes(patterns)
    rng = resampling.generator()
    features, items = _told_apart(patterns, statistics, sizes)
    items = np.append(items, pseudo)
    out: dict[str, list[Array]] = {name: [] for name in statistics}
    step = max(1, _CELLS // (len(items) + sum(part.shape[1] for part in features.values())))
    for start in range(0, resampling.resamples, step):
        draws = _resamples(items, n, min(step, resampling.resamples - start), rng)
        extra, which = _pseudo_items(patterns, int(draws[:, -1].sum()), singles, rng)
        real = draws[:, :-1].astype(np.float64)
        for name, statistic in statistics.items():
            sums = real @ features[name]
            _add_runs(sums, statistic.features(extra, sizes), which, draws[:, -1])
            out[name].append(_quotient(*statistic.ratio(sums, sizes)))
    return {name: np.concatenate(parts) for name, parts in out.items()}


def _resamples(items: Array, n: int, size: int, rng: np.random.Generator) -> Array:
    """(size, R) how often each of R rows, which stand for ``items`` (R,), comes up among ``n`` items drawn from all."""
    if n > 4 * len(items):
        return rng.multinomial(n, items / items.sum(), size=size)
    # Rows of few items each: drawing the items themselves costs less than a binomial for every row.
    row = np.repeat(np.arange(len(items), dtype=np.int32), items)
    drawn = row[rng.integers(0, len(row), size=(size, n), dtype=np.int32)] + len(items) * np.arange(size)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=size * len(items)).reshape(size, len(items))


def _add_runs(sums: Array, features: Array, which: Array, counts: Array) -> None:
    """Add to each row of ``sums`` (B, f) the next ``counts`` (B,) of the rows of ``features`` that ``which`` names."""
    some = counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        sums[some] += np.add.reduceat(features[which], starts, axis=0)


def _told_apart(
    patterns: Patterns, statistics: Mapping[str, Statistic], sizes: Array
) -> tuple[dict[str, Array], Array]:
    """The features of each statistic (R, f), patterns that are the same to all of them taken together, and the items of
    each row (R,): fewer rows are fewer draws."""
    parts = [s.features(patterns, sizes).astype(np.float64) for s in statistics.values()]
    rows, inverse = np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)
    items: Array = np.zeros(len(rows), dtype=np.int64)
    np.add.at(items, inverse.reshape(-1), patterns.items)
    ends = np.cumsum([part.shape[1] for part in parts])
    return dict(zip(statistics, np.split(rows, ends[:-1], axis=1), strict=True)), items


def _pseudo_items(patterns: Patterns, total: int, singles: bool, rng: np.random.Generator) -> tuple[Patterns, Array]:
    """The patterns of ``total`` pseudo-items, each once, and (total,) which pattern each of them has."""
    q = patterns.levels
    n = int(patterns.items.sum())
    given = patterns.items @ patterns.answers if not (singles and patterns.own is not None) else np.zeros(q)
    if patterns.own is not None:
        weight = patterns.items * (patterns.size if not singles else 1)
        given = given + np.bincount(patterns.own, weights=weight, minlength=q)
    p = (n * given / given.sum() + 1 / q) / (n + 1)
    if singles:
        p = 0.5 * p + 0.5 / q
    edges = np.cumsum(p)
    first = np.minimum(np.searchsorted(edges, rng.random(total), side="right"), q - 1)
    other = np.minimum(np.searchsorted(edges, rng.random(total), side="right"), q - 1)
    second = np.where(rng.random(total) < 0.5, first, other)
    drawn, inverse = np.unique(first if singles else first * q + second, return_inverse=True)
    which = inverse.reshape(-1)
    unit = np.eye(q, dtype=np.int64)
    ones = np.ones(len(drawn), dtype=np.int64)
    if singles:
        own = None if patterns.own is None else drawn
        return Patterns(unit[drawn] * (patterns.own is None), ones, own), which
    if patterns.own is None:
        return Patterns(unit[drawn // q] + unit[drawn % q], ones), which
    return Patterns(unit[drawn % q], ones, drawn // q), which


def _percentiles(
    patterns: Patterns, statistic: Statistic, value: float, draws: Array, resampling: Resampling
) -> tuple[Interval | None, IntervalReason | None]:
    defined = draws[np.isfinite(draws)]
    discarded = len(draws) - len(defined)
    if discarded * 2 > len(draws):
        return None, "too_many_undefined"
    n = int(patterns.items.sum())
    tail = (1 - resampling.level) / 2
    if resampling.method == "item-bootstrap+3":
        half = float(np.sqrt(n / (n - 1))) * t_quantile(1 - tail, n - 1)
        ends = (NormalDist().cdf(-half), NormalDist().cdf(half))
    elif resampling.method == "bca":
        ends = _bca(patterns, statistic, value, defined, tail)
    else:
        ends = (tail, 1 - tail)
    low, high = np.quantile(defined, ends)
    method = resampling.method
    return Interval(float(low), float(high), resampling.level, method, len(draws), discarded), None


def _bca(patterns: Patterns, statistic: Statistic, value: float, draws: Array, tail: float) -> tuple[float, float]:
    """Efron 1987: percentiles moved by the bias and the acceleration, the latter from leaving out one item at a time."""
    normal = NormalDist()
    below = (np.sum(draws < value) + np.sum(draws == value) / 2) / len(draws)
    if not 0 < below < 1:
        return tail, 1 - tail
    bias = normal.inv_cdf(float(below))
    left, weight = _leave_one_out(patterns, statistic)
    centred = np.average(left, weights=weight) - left
    spread = float((weight * centred**2).sum())
    acceleration = float((weight * centred**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    ends = []
    for z in (normal.inv_cdf(tail), normal.inv_cdf(1 - tail)):
        moved = bias + z
        ends.append(normal.cdf(bias + moved / (1 - acceleration * moved)))
    return ends[0], ends[1]


def _leave_one_out(patterns: Patterns, statistic: Statistic) -> tuple[Array, Array]:
    """The value without one item of each pattern, and the pattern's number of items; undefined ones left out."""
    sizes = _sizes(patterns)
    total = _totals(patterns, statistic, sizes).astype(np.float64)
    values = np.concatenate(
        [_quotient(*statistic.ratio(total - f, sizes)) for f, _ in _blocks(patterns, statistic, sizes)]
    )
    fine = np.isfinite(values)
    return values[fine], patterns.items[fine].astype(np.float64)


def _jackknife_interval(
    patterns: Patterns, statistic: Statistic, value: float, resampling: Resampling
) -> tuple[Interval | None, IntervalReason | None]:
    """Leave one item out at a time (Tukey 1958), with the t quantile."""
    left, weight = _leave_one_out(patterns, statistic)
    n, defined = int(patterns.items.sum()), int(weight.sum())
    if defined * 2 < n:
        return None, "too_many_undefined"
    spread = float((weight * (left - np.average(left, weights=weight)) ** 2).sum())
    half = t_quantile(1 - (1 - resampling.level) / 2, n - 1) * float(np.sqrt((n - 1) / n * spread))
    high = value + half if isinstance(statistic, Mean) else min(value + half, getattr(statistic, "top", 1.0))
    return Interval(value - half, high, resampling.level, "item-jackknife", n, n - defined), None


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """The interval of a share of ``n`` independent items (Wilson 1927).

    >>> [round(end, 3) for end in (wilson(46, 50).low, wilson(46, 50).high)]
    [0.812, 0.968]
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} of {n} is no share; give 0 <= successes <= n and n of 1 or more")
    z = NormalDist().inv_cdf(1 - (1 - level) / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    low = centre - half if successes else 0.0
    high = centre + half if successes < n else 1.0
    return Interval(low, high, level, "wilson")


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: int) -> float:
    """The quantile ``p`` (0.5 to 1) of Student's t with ``df`` (1 or more) degrees of freedom.

    Loading scipy for this one number would take longer than a whole small report.
    Abramowitz and Stegun 1964: 26.7.3 and 26.7.4 by Newton's method, from 26.7.5 on where ``df`` is large.

    >>> round(t_quantile(0.975, 9), 6), round(t_quantile(0.975, 100_000), 6)
    (2.262157, 1.959988)
    """
    z = NormalDist().inv_cdf(p)
    if df >= _MANY:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return float(z + sum(term / df ** (k + 1) for k, term in enumerate(terms)))
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    t: float = z
    for _ in range(200):  # the distribution is concave to the right of 0, so the steps only ever grow t
        density = math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        step = (p - (1 + _inside(t, df)) / 2) / density
        t += step
        if abs(step) <= 1e-14 * max(1.0, abs(t)):
            break
    return t


def t_probability(t: float, df: int) -> float:
    """The probability that Student's t with ``df`` (1 or more) degrees of freedom is ``t`` or less.

    From a thousand on by Hill's series (1970, Algorithm 395), which is good to ten digits there.

    >>> round(t_probability(-1.942, 49), 5), t_probability(0, 5)
    (0.02895, 0.5)
    """
    if df < _MANY:
        return (1 + math.copysign(_inside(abs(t), df), t)) / 2
    a = df - 0.5
    b, y = 48 * a * a, a * math.log1p(t * t / df)
    z = (((((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y * y + 100 + b) + y + 3) / b + 1) * math.sqrt(y)
    return NormalDist().cdf(math.copysign(z, t))


def _inside(t: float, df: int) -> float:
    """The probability that Student's t lies within -t and t."""
    angle = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    total = term = cosine if df % 2 else 1.0
    for k in range(3 if df % 2 else 2, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if df % 2 == 0:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if df > 1 else 0.0))


def _rare(patterns: Patterns) -> tuple[str, ...]:
    """A side that gave answers other than its most frequent one on fewer than 5 items decides a kappa by a handful.

    Answers to one item go together, so several people's count as what each of them gave on average.
    """
    paired = patterns.where(pairs_of(patterns) > 0)
    if not len(paired):
        return ()
    sides = [paired.items @ paired.answers * (paired.items.sum() / (paired.items @ paired.size))]
    if paired.own is not None:
        sides.append(np.bincount(paired.own, weights=paired.items, minlength=paired.levels))
    return ("rare_answer",) if any(s.sum() - s.max() < 5 - 1e-9 for s in sides) else ()


def _handful(patterns: Patterns) -> tuple[str, ...]:
    """Where hardly any two answers differ, or hardly any two share an answer beside the most frequent one, resamples show too
    little: in simulations (``tests/benchmarks/coverage.py``) such intervals held the truth in 75 to 92 % of the cases."""
    paired = patterns.where(pairs_of(patterns) > 0)
    if not len(paired):
        return ()
    # Items of many pairs count once, as a mean over their pairs.
    share = (paired.items / pairs_of(paired)) @ shared_of(paired)
    usual = int((paired.items @ paired.answers).argmax())
    shared = float(share.sum() - share[usual])
    differing = float(paired.items.sum() - share.sum())
    return ("handful",) if shared < 2 - 1e-9 or differing < 1 - 1e-9 else ()


def _sizes(patterns: Patterns) -> Array:
    return np.unique(patterns.size)


def _width(patterns: Patterns, statistic: Statistic) -> int:
    """How many features a statistic has."""
    return int(statistic.features(patterns.where(np.arange(min(1, len(patterns)))), _sizes(patterns)).shape[1])


def _blocks(patterns: Patterns, statistic: Statistic, sizes: Array) -> Iterator[tuple[Array, Array]]:
    """The features, and the items of each pattern, so many patterns at a time that they fit."""
    step = max(1, _CELLS // max(1, _width(patterns, statistic)))
    for start in range(0, max(1, len(patterns)), step):
        part = patterns.where(np.arange(start, min(start + step, len(patterns))))
        yield statistic.features(part, sizes), part.items


def _totals(patterns: Patterns, statistic: Statistic, sizes: Array) -> Array:
    total: Any = 0
    for part, items in _blocks(patterns, statistic, sizes):
        total = total + _summed(part, items)
    return np.asarray(total)


def _summed(part: Array, items: Array) -> Array:
    """(f,) features times items, whole as long as the features are."""
    if np.issubdtype(part.dtype, np.integer) and part.size:
        largest = int(np.abs(part).max()) * int(items.sum())
        if largest >= 2**62:
            return np.asarray(items.astype(object) @ part.astype(object))
    return np.asarray(items @ part)


def _exact(sums: Array) -> Array:
    return sums.astype(object) if np.issubdtype(sums.dtype, np.integer) or sums.dtype == object else sums


def _quotient(numerator: Any, denominator: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator != 0, np.divide(numerator, denominator), np.nan)


__all__ = [
    "FEWEST_ITEMS",
    "Resampling",
    "estimate",
    "intervals",
    "point",
    "replicates",
    "t_probability",
    "t_quantile",
    "wilson",
]
