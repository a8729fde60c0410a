"""Listing a project's scores: newest first, every one, several pages at a time.

A list can show one score twice, the second time with its old value (another day or name is another row in storage), so the
first place in the order of time must win: pages are read out of order and given out in order. Time is cut where workers
are idle: one half stays, the older one is taken by another. A page may be short and not be the last, an id may hold what
no filter can say, and lists by page numbers shift while they are read; ``Reads`` knows how each version says these.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import merge
from typing import Any, Literal
from urllib.parse import quote

from calibrate_langfuse.client import Langfuse, NotOffered, data_of
from calibrate_langfuse.records import Row, micros
from calibrate_plugin.connector import Unavailable

Mode = Literal["v3", "v2", "v1"]

LIMIT = 100
FIELDS = "core,details,subject,annotation"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Names or ids joined in one address; from about 16 kB on servers answer 431.
_LONGEST_LIST = 4000
_MOST_NAMES_BY_PAGE = 8


def iso(ms: int) -> str:
    """A time as every version takes it."""
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def ms_of(row: Row) -> int | None:
    """When a score lies on the list's axis of time, in milliseconds."""
    value = micros(row.get("timestamp"))
    return None if value is None else value // 1000


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page: its rows, where the list goes on (None: nowhere), and how far back it has come."""

    rows: list[Row]
    position: Any
    reached: int | None


Fetch = Callable[[int | None, int | None, Any], Fetched]


@dataclass(slots=True, eq=False)
class _Stretch:
    """A stretch of time, from ``start`` (None: the beginning) to before ``end`` (None: open)."""

    start: int | None
    end: int | None
    position: Any = None
    busy: bool = False
    done: bool = False
    pages: deque[list[Row]] = field(default_factory=deque)


class Listing:
    """The rows of [start, end), newest first, page by page, read by ``workers`` threads.

    ``fetch(start, end, position)`` reads one page. ``floor`` is a time before which nothing much is expected: it only says
    where to cut. At most ``ahead`` pages wait to be given out.
    """

    def __init__(
        self,
        fetch: Fetch,
        start: int | None,
        end: int | None,
        *,
        floor: int,
        workers: int = 8,
        ahead: int = 200,
        may_cut: Callable[[], bool] = lambda: True,
    ) -> None:
        self._fetch, self._floor, self._ahead, self._may_cut = fetch, floor, ahead, may_cut
        self._stretches = [_Stretch(start, end)]
        self._turn = threading.Condition()
        self._idle = 0
        self._waiting = 0  # pages read and not given out
        self._stopped = False
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(max(1, workers))]

    def __iter__(self) -> Iterator[list[Row]]:
        for thread in self._threads:
            thread.start()
        try:
            while (page := self._next()) is not None:
                yield page
        finally:
            with self._turn:
                self._stopped = True
                self._turn.notify_all()
            end = time.monotonic() + 1  # a thread that waits for the server ends by itself
            for thread in self._threads:
                thread.join(timeout=max(0.0, end - time.monotonic()))

    def _next(self) -> list[Row] | None:
        with self._turn:
            while True:
                if not self._stretches:
                    return None
                newest = self._stretches[0]
                if newest.pages:
                    self._waiting -= 1
                    self._turn.notify_all()
                    return newest.pages.popleft()
                if newest.done:
                    self._stretches.pop(0)
                    self._turn.notify_all()
                    continue
                if self._error is not None:
                    raise self._error
                self._turn.wait()

    def _work(self) -> None:
        while (mine := self._take()) is not None:
            try:
                while not mine.done:
                    page = self._fetch(mine.start, mine.end, mine.position)
                    if not self._give(mine, page):
                        return
            except BaseException as error:
                with self._turn:
                    self._error = self._error or error
                    self._stopped = True
                    self._turn.notify_all()
                return

    def _take(self) -> _Stretch | None:
        """The newest stretch nobody reads; None when all is read or being read to its end."""
        with self._turn:
            self._idle += 1
            try:
                while not self._stopped:
                    free = next((s for s in self._stretches if not s.busy and not s.done), None)
                    if free is not None:
                        free.busy = True
                        return free
                    if all(s.done for s in self._stretches):
                        return None
                    self._turn.wait()
                return None
            finally:
                self._idle -= 1

    def _give(self, mine: _Stretch, page: Fetched) -> bool:
        with self._turn:
            if page.rows:
                mine.pages.append(page.rows)
                self._waiting += 1
            mine.position = page.position
            mine.done = page.position is None
            if not mine.done and self._idle and page.reached is not None and self._may_cut():
                self._cut(mine, page)
            self._turn.notify_all()
            # Whoever reads what is wanted next never waits, so the rest can.
            while (
                self._waiting >= self._ahead and not self._stopped and not mine.done and self._stretches[0] is not mine
            ):
                self._turn.wait()
            return not self._stopped

    def _cut(self, mine: _Stretch, page: Fetched) -> None:
        reached = page.reached
        assert reached is not None
        low = self._floor if mine.start is None else max(mine.start, min(self._floor, reached))
        newest = ms_of(page.rows[0]) if page.rows else None
        if reached - low < 2 * max(1, (newest or reached) - reached):
            return  # about a page is left: two would cost more than one
        middle = (low + reached) // 2
        older = _Stretch(mine.start, middle)
        mine.start = middle
        self._stretches.insert(self._stretches.index(mine) + 1, older)


@dataclass(slots=True)
class Reads:
    """How scores are read from one server: which names and environments, in which version's way."""

    server: Langfuse
    mode: Mode
    names: frozenset[str] | None = None
    environments: frozenset[str] | None = None
    workers: int = 8
    ahead: int = 200
    by_environment: bool = False  # v1 and v2 filter environments too, where no score of a session matters

    @property
    def by_name(self) -> Sequence[str | None]:
        """The names to list one by one; [None] where one list has all that is wanted, and more is left out here."""
        if self.names is None or (self.mode != "v3" and len(self.names) > _MOST_NAMES_BY_PAGE):
            return [None]
        if self.mode != "v3":
            return sorted(self.names)
        # The list is split at commas and trimmed, so a name with either cannot be asked for.
        joined = ",".join(sorted(self.names))
        unsayable = any("," in name or name != name.strip() or not name for name in self.names)
        return [None] if unsayable or len(joined) > _LONGEST_LIST else [joined]

    def stream(self, start: int | None, end: int | None = None, *, floor: int) -> Generator[list[Row], None, None]:
        """Every score of [start, end) in milliseconds, newest first."""
        names = self.by_name
        each = max(1, self.workers // len(names))
        lists = [
            Listing(
                self._fetch_of(name),
                start,
                end,
                floor=floor,
                workers=each,
                ahead=self.ahead // len(names) + 1,
                may_cut=self._may_cut,
            )
            for name in names
        ]
        if len(lists) == 1:
            yield from lists[0]
            return
        # One order over the lists of all names, so that of an id under two names the newer one comes first.
        rows = merge(*map(_each, lists), key=lambda row: -(ms_of(row) or 0))
        page: list[Row] = []
        for row in rows:
            page.append(row)
            if len(page) >= LIMIT:
                yield page
                page = []
        if page:
            yield page

    def _may_cut(self) -> bool:
        # Every cut costs a request; where requests are few, waiting for them is what takes the time.
        return self.server.pace.limit is None or self.server.pace.limit > 200

    def first_page(self, end: int | None, name: str | None, limit: int = LIMIT) -> list[Row]:
        """The newest rows before ``end``."""
        if self.mode == "v3":
            return self._v3(None, end, None, name, limit=limit).rows
        return self._paged(None, end, name, 1, limit=limit)[0]

    def total(self, name: str | None) -> int | None:
        """How many rows a list has, where the version says so: stored versions are counted, so it is a bit high."""
        return None if self.mode == "v3" else self._paged(None, None, name, 1, limit=1)[1]

    def _fetch_of(self, name: str | None) -> Fetch:
        if self.mode == "v3":
            return lambda start, end, position: self._v3(start, end, position, name)
        return lambda start, end, position: self._by_time(start, end, position, name)

    def _v3(self, start: int | None, end: int | None, cursor: Any, name: str | None, limit: int = LIMIT) -> Fetched:
        params: dict[str, str | int] = {"limit": limit, "fields": FIELDS}
        if name is not None:
            params["name"] = name
        if self.environments:
            params["environment"] = ",".join(sorted(self.environments))
        if start is not None:
            params["fromTimestamp"] = iso(start)
        if end is not None:
            params["toTimestamp"] = iso(end)
        if cursor is not None:
            params["cursor"] = cursor
        body = self.server.get("/v3/scores", params)
        rows = data_of(body, f"{self.server.url}/api/public/v3/scores")
        meta = body.get("meta")
        onward = (meta.get("cursor") if isinstance(meta, dict) else None) or None
        return Fetched(rows, onward, _cursor_time(onward) if onward else None)

    def _by_time(self, start: int | None, end: int | None, position: Any, name: str | None) -> Fetched:
        """One page of v1 or v2, which have page numbers: rows that come or go shift every later page, and rows of one time
        have no order. So the next page begins where this one ended in time, and only rows of one time are paged through."""
        before, known = position if position is not None else (end, frozenset())
        rows, total = self._paged(start, before, name, 1)
        if not rows:
            return Fetched([], None, None)
        first, last = ms_of(rows[0]), ms_of(rows[-1])
        if first is None or last is None:
            raise Unavailable(f"{self.server.url} lists scores without a time")
        new = [row for row in rows if row.get("id") not in known]
        if len(rows) >= LIMIT and first == last:
            new = [row for row in self._of_one_time(last, name) if row.get("id") not in known]
            return Fetched(new, (last, frozenset()), last)
        if total is not None and total <= len(rows):
            return Fetched(new, None, None)
        if not new or (before is not None and last + 1 >= before):
            return Fetched(new, (last, frozenset()), last)
        ties = frozenset(row.get("id") for row in rows if ms_of(row) == last)
        return Fetched(new, (last + 1, ties), last)

    def _of_one_time(self, ms: int, name: str | None) -> list[Row]:
        """All rows of one millisecond, paged through until a pass shows nothing new."""
        found: dict[Any, Row] = {}
        for _ in range(5):
            before, page = len(found), 1
            while rows := self._paged(ms, ms + 1, name, page)[0]:
                for row in rows:
                    found.setdefault(row.get("id"), row)
                page += 1
            if len(found) == before:
                break
        return list(found.values())

    def _paged(
        self, start: int | None, end: int | None, name: str | None, page: int, limit: int = LIMIT
    ) -> tuple[list[Row], int | None]:
        path = "/v2/scores" if self.mode == "v2" else "/scores"
        # With its trace part (the default) v2 leaves out every score whose trace is not stored. Environments are not
        # filtered by the server here, as older ones lose scores of sessions by it.
        params: dict[str, str | int] = {"limit": limit, "page": page}
        if self.mode == "v2":
            params["fields"] = "score"
        if name is not None:
            params["name"] = name
        if self.by_environment and self.environments:
            params["environment"] = ",".join(sorted(self.environments))
        if start is not None:
            params["fromTimestamp"] = iso(start)
        if end is not None:
            params["toTimestamp"] = iso(end)
        body = self.server.get(path, params)
        meta = body.get("meta") if isinstance(body, dict) else None
        total = meta.get("totalItems") if isinstance(meta, dict) else None
        return data_of(body, f"{self.server.url}/api/public{path}"), total if isinstance(total, int) else None

    def by_id(self, ids: Iterable[str]) -> list[Row]:
        """What the server says about these ids now, under whatever name. Ids that cannot be asked for are left out."""
        found: list[Row] = []
        if self.mode == "v1":
            for id_ in ids:
                found += self._single("/scores", id_)
            return found
        batch: list[str] = []
        size = 0
        for id_ in ids:
            if not askable(id_):
                if self.mode == "v2" and id_:
                    found += self._single("/v2/scores", id_)
                continue
            length = len(quote(id_)) + 3
            if batch and (len(batch) == LIMIT or size + length > _LONGEST_LIST):
                found += self._batch(batch)
                batch, size = [], 0
            batch.append(id_)
            size += length
        return found + self._batch(batch) if batch else found

    def _batch(self, ids: list[str]) -> list[Row]:
        joined = ",".join(ids)
        if self.mode == "v3":
            params: dict[str, str | int] = {"id": joined, "limit": LIMIT, "fields": FIELDS}
            rows = list(self.server.cursor_pages("/v3/scores", params))
        else:
            rows = list(self.server.pages("/v2/scores", {"scoreIds": joined, "fields": "score"}))
        first: dict[Any, Row] = {}
        for row in rows:
            first.setdefault(row.get("id"), row)
        return list(first.values())

    def _single(self, path: str, id_: str) -> list[Row]:
        try:
            row = self.server.get(f"{path}/{quote(id_, safe='')}")
        except NotOffered:
            return []
        return [row] if isinstance(row, dict) else []

    def of_object(self, kind: str, id_: str) -> list[Row]:
        """All scores of a trace, session or run (v3 and v2), newest first."""
        key = {"trace": "traceId", "session": "sessionId", "experiment": "experimentId"}[kind]
        if self.mode == "v3":
            return list(self.server.cursor_pages("/v3/scores", {key: id_, "fields": FIELDS}))
        if self.mode == "v2":
            key = {"experimentId": "datasetRunId"}.get(key, key)
            return list(self.server.pages("/v2/scores", {key: id_, "fields": "score"}))
        return []


def askable(id_: str) -> bool:
    """Whether an id can stand in a comma list, which is split and trimmed."""
    return bool(id_) and "," not in id_ and id_ == id_.strip()


def _each(pages: Iterable[list[Row]]) -> Iterator[Row]:
    for page in pages:
        yield from page


def _cursor_time(cursor: str) -> int | None:
    """How far back a cursor has come. It is the server's own; where it cannot be read, time is just not cut there."""
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        value = micros(position["lastTimestamp"])
    except (ValueError, KeyError, TypeError):
        return None
    return None if value is None else value // 1000
