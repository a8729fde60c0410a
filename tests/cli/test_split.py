"""``calibrate-plugin split``: train, dev and test that stay, a test split that counts its uses, examples from train only."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from labelled_study import answer, as_json, call, judge, people, run, study, write
from langfuse_standin import LangfuseStandin

from calibrate_plugin import ledger
from calibrate_plugin.model import ITEMS
from calibrate_plugin.store import Store
from calibrate_plugin.store.labelling import uses_of_test


def labelled(folder: Path, n: int = 100, **more: Any) -> Path:
    made = study(folder, people(n, differ=()), judge(n), **more)
    run(made)
    return made


def splits_of(path: Path) -> dict[str, str]:
    with Store(path.parent / "calibrate.db") as store:
        facts = store.item_facts()
    return {item: value for item, fact, value in facts.select("item", "fact", "value").rows() if fact == "split"}


# 100 items are 15/42/43 and 200 are 30/85/85 (practice 3.7), here within each class: 34 fails and 66 passes, 67 and 133.
@pytest.mark.parametrize(
    ("n", "counts"),
    [
        (100, {"train": (5, 9), "dev": (14, 28), "test": (15, 29)}),
        (200, {"train": (10, 19), "dev": (28, 56), "test": (29, 58)}),
    ],
)
def test_each_class_is_split_as_it_should_be(tmp_path: Path, n: int, counts: dict[str, tuple[int, int]]) -> None:
    made = labelled(tmp_path / "study", n)
    found = as_json(made, "split")
    assert {s: (c["Fail"], c["Pass"]) for s, c in found["counts"].items()} == counts
    assert (found["new"], found["kept"], found["written"]) == (n, 0, True)
    assert len(splits_of(made)) == n


def test_what_is_assigned_stays_and_new_items_fill_up(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study", 60)
    call(made, "split")
    before = splits_of(made)
    again = as_json(made, "split")
    assert (again["new"], again["kept"], again["written"]) == (0, 60, False)
    write(made.parent / "people.csv", people(100, differ=()))
    write(made.parent / "judges.csv", judge(100))
    run(made)
    found = as_json(made, "split")
    after = splits_of(made)
    assert found["new"] == 40
    assert {item: after[item] for item in before} == before
    assert sum(found["counts"]["train"].values()) == 14


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study", 40)
    assert "40 items would be assigned now" in call(made, "split", "--dry-run").stdout
    assert splits_of(made) == {}


def test_shortages_are_told_and_the_least_can_be_set(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study")
    found = as_json(made, "split", "--dry-run")
    assert [(s["split"], s["class"], s["items"], s["least"]) for s in found["short"]] == [
        ("dev", "Fail", 14, 30),
        ("dev", "Pass", 28, 30),
        ("test", "Fail", 15, 30),
        ("test", "Pass", 29, 30),
    ]
    assert "too few: dev has 14 Fail, 30 are wanted" in call(made, "split", "--dry-run").stdout
    assert as_json(made, "split", "--dry-run", "--least", "14")["short"] == []


def test_a_conversation_is_never_parted_and_later_items_follow_it(tmp_path: Path) -> None:
    made = study(tmp_path / "study", [], [answer("z", "judge", "Pass", kind="judge", language="")])
    rows = [
        answer(f"i{i}", who, "Fail" if i % 3 == 0 else "Pass", language=f"talk {i // 5}")
        for i in range(60)
        for who in ("ann", "ben")
    ]
    write(made.parent / "people.csv", rows[: 2 * 43])
    run(made)
    call(made, "split", "--group", "language")
    first = splits_of(made)
    assert len({(i // 5, first[f"i{i}"]) for i in range(43)}) == 9
    write(made.parent / "people.csv", rows)
    run(made)
    call(made, "split", "--group", "language")
    after = splits_of(made)
    assert {item: after[item] for item in first} == first
    assert len({(i // 5, after[f"i{i}"]) for i in range(60)}) == 12
    assert (
        "no item has the fact 'session'; there are: language, split"
        in call(made, "split", "--group", "session", status=2).output
    )


def test_sessions_are_asked_of_the_platform_where_no_fact_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LangfuseStandin(visible_after=0) as langfuse:
        for n in range(60):
            langfuse.add_trace(f"i{n}", input="a", output="b", sessionId=f"session {n // 5}")
            langfuse.add_observation(f"o{n}", f"i{n}", input="a", output="b", sessionId=f"session {n // 5}")
        langfuse.add_scores(
            {"id": f"s{n}", "name": "Safety", "value": "Pass", "traceId": f"i{n}", "source": "EVAL"} for n in range(60)
        )
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        made = study(tmp_path / "study", people(60, differ=()))
        files = 'connector = "files"\nfile = "judges.csv"'
        made.write_text(made.read_text().replace(files, 'connector = "langfuse"\nitem = "trace"'))
        run(made)
        call(made, "split", "--group", "session")
    found = splits_of(made)
    assert len(found) == 60
    assert all(len({found[f"i{n}"] for n in range(first, first + 5)}) == 1 for first in range(0, 60, 5))


def test_a_group_that_was_parted_before_is_told(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study", 60)
    call(made, "split")
    assert "assignments never move" in call(made, "split", "--group", "language", status=2).output


def test_items_without_gold_are_not_split_and_a_ruling_gives_one(tmp_path: Path) -> None:
    made = study(tmp_path / "study", people(20, differ=(1,)), judge(20))
    run(made)
    assert as_json(made, "split", "--dry-run")["new"] == 19
    call(made, "disagreements", "rule", "i1", "--value", "Fail", "--cause", "ambiguous", "--reason", "r", "--by", "c")
    assert as_json(made, "split", "--dry-run")["new"] == 20


def test_without_any_gold_it_says_how_to_get_some(tmp_path: Path) -> None:
    made = study(tmp_path / "study", [answer("i1", "ann", "Pass")], judge(3))
    run(made)
    assert "no item has a gold answer yet" in call(made, "split").stdout


# --- the test split


def uses(path: Path) -> list[tuple[str, str]]:
    with Store(path.parent / "calibrate.db") as store:
        return [(u.version, u.purpose) for u in uses_of_test(store)]


def test_looks_at_the_test_split_are_counted_once_for_the_same_numbers(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study")
    call(made, "split")
    as_json(made, "run", "--no-push")
    as_json(made, "run", "--no-push", "--only", "split=dev")
    assert uses(made) == []
    first = as_json(made, "run", "--no-push", "--only", "split=test")["dimensions"][0]
    assert first["labelling"]["test_split_uses"] == [{"evaluator": "judge", "version": "v1", "uses": 1}]
    call(made, "run", "--no-push", "--only", "split=test")
    by = as_json(made, "run", "--no-push", "--by", "split")["dimensions"][0]
    assert uses(made) == [("v1", "report")]
    assert {s["value"] for s in by["slices"]} == {"train", "dev", "test"}
    write(made.parent / "judges.csv", judge(100, "v2", wrong=()))
    text = call(made, "run", "--no-push", "--accept-deletions", "--only", "split=test").stdout
    assert uses(made) == [("v1", "report"), ("v2", "report")]
    assert "Test split: looked at 2 times (judge v1 1, judge v2 1). Each look makes its numbers less of a test" in (
        " ".join(text.split())
    )
    assert as_json(made, "split")["test_split_uses"] == 2
    assert "the test split was looked at 2 times, for 2 judge versions" in call(made, "split").stdout


def test_a_gate_on_the_test_split_is_a_look(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study", more='\n[gate]\nrules = ["judge.agreement.n_items >= 20"]\n')
    call(made, "split")
    call(made, "gate")
    assert uses(made) == []
    assert "holds: 44" in call(made, "gate", "--only", "split=test").stdout
    assert uses(made) == [("v1", "gate")]
    assert "nothing has the split 'tests'" in call(made, "gate", "--only", "split=tests", status=2).output


def scored(folder: Path) -> Path:
    """A judge that answers with numbers and has no threshold yet."""
    made = study(folder, people(100, differ=()), [])
    numbers = [
        (*answer(f"i{i}", "judge", f"{0.2 + 0.3 * (i % 3 > 0) + i / 400:.4f}", version="v1", kind="judge"),)
        for i in range(100)
    ]
    write(made.parent / "judges.csv", numbers)
    run(made)
    return made


def test_a_threshold_is_chosen_on_dev_told_on_test_and_counted(tmp_path: Path) -> None:
    made = scored(tmp_path / "study")
    call(made, "split")
    assert uses(made) == []
    table = as_json(made, "run", "--no-push")["dimensions"][0]["judges_without_answers"][0]["thresholds"]
    assert table["rows"][0]["false_fail"] + table["rows"][0]["true_pass"] == 28  # the passes of dev
    assert table["test"]["accuracy"]["n_items"] == 44
    assert uses(made) == [("v1", "threshold")]


def test_the_test_split_chooses_no_threshold(tmp_path: Path) -> None:
    made = scored(tmp_path / "study")
    call(made, "split")
    found = as_json(made, "run", "--no-push", "--only", "split=test")["dimensions"][0]
    table = found["judges_without_answers"][0]["thresholds"]
    assert (table["chosen"], table["rows"], table["reason"]) == (None, [], "only_test")
    text = " ".join(call(made, "run", "--no-push", "--only", "split=test").stdout.split())
    assert "the test split, which is no place to choose anything; use the dev split" in text


# --- examples


def test_examples_are_of_train_alone_of_each_class_in_turn_with_reasons(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study")
    assert "no item is in the train split yet" in call(made, "split", "examples", status=2).output
    call(made, "split")
    where = splits_of(made)
    found = [json.loads(line) for line in call(made, "split", "examples", "-n", "6").stdout.splitlines()]
    assert {where[one["item"]] for one in found} == {"train"}
    assert [one["answer"] for one in found] == ["Fail", "Pass"] * 3
    number = found[0]["item"].removeprefix("i")
    assert found[0]["reason"] == f"ann on {number}\nben on {number}"
    assert found[0]["facts"] == {"language": "en"}
    every = call(made, "split", "examples", "-n", "500").stdout.splitlines()
    assert len(every) == 14
    assert call(made, "split", "examples", "-n", "6").stdout == call(made, "split", "examples", "-n", "6").stdout


def test_the_reason_of_a_ruling_stands_before_those_of_people(tmp_path: Path) -> None:
    made = study(tmp_path / "study", people(40, differ=range(40)), judge(40))
    run(made)
    for i in range(40):
        value = "Fail" if i % 3 == 0 else "Pass"
        call(
            made,
            "disagreements",
            "rule",
            f"i{i}",
            "--value",
            value,
            "--cause",
            "ambiguous",
            "--reason",
            f"ruled {i}",
            "--by",
            "c",
        )
    call(made, "split")
    found = [json.loads(line) for line in call(made, "split", "examples").stdout.splitlines()]
    assert all(one["reason"] == f"ruled {one['item'].removeprefix('i')}" for one in found)
    assert found


def test_examples_as_langfuse_takes_them(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study")
    call(made, "split")
    target = tmp_path / "examples.jsonl"
    call(made, "split", "examples", "-n", "2", "--format", "langfuse", "-o", str(target))
    (first, second) = (json.loads(line) for line in target.read_text().splitlines())
    assert first["datasetName"] == "Safety examples"
    assert first["expectedOutput"]["answer"] == "Fail"
    assert first["id"] != second["id"]
    assert first["id"].startswith("calibrate-")
    assert "no source of the study keeps datasets" in call(made, "split", "examples", "--dataset", "x", status=2).output


def test_the_settings_are_untouched(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study", 20)
    before = tomllib.loads(made.read_text())
    call(made, "split")
    assert tomllib.loads(made.read_text()) == before


def test_an_example_does_not_tell_what_the_judge_said_when_samples_were_drawn(tmp_path: Path) -> None:
    made = labelled(tmp_path / "study")
    call(made, "split")
    with Store(made.parent / "calibrate.db") as store:
        items = [f"i{n}" for n in range(100)]
        facts = [(i, fact, said) for i in items for fact, said in (("passed_over", '["Pass", 0.1]'), ("sample", "2"))]
        ledger.record(store, items=pl.DataFrame(facts, schema=ITEMS, orient="row"))
    lines = [json.loads(line) for line in call(made, "split", "examples").stdout.splitlines()]
    assert lines
    assert {fact for line in lines for fact in line["facts"]} == {"language"}
