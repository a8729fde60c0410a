"""The counted tables of a dimension by the name of each rater, so that the tables of any two sets of items add up.

A changed item is taken out as it was and put in as it is: that costs what the item costs, however many there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.ratings.counting import ItemTable, Patterns
from calibrate_plugin.ratings.rules import Rater

Array = NDArray[Any]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tables:
    """What is counted of one dimension on a set of items.

    ``annotated``, ``together`` (annotators and the judges that are live), ``against`` and ``pairs`` as in ``ItemTable``;
    ``standing``: the labels of each rater that were not retired; ``aside``: the labels left out by cause; ``judge_items``:
    the items on which a live judge differs from an annotator.
    """

    annotated: Patterns
    together: Patterns
    against: Mapping[Rater, Patterns]
    pairs: Mapping[tuple[Rater, Rater], Array]
    standing: Mapping[Rater, int]
    aside: Mapping[str, int]
    judge_items: int

    def __add__(self, other: Tables) -> Tables:
        """The tables of both sets of items together; the two must share no item."""
        return self._with(other, 1)

    def __sub__(self, other: Tables) -> Tables:
        """The tables without the items of ``other``. Raises ValueError where they do not count all of those."""
        return self._with(other, -1)

    def _with(self, other: Tables, sign: int) -> Tables:
        def joined(a: Patterns, b: Patterns) -> Patterns:
            return a + b if sign > 0 else a - b

        against = dict(self.against)
        for rater, patterns in other.against.items():
            against[rater] = joined(against.get(rater, _none_like(patterns)), patterns)
            if not len(against[rater]):
                del against[rater]
        pairs = dict(self.pairs)
        for pair, cells in other.pairs.items():
            pairs[pair] = pairs.get(pair, 0) + sign * cells
            if (pairs[pair] < 0).any():
                raise ValueError("a table cannot lose items that it does not count")
            if not pairs[pair].any():
                del pairs[pair]
        return Tables(
            joined(self.annotated, other.annotated),
            joined(self.together, other.together),
            against,
            pairs,
            added(self.standing, other.standing, sign),
            added(self.aside, other.aside, sign),
            self.judge_items + sign * other.judge_items,
        )

    def same(self, other: Tables) -> bool:
        """Whether both count the same."""
        return (
            self.judge_items == other.judge_items
            and self.standing == other.standing
            and self.aside == other.aside
            and _equal(self.annotated, other.annotated)
            and _equal(self.together, other.together)
            and self.against.keys() == other.against.keys()
            and all(_equal(p, other.against[r]) for r, p in self.against.items())
            and self.pairs.keys() == other.pairs.keys()
            and all(np.array_equal(c, other.pairs[p]) for p, c in self.pairs.items())
        )

    def of(self, raters: Sequence[Rater]) -> Indexed:
        """The same with each rater as its place in ``raters``, which are in order, as numbers take them."""
        return Indexed(self, tuple(raters))


def tables_of(
    table: ItemTable,
    raters: Sequence[Rater],
    judges: Sequence[int],
    standing: Mapping[Rater, int],
    aside: Mapping[str, int],
) -> Tables:
    """The tables of the items of ``table``, whose raters are places in ``raters``."""
    _, judged, _ = table.differing(np.arange(table.levels), judges)
    return Tables(
        table.annotated(),
        table.together(judges),
        {raters[i]: table.against(i) for i in (*table.annotators, *table.evaluators)},
        {(raters[a], raters[b]): cells for (a, b), cells in table.pairs().items()},
        dict(standing),
        dict(aside),
        int(judged.sum()),
    )


class Indexed:
    """Added-up tables as the numbers ask for them; they know no items."""

    def __init__(self, tables: Tables, raters: tuple[Rater, ...]) -> None:
        self.tables, self.raters = tables, raters
        self.levels = tables.annotated.levels
        present = [i for i, r in enumerate(raters) if r in tables.against]
        self.annotators = tuple(i for i in present if raters[i].kind == "annotator")
        self.evaluators = tuple(i for i in present if raters[i].kind == "evaluator")

    def annotated(self) -> Patterns:
        return self.tables.annotated

    def against(self, rater: int) -> Patterns:
        return self.tables.against[self.raters[rater]]

    def pairs(self) -> dict[tuple[int, int], Array]:
        place = {r: i for i, r in enumerate(self.raters)}
        return {(place[a], place[b]): cells for (a, b), cells in self.tables.pairs.items()}

    def sharing(self) -> tuple[int, ...]:
        return tuple(a for a in self.annotators if bool((self.against(a).size > 0).any()))

    def together(self, judges: Sequence[int]) -> Patterns:
        return self.tables.together

    def spread(self, rater: int) -> tuple[int, ...]:
        patterns = self.against(rater)
        assert patterns.own is not None
        return tuple(np.bincount(patterns.own, weights=patterns.items, minlength=self.levels).astype(np.int64).tolist())

    def differing(self, places: Array, judges: Sequence[int]) -> tuple[Array, Array, Array]:
        raise TypeError("tables that were added up know no single item")

    def human_items(self) -> int:
        """The items on which two annotators differ."""
        everyone = self.tables.annotated
        return int(everyone.items[(everyone.answers > 0).sum(axis=1) > 1].sum())


def added(one: Mapping[K, int], other: Mapping[K, int], sign: int = 1) -> dict[K, int]:
    """Both counts together, or with ``sign`` -1 one without the other; what is zero is left out. Raises ValueError below zero."""
    found = dict(one)
    for key, n in other.items():
        found[key] = found.get(key, 0) + sign * n
        if found[key] < 0:
            raise ValueError(f"a count cannot lose what it does not hold: {key!r}")
        if not found[key]:
            del found[key]
    return found


def _none_like(patterns: Patterns) -> Patterns:
    return patterns.where(np.zeros(len(patterns), dtype=bool))


def _equal(a: Patterns, b: Patterns) -> bool:
    return (
        np.array_equal(a.items, b.items)
        and np.array_equal(a.answers, b.answers)
        and (a.own is None) == (b.own is None)
        and (a.own is None or b.own is None or np.array_equal(a.own, b.own))
    )


__all__ = ["Indexed", "Tables", "added", "tables_of"]
