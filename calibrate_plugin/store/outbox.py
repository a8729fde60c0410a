"""Alerts in the store: what stands, and the messages that are still to be delivered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from calibrate_plugin.store import Store, schema, time
from calibrate_plugin.store.reading import microseconds
from calibrate_plugin.store.recording import text

LENGTH = 500  # characters of an error that are kept


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one thing that can be wrong; ``told_raised``: the last message about it said that it stands."""

    key: str
    raised: datetime | None = None
    clear: int = 0
    told: datetime | None = None
    told_raised: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message for one channel; ``message`` names it for ever. ``due`` is None once it was delivered."""

    id: int
    message: str
    channel: str
    at: datetime
    body: Mapping[str, Any]
    due: datetime | None
    tries: int
    delivered: datetime | None
    error: str


class Outbox:
    """The alerts of a store."""

    def __init__(self, store: Store) -> None:
        self._database = store._database

    def standing(self) -> dict[str, Standing]:
        with self._database.read() as connection:
            return _standing(connection)

    def keep(
        self,
        states: Sequence[Standing],
        message: str,
        body: Mapping[str, Any] | None,
        channels: Sequence[str],
        at: datetime,
        known: Mapping[str, Standing] | None = None,
    ) -> bool:
        """Write down what stands now and, with a ``body``, a message for every channel: both or neither.

        ``known`` is what stood when that was decided; where another process has decided something of it since, nothing is
        written and False is returned.
        """
        try:
            return self._keep(states, message, body, channels, microseconds(at), known)
        except sa.exc.IntegrityError:  # PostgreSQL: both wrote at once
            return False

    def _keep(
        self,
        states: Sequence[Standing],
        message: str,
        body: Mapping[str, Any] | None,
        channels: Sequence[str],
        micros: int,
        known: Mapping[str, Standing] | None,
    ) -> bool:
        with self._database.write() as connection:
            if known is not None:
                now = _standing(connection)
                if any(now.get(s.key) != known.get(s.key) for s in states):
                    return False
            for s in states:
                key = text(s.key)
                connection.execute(sa.delete(schema.alert_states).where(schema.alert_states.c.key == key))
                connection.execute(
                    sa.insert(schema.alert_states),
                    {
                        "key": key,
                        "raised": None if s.raised is None else microseconds(s.raised),
                        "clear": s.clear,
                        "told": None if s.told is None else microseconds(s.told),
                        "told_raised": int(s.told_raised),
                    },
                )
            if body is not None:
                for channel in channels:
                    values = {
                        "message": message,
                        "channel": channel,
                        "at": micros,
                        "body": json.dumps(body, allow_nan=False),
                        "due": micros,
                        "tries": 0,
                        "error": "",
                    }
                    connection.execute(sa.insert(schema.outbox), values)
        return True

    def due(self, now: datetime) -> list[Waiting]:
        """What is to be tried, oldest first. Where the oldest message of a channel is not due, its later ones wait too."""
        found: list[Waiting] = []
        waiting: set[str] = set()
        for one in self.listed(delivered=False):
            if one.channel in waiting:
                continue
            if one.due is not None and one.due <= now:
                found.append(one)
            else:
                waiting.add(one.channel)
        return found

    def listed(self, *, delivered: bool, limit: int | None = None) -> list[Waiting]:
        """What still waits, oldest first, or the last ones that were delivered, newest first."""
        t = schema.outbox
        query = sa.select(t)
        if delivered:
            query = query.where(t.c.delivered.is_not(None)).order_by(t.c.id.desc())
        else:
            query = query.where(t.c.delivered.is_(None)).order_by(t.c.id)
        with self._database.read() as connection:
            return [
                Waiting(
                    r.id,
                    r.message,
                    r.channel,
                    time(r.at),
                    json.loads(r.body),
                    None if r.due is None else time(r.due),
                    r.tries,
                    None if r.delivered is None else time(r.delivered),
                    r.error,
                )
                for r in connection.execute(query.limit(limit))
            ]

    def claim(self, one: Waiting, until: datetime) -> bool:
        """Be the one who tries a message; False where another process is at it. ``until`` is when somebody else may try it, should
        this process end before it says how that went."""
        t = schema.outbox
        mine = (t.c.id == one.id, t.c.delivered.is_(None), t.c.due == (one.due and microseconds(one.due)))
        with self._database.write() as connection:
            return connection.execute(sa.update(t).where(*mine).values(due=microseconds(until))).rowcount == 1

    def delivered(self, id: int, at: datetime) -> None:
        t = schema.outbox
        values = {"due": None, "delivered": microseconds(at), "tries": t.c.tries + 1, "error": ""}
        with self._database.write() as connection:
            connection.execute(sa.update(t).where(t.c.id == id).values(**values))

    def failed(self, id: int, error: str, due: datetime) -> None:
        t = schema.outbox
        values = {"due": microseconds(due), "tries": t.c.tries + 1, "error": text(error[:LENGTH])}
        with self._database.write() as connection:
            connection.execute(sa.update(t).where(t.c.id == id).values(**values))


def _standing(connection: sa.Connection) -> dict[str, Standing]:
    rows = connection.execute(sa.select(schema.alert_states)).all()
    return {
        r.key: Standing(
            r.key,
            None if r.raised is None else time(r.raised),
            r.clear,
            None if r.told is None else time(r.told),
            bool(r.told_raised),
        )
        for r in rows
    }


__all__ = ["Outbox", "Standing", "Waiting"]
