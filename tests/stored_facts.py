"""Labels, pages and sources for the tests of the store and of the sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from calibrate_plugin.connector import Covered, Page, Scope, Since
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, frame
from calibrate_plugin.store import Store
from calibrate_plugin.sync import SyncOutcome, sync

T0 = datetime(2026, 10, 1, tzinfo=UTC)
EVERYTHING = Covered(Scope(), "all")


class Clock:
    """A clock that moves a second each time it is read."""

    def __init__(self, time: datetime) -> None:
        self.time = time

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def label(record: str | None, field: str = "Safety", **columns: Any) -> dict[str, Any]:
    """A label as a source gives it; what is not given is usual."""
    usual: dict[str, Any] = {
        "record": record,
        "seq": None,
        "item": f"item {record}",
        "field": field,
        "value": '"Pass"',
        "state": "answered",
        "rater": "ann",
        "kind": "annotator",
        "job": "12",
        "task": f"task {record}",
        "at": T0,
        "placed": T0,
    }
    unknown = set(columns) - set(LABELS)
    assert not unknown, unknown
    return {**dict.fromkeys(LABELS), **usual, **columns}


def labels(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return frame(LABELS, {c: [row[c] for row in rows] for c in LABELS})


def page(
    *rows: Mapping[str, Any],
    facts: Sequence[tuple[str, str, str | None]] = (),
    aside: Sequence[Mapping[str, Any]] = (),
    names: Mapping[str, str] | None = None,
) -> Page:
    return Page(
        labels(rows),
        frame(ITEMS, {c: [fact[i] for fact in facts] for i, c in enumerate(ITEMS)}),
        frame(ASIDE, {c: [row.get(c) for row in aside] for c in ASIDE}),
        names or {},
    )


class Given:
    """A source that says what it is given: pages, Covered, and exceptions to raise at that point."""

    def __init__(self, *pieces: Page | Covered | Exception | Callable[[Since], Any]) -> None:
        self.pieces = pieces
        self.since: Since | None = None
        self.closed = False

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        self.since = since
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, Page | Covered):
                    yield piece
                else:
                    assert since is not None
                    piece(since)
        finally:
            self.closed = True


class GivenWithIdentity(Given):
    def __init__(self, identity: str | Exception, *pieces: Page | Covered | Exception) -> None:
        super().__init__(*pieces)
        self._identity = identity

    def identity(self) -> str:
        if isinstance(self._identity, Exception):
            raise self._identity
        return self._identity


def pull(store: Store, *pieces: Any, source: str = "people", **options: Any) -> SyncOutcome:
    """Sync one source that says these pieces."""
    (outcome,) = sync(store, {source: Given(*pieces)}, **options)
    return outcome


def ok(store: Store, *pieces: Any, source: str = "people", **options: Any) -> SyncOutcome:
    outcome = pull(store, *pieces, source=source, **options)
    assert outcome.outcome == "ok", outcome.message
    return outcome


def state(store: Store, number: int | None = None, *columns: str) -> list[tuple[Any, ...]]:
    """The labels at a sync number, sorted; all columns but the store's own id where none is named."""
    found = store.as_of(number)
    found = found.select(columns) if columns else found.drop("label")
    return sorted(found.rows(), key=repr)


def said_by(rows: Sequence[Mapping[str, Any]], source: str = "people") -> list[tuple[Any, ...]]:
    """What ``state`` gives when a store knows exactly these labels."""
    return sorted([(source, *(row[c] for c in LABELS)) for row in rows], key=repr)


ROUNDS = 3


def story(round: int) -> list[Page | Covered]:
    """What a platform with edits, deletions, moves and returns says at each round, in two scopes."""
    rows = []
    for n in range(24):
        if (n + round) % 12 == 0:
            continue  # deleted, and back in the next round
        value = '"Fail"' if (n * 7 + round) % 5 == 0 else '"Pass"'
        rows.append(
            label(
                str(n) if n % 3 else None,
                item=f"i{n}",
                job="even" if (n + (round if n == 5 else 0)) % 2 == 0 else "odd",
                value=value,
                at=T0 + timedelta(hours=round if value == '"Fail"' else 0),
                reason=f"reason {n}",
            )
        )
    pieces: list[Page | Covered] = []
    for job in ("even", "odd"):
        mine = [row for row in rows if row["job"] == job]
        for n in range(0, len(mine), 4):
            facts = [(f"i{n}", "round", str(round))]
            aside = [{"record": f"{job} {n} {round % 2}", "cause": "unreadable"}]
            pieces.append(page(*mine[n : n + 4], facts=facts, aside=aside, names={"ann": f"Ann {round}"}))
        pieces.append(Covered(Scope(jobs=(job,)), f"{round} {job}"))
    return pieces
