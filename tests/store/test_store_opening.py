"""Opening a store: its tables, their migration, and what is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from stored_facts import EVERYTHING, label, ok, page, state

import calibrate_plugin.store
from calibrate_plugin.store import Store, StoreError, schema


def engine_of(where: str) -> sa.Engine:
    return sa.create_engine(where if "://" in where else f"sqlite:///{where}")


def test_migrations_make_the_tables_that_the_code_speaks_of(empty: str) -> None:
    Store(empty).close()
    engine = engine_of(empty)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": schema.VERSION_TABLE, "compare_type": True, "compare_server_default": True},
        )
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.HEAD
    engine.dispose()


def test_the_newest_migration_is_the_one_that_the_code_knows() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(calibrate_plugin.store.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


def test_a_store_that_is_opened_again_still_knows_everything(empty: str) -> None:
    with Store(empty) as store:
        ok(store, page(label("1")), EVERYTHING)
        before = state(store)
    with Store(empty) as store:
        assert state(store) == before


def test_opening_a_store_that_is_up_to_date_does_not_import_alembic(tmp_path: Path) -> None:
    where = str(tmp_path / "calibrate.db")
    Store(where).close()
    code = "import sys; from calibrate_plugin.store import Store; Store(sys.argv[1]).close(); sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, where], check=False).returncode == 0


def test_several_processes_may_open_a_new_store_at_once(empty: str) -> None:
    code = "import sys; from calibrate_plugin.store import Store; Store(sys.argv[1]).close()"
    together = [
        subprocess.Popen([sys.executable, "-c", code, empty], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    ended = [(child.communicate()[1], child.returncode) for child in together]
    assert [status for _, status in ended] == [0] * 3, ended
    with Store(empty) as store:
        assert store.latest() == 0


def test_a_store_of_a_newer_package_is_refused_and_left_alone(empty: str) -> None:
    Store(empty).close()
    engine = engine_of(empty)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {schema.VERSION_TABLE} SET version_num = '0999'")
    with pytest.raises(
        StoreError, match=r"was written by a newer calibrate-plugin \(schema 0999; this one knows up to"
    ):
        Store(empty)
    with engine.connect() as connection:
        assert connection.exec_driver_sql(f"SELECT version_num FROM {schema.VERSION_TABLE}").scalar() == "0999"
    engine.dispose()


def test_tables_of_another_program_are_left_alone(empty: str) -> None:
    engine = engine_of(empty)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE labels (mine INTEGER)")
    with pytest.raises(
        StoreError, match="has tables of another program that a store would need: labels; give the store"
    ):
        Store(empty)
    assert sa.inspect(engine).get_table_names() == ["labels"]
    engine.dispose()


def test_a_migration_that_breaks_leaves_nothing_behind(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = command.upgrade

    def broken(*arguments: object) -> None:
        upgrade(*arguments)  # type: ignore[arg-type]
        raise RuntimeError("the power went out")

    monkeypatch.setattr(command, "upgrade", broken)
    with pytest.raises(RuntimeError, match="the power went out"):
        Store(empty)
    engine = engine_of(empty)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
    monkeypatch.undo()
    Store(empty).close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("item,dimension,rater,value\n" * 100)
    with pytest.raises(StoreError, match=r"labels\.csv cannot be opened as a store: file is not a database"):
        Store(file)
    assert file.read_text().startswith("item,")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the folder .*nowhere of the store .* does not exist"):
        Store(tmp_path / "nowhere" / "calibrate.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "calibrate.db").touch(0o444)
    tmp_path.chmod(0o555)
    with pytest.raises(StoreError, match=r"calibrate\.db cannot be opened"):
        Store(tmp_path / "calibrate.db")


def test_a_path_may_hold_any_letters(tmp_path: Path) -> None:
    folder = tmp_path / "50% done? #1"
    folder.mkdir()
    for where in (folder / "calibrate.db", str(folder / "second.db")):
        with Store(where) as store:
            ok(store, page(label("1")), EVERYTHING)
    assert {"calibrate.db", "second.db"} <= {f.name for f in folder.iterdir()}


def test_other_databases_are_refused() -> None:
    for url in ("mysql://host/db", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(StoreError, match="a store is a SQLite file or a PostgreSQL url"):
            Store(url)


def test_a_password_is_never_repeated() -> None:
    for url in ("postgresql://ann:hunter2@127.0.0.1:1/study", "postgresql://ann:hunter2@127.0.0.1:port/study"):
        with pytest.raises(StoreError) as caught:
            Store(url)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_sqlite_is_opened_so_that_readers_and_a_webhook_get_in(tmp_path: Path) -> None:
    Store(tmp_path / "calibrate.db").close()
    connection = sqlite3.connect(tmp_path / "calibrate.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_what_identifies_a_label_and_its_content_never_changes(empty: str) -> None:
    """Stored fingerprints are compared with new ones: made in another way, every label would look edited."""
    whole = label("r", seq=1, confidence=0.5, blind=True, reason="é", version="v1", run="r1", sample="1", order="ab")
    rows = [{**whole, "execution": "e", "link": "https://example.com"}, label(None, value=None)]
    with Store(empty) as store:
        ok(store, page(*rows), EVERYTHING)
        with store._database.read() as connection:
            t = schema.identities
            found = connection.execute(sa.select(t.c.identity, t.c.digest).order_by(t.c.label)).all()
            keys = connection.execute(
                sa.select(schema.places.c.key, schema.places.c.rest).order_by(schema.places.c.id)
            ).all()
    assert [(identity.hex(), digest.hex()) for identity, digest in found] == [
        ("abbffe229839b5cb5c220f8f9563b94b", "052aac637668af418d9455586ae087a1"),
        ("a6c720064e9146d26c2e3f2efa6524b4", "7003e21a659cd1cf9c669104ebbdc830"),
    ]
    assert [tuple(key) for key in keys] == [
        (8946133975386828133, -2071114980157143419),
        (7731479181480898944, -2331808339495779215),
    ]
