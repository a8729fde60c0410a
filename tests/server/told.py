"""Labels, sources and studies for the tests of the server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from calibrate_plugin.connector import (
    Covered,
    Incoming,
    Look,
    Page,
    Pushed,
    Results,
    Scope,
    Since,
    SourceSettings,
    Unavailable,
    Write,
)
from calibrate_plugin.model import LABELS, frame

T0 = datetime(2026, 10, 1, tzinfo=UTC)


def label(record: str, item: str | None, rater: str, value: str | None, **columns: Any) -> dict[str, Any]:
    """A label of a person on Safety, unless told otherwise."""
    usual = {
        "record": record,
        "item": item,
        "field": "Safety",
        "value": value,
        "state": "answered" if value is not None else "skipped",
        "rater": rater,
        "kind": "annotator",
        "task": f"task {item}",
        "at": T0,
        "placed": T0,
    }
    return {**dict.fromkeys(LABELS), **usual, **columns}


def labels(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return frame(LABELS, {c: [row[c] for row in rows] for c in LABELS})


class Told:
    """A source that says, of each record, what it was last told; every pull covers all of it. A light platform: it may be
    down, it counts its pulls, and it takes results and hands them out again."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = (), names: Mapping[str, str] | None = None) -> None:
        self.rows: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.names = dict(names or {})
        self.pulls = 0
        self.down: Exception | None = None
        self.tell(*rows)

    def tell(self, *rows: Mapping[str, Any]) -> None:
        for row in rows:
            self.rows[row["record"], row["field"]] = row

    def forget(self, *records: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] not in records}

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        self.pulls += 1
        if self.down is not None:
            raise self.down
        yield Page(labels(list(self.rows.values())), names=self.names)
        yield Covered(Scope(), f"after {self.pulls}")


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def down() -> Unavailable:
    return Unavailable("the platform does not answer")


def until(holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait for something to hold; what it gave."""
    import time

    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


class Woken(Told):
    """A source that is woken by the secret of Label Studio's webhooks and takes results; it remembers what was pushed."""

    wants_body = False

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(rows)
        self.pushes = 0
        self.results: dict[str, str] = {}
        self.refuses: Exception | None = None
        self.settings = SourceSettings("people", "told")

    def accepts(self, incoming: Incoming) -> Look:
        from calibrate_label_studio.webhooks import accepts

        return accepts(self.settings, (12, 13), incoming)

    def push(self, results: Results, *, dry_run: bool = False) -> Pushed:
        self.pushes += 1
        if self.refuses is not None:
            raise self.refuses
        writes = []
        for dimension in results.report.dimensions:
            digest = f"{dimension.annotators.agreement.value} {dimension.annotators.agreement.n_pairs}"
            same = self.results.get(dimension.name) == digest
            writes.append(Write(dimension.name, digest, "unchanged" if same else "written"))
            self.results[dimension.name] = digest
        return Pushed(tuple(writes))

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        self.results.clear()
        return Pushed(())


def till_done(working: Any, holds: Callable[[], Any]) -> Any:
    """Let somebody take one step after the other until something holds."""
    import time

    from calibrate_plugin.store import Busy

    end = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen in time"
        with contextlib.suppress(Busy):
            working.step()
        time.sleep(0.002)
    return found
