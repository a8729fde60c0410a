"""Settings, reports, pushes and hints."""

from __future__ import annotations

import threading
import time

import pytest
from stored_facts import EVERYTHING, Clock, label, ok, page

from calibrate_plugin.connector import Pushed, Write
from calibrate_plugin.store import Store, StoreError


def test_a_state_of_the_settings_is_kept_once_while_it_holds(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)
    first = store.keep_settings({"b": [1, "é\ud800"], "a": {"y": None, "x": 1.5}})
    assert store.keep_settings({"a": {"x": 1.5, "y": None}, "b": [1, "é\ud800"]}) == first
    ok(store, page(label("2")))
    second = store.keep_settings({"a": 2})
    third = store.keep_settings(first.state)
    assert (first.number, second.number, third.number) == (1, 2, 2)
    assert first.digest == third.digest != second.digest
    assert store.settings_states() == [first, second, third]
    assert store.settings(second.id).state == {"a": 2}
    with pytest.raises(StoreError, match="has no settings 99"):
        store.settings(99)


def test_a_report_comes_back_byte_for_byte(store: Store, clock: Clock) -> None:
    ok(store, page(label("1")), EVERYTHING)
    settings = store.keep_settings({}).id
    bodies = [b'{"a": 1}\n', bytes(range(256)) * 1000]
    ids = [store.keep_report(body, settings) for body in bodies]
    assert [store.report(i) for i in ids] == bodies
    kept = store.reports()
    assert [(r.id, r.number, r.settings) for r in kept] == [(ids[1], 1, settings), (ids[0], 1, settings)]
    assert kept[0].at == clock.time
    assert len(store.reports(1)) == 1
    with pytest.raises(StoreError, match="has no report 99"):
        store.report(99)


def write(target: str, digest: str, outcome: str) -> Write:
    return Write(target, digest, outcome)


def test_what_was_written_to_a_platform_is_known_until_it_is_removed(store: Store) -> None:
    store.keep_push(
        "judges",
        Pushed(
            (
                write("a", "1", "written"),
                write("b", "1", "pending"),
                write("c", "1", "refused"),
                write("d", "1", "planned"),
                write("e", "1", "unchanged"),
            )
        ),
    )
    assert store.written("judges") == {"a": "1", "b": "1", "e": "1"}
    store.keep_push("judges", Pushed((write("a", "2", "refused"), write("b", "2", "written"))))
    assert store.written("judges") == {"a": "1", "b": "2", "e": "1"}
    assert store.written("people") == {}
    store.keep_unpush(
        "judges", Pushed((write("a", "", "written"), write("b", "", "refused"), write("e", "", "unchanged")))
    )
    assert store.written("judges") == {"b": "2"}


def test_a_write_that_is_found_later_is_verified_then_and_unchanged_ones_are_not_written_down_again(
    store: Store,
) -> None:
    store.keep_push("judges", Pushed((write("a", "1", "pending"), write("b", "1", "written"))))
    verified = {target: when for target, (_, _, when) in store._written("judges").items()}
    assert verified["a"] is None
    assert verified["b"] is not None
    for _ in range(2):
        store.keep_push("judges", Pushed((write("a", "1", "unchanged"), write("b", "1", "unchanged"))))
    rows = store._written("judges")
    assert rows["a"][2] is not None
    assert {row[0] for row in rows.values()} == {1, 2}


def test_hints_wait_until_they_are_done(store: Store, clock: Clock) -> None:
    ids = [store.hint("people", "12"), store.hint("people"), store.hint("judges", "a\x00\ud800")]
    first, second, third = store.hints()
    assert [first.id, second.id, third.id] == ids
    assert (first.source, first.job, second.job, third.job) == ("people", "12", None, "a�?")
    assert first.received < second.received < third.received == clock.time
    store.done([first, third])
    assert store.hints() == [second]
    store.done([])


def test_hints_of_many_threads_are_all_kept(store: Store) -> None:
    threads = [threading.Thread(target=lambda: [store.hint("people", str(n)) for n in range(25)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.hints()) == 200


def test_a_reader_does_not_hold_up_a_hint(store: Store) -> None:
    ok(store, page(*(label(str(n)) for n in range(100))), EVERYTHING)
    with store._database.read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM labels").all()
        begun = time.monotonic()
        store.hint("people")
        assert time.monotonic() - begun < 5
