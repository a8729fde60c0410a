"""The calibration on every screen, in every file and as scores."""

from __future__ import annotations

import json
import math
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calibrate_langfuse.numbers import CALIBRATION, numbers
from calibrated_cases import as_json, by_judge, judge_of, made, paradox, said_by
from click.testing import CliRunner, Result
from said import grid, judged, label, report, study

from calibrate_plugin.cli import main
from calibrate_plugin.config import read
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.report import csv, html, terminal

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "calibration"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The example of the README in every format."""
    folder = tmp_path_factory.mktemp("example")
    for name in ("calibrate.toml", "labels.csv", "items.csv"):
        shutil.copy(EXAMPLE / name, folder / name)
    made: dict[str, Any] = {}
    for form, target in (("json", "r.json"), ("html", "r.html"), ("terminal", "r.txt"), ("csv", "tables")):
        result = call("run", "--config", folder / "calibrate.toml", "--format", form, "--output", folder / target)
        assert result.exit_code == 0, result.output
        made[form] = folder / target
    made["folder"] = folder
    return made


def judges(example: dict[str, Any]) -> dict[str, Any]:
    told = json.loads(example["json"].read_text(), parse_constant=lambda token: pytest.fail(token))
    return {j["evaluator"]: j for d in told["dimensions"] for j in (*d["evaluators"], *d["judges_without_answers"])}


def test_the_example_shows_every_part_of_a_calibration(example: dict[str, Any]) -> None:
    found = judges(example)
    assert set(found) == {"stater", "sampler", "scorer", "picker"}
    stater = found["stater"]
    assert stater["beside_humans"]["weighted"]["value"] is not None
    assert stater["beside_humans"]["verdict"]["margin"] == 0.1 and stater["beside_humans"]["annotators"] == [
        "asha",
        "ben",
        "chen",
    ]
    assert stater["against_gold"]["positive"] == "Fail" and stater["against_gold"]["is_weighted"] is True
    assert stater["against_gold"]["tpr"] == stater["against_gold"]["recall"]
    assert stater["against_gold"]["kappa"]["value"] < stater["against_gold"]["left_out"]["kappa"]["value"]
    assert stater["confidence"]["stated"]["ece"]["value"] is not None and stater["confidence"]["draws"] is None
    assert [r["period"] for r in stater["corrected_rate"]] == [None, "2026-W41", "2026-W42", "2026-W43", "2026-W44"]
    assert stater["corrected_rate"][0]["method"] == "post-stratification"
    assert found["sampler"]["confidence"]["draws"]["draws_per_item"] and found["sampler"]["coverage"]["failed"] == 3
    assert found["sampler"]["corrected_rate"][0]["rate"]["reason"] == "wrong_design"
    assert found["scorer"]["thresholds"]["test"]["tpr"]["value"] is not None and found["scorer"]["against_gold"] is None
    assert found["picker"]["position"]["consistent"]["value"] == pytest.approx(2 / 3)
    design = json.loads(example["json"].read_text())["dimensions"][0]["design"]
    assert design == {
        "kind": "stratified", "dimension": "Correct", "judge": "stater", "weighted": True, "chosen": 120, "unknown": 0,
    }  # fmt: skip


def test_the_truth_that_the_example_plays_lies_inside_its_corrected_rate_and_not_in_the_judges_own(
    example: dict[str, Any],
) -> None:
    # make.py: 0.86 falling evenly by 0.12 is 0.80 on average.
    rate = judges(example)["stater"]["corrected_rate"][0]
    assert rate["rate"]["interval"]["low"] < 0.80 < rate["rate"]["interval"]["high"]
    assert rate["observed"]["interval"]["low"] > 0.80


def test_making_the_example_again_gives_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    shutil.copy(EXAMPLE / "make.py", tmp_path / "make.py")
    runpy.run_path(str(tmp_path / "make.py"), run_name="__main__")
    for name in ("labels.csv", "items.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes()


def test_the_terminal_tells_the_verdict_first(example: dict[str, Any]) -> None:
    lines = example["terminal"].read_text().splitlines()
    block = lines[lines.index("stater v2", lines.index("How good the judges are")) :]
    assert block[1].startswith("  Beside the humans: cannot tell yet; about")
    text = " ".join(" ".join(lines).split())
    for part in (
        "Sampling design: chosen in strata of what stater said; 120 items with inclusion probabilities.",
        "describes the labelled items (chosen in strata of what stater said), not all items; what may be judged stands under",
        "Corrected rate: people would say Pass",
        "Alternative annotator test: no outcome: not valid for the way in which the gold items were chosen",
        "scorer v1: gave no answer that counts",
        "Judges side by side",
    ):
        assert part in text
    assert all(len(line) <= terminal.WIDTH for line in lines)


def test_the_page_has_every_picture_and_stays_without_script(example: dict[str, Any]) -> None:
    page = example["html"].read_text()
    for caption in (
        "Kappa against the human ceiling",
        "Stated confidence: how often it is right",
        "Confidence of its draws: how often it is right",
        "What every threshold would do",
        "Corrected rate over time",
        "Against gold, item by item",
        "Judges side by side",
    ):
        assert caption in page
    assert (
        "Each score of people, agreement and kappa describes the labelled items (chosen in strata of what stater"
        in page
    )
    assert "<script" not in page and "style=" not in page and "NaN" not in page
    assert page.count('<article class="card calibrated">') == 4


def test_every_number_is_a_row_of_numbers_csv(example: dict[str, Any]) -> None:
    import polars as pl

    table = pl.read_csv(example["csv"] / "numbers.csv", infer_schema_length=None)
    mine = table.filter((pl.col("rater_a") == "stater") & (pl.col("dimension") == "Correct"))
    told = judges(example)["stater"]
    difference = mine.row(by_predicate=pl.col("statistic") == "beside_humans.weighted", named=True)
    assert difference["value"] == pytest.approx(told["beside_humans"]["weighted"]["value"])
    assert difference["low"] == pytest.approx(told["beside_humans"]["weighted"]["interval"]["low"])
    tpr = mine.row(by_predicate=pl.col("statistic") == "against_gold.tpr", named=True)
    assert (tpr["kind"], tpr["version"], tpr["subject"]) == ("Fail", "v2", "evaluator")
    rates = mine.filter(pl.col("statistic") == "corrected_rate")
    assert rates["kind"].to_list() == [None, "2026-W41", "2026-W42", "2026-W43", "2026-W44"]
    compared = table.filter(pl.col("statistic") == "judges_compared.accuracy_difference")
    assert compared.select("subject", "rater_a", "rater_b").row(0) == ("evaluator_pair", "sampler v1", "stater v2")
    undefined = table.filter(pl.col("value").is_null())
    assert undefined["reason"].null_count() == 0


def test_csv_has_no_number_of_a_calibration_that_was_not_made() -> None:
    rows = grid(asha="TF", ben="TT") + grid(kind="evaluator", judge="TF")
    plain = csv.numbers(report(study(), rows))
    more = csv.numbers(made(study(), rows))
    assert not plain["statistic"].str.contains(".", literal=True).any()
    assert more.filter(~more["statistic"].str.contains(r"\.|^coverage$|_rate$")).equals(plain)


# --- scores


def test_the_difference_tpr_tnr_and_the_corrected_rate_are_pushed_with_their_intervals() -> None:
    rows, facts = paradox(("asha", "ben"), "annotator")
    told = {n.name: n for n in numbers(made(study(design=by_judge()), rows, facts))}
    here = next(name for name in told if name.endswith("corrected_rate")).removesuffix("corrected_rate")
    assert told[f"{here}corrected_rate"].value == pytest.approx(0.922)
    assert told[f"{here}beside_humans.weighted"].value == pytest.approx(-0.399, abs=5e-4)
    tpr = told[f"{here}against_gold.tpr"]
    assert tpr.value == pytest.approx(0.9892, abs=5e-5) and tpr.beside["positive"] == "T"
    for name in ("corrected_rate", "beside_humans.difference", "against_gold.tpr", "against_gold.tnr"):
        beside = told[here + name].beside
        assert beside["interval"]["low"] < told[here + name].value < beside["interval"]["high"]
        assert beside["evaluator"] == {"name": "judge", "version": ""}
    assert not any("asha" in json.dumps([n.name, n.comment, dict(n.beside)]) for n in told.values())


def test_a_refused_number_is_pushed_as_its_reason_and_a_design_that_was_never_told_not_at_all() -> None:
    rows, _ = paradox(("asha", "ben"), "annotator")
    told = {n.name.rpartition("evaluators.judge.")[2]: n for n in numbers(made(study(design=by_judge()), rows))}
    assert told["against_gold.tpr.status"].value == "no_weights" and "against_gold.tpr" not in told
    assert "inclusion probabilities" in (told["against_gold.tpr.status"].comment or "")
    silent = [n.name for n in numbers(made(study(), rows))]
    assert not any("corrected_rate" in name for name in silent)
    plain = [n.name for n in numbers(report(study(), rows))]
    assert not any(part in name for name in plain for part in CALIBRATION)


def test_each_span_has_a_score_of_its_own(example: dict[str, Any]) -> None:
    from datetime import UTC, datetime

    rows, facts = paradox()
    rows = [r | {"at": datetime(2026, 10, 5 + int(r["item"]) % 14, tzinfo=UTC)} for r in rows]
    told = [n.name for n in numbers(made(study(design=by_judge()), rows, facts)) if "corrected_rate" in n.name]
    assert [name.rpartition("judge.")[2] for name in told] == [
        "corrected_rate", "corrected_rate[2026-W41]", "corrected_rate[2026-W42]",
    ]  # fmt: skip


# --- hostile and extreme


def test_names_are_text_everywhere() -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m\u202e=cmd"
    rows = grid(asha="TTFF" * 10, ben="TTFT" * 10) + [judged(str(i), evil, "TF"[i % 2]) for i in range(1, 41)]
    rows += [judged(str(i), "judge", "TF"[i % 2]) for i in range(1, 41)]
    rows += [label(str(i), evil + "2", "T") for i in range(1, 41)]
    found = made(study(), rows)
    page, text = html.render(found), terminal.render(found)
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page
    assert "\x1b" not in text and "\u202e" not in text
    as_json(found)


def test_an_infinite_t_is_no_number_in_json() -> None:
    rows = grid(asha="TF" * 40, ben="TF" * 40, chen="TF" * 40) + grid(kind="evaluator", judge="TF" * 40)
    found = made(study(), rows)
    test = judge_of(found).alt_test
    assert test is not None and any(math.isinf(a.statistic or 0) for a in test.annotators)
    told = as_json(found)["dimensions"][0]["evaluators"][0]["alt_test"]["annotators"]
    assert [a["statistic"] for a in told] == [None] * 3 and [a["p_value"] for a in told] == [0.0] * 3


@pytest.mark.parametrize(
    "spec",
    ["D=binary:T/F", "D=nominal:T/F/X", "D=ordinal:F/X/T", "D=preference:T/F/X", "D=rating:0..1", "D=rating:0..1:any"],
)
@pytest.mark.parametrize("n", [1, 12])
def test_every_scale_and_size_can_be_shown(spec: str, n: int, tmp_path: Path) -> None:
    answers = {"asha": "TTF" * n, "ben": "TFF" * n, "judge": "TFT" * n}
    if "rating" in spec:
        made_of: dict[str, Any] = {who: [int(a == "T") for a in given] for who, given in answers.items()}
    else:
        made_of = dict(answers)
    judge = made_of.pop("judge")
    found = made(study(spec), grid(**made_of) + grid(kind="evaluator", judge=judge))
    as_json(found)
    html.render(found)
    terminal.render(found)
    csv.write_numbers(found, tmp_path / "numbers.csv")


# --- settings and the command line

BASE = """
[study]
name = "s"
[dimensions.A]
scale = "binary"
values = ["Pass", "Fail"]
[dimensions.B]
scale = "rating"
min = 1
max = 5
[sources.x]
connector = "files"
file = "x.csv"
"""


def settings(text: str, base: str = BASE) -> Any:
    return read(tomllib.loads(base + text), Path("calibrate.toml")).study


def test_a_design_is_read() -> None:
    design = settings('[design]\nkind = "stratified"\njudge = "j"\ndimension = "A"').design
    assert (design.kind, design.judge, design.dimension) == ("stratified", "j", "A")
    assert (design.stratum, design.probability, design.period) == ("stratum", "probability", "week")
    assert settings('[design]\nkind = "random"\nperiod = "day"').design.period == "day"
    assert settings("").design is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "stratified"\ndimension = "A"', "design.judge is missing"),
        ('kind = "stratified"\njudge = "j"', "design.dimension is missing; name the one.*A, B"),
        ('kind = "balanced"\ndimension = "C"', "design.dimension is 'C'"),
        ('kind = "balanced"\ndimension = "A"\njudge = "j"', 'write kind = "stratified"'),
        ('kind = "random"\nprobability = "p"', "design.probability means nothing where items are chosen at random"),
        ('kind = "quota"', "design.kind is 'quota'"),
        ('dimension = "A"', "design.kind is missing"),
    ],
)
def test_a_design_that_cannot_be_is_refused_with_the_way_out(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(f"[design]\n{text}")


def test_a_positive_class_is_one_of_the_scale() -> None:
    def declared(line: str) -> Any:
        return settings("", BASE.replace('values = ["Pass", "Fail"]', f'values = ["Pass", "Fail"]\n{line}')).dimensions[
            0
        ]

    assert declared('positive = "fail"').positive == "Fail" and declared("").positive is None
    with pytest.raises(
        SettingsError, match=r"dimensions.A.positive is 'Maybe', which is not on the scale; it has Pass, Fail"
    ):
        declared('positive = "Maybe"')
    with pytest.raises(SettingsError, match="positive belongs to a binary, nominal, ordinal or preference scale"):
        settings("", BASE.replace("max = 5", 'max = 5\npositive = "5"'))


def labels_file(folder: Path) -> Path:
    rows = said_by("judge", "TTFF" * 10) + said_by("lead", "TFFF" * 10, kind="gold")
    lines = [f"{r['item']},D,{r['rater']},{r['kind']},{json.loads(r['value'])}" for r in rows]
    path = folder / "labels.csv"
    path.write_text("item,dimension,rater,kind,value\n" + "\n".join(lines) + "\n")
    return path


def test_the_positive_class_can_be_said_on_the_command_line(tmp_path: Path) -> None:
    path = labels_file(tmp_path)
    told = []
    for more in ((), ("--positive", "D=F")):
        result = call("report", path, "--scale", "D=binary:T/F", "--format", "json", *more)
        assert result.exit_code == 0, result.output
        against = json.loads(result.stdout)["dimensions"][0]["evaluators"][0]["against_gold"]
        told.append((against["positive"], round(against["recall"]["value"], 4)))
    assert told == [("T", 1.0), ("F", 0.6667)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [("D=X", "'X', which is not on the scale; it has T, F"), ("E=T", "there are: D"), ("D", "write D=VALUE")],
)
def test_a_positive_class_that_is_none_is_an_error_of_the_call(tmp_path: Path, spec: str, message: str) -> None:
    result = call("report", labels_file(tmp_path), "--scale", "D=binary:T/F", "--positive", spec)
    assert result.exit_code == 2 and message in result.output


def test_a_gold_that_is_nobody_is_told_by_run(tmp_path: Path) -> None:
    labels_file(tmp_path)
    text = (
        BASE.replace('name = "s"', 'name = "s"\ngold = "dora"')
        .replace("dimensions.A", "dimensions.D")
        .replace("x.csv", "labels.csv")
    )
    (tmp_path / "calibrate.toml").write_text(text.replace('"Pass", "Fail"', '"T", "F"'))
    result = call("run", "--config", tmp_path / "calibrate.toml")
    assert result.exit_code == 1 and "study.gold is 'dora'" in result.output and "Traceback" not in result.output


def test_what_is_kept_in_the_store_are_the_headline_numbers(example: dict[str, Any]) -> None:
    from datetime import UTC, datetime

    from calibrate_plugin import cycle, history
    from calibrate_plugin.config import load
    from calibrate_plugin.store import Store

    config = load(example["folder"] / "calibrate.toml")
    with Store(config.store) as store:
        made, _ = cycle.report_now(store, config, datetime(2026, 12, 1, tzinfo=UTC))
        kept = store.reports()[0]
        body = json.loads(store.report(kept.id))
        again, _ = history.remade(store, config, kept)
    assert "beside_humans" not in body["dimensions"][0]["evaluators"][0]
    assert again == replace(
        made, dimensions=tuple(replace(d, calibration=None, labelling=None) for d in made.dimensions)
    )
