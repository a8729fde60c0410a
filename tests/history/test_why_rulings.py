"""What the study itself does (rulings, splits, a new guideline) moves no headline number, and ``why`` says that it happened."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from changing_study import SETTINGS, T0, World

from calibrate_plugin import ledger
from calibrate_plugin.cycle import keep_settings, pulled
from calibrate_plugin.history import Moment
from calibrate_plugin.model import ITEMS, frame
from calibrate_plugin.report.build import build
from calibrate_plugin.rulings import Given, clear, rule
from calibrate_plugin.store.labelling import keep_guideline
from calibrate_plugin.why import Explanation, explain


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    for i, (ann, ben, judge) in enumerate(
        [("Pass", "Pass", "Pass"), ("Pass", "Fail", "Pass"), ("Fail", "Fail", "Fail")]
    ):
        made.say(f"a{i}", f"i{i}", "ann", f'"{ann}"')
        made.say(f"b{i}", f"i{i}", "ben", f'"{ben}"')
        made.say(f"j{i}", f"i{i}", "judge", f'"{judge}"', kind="evaluator", version="v1")
    made.pull()
    yield made
    made.store.close()


def now(world: World) -> Moment:
    return Moment(world.store.latest(), keep_settings(world.store, world.config).id, world.clock())


def given(item: str, value: str = "Fail", cause: str = "ambiguous", by: str = "ann") -> Given:
    return Given(item, "Safety", value, cause, "r", by)


def why(world: World, since: Moment) -> Explanation:
    return explain(world.store, world.config, since)


def test_rulings_splits_and_texts_are_told_and_move_nothing(world: World) -> None:
    since = now(world)
    rule(world.store, world.config.study, [given("i1"), given("i2", cause="judge_mistake", by="cem")])
    rows: Any = [("i0", "split", "dev"), ("i1", "split", "test"), ("i2", "split", "test")]
    ledger.record(world.store, items=pl.DataFrame(rows, schema=dict(frame(ITEMS).schema), orient="row"))
    keep_guideline(world.store, "2", "text")
    found = why(world, since)
    assert found.numbers == ()
    assert found.beside == (
        "2 rulings on disagreements: 1 because the guideline can be read two ways, 1 because the judge made a mistake",
        "3 items assigned to a split: 1 to dev, 2 to test",
        "the guideline got the text of version 2",
    )
    later = now(world)
    clear(world.store, world.config.study, [("i1", "Safety")])
    assert why(world, later).beside == ("1 ruling was taken back",)
    assert why(world, now(world)).beside == ()


def test_a_ruling_is_no_cause_of_what_an_answer_moved_at_the_same_time(world: World) -> None:
    since = now(world)
    rule(world.store, world.config.study, [given("i1", by="dan")])
    world.say("b1", "i1", "ben", '"Pass"', at=T0 + timedelta(days=60))
    world.say("d0", "i0", "dan", '"Pass"')
    world.pull()
    found = why(world, since)
    agreement = next(n for n in found.numbers if n.statistic == "annotators.agreement")
    assert sum(s.step for s in agreement.steps if s.step is not None) == agreement.difference
    assert {s.cause for s in agreement.steps} <= {"added", "changed"}
    sources = {c.source for n in found.numbers for s in n.steps for c in s.changes}
    assert sources == {"people"}


def test_a_target_or_a_guideline_in_the_settings_moves_nothing(world: World) -> None:
    since = now(world)
    document = copy.deepcopy(SETTINGS)
    document["target"] = {"Safety": {"items": 100}}
    document["study"]["guideline"] = "guideline.md"
    world.settle(document)
    assert why(world, since).numbers == ()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_while_rulings_come_and_go_the_steps_add_up(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path)
    chance = random.Random(seed)
    for _ in range(60):
        world.change_at_random(chance)
    world.pull()
    since = now(world)
    before, _ = build(world.config.study, pulled(world.store), T0)
    for _ in range(25):
        world.change_at_random(chance)
        if chance.random() < 0.3:
            world.pull()
            there = world.store.as_of()["item"].drop_nulls().unique().sort().to_list()
            rule(
                world.store,
                world.config.study,
                [replace(given(chance.choice(there)), by=chance.choice(["ann", "zoe"]))],
            )
    world.pull()
    found = why(world, since)
    after, _ = build(world.config.study, pulled(world.store), T0)
    for number in found.numbers:
        if all(s.step is not None for s in number.steps) and number.difference is not None:
            total = sum((s.step for s in number.steps if s.step is not None), Fraction(0))
            assert total == number.difference or float(total) == pytest.approx(float(number.difference))
        if number.statistic == "annotators.agreement":
            ends = [next(d for d in r.dimensions if d.name == number.dimension) for r in (before, after)]
            for end, told in zip(ends, (number.before, number.after), strict=True):
                value = end.annotators.agreement.value
                assert (told.value is None) == (value is None)
                assert value is None or float(told.value or 0) == pytest.approx(value)
    world.store.close()
