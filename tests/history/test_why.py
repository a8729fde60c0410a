"""What moved a number is named, and the steps add up to the difference."""

from __future__ import annotations

import copy
import json
import random
from fractions import Fraction
from typing import Any

import pytest
import tomlkit
from changing_study import SETTINGS, World
from click.testing import CliRunner

from calibrate_plugin import cycle, history
from calibrate_plugin.cli import main
from calibrate_plugin.report.build import build
from calibrate_plugin.why import CAUSES, Explanation, Why, explain

PASS, FAIL = '"Pass"', '"Fail"'
ASHA, BEN, JUDGE = [PASS, PASS, FAIL, PASS], [PASS, FAIL, FAIL, PASS], [PASS, PASS, FAIL, FAIL]


def the_page(world: World) -> history.Moment:
    """The worked example of two annotators and an evaluator on four replies (Safety), and its report."""
    for i in range(4):
        world.say(f"a{i}", f"item {i + 1}", "Asha", ASHA[i], job="1", link=f"https://labels.example.com/a{i}")
        world.say(f"b{i}", f"item {i + 1}", "Ben", BEN[i], job="2")
        world.say(f"j{i}", f"item {i + 1}", "judge", JUDGE[i], kind="evaluator", version="v1", run="first")
    return reported(world)


def reported(world: World) -> history.Moment:
    world.pull()
    cycle.report_now(world.store, world.config, world.clock())
    (last,) = world.store.reports(1)
    return history.Moment(last.number, last.settings, last.at)


def why(world: World, since: history.Moment, **options: Any) -> Explanation:
    return explain(world.store, world.config, since, reported(world), **options)


def number(found: Explanation, statistic: str, dimension: str = "Safety") -> Why:
    return next(w for w in found.numbers if (w.statistic, w.dimension) == (statistic, dimension))


def told(found: Explanation, statistic: str) -> list[str]:
    return [s.cause for s in number(found, statistic).steps]


def test_the_kind_of_kappa_changes_first_on_the_old_answers_and_then_the_answers_change(world: World) -> None:
    since = the_page(world)
    world.say("c0", "item 1", "Cem", FAIL, job="1")
    found = number(why(world, since), "annotators.kappa")
    assert found.before.value == Fraction(1, 2) and found.after.value == Fraction(-1, 80)
    kind, added = found.steps
    assert (kind.cause, kind.number.value, kind.step) == ("kappa_kind", Fraction(7, 15), Fraction(-1, 30))
    assert "Cem now shares an item" in kind.sentence
    assert (added.cause, added.number.value) == ("added", Fraction(-1, 80))
    assert added.step == Fraction(-1, 80) - Fraction(7, 15)
    assert [(c.rater, c.item, c.after) for c in added.changes] == [("Cem", "item 1", FAIL)]


def test_where_two_annotators_remain_the_kind_changes_last_on_the_new_answers(world: World) -> None:
    the_page(world)
    world.say("c0", "item 1", "Cem", FAIL)
    since = reported(world)
    world.people.rows["c0"]["retired"] = "annotator_deleted"
    found = number(why(world, since), "annotators.kappa")
    assert [(s.cause, s.number.value) for s in found.steps] == [
        ("annotator_deleted", Fraction(7, 15)),
        ("kappa_kind", Fraction(1, 2)),
    ]


def test_a_different_version_made_live_is_the_cause_and_the_score_starts_again_from_it(world: World) -> None:
    the_page(world)
    document = copy.deepcopy(SETTINGS)
    document["sources"]["judges"]["live"] = {"judge": "v1"}
    world.settle(document)
    for i in range(4):
        world.say(f"k{i}", f"item {i + 1}", "judge", ASHA[i], kind="evaluator", version="v2", run="second")
    since = reported(world)
    document["sources"]["judges"]["live"] = {"judge": "v2"}
    world.settle(copy.deepcopy(document))
    found = why(world, since)
    assert {w.statistic for w in found.numbers} == {"evaluator.score", "evaluator.agreement", "evaluator.kappa"}
    assert told(found, "evaluator.kappa") == ["version"]
    (step,) = number(found, "evaluator.score").steps
    assert step.step == Fraction(3, 4) - Fraction(1, 2)
    assert step.sentence == "version v2 of judge was made the live one; it was v1"


def test_new_scores_and_their_version_made_live_at_once_are_one_defined_step(world: World) -> None:
    since = the_page(world)
    for i in range(4):
        world.say(f"k{i}", f"item {i + 1}", "judge", ASHA[i], kind="evaluator", version="v2", run="second")
    document = copy.deepcopy(SETTINGS)
    document["sources"]["judges"]["live"] = {"judge": "v2"}
    world.settle(document)
    found = number(why(world, since), "evaluator.score")
    assert [(s.cause, s.step) for s in found.steps] == [("version", Fraction(1, 4))]


def test_a_second_version_that_nobody_named_leaves_states_and_no_steps(world: World) -> None:
    since = the_page(world)
    world.say("k0", "item 1", "judge", FAIL, kind="evaluator", version="v2", run="second")
    found = number(why(world, since), "evaluator.kappa")
    assert found.difference is None and found.after.reason == "no_live_version"
    assert [(s.cause, s.step) for s in found.steps] == [("version", None)]
    assert "none is named as live" in found.steps[0].sentence


ROWS = {
    "annotator_deleted": (
        "people",
        lambda r: r["rater"] == "Ben",
        "annotators.agreement",
        "the annotator Ben was deleted",
    ),
    "job_deleted": ("people", lambda r: r["job"] == "2", "human_score", "the labelling job 2 was deleted"),
    "run_deleted": ("judges", lambda r: r["run"] == "first", "evaluator.score", "the run first was deleted"),
    "run_failed": ("judges", lambda r: r["run"] == "first", "evaluator.score", "the run first failed"),
}


@pytest.mark.parametrize("cause", ROWS)
def test_what_was_deleted_or_failed_is_named(world: World, cause: str) -> None:
    since = the_page(world)
    side, of, statistic, sentence = ROWS[cause]
    for row in getattr(world, side).rows.values():
        if of(row):
            row["retired"] = cause
    found = why(world, since)
    assert {s.cause for w in found.numbers for s in w.steps} == {cause}
    (step,) = number(found, statistic).steps
    assert sentence in step.sentence
    assert step.n == 4


def test_a_deleted_item_is_named_with_its_step(world: World) -> None:
    since = the_page(world)
    for side in (world.people, world.judges):
        for row in side.rows.values():
            if row["item"] == "item 2":
                row["retired"] = "item_deleted"
    found = why(world, since)
    assert {s.cause for w in found.numbers for s in w.steps} == {"item_deleted"}
    (step,) = number(found, "annotators.kappa").steps
    assert step.step == Fraction(1, 2) and "(item 2)" in step.sentence


def test_a_run_keeps_the_items_that_it_scored_and_follows_the_people_of_today(world: World) -> None:
    the_page(world)

    def of_run() -> tuple[Any, ...]:
        world.pull()
        report, _ = build(world.config.study, cycle.pulled(world.store), world.clock(), run="first")
        (judge,) = report.dimensions[0].evaluators
        return judge.score.n_items, judge.agreement.value, judge.agreement.n_pairs

    assert of_run() == (4, 5 / 8, 8)
    for side in (world.people, world.judges):
        for row in side.rows.values():
            if row["item"] == "item 2":
                row["retired"] = "item_deleted"
    assert of_run() == (4, 5 / 8, 8), "a deleted item stays in the run that scored it"
    world.people.rows["b3"] = {**world.people.rows["b3"], "value": FAIL}
    assert of_run() == (4, 6 / 8, 8), "today's answer counts"
    for row in world.people.rows.values():
        if row["rater"] == "Ben":
            row["retired"] = "annotator_deleted"
    assert of_run() == (4, 3 / 4, 4), "a deleted annotator goes from finished runs too"


def test_scores_of_a_run_in_progress_are_told_as_they_arrive(world: World) -> None:
    since = the_page(world)
    world.say("j9", "item 9", "judge", PASS, kind="evaluator", version="v1", run="first")
    (step,) = number(why(world, since), "evaluator.score").steps
    assert (step.cause, step.step) == ("run_scores", Fraction(3, 5) - Fraction(1, 2))
    assert "first was in progress, its scores count as they arrive" in step.sentence


def test_answers_changed_cleared_and_deleted_are_causes_of_their_own(world: World) -> None:
    since = the_page(world)
    world.people.rows["b1"] = {**world.people.rows["b1"], "value": PASS}
    world.people.rows["a0"] = {**world.people.rows["a0"], "value": None, "state": "cleared"}
    del world.people.rows["a3"]
    world.say("b9", "item 3", "Ben", FAIL, at=world.clock())  # a newer answer of the same person is a change
    found = number(why(world, since), "human_score")
    steps = {s.cause: s for s in found.steps}
    assert list(steps) == ["changed", "cleared", "deleted"]
    assert {(c.record, c.before, c.after) for c in steps["changed"].changes} == {("b1", FAIL, PASS), ("b9", None, FAIL)}
    assert steps["cleared"].changes[0].link == "https://labels.example.com/a0"
    assert sum(s.step for s in found.steps if s.step is not None) == found.difference


def test_a_changed_scale_is_a_settings_cause_that_names_its_key(world: World) -> None:
    for i, (a, b) in enumerate([(4, 4), (3, 2), (5, 5), (2, 3)]):
        world.say(f"a{i}", f"i{i}", "Asha", str(a), field="Empathy")
        world.say(f"b{i}", f"i{i}", "Ben", str(b), field="Empathy")
    since = reported(world)
    document = copy.deepcopy(SETTINGS)
    document["dimensions"]["Empathy"]["max"] = 9
    world.settle(document)
    found = why(world, since)
    assert [w.statistic for w in found.numbers] == ["annotators.agreement"], "kappa does not depend on the ends"
    (step,) = found.numbers[0].steps
    assert (step.cause, step.step) == ("settings", Fraction(15, 16) - Fraction(7, 8))
    assert step.sentence == "the settings changed: dimensions.Empathy.max"


def test_an_ignored_annotator_is_told_as_deleted(world: World) -> None:
    since = the_page(world)
    document = copy.deepcopy(SETTINGS) | {"ignore": {"annotators": ["Ben"]}}
    world.settle(document)
    (step,) = number(why(world, since), "human_score").steps
    assert (step.cause, step.sentence) == ("annotator_deleted", "Ben is ignored as deleted")


def test_a_way_through_an_undefined_state_is_told_as_states(world: World) -> None:
    since = the_page(world)
    for i in range(4):
        world.people.rows[f"b{i}"]["retired"] = "annotator_deleted"
        world.say(f"c{i}", f"item {i + 1}", "Cem", PASS if i % 2 else FAIL)
    # added first, so the way stays defined; the other way round it does not
    assert all(s.step is not None for s in number(why(world, since), "annotators.kappa").steps)
    later = reported(world)
    for i in range(4):
        world.people.rows[f"c{i}"]["retired"] = "job_deleted"
    found = number(why(world, later), "annotators.kappa")
    assert found.after.reason == "nothing_to_compare"
    assert [(s.cause, s.step) for s in found.steps] == [("job_deleted", None)]


def test_nothing_that_changed_moves_nothing(world: World) -> None:
    since = the_page(world)
    assert why(world, since).numbers == ()


@pytest.mark.parametrize("seed", range(12))
def test_a_mixture_of_twenty_random_causes_adds_up_and_ends_at_the_reported_numbers(world: World, seed: int) -> None:
    drawn = random.Random(seed)
    document = copy.deepcopy(SETTINGS)
    if seed % 3 == 0:
        document["dimensions"]["Empathy"]["step"] = "any"  # a rating without a step is not counted in tables
    world.settle(document)
    for _ in range(120):
        world.change_at_random(drawn)
    since = reported(world)
    for _ in range(20):
        world.change_at_random(drawn)
    if seed % 2:
        document = copy.deepcopy(document)
        document["sources"]["judges"]["live"] = {"judge": drawn.choice(["v1", "v2"])}
        document["ignore"] = {"runs": [f"run {drawn.randrange(3)}"], "annotators": drawn.choice([[], ["cem"]])}
        document["dimensions"]["Empathy"]["max"] = drawn.choice([5, 6])
        world.settle(document)
    found = why(world, since)
    assert found.numbers, "twenty changes moved something"
    ends = [values(world, index) for index in (1, 0)]
    for one in found.numbers:
        key = (one.dimension, one.statistic, one.evaluator)
        for end, shown in zip(ends, (one.before, one.after), strict=True):
            if shown.value is None:
                assert end.get(key) is None, key
            else:
                assert float(shown.value) == pytest.approx(end[key], abs=1e-12), key
        assert {s.cause for s in one.steps} <= set(CAUSES)
        if all(s.step is not None for s in one.steps):
            total = sum(float(s.step or 0) for s in one.steps)
            assert one.difference is not None
            assert total == pytest.approx(float(one.difference), abs=1e-12)
    moved = {(w.dimension, w.statistic, w.evaluator) for w in found.numbers}
    for key in {*ends[0], *ends[1]} - moved:
        assert ends[0].get(key) == pytest.approx(ends[1].get(key), abs=1e-12), f"{key} changed and nothing was told"


def values(world: World, back: int) -> dict[tuple[str, str, str | None], float | None]:
    """The headline numbers of a kept report; an evaluator's are those of its live version."""
    kept = world.store.reports()[back]
    points = history.points_of(json.loads(world.store.report(kept.id)), kept)
    return {
        (p.dimension, p.statistic, p.evaluator): p.value
        for p in points
        if p.statistic != "annotators.alpha" and (p.evaluator is None or p.live)
    }


def test_the_command_tells_the_last_change_in_sentences_and_in_json(world: World) -> None:
    the_page(world)
    world.say("c0", "item 1", "Cem", FAIL, job="1")
    reported(world)
    world.path.write_text(tomlkit.dumps(SETTINGS))
    shown = CliRunner().invoke(main, ["why", "Safety", "-c", str(world.path)])
    assert shown.exit_code == 0, shown.output
    assert "the kappa between annotators on Safety went from 0.5 to -0.0125" in shown.output
    assert "Cohen's kappa became Fleiss'" in shown.output
    found = json.loads(
        CliRunner().invoke(main, ["why", "-c", str(world.path), "--since", "#1", "--format", "json"]).output
    )
    kappa = next(n for n in found["numbers"] if n["statistic"] == "annotators.kappa")
    assert sum(s["step"] for s in kappa["steps"]) == pytest.approx(kappa["difference"], abs=1e-12)
    assert kappa["steps"][0]["number"] == {"value": 7 / 15, "exact": "7/15", "reason": None, "kind": "fleiss"}
