"""What is known about a study, and since when.

Facts are only ever added: a label has the sync number that brought it and, when it ends, the number and cause of its end.
So ``as_of(number)`` gives what was known then, however often it is asked. A *sync number* counts publications: a pull
publishes once per scope that it covered, and numbers rise in that order.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl
import sqlalchemy as sa

from calibrate_plugin.connector import Pushed, Scope
from calibrate_plugin.store import reading, recording, schema
from calibrate_plugin.store.database import Busy, Database, StoreError, said
from calibrate_plugin.store.digests import canonical, digests
from calibrate_plugin.store.reading import HISTORY, microseconds
from calibrate_plugin.store.recording import Mode, Recording, Tally, inserted, text
from calibrate_plugin.store.worker import Worker

__all__ = [
    "HISTORY",
    "Busy",
    "Hint",
    "Recording",
    "SettingsState",
    "Store",
    "StoreError",
    "StoredReport",
    "SyncRecord",
    "Tally",
    "said",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """One pull of one source. ``outcome``: running, ok, held, failed; ``requests`` is None where the source does not count."""

    id: int
    source: str
    mode: str
    cursor: str | None
    identity: str | None
    server: str | None
    started: datetime
    finished: datetime | None
    seen: int
    added: int
    changed: int
    retired: int
    duplicates: int
    quarantined: int
    requests: int | None
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class SettingsState:
    """Settings of the study, and the sync number and time from which they held."""

    id: int
    number: int
    at: datetime
    digest: str
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredReport:
    """Where a report lies: ``number`` and ``settings`` make it again."""

    id: int
    number: int
    settings: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Hint:
    """Somebody said that it is worth looking at a source (and a job of it) again."""

    id: int
    source: str
    job: str | None
    received: datetime


class Store:
    """An open store. ``where``: a SQLite file, made if it is not there, or a PostgreSQL url (each study needs a database
    or a schema of its own; a schema is chosen by ``?options=-csearch_path%3DNAME``).

    Raises StoreError where it cannot be opened. Threads may share a store.
    """

    def __init__(self, where: str | Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = Database(where)
        self._worker = Worker(self._database)
        self._now = now

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @property
    def where(self) -> str:
        """The place as a message may say it: a path, or a url without its password."""
        return self._database.shown

    def now(self) -> datetime:
        return self._now()

    # --- the worker's lock

    @contextmanager
    def work(self, wait: float = 0.0) -> Iterator[None]:
        """Be the one who pulls, reports and pushes; may be nested in one thread.

        Raises Busy, saying who it is, where somebody else still is after ``wait`` seconds. What a worker that died had
        staged is removed first.
        """
        with self._worker.hold(wait, self._micros) as first:
            if first:
                recording.recover(self._database)
            yield

    # --- facts in

    def record(
        self, source: str, *, identity: str | None = None, full: bool = False, focused: bool = False
    ) -> Recording:
        """Begin to write down a pull; inside ``work()`` only. ``focused``: of some jobs of the source."""
        mode: Mode = "full" if full else "focused" if focused else "incremental"
        return Recording(
            self._database, self._worker, source=text(source), identity=identity, at=self._micros(), mode=mode
        )

    def source(self, source: str) -> tuple[str | None, str | None]:
        """The identity and the cursor that the published pulls of a source left behind."""
        t = schema.sources
        with self._database.read() as connection:
            row = connection.execute(sa.select(t.c.identity, t.c.cursor).where(t.c.source == text(source))).first()
        return (row.identity, row.cursor) if row else (None, None)

    # --- facts out

    def latest(self) -> int:
        """The newest sync number; 0 before anything was published."""
        with self._database.read() as connection:
            return reading.latest(connection)

    def sync_at(self, time: datetime) -> int:
        """The newest sync number whose pull began at or before a time."""
        t = schema.publications
        with self._database.read() as connection:
            return (
                connection.execute(sa.select(sa.func.max(t.c.number)).where(t.c.at <= microseconds(time))).scalar() or 0
            )

    def as_of(
        self,
        number: int | None = None,
        *,
        sources: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
        reasons: bool = True,
    ) -> pl.DataFrame:
        """The labels as they stood at a sync number (now: None), in the order in which they were recorded.

        Columns: ``label`` (the store's id of the row: the same id is the same row, unchanged), ``source`` and those of
        LABELS. A label that was deleted stays, with why in ``retired``, until its record comes back; one that was changed is
        there once, as it was then. ``items`` reads through an index; ``reasons=False`` leaves ``reason`` null.
        """
        with self._database.read() as connection:
            return reading.as_of(
                connection,
                reading.latest(connection) if number is None else min(number, reading.latest(connection)),
                sources=sources,
                fields=fields,
                items=items,
                with_reasons=reasons,
            )

    def known(self, source: str, scope: Scope) -> pl.DataFrame:
        """The labels of a source in a scope that are not retired (columns of LABELS), with the times that the source says."""
        with self._database.read() as connection:
            return reading.known(connection, text(source), scope)

    def item_facts(self, number: int | None = None, *, items: Sequence[str] | None = None) -> pl.DataFrame:
        """The facts about items at a sync number: ``source`` and the columns of ITEMS."""
        with self._database.read() as connection:
            return reading.item_facts_as_of(connection, self._at(connection, number), items)

    def recent_facts(self, source: str, fact: str, number: int | None = None, most: int = 50) -> list[str]:
        """The values that a fact had on the last items that it was told of, up to a sync number; the newest first."""
        with self._database.read() as connection:
            return reading.recent_facts(connection, text(source), text(fact), self._at(connection, number), most)

    def new_facts(self, prefix: str, after: int) -> pl.DataFrame:
        """Which values facts whose names begin with ``prefix`` got after a sync number: source, fact, value."""
        with self._database.read() as connection:
            return reading.new_facts(connection, text(prefix), after)

    def names(self, number: int | None = None) -> dict[str, dict[str, str]]:
        """How people were called at a sync number: per source, rater id to name."""
        with self._database.read() as connection:
            return reading.names_as_of(connection, self._at(connection, number))

    def aside(self, number: int | None = None) -> pl.DataFrame:
        """What could not be read as a label at a sync number: ``source`` and the columns of ASIDE. What an incremental
        pull no longer lists is dropped by the next full one."""
        with self._database.read() as connection:
            return reading.aside_as_of(connection, self._at(connection, number))

    def changed_items(self, after: int, until: int | None = None) -> list[str]:
        """The items of which a label or a fact was added, changed or retired after one sync number and up to another."""
        with self._database.read() as connection:
            return reading.changed_items(connection, after, self._at(connection, until))

    def itemless_changed(self, after: int, until: int | None = None) -> bool:
        """Whether a label that belongs to no item was added, changed or retired meanwhile: ``changed_items`` cannot say."""
        with self._database.read() as connection:
            return reading.itemless_changed(connection, after, self._at(connection, until))

    def syncs(self, limit: int | None = 100, *, after: int = 0) -> list[SyncRecord]:
        """The last pulls, newest first; only those begun after the one of the id ``after``."""
        t = schema.syncs
        query = sa.select(t).where(t.c.id > after).order_by(t.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            SyncRecord(
                **{**row, "started": time(row["started"]), "finished": row["finished"] and time(row["finished"])}
            )
            for row in rows
        ]

    def forget(self, source: str, rater: str) -> int:
        """Erase a person's names and written reasons, and keep none of them again; what they answered stays.

        Returns how many reasons were erased. On SQLite the erased text is overwritten.
        """
        key = pl.DataFrame({"source": [text(source)], "rater": [text(rater)]})
        key = key if self._database.sqlite else reading.storable(key)
        ((stored_source, stored_rater),) = key.iter_rows()
        (identity,) = digests(canonical(key, ("source", "rater")))
        theirs = sa.select(schema.contexts.c.id).where(
            schema.contexts.c.source == stored_source, schema.contexts.c.rater == stored_rater
        )
        erased = 0
        with self.work(wait=60):
            with self._database.write() as connection:
                self._database.erase_for_good(connection)
                connection.execute(sa.delete(schema.forgotten).where(schema.forgotten.c.identity == identity))
                connection.execute(sa.insert(schema.forgotten), {"identity": identity, "at": self._micros()})
                connection.execute(sa.delete(schema.names).where(schema.names.c.identity == identity))
            with self._database.read() as connection:
                query = sa.select(schema.labels.c.id).where(schema.labels.c.context.in_(theirs))
                ids = connection.execute(query).scalars().all()
            for some in reading.pieces(ids, recording.ROWS):
                with self._database.write() as connection:
                    self._database.erase_for_good(connection)
                    erased += connection.execute(
                        sa.delete(schema.reasons).where(schema.reasons.c.label.in_(some))
                    ).rowcount
            self._database.empty_log()
        return erased

    # --- settings, reports, pushes, hints

    def keep_settings(self, state: Mapping[str, Any]) -> SettingsState:
        """Write down the settings that hold from now on; the same ones again change nothing."""
        canonical_json = json.dumps(state, sort_keys=True, separators=(",", ":"), allow_nan=False)
        digest = hashlib.sha256(canonical_json.encode()).hexdigest()
        t = schema.settings
        with self._database.write() as connection:
            last = connection.execute(sa.select(t).order_by(t.c.id.desc()).limit(1)).mappings().first()
            if last is not None and last["digest"] == digest:
                return _settings(last)
            values = {
                "number": reading.latest(connection),
                "at": self._micros(),
                "digest": digest,
                "state": canonical_json,
            }
            return _settings({"id": inserted(connection, t, values), **values})

    def settings(self, id: int) -> SettingsState:
        with self._database.read() as connection:
            row = connection.execute(sa.select(schema.settings).where(schema.settings.c.id == id)).mappings().first()
        if row is None:
            raise StoreError(f"{self.where} has no settings {id}")
        return _settings(row)

    def settings_states(self) -> list[SettingsState]:
        """Every state of the settings, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(schema.settings).order_by(schema.settings.c.id)).mappings().all()
        return [_settings(row) for row in rows]

    def keep_report(self, body: bytes, settings: int, *, number: int | None = None) -> int:
        """Keep a report (JSON) made from the facts at ``number`` (now: None) under a state of the settings."""
        compressed = zlib.compress(body)
        with self._database.write() as connection:
            values = {
                "number": self._at(connection, number),
                "settings": settings,
                "at": self._micros(),
                "body": compressed,
            }
            return inserted(connection, schema.reports, values)

    def reports(self, limit: int | None = None) -> list[StoredReport]:
        """Where the last reports lie, newest first."""
        t = schema.reports
        query = sa.select(t.c.id, t.c.number, t.c.settings, t.c.at).order_by(t.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [StoredReport(r.id, r.number, r.settings, time(r.at)) for r in connection.execute(query)]

    def report(self, id: int) -> bytes:
        """A kept report, byte for byte."""
        with self._database.read() as connection:
            body = connection.execute(sa.select(schema.reports.c.body).where(schema.reports.c.id == id)).scalar()
        if body is None:
            raise StoreError(f"{self.where} has no report {id}")
        return zlib.decompress(body)

    def keep_push(self, source: str, pushed: Pushed) -> None:
        """Write down what a push wrote. ``unchanged`` proves that an earlier write is there; ``planned`` wrote nothing."""
        there = self._written(source)
        now = self._micros()
        rows = []
        verified = []
        for write in pushed.writes:
            known = there.get(write.target)
            if write.outcome == "planned":
                continue
            if write.outcome == "unchanged" and known is not None and known[1] == write.digest:
                if known[2] is None:
                    verified.append(known[0])
                continue
            outcome = "written" if write.outcome == "unchanged" else write.outcome
            rows.append(
                self._push(source, write.target, write.digest, outcome, write.detail, now, outcome == "written")
            )
        self._keep_pushes(rows, verified, now)

    def keep_unpush(self, source: str, pushed: Pushed) -> None:
        """Write down what an unpush removed (``written``: the removal) or found to be gone (``unchanged``)."""
        now = self._micros()
        gone = [w for w in pushed.writes if w.outcome in ("written", "unchanged")]
        rows = [self._push(source, w.target, w.digest, "removed", w.detail, now, True) for w in gone]
        self._keep_pushes(rows, [], now)

    def written(self, source: str) -> dict[str, str]:
        """What our pushes left at a source: target to digest."""
        return {target: digest for target, (_, digest, _) in self._written(source).items()}

    def hint(self, source: str, job: str | None = None) -> int:
        """Write down that it is worth looking at a source again; on disk when this returns, within 20 ms whatever else
        is being written."""
        values = {"source": text(source), "job": None if job is None else text(job), "received": self._micros()}
        with self._database.write(quick=True) as connection:
            return inserted(connection, schema.hints, values)

    def hints(self) -> list[Hint]:
        """The hints that are not done, oldest first."""
        t = schema.hints
        query = sa.select(t.c.id, t.c.source, t.c.job, t.c.received).where(t.c.done.is_(None)).order_by(t.c.id)
        with self._database.read() as connection:
            return [Hint(r.id, r.source, r.job, time(r.received)) for r in connection.execute(query)]

    def done(self, hints: Sequence[Hint]) -> None:
        """What these hints asked for has happened."""
        for some in reading.pieces([hint.id for hint in hints], recording.ROWS):
            with self._database.write() as connection:
                connection.execute(
                    sa.update(schema.hints).where(schema.hints.c.id.in_(some)).values(done=self._micros())
                )

    def _at(self, connection: sa.Connection, number: int | None) -> int:
        newest = reading.latest(connection)
        return newest if number is None else min(number, newest)

    def _micros(self) -> int:
        return microseconds(self._now())

    def _written(self, source: str) -> dict[str, tuple[int, str, int | None]]:
        t = schema.pushes
        last = (
            sa.select(sa.func.max(t.c.id))
            .where(t.c.source == text(source), t.c.outcome != "refused")
            .group_by(t.c.target)
        )
        query = sa.select(t.c.target, t.c.id, t.c.digest, t.c.verified).where(
            t.c.id.in_(last), t.c.outcome != "removed"
        )
        with self._database.read() as connection:
            return {r.target: (r.id, r.digest, r.verified) for r in connection.execute(query)}

    def _push(
        self, source: str, target: str, digest: str, outcome: str, detail: str, at: int, verified: bool
    ) -> dict[str, Any]:
        return {
            "source": text(source),
            "target": text(target),
            "digest": digest,
            "outcome": outcome,
            "detail": text(detail),
            "at": at,
            "verified": at if verified else None,
        }

    def _keep_pushes(self, rows: list[dict[str, Any]], verified: list[int], now: int) -> None:
        for batch in reading.pieces(rows, recording.ROWS):
            with self._database.write() as connection:
                connection.execute(sa.insert(schema.pushes), batch)
        for ids in reading.pieces(verified, recording.ROWS):
            with self._database.write() as connection:
                connection.execute(sa.update(schema.pushes).where(schema.pushes.c.id.in_(ids)).values(verified=now))


def time(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def _settings(row: Mapping[Any, Any]) -> SettingsState:
    return SettingsState(row["id"], row["number"], time(row["at"]), row["digest"], json.loads(row["state"]))
