"""From counted labels to small tables: each pattern of answers with the number of items that show it.

Patterns name levels and roles, never raters, so their number does not grow with items or people. Tables of disjoint sets
of items add up; a changed item changes two counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Patterns:
    """A counted table with P patterns over q levels.

    ``answers`` (P, q): how often each level was given on an item. ``items`` (P,): how many items show the pattern.
    ``own`` (P,): the level that one rater, set against ``answers``, gave (-1: none); None where nobody is set apart.
    Patterns are distinct and in canonical order, so equal data gives equal bytes however it was split.
    """

    answers: Array
    items: Array
    own: Array | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def levels(self) -> int:
        return int(self.answers.shape[1])

    @property
    def size(self) -> Array:
        """(P,) how many answers stand in ``answers``."""
        total: Array = self.answers.sum(axis=1, dtype=np.int64)
        return total

    def where(self, keep: Array) -> Patterns:
        """The patterns for which ``keep`` (P,) holds."""
        return Patterns(self.answers[keep], self.items[keep], None if self.own is None else self.own[keep])

    def __add__(self, other: Patterns) -> Patterns:
        """The table of both sets of items together; the two must share no item."""
        if (self.own is None) != (other.own is None) or self.levels != other.levels:
            raise ValueError("these tables do not count the same thing: one sets a rater apart, or has other levels")
        own = None
        if self.own is not None and other.own is not None:
            own = np.concatenate([self.own, other.own])
        return canonical(np.concatenate([self.answers, other.answers]), np.concatenate([self.items, other.items]), own)

    def __sub__(self, other: Patterns) -> Patterns:
        """The table without the items of ``other``, all of which it must count. Raises ValueError where it does not."""
        return self + Patterns(other.answers, -other.items, other.own)


def canonical(answers: Array, items: Array, own: Array | None = None) -> Patterns:
    """Patterns with equal ones merged, empty ones dropped, in canonical order. Raises ValueError for fewer than no items."""
    keys = answers if own is None else np.column_stack([own, answers])
    if not len(keys):
        return Patterns(answers.astype(np.int64), items.astype(np.int64), own)
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    counts: Array = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(counts, inverse.reshape(-1), items)
    if (counts < 0).any():
        raise ValueError("a table cannot lose items that it does not count")
    distinct, counts = distinct[counts > 0], counts[counts > 0]
    return Patterns(distinct if own is None else distinct[:, 1:], counts, None if own is None else distinct[:, 0])


def of_pair(table: Array) -> Patterns:
    """A table of counts (q, q) of two raters, rows against columns, as patterns of one rater against one answer."""
    q = len(table)
    rows, columns = np.nonzero(table)
    return Patterns(np.eye(q, dtype=np.int64)[columns], table[rows, columns].astype(np.int64), rows.astype(np.int64))


@dataclass(frozen=True, slots=True)
class ItemTable:
    """What was answered on each item of a dimension, packed: the counts of all annotators' answers in ``lanes`` (N, L),
    ``bits`` for each level, and each single rater's level in ``own`` (rater -> (N,), -1: none). Items are numbered by
    their code. ``numbers`` and the like do not stand here: scales without levels are not counted."""

    levels: int
    bits: int
    lanes: Array
    own: Mapping[int, Array]
    annotators: tuple[int, ...]
    evaluators: tuple[int, ...]
    _sizes: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def per_lane(self) -> int:
        return 63 // self.bits

    @property
    def n(self) -> int:
        return int(self.lanes.shape[0])

    @property
    def humans(self) -> Array:
        """(N,) how many annotators' answers each item has."""
        if "humans" not in self._sizes:
            self._sizes["humans"] = sum(
                ((self.own[a] >= 0).astype(np.int32) for a in self.annotators), np.zeros(self.n, dtype=np.int32)
            )
        return self._sizes["humans"]

    def annotated(self) -> Patterns:
        """All annotators' answers together, on items with at least one."""
        return self._count(self.humans > 0, self.lanes, None)

    def against(self, rater: int) -> Patterns:
        """One rater's answer beside all annotators' answers on its items; an annotator's own answer is not among them."""
        own = self.own[rater]
        chosen = own >= 0
        lanes = self.lanes
        if rater in self.annotators:
            at = np.flatnonzero(chosen)
            lanes = lanes.copy()
            lanes[at, own[at] // self.per_lane] -= np.int64(1) << (self.bits * (own[at] % self.per_lane)).astype(
                np.int64
            )
        return self._count(chosen, lanes, own)

    def pairs(self) -> dict[tuple[int, int], Array]:
        """For each two raters with a common item the (q, q) table of counts, first rater in rows."""
        return rater_pairs(self, [*self.annotators, *self.evaluators])

    def sharing(self) -> tuple[int, ...]:
        """The annotators at least one of whose items another annotator also answered: those that count."""
        return shares_items(self)

    def together(self, judges: Sequence[int]) -> Patterns:
        """The answers of annotators and ``judges`` alike, on items with at least one."""
        raters = [*self.annotators, *judges]
        return _packed(self.levels, {r: self.own[r] for r in raters}, raters, (), self.n).annotated()

    def spread(self, rater: int) -> tuple[int, ...]:
        """(q,) how often a rater gave each level."""
        own = self.own[rater]
        return tuple(np.bincount(own[own >= 0], minlength=self.levels).tolist())

    def differing(self, places: Array, judges: Sequence[int]) -> tuple[Array, Array, Array]:
        """(N,) whether two annotators differ; (N,) whether one of ``judges`` differs from an annotator; (N,) the
        distance of the worst such pair, in units of ``places`` (q,), the levels' whole-number places."""
        low: Array = np.full(self.n, np.iinfo(np.int64).max)
        high: Array = np.full(self.n, np.iinfo(np.int64).min)
        for a in self.annotators:
            given = self.own[a] >= 0
            place = places[self.own[a]]
            low = np.where(given & (place < low), place, low)
            high = np.where(given & (place > high), place, high)
        people = self.humans > 0
        worst = np.where(people, high - low, 0)
        among = worst > 0
        judged = np.zeros(self.n, dtype=bool)
        for e in judges:
            both = people & (self.own[e] >= 0)
            place = places[self.own[e]]
            apart = np.where(both, np.maximum(np.abs(place - low), np.abs(place - high)), 0)
            judged |= apart > 0
            worst = np.maximum(worst, apart)
        return among, judged, worst

    def _count(self, chosen: Array, lanes: Array, own: Array | None) -> Patterns:
        columns = {f"lane{i}": lanes[chosen, i] for i in range(lanes.shape[1])}
        if own is not None:
            columns["own"] = own[chosen]
        found = pl.DataFrame(columns).group_by(list(columns)).len()
        answers = np.zeros((found.height, self.levels), dtype=np.int64)
        mask = (np.int64(1) << self.bits) - 1
        for level in range(self.levels):
            lane = found[f"lane{level // self.per_lane}"].to_numpy()
            answers[:, level] = (lane >> (self.bits * (level % self.per_lane))) & mask
        counts = found["len"].to_numpy().astype(np.int64)
        return canonical(answers, counts, None if own is None else found["own"].to_numpy().astype(np.int64))


def item_table(counted: pl.DataFrame, levels: int, annotators: Sequence[int], evaluators: Sequence[int]) -> ItemTable:
    """The packed answers of ``counted`` (columns item, rater, level; one row per rater and item)."""
    item = counted["item"].to_numpy()
    rater = counted["rater"].to_numpy()
    level = counted["level"].to_numpy()
    n = int(item.max()) + 1 if len(item) else 0
    dtype = np.int8 if levels < 127 else np.int32
    own: dict[int, Array] = {}
    by_rater = np.argsort(rater.astype(np.int16) if not len(rater) or rater.max() < 2**15 else rater, kind="stable")
    ends = np.searchsorted(rater[by_rater], [*annotators, *evaluators], side="right")
    starts = np.searchsorted(rater[by_rater], [*annotators, *evaluators], side="left")
    for r, start, end in zip([*annotators, *evaluators], starts, ends, strict=True):
        at = by_rater[start:end]
        column = np.full(n, -1, dtype=dtype)
        column[item[at]] = level[at]
        own[r] = column
    return _packed(levels, own, annotators, evaluators, n)


def _packed(
    levels: int, own: Mapping[int, Array], annotators: Sequence[int], evaluators: Sequence[int], n: int
) -> ItemTable:
    bits = max(1, len(annotators).bit_length())
    per_lane = 63 // bits
    lanes = np.zeros((n, max(1, -(-levels // per_lane))), dtype=np.int64)
    for a in annotators:
        at = np.flatnonzero(own[a] >= 0)
        given = own[a][at].astype(np.int64)
        # One answer per annotator and item, so plain indexed addition does not lose any.
        lanes[at, given // per_lane] += np.int64(1) << (bits * (given % per_lane))
    return ItemTable(levels, bits, lanes, own, tuple(annotators), tuple(evaluators))


def rater_pairs(table: ItemTable, raters: Sequence[int]) -> dict[tuple[int, int], Array]:
    """For each two of ``raters`` with a common item the (q, q) table of counts, first rater in rows."""
    q = table.levels
    found: dict[tuple[int, int], Array] = {}
    for i, a in enumerate(raters):
        # Only the items of a are looked at, so raters with few items are cheap.
        at = np.flatnonzero(table.own[a] >= 0)
        first = table.own[a][at].astype(np.int64) * q
        for b in raters[i + 1 :]:
            second = table.own[b][at]
            both = second >= 0
            if both.any():
                found[a, b] = np.bincount(first[both] + second[both], minlength=q * q).reshape(q, q)
    return found


def shares_items(table: ItemTable) -> tuple[int, ...]:
    """The annotators at least one of whose items another annotator also answered: those that count."""
    shared = table.humans >= 2
    return tuple(a for a in table.annotators if bool((shared & (table.own[a] >= 0)).any()))


__all__ = ["ItemTable", "Patterns", "canonical", "item_table", "of_pair", "rater_pairs", "shares_items"]
