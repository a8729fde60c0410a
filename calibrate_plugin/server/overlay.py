"""A table that says something of items, kept while items change: an event costs what it touches, not what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import polars as pl

#: Once so many items lie over the table it is written out anew.
MOST = 2_000


class Overlay:
    """The rows of ``base`` but for those of the items in ``gone``, and those of ``fresh`` instead. Never changes."""

    def __init__(
        self,
        base: pl.DataFrame,
        order: Sequence[str] = (),
        gone: frozenset[str] = frozenset(),
        fresh: pl.DataFrame | None = None,
    ) -> None:
        self._base, self._order, self._gone = base, tuple(order), gone
        self._fresh = base.clear() if fresh is None else fresh

    @cached_property
    def frame(self) -> pl.DataFrame:
        """All rows in one table, sorted by ``order``; this costs as much as the table is long."""
        if not self._gone:
            return self._base
        whole = pl.concat([_without(self._base, self._gone), self._fresh], rechunk=True)
        return whole.sort(self._order) if self._order else whole

    def replaced(self, items: Iterable[str], fresh: pl.DataFrame) -> Overlay:
        """With ``fresh`` as the rows of ``items``."""
        written = "frame" in self.__dict__
        if written or len(self._gone) > MOST:
            return Overlay(self.frame, self._order, frozenset(items), fresh)
        touched = frozenset(items)
        return Overlay(
            self._base, self._order, self._gone | touched, pl.concat([_without(self._fresh, touched), fresh])
        )


def _without(rows: pl.DataFrame, items: frozenset[str]) -> pl.DataFrame:
    return rows.filter(~pl.col("item").is_in(pl.Series("item", sorted(items), dtype=pl.String).implode()))
