"""What makes the pseudonyms of a store its own, and what goes when a person is forgotten."""

from __future__ import annotations

import secrets
import zlib

import sqlalchemy as sa

from calibrate_plugin.store import Store, schema


def key_of(store: Store) -> str:
    """The store's key, made when it is first asked for. Who has the store can find out who a pseudonym is; who has only
    reports cannot."""
    t = schema.pseudonym_key
    query = sa.select(t.c.key).where(t.c.id == 1)
    with store._database.read() as connection:
        found = connection.execute(query).scalar()
    if found is None:
        with store._database.write() as connection:
            found = connection.execute(query).scalar()
            if found is None:
                found = secrets.token_bytes(32)
                connection.execute(sa.insert(t), {"id": 1, "key": found})
    return bytes(found).hex()


def replace_report(store: Store, id: int, body: bytes) -> None:
    """Put another text in the place of a kept report; on SQLite the old one is overwritten."""
    t = schema.reports
    with store._database.write() as connection:
        store._database.erase_for_good(connection)
        connection.execute(sa.update(t).where(t.c.id == id).values(body=zlib.compress(body)))


def empty_log(store: Store) -> None:
    """Let nothing of what was replaced stand in SQLite's log."""
    store._database.empty_log()


__all__ = ["empty_log", "key_of", "replace_report"]
