"""Random histories of a platform, pulled in random ways, against a plain dictionary: now and at every sync number."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from store_engines import forget_everything
from stored_facts import T0, Clock, Given, label, labels, page

from calibrate_plugin.connector import Covered, Scope, Unavailable
from calibrate_plugin.model import LABELS
from calibrate_plugin.store import Store
from calibrate_plugin.store.recording import ANSWER
from calibrate_plugin.sync import sync

Key = tuple[str, str]
Label = dict[str, Any]

NAMES = ("people", "judges")
SOURCES = st.sampled_from(NAMES)
RECORDS = st.sampled_from([f"r{n}" for n in range(2)])
FIELDS = st.sampled_from(["a", "b"])
JOBS = st.sampled_from(["1", "2"])
VALUES = st.sampled_from(['"Pass"', '"Fail"', None])
DAYS = st.integers(0, 2)
#: What happens to one label: what, which, and what it is then.
CHANGES = st.tuples(
    st.sampled_from(["answer", "edit", "edit", "edit and move the time", "move", "touch", "delete", "delete"]),
    SOURCES,
    RECORDS,
    FIELDS,
    VALUES,
    JOBS,
    DAYS,
)
SCOPES = st.one_of(
    st.just(Scope()),
    st.builds(lambda job: Scope(jobs=(job,)), JOBS),
    st.builds(lambda field: Scope(fields=(field,)), FIELDS),
    st.builds(lambda record: Scope(tasks=(f"task {record}",)), RECORDS),
    st.builds(lambda day: Scope(start=T0 + timedelta(days=day), end=T0 + timedelta(days=day + 1)), DAYS),
    st.builds(lambda job, field: Scope(jobs=(job,), fields=(field,)), JOBS, FIELDS),
)
CAUSES = st.sampled_from(["label_deleted", "item_deleted", "job_deleted", "expired"])


class Known:
    """What a store should know of one source: live labels with the source's own time, and ended ones with their cause."""

    def __init__(self) -> None:
        self.live: dict[Key, tuple[Label, datetime]] = {}
        self.ended: dict[Key, Label] = {}

    def copy(self) -> Known:
        other = Known()
        other.live, other.ended = dict(self.live), dict(self.ended)
        return other

    def rows(self) -> list[Label]:
        return [row for row, _ in self.live.values()] + list(self.ended.values())


def content(row: Label) -> Label:
    return {c: v for c, v in row.items() if c != "at"}


class Histories(RuleBasedStateMachine):
    make: Callable[[], tuple[str, Callable[[], None]]]

    def __init__(self) -> None:
        super().__init__()
        where, self.clean = type(self).make()
        self.clock = Clock(datetime(2026, 11, 1, tzinfo=UTC))
        self.store = Store(where, now=self.clock)
        self.where = where
        self.platform: dict[str, dict[Key, Label]] = {name: {} for name in NAMES}
        self.known = {name: Known() for name in self.platform}
        self.past: list[dict[str, list[Label]]] = [{name: [] for name in self.platform}]
        self.ticks = 0

    def teardown(self) -> None:
        self.store.close()
        self.clean()

    # --- what happens on a platform

    @initialize(days=st.lists(DAYS, min_size=8, max_size=8))
    def answers(self, days: list[int]) -> None:
        keys = [(source, f"r{n}", field) for source in NAMES for n in range(2) for field in "ab"]
        for day, key in zip(days, keys, strict=True):
            self._happens("answer", *key, '"Pass"', "1", day)

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=8))
    def time_passes(self, changes: list[tuple[str, str, str, str, str | None, str, int]]) -> None:
        for change in changes:
            self._happens(*change)

    def _happens(self, what: str, source: str, record: str, field: str, value: str | None, job: str, day: int) -> None:
        self.ticks += 1
        now = T0 + timedelta(minutes=self.ticks)
        key = record, field
        answered = {"value": value, "state": "answered" if value else "cleared"}
        placed = {"job": job, "placed": T0 + timedelta(days=day)}
        there = self.platform[source]
        if what == "answer":
            there[key] = label(
                record,
                field,
                item=f"item {record}",
                task=f"task {record}",
                seq=self.ticks,
                at=now,
                **answered,
                **placed,
            )
        elif what == "delete":
            there.pop(key, None)
        elif key in there:
            there[key] |= {
                "edit": answered,
                "edit and move the time": {**answered, "at": now},
                "move": placed if value else {**placed, "at": now},
                "touch": {"at": now},
            }[what]

    # --- what a connector makes of it

    @rule(
        source=SOURCES,
        scopes=st.lists(st.tuples(SCOPES, CAUSES, st.sampled_from([True, True, True, False])), min_size=1, max_size=3),
        breaks=st.sampled_from([None] * 6 + list(range(8))),
        full=st.booleans(),
        stale=st.booleans(),
        rest=st.booleans(),
    )
    def pull(
        self,
        source: str,
        scopes: list[tuple[Scope, str, bool]],
        breaks: int | None,
        full: bool,
        stale: bool,
        rest: bool,
    ) -> None:
        """Each scope is listed (or, the platform saying nothing, not), in pages of two labels; maybe something breaks."""
        every = list(self.platform[source].values())
        pieces: list[Any] = []
        for scope, cause, listed in scopes:
            rows = [r for r in every if labels([r]).filter(scope.matches()).height] if listed else []
            if stale and rows:
                rows = [*rows, {**rows[0], "value": '"old"'}]
            pieces += [page(*(dict(r) for r in rows[n : n + 2])) for n in range(0, len(rows), 2)]
            pieces.append(Covered(scope, f"cursor {self.ticks}", cause))
        if rest:
            pieces.append(page(*(dict(r) for r in every[:1])))
        broken = breaks is not None and breaks < len(pieces)
        if broken:
            pieces.insert(breaks or 0, Unavailable("the line was cut"))
        (outcome,) = sync(self.store, {source: Given(*pieces)}, full=full, accept_deletions=True)
        assert outcome.outcome == ("failed" if broken else "ok"), outcome.message
        self._follow(source, pieces)
        assert self.store.latest() == len(self.past) - 1
        self._check(len(self.past) - 1)

    @rule(source=SOURCES)
    def reconcile(self, source: str) -> None:
        """Everything is listed: what is live is then exactly what the platform has."""
        rows = [dict(r) for r in self.platform[source].values()]
        pieces = [page(*rows), Covered(Scope(), "all")]
        sync(self.store, {source: Given(*pieces)}, full=True, accept_deletions=True)
        self._follow(source, pieces)
        known = self.store.known(source, Scope())
        without_time = [c for c in LABELS if c != "at"]
        assert sorted(known.select(without_time).rows(), key=repr) == sorted(
            labels(rows).select(without_time).rows(), key=repr
        )

    @precondition(lambda self: len(self.past) > 1)
    @rule()
    def reopen_and_look_at_every_number(self) -> None:
        self.store.close()
        self.store = Store(self.where, now=self.clock)
        for number in range(len(self.past)):
            self._check(number)

    # --- the dictionary

    def _follow(self, source: str, pieces: list[Any]) -> None:
        """The same pull, on plain dictionaries."""
        published, staged = self.known[source], self.known[source].copy()
        seen: set[Key] = set()
        window: set[Key] = set()
        for piece in [*pieces, None]:
            if isinstance(piece, Exception):
                return
            if piece is not None and not isinstance(piece, Covered):
                for row in piece.labels.iter_rows(named=True):
                    key = row["record"], row["field"]
                    window.add(key)
                    if key not in seen:
                        seen.add(key)
                        self._listed(staged, key, dict(row))
                continue
            if piece is not None:
                for key, (row, _) in published.live.items():
                    if key not in window and labels([row]).filter(piece.scope.matches()).height:
                        del staged.live[key]
                        staged.ended[key] = {**row, "retired": piece.cause}
            if staged.live != published.live or staged.ended != published.ended:
                self.known[source] = staged
                self.past.append({name: known.rows() for name, known in self.known.items()})
            published, staged, window = self.known[source], self.known[source].copy(), set()

    def _listed(self, known: Known, key: Key, row: Label) -> None:
        if key not in known.live:
            known.ended.pop(key, None)
            known.live[key] = row, row["at"]
            return
        old, said = known.live[key]
        if content(old) == content(row):
            return
        if all(old[c] == row[c] for c in ANSWER):
            known.live[key] = {**row, "at": old["at"]}, said
        elif row["at"] == said:
            known.live[key] = {**row, "at": self._sync_time()}, said
        else:
            known.live[key] = row, row["at"]

    def _sync_time(self) -> datetime:
        return self.store.syncs(1)[0].started

    def _check(self, number: int) -> None:
        expected = [(name, *(row[c] for c in LABELS)) for name, rows in self.past[number].items() for row in rows]
        found = self.store.as_of(number)
        assert sorted(found.drop("label").rows(), key=repr) == sorted(expected, key=repr)
        some = found["item"].unique().sort()[:2].to_list()
        assert self.store.as_of(number, items=some).equals(found.filter(pl.col("item").is_in(some)))


def test_any_history_is_known_now_and_at_every_sync_number(engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "sqlite":
        template = request.getfixturevalue("sqlite_template")

        def make() -> tuple[str, Callable[[], None]]:
            folder = tempfile.TemporaryDirectory()
            return str(shutil.copy(template, folder.name)), folder.cleanup
    else:
        where = request.getfixturevalue("postgresql_template")

        def make() -> tuple[str, Callable[[], None]]:
            forget_everything(where)
            return where, lambda: None

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        type("HistoriesOn" + engine, (Histories,), {"make": staticmethod(make)}),
        settings=settings(
            max_examples=20 if engine == "sqlite" else 5,
            stateful_step_count=20,
            deadline=None,
            derandomize=os.environ.get("CI", "").lower() == "true",
            suppress_health_check=list(HealthCheck),
        ),
    )
