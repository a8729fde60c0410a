"""A pull that is disturbed in every way: after the next one the store is as if nothing had happened."""

from __future__ import annotations

import logging
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store_engines import administrator, forget_everything
from stored_facts import (
    EVERYTHING,
    ROUNDS,
    Given,
    GivenWithIdentity,
    label,
    ok,
    page,
    pull,
    said_by,
    state,
    story,
)

from calibrate_plugin.connector import ConnectorError, Covered, Held, Page, Scope, SettingsError, Since, Unavailable
from calibrate_plugin.store import Store, recording, schema
from calibrate_plugin.store.recording import BYTES, ROWS
from calibrate_plugin.sync import Progress, sync

# --- outcomes


def test_each_source_has_its_own_outcome_and_one_that_fails_stops_no_other(store: Store) -> None:
    good = page(label("1")), EVERYTHING
    outcomes = sync(
        store,
        {
            "gone": Given(Unavailable("https://a.example did not answer; try later")),
            "wrong": Given(SettingsError("sources.wrong.projects: there is no project 9")),
            "refused": Given(ConnectorError("the key was refused")),
            "held": Given(Held("project 12 cannot be read any more")),
            "good": Given(*good),
            "broken": Given(KeyError("secret-token")),
        },
    )
    assert [(o.source, o.outcome, o.retry) for o in outcomes] == [
        ("gone", "failed", True),
        ("wrong", "failed", False),
        ("refused", "failed", False),
        ("held", "held", False),
        ("good", "ok", False),
        ("broken", "failed", False),
    ]
    assert outcomes[0].message == "https://a.example did not answer; try later"
    assert outcomes[5].message == "broken: the connector stopped unexpectedly (KeyError); see the log"
    assert outcomes[4].number == store.latest() == 1
    assert [(s.source, s.outcome, s.message) for s in reversed(store.syncs())] == [
        (o.source, o.outcome, o.message) for o in outcomes
    ]


def test_a_connectors_bug_is_told_in_the_log_only(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        pull(store, ZeroDivisionError("division"))
    assert "the pull of people stopped unexpectedly" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_a_pull_brought_is_counted_and_written_down(store: Store) -> None:
    class Counting(Given):
        requests = 5
        platform = "Label Studio 1.23.2"

        def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
            for piece in super().pull(since):
                self.requests += 2
                yield piece

    rows = [label(str(n)) for n in range(6)]
    ok(store, page(*rows), EVERYTHING)
    source = Counting(page(*rows[2:], rows[2], label("new"), label("5", value='"Fail"')), EVERYTHING)
    source.pieces = (
        page(*rows[2:5], rows[2], label("5", value='"Fail"'), label("new"), aside=[{"record": "x"}]),
        EVERYTHING,
    )
    (outcome,) = sync(store, {"people": source})
    kept = store.syncs(1)[0]
    for found in (outcome, kept):
        counts = found.seen, found.added, found.changed, found.retired, found.duplicates, found.quarantined
        assert counts == (6, 1, 1, 2, 1, 1)
        assert (found.requests, found.outcome, found.mode) == (4, "ok", "incremental")
    assert (kept.server, kept.cursor) == ("Label Studio 1.23.2", "all")
    assert kept.finished is not None
    assert kept.finished > kept.started
    assert outcome.seconds > 0


def test_progress_is_told_after_every_piece(store: Store) -> None:
    told: list[Progress] = []
    sync(store, {"people": Given(page(label("1")), page(label("2")), EVERYTHING)}, progress=told.append)
    assert told == [Progress("people", 1, None), Progress("people", 2, None), Progress("people", 2, None)]


def test_a_source_is_told_what_its_last_published_pull_left_behind(store: Store) -> None:
    first, second, third = (Given(page(label("1")), EVERYTHING) for _ in range(3))
    known: list[int] = []
    second.pieces = (lambda since: known.append(since.known(Scope()).height), Covered(Scope(jobs=("12",)), None))
    sync(store, {"people": first})
    sync(store, {"people": second}, accept_deletions=True)
    sync(store, {"people": third}, full=True)
    assert [(g.since and g.since.cursor, g.since and g.since.full) for g in (first, second, third)] == [
        (None, False),
        ("all", False),
        ("all", True),
    ]
    assert known == [1]
    assert [s.mode for s in reversed(store.syncs())] == ["full", "incremental", "full"]


def test_a_cursor_counts_only_once_its_scope_is_published(store: Store) -> None:
    pull(
        store,
        page(label("1")),
        Covered(Scope(jobs=("12",)), "first"),
        page(label("2", job="13")),
        Unavailable("cut"),
        Covered(Scope(jobs=("13",)), "second"),
    )
    assert store.source("people") == (None, "first")
    assert state(store, None, "record") == [("1",)]
    ok(store, Covered(Scope(jobs=(), tasks=()), "third"))
    assert store.source("people") == (None, "third")
    assert store.latest() == 1


def test_a_pull_that_stops_lets_go_of_its_source(store: Store) -> None:
    source = Given(page(label("1", kind="nobody")), EVERYTHING)
    sync(store, {"people": source})
    assert source.closed


def test_an_interrupt_reaches_the_caller_and_leaves_the_last_good_state(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)

    def interrupted(_: Since) -> None:
        raise KeyboardInterrupt

    source = Given(page(label("2")), interrupted, EVERYTHING)
    with pytest.raises(KeyboardInterrupt):
        sync(store, {"people": source})
    assert source.closed
    assert state(store) == said_by([label("1")])
    ok(store, page(label("1"), label("3")), EVERYTHING)
    assert state(store) == said_by([label("1"), label("3")])
    assert [s.outcome for s in store.syncs()] == ["ok", "failed", "ok"]
    assert store.syncs()[1].message.startswith("interrupted; what it had published stays")


# --- whose labels are these


def test_another_place_under_the_same_name_is_held_and_nothing_ends(store: Store) -> None:
    rows = [label(str(n)) for n in range(3)]
    sync(store, {"people": GivenWithIdentity("Label Studio A", page(*rows), EVERYTHING)})
    other = GivenWithIdentity("Label Studio B", EVERYTHING)
    for accept in (False, True):
        (outcome,) = sync(store, {"people": other}, accept_deletions=accept)
        assert outcome.outcome == "held"
        assert "until now this source was Label Studio A, and now it is Label Studio B" in outcome.message
        assert other.since is None  # it was not even asked
    assert state(store) == said_by(rows)
    (outcome,) = sync(store, {"people": GivenWithIdentity("Label Studio A", page(*rows), EVERYTHING)})
    assert outcome.outcome == "ok"


def test_an_identity_counts_only_once_something_of_it_was_published(store: Store) -> None:
    sync(store, {"people": GivenWithIdentity("A", page(label("1")), Unavailable("cut"))})
    assert store.source("people") == (None, None)
    sync(store, {"people": GivenWithIdentity("B", page(label("1")), EVERYTHING)})
    assert store.source("people") == ("B", "all")


def test_a_place_that_cannot_prove_itself_is_not_pulled(store: Store) -> None:
    source = GivenWithIdentity(Unavailable("no answer"), EVERYTHING)
    (outcome,) = sync(store, {"people": source})
    assert (outcome.outcome, outcome.retry, source.since) == ("failed", True, None)


# --- disturbed at every point


def everything(store: Store) -> list[Any]:
    """All that a store knows now, apart from numbers and times of syncs."""
    live = store.as_of().drop("label", "at")
    return [
        sorted(live.rows(), key=repr),
        store.item_facts().rows(),
        sorted(store.aside().rows()),
        store.names(),
        [store.source(name) for name in ("people",)],
    ]


def undisturbed(where: Path, rounds: int = ROUNDS) -> list[Any]:
    with Store(where) as store:
        for round in range(rounds):
            ok(store, *story(round), full=True)
        return everything(store)


def test_a_pull_that_breaks_after_any_piece_changes_nothing_in_the_end(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "INDEXED", 5)
    expected = undisturbed(tmp_path / "undisturbed.db")
    for round in range(ROUNDS):
        pieces = story(round)
        for n in range(len(pieces) + 1):
            covered = sum(isinstance(piece, Covered) for piece in pieces[:n])
            before = state(store)
            outcome = pull(store, *pieces[:n], RuntimeError("a bug") if n % 2 else Unavailable("cut"), full=True)
            assert outcome.outcome == "failed"
            if not covered:
                assert state(store) == before
        ok(store, *pieces, full=True)
        with store._database.read() as connection:
            newest = store.latest()
            for table in (schema.labels, schema.retirements, schema.item_facts, schema.names, schema.aside):
                query = sa.select(sa.func.count()).select_from(table).where(table.c.number > newest)
                assert connection.execute(query).scalar() == 0, table.name
            found, kept = (
                connection.execute(sa.select(*columns)).all()
                for columns in (
                    (schema.identities.c.label, schema.identities.c.identity),
                    (schema.labels.c.id, schema.labels.c.identity),
                )
            )
            assert sorted(map(tuple, found)) == sorted(map(tuple, kept))
    assert everything(store) == expected


CHILD = """
import sys, time, random
sys.path.insert(0, sys.argv[2])
from stored_facts import Given, story
from calibrate_plugin.store import Store, recording
from calibrate_plugin.sync import sync

pause = float(sys.argv[4])
recording.INDEXED = 5

class Slow(Given):
    def pull(self, since=None):
        for piece in super().pull(since):
            time.sleep(pause)
            yield piece

with Store(sys.argv[1]) as store:
    print("open", flush=True)
    with store.work(wait=60):
        (outcome,) = sync(store, {"people": Slow(*story(int(sys.argv[3])))}, full=True)
    print(outcome.outcome, flush=True)
"""


def child(where: str, round: int, pause: float, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, where, str(Path(__file__).parent), str(round), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_pull_that_is_killed_at_any_moment_changes_nothing_in_the_end(where: str, tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed.db")
    chance = random.Random(7)
    interrupted = 0
    for round in range(ROUNDS):
        for _ in range(1 if "://" in where else 3):
            victim = child(where, round, 0.02)
            assert victim.stdout is not None
            assert victim.stdout.readline().strip() == "open", victim.stderr and victim.stderr.read()
            time.sleep(chance.uniform(0, 0.35))
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            interrupted += victim.returncode == -signal.SIGKILL
        with Store(where) as store, store.work(wait=30):
            ok(store, *story(round), full=True)
    assert interrupted
    with Store(where) as store:
        assert everything(store) == expected
        outcomes = {s.outcome for s in store.syncs()}
        assert "running" not in outcomes
    if "://" not in where:
        connection = sqlite3.connect(where)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_two_processes_on_one_store_take_turns_and_lose_nothing(where: str, tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed.db", rounds=2)
    with Store(where) as store:
        for round in range(2):
            together = [child(where, round, 0.0), child(where, round, 0.0)]
            hints = 0
            while any(one.poll() is None for one in together):
                hints += 1
                store.hint("people", str(hints))
                time.sleep(0.01)
            for one in together:
                out, err = one.communicate()
                assert out.split() == ["open", "ok"], err
        assert everything(store) == expected
        assert [h.job for h in store.hints()] != []
        assert len({h.id for h in store.hints()}) == len(store.hints())
        assert len(store.syncs()) == 4


def test_a_database_that_drops_every_connection_in_the_middle_loses_nothing(
    postgresql_template: str, postgresql: sa.URL
) -> None:
    def dropped(_: Since) -> None:
        with administrator(postgresql) as connection:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'"
            assert len(connection.exec_driver_sql(others).all()) >= 2  # the lock's and the pool's

    rows = [label(str(n)) for n in range(3)]
    forget_everything(postgresql_template)
    with Store(postgresql_template) as store:
        pull(store, page(*rows[:2]), dropped, page(rows[2]), EVERYTHING)
        ok(store, page(*rows), EVERYTHING)
        assert state(store) == said_by(rows)
        assert "running" not in {s.outcome for s in store.syncs()}


# --- a full disk


def test_a_full_disk_fails_the_pull_plainly_and_the_next_one_goes_on(tmp_path: Path) -> None:
    where = tmp_path / "calibrate.db"
    rows = [label(str(n), value=f'"{n:01000}"') for n in range(3000)]
    with Store(where) as store:
        ok(store, page(*rows[:10]), EVERYTHING)
        before = state(store)
        limited(store, pages=200)
        outcome = pull(store, page(*rows), EVERYTHING)
        assert outcome.outcome == "failed"
        assert outcome.retry
        assert outcome.message == (
            f"{where} cannot be written: database or disk is full. What was published before stays; "
            "mend it (is the disk full?) and run again"
        )
        assert state(store) == before
        limited(store, pages=1_000_000)
        ok(store, page(*rows), EVERYTHING)
        assert state(store) == said_by(rows)


def limited(store: Store, pages: int) -> None:
    """Let SQLite find no more room than this for its file."""
    for engine in (store._database._engine, store._database._quick):
        engine.dispose()
        sa.event.listen(engine, "connect", lambda raw, _, pages=pages: raw.execute(f"PRAGMA max_page_count={pages}"))


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from stored_facts import EVERYTHING, label, page, pull
from calibrate_plugin.store import Store

with Store(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    rows = [label(str(n), value=f'"{n:01000}"') for n in range(3000)]
    outcome = pull(store, page(*rows), EVERYTHING)
    print(outcome.outcome, outcome.message)
"""


def test_a_file_that_cannot_grow_fails_the_pull_plainly_and_the_next_one_goes_on(tmp_path: Path) -> None:
    where = tmp_path / "calibrate.db"
    with Store(where) as store:
        ok(store, page(label("0", value='"x"')), EVERYTHING)
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(where), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"failed {where} cannot be written: disk I/O error."), run.stdout + run.stderr
    rows = [label(str(n), value=f'"{n:01000}"') for n in range(3000)]
    with Store(where) as store:
        assert state(store, None, "record", "value") == [("0", '"x"')]
        ok(store, page(*rows), EVERYTHING)
        assert len(state(store)) == 3000
        assert [s.outcome for s in store.syncs()] == ["ok", "failed", "ok"]


def test_a_store_that_cannot_be_written_asks_no_platform(tmp_path: Path) -> None:
    with Store(tmp_path / "calibrate.db") as store:
        ok(store, page(label("1")), EVERYTHING)
        with store.work():
            for engine in (store._database._engine, store._database._quick):
                engine.dispose()
                sa.event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA query_only=ON"))
            source = Given(page(label("2")), EVERYTHING)
            (outcome,) = sync(store, {"people": source})
        assert (outcome.outcome, outcome.mode, source.since) == ("failed", None, None)
        assert "attempt to write a readonly database" in outcome.message


# --- nobody waits long


def test_no_transaction_holds_up_a_webhook_for_more_than_a_few_hundred_rows(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time itself is measured by tests/benchmarks/store_speed.py; this holds what it depends on."""
    rows = [label(str(n), item=f"i{n // 2}", reason="x" * 200) for n in range(3 * ROWS)]
    large = [label(f"large {n}", value='"' + "x" * (BYTES // 3) + '"') for n in range(8)]
    written: list[int] = []
    texts: list[int] = []
    with Store(where) as store:
        insert = store._database.insert

        def counted(connection: Any, table: sa.Table, columns: tuple[str, ...], given: Any) -> None:
            texts.append(sum(len(v) for row in given for v in row if isinstance(v, str)))
            written.append(len(given) // (2 if table is schema.identities else 1))  # these lie side by side
            insert(connection, table, columns, given)

        monkeypatch.setattr(store._database, "insert", counted)
        facts = [(f"i{n}", "day", "1") for n in range(3 * ROWS)]
        aside = [{"record": str(n)} for n in range(3 * ROWS)]
        names = {f"r{n}": f"R {n}" for n in range(3 * ROWS)}
        ok(store, page(*rows, *large, facts=facts, aside=aside, names=names), EVERYTHING)
        ok(store, page(*rows[:1]), EVERYTHING, accept_deletions=True, full=True)
        deletes: list[int] = []

        @sa.event.listens_for(store._database._engine, "after_cursor_execute")
        def _(_c: Any, cursor: Any, statement: str, *_rest: Any) -> None:
            if statement.split()[0] in ("DELETE", "UPDATE"):
                deletes.append(cursor.rowcount)

        pull(store, page(*rows, *large, facts=[(*f[:2], "2") for f in facts], aside=aside), Unavailable("cut"))
    assert max(written) == ROWS
    assert max(texts) <= BYTES + 1000
    assert sum(deletes) > 3 * ROWS
    assert max(deletes) <= ROWS


def test_hints_get_in_while_a_pull_is_being_written(where: str) -> None:
    busy = child(where, 0, 0.01)
    assert busy.stdout is not None
    busy.stdout.readline()
    waits = []
    with Store(where) as store:
        while busy.poll() is None:
            begun = time.perf_counter()
            store.hint("people")
            waits.append(time.perf_counter() - begun)
            time.sleep(0.005)
        assert len(store.hints()) == len(waits)
    out, err = busy.communicate()
    assert out.strip() == "ok", err
    assert max(waits) < 5


def test_no_transaction_is_open_while_a_source_is_asked(store: Store) -> None:
    """A platform may take minutes to answer; nobody may have to wait for that."""
    database = store._database

    def idle(_: Since) -> None:
        assert database._engine.pool.checkedout() == 0  # type: ignore[attr-defined]

    outcome = ok(store, idle, page(label("1")), idle, EVERYTHING, idle, page(label("2")), idle)
    assert outcome.added == 2
