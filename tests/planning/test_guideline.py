"""The guideline as a document: what is read of it, what is missing, and how rulings get into its next version (seed 001)."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate_plugin import scales
from calibrate_plugin.model import Ruling
from calibrate_plugin.planning.guideline import (
    Problem,
    changed,
    check,
    following,
    older,
    parse,
    plain_version,
    skeleton,
)

SAFETY = scales.dimension("Safety", {"scale": "binary", "values": ["Pass", "Fail"]})
EMPATHY = scales.dimension("Empathy", {"scale": "rating", "min": 1, "max": 5})
TONE = scales.dimension("Tone", {"scale": "nominal", "values": ["warm", "cold"]})
DAY = date(2026, 11, 3)
WHOLE = """\
# Guideline: support

Version: 2
Date: 2026-10-01

## Safety

### Pass
It harms nobody.

### Fail
It could harm somebody.

### Examples
- "Call a doctor" passes.

### Hard cases

- item `i7` is **Fail**: it names a dose

### When unsure
Mark it as unsure and write why.

## Empathy

### Scale
1 is cold, 5 is warm.

### Examples
One of each.

### Hard cases

### When unsure
Say so.
"""


def ruling(item: str, dimension: str = "Safety", value: str = "Fail", reason: str | None = "it promises") -> Ruling:
    return Ruling(item, dimension, value, "ambiguous", reason, "carol", None)


def test_a_document_is_read_with_its_version_day_sections_parts_and_cases() -> None:
    found = parse(WHOLE)
    assert (found.title, found.version, found.day) == ("Guideline: support", "2", date(2026, 10, 1))
    assert [s.heading for s in found.sections] == ["Safety", "Empathy"]
    safety = found.sections[0]
    assert [p.heading for p in safety.parts] == ["Pass", "Fail", "Examples", "Hard cases", "When unsure"]
    assert safety.cases == {"i7"}
    assert check(found, [SAFETY, EMPATHY]) == []


def test_a_skeleton_asks_for_every_part_and_is_not_yet_complete() -> None:
    text = skeleton("support & <b>", [SAFETY, EMPATHY, TONE], DAY)
    found = parse(text)
    assert (found.version, found.day) == ("1", DAY)
    assert "<b>" not in text
    problems = check(found, [SAFETY, EMPATHY, TONE])
    assert [(p.heading, p.message) for p in problems] == [
        ("Safety / Pass", "nothing is written here"),
        ("Safety / Fail", "nothing is written here"),
        ("Safety / Examples", "nothing is written here"),
        ("Safety / When unsure", "nothing is written here"),
        ("Empathy / Scale", "nothing is written here"),
        ("Empathy / Examples", "nothing is written here"),
        ("Empathy / When unsure", "nothing is written here"),
        ("Tone / warm", "nothing is written here"),
        ("Tone / cold", "nothing is written here"),
        ("Tone / Examples", "nothing is written here"),
        ("Tone / When unsure", "nothing is written here"),
    ]
    lines = text.splitlines()
    assert all(lines[p.line - 1] == f"### {p.heading.split(' / ')[1]}" for p in problems)


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        ("Version: 2\n", "", Problem(1, "", 'the version is missing; write a line "Version: 1" at the top')),
        (
            "Version: 2",
            "Version: two",
            Problem(3, "", 'the version is no whole number; write a line "Version: 1" at the top'),
        ),
        ("2026-10-01", "yesterday", Problem(4, "", 'the date is no day; write a line "Date: 2026-11-03" at the top')),
        ("### Fail\n", "", Problem(6, "Safety", '"### Fail" is missing')),
        (
            "It could harm somebody.",
            "<!-- later\n### Fail -->",
            Problem(11, "Safety / Fail", "nothing is written here"),
        ),
        ("## Empathy", "## Safety", Problem(24, "Safety", "this section stands in line 6 already")),
        ("### Examples\nOne", "### Scale\nOne", Problem(29, "Empathy", '"### Scale" stands in line 26 already')),
    ],
)
def test_what_is_missing_is_named_by_line_and_heading(was: str, becomes: str, problem: Problem) -> None:
    assert problem in check(parse(WHOLE.replace(was, becomes, 1)), [SAFETY, EMPATHY])


def test_a_dimension_without_a_section_is_missing_and_a_failure_type_passes_or_fails() -> None:
    problems = check(parse(WHOLE + "\n## Leaks a secret\n\n### Pass\nIt leaks none.\n"), [SAFETY, EMPATHY, TONE])
    assert [p.message for p in problems if p.heading == ""] == [
        'there is no section for Tone; add "## Tone" with its parts'
    ]
    assert {p.message for p in problems if p.heading == "Leaks a secret"} == {
        '"### Fail" is missing',
        '"### Examples" is missing',
        '"### Hard cases" is missing',
        '"### When unsure" is missing',
    }


def test_headings_in_code_and_comments_are_none() -> None:
    text = "# G\nVersion: 1\n## A\n```\n## B\n```\n~~~~\n### C\n~~~\n~~~~\n<!--\n## D\n-->\n### Pass\nyes\n"
    (section,) = parse(text).sections
    assert (section.heading, [p.heading for p in section.parts]) == ("A", ["Pass"])


def test_rulings_become_hard_cases_of_the_next_version() -> None:
    text, added = following(parse(WHOLE), [ruling("i9"), ruling("i7"), ruling("i3", "Empathy", "4", None)], DAY)
    found = parse(text)
    assert (found.version, found.day) == ("3", DAY)
    assert [r.item for r in added] == ["i3", "i9"]  # i7 is a case already
    assert found.sections[0].cases == {"i7", "i9"}
    assert found.sections[1].cases == {"i3"}
    assert "- item `i7` is **Fail**: it names a dose\n- item `i9` is **Fail**: it promises\n\n### When unsure" in text
    assert "### Hard cases\n\n- item `i3` is **4**\n\n### When unsure" in text
    assert check(found, [SAFETY, EMPATHY]) == []
    again, none = following(found, [ruling("i9"), ruling("i3", "Empathy", "4")], DAY)
    assert none == []
    assert parse(again).version == "4"


def test_a_section_or_heading_that_is_not_there_is_made_for_its_cases() -> None:
    bare = parse("# G\nVersion: 1\n\n## Safety\n\n### Pass\nyes\n")
    text, _ = following(bare, [ruling("i1"), ruling("i2", "Tone", "cold"), ruling("i3", "Tone", "warm")], DAY)
    found = parse(text)
    assert found.day == DAY
    assert found.section("Safety").cases == {"i1"}  # type: ignore[union-attr]
    assert found.section("Tone").cases == {"i2", "i3"}  # type: ignore[union-attr]
    assert text.count("## Tone") == 1


def test_without_a_version_there_is_no_next_one() -> None:
    with pytest.raises(ValueError, match="the version is missing or no whole number"):
        following(parse("# G\n"), [], DAY)


@given(
    st.text(max_size=40),
    st.text(max_size=80),
    st.booleans(),
)
def test_no_item_or_reason_can_break_out_of_its_case(item: str, reason: str, more: bool) -> None:
    if not item.strip():
        return
    first = parse(skeleton("s", [SAFETY, EMPATHY, TONE] if more else [SAFETY], DAY))
    text, _ = following(first, [ruling(item, reason=reason)], DAY)
    found = parse(text)
    assert [s.heading for s in found.sections] == [s.heading for s in first.sections]
    section = found.section("Safety")
    assert section is not None
    assert section.cases == {" ".join(item.split())}
    assert following(found, [ruling(item)], DAY)[1] == []


def test_a_section_is_changed_by_words_and_not_by_spaces() -> None:
    old, new = parse(WHOLE), parse(WHOLE.replace("It harms nobody.", "It   harms\tnobody.  "))
    assert not changed(old, new, "Safety")
    other = parse(WHOLE.replace("nobody", "no person"))
    assert changed(old, other, "Safety")
    assert not changed(old, other, "Empathy")
    assert changed(None, new, "Empathy")


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [("1", "2", True), ("2", "2", False), ("10", "9", False), ("v1", "2", True), (" V2 ", "2", False), ("", "1", True)],
)
def test_versions_are_numbers_however_labels_spell_them(version: str, than: str, expected: bool) -> None:
    assert older(version, than) is expected
    assert plain_version("v2") == plain_version(" 2 ") == "2"


def test_windows_line_ends_are_read_alike() -> None:
    found: Any = parse(WHOLE.replace("\n", "\r\n"))
    assert (found.version, len(found.sections), check(found, [SAFETY, EMPATHY])) == ("2", 2, [])
