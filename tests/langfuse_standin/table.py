"""The table of scores as ClickHouse keeps it: every stored version a row, merged late or never.

A version replaces another one only where UTC day, name and id are the same, and only when parts are merged
(``merge_parts``). A query filters first, then shows the newest of the rows that are left per id: so an old version comes
back where the filter, the window or the cursor leaves the new one out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from .clock import DAY_MS

DATA_TYPES = ("NUMERIC", "CATEGORICAL", "BOOLEAN", "CORRECTION", "TEXT")


@dataclass(slots=True, eq=False)
class Row:
    """One stored version of a score. Times are milliseconds since 1970; ``number`` is what v1 and v2 call value."""

    id: str
    name: str
    timestamp: int
    data_type: str = "NUMERIC"
    number: float | None = None
    text: str | None = None
    source: str = "API"
    trace_id: str | None = None
    observation_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    environment: str = "default"
    comment: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    config_id: str | None = None
    queue_id: str | None = None
    author: str | None = None
    execution_trace_id: str | None = None
    created: int = 0
    updated: int = 0
    written: tuple[int, int] = (0, 0)  # ClickHouse's event_ts, and our own count where it is the same
    logged: bool = True  # its event still lies in the event store
    convertible: bool = True  # False: v3 leaves the row out of its page without a word
    gone: bool = False

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.timestamp, self.id, self.written)

    @property
    def replaces(self) -> tuple[int, str, str]:
        return (self.timestamp // DAY_MS, self.name, self.id)


class _Sorted:
    """Rows in the order of time, put in order when they are read."""

    __slots__ = ("_dirty", "_rows")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._dirty = False

    def add(self, row: Row) -> None:
        self._dirty = self._dirty or (bool(self._rows) and self._rows[-1].order > row.order)
        self._rows.append(row)

    def drop_gone(self) -> None:
        self._rows = [row for row in self._rows if not row.gone]

    def __len__(self) -> int:
        return len(self._rows)

    def before(self, start: int | None, end: tuple[Any, ...] | None) -> Iterator[Row]:
        """Newest first, from ``start`` (inclusive) to ``end`` (exclusive)."""
        if self._dirty:
            self._rows.sort(key=lambda row: row.order)
            self._dirty = False
        rows = self._rows
        low = 0 if start is None else bisect_left(rows, (start,), key=lambda row: row.order)
        high = len(rows) if end is None else bisect_left(rows, end, key=lambda row: row.order)
        return (rows[i] for i in range(high - 1, low - 1, -1))


class Table:
    def __init__(self) -> None:
        self._all = _Sorted()
        self._by_name: dict[str, _Sorted] = {}
        self._by_trace: dict[str | None, _Sorted] = {}
        self.by_id: dict[str, list[Row]] = {}
        self.generation = 0  # moves with every change

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all._rows)

    def add(self, row: Row) -> None:
        self.generation += 1
        self._all.add(row)
        self._by_name.setdefault(row.name, _Sorted()).add(row)
        self._by_trace.setdefault(row.trace_id, _Sorted()).add(row)
        self.by_id.setdefault(row.id, []).append(row)

    def remove(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        for row in rows:
            row.gone = True
        self.generation += 1
        self._all.drop_gone()
        for name in {row.name for row in rows}:
            self._by_name[name].drop_gone()
        for trace in {row.trace_id for row in rows}:
            self._by_trace[trace].drop_gone()
        for score in {row.id for row in rows}:
            left = [row for row in self.by_id[score] if not row.gone]
            if left:
                self.by_id[score] = left
            else:
                del self.by_id[score]

    def merge_parts(self) -> None:
        """What ClickHouse does some day: of the versions with one day, name and id only the newest stays."""
        newest: dict[tuple[int, str, str], Row] = {}
        for row in self:
            other = newest.get(row.replaces)
            if other is None or other.written < row.written:
                newest[row.replaces] = row
        kept = set(map(id, newest.values()))
        if old := [row for row in self if id(row) not in kept]:
            self.remove(old)

    def of_trace(self, trace_id: str) -> list[Row]:
        rows = self._by_trace.get(trace_id)
        return list(rows._rows) if rows else []

    def versions(
        self,
        *,
        ids: Iterable[str] | None = None,
        names: Iterable[str] | None = None,
        traces: Iterable[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        after: tuple[int, str] | None = None,
        keep: Callable[[Row], bool] | None = None,
    ) -> Iterator[Row]:
        """Stored versions, newest first, in [start, end) and below the cursor position ``after``."""
        bound: tuple[Any, ...] | None = None if end is None else (end,)
        if after is not None and (bound is None or after < bound):
            bound = after
        if ids is not None:
            chosen = _Sorted()
            for score in set(ids):
                for row in self.by_id.get(score, ()):
                    chosen.add(row)
            lists = [chosen]
        elif traces is not None:
            lists = [self._by_trace[trace] for trace in set(traces) if trace in self._by_trace]
        elif names is not None:
            lists = [self._by_name[name] for name in set(names) if name in self._by_name]
        else:
            lists = [self._all]
        streams = [rows.before(start, bound) for rows in lists]
        rows = streams[0] if len(streams) == 1 else merge(*streams, key=lambda row: row.order, reverse=True)
        return filter(keep, rows) if keep else rows


def newest_per_id(rows: Iterable[Row]) -> Iterator[Row]:
    """Of rows that come newest first, the first of each id."""
    seen: set[str] = set()
    for row in rows:
        if row.id not in seen:
            seen.add(row.id)
            yield row
