"""``calibrate-plugin disagreements``: from what differs to rulings and their causes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from labelled_study import answer, as_json, call, judge, people, run, study, write

from calibrate_plugin.cli import main

RULE = ("--value", "Fail", "--cause", "ambiguous", "--reason", "it promises a refund", "--by", "Carol")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = study(tmp_path / "study")
    run(made)
    return made


def test_the_list_shows_every_answer_with_its_reason(path: Path) -> None:
    found = as_json(path, "disagreements", "list")["Safety"]
    assert found["total"] == 3
    shown = {one["item"]: {a["rater"]: (a["value"], a["reason"]) for a in one["answers"]} for one in found["items"]}
    assert shown["i1"] == {"ann": ("Pass", "ann on 1"), "ben": ("Fail", "ben on 1"), "judge": ("Pass", None)}
    assert set(shown) == {"i0", "i1", "i4"}
    text = call(path, "disagreements", "list").stdout
    assert "Safety: answers differ on 3 items" in text
    assert "ben on 4" in text


@pytest.mark.parametrize(("options", "expected"), [(["--between", "humans"], {"i1", "i4"}), (["--most", "1"], {"i0"})])
def test_the_list_can_be_narrowed(path: Path, options: list[str], expected: set[str]) -> None:
    found = as_json(path, "disagreements", "list", *options)["Safety"]
    assert {one["item"] for one in found["items"]} == expected


def test_a_ruling_shows_in_the_list_the_counts_and_the_report(path: Path) -> None:
    said = call(path, "disagreements", "rule", "i1", *RULE).stdout
    assert said == "ruled: Fail (the guideline can be read two ways), by Carol\n"
    assert call(path, "disagreements", "rule", "i1", *RULE).stdout == "that was the ruling already\n"
    (one,) = as_json(path, "disagreements", "list", "--ruling", "ruled")["Safety"]["items"]
    assert one["ruling"]["reason"] == "it promises a refund"
    assert as_json(path, "disagreements", "causes") == {
        "Safety": {
            "guideline_silent": 0,
            "ambiguous": 1,
            "annotator_mistake": 0,
            "judge_mistake": 0,
            "not_ruled_on": 2,
        }
    }
    assert "     1  the guideline can be read two ways" in call(path, "disagreements", "causes").stdout
    made = as_json(path, "run", "--no-push")["dimensions"][0]
    gold = made["gold"]
    assert (gold["rule"], gold["decided"], gold["tied"], gold["resolved"]) == ("majority", 11, 1, 1)
    assert "ruled Fail by Carol" in call(path, "disagreements", "list").stdout
    call(path, "disagreements", "clear", "i1")
    assert as_json(path, "disagreements", "causes")["Safety"]["not_ruled_on"] == 3


def test_who_rules_may_stand_in_the_environment(path: Path) -> None:
    call(path, "disagreements", "rule", "i1", *RULE[:-2], env={"CALIBRATE_BY": "Dan"})
    (one,) = as_json(path, "disagreements", "list", "--ruling", "ambiguous")["Safety"]["items"]
    assert one["ruling"]["by"] == "Dan"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", *RULE], "no label is of the item 'nowhere'"),
        (["i1", *RULE, "--value", "Maybe"], "there are: Pass, Fail"),
        (["i1", *RULE, "--reason", " "], "the reason is missing"),
        (["i1", *RULE, "--dimension", "Tone"], "there is no dimension 'Tone'"),
        (["i1", *RULE, "--cause", "fate"], "is not one of"),
    ],
)
def test_what_cannot_be_meant_is_an_error_of_the_call(path: Path, arguments: list[str], said: str) -> None:
    assert said in call(path, "disagreements", "rule", *arguments, status=2).output
    assert as_json(path, "disagreements", "causes")["Safety"]["not_ruled_on"] == 3


def test_what_is_exported_is_filled_in_and_imported(path: Path, tmp_path: Path) -> None:
    write(
        path.parent / "people.csv",
        [*people(), answer("=1+1", "ann", "Pass", reason="=2"), answer("=1+1", "ben", "Fail", reason="-3")],
    )
    run(path)
    exported = tmp_path / "open.csv"
    call(path, "disagreements", "export", "--between", "humans", "-o", str(exported))
    rows = list(csv.DictReader(io.StringIO(exported.read_bytes().decode())))
    assert [row["item"] for row in rows] == ["'=1+1", "i1", "i4"]
    assert rows[1]["answers"].splitlines()[:2] == ["ann: Pass (ann on 1)", "ben: Fail (ben on 1)"]
    rows[0] |= {"value": "Fail", "cause": "guideline_silent", "reason": "no", "by": "Carol"}
    rows[1] |= {"value": "pass", "cause": "annotator_mistake", "reason": "a slip", "by": ""}
    with exported.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    said = call(path, "disagreements", "import", str(exported), "--by", "Dan").stdout
    assert said == "2 rulings written, 1 rows without a value, 0 set aside\n"
    found = as_json(path, "disagreements", "list", "--ruling", "ruled")["Safety"]["items"]
    assert {one["item"]: (one["ruling"]["value"], one["ruling"]["by"]) for one in found} == {
        "=1+1": ("Fail", "Carol"),
        "i1": ("Pass", "Dan"),
    }
    again = [
        json.loads(line) for line in call(path, "disagreements", "export", "--format", "jsonl").stdout.splitlines()
    ]
    assert {row["item"]: row["value"] for row in again} == {"=1+1": "Fail", "i1": "Pass", "i0": "", "i4": ""}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rare_ends_of_lines_in_a_reason_end_no_row(path: Path, tmp_path: Path, form: str) -> None:
    reason = "one\u2028two\x85three\x0bfour"
    told = {"item": "i1", "value": "Fail", "cause": "ambiguous", "reason": reason, "by": "Carol"}
    file = tmp_path / f"rulings.{form}"
    rows = [",".join(told), ",".join(told.values())] if form == "csv" else [json.dumps(told, ensure_ascii=False)]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    said = call(path, "disagreements", "import", str(file)).stdout
    assert said == "1 rulings written, 0 rows without a value, 0 set aside\n"
    (one,) = as_json(path, "disagreements", "list", "--ruling", "ruled")["Safety"]["items"]
    assert (one["ruling"]["reason"], one["ruling"]["by"]) == (reason, "Carol")


def test_an_item_with_very_long_reasons_is_exported_and_imported(path: Path, tmp_path: Path) -> None:
    long = [answer("long", who, value, reason="x" * 100_000) for who, value in (("ann", "Pass"), ("ben", "Fail"))]
    write(path.parent / "people.csv", [*people(), *long])
    run(path)
    exported = tmp_path / "open.csv"
    call(path, "disagreements", "export", "-o", str(exported))
    said = call(path, "disagreements", "import", str(exported)).stdout
    assert said == "0 rulings written, 4 rows without a value, 0 set aside\n"


def test_rows_that_cannot_be_meant_are_set_aside_and_the_rest_is_written(path: Path, tmp_path: Path) -> None:
    good = {"item": "i1", "value": "Fail", "cause": "ambiguous", "reason": "r", "by": "Carol"}
    lines = [
        json.dumps(good),
        "not json {",
        json.dumps(good | {"value": "Maybe"}),
        json.dumps(good | {"item": "nowhere"}),
        json.dumps(good | {"item": "i4", "cause": "fate\u001b[31m"}),
        json.dumps([1]),
        json.dumps(good | {"value": None}),
    ]
    file = tmp_path / "rulings.jsonl"
    file.write_text("\n".join(lines) + "\n")
    found = call(path, "disagreements", "import", str(file), status=1)
    assert found.stdout == "1 rulings written, 1 rows without a value, 5 set aside\n"
    assert "rulings.jsonl: line 3: 'Maybe' is no answer on Safety; there are: Pass, Fail" in found.stderr
    assert "line 4: no label is of the item 'nowhere'" in found.stderr
    assert "line 2: not JSON" in found.stderr
    assert "\x1b" not in found.stderr


def test_a_file_without_the_columns_is_an_error_of_the_call(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "rulings.csv"
    file.write_text("item,verdict\ni1,Fail\n")
    assert (
        "there is no column value; it needs item, dimension"
        in call(path, "disagreements", "import", str(file), status=2).output
    )


def test_before_anything_was_pulled_there_is_nothing_to_list(tmp_path: Path) -> None:
    made = study(tmp_path / "study")
    assert "nothing was pulled yet" in call(made, "disagreements", "list", status=2).output


def test_with_several_dimensions_one_must_be_named(tmp_path: Path) -> None:
    more = '\n[dimensions.Tone]\nscale = "binary"\nvalues = ["Pass", "Fail"]\n'
    made = study(tmp_path / "study", judged=judge(), more=more)
    run(made)
    assert (
        "there are several dimensions (Safety, Tone)"
        in call(made, "disagreements", "rule", "i1", *RULE, status=2).output
    )
    call(made, "disagreements", "rule", "i1", "--dimension", "Safety", *RULE)


def test_help_names_the_commands() -> None:
    shown = CliRunner().invoke(main, ["disagreements", "--help"]).stdout
    assert all(name in shown for name in ("list", "rule", "clear", "causes", "export", "import"))
