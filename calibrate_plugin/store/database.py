"""Opening a store: one SQLite file or a PostgreSQL database, the tables brought up to date, and its two kinds of transaction."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from calibrate_plugin.store import schema

PATIENCE = 30.0  # seconds that a writer waits for another one
POLL = 0.0002  # seconds between two tries; SQLite's own waiting sleeps up to 100 ms and would miss the gaps
GAP = 0.001  # seconds that whoever writes much leaves to the others between two transactions


class StoreError(Exception):
    """The store cannot be used as asked. The message names the thing, the value and the way out."""


class Busy(StoreError):
    """Another process or thread works on this study, or has taken over from this one."""


class Database:
    """An engine per kind of work, and the transactions on it.

    No transaction may be open while anything else is waited for: a platform, a user, another process.
    """

    def __init__(self, where: str | Path) -> None:
        self.url = _url(where)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._inserts: dict[tuple[str, tuple[str, ...]], tuple[str, list[int]]] = {}
        if self.sqlite:
            self.path = Path(str(self.url.database))
            self._engine = _sqlite(self.url, checkpoint_pages=2000)
            # Whoever commits past the limit copies the log into the file; that must never be a webhook.
            self._quick = _sqlite(self.url, checkpoint_pages=0)
        else:
            self._engine = self._quick = sa.create_engine(
                self.url, hide_parameters=True, pool_pre_ping=True, max_overflow=20
            )
        try:
            _migrate(self._engine, self.shown)
        except sa.exc.DBAPIError as error:
            self.close()
            raise StoreError(f"{self.shown} cannot be opened as a store: {said(error)}") from None
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The store's place as a message may say it: without a password."""
        return str(self.path) if self.sqlite else self.url.set(drivername="postgresql", query={}).render_as_string()

    def close(self) -> None:
        self._engine.dispose()
        if self._quick is not self._engine:
            self._quick.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, *, quick: bool = False) -> Iterator[sa.Connection]:
        """A transaction that may write; on SQLite it waits for its turn up to ``PATIENCE`` seconds.

        ``quick``: for one row on behalf of somebody who waits; leaves the housekeeping to the others.
        """
        with (self._quick if quick else self._engine).connect() as connection:
            connection = connection.execution_options(calibrate_writes=True)
            with connection.begin():
                yield connection

    def give_way(self) -> None:
        """Between two of many transactions: let those in who wait to write one row."""
        if self.sqlite:
            time.sleep(GAP)

    def insert(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert many rows, whose values stand in the order of ``columns``.

        The statement is compiled once and takes the rows as they are: whatever is done to them here others wait for.
        """
        key = (table.name, columns)
        if key not in self._inserts:
            dialect: Any = self._engine.dialect
            if not self.sqlite:
                dialect = type(dialect)(paramstyle="format")
            compiled = sa.insert(table).compile(dialect=dialect, column_keys=list(columns))
            positions = compiled.positiontup or []
            self._inserts[key] = str(compiled), [columns.index(c) for c in positions]
        statement, order = self._inserts[key]
        if order != list(range(len(columns))):
            rows = [tuple(row[i] for i in order) for row in rows]
        if rows:
            connection.exec_driver_sql(statement, list(rows))

    def connection(self) -> sa.Connection:
        """A connection outside the pool's care, each statement its own transaction; for a lock that lasts."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
        return connection

    def erase_for_good(self, connection: sa.Connection) -> None:
        """What this transaction deletes is overwritten on SQLite; PostgreSQL drops it at its next vacuum."""
        if self.sqlite:
            _raw(connection).execute("PRAGMA secure_delete=ON")

    def empty_log(self) -> None:
        """Leave no copy of what was deleted in SQLite's log."""
        if self.sqlite:
            with self._engine.connect() as connection:
                _raw(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)")


def said(error: BaseException) -> str:
    """What the database said, without the statement and its values."""
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split()) or type(original).__name__


def _url(where: str | Path) -> sa.URL:
    text = str(where)
    if isinstance(where, Path) or "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # the text may hold a password, so it is not repeated
        raise StoreError(
            "the store's url cannot be read; give a file name or postgresql://user@host/database"
        ) from None
    if url.get_backend_name() in ("postgresql", "postgres"):
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise StoreError("a store on PostgreSQL needs psycopg: pip install 'calibrate-plugin[postgres]'") from None
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        return sa.URL.create("sqlite", database=url.database)
    raise StoreError(f"a store is a SQLite file or a PostgreSQL url, not {url.drivername}://")


def _raw(connection: sa.Connection) -> Any:
    return connection.connection.driver_connection


def _sqlite(url: sa.URL, *, checkpoint_pages: int) -> sa.Engine:
    folder = Path(str(url.database)).parent
    if not folder.is_dir():
        raise StoreError(f"the folder {folder} of the store {url.database} does not exist")
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        max_overflow=20,
        connect_args={"isolation_level": None, "timeout": PATIENCE, "check_same_thread": False},
    )

    @sa.event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: object) -> None:
        # NORMAL outlives every kill of a process. A power cut may take the last commits, which the next poll brings back.
        for pragma in (
            "synchronous=NORMAL",
            f"wal_autocheckpoint={checkpoint_pages}",
            "cache_size=-32000",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _(connection: sa.Connection) -> None:
        raw = _raw(connection)
        if not connection.get_execution_options().get("calibrate_writes"):
            raw.execute("BEGIN")
            return
        deadline = time.monotonic() + PATIENCE
        raw.execute("PRAGMA busy_timeout=0")
        try:
            while True:
                try:
                    raw.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                        raise StoreError(f"{url.database} cannot be written: {error}") from None
                    if time.monotonic() > deadline:
                        raise Busy(
                            f"another program has been writing to {url.database} for {PATIENCE:g} s without a pause"
                        ) from None
                time.sleep(POLL)
        finally:
            raw.execute(f"PRAGMA busy_timeout={int(PATIENCE * 1000)}")

    return engine


def _migrate(engine: sa.Engine, shown: str) -> None:
    """Bring the tables up to date, once, however many processes open the store at the same moment."""
    if engine.dialect.name == "sqlite":
        _use_log(engine)
    if _version(engine) == schema.HEAD:
        return
    with engine.connect() as connection:
        connection = connection.execution_options(calibrate_writes=True)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('calibrate-plugin migrate'))")
            _upgrade(connection, shown)


def _use_log(engine: sa.Engine) -> None:
    """Write-ahead logging, which the file remembers. The switch needs the file for a moment, and SQLite does not wait for it."""
    deadline = time.monotonic() + PATIENCE
    with engine.connect() as connection:
        raw = _raw(connection)
        while True:
            try:
                if raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                    return
                raw.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise StoreError(f"{engine.url.database} cannot be opened as a store: {error}") from None
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise StoreError(f"{engine.url.database} cannot be opened as a store: {error}") from None


def _version(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table(schema.VERSION_TABLE):
            return None
        return connection.exec_driver_sql(f"SELECT version_num FROM {schema.VERSION_TABLE}").scalar()  # noqa: S608


def _upgrade(connection: sa.Connection, shown: str) -> None:
    # imported late: a store that is up to date never needs it
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", os.fspath(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    inspector = sa.inspect(connection)
    if inspector.has_table(schema.VERSION_TABLE):
        found = connection.exec_driver_sql(f"SELECT version_num FROM {schema.VERSION_TABLE}").scalar()  # noqa: S608
        try:
            ScriptDirectory.from_config(config).get_revision(str(found))
        except CommandError:
            raise StoreError(
                f"{shown} was written by a newer calibrate-plugin (schema {found}; this one knows up to {schema.HEAD}); "
                "upgrade the package, or use another store"
            ) from None
    elif foreign := sorted(set(inspector.get_table_names()) & set(schema.metadata.tables)):
        raise StoreError(
            f"{shown} has tables of another program that a store would need: {', '.join(foreign)}; "
            "give the store a file, database or schema of its own"
        )
    command.upgrade(config, "head")
