"""Rulings in a store, on both engines: written, changed, taken back, and what became of the numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from stored_facts import EVERYTHING, T0, label, ok, page

from calibrate_plugin import scales
from calibrate_plugin.cycle import pulled
from calibrate_plugin.model import OWN, Study
from calibrate_plugin.report import json
from calibrate_plugin.report.build import build
from calibrate_plugin.rulings import Given, clear, read, rule
from calibrate_plugin.server.numbers import Numbers
from calibrate_plugin.store import Store

STUDY = Study("s", (scales.dimension("Safety", {"scale": "binary", "values": ["Pass", "Fail"]}),), resamples=200)


def given(item: str = "i1", value: str = "Fail", cause: str = "ambiguous", by: str = "carol", **more: str) -> Given:
    return Given(item, more.get("dimension", "Safety"), value, cause, more.get("reason", "it promises a refund"), by)


@pytest.fixture
def labelled(store: Store) -> Store:
    rows = [
        label(f"{who}{i}", item=f"i{i}", rater=who, value='"Pass"' if (i + k) % 3 else '"Fail"')
        for i in range(12)
        for k, who in enumerate(("ann", "ben"))
    ]
    judge = [label(f"j{i}", item=f"i{i}", rater="judge", kind="evaluator", version="v1") for i in range(12)]
    ok(store, page(*rows, *judge), EVERYTHING)
    return store


def test_a_ruling_is_read_back_as_it_was_given(labelled: Store) -> None:
    number = rule(labelled, STUDY, [given()], guideline="3")
    assert number == labelled.latest()
    found = read(labelled, STUDY)["i1", "Safety"]
    assert (found.value, found.cause, found.reason, found.by) == ("Fail", "ambiguous", "it promises a refund", "carol")
    assert labelled.as_of(sources=[OWN])["version"].to_list() == ["3"]
    assert read(labelled, STUDY, number - 1) == {}


def test_a_changed_ruling_keeps_the_time_at_which_people_had_talked(labelled: Store) -> None:
    rule(labelled, STUDY, [given()])
    first = read(labelled, STUDY)["i1", "Safety"]
    rule(labelled, STUDY, [given(value="Pass", cause="judge_mistake", by="dan", reason="no, it only explains")])
    second = read(labelled, STUDY)["i1", "Safety"]
    assert (second.value, second.cause, second.by) == ("Pass", "judge_mistake", "dan")
    assert second.at == first.at
    assert (
        rule(labelled, STUDY, [given(value="Pass", cause="judge_mistake", by="dan", reason="no, it only explains")])
        is None
    )


def test_a_ruling_taken_back_is_gone_and_a_later_one_has_its_own_time(labelled: Store) -> None:
    rule(labelled, STUDY, [given()])
    first = read(labelled, STUDY)["i1", "Safety"]
    clear(labelled, STUDY, [("i1", "Safety")])
    assert read(labelled, STUDY) == {}
    assert labelled.item_facts().filter(fact="cause.Safety")["value"].to_list() == [None]
    with pytest.raises(ValueError, match="there is no ruling on the item 'i1' in Safety"):
        clear(labelled, STUDY, [("i1", "Safety")])
    rule(labelled, STUDY, [given()])
    again = read(labelled, STUDY)["i1", "Safety"].at
    assert again is not None
    assert first.at is not None
    assert again > first.at


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (given(item="i99"), "no label is of the item 'i99'"),
        (given(dimension="Tone"), "there is no dimension 'Tone'; there are: Safety"),
        (given(value="maybe"), "'maybe' is no answer on Safety; there are: Pass, Fail"),
        (given(cause="fate"), "'fate' is no cause; there are: guideline_silent, ambiguous, annotator_mistake"),
        (given(by=" "), "nobody is named who rules"),
        (given(reason=""), "the reason is missing"),
        (given(reason="x" * 10_001), "the reason has 10,001 characters"),
    ],
)
def test_of_rulings_one_of_which_is_wrong_none_is_written(labelled: Store, wrong: Given, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rule(labelled, STUDY, [given(), wrong])
    assert read(labelled, STUDY) == {}


def test_a_person_who_is_forgotten_leaves_the_ruling_without_its_reason(labelled: Store) -> None:
    rule(labelled, STUDY, [given()])
    assert labelled.forget(OWN, "carol") == 1
    assert read(labelled, STUDY)["i1", "Safety"].reason is None


def test_numbers_that_follow_the_store_are_those_computed_anew_with_answers_after_a_ruling(labelled: Store) -> None:
    numbers = Numbers(labelled, STUDY)
    numbers.follow(labelled.now())
    rule(labelled, STUDY, [given("i1"), given("i2")])
    numbers.follow(labelled.now())
    late = label("ben1", item="i1", rater="ben", value='"Fail"', at=labelled.now() + timedelta(hours=1))
    ok(labelled, page(late))
    numbers.follow(labelled.now())
    state = numbers.state
    assert state is not None
    assert not state.full
    report, _ = build(STUDY, pulled(labelled), state.report.generated_at)
    assert json.render(report).encode() == state.body
    assert "1 answer was given after" in report.dimensions[0].notes[0]
    assert state.report.generated_at > T0


def test_a_ruling_moves_no_number_of_the_headline(labelled: Store) -> None:
    before, _ = build(STUDY, pulled(labelled), T0)
    rule(labelled, STUDY, [given("i1"), given("i2", by="ann")])
    after, _ = build(STUDY, pulled(labelled), T0)
    assert json.plain(after)["dimensions"] == json.plain(before)["dimensions"]
    assert replace(after.coverage, labels=0, counted=0) == replace(before.coverage, labels=0, counted=0)
