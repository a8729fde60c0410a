"""How the labelled items were chosen, and numbers that are weighted back to where they were chosen from.

A sample drawn by the judge's label keeps what the labels mean (gold given the judge) and bends everything else: accuracy,
kappa, true positive rate. Weighting each item by one over its inclusion probability straightens it (Horvitz and Thompson
1952), and the interval resamples items inside their strata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling
from calibrate_plugin.agreement.statistics import Statistic, pairs_of, shared_of
from calibrate_plugin.calibration.resampling import (
    FEW_DIFFERENCES,
    FEWEST_RARE,
    draws,
    ends_of_draws,
    pseudo_answers,
    quotient,
)
from calibrate_plugin.model import Interval, IntervalReason, Measure, Reason
from calibrate_plugin.ratings.counting import Patterns

Array = NDArray[Any]
DesignKind = Literal["unknown", "random", "by_judge", "by_gold"]


@dataclass(frozen=True, slots=True)
class Design:
    """How the items of a panel were chosen for labelling.

    ``random``: all alike. ``by_judge``: in strata of a judge's label. ``by_gold``: so many of each human label (balanced
    gold). ``stratum`` (N,) is each item's stratum, -1 for an item that was not chosen, and ``probability`` (N,) its
    inclusion probability (0 to 1); both None where they are not recorded. ``judge`` names the judge whose labels made the
    strata.
    """

    kind: DesignKind = "unknown"
    stratum: Array | None = None
    probability: Array | None = None
    judge: str | None = None

    @property
    def weighted(self) -> bool:
        """Whether items stand for unequally many others and it is known for how many."""
        return self.kind not in ("unknown", "random") and self.probability is not None

    @property
    def lopsided(self) -> bool:
        """Whether items were chosen by their labels and it is not known with what probability."""
        return self.kind not in ("unknown", "random") and self.probability is None

    def of_items(self, at: Array) -> tuple[Array, Array]:
        """Stratum and weight of the items ``at`` (indices or a mask); one stratum of equal weights where none is recorded."""
        n = int(at.sum()) if at.dtype == bool else len(at)
        if not self.weighted:
            return np.zeros(n, dtype=np.int64), np.ones(n)
        assert self.probability is not None
        probability = self.probability[at]
        if (probability <= 0).any():
            raise ValueError(
                "an item that was labelled has the inclusion probability 0; it must have been possible to choose it"
            )
        stratum = np.zeros(n, dtype=np.int64) if self.stratum is None else self.stratum[at].astype(np.int64)
        return stratum, 1 / probability

    def chosen(self, n: int) -> Array:
        """(n,) which items belong to the sample."""
        return np.ones(n, dtype=bool) if self.stratum is None else self.stratum >= 0


RANDOM = Design("random")
UNKNOWN = Design()


@dataclass(frozen=True, slots=True)
class Stratum:
    """The counted patterns of one stratum, and how many items of the population each of its items stands for."""

    patterns: Patterns
    weight: float


def weighted_estimate(
    strata: Sequence[Stratum],
    statistics: Mapping[str, Statistic],
    reasons: Mapping[str, Reason | None],
    resampling: Resampling,
) -> dict[str, Measure]:
    """Each of ``statistics`` with every item weighted, its interval from items resampled inside their strata.

    ``statistics`` must be ratios that do not change when all weights are multiplied by one number.

    >>> from calibrate_plugin.agreement.statistics import Cohen
    >>> from calibrate_plugin.agreement.weights import Weights
    >>> from calibrate_plugin.ratings.counting import of_pair
    >>> alike = Weights(1 - np.eye(2, dtype=np.int64), 1, "identity")
    >>> flagged, passed = np.array([[40, 10], [0, 0]]), np.array([[0, 0], [2, 48]])
    >>> found = weighted_estimate(
    ...     [Stratum(of_pair(flagged), 1), Stratum(of_pair(passed), 19)], {"kappa": Cohen(alike)}, {"kappa": None},
    ...     Resampling(method="none"))
    >>> round(found["kappa"].value, 3)
    0.601
    """
    found: dict[str, Measure] = {}
    shared: dict[bytes, tuple[list[Stratum], dict[str, Statistic]]] = {}
    for name, statistic in statistics.items():
        enters = [statistic.enters(s.patterns) for s in strata]
        parts = [Stratum(s.patterns.where(e), s.weight) for s, e in zip(strata, enters, strict=True) if e.any()]
        n_items = sum(int(s.patterns.items.sum()) for s in parts)
        n_pairs = sum(int((pairs_of(s.patterns) * s.patterns.items).sum()) for s in parts)
        reason: Reason | None = reasons[name] or (None if parts else "nothing_to_compare")
        found[name] = Measure(None, reason, n_items, n_pairs, details={"weighted": True})
        if reason is None:
            shared.setdefault(b"".join(e.tobytes() for e in enters), (parts, {}))[1][name] = statistic
    for parts, same in shared.values():
        rare, handful = _rare(parts), _handful(parts)
        for name, (value, interval, why) in _weighted(
            parts, same, sum(int(s.patterns.items.sum()) for s in parts), resampling
        ).items():
            found[name] = (
                replace(found[name], reason="nothing_to_compare")
                if value is None
                else replace(
                    found[name],
                    value=value,
                    interval=interval,
                    interval_reason=why,
                    warnings=(*rare, *(handful if interval else ())),
                )
            )
    return found


def _weighted(
    strata: Sequence[Stratum], statistics: Mapping[str, Statistic], n: int, resampling: Resampling
) -> dict[str, tuple[float | None, Interval | None, IntervalReason | None]]:
    """Value and interval of statistics over the same items, from the same draws."""
    pair = 1 if strata[0].patterns.own is not None else 2
    sizes = np.unique(np.concatenate([[pair], *(s.patterns.size for s in strata)]))
    features = {
        name: np.concatenate([s.features(part.patterns, sizes).astype(np.float64) for part in strata])
        for name, s in statistics.items()
    }
    items = np.concatenate([s.patterns.items for s in strata])
    stratum = np.repeat(np.arange(len(strata)), [len(s.patterns) for s in strata])
    # Only the ratio of weights matters; as shares of n they keep statistics that look at n itself in their place.
    weight = np.array([s.weight for s in strata])
    weight = weight * n / (weight * np.bincount(stratum, weights=items)).sum()
    values = {
        name: float(quotient(*s.ratio((items * weight[stratum]) @ features[name], sizes)))
        for name, s in statistics.items()
    }
    defined = {name: s for name, s in statistics.items() if np.isfinite(values[name])}
    found: dict[str, tuple[float | None, Interval | None, IntervalReason | None]] = dict.fromkeys(
        statistics, (None, None, None)
    )
    no_interval: IntervalReason | None = (
        "not_asked" if resampling.method == "none" else "too_few_items" if n < FEWEST_ITEMS else None
    )
    if no_interval is not None:
        return found | {name: (values[name], None, no_interval) for name in defined}
    rng = resampling.generator()
    pseudo = 3.0 if resampling.method == "item-bootstrap+3" else 0.0
    everywhere = np.sum([s.patterns.items @ s.patterns.answers for s in strata], axis=0)
    replicates: dict[str, list[Array]] = {name: [] for name in defined}
    for real, extra in draws(items, stratum, rng, resampling.resamples, pseudo):
        real *= weight[stratum]
        made = [_pseudo_patterns(s.patterns, everywhere, int(extra[:, h].sum()), rng) for h, s in enumerate(strata)]
        for name, statistic in defined.items():
            sums = real @ features[name]
            for h, drawn in enumerate(made):
                if len(drawn):
                    owner = np.repeat(np.arange(len(extra)), extra[:, h])
                    np.add.at(sums, owner, weight[h] * statistic.features(drawn, sizes))
            replicates[name].append(quotient(*statistic.ratio(sums, sizes)))
    for name, parts in replicates.items():
        found[name] = (values[name], *ends_of_draws(np.concatenate(parts), n, resampling))
    return found


def _pseudo_patterns(patterns: Patterns, everywhere: Array, count: int, rng: np.random.Generator) -> Patterns:
    """Pseudo-items of one stratum: half full agreement, half chance with what was answered in all strata (``everywhere``),
    since a stratum made by one side's label shows no other by itself."""
    n = int(patterns.items.sum())
    unit, ones = np.eye(patterns.levels, dtype=np.int64), np.ones(count, dtype=np.int64)
    if patterns.own is None:
        first, second = pseudo_answers(patterns.items @ patterns.answers, n, (count, 2), rng).T
        return Patterns(unit[first] + unit[second], ones)
    first, chance = (pseudo_answers(given, n, (count, 1), rng)[:, 0] for given in (_own(patterns), everywhere))
    return Patterns(unit[np.where(rng.random(count) < 0.5, first, chance)], ones, first)


def _own(patterns: Patterns) -> Array:
    """(q,) how often the one side gave each level, once per pair."""
    assert patterns.own is not None
    return np.bincount(patterns.own, weights=patterns.items * patterns.size, minlength=patterns.levels)


def _rare(strata: Sequence[Stratum]) -> tuple[str, ...]:
    """A side whose answers beside the most frequent one are worth fewer than 5 items, counted by their weights (Kish)."""
    q = strata[0].patterns.levels
    sides = [[s.patterns.items @ s.patterns.answers for s in strata]]
    if strata[0].patterns.own is not None:
        sides.append([_own(s.patterns) for s in strata])
    weight = np.array([s.weight for s in strata])
    for counts in map(np.array, sides):
        total = weight @ counts
        rest = np.arange(q) != int(total.argmax())
        given = counts[:, rest].sum(axis=1)
        squares = float(weight**2 @ given)
        if not squares or float(weight @ given) ** 2 / squares < FEWEST_RARE:
            return ("rare_answer",)
    return ()


def _handful(strata: Sequence[Stratum]) -> tuple[str, ...]:
    """Where one more differing item of the heaviest stratum would weigh more than an eighth of all that differ."""
    weight = np.array([s.weight for s in strata])
    differing = float(weight @ np.array([_differing(s.patterns) for s in strata]))
    return ("handful",) if differing < FEW_DIFFERENCES * weight.max() else ()


def _differing(patterns: Patterns) -> float:
    """On how many items answers differ; an item counts by the share of its pairs that do."""
    pairs = pairs_of(patterns)
    paired = patterns.where(pairs > 0)
    return float(paired.items @ (1 - shared_of(paired).sum(axis=1) / pairs[pairs > 0]))


__all__ = ["RANDOM", "UNKNOWN", "Design", "DesignKind", "Stratum", "weighted_estimate"]
