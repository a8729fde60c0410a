"""``calibrate-plugin plan``: the golden numbers of the practice, and a target that the report holds itself to."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from labelled_study import answer, as_json, call, judge, people, run, study, write

from calibrate_plugin.cli import main


def planned(*options: str) -> dict[str, Any]:
    """Without any settings."""
    with CliRunner().isolated_filesystem():
        found = CliRunner().invoke(main, ["plan", *options, "--format", "json"])
    assert found.exit_code == 0, found.output
    made: dict[str, Any] = json.loads(found.stdout)["plan"]
    return made


# The half-widths of kappa .6 that 50 to 800 items give at each pass rate (practice 2.6), read backwards.
@pytest.mark.parametrize(
    ("pass_rate", "widths"),
    [
        ("0.5", (0.222, 0.157, 0.111, 0.078, 0.055)),
        ("0.8", (0.280, 0.198, 0.140, 0.099, 0.070)),
        ("0.9", (0.375, 0.265, 0.188, 0.133, 0.094)),
        ("0.95", (0.519, 0.367, 0.259, 0.183, 0.130)),
    ],
)
def test_the_items_for_a_width_at_a_prevalence_are_the_published_ones(
    pass_rate: str, widths: tuple[float, ...]
) -> None:
    for items, width in zip((50, 100, 200, 400, 800), widths, strict=True):
        # the widths are told to three places: half a thousandth more or less brackets the number of items
        fewer, more = (
            planned("--pass-rate", pass_rate, "--kappa", "0.6", "--half-width", f"{w:.4f}")["items_for_kappa"]
            for w in (width + 0.0006, width - 0.0006)
        )
        assert fewer <= items <= more


# Gold per class so that the lower bound is at least .80, two-sided and one-sided (practice 3.6).
@pytest.mark.parametrize(
    ("observed", "two", "one"),
    [("0.85", 276, 208), ("0.88", 118, 86), ("0.90", 74, 55), ("0.92", 54, 42), ("0.95", 33, 28)],
)
def test_the_gold_for_a_lower_bound_is_the_published_one(observed: str, two: int, one: int) -> None:
    made = planned("--observed", observed, "--bound", "0.8")
    assert made["gold_per_class"] == two
    assert planned("--observed", observed, "--bound", "0.8", "--one-sided")["gold_per_class"] == one
    assert any("are too few to say" in said for said in made["told"]) is (two > 50)


def test_people_per_item_follow_spearman_and_brown() -> None:
    assert planned("--kappa", "0.6", "--reliability", "0.8")["people"] == 3
    assert planned("--kappa", "0.8", "--reliability", "0.8")["people"] == 2
    assert planned("--kappa", "0.4", "--reliability", "0.8")["people"] == 6


def test_without_a_pass_rate_the_items_for_kappa_are_not_guessed() -> None:
    made = planned()
    assert made["items_for_kappa"] is None
    assert "give --pass-rate" in made["told"][0]


def test_a_rare_class_takes_a_larger_sample_for_its_gold() -> None:
    made = planned("--pass-rate", "0.95", "--half-width", "0.2")
    assert any("for 74 take about 1,480" in said for said in made["told"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pass-rate", "1.2"], "pass_rate is 1.2; give a share between 0 and 1"),
        (["--observed", "0.8"], "no number of items brings a bound above what is observed"),
        (["--half-width", "0", "--pass-rate", "0.5"], "half_width is 0"),
        (["--write"], "there is no such file"),
    ],
)
def test_what_cannot_be_planned_is_an_error_of_the_call(options: list[str], said: str) -> None:
    with CliRunner().isolated_filesystem():
        found = CliRunner().invoke(main, ["plan", *options])
    assert found.exit_code == 2
    assert said in found.output


def test_a_study_says_how_many_pass_and_how_many_more_items_would_decide_each_verdict(tmp_path: Path) -> None:
    made = study(tmp_path / "study", people(90, differ=range(1, 90, 7)), judge(90, wrong=range(0, 90, 6)))
    run(made)
    found = as_json(made, "plan")
    assert found["plan"]["Safety"]["asked"]["pass_rate"] == pytest.approx(0.65, abs=0.05)
    (verdict,) = found["verdicts"]
    reported = as_json(made, "run", "--no-push")["dimensions"][0]["evaluators"][0]["beside_humans"]["verdict"]
    assert (verdict["word"], verdict["more_items"]) == (reported["word"], reported["more_items"])
    assert verdict["word"] == "cannot tell yet"
    assert f"about {verdict['more_items']:,} more items would decide it (90 so far)" in call(made, "plan").stdout


def test_a_target_is_written_with_its_day_and_the_comments_stay(tmp_path: Path) -> None:
    made = study(tmp_path / "study")
    call(made, "plan", "--pass-rate", "0.8", "--half-width", "0.14", "--margin", "0.05", "--people", "2", "--write")
    text = made.read_text()
    assert text.startswith("# what stands here is kept\n")
    document = tomllib.loads(text)
    assert document["target"]["Safety"] == {
        "people": 2,
        "half_width": 0.14,
        "kappa": 0.6,
        "items": 200,
        "pass_rate": 0.8,
        "gold": 74,
        "observed": 0.9,
        "bound": 0.8,
    }
    assert document["study"]["margin"] == 0.05
    call(made, "plan", "--pass-rate", "0.8", "--half-width", "0.2", "--write")
    assert tomllib.loads(made.read_text())["target"]["Safety"]["items"] == 98


def goals(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = as_json(path, "run", "--no-push")["dimensions"][0]["labelling"]
    return found


TARGET = "\n[target.Safety]\nitems = 12\npeople = 2\ngold = 5\nhalf_width = 0.5\n"


def test_the_report_says_of_each_goal_how_far_it_is(tmp_path: Path) -> None:
    made = study(
        tmp_path / "study", [*people(10), answer("i10", "ann", "Pass"), answer("i11", "ann", "Pass")], more=TARGET
    )
    found = goals(made)
    assert found["people"] == 2
    told = {g["what"]: (g["asked"], g["reached"], g["met"]) for g in found["goals"]}
    assert told["items"] == (12, 10, False)
    # ann and ben agree on 8 of the 10; 4 of those are fails: i0, i3, i6, i9
    assert told["gold"] == (5, 4, False)
    assert told["half_width"][0] == 0.5
    text = call(made, "run", "--no-push").stdout
    assert "Target: not reached yet: 10 of 12 items answered by 2 people" in text
    page = call(made, "run", "--no-push", "--format", "html").stdout
    assert "10 of 12 items answered by 2 people" in page
    write(made.parent / "people.csv", people(24, differ=()))
    write(made.parent / "judges.csv", judge(24))
    reached = goals(made)["goals"]
    assert [g["met"] for g in reached] == [True, True, True]
    assert "Target: reached" in call(made, "run", "--no-push").stdout


def test_a_target_that_stood_before_labelling_is_kept_in_silence(tmp_path: Path) -> None:
    # the labels are of after the target: their days lie in the future of this machine
    later = [(*row[:6], "2999-01-01T00:00:00Z", *row[7:]) for row in people()]
    made = study(tmp_path / "study", later)
    call(made, "plan", "--pass-rate", "0.8", "--write")
    assert goals(made)["target_moved"] is None


def test_a_target_that_was_changed_once_labelling_had_begun_is_told(tmp_path: Path) -> None:
    later = [(*row[:6], "2999-01-01T00:00:00Z", *row[7:]) for row in people()]
    made = study(tmp_path / "study", later)
    call(made, "plan", "--pass-rate", "0.8", "--write")
    before = made.read_text()
    # the first answer came after the target was kept, and before it is changed
    write(made.parent / "people.csv", [(*row[:6], _now(), *row[7:]) for row in people()])
    made.write_text(before.replace("items = 392", "items = 100"))
    assert "items = 100" in made.read_text()
    moved = goals(made)["target_moved"]
    assert moved.startswith("changed after labelling had begun on ")
    assert moved.endswith(": items from 392 to 100")
    assert "Target, moved: changed after labelling" in " ".join(call(made, "run", "--no-push").stdout.split())


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat()


def test_a_target_that_was_written_after_the_first_answer_is_told(tmp_path: Path) -> None:
    made = study(tmp_path / "study", more=TARGET)
    assert goals(made)["target_moved"].endswith("after labelling had begun on 2026-10-01")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[target.Tone]\nitems = 3\n", "target.Tone is no dimension; there are: Safety"),
        ("[target.Safety]\npeople = 3\n", "target.Safety asks for nothing; give items, half_width or gold"),
        ("[target.Safety]\nitems = 0\n", "target.Safety.items is 0: input should be greater than or equal to 1"),
        ("[target.Safety]\nitem = 3\n", "target.Safety.item is not a key of this table"),
    ],
)
def test_a_target_that_cannot_be_meant_is_told(tmp_path: Path, table: str, said: str) -> None:
    made = study(tmp_path / "study", more="\n" + table)
    assert said in call(made, "run", "--no-push", status=2).output
