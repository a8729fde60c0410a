"""One worker per study: whoever pulls, reports and pushes holds this lock.

The lock itself is held by the operating system (SQLite: a write lock on a small file beside the store) or by the server
(PostgreSQL: an advisory lock), so it ends with its process, however that ends. A token in the store is the second fence: a
worker that lost its lock without noticing cannot publish.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from calibrate_plugin.store import schema
from calibrate_plugin.store.database import Busy, Database, StoreError

POLL = 0.2  # seconds


class Worker:
    """The lock of one store object; ``token`` is set while it is held."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: int | None = None
        self.token: str | None = None

    @contextmanager
    def hold(self, wait: float, now: Callable[[], int]) -> Iterator[bool]:
        """Hold the lock; True where this is not inside another ``hold`` of the same thread.

        Raises Busy, which says who holds it, when it is not free within ``wait`` seconds.
        """
        if self._thread == threading.get_ident():
            yield False
            return
        release = self._acquire(wait)
        try:
            self.token = secrets.token_hex(16)
            self._thread = threading.get_ident()
            with self._database.write() as connection:
                connection.execute(sa.delete(schema.worker))
                connection.execute(
                    sa.insert(schema.worker),
                    {
                        "id": 1,
                        "token": self.token,
                        "holder": f"process {os.getpid()} on {socket.gethostname()}",
                        "since": now(),
                    },
                )
            yield True
        finally:
            self.token = self._thread = None
            release()

    def fence(self, connection: sa.Connection) -> None:
        """Raise Busy unless this worker is still the one; inside a transaction nobody can replace it until its end."""
        query = sa.select(schema.worker.c.token).where(schema.worker.c.id == 1).with_for_update(read=True)
        if self.token is None or connection.execute(query).scalar() != self.token:
            raise Busy("this worker lost its lock and another one has taken over; nothing more was changed here")

    def holder(self) -> str:
        """Who holds the lock or held it last."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(schema.worker.c.holder, schema.worker.c.since)).first()
        if row is None:
            return "another process"
        since = datetime.fromtimestamp(row.since / 1e6, UTC)
        return f"{row.holder}, since {since:%Y-%m-%d %H:%M:%S} UTC"

    def _acquire(self, wait: float) -> Callable[[], None]:
        deadline = time.monotonic() + wait
        attempt = self._sqlite if self._database.sqlite else self._postgresql
        while (release := attempt()) is None:
            if time.monotonic() >= deadline:
                raise Busy(f"{self._database.shown} is being worked on by {self.holder()}; wait for it or stop it")
            time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))
        return release

    def _sqlite(self) -> Callable[[], None] | None:
        path = f"{self._database.path}-worker"
        connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return None
            raise StoreError(f"the lock {path} cannot be taken: {error}") from None
        return connection.close

    def _postgresql(self) -> Callable[[], None] | None:
        connection = self._database.connection()
        # a database may hold several studies, each in a schema of its own
        key = "hashtext('calibrate-plugin worker'), hashtext(current_schema())"
        try:
            taken = connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({key})").scalar()
        except BaseException:
            connection.close()
            raise
        if not taken:
            connection.close()
            return None

        def release() -> None:
            # the server notices a closed connection only a moment later
            try:
                connection.exec_driver_sql(f"SELECT pg_advisory_unlock({key})")
            except sa.exc.DBAPIError:
                connection.invalidate()  # it is gone, and the lock with it
            connection.close()

        return release
