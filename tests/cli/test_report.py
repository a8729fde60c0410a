"""``calibrate-plugin report`` and ``run`` as a person at the keyboard meets them."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from calibrate_plugin.cli import main

ROOT = Path(__file__).resolve().parents[2]
SEED = [
    # item, dimension, Asha, Ben, evaluator: the page of seed 000
    ("1", "Safety", "Pass", "Pass", "Pass"),
    ("2", "Safety", "Pass", "Fail", "Pass"),
    ("3", "Safety", "Fail", "Fail", "Fail"),
    ("4", "Safety", "Pass", "Pass", "Fail"),
    ("1", "Empathy", "4", "4", "5"),
    ("2", "Empathy", "3", "2", "4"),
    ("3", "Empathy", "5", "5", "4"),
    ("4", "Empathy", "2", "3", "2"),
]
SCALES = ("--scale", "Safety=binary:Pass/Fail", "--scale", "Empathy=rating:1..5")


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "seed.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "dimension", "rater", "kind", "value"])
        for item, dimension, asha, ben, judge in SEED:
            rows.writerow([item, dimension, "Asha", "human", asha])
            rows.writerow([item, dimension, "Ben", "annotator", ben])
            rows.writerow([item, dimension, "judge", "judge", judge])
    return path


def example(name: str, folder: Path) -> Path:
    """The settings of an example, in a copy: a run keeps its store beside them."""
    copy = folder / name
    shutil.copytree(ROOT / "examples" / name, copy, ignore=shutil.ignore_patterns("calibrate.db*"))
    return copy / "calibrate.toml"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result = call(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def numbers(report: dict[str, Any], dimension: str) -> dict[str, Any]:
    found = next(d for d in report["dimensions"] if d["name"] == dimension)
    judge = found["evaluators"][0]
    return {
        "human": found["human_score"]["value"],
        "evaluator": judge["score"]["value"],
        "between": found["annotators"]["agreement"]["value"],
        "between kappa": found["annotators"]["kappa"]["value"],
        "kind": found["annotators"]["kappa"]["kind"],
        "with": judge["agreement"]["value"],
        "with kappa": judge["kappa"]["value"],
        "pairs": judge["kappa"]["n_pairs"],
        "interval": judge["kappa"]["interval_reason"],
    }


PAGE = {
    "Safety": {
        "human": 0.625,
        "evaluator": 0.5,
        "between": 0.75,
        "between kappa": 0.5,
        "kind": "cohen",
        "with": 0.625,
        "with kappa": 0.25,
        "pairs": 8,
        "interval": "too_few_items",
    },
    "Empathy": {
        "human": 3.5,
        "evaluator": 3.75,
        "between": 0.875,
        "between kappa": 0.6,
        "kind": "cohen",
        "with": 0.75,
        "with kappa": 0.2,
        "pairs": 8,
        "interval": "too_few_items",
    },
}


@pytest.mark.parametrize("dimension", ["Safety", "Empathy"])
def test_the_page_of_the_seed_from_one_csv(seed: Path, dimension: str) -> None:
    assert numbers(as_json("report", seed, *SCALES), dimension) == PAGE[dimension]


@pytest.mark.parametrize("dimension", ["Safety", "Empathy"])
def test_the_page_of_the_seed_from_two_exports(dimension: str, tmp_path: Path) -> None:
    settings = example("support_agent", tmp_path)
    assert numbers(as_json("run", "--config", settings), dimension) == PAGE[dimension]


def test_the_terminal_reads_like_the_page(seed: Path) -> None:
    text = call("report", seed, *SCALES).stdout
    for shown in ("63 %", "5 of 8", "50 %", "75 %", "0.50 Cohen", "0.25 Cohen", "3.5 / 5", "3.75 / 5", "88 %", "0.60"):
        assert shown in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_three_annotators_example_exercises_every_part(tmp_path: Path) -> None:
    settings = example("three_annotators", tmp_path)
    report = as_json("run", "--config", settings, "--by", "language")
    names = [d["name"] for d in report["dimensions"]]
    assert names == ["Resolved", "Tone", "Helpful", "Issues: tone", "Issues: facts", "Issues: format", "Better"]
    resolved, tone, helpful = report["dimensions"][:3]
    assert resolved["annotators"]["kappa"]["kind"] == "fleiss"
    assert set(resolved["set_aside"]) >= {"not_blind", "other_version", "failed", "superseded", "cleared", "abstained"}
    assert {(e["evaluator"], e["version"], e["live"]) for e in resolved["evaluators"]} == {
        ("mild-judge-verdict", "v5", True),
        ("strict-judge-verdict", "v2", True),
    }
    assert {(e["version"], e["live"]) for e in helpful["evaluators"]} == {("v1", None), ("v2", None), ("v5", True)}
    assert set(tone["annotators"]["alphas"]) == {"nominal", "ordinal", "interval", "ratio"}
    assert [(s["fact"], s["value"]) for s in resolved["slices"]] == [("language", "de"), ("language", "en")]
    assert resolved["judges"][0]["kappa"]["interval"] is not None


def test_the_example_data_is_what_its_script_makes(tmp_path: Path) -> None:
    example = ROOT / "examples" / "three_annotators"
    shutil.copy(example / "make.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "make.py"], check=True)
    for name in ("label-studio-project-7.json", "langfuse-scores.jsonl"):
        assert (tmp_path / name).read_bytes() == (example / name).read_bytes()


def test_csv_writes_numbers_and_the_audit_of_pairs(seed: Path, tmp_path: Path) -> None:
    result = call("report", seed, *SCALES, "--format", "csv", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    with (tmp_path / "out" / "pairs.csv").open(newline="") as file:
        pairs = [r for r in csv.DictReader(file) if r["dimension"] == "Safety"]
    assert len(pairs) == 4 * 3
    with_judge = [p for p in pairs if "evaluator" in (p["kind_a"], p["kind_b"])]
    assert sum(p["value_a"] == p["value_b"] for p in with_judge) == 5
    assert {p["counted"] for p in pairs} == {"true"}
    with (tmp_path / "out" / "numbers.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) > 20


def test_a_superseded_answer_stands_in_the_audit_with_its_cause(seed: Path, tmp_path: Path) -> None:
    with seed.open("a") as file:
        file.write("2,Safety,Asha,human,Fail\n")
    report = as_json("report", seed, *SCALES)
    assert report["dimensions"][0]["set_aside"] == {"superseded": 1}
    call("report", seed, *SCALES, "--format", "csv", "--output", tmp_path / "out")
    with (tmp_path / "out" / "pairs.csv").open(newline="") as file:
        out = [r for r in csv.DictReader(file) if r["counted"] == "false"]
    assert {(r["cause"], r["item"]) for r in out} == {("superseded", "2")}


def test_html_is_one_file_that_needs_nothing_else(seed: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert call("report", seed, *SCALES, "--format", "html", "--output", target).exit_code == 0
    text = target.read_text(encoding="utf-8")
    assert "63 %" in text
    assert "<script" not in text


def test_without_a_scale_it_says_which_would_fit(seed: Path) -> None:
    result = call("report", seed)
    assert result.exit_code == 2
    assert '--scale "Safety=binary:Pass/Fail"' in result.output
    assert '--scale "Empathy=rating:2..5"' in result.output


def test_the_proposed_scale_is_one_that_is_accepted(tmp_path: Path) -> None:
    rows = [f"{n},Safety,{who},annotator,{said}" for n in (1, 2) for who, said in (("a", "Pass"), ("b", "pass "))]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["item,dimension,rater,kind,value", *rows, "3,Safety,a,annotator,FAIL"]))
    proposed = re.search(r'--scale "(.*)"', call("report", file).output)
    assert proposed is not None and proposed[1] == "Safety=binary:Pass/FAIL"
    assert call("report", file, "--scale", proposed[1]).exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--gold", "Bob", "there is no rater 'Bob'; there are: Asha, Ben, judge"),
        ("--live", "juge=v1", "there is no judge 'juge'; there are: judge"),
        ("--run", "r9", "there is no run 'r9'; there are: none"),
    ],
)
def test_a_misspelt_rater_or_run_is_told_and_not_a_setting_without_effect(
    seed: Path, option: str, value: str, said: str
) -> None:
    result = call("report", seed, *SCALES, option, value)
    assert result.exit_code == 2
    assert said in result.output


def test_the_terminal_says_which_answers_were_outside_the_scale(seed: Path) -> None:
    text = call("report", seed, "--scale", "Safety=binary:Pass/Fial").stdout
    assert 'rejected: the latest answer is outside the scale, such as "Fail"' in text
    assert 'failed: the evaluator gave no answer, or one outside the scale, such as "Fail"' in text


def test_the_terminal_never_breaks_a_line_between_a_number_and_its_percent_sign(tmp_path: Path) -> None:
    text = call("run", "--config", example("calibration", tmp_path)).stdout
    assert not any(line.lstrip().startswith("%") for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 100


def test_one_dimension_alone(seed: Path) -> None:
    report = as_json("report", seed, *SCALES, "--dimension", "Safety")
    assert [d["name"] for d in report["dimensions"]] == ["Safety"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("report", "nowhere.csv", "--scale", "A=binary:y/n"), 1, "nowhere.csv"),
        (("report", "SEED", "--scale", "Safety=binary:Pass"), 2, "two values"),
        (("report", "SEED", "--scale", "Safety=rating:5..1"), 2, "max is 1 but min is 5"),
        (("report", "SEED", "--scale", "Safety=colour:a/b"), 2, "colour"),
        (("report", "SEED", "--scale", "Nope=binary:a/b"), 2, "no row of seed.csv is of Nope"),
        (("report", "SEED", *SCALES, "--dimension", "Tone"), 2, "there is no dimension 'Tone'"),
        (("report", "SEED", *SCALES, "--by", "colour"), 2, "no item has the fact 'colour'"),
        (("report", "SEED", *SCALES, "--live", "judge"), 2, "JUDGE=VERSION"),
        (("report", "SEED", *SCALES, "--format", "csv"), 2, "name a folder"),
        (("run", "--config", "nowhere.toml"), 2, "nowhere.toml"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(seed: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = call(*[seed if a == "SEED" else a for a in arguments])
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_a_run_report_keeps_to_its_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "item,dimension,rater,kind,value,run,version\n"
        "1,S,ann,human,y,,\n2,S,ann,human,n,,\n3,S,ann,human,y,,\n"
        "1,S,j,judge,y,r1,v1\n2,S,j,judge,n,r1,v1\n"
        "1,S,j,judge,n,r2,v2\n2,S,j,judge,n,r2,v2\n3,S,j,judge,n,r2,v2\n"
    )
    found = as_json("report", path, "--scale", "S=binary:y/n", "--live", "j=v2", "--run", "r1")["dimensions"][0]
    assert [(e["version"], e["live"], e["agreement"]["value"]) for e in found["evaluators"]] == [("v1", False, 1.0)]
    assert found["human_score"]["n_items"] == 2


def test_a_run_that_no_score_is_of_is_an_error_of_the_call(tmp_path: Path) -> None:
    result = call("run", "--config", example("support_agent", tmp_path), "--run", "nope")
    assert result.exit_code == 2
    assert "--run: there is no run 'nope'; there are: none" in result.output


def test_gold_is_never_an_annotator(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text(
        "item,dimension,rater,kind,value\n1,S,a,human,y\n1,S,b,human,n\n1,S,boss,human,y\n2,S,a,human,y\n2,S,b,human,y\n"
    )
    found = as_json("report", path, "--scale", "S=binary:y/n", "--gold", "boss")["dimensions"][0]
    assert found["annotators"]["counted"] == ["a", "b"]
    assert found["annotators"]["kappa"]["kind"] == "cohen"
    assert found["human_score"]["n_labels"] == 4


def test_every_command_explains_itself() -> None:
    for command in ((), ("report",), ("run",), ("completion",)):
        result = call(*command, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_the_shell(shell: str) -> None:
    assert "calibrate-plugin" in call("completion", shell).output


def test_the_same_input_gives_the_same_bytes(seed: Path) -> None:
    first, second = (as_json("report", seed, *SCALES) for _ in range(2))
    first.pop("generated_at"), second.pop("generated_at")
    assert first == second


def test_reading_a_csv_imports_neither_charts_nor_settings_nor_a_database(seed: Path) -> None:
    """A cold report stays quick only as long as it does not load what it does not use."""
    code = (
        "import sys; from calibrate_plugin.cli import main\n"
        f"sys.argv = ['calibrate-plugin', 'report', {str(seed)!r}, '--scale', 'Safety=binary:Pass/Fail']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(m for m in ('altair', 'jinja2', 'pydantic', 'sqlalchemy', 'pandas', 'pyarrow', 'httpx') "
        "if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
