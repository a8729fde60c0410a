"""What is kept about labelling beside the facts: the texts of the guideline, and who looked at the test split how often."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from calibrate_plugin.store import Store, reading, schema, time
from calibrate_plugin.store.reading import microseconds
from calibrate_plugin.store.recording import inserted, text


@dataclass(frozen=True, slots=True)
class KeptGuideline:
    """A text of the guideline, and the sync number and time at which it was first seen."""

    version: str
    number: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """A look at numbers of the test split: for which judge version, and for what (``report``, ``threshold``, ``gate``).
    ``digest`` names the numbers that were seen."""

    dimension: str
    evaluator: str
    version: str
    purpose: str
    digest: str
    at: datetime | None = None


def keep_guideline(store: Store, version: str, given: str) -> bool:
    """Write down a text of the guideline; whether it is new. A text that is the newest of its version is not kept twice."""
    t = schema.guidelines
    version, given = text(version), text(given)
    digest = hashlib.sha256(given.encode()).hexdigest()
    with store._database.write() as connection:
        query = sa.select(t.c.digest).where(t.c.version == version).order_by(t.c.id.desc()).limit(1)
        if connection.execute(query).scalar() == digest:
            return False
        values = {
            "version": version,
            "number": reading.latest(connection),
            "at": microseconds(store.now()),
            "digest": digest,
            "text": given,
        }
        inserted(connection, t, values)
    return True


def guidelines(store: Store) -> list[KeptGuideline]:
    """Every text that was kept, oldest first; of a version that was changed without a new number there are several."""
    t = schema.guidelines
    with store._database.read() as connection:
        rows = connection.execute(sa.select(t.c.version, t.c.number, t.c.at, t.c.text).order_by(t.c.id)).all()
    return [KeptGuideline(r.version, r.number, time(r.at), r.text) for r in rows]


def use_test(store: Store, uses: Iterable[Use]) -> None:
    """Write down that numbers of the test split were looked at. The same numbers of the same judge version, looked at
    again, tell nothing new and are no further use."""
    t = schema.test_uses
    given = {(text(u.dimension), text(u.evaluator), text(u.version), u.digest): u for u in uses}
    if not given:
        return
    with store._database.write() as connection:
        known = connection.execute(sa.select(t.c.dimension, t.c.evaluator, t.c.version, t.c.digest)).all()
        number, at = reading.latest(connection), microseconds(store.now())
        there = {tuple(row) for row in known}
        for key, use in given.items():
            if key in there:
                continue
            names = ("dimension", "evaluator", "version", "digest")
            values = dict(zip(names, key, strict=True)) | {"number": number, "at": at, "purpose": use.purpose}
            connection.execute(sa.insert(t), values)


def uses_of_test(store: Store) -> list[Use]:
    """Every use of the test split, oldest first."""
    t = schema.test_uses
    with store._database.read() as connection:
        rows = connection.execute(sa.select(t).order_by(t.c.id)).all()
    return [Use(r.dimension, r.evaluator, r.version, r.purpose, r.digest, time(r.at)) for r in rows]


__all__ = ["KeptGuideline", "Use", "guidelines", "keep_guideline", "use_test", "uses_of_test"]
