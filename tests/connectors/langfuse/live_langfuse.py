"""A stand-in server and a source that reads it, with one clock: whoever waits moves it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
from calibrate_langfuse.client import Clock, Langfuse
from calibrate_langfuse.live import LiveScores
from calibrate_langfuse.records import Rules
from langfuse_standin import LangfuseStandin

from calibrate_plugin.connector import Covered, Page, Since, SourceSettings
from calibrate_plugin.model import ASIDE, LABELS, frame
from calibrate_plugin.store import Store
from calibrate_plugin.sync import SyncOutcome, sync

#: What stays of a label when two readings of one server are compared.
KEPT = [
    "record",
    "item",
    "field",
    "value",
    "state",
    "retired",
    "rater",
    "kind",
    "version",
    "run",
    "reason",
    "execution",
]


def settings(
    labels: dict[str, tuple[str, ...]] | None = None,
    *,
    since: date | None = None,
    push: dict[str, Any] | None = None,
    **options: Any,
) -> SourceSettings:
    return SourceSettings("judges", "langfuse", labels=labels or {}, since=since, push=push, options=options)


def source_of(server: LangfuseStandin, given: SourceSettings | None = None, **client: Any) -> LiveScores:
    given = given or settings()
    slept: list[float] = []
    waking = threading.Lock()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        until = server.clock.now() + timedelta(seconds=seconds)
        with waking:  # those who wait side by side wait the same time
            if server.clock.now() < until:
                server.clock.set(until)

    langfuse = Langfuse(
        server.url,
        client.pop("public_key", server.public_key),
        client.pop("secret_key", server.secret_key),
        clock=Clock(server.clock.now, sleep),
        **client,
    )
    source = LiveScores(given, Rules.of(given), server=langfuse)
    source.slept = slept  # type: ignore[attr-defined]
    return source


def read(source: LiveScores, since: Since | None = None) -> tuple[pl.DataFrame, pl.DataFrame, list[Covered]]:
    """Labels, what was set aside, and what was covered."""
    labels, aside, covered = [frame(LABELS)], [frame(ASIDE)], []
    for piece in source.pull(since):
        if isinstance(piece, Page):
            labels.append(piece.labels)
            aside.append(piece.aside)
        else:
            covered.append(piece)
    return pl.concat(labels), pl.concat(aside), covered


@dataclass
class Study:
    """A store that a source is synced into."""

    server: LangfuseStandin
    path: Path
    given: SourceSettings = field(default_factory=settings)
    source: LiveScores | None = None

    def __post_init__(self) -> None:
        self.store = Store(self.path, now=self.server.clock.now)
        self.source = self.source or source_of(self.server, self.given)

    def sync(
        self, *, full: bool = False, accept_deletions: bool = False, source: LiveScores | None = None
    ) -> SyncOutcome:
        return sync(self.store, {"judges": source or self.source}, full, accept_deletions)[0]  # type: ignore[dict-item]

    def labels(self) -> pl.DataFrame:
        """What stands, in a fixed order."""
        return self.store.as_of().filter(pl.col("retired").is_null()).select(KEPT).sort("record", "field")

    def all_labels(self) -> pl.DataFrame:
        return self.store.as_of().sort("record", "field")


def fresh(server: LangfuseStandin, given: SourceSettings | None = None) -> pl.DataFrame:
    """What a first pull into nothing reads."""
    labels, _, _ = read(source_of(server, given))
    return labels.select(KEPT).unique("record", keep="first").sort("record", "field")


def day(n: int, hour: int = 10, minute: int = 0) -> str:
    """A time in November 2026; the stand-in's clock begins on the 30th at 12:00 UTC."""
    return f"2026-11-{n:02d}T{hour:02d}:{minute:02d}:00Z"


def spread(
    n: int, start: datetime = datetime(2026, 11, 1, tzinfo=UTC), step: float = 600.0, **fields: Any
) -> Iterator[dict[str, Any]]:
    """Scores one after the other."""
    for i in range(n):
        yield {
            "id": f"s{i:06d}",
            "name": "safety",
            "value": i % 2 == 0,
            "traceId": f"t{i:06d}",
            "source": "EVAL",
            "timestamp": datetime.fromtimestamp(start.timestamp() + i * step, UTC),
            **fields,
        }


Change = Callable[[LangfuseStandin], None]
