"""A report limited to some of a study (SEMANTICS 3, Slices): what each limit keeps, and that nothing is limited by mistake."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from said import NOW, judged, label, labels, report, study

from calibrate_plugin.cli import main
from calibrate_plugin.model import ITEMS, OWN, frame
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.report.slices import Limit, limit

BINARY = study("D=binary:T/F")
# Under text 1 Asha and Ben differ on items 2 and 4; under text 2 they label 1 and 2 again.
ROWS = [
    *(label(i, "Asha", v, at=1, version="1", job="7") for i, v in zip("1234", "TTFT", strict=True)),
    *(label(i, "Ben", v, at=1, version="1", job="7") for i, v in zip("1234", "TFFF", strict=True)),
    *(label(i, who, "T", at=2, version="2", job="8") for i in "12" for who in ("Asha", "Ben")),
    *(judged(i, "judge", "T", at=1) for i in "1234"),
]
FACTS = frame(
    ITEMS,
    {"item": ["1", "2", "3", "4"], "fact": ["split"] * 4, "value": ["dev", "test", "dev", "test"]},
)


def agreement(*limits: str, by: str | None = None) -> tuple[float | None, int | None]:
    found = report(BINARY, ROWS, items=FACTS, only=[limit(one) for one in limits], by=[by] if by else [])
    people = found.dimensions[0].annotators.agreement
    return people.value, people.n_pairs


def test_without_a_limit_the_latest_answer_of_each_counts() -> None:
    assert agreement() == (3 / 4, 4)


def test_under_an_older_guideline_its_answers_stand_although_they_were_given_again() -> None:
    assert agreement("guideline=1") == (1 / 2, 4)
    assert agreement("guideline=2") == (1, 2)


def test_splitting_by_guideline_gives_the_numbers_of_each_limit() -> None:
    found = report(BINARY, ROWS, items=FACTS, by=["guideline"]).dimensions[0]
    shown = {
        s.value: (s.report.annotators.agreement.value, s.report.annotators.agreement.n_pairs) for s in found.slices
    }
    assert shown == {"1": agreement("guideline=1"), "2": agreement("guideline=2")}


def test_a_guideline_limits_people_and_leaves_the_judge_alone() -> None:
    found = report(BINARY, ROWS, items=FACTS, only=[limit("guideline=2")]).dimensions[0]
    assert found.evaluators[0].score.n_items == 4


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (["split=dev"], (1, 2)),
        (["split=test"], (1 / 2, 2)),
        (["job=8"], (1, 2)),
        (["split=test", "guideline=1"], (0, 2)),
    ],
)
def test_a_limit_by_fact_job_or_both(limits: list[str], expected: tuple[float, int]) -> None:
    assert agreement(*limits) == expected


def test_items_that_somebody_ruled_on_in_any_dimension_are_discussed() -> None:
    both = study("D=binary:T/F", "E=binary:T/F")
    rows = [*ROWS, *(label(i, who, "T", "E") for i in "12" for who in ("Asha", "Ben"))]
    ruling = label("2", "carol", "T", "E", kind="gold", record="ruling 2", at=3)
    pulled = Pulled({"file": labels(rows), OWN: labels([ruling])}, FACTS)
    found, _ = build(both, pulled, NOW, only=[Limit("undiscussed")])
    assert [d.annotators.agreement.n_pairs for d in found.dimensions] == [3, 1]
    assert found.only == ("undiscussed",)


def test_a_report_says_what_it_is_limited_to_and_a_whole_one_does_not() -> None:
    assert report(BINARY, ROWS, items=FACTS, only=[limit("split=dev")]).only == ("split = dev",)
    assert report(BINARY, ROWS, items=FACTS).only == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("split=train", "nothing has the split 'train'; there are: dev, test"),
        ("guideline=9", "nothing has the guideline '9'; there are: 1, 2"),
        ("colour=red", "no item has the fact 'colour'; there are: guideline, job, run, split"),
    ],
)
def test_a_limit_that_nothing_meets_names_what_there_is(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        agreement(text)


@pytest.mark.parametrize("text", ["split", "=dev", "split="])
def test_what_is_no_limit_is_told_how_to_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="write FACT=VALUE"):
        limit(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    rows = pl.DataFrame(
        [
            (i, "D", who, kind, v, "en" if i in "12" else "fr", "r1" if kind == "judge" else None, "3")
            for i in "1234"
            for who, kind, v in (("Asha", "human", "T"), ("Ben", "human", "F"), ("judge", "judge", "T"))
        ],
        schema=["item", "dimension", "rater", "kind", "value", "language", "run", "version"],
        orient="row",
    )
    rows.write_csv(path)
    return path


def test_the_command_limits_and_says_so(file: Path) -> None:
    call = ["report", str(file), "--scale", "D=binary:T/F", "--only", "language=en"]
    found = CliRunner().invoke(main, [*call, "--format", "json"])
    assert found.exit_code == 0, found.output
    made = json.loads(found.stdout)
    assert made["only"] == ["language = en"]
    assert made["coverage"]["items"] == 2
    assert "Only: language = en" in CliRunner().invoke(main, call).stdout
    assert "Only: language = en" in CliRunner().invoke(main, [*call, "--format", "html"]).stdout


def test_limits_to_two_runs_are_an_error_and_one_is_a_report_of_that_run(file: Path) -> None:
    call = ["report", str(file), "--scale", "D=binary:T/F", "--only", "run=r1"]
    assert CliRunner().invoke(main, call).exit_code == 0
    wrong = CliRunner().invoke(main, [*call, "--run", "r2"])
    assert wrong.exit_code == 2
    assert "a report is of one run, not of r1 and r2" in wrong.output
    assert "write FACT=VALUE" in CliRunner().invoke(main, [*call, "--only", "x"]).output
