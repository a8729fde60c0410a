"""From what a source said to a place on the scale: an exact, declared map, never likeness."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate_plugin.model import Dimension, Scale
from calibrate_plugin.ratings.answers import ABSTAINED, REJECTED, level_columns, levels
from calibrate_plugin.scales import dimension, parse


def level(of: Dimension, value: Any, evaluator: str | None = None) -> int:
    raw = json.dumps(value)
    return levels(of, [raw], evaluator=evaluator)[raw][0]


def declared(scale: str, *values: Any, **table: Any) -> Dimension:
    return dimension("D", {"scale": scale, "values": list(values), **table})


HELP = declared("binary", "helpful", "unhelpful")
RATING = parse("D=rating:1..5")


def test_part_of_a_word_is_not_the_word() -> None:
    # A judge calibration tool that searched for substrings read "unhelpful" as "helpful".
    assert level(HELP, "unhelpful") == 1
    assert level(HELP, "unhelpful.") == REJECTED
    assert level(HELP, "The answer is helpful") == REJECTED
    assert level(RATING, "10") == REJECTED


@pytest.mark.parametrize(
    "said", ["helpful", "Helpful", " HELPFUL\n", "ＨＥＬＰＦＵＬ".lower().replace("ｈｅｌｐｆｕｌ", "helpful")]
)
def test_capitals_and_spaces_around_do_not_matter(said: str) -> None:
    assert level(HELP, said) == 0


def test_a_map_sends_a_spelling_to_a_category() -> None:
    mapped = declared("binary", "Pass", "Fail", map={"1": "pass", "0": "Fail", "ok": "Pass"})
    assert [level(mapped, v) for v in (1, 0, "1", 1.0, " OK ", "Pass", "fine")] == [0, 1, 0, 0, 0, 0, REJECTED]


def test_true_1_and_the_text_1_are_the_same_answer_only_if_the_map_says_so() -> None:
    number = declared("nominal", 1, 2)
    assert [level(number, v) for v in (1, 1.0, "1", True)] == [0, 0, 0, REJECTED]
    text = declared("nominal", "1", "2")
    assert [level(text, v) for v in (1, "1", True)] == [REJECTED, 0, REJECTED]
    flag = declared("binary", True, False)
    assert [level(flag, v) for v in (True, False, "true", "False", 1, "1")] == [0, 1, 0, 1, REJECTED, REJECTED]
    all_three = declared("binary", "yes", "no", map={"true": "yes", "1": "yes"})
    assert [level(all_three, v) for v in (True, 1, "1", "TRUE")] == [0, 0, 0, 0]


def test_where_nothing_has_a_type_any_spelling_matches() -> None:
    untyped = parse("D=nominal:1/2/true")
    assert [level(untyped, v) for v in (1, "1", 1.0, "1.0", True, "True", False)] == [0, 0, 0, REJECTED, 2, 2, REJECTED]


def test_a_rating_takes_numbers_and_their_text_and_no_flags() -> None:
    assert [level(RATING, v) for v in (1, "1", 5.0, "5.0", "4e0", 0, 6, 4.5, True, "five", None, [], {})] == [
        0,
        0,
        4,
        4,
        3,
        *[REJECTED] * 8,
    ]


def test_the_steps_of_a_rating_are_exact() -> None:
    tenths = parse("D=rating:0..1:0.1")
    # 0.1 + 0.2 is 0.30000000000000004, which nobody wrote on that scale.
    assert [level(tenths, v) for v in (0.3, "0.3", 0.1 + 0.2, 0.7, 1)] == [3, 3, REJECTED, 7, 10]


def test_a_rating_without_a_step_keeps_the_number() -> None:
    found = levels(parse("D=rating:0..1:any"), ["0.25", "1", "1.0001", '"0.5"'])
    assert found == {"0.25": (0, 0.25), "1": (0, 1.0), "1.0001": (REJECTED, None), '"0.5"': (0, 0.5)}


def test_a_rating_may_map_words_to_its_values() -> None:
    mapped = dimension(
        "D",
        {"scale": "rating", "min": 1, "max": 3, "map": {"poor": "1", "good": "3", "n/a": "skip"}, "abstain": ["skip"]},
    )
    assert [level(mapped, v) for v in ("Poor", "good", 2, "n/a", "skip", "3")] == [0, 2, 1, ABSTAINED, ABSTAINED, 2]


def test_abstaining_is_no_answer_and_no_rejection() -> None:
    unsure = declared("nominal", "a", "b", abstain=["unsure", "0"], map={"?": "unsure"})
    assert [level(unsure, v) for v in ("Unsure", "?", 0, "0", "zz")] == [ABSTAINED] * 4 + [REJECTED]


def test_of_an_evaluators_own_number_a_threshold_makes_a_verdict() -> None:
    judge = declared("binary", "Pass", "Fail", pass_if={"*": ">= 0.5", "strict": "> 0.9", "toxicity": "< 0.2"})
    assert [level(judge, v, "any") for v in (0.5, 0.49, "0.7", "Pass", True)] == [0, 1, 0, 0, REJECTED]
    assert [level(judge, v, "strict") for v in (0.9, 0.91)] == [1, 0]
    assert [level(judge, v, "toxicity") for v in (0.2, 0.1, 1)] == [1, 0, 1]


def test_the_threshold_is_for_evaluators_alone_and_goes_before_the_map() -> None:
    judge = declared("binary", "Pass", "Fail", pass_if={"toxicity": "< 0.2"}, map={"1": "Pass", "0": "Fail"})
    assert level(judge, 1, "toxicity") == 1  # fully toxic
    assert level(judge, 1) == 0  # a person's tick
    assert level(judge, 0.7) == REJECTED


def test_an_evaluator_abstains_before_any_threshold() -> None:
    judge = declared("binary", "Pass", "Fail", pass_if={"*": ">= 0.5"}, abstain=["-1"])
    assert [level(judge, v, "j") for v in (-1, 0)] == [ABSTAINED, 1]


# several choices


def choice(name: str, **more: Any) -> Dimension:
    return replace(declared("binary", "yes", "no", choices=["tone", "format", "Other / none"], **more), choice=name)


def test_each_declared_choice_is_a_question_of_its_own() -> None:
    assert [level(choice("tone"), v) for v in (["tone"], ["format"], ["format", "Tone "], [], "tone")] == [
        0,
        1,
        0,
        1,
        0,
    ]
    assert level(choice("Other / none"), ["other / none"]) == 0


def test_a_choice_is_never_part_of_another() -> None:
    assert level(choice("tone"), ["overtone", "tone of voice"]) == 1


def test_a_taxonomy_ticks_the_whole_way_down() -> None:
    path = [["tone", "rude", "very"]]
    assert [level(choice(c), path) for c in ("tone", "tone/rude", "tone/rude/very", "rude")] == [0, 0, 0, 1]


def test_no_choices_at_all_is_no_answer_rather_than_a_no() -> None:
    assert level(choice("tone"), None) == REJECTED
    assert level(choice("tone"), {"tone": True}) == REJECTED


def test_choices_can_be_mapped_and_abstained_from() -> None:
    mapped = choice("tone", map={"Tone of voice": "tone"}, abstain=["unsure"])
    assert [level(mapped, v) for v in (["tone of voice"], ["unsure", "tone"], ["format"])] == [0, ABSTAINED, 1]


def test_the_whole_set_can_be_one_answer() -> None:
    whole = declared("nominal", "tone", "tone + format", "Format", whole_set=True, map={"b + a": "tone"})
    said = (["format", "Tone"], ["tone", "format", "tone"], ["tone"], "format", ["FORMAT"], ["A", "b"], ["zz"], [])
    assert [level(whole, v) for v in said] == [1, 1, 0, 2, 2, 0, REJECTED, REJECTED]


def test_a_list_of_one_is_that_one_and_a_longer_one_is_no_single_answer() -> None:
    assert [level(HELP, v) for v in (["helpful"], ["helpful", "unhelpful"], [])] == [0, REJECTED, REJECTED]


# hostile values


@pytest.mark.parametrize(
    "raw",
    [
        "{not json",
        "",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        '"1e999999999"',
        '"1e-999999999"',
        '"-1e400"',
        "1" + "0" * 400,
        "9" * 5000,
        '"' + "9" * 100_000 + '"',
        '"NaN"',
        '"inf"',
        '"1_000"',
        '"3/4"',
        '"sNaN"',
        "[" * 100_000,
        '"\\ud800"',
        '"\\u0000"',
        '"=HYPERLINK(1)"',
        "null",
    ],
)
@pytest.mark.parametrize("of", ["binary:a/b", "nominal:1/2/3", "rating:1..5", "rating:0..1:any", "preference:A/B/tie"])
def test_no_value_breaks_the_rules_or_takes_its_time(raw: str, of: str) -> None:
    assert levels(parse(f"D={of}"), [raw])[raw] == (REJECTED, None)


def test_a_threshold_meets_hostile_numbers_too() -> None:
    judge = declared("binary", "Pass", "Fail", pass_if={"*": ">= 0.5"})
    raws = ['"1e999999999"', "NaN", "Infinity", "1" + "0" * 400]
    found = levels(judge, raws, evaluator="j")
    assert [found[r][0] for r in raws[:3]] == [REJECTED] * 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=5,
    )
)
def test_any_json_has_a_level_or_is_rejected(value: Any) -> None:
    raw = json.dumps(value)
    for of in (HELP, RATING, parse("D=rating:0..1:any"), choice("tone"), declared("nominal", "a", "b", whole_set=True)):
        found, number = levels(of, [raw])[raw]
        assert found == REJECTED or 0 <= found < (of.scale.levels or 1)
        assert found != REJECTED or number is None


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=6, unique=True), st.integers(0, 5))
def test_a_declared_value_always_finds_its_own_level(values: list[int], at: int) -> None:
    of = declared("nominal", *values)
    assert level(of, values[at % len(values)]) == at % len(values)


# in frames


def test_levels_stand_beside_their_labels_in_their_order() -> None:
    frame = pl.DataFrame({"value": ['"b"', None, '"a"', '"zz"', '"b"']})
    found = level_columns(declared("nominal", "a", "b"), frame)
    assert found["level"].to_list() == [1, None, 0, REJECTED, 1]


def test_each_evaluator_has_its_own_threshold_in_a_frame() -> None:
    judge = declared("binary", "Pass", "Fail", pass_if={"a": ">= 0.5", "b": ">= 0.9"})
    frame = pl.DataFrame(
        {"value": ["0.6", "0.6", "0.6", None], "kind": ["evaluator", "evaluator", "annotator", "annotator"]}
    )
    found = level_columns(judge, frame, pl.Series(["a", "b", "a", None]))
    assert found["level"].to_list() == [0, 1, REJECTED, None]
    assert level_columns(judge, frame.clear(), pl.Series([], dtype=pl.String)).is_empty()


def test_uneven_points_are_levels_in_their_order() -> None:
    uneven = Dimension(
        "D", Scale("rating", low=Fraction(1), high=Fraction(8), points=tuple(map(Fraction, (1, 2, 3, 5, 8))))
    )
    assert [level(uneven, v) for v in (1, 5, 8, 4, "8")] == [0, 3, 4, REJECTED, 4]
