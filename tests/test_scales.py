"""Scales as people write them, and what is wrong with the ones they cannot mean."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from calibrate_plugin import scales
from calibrate_plugin.model import Scale, number


def test_in_binary_the_first_value_is_pass() -> None:
    found = scales.parse("Safety=binary:Pass/Fail")
    assert (found.name, found.scale.kind, found.scale.labels, found.untyped) == (
        "Safety",
        "binary",
        ("Pass", "Fail"),
        True,
    )


def test_categories_keep_their_order() -> None:
    assert scales.parse("D=nominal:b/a/c").scale == Scale("nominal", ("b", "a", "c"))
    assert scales.parse("D=ordinal:low/mid/high").scale.positions == (0, 1, 2)
    assert scales.parse("D = preference: A / B / tie").scale.labels == ("A", "B", "tie")


def test_a_slash_inside_a_value_can_be_written() -> None:
    assert scales.parse(r"D=nominal:and\/or/not").scale.labels == ("and/or", "not")


def test_the_first_equals_sign_ends_the_name() -> None:
    assert scales.parse("D=nominal:a=b/c").scale.labels == ("a=b", "c")


@pytest.mark.parametrize(
    ("spec", "levels", "names"),
    [
        ("1..5", 5, ("1", "2", "3", "4", "5")),
        ("-2..2", 5, ("-2", "-1", "0", "1", "2")),
        ("0..1:0.1", 11, ("0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")),
        ("0.5..1.5:0.5", 3, ("0.5", "1", "1.5")),
        ("0..1", 2, ("0", "1")),
        ("0..10:5", 3, ("0", "5", "10")),
        ("0..1:any", None, ()),
        ("0.5..2.5", None, ()),
    ],
)
def test_a_rating_has_a_step_of_1_where_both_ends_are_whole(
    spec: str, levels: int | None, names: tuple[str, ...]
) -> None:
    scale = scales.parse(f"D=rating:{spec}").scale
    assert (scale.levels, scale.names) == (levels, names)


def test_the_levels_of_a_rating_are_exact() -> None:
    scale = scales.parse("D=rating:0..1:0.1").scale
    assert scale.positions[3] == Fraction(3, 10)
    assert (scale.low, scale.high, scale.step) == (0, 1, Fraction(1, 10))


def test_a_rating_may_list_uneven_values() -> None:
    scale = scales.dimension("D", {"scale": "rating", "values": [8, 1, 5.5, 2]}).scale
    assert (scale.points, scale.low, scale.high, scale.levels) == ((1, 2, Fraction(11, 2), 8), 1, 8, 4)
    assert scale.names == ("1", "2", "5.5", "8")


def test_a_table_keeps_the_types_of_its_values() -> None:
    found = scales.dimension("D", {"scale": "nominal", "values": [1, "2", True, 0.5]})
    assert found.values == (1, "2", True, 0.5)
    assert found.scale.labels == ("1", "2", "true", "0.5")
    assert not found.untyped


def test_the_other_settings_of_a_dimension_are_kept() -> None:
    found = scales.dimension(
        "D",
        {
            "scale": "binary",
            "values": ["Pass", "Fail"],
            "map": {"1": "pass", "?": "unsure"},
            "abstain": ["Unsure"],
            "pass_if": {"*": ">= 0.5", "toxicity": "<0.2", "a": "> 1", "b": "<= -1"},
        },
    )
    assert found.map == {"1": "pass", "?": "unsure"}
    assert found.abstain == ("Unsure",)
    assert found.pass_if == {
        "*": (">=", Fraction(1, 2)),
        "toxicity": ("<", Fraction(1, 5)),
        "a": (">", 1),
        "b": ("<=", -1),
    }
    pair = scales.dimension("D", {"scale": "preference", "values": ["A", "B", "tie"], "fixed": False, "flipped": "tie"})
    assert (pair.scale.fixed, pair.flipped) == (False, "tie")
    assert scales.dimension("D", {"scale": "nominal", "values": ["a", "b"], "whole_set": True}).whole_set


@pytest.mark.parametrize(
    "spec",
    ["", "D", "D=", "D=binary", "D=binary:", "=binary:a/b", "binary:a/b", "D:binary=a/b"],
)
def test_what_is_no_scale_is_shown_how_to_write_one(spec: str) -> None:
    with pytest.raises(ValueError, match="write NAME=binary:PASS/FAIL"):
        scales.parse(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("likert:a/b", "scale is 'likert'; it is one of binary, nominal, ordinal, rating, preference"),
        ("binary:a", r"values are \['a'\]; a binary scale has two values, the first one is pass, e.g. values = "),
        ("binary:a/b/c", "a binary scale has two values"),
        ("nominal:a", r"values are \['a'\]; nominal needs at least two"),
        ("preference:a", "a preference has the two responses, then .if there is one. the tie"),
        ("preference:a/b/c/d", "a preference has the two responses"),
        ("nominal:a//b", r"values are \['a', '', 'b'\]; one of them is empty"),
        ("nominal:a/ A /b", "values name A, a more than once .capitals and spaces do not tell apart."),
        ("rating:5", "write the lowest and the highest value with two dots between, e.g. rating:1..5"),
        ("rating:a..5", "min: 'a' is not a number; write it like 1 or 0.5"),
        ("rating:1..", "max: '' is not a number"),
        ("rating:1..1/2", "max: '1/2' is not a number"),
        ("rating:1_0..50", "min: '1_0' is not a number"),
        ("rating:nan..5", "min: 'nan' is not a number"),
        ("rating:0..inf", "max: 'inf' is not a number"),
        ("rating:5..1", "max is 1 but min is 5; give the top of the scale, e.g. max = 5"),
        ("rating:1..1", "max is 1 but min is 1; give the top of the scale"),
        ("rating:1..5:0", "step is 0, which does not lead from 1 to 5 in whole steps"),
        ("rating:1..5:-1", "step is -1, which does not lead"),
        ("rating:1..5:0.3", "step is 0.3, which does not lead from 1 to 5 in whole steps"),
        ("rating:0..1:0.00001", 'step is 1e-05, which makes more than 10,000 levels; write step = "any"'),
        ("rating:0..1e400", "max: '1e400' has more digits than 15 before or 20 after the point"),
        ("rating:0..1e999999999:any", "has more digits than"),
        ("rating:1e-999999999..1:any", "has more digits than"),
    ],
)
def test_a_scale_that_cannot_be_meant_says_what_is_wrong(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scales.parse(f"D={spec}")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"scale": "rating", "max": 5}, "min is missing; give the lowest value of the scale"),
        ({"scale": "rating", "min": 1}, "max is missing; give the highest value of the scale"),
        ({"scale": "rating", "values": [1, 1]}, r"values are \[1, 1\]; a rating needs at least two different ones"),
        ({"scale": "rating", "values": [1, "a"]}, "values: 'a' is not a number"),
        ({"scale": "rating", "values": [1, 2], "min": 1}, "min is 1, but values are listed too; give one or the other"),
        ({"scale": "nominal", "values": ["a", float("nan")]}, "values name nan, which is no answer"),
        (
            {"scale": "nominal", "values": ["a", "b"], "map": {"x": "c"}},
            "map sends 'x' to 'c', which is not on the scale; it has a, b",
        ),
        (
            {"scale": "rating", "min": 1, "max": 3, "map": {"x": "4"}},
            "map sends 'x' to '4', which is not on the scale; it has 1, 2, 3",
        ),
        (
            {"scale": "nominal", "values": ["a", "b"], "abstain": [" A"]},
            "abstain names ' A', which is an answer on the scale",
        ),
        (
            {"scale": "binary", "values": ["a", "b"], "pass_if": {"*": "about 1"}},
            "pass_if is 'about 1'; write it like \">= 0.5\"",
        ),
        (
            {"scale": "binary", "values": ["a", "b"], "pass_if": {"*": ">= x"}},
            "pass_if is '>= x': ' x' is not a number",
        ),
        (
            {"scale": "rating", "min": 1, "max": 5, "pass_if": {"*": ">= 3"}},
            "pass_if belongs to a binary scale, but this one is rating; take it out",
        ),
        ({"scale": "binary", "values": ["a", "b"], "min": 1}, "min belongs to a rating scale, but this one is binary"),
        (
            {"scale": "nominal", "values": ["a", "b"], "fixed": False},
            "fixed belongs to a preference scale, but this one is nominal",
        ),
        ({"scale": "binary", "values": ["a", "b"], "flipped": "tie"}, "flipped belongs to a preference scale"),
        ({"scale": "binary", "values": ["a", "b"], "whole_set": True}, "whole_set belongs to a nominal scale"),
        ({"scale": "preference", "values": ["a", "b"], "flipped": "tie"}, 'flipped is "tie", but the scale has no tie'),
        ({}, "scale is None; it is one of"),
    ],
)
def test_a_table_that_cannot_be_meant_starts_with_its_wrong_key(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scales.dimension("D", table)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (4.0, "4"),
        (Fraction(1, 2), "0.5"),
        (3, "3"),
        (-0.25, "-0.25"),
        (10**30, str(10**30)),
        (Fraction(10**30), str(10**30)),
    ],
)
def test_numbers_are_written_as_people_write_them(value: Fraction | float | int, written: str) -> None:
    assert number(value) == written
