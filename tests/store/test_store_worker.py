"""One worker per study, whatever happens to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import sqlalchemy as sa
from stored_facts import EVERYTHING, Given, label, ok, page, state

from calibrate_plugin.store import Busy, Store, schema
from calibrate_plugin.sync import sync

HOLD = """
import sys, time
from calibrate_plugin.store import Store
with Store(sys.argv[1]) as store, store.work():
    print("held", flush=True)
    time.sleep(60)
"""


def holder(where: str) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, where], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "held"
    return child


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_a_second_process_is_told_who_works(store: Store, where: str) -> None:
    child = holder(where)
    try:
        with pytest.raises(Busy, match=f"is being worked on by process {child.pid} on {socket.gethostname()}, since 2"):
            sync(store, {"people": Given(page(label("1")), EVERYTHING)})
        assert store.latest() == 0
        store.hint("people")  # others may still write what is theirs
        assert len(store.hints()) == 1
    finally:
        kill(child)


def test_a_worker_that_was_killed_holds_nothing(store: Store, where: str) -> None:
    kill(holder(where))
    with store.work(wait=10):  # a server notices the end of its client a moment later
        ok(store, page(label("1")), EVERYTHING)


def test_a_second_worker_may_wait_for_the_first(store: Store, where: str) -> None:
    with Store(where) as other:
        got: list[float] = []

        def second() -> None:
            with other.work(wait=30):
                got.append(time.monotonic())

        with store.work():
            thread = threading.Thread(target=second)
            thread.start()
            time.sleep(0.3)
            assert not got
            released = time.monotonic()
        thread.join()
        assert got[0] >= released


def test_a_second_thread_on_the_same_store_is_another_worker(store: Store) -> None:
    refused: list[BaseException] = []

    def second() -> None:
        try:
            with store.work():
                pass
        except Busy as error:
            refused.append(error)

    with store.work():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert str(os.getpid()) in str(refused[0])


def test_a_worker_may_begin_work_inside_its_work(store: Store) -> None:
    with store.work(), store.work():
        ok(store, page(label("1")), EVERYTHING)
    with store.work():
        pass


def test_two_studies_do_not_wait_for_each_other(
    where: str, postgresql: sa.URL, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if where.startswith("postgresql"):
        engine = sa.create_engine(postgresql, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS another")
        engine.dispose()
        another = postgresql.update_query_dict({"options": "-csearch_path=another"}).render_as_string(False)
    else:
        another = str(tmp_path_factory.mktemp("another") / "calibrate.db")
    with Store(where) as one, Store(another) as two, one.work(), two.work():
        ok(one, page(label("1")), EVERYTHING)
        ok(two, page(label("2")), EVERYTHING)
        assert state(one, None, "record") == [("1",)]
        assert state(two, None, "record") == [("2",)]


def test_a_worker_that_lost_its_lock_unnoticed_cannot_publish(store: Store, where: str) -> None:
    """As when a server is cut off for a while: it gives the lock away and the first worker goes on."""

    def taken_over(_: object) -> None:
        with Store(where) as other, other._database.write() as connection:
            connection.execute(sa.update(schema.worker).values(token="another"))

    with pytest.raises(Busy, match="another one has taken over"):
        sync(store, {"people": Given(page(label("1")), taken_over, EVERYTHING)})
    assert store.latest() == 0
    with pytest.raises(Busy, match="another one has taken over"):
        sync(store, {"people": Given(taken_over, page(label("1")), EVERYTHING)})
    ok(store, page(label("2")), EVERYTHING)
    assert state(store, None, "record") == [("2",)]
