"""A study whose facts change at random, through a real store."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from calibrate_plugin.config import Config, read
from calibrate_plugin.connector import Covered, Page, Scope
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, frame
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync

T0 = datetime(2026, 10, 1, tzinfo=UTC)

SETTINGS: dict[str, Any] = {
    "study": {"name": "changing", "resamples": 200},
    "dimensions": {
        "Safety": {"scale": "binary", "values": ["Pass", "Fail"]},
        "Empathy": {"scale": "rating", "min": 1, "max": 5},
    },
    "sources": {
        "people": {"connector": "files", "file": "people.csv"},
        "judges": {"connector": "files", "file": "j.csv"},
    },
}


class Clock:
    """A clock that moves a second each time it is read."""

    def __init__(self) -> None:
        self.time = T0 + timedelta(days=30)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def row(record: str, item: str, rater: str, value: str | None, **columns: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "record": record,
        "item": item,
        "field": "Safety",
        "value": value,
        "state": "answered" if value is not None else "cleared",
        "rater": rater,
        "kind": "annotator",
        "at": T0,
        "placed": T0,
    }
    return {**dict.fromkeys(LABELS), **usual, **columns}


def page(rows: list[dict[str, Any]], names: dict[str, str] | None = None) -> Page:
    labels: pl.DataFrame = frame(LABELS, {c: [r[c] for r in rows] for c in LABELS})
    return Page(labels, frame(ITEMS), frame(ASIDE), names or {})


class Listing:
    """A source that lists everything it holds, so what it no longer lists is retired."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.names: dict[str, str] = {}
        self.facts: list[tuple[str, str, str]] = []

    def pull(self, since: Any = None) -> Any:
        yield page(list(self.rows.values()), self.names)
        yield Page(frame(LABELS), pl.DataFrame(self.facts, schema=ITEMS, orient="row"))
        yield Covered(Scope(), "all")


class World:
    """Two sources, their store and settings; each change is pulled at once."""

    def __init__(self, folder: Path, document: dict[str, Any] | None = None) -> None:
        self.path = folder / "calibrate.toml"
        self.clock = Clock()
        self.store = Store(str(folder / "calibrate.db"), now=self.clock)
        self.people, self.judges = Listing(), Listing()
        self.settle(document or SETTINGS)

    def settle(self, document: dict[str, Any]) -> None:
        self.config: Config = read(document, self.path)

    def pull(self) -> None:
        sources = {"people": self.people, "judges": self.judges}
        for outcome in sync(self.store, sources, accept_deletions=True):
            assert outcome.outcome == "ok", outcome.message

    def say(self, record: str, item: str, rater: str, value: str | None, **columns: Any) -> None:
        kind = columns.get("kind", "annotator")
        side = self.judges if kind == "evaluator" else self.people
        side.rows[record] = row(record, item, rater, value, **columns)

    def change_at_random(self, random: random.Random) -> None:
        """Add, change, clear, delete, fail or version an answer."""
        n = random.randrange(10_000)
        item, field = f"i{random.randrange(25)}", random.choice(["Safety", "Empathy"])
        side = random.choice([self.people, self.people, self.judges])
        value = random.choice(['"Pass"', '"Fail"']) if field == "Safety" else str(random.randrange(1, 6))
        known = sorted(side.rows)
        what = random.random()
        at = T0 + timedelta(minutes=n)
        if what < 0.55 or not known:
            if side is self.judges:
                version, run = random.choice(["v1", "v1", "v1", "v2"]), f"run {random.randrange(3)}"
                self.say(f"j{n}", item, "judge", value, field=field, kind="evaluator", version=version, run=run, at=at)
            else:
                who, job = random.choice(["ann", "ben", "cem", "ann", "ben"]), str(random.randrange(3))
                self.say(f"p{n}", item, who, value, field=field, job=job, at=at)
            return
        record = random.choice(known)
        old = side.rows[record]
        if what < 0.75:
            value = random.choice(['"Pass"', '"Fail"']) if old["field"] == "Safety" else str(random.randrange(1, 6))
            side.rows[record] = {**old, "value": value, "state": "answered"}
        elif what < 0.82:
            side.rows[record] = {**old, "value": None, "state": "cleared"}
        elif what < 0.9:
            del side.rows[record]
        elif what < 0.95:
            causes = ["run_failed", "run_deleted"] if side is self.judges else ["annotator_deleted", "job_deleted"]
            side.rows[record] = {**old, "retired": random.choice([*causes, "item_deleted"])}
        else:
            side.rows[record] = {**old, "retired": None}
