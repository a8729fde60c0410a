"""The checks of the connector contract."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrate_plugin.connector import Covered, Page, Scope, Sink
from calibrate_plugin.model import ASIDE, ITEMS, KINDS, LABELS, RETIRED, STATES
from calibrate_plugin.store import Store
from calibrate_plugin.sync import SyncOutcome, sync
from calibrate_plugin.testing.driver import Driver

NAME = "contract"
#: More attempts than any sync needs requests.
MOST_FAILURES = 60
UNUSUAL = (
    "naïve — ünïcode ✓",
    "日本語",
    "👩‍⚖️ judge",
    "‏שלום",
    "a,b;c\"d'e",
    "=1+1",
    "<b>&amp;</b>",
    "[/red]",
    "  padded  ",
)

State = Counter[tuple[str | None, str | None, str | None, str | None]]


class ConnectorContract:
    """Subclass it in a test file and give it a fixture ``driver``."""

    @pytest.fixture
    def driver(self) -> Driver:
        raise NotImplementedError("give the class a fixture `driver` that yields a calibrate_plugin.testing.Driver")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with Store(tmp_path / "contract.db") as store:
            yield store

    # --- shapes

    def test_pages_have_the_columns_of_the_common_model(self, driver: Driver) -> None:
        driver.answer("item-1", "ann", "yes")
        driver.settle()
        pages = [p for p in driver.source().pull(None) if isinstance(p, Page)]
        assert sum(p.labels.height for p in pages) == 1
        for page in pages:
            assert dict(page.labels.schema) == dict(LABELS)
            assert dict(page.items.schema) == dict(ITEMS)
            assert dict(page.aside.schema) == dict(ASIDE)
            assert set(page.labels["kind"].to_list()) <= set(KINDS)
            assert set(page.labels["state"].to_list()) <= set(STATES)
            assert set(page.labels["retired"].drop_nulls().to_list()) <= set(RETIRED)
            for value in page.labels["value"].drop_nulls():
                json.loads(value)

    def test_every_page_of_a_sync_is_covered(self, driver: Driver, store: Store) -> None:
        driver.answer("item-1", "ann", "yes")
        driver.settle()
        from calibrate_plugin.connector import Since

        pieces = list(driver.source().pull(Since()))
        assert isinstance(pieces[-1], Covered)
        assert any(isinstance(p, Page) for p in pieces)

    # --- reading

    def test_paging_loses_and_doubles_nothing(self, driver: Driver, store: Store) -> None:
        answers = [(f"item-{i}", f"rater-{i % 3}", "yes" if i % 2 else "no") for i in range(250)]
        driver.many(answers)
        outcome = self.pull(driver, store)
        assert outcome.duplicates == 0
        assert self.state(driver, store) == Counter((i, driver.field, r, json.dumps(v)) for i, r, v in answers)

    def test_a_replay_changes_nothing(self, driver: Driver, store: Store) -> None:
        driver.answer("item-1", "ann", "yes")
        driver.answer("item-2", "ben", "no")
        self.pull(driver, store)
        number = store.latest()
        for full in (False, True):
            again = self.pull(driver, store, full=full)
            assert (again.added, again.changed, again.retired) == (0, 0, 0)
        assert store.latest() == number or self.state(driver, store) == self.fresh(driver)

    def test_new_answers_are_found(self, driver: Driver, store: Store) -> None:
        driver.answer("item-1", "ann", "yes")
        self.pull(driver, store)
        driver.answer("item-1", "ben", "no")
        driver.answer("item-2", "ann", "no")
        self.pull(driver, store)
        assert self.state(driver, store) == self.fresh(driver)
        assert sum(self.state(driver, store).values()) == 3

    def test_an_edit_is_found_and_what_was_known_before_stays_known(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "edit")
        answer = driver.answer("item-1", "ann", "yes")
        driver.answer("item-2", "ann", "yes")
        self.pull(driver, store)
        before = store.latest()
        driver.edit(answer, "no")
        self.pull(driver, store, full=True)
        assert self.state(driver, store)["item-1", driver.field, "ann", '"no"'] == 1
        assert self.state(driver, store) == self.fresh(driver)
        assert self.state(driver, store, before)["item-1", driver.field, "ann", '"yes"'] == 1

    def test_a_cleared_answer_is_no_answer(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "clear")
        answer = driver.answer("item-1", "ann", "yes")
        driver.answer("item-2", "ann", "yes")
        self.pull(driver, store)
        driver.clear(answer)
        self.pull(driver, store, full=True)
        standing = store.as_of()
        answered = standing.filter((standing["item"] == "item-1") & (standing["state"] == "answered"))
        assert answered.filter(answered["retired"].is_null()).is_empty()

    # --- deletions

    @pytest.mark.parametrize(
        ("what", "causes"),
        [
            ("delete", {"label_deleted", "item_deleted"}),
            ("delete_item", {"item_deleted", "label_deleted"}),
            ("delete_rater", {"annotator_deleted", "label_deleted"}),
        ],
    )
    def test_a_deletion_retires_with_its_cause(self, driver: Driver, store: Store, what: str, causes: set[str]) -> None:
        self.needs(driver, what)
        first = driver.answer("item-1", "ann", "yes")
        for i in range(2, 12):
            driver.answer(f"item-{i}", "ben", "no")
        self.pull(driver, store)
        before = store.latest()
        if what == "delete":
            driver.delete(first)
        elif what == "delete_item":
            driver.delete_item("item-1")
        else:
            driver.delete_rater("ann")
        self.pull(driver, store, full=True)
        gone = store.as_of().filter(store.as_of()["item"] == "item-1")
        assert set(gone["retired"].to_list()) <= causes
        assert sum(self.state(driver, store).values()) == 10
        assert sum(self.state(driver, store, before).values()) == 11

    def test_a_deleted_job_retires_its_labels_or_holds_until_accepted(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "delete_job")
        for i in range(8):
            driver.answer(f"item-{i}", "ann", "yes")
        self.pull(driver, store)
        driver.delete_job()
        (outcome,) = sync(store, {NAME: driver.source()}, full=True)
        if outcome.outcome == "ok":
            assert not sum(self.state(driver, store).values())
            return
        assert sum(self.state(driver, store).values()) == 8
        assert outcome.message

    def test_losing_most_of_a_scope_is_held_and_then_accepted(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "delete")
        answers = [driver.answer(f"item-{i}", "ann", "yes") for i in range(20)]
        self.pull(driver, store)
        for answer in answers[:15]:
            driver.delete(answer)
        driver.settle()
        (outcome,) = sync(store, {NAME: driver.source()}, full=True)
        assert outcome.outcome == "held"
        assert sum(self.state(driver, store).values()) == 20
        (outcome,) = sync(store, {NAME: driver.source()}, full=True, accept_deletions=True)
        assert outcome.outcome == "ok"
        assert sum(self.state(driver, store).values()) == 5

    # --- bad days

    def test_a_record_listed_twice_counts_once_and_the_first_seen_wins(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "double")
        answer = driver.answer("item-1", "ann", "new")
        driver.answer("item-2", "ann", "yes")
        driver.double(answer, "old")
        self.pull(driver, store)
        assert self.state(driver, store)["item-1", driver.field, "ann", '"new"'] == 1
        assert sum(self.state(driver, store).values()) == 2

    @pytest.mark.parametrize("seconds", [3600.0, -3600.0])
    def test_a_clock_that_is_wrong_hides_nothing(self, driver: Driver, store: Store, seconds: float) -> None:
        self.needs(driver, "skew")
        driver.answer("item-1", "ann", "yes")
        self.pull(driver, store)
        driver.skew(seconds)
        driver.answer("item-2", "ann", "no")
        self.pull(driver, store)
        driver.skew(0)
        driver.answer("item-3", "ann", "no")
        self.pull(driver, store)
        assert self.state(driver, store) == self.fresh(driver)
        assert sum(self.state(driver, store).values()) == 3

    @pytest.mark.parametrize("text", UNUSUAL)
    def test_text_comes_through_as_it_is(self, driver: Driver, store: Store, text: str) -> None:
        driver.answer("item-1", "ann", text)
        self.pull(driver, store)
        assert [json.loads(str(v)) for _, _, _, v in self.state(driver, store)] == [text]

    def test_a_pull_that_is_cancelled_leaves_the_last_good_state(self, driver: Driver, store: Store) -> None:
        driver.answer("item-1", "ann", "yes")
        self.pull(driver, store)
        driver.answer("item-2", "ann", "no")
        driver.settle()
        from calibrate_plugin.connector import Since

        _, cursor = store.source(NAME)
        pulled = driver.source().pull(Since(cursor, False, lambda scope: store.known(NAME, scope)))
        next(pulled, None)
        if hasattr(pulled, "close"):
            pulled.close()
        assert sum(self.state(driver, store).values()) == 1
        self.pull(driver, store)
        assert sum(self.state(driver, store).values()) == 2

    def test_a_failure_at_any_request_is_healed_by_the_next_sync(self, driver: Driver, tmp_path: Path) -> None:
        self.needs(driver, "fail")
        driver.many([(f"item-{i}", f"rater-{i % 2}", "yes") for i in range(120)])
        driver.settle()
        expected = self.fresh(driver)
        failed = 0
        for at in range(1, MOST_FAILURES):
            with Store(tmp_path / f"failure-{at}.db") as store:
                driver.fail(at)
                (outcome,) = sync(store, {NAME: driver.source()})
                driver.fail(None)
                partly = self.state(driver, store)
                assert not partly - expected, "a failed sync left something that is not on the platform"
                (healed,) = sync(store, {NAME: driver.source()})
                assert healed.outcome == "ok", healed.message
                assert self.state(driver, store) == expected
            if outcome.outcome == "ok":
                if outcome.requests is not None and outcome.requests < at:
                    break
                continue  # a retry within the sync healed it
            failed += 1
        else:
            pytest.fail(f"a sync of 120 answers takes more than {MOST_FAILURES} requests")

    def test_no_secret_is_told(
        self, driver: Driver, store: Store, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        if not driver.secrets:
            pytest.skip("this platform needs no secret")
        told = io.StringIO()
        with caplog.at_level(logging.DEBUG):
            driver.answer("item-1", "ann", "yes")
            self.pull(driver, store)
            if "fail" not in driver.cannot:
                for at in (1, 2, 3):
                    driver.fail(at)
                    try:
                        list(driver.source().pull(None))
                    except Exception:
                        told.write(traceback.format_exc())
                    driver.fail(None)
        out, err = capfd.readouterr()
        everything = "\n".join([caplog.text, out, err, told.getvalue(), repr(driver.source()), repr(store.syncs())])
        for secret in driver.secrets:
            assert secret not in everything

    # --- writing

    def test_a_push_is_idempotent_and_an_unpush_removes_all_of_it(self, driver: Driver, store: Store) -> None:
        self.needs(driver, "push")
        for item in ("item-1", "item-2"):
            driver.answer(item, "ann", "yes")
            driver.answer(item, "ben", "no")
        self.pull(driver, store)
        untouched = driver.written()
        sink = driver.source()
        assert isinstance(sink, Sink), "the driver does not say that it cannot push"
        results = driver.results(store.known(NAME, Scope()))
        planned = sink.push(results, dry_run=True)
        assert planned.writes
        assert driver.written() == untouched, "a dry run wrote something"
        store.keep_push(NAME, sink.push(results))
        driver.settle()
        written = driver.written()
        assert written != untouched
        again = driver.source()
        assert isinstance(again, Sink)
        from dataclasses import replace

        second = again.push(replace(results, written=store.written(NAME)))
        driver.settle()
        assert {w.outcome for w in second.writes} <= {"unchanged", "pending"}
        assert driver.written() == written
        store.keep_push(NAME, second)
        self.pull(driver, store, full=True)
        assert sum(self.state(driver, store).values()) == 4, "our own results were pulled back as labels"
        again.unpush(store.written(NAME))
        driver.settle()
        assert driver.written() == untouched

    # --- how

    def needs(self, driver: Driver, ability: str) -> None:
        if ability in driver.cannot:
            pytest.skip(driver.cannot[ability])

    def pull(self, driver: Driver, store: Store, *, full: bool = False) -> SyncOutcome:
        """A sync that must succeed."""
        driver.settle()
        (outcome,) = sync(store, {NAME: driver.source()}, full=full, accept_deletions=False)
        assert outcome.outcome == "ok", outcome.message
        return outcome

    def state(self, driver: Driver, store: Store, number: int | None = None) -> State:
        """The answers that stand in the store, counted by (item, field, rater, value)."""
        return _standing(store.as_of(number))

    def fresh(self, driver: Driver) -> State:
        """The answers that a reader without a past would find."""
        driver.settle()
        found: State = Counter()
        for piece in driver.source().pull(None):
            if isinstance(piece, Page):
                found += _standing(piece.labels)
        return found


def _standing(labels: Any) -> State:
    kept = labels.filter((labels["state"] == "answered") & labels["retired"].is_null())
    return Counter(kept.select("item", "field", "rater", "value").rows())
