"""What is recorded, what ends and what time an answer has: the rules of the facts, on both engines."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from stored_facts import EVERYTHING, T0, Clock, label, labels, ok, page, pull, said_by, state

from calibrate_plugin.connector import Covered, Page, Scope
from calibrate_plugin.model import LABELS
from calibrate_plugin.store import HISTORY, Store

LATER = T0 + timedelta(days=1)


def test_a_label_comes_back_as_the_source_said_it(store: Store) -> None:
    whole = label(
        "r1",
        seq=7,
        item="trace-1",
        value='{"a": 1}',
        kind="evaluator",
        version="v3",
        job="job",
        run="run",
        task="task",
        placed=LATER,
        reason="because",
        confidence=0.25,
        sample="2",
        order="ab",
        execution="e1",
        blind=False,
        link="https://example.com/1",
        retired="run_failed",
    )
    bare = label(None, item=None, value=None, rater=None, job=None, task=None, at=None, placed=None)
    ok(store, page(whole, bare), EVERYTHING)
    assert state(store) == said_by([whole, bare])
    found = store.as_of()
    assert dict(found.schema) == HISTORY
    assert found["label"].to_list() == [1, 2]


def test_the_same_listing_again_changes_nothing_and_gives_no_sync_number(store: Store) -> None:
    rows = [label(str(n), reason="r") for n in range(3)] + [label(None, value=str(n)) for n in range(3)]
    first = ok(store, page(*rows, facts=[("i", "day", "1")], names={"ann": "Ann"}), EVERYTHING)
    again = ok(store, page(*rows, facts=[("i", "day", "1")], names={"ann": "Ann"}), EVERYTHING)
    assert (first.number, first.added) == (1, 6)
    assert (again.number, again.seen, again.added, again.changed, again.retired) == (None, 6, 0, 0, 0)
    assert store.latest() == 1


def test_a_changed_label_replaces_the_earlier_one_which_stays_in_the_past(store: Store) -> None:
    ok(store, page(label("1"), label("2")), EVERYTHING)
    ok(store, page(label("1", value='"Fail"', at=LATER), label("2")), EVERYTHING)
    assert state(store, 1, "record", "value") == [("1", '"Pass"'), ("2", '"Pass"')]
    assert state(store, 2, "record", "value", "at", "retired") == [
        ("1", '"Fail"', LATER, None),
        ("2", '"Pass"', T0, None),
    ]


def test_a_time_that_moves_without_content_is_no_change(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)
    again = ok(store, page(label("1", at=LATER)), EVERYTHING)
    assert again.number is None
    assert state(store, None, "at") == [(T0,)]


@pytest.mark.parametrize(
    "edit",
    [
        {"value": '"Fail"'},
        {"state": "cleared", "value": None},
        {"reason": "on second thoughts"},
        {"confidence": 0.5},
        {"rater": "ben"},
        {"version": "v4"},
        {"run": "another run"},
        {"execution": "another execution"},
    ],
)
def test_an_edit_that_moves_no_time_has_the_time_of_the_sync_that_saw_it(
    store: Store, clock: Clock, edit: dict[str, object]
) -> None:
    ok(store, page(label("1")), EVERYTHING)
    before = clock.time
    ok(store, page(label("1", **edit)), EVERYTHING)
    ((at,),) = state(store, None, "at")
    assert before < at <= clock.time


def test_a_second_edit_that_moves_no_time_does_not_throw_the_answer_back(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)
    ok(store, page(label("1", value='"Fail"')), EVERYTHING)
    ((first,),) = state(store, None, "at")
    assert ok(store, page(label("1", value='"Fail"')), EVERYTHING).number is None
    ok(store, page(label("1", value='"Unsure"')), EVERYTHING)
    ((second,),) = state(store, None, "at")
    assert second > first > T0


def test_a_clock_that_runs_behind_does_not_make_an_edit_older_than_what_it_replaces(store: Store) -> None:
    ahead = T0 + timedelta(days=900)
    ok(store, page(label("1", at=ahead)), EVERYTHING)
    ok(store, page(label("1", at=ahead, value='"Fail"')), EVERYTHING)
    assert state(store, None, "at") == [(ahead,)]


@pytest.mark.parametrize(
    "move", [{"job": "13"}, {"task": "t"}, {"link": "https://moved"}, {"seq": 9}, {"item": "x"}, {"blind": False}]
)
def test_a_label_that_only_moved_keeps_its_time(store: Store, move: dict[str, object]) -> None:
    ok(store, page(label("1")), EVERYTHING)
    moved = ok(store, page(label("1", at=LATER, **move)), EVERYTHING)
    assert (moved.changed, moved.retired) == (1, 0)
    assert state(store) == said_by([label("1", **move)])


def test_an_edit_of_an_answer_without_a_time_gets_none(store: Store) -> None:
    ok(store, page(label("1", at=None)), EVERYTHING)
    ok(store, page(label("1", at=None, value='"Fail"')), EVERYTHING)
    assert state(store, None, "value", "at") == [('"Fail"', None)]


def test_only_what_a_scope_covers_ends(store: Store) -> None:
    rows = [label(str(n), job=str(n % 2), placed=T0 + timedelta(days=n), task=f"t{n}") for n in range(8)]
    ok(store, page(*rows), EVERYTHING)
    for number, (scope, gone) in enumerate(
        [
            (Scope(jobs=("0",), tasks=("t0", "t1")), {"0"}),
            (Scope(start=T0 + timedelta(days=6), end=T0 + timedelta(days=7)), {"0", "6"}),
            (Scope(fields=("Empathy",)), {"0", "6"}),
            (Scope(jobs=(), tasks=()), {"0", "6"}),
            (Scope(tasks=("t3",), fields=("Safety",)), {"0", "3", "6"}),
        ]
    ):
        ok(store, Covered(scope, cause="item_deleted"))
        found = {r for r, why in state(store, None, "record", "retired") if why is not None}
        assert found == gone, number


def test_what_no_scope_covers_is_recorded_and_ends_nothing(store: Store) -> None:
    ok(store, page(label("1"), label("2")), EVERYTHING)
    outcome = ok(store, page(label("3")))
    assert (outcome.number, outcome.added, outcome.retired) == (2, 1, 0)


def test_a_deleted_label_stays_with_its_cause(store: Store) -> None:
    rows = [label(str(n)) for n in range(4)]
    ok(store, page(*rows), EVERYTHING)
    ok(store, page(*rows[1:]), Covered(Scope(), cause="annotator_deleted"))
    assert state(store, 1) == said_by(rows)
    assert state(store) == said_by([{**rows[0], "retired": "annotator_deleted"}, *rows[1:]])


def test_a_deleted_label_that_comes_back_is_there_once(store: Store) -> None:
    rows = [label(str(n)) for n in range(4)]
    ok(store, page(*rows), EVERYTHING)
    ok(store, page(*rows[1:]), EVERYTHING)
    outcome = ok(store, page(*rows), EVERYTHING)
    assert (outcome.added, outcome.changed) == (1, 0)
    assert state(store, 3) == said_by(rows)
    assert state(store, 2, "record", "retired")[0] == ("0", "label_deleted")


def test_what_the_source_said_of_a_label_goes_before_how_it_ended(store: Store) -> None:
    ok(store, page(label("1", retired="run_failed"), label("2")), EVERYTHING)
    ok(store, Covered(Scope(), cause="expired"))
    assert state(store, None, "record", "retired") == [("1", "run_failed"), ("2", "expired")]


def test_the_first_sight_of_a_record_wins_and_the_others_are_counted(store: Store) -> None:
    outcome = ok(
        store,
        page(label("1"), label("1", value='"old"'), label("1", "Empathy")),
        page(label("1", value='"older"'), label("2")),
        Covered(Scope(jobs=("12",))),
        page(label("2", value='"oldest"')),
        EVERYTHING,
    )
    assert (outcome.seen, outcome.added, outcome.duplicates) == (6, 3, 3)
    assert {value for (value,) in state(store, None, "value")} == {'"Pass"'}


def test_a_record_that_is_seen_only_before_the_last_covered_is_gone(store: Store) -> None:
    rows = [label(str(n), task=f"t{n}") for n in range(3)]
    ok(store, page(*rows), EVERYTHING, Covered(Scope(tasks=("t1",))))
    assert [r for r, why in state(store, None, "record", "retired") if why] == ["1"]


def test_sources_do_not_touch_each_other(store: Store) -> None:
    rows = [label(str(n)) for n in range(3)]
    ok(store, page(*rows), EVERYTHING, source="people")
    ok(store, page(rows[0]), EVERYTHING, source="judges")
    ok(store, Covered(Scope()), source="judges")
    assert [(s, why) for s, why in state(store, None, "source", "retired")] == [
        ("judges", "label_deleted"),
        *[("people", None)] * 3,
    ]


# --- labels without a record id: the rows of a file


def test_rows_without_ids_that_agree_are_all_kept(store: Store) -> None:
    rows = [label(None, item="i", seq=n) for n in range(4)]
    outcome = ok(store, page(*rows[:2]), page(*rows[2:]), EVERYTHING)
    assert (outcome.added, outcome.duplicates) == (4, 0)
    assert ok(store, page(*rows), EVERYTHING).number is None


def test_an_edited_row_of_a_file_is_a_change_and_keeps_the_time_of_the_file(store: Store) -> None:
    rows = [label(None, item=f"i{n}", seq=n) for n in range(10)]
    ok(store, page(*rows), EVERYTHING)
    edited = [{**row, "value": '"Fail"'} for row in rows]
    outcome = ok(store, page(*edited), EVERYTHING)
    assert (outcome.added, outcome.changed, outcome.retired) == (0, 10, 0)
    assert state(store) == said_by(edited)


def test_a_file_is_known_exactly_as_it_is_after_any_edit(store: Store) -> None:
    rows = [label(None, item=f"i{n % 3}", seq=n, at=T0 + timedelta(hours=n), value=str(n % 2)) for n in range(9)]
    ok(store, page(*rows), EVERYTHING)
    for edited in (
        rows[1:],  # the first row removed
        [label(None, item="new", seq=99), *rows],  # one put before them
        list(reversed([{**row, "seq": 8 - n} for n, row in enumerate(rows)])),  # another order
        [{**row, "at": T0} for row in rows],  # other times
        [*rows, *rows],
        [],
    ):
        ok(store, page(*edited), EVERYTHING, accept_deletions=True)
        live = [row for row in state(store) if row[1 + list(LABELS).index("retired")] is None]
        assert live == said_by(edited)


# --- too much would end


def test_a_scope_that_would_lose_more_than_a_fifth_is_held(store: Store) -> None:
    rows = [label(str(n), job="7" if n < 24 else "8") for n in range(30)]
    ok(store, page(*rows), EVERYTHING)
    outcome = pull(store, page(*rows[5:24]), Covered(Scope(jobs=("7",)), "later"), page(*rows[24:]))
    assert outcome.outcome == "held"
    assert outcome.message.startswith("people: 5 of 24 labels are no longer there (job 7). They stay as they were.")
    assert "--accept-deletions" in outcome.message
    assert store.latest() == 1
    assert state(store) == said_by(rows)
    assert store.source("people") == (None, "all")
    assert [(s.outcome, s.message) for s in store.syncs(1)] == [("held", outcome.message)]

    accepted = ok(store, page(*rows[5:24]), Covered(Scope(jobs=("7",)), "later"), accept_deletions=True)
    assert (accepted.retired, store.source("people")) == (5, (None, "later"))


def test_a_fifth_itself_is_not_held(store: Store) -> None:
    rows = [label(str(n)) for n in range(25)]
    ok(store, page(*rows), EVERYTHING)
    assert ok(store, page(*rows[5:]), EVERYTHING).retired == 5


def test_one_person_tidying_up_few_records_is_not_held(store: Store) -> None:
    fields = [f"question {n}" for n in range(10)]
    rows = [label(str(n), field) for n in range(6) for field in fields]
    ok(store, page(*rows), EVERYTHING)
    outcome = ok(store, page(*rows[40:]), EVERYTHING)
    assert outcome.retired == 40  # all answers of four records


def test_a_question_that_vanishes_from_many_records_is_held(store: Store) -> None:
    rows = [label(str(n), field) for n in range(6) for field in ("a", "b", "c")]
    ok(store, page(*rows), EVERYTHING)
    assert pull(store, page(*(r for r in rows if r["field"] != "b")), EVERYTHING).outcome == "held"


def test_many_small_scopes_together_are_held(store: Store) -> None:
    rows = [label(str(n)) for n in range(100)]
    ok(store, page(*rows), EVERYTHING)
    outcome = pull(store, *(Covered(Scope(tasks=(f"task {n}",))) for n in range(100)))
    assert outcome.outcome == "held"
    assert outcome.retired == 20
    assert "21 of 100 labels are no longer there (everything in the source)" in outcome.message


def test_many_small_scopes_that_empty_one_job_are_held(store: Store) -> None:
    rows = [label(str(n), job="7" if n < 20 else "8") for n in range(1000)]
    ok(store, page(*rows), EVERYTHING)
    outcome = pull(store, *(Covered(Scope(jobs=("7",), tasks=(f"task {n}",))) for n in range(20)))
    assert outcome.outcome == "held"
    assert outcome.retired == 4
    assert "5 of 20 labels are no longer there (job 7)" in outcome.message


def test_tasks_that_are_named_because_they_are_gone_are_measured_against_their_job(store: Store) -> None:
    rows = [label(str(n), job="7" if n < 50 else "8") for n in range(60)]
    ok(store, page(*rows), EVERYTHING)
    some = tuple(f"task {n}" for n in range(10))
    assert ok(store, Covered(Scope(jobs=("7",), tasks=some))).retired == 10
    others = tuple(f"task {n}" for n in range(10, 19))
    outcome = pull(store, Covered(Scope(jobs=("7",), tasks=others)))
    assert "9 of 40 labels are no longer there (job 7)" in outcome.message


def test_few_deletions_during_a_first_pull_are_not_held(store: Store) -> None:
    rows = [label(str(n), job=str(n % 2)) for n in range(100)]
    gone = Covered(Scope(tasks=tuple(f"task {n}" for n in range(0, 12, 2))))
    outcome = ok(
        store, page(*rows[::2]), Covered(Scope(jobs=("0",))), gone, page(*rows[1::2]), Covered(Scope(jobs=("1",)))
    )
    assert (outcome.added, outcome.retired) == (100, 6)


def test_what_a_platform_no_longer_keeps_is_no_loss(store: Store) -> None:
    ok(store, page(*(label(str(n)) for n in range(50))), EVERYTHING)
    older = Covered(Scope(tasks=tuple(f"task {n}" for n in range(5, 50))), cause="expired")
    assert ok(store, older, Covered(Scope(tasks=("task 0",)))).retired == 46


def test_an_edit_is_no_loss(store: Store) -> None:
    ok(store, page(*(label(str(n)) for n in range(50))), EVERYTHING)
    assert ok(store, page(*(label(str(n), value='"Fail"') for n in range(50))), EVERYTHING).changed == 50


def test_what_was_published_before_a_held_scope_stays(store: Store) -> None:
    rows = [label(str(n), job=str(n // 10)) for n in range(20)]
    ok(store, page(*rows), EVERYTHING)
    outcome = pull(
        store,
        page(*rows[:10], label("new", job="0")),
        Covered(Scope(jobs=("0",)), "first"),
        page(label("never", job="1")),
        Covered(Scope(jobs=("1",)), "second"),
    )
    assert (outcome.outcome, outcome.number, outcome.added, outcome.retired) == ("held", 2, 1, 0)
    assert state(store) == said_by([*rows, label("new", job="0")])
    assert store.source("people") == (None, "first")


# --- texts and shapes

HOSTILE = [
    "",
    "0",
    "a\x00b",
    "\x00",
    "\x1a\x1a0\x1as",
    "\x1b[31m\x7f\r\n\t",
    "[/] [bold]",
    "=cmd|' /C calc'!A0",
    "'; DROP TABLE labels; --",
    "%(x)s %s ? :name {y}",
    "\u202e\ufeff\u2028\U0001f600é",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_kept_exactly_and_found_again(store: Store, text: str) -> None:
    columns = ("item", "rater", "version", "job", "run", "task", "reason", "sample", "order", "execution", "link")
    row = label(text, text, value=text, **dict.fromkeys(columns, text))
    given = page(
        row,
        facts=[(text, text, text)],
        aside=[{"record": text, "cause": text, "message": text, "value": text}],
        names={text: text},
    )
    ok(store, given, EVERYTHING)
    assert ok(store, given, EVERYTHING).number is None
    assert state(store) == said_by([row])
    assert store.as_of(items=[text]).height == 1
    assert store.item_facts(items=[text]).rows() == [("people", text, text, text)]
    assert store.aside().select("record", "cause", "message", "value").rows() == [(text,) * 4]
    assert store.known("people", Scope(jobs=(text,), tasks=(text,), fields=(text,))).height == 1
    assert list(store.names()["people"].values()) == [text.replace("\x00", "�")]
    ok(store, Covered(Scope(jobs=(text,), tasks=(text,), fields=(text,))))
    assert state(store, None, "retired") == [("label_deleted",)]


def test_an_answer_and_a_reason_of_megabytes_are_kept(store: Store) -> None:
    row = label("1", value='"' + "é" * 2_500_000 + '"', reason="y" * 5_000_000)
    ok(store, page(row, label("2")), EVERYTHING)
    assert state(store) == said_by([row, label("2")])


def test_a_confidence_that_is_no_number_is_no_confidence(store: Store) -> None:
    ok(store, page(label("1", confidence=float("nan")), label("2", confidence=-0.0)), EVERYTHING)
    assert state(store, None, "record", "confidence") == [("1", None), ("2", 0.0)]
    assert ok(store, page(label("1"), label("2", confidence=0.0)), EVERYTHING).number is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "human"}, "record '1' has kind 'human'; it must be one of annotator, evaluator, gold"),
        ({"kind": None}, "record '1' has kind None"),
        ({"state": "done"}, "record '1' has state 'done'"),
        ({"retired": "gone"}, "record '1' has retired 'gone'"),
    ],
)
def test_a_label_that_is_none_fails_the_pull_and_names_the_record(
    store: Store, wrong: dict[str, object], words: str
) -> None:
    outcome = pull(store, page(label("0")), page(label("1", **wrong)), EVERYTHING)
    assert outcome.outcome == "failed"
    assert words in outcome.message
    assert store.latest() == 0


def test_a_page_of_another_form_fails_the_pull_and_says_what_it_has(store: Store) -> None:
    outcome = pull(store, Page(labels([label("1")]).rename({"rater": "who"})), EVERYTHING)
    assert outcome.outcome == "failed"
    assert "not columns of this table: who" in outcome.message


def test_a_label_needs_a_field(store: Store) -> None:
    assert "record '1' has a label without a field" in pull(store, page({**label("1"), "field": None})).message


def test_an_end_needs_a_cause_that_the_rules_know(store: Store) -> None:
    outcome = pull(store, Covered(Scope(), cause="lost"))
    assert (outcome.outcome, "labels cannot end by 'lost'" in outcome.message) == ("failed", True)


# --- reading


def test_a_part_of_the_state_is_what_the_whole_says_of_it(store: Store) -> None:
    rows = [label(str(n), "ab"[n % 2], item=f"i{n % 5}", reason=str(n)) for n in range(30)]
    ok(store, page(*rows), EVERYTHING)
    ok(store, page(*rows[5:], *(label(str(n), value="2") for n in range(3))), EVERYTHING)
    ok(store, page(*rows), EVERYTHING, source="judges")
    for number in (1, 2, 3):
        whole = store.as_of(number)
        assert store.as_of(number, items=["i1", "i4", "none"]).equals(whole.filter(pl.col("item").is_in(["i1", "i4"])))
        assert store.as_of(number, fields=["a"]).equals(whole.filter(pl.col("field") == "a"))
        assert store.as_of(number, sources=["judges"]).equals(whole.filter(pl.col("source") == "judges"))
        assert store.as_of(number, items=[]).equals(whole.clear())
        assert store.as_of(number, reasons=False).equals(whole.with_columns(reason=pl.lit(None, dtype=pl.String)))


def test_a_number_that_is_not_there_yet_is_now(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)
    assert store.as_of(99).equals(store.as_of(1))
    assert store.as_of(0).is_empty()


def test_a_state_is_found_by_its_time(store: Store, clock: Clock) -> None:
    ok(store, page(label("1")), EVERYTHING)
    between = clock.time
    ok(store, page(label("1"), label("2")), EVERYTHING)
    assert (store.sync_at(T0), store.sync_at(between), store.sync_at(clock.time)) == (0, 1, 2)


def test_the_items_that_changed_between_two_numbers_are_told(store: Store) -> None:
    rows = [label(str(n)) for n in range(8)]
    ok(store, page(*rows, facts=[("item 0", "day", "1")]), EVERYTHING)
    ok(store, page(label("0", value='"Fail"'), *rows[1:]), EVERYTHING)
    ok(store, page(label("0", value='"Fail"'), *rows[1:7]), EVERYTHING)
    ok(
        store,
        page(label("0", value='"Fail"'), *rows[1:7], facts=[("item 0", "day", "1"), ("fact", "day", "2")]),
        EVERYTHING,
    )
    assert store.changed_items(1, 2) == ["item 0"]
    assert store.changed_items(2, 3) == ["item 7"]
    assert store.changed_items(3) == ["fact"]
    assert store.changed_items(4) == []
    assert len(store.changed_items(0, 1)) == 8


def test_a_source_is_shown_the_time_that_it_said_itself(store: Store) -> None:
    ok(store, page(label("1")), EVERYTHING)
    ok(store, page(label("1", rater=None)), EVERYTHING)  # its person was deleted; the platform moves no time
    assert store.as_of()["at"].to_list() != [T0]
    assert store.known("people", Scope())["at"].to_list() == [T0]


def test_a_source_that_says_little_is_read_without_the_others(store: Store) -> None:
    many = [label(f"p{n}") for n in range(40)]
    ok(store, page(*many), EVERYTHING)
    ok(store, page(label("a"), label("b")), Covered(Scope(), "1"), source="judges")
    ok(store, page(*many[1:], label("p99")), EVERYTHING)
    ok(store, page(label("b", value='"Fail"'), label("c")), Covered(Scope(), "2"), source="judges")
    for number in range(store.latest() + 1):
        for sources in (["judges"], ["people"], ["judges", "people"], ["nobody"]):
            of_all = store.as_of(number).filter(pl.col("source").is_in(sources))
            assert store.as_of(number, sources=sources).equals(of_all), (number, sources)


def test_what_is_known_of_a_scope_is_what_is_live_there(store: Store) -> None:
    rows = [label(str(n), "ab"[n % 2], job=str(n % 3), placed=T0 + timedelta(days=n)) for n in range(12)]
    ok(store, page(*rows), EVERYTHING)
    ok(store, page(*rows[2:11], label("11", "b", job="9")), EVERYTHING)
    live = [*rows[2:11], label("11", "b", job="9")]
    for scope in (
        Scope(),
        Scope(jobs=("0", "9")),
        Scope(fields=("a",)),
        Scope(tasks=("task 3", "task 11", "task 0")),
        Scope(start=T0 + timedelta(days=3), end=T0 + timedelta(days=5)),
        Scope(jobs=("1",), fields=("b",), end=T0 + timedelta(days=9)),
        Scope(jobs=()),
        Scope(tasks=tuple(f"task {n}" for n in range(11_000))),
    ):
        found = store.known("people", scope)
        assert dict(found.schema) == LABELS
        assert sorted(found.rows(), key=repr) == sorted(labels(live).filter(scope.matches()).rows(), key=repr), scope
    assert store.known("judges", Scope()).is_empty()


# --- what lies beside the labels


def test_facts_about_items_are_kept_as_of_each_number(store: Store) -> None:
    ok(store, page(facts=[("i", "day", "1"), ("i", "day", "ignored"), ("j", "lang", None)]), EVERYTHING)
    ok(store, page(facts=[("i", "day", "2")]), EVERYTHING, source="judges")
    ok(store, page(facts=[("i", "day", "3")]), EVERYTHING)
    assert store.item_facts(1).rows() == [("people", "i", "day", "1"), ("people", "j", "lang", None)]
    assert store.item_facts().rows() == [
        ("judges", "i", "day", "2"),
        ("people", "i", "day", "3"),
        ("people", "j", "lang", None),
    ]
    assert store.item_facts(items=["j"]).rows() == [("people", "j", "lang", None)]


def test_what_could_not_be_read_is_told_until_a_whole_listing_no_longer_has_it(store: Store) -> None:
    one, two = {"record": "1", "cause": "unreadable"}, {"record": "2", "cause": "no_item"}
    first = ok(store, page(label("1"), aside=[one, one, two]), EVERYTHING)
    assert first.quarantined == 2
    ok(store, page(aside=[{"record": "3", "cause": "x"}]), Covered(Scope(jobs=("13",))))
    assert store.aside()["record"].to_list() == ["1", "2", "3"]
    ok(store, page(label("1"), aside=[two]), EVERYTHING)
    assert store.aside()["record"].to_list() == ["2"]
    assert store.aside(1)["record"].to_list() == ["1", "2"]
    ok(store, page(label("1")), Covered(Scope(jobs=("12",))), full=True)
    assert store.aside().is_empty()


def test_names_are_kept_as_of_each_number(store: Store) -> None:
    ok(store, page(label("1"), names={"ann": "Ann", "ben": "Ben"}), EVERYTHING)
    ok(store, page(label("1"), names={"ann": "Ann Lee", "ben": "Ben"}), EVERYTHING)
    assert store.names(1) == {"people": {"ann": "Ann", "ben": "Ben"}}
    assert store.names() == {"people": {"ann": "Ann Lee", "ben": "Ben"}}


def test_a_name_with_a_lone_surrogate_does_not_stop_a_pull(store: Store) -> None:
    ok(store, page(label("1"), names={"ann": "Ann \ud800"}), EVERYTHING)
    assert store.names() == {"people": {"ann": "Ann ?"}}


def test_a_forgotten_person_leaves_answers_and_neither_name_nor_words(store: Store, where: str) -> None:
    rows = [
        label("1", reason="a secret of ann's"),
        label("2", rater="ben", reason="ben's words"),
        label("3", reason="another secret"),
    ]
    given = page(*rows, names={"ann": "Ann Lee", "ben": "Ben"})
    ok(store, given, EVERYTHING)
    numbers = state(store, None, "record", "value", "at", "rater")
    assert store.forget("people", "ann") == 2
    assert store.forget("people", "ann") == 0
    assert state(store, None, "record", "reason") == [("1", None), ("2", "ben's words"), ("3", None)]
    assert store.names() == {"people": {"ben": "Ben"}}
    # the source still has it all, and says it again
    assert ok(store, given, EVERYTHING).number is None
    ok(
        store,
        page(
            label("1", value='"Fail"', reason="more secrets"), *rows[1:], label("4", reason="new"), names={"ann": "A"}
        ),
    )
    assert state(store, None, "record", "reason") == [("1", None), ("2", "ben's words"), ("3", None), ("4", None)]
    assert store.names() == {"people": {"ben": "Ben"}}
    assert state(store, 1, "record", "value", "at", "rater") == numbers
    if not where.startswith("postgresql"):
        store.close()
        with open(where, "rb") as file:
            assert b"secret" not in file.read()


def test_a_forgotten_persons_label_that_moves_keeps_its_time(store: Store) -> None:
    ok(store, page(label("1", reason="words")), EVERYTHING)
    store.forget("people", "ann")
    ok(store, page(label("1", reason="words", job="13")), EVERYTHING)
    assert state(store, None, "job", "at") == [("13", T0)]
