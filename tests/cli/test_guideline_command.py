"""``calibrate-plugin guideline``: a text, the rulings that go into its next version, and what must be labelled again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from labelled_study import answer, as_json, call, guided, judge, people, run, study, write

from calibrate_plugin.planning.guideline import parse

RULE = ("--reason", "it promises a refund", "--by", "Carol")


def fill_in(path: Path) -> Path:
    """Write something under every heading that asks for it."""
    file = path.parent / "guideline.md"
    text = file.read_text()
    for line in [one for one in text.splitlines() if one.startswith("<!--") and "hard to decide" not in one]:
        text = text.replace(line, "Written.", 1)
    file.write_text(text)
    return file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = study(tmp_path / "study")
    call(made, "guideline", "init")
    fill_in(made)
    run(made)
    return made


def test_init_writes_a_text_to_fill_in_and_names_it_in_the_settings_with_their_comments(tmp_path: Path) -> None:
    made = study(tmp_path / "study")
    call(made, "guideline", "init")
    assert 'guideline = "guideline.md"' in made.read_text()
    assert made.read_text().startswith("# what stands here is kept\n")
    said = call(made, "guideline", "check", status=1).stdout
    assert "guideline.md:8: Safety / Pass: nothing is written here" in said
    problems = as_json_status(made, "guideline", "check", status=1)
    assert problems[0] == {"line": 8, "heading": "Safety / Pass", "message": "nothing is written here"}
    assert "is there already" in call(made, "guideline", "init", status=2).output
    fill_in(made)
    assert "version 1 of" in call(made, "guideline", "check").stdout
    call(made, "guideline", "init", "--force")
    assert "nothing is written here" in call(made, "guideline", "check", status=1).stdout


def as_json_status(path: Path, *arguments: str, status: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(call(path, *arguments, "--format", "json", status=status).stdout)
    return found


def test_a_text_that_changed_under_the_same_number_is_told(path: Path) -> None:
    file = path.parent / "guideline.md"
    file.write_text(file.read_text().replace("Written.", "Written otherwise.", 1))
    said = call(path, "guideline", "check", status=1).stdout
    assert "guideline.md:3: version 1 was another text on" in said
    assert "raise the number" in said


def test_without_a_guideline_the_commands_say_how_to_get_one(tmp_path: Path) -> None:
    made = study(tmp_path / "study")
    for command in (["check"], ["show"], ["next"], ["relabel"]):
        assert "guideline init` writes one" in call(made, "guideline", *command, status=2).output
    gone = guided(study(tmp_path / "other"))
    assert "there is no such file" in call(gone, "guideline", "check", status=2).output
    assert "guideline.md: there is no such file" in call(gone, "run", "--no-push").stderr


def test_rulings_that_the_guideline_was_silent_or_ambiguous_about_go_into_the_next_version(path: Path) -> None:
    call(path, "disagreements", "rule", "i1", "--value", "Fail", "--cause", "ambiguous", *RULE)
    call(path, "disagreements", "rule", "i4", "--value", "Pass", "--cause", "annotator_mistake", *RULE)
    call(path, "disagreements", "rule", "i0", "--value", "Fail", "--cause", "guideline_silent", *RULE)
    before = (path.parent / "guideline.md").read_text()
    shown = call(path, "guideline", "next", "--dry-run").stdout
    assert "- item `i0` is **Fail**: it promises a refund" in shown
    assert (path.parent / "guideline.md").read_text() == before
    assert "version 2, 2 rulings added as hard cases" in call(path, "guideline", "next").stdout
    found = parse((path.parent / "guideline.md").read_text())
    assert found.version == "2"
    assert found.section("Safety").cases == {"i0", "i1"}  # type: ignore[union-attr]
    assert call(path, "guideline", "show", "--version", "v1").stdout == before
    listed = as_json(path, "guideline", "show", "--list")
    assert [(row["version"], row["answers"]) for row in listed] == [("1", 24), ("2", 0)]
    assert (
        "no such version was kept; there are: 1, 2"
        in call(path, "guideline", "show", "--version", "7", status=2).output
    )


def test_a_version_without_a_new_case_is_asked_for_by_name(path: Path) -> None:
    before = (path.parent / "guideline.md").read_text()
    assert "no ruling waits to become a case of version 2" in call(path, "guideline", "next", status=2).output
    assert (path.parent / "guideline.md").read_text() == before
    assert "version 2, 0 rulings" in call(path, "guideline", "next", "--anyway").stdout


def test_a_new_version_asks_for_the_items_again_until_they_were_given_under_it(path: Path) -> None:
    assert as_json(path, "guideline", "relabel") == []
    assert "every answer that counts was given under" in call(path, "guideline", "relabel").stdout
    call(path, "disagreements", "rule", "i1", "--value", "Fail", "--cause", "ambiguous", *RULE)
    call(path, "guideline", "next")
    again = as_json(path, "guideline", "relabel")
    assert len(again) == 12
    assert again[0] == {"item": "i0", "dimension": "Safety", "raters": ["ann", "ben"], "versions": ["1"]}
    assert "Safety: 12 items to label again under version 2" in call(path, "guideline", "relabel").stdout
    newer = [
        answer(f"i{i}", who, "Pass", version="2", day=9)
        for i in range(12)
        for who in ("ann", "ben")
        if (i, who) != (3, "ben")
    ]
    write(path.parent / "people.csv", [*people(), *newer])
    run(path)
    (left,) = as_json(path, "guideline", "relabel")
    assert (left["item"], left["raters"]) == ("i3", ["ben"])
    assert call(path, "guideline", "relabel", "--format", "csv").stdout == (
        "item,dimension,raters,versions\ni3,Safety,ben,1\n"
    )


def test_a_version_whose_section_says_the_same_asks_for_nothing(path: Path) -> None:
    file = path.parent / "guideline.md"
    file.write_text(file.read_text().replace("Version: 1", "Version: 2").replace("# Guideline", "# The guideline"))
    assert as_json(path, "guideline", "relabel") == []


def test_answers_without_a_version_are_not_known_to_be_of_this_text(path: Path) -> None:
    write(path.parent / "people.csv", [*people(), answer("i1", "cem", "Pass", version="", day=3)])
    run(path)
    (one,) = as_json(path, "guideline", "relabel")
    assert (one["raters"], one["versions"]) == (["cem"], [""])
    assert "under no version told" in call(path, "guideline", "relabel").stdout


def test_numbers_of_two_versions_stand_beside_each_other_with_their_difference(tmp_path: Path) -> None:
    first = [
        answer(f"i{i}", who, "Fail" if (i + k) % 3 == 0 else "Pass")
        for i in range(30)
        for k, who in enumerate(("ann", "ben"))
    ]
    second = [
        answer(f"i{i}", who, "Fail" if i % 3 == 0 else "Pass", version="2", day=9)
        for i in range(30)
        for who in ("ann", "ben")
    ]
    made = study(tmp_path / "study", [*first, *second], judge(30))
    run(made)
    rows = {(r["subject"], r["statistic"]): r for r in as_json(made, "guideline", "compare", "1", "2")}
    agreement = rows["annotators", "agreement"]
    assert (agreement["old"]["value"], agreement["new"]["value"]) == (pytest.approx(1 / 3), 1)
    assert agreement["difference"]["value"] == pytest.approx(2 / 3)
    low, high = (agreement["difference"]["interval"][end] for end in ("low", "high"))
    assert 0 < low < 2 / 3 <= high
    assert ("judge v1", "kappa") in rows
    assert "Version 1" in call(made, "guideline", "compare", "1", "2").stdout
    by = as_json(made, "run", "--no-push", "--by", "guideline")["dimensions"][0]["slices"]
    assert {s["value"]: s["annotators"]["agreement"]["value"] for s in by} == {
        "1": pytest.approx(1 / 3),
        "2": 1,
    }
    assert "nothing has the guideline '5'" in call(made, "guideline", "compare", "1", "5", status=2).output
