"""Rulings on disagreements: gold of the study's own, and what is said after them shows no agreement (SEMANTICS 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from said import NOW, applied, judged, label, labels, study

from calibrate_plugin import scales
from calibrate_plugin.model import ITEMS, OWN, Dimension, Report, Study, frame
from calibrate_plugin.ratings.answers import levels
from calibrate_plugin.ratings.rules import Ratings, apply
from calibrate_plugin.ratings.rulings import before_rulings, discussed, late_rows, rulings_in, value_of
from calibrate_plugin.report import calibrated
from calibrate_plugin.report.build import Pulled, build

BINARY = study("D=binary:T/F")
# Asha and Ben on Safety, the page of seed 000: agreement 3/4, chance 1/2, kappa 1/2 (SEMANTICS 7).
SEED = [("1", "T", "T", "T"), ("2", "T", "F", "T"), ("3", "F", "F", "F"), ("4", "T", "T", "F")]


def ruling(item: str, value: str, *, at: float, by: str = "carol", field: str = "D", **more: Any) -> dict[str, Any]:
    return label(item, by, value, field, kind="gold", record=f"ruling {item}", at=at, **more)


def facts(**causes: str) -> pl.DataFrame:
    return frame(ITEMS, {"item": list(causes), "fact": ["cause.D"] * len(causes), "value": list(causes.values())})


def seed() -> list[dict[str, Any]]:
    found = []
    for item, asha, ben, judge in SEED:
        found += [label(item, "Asha", asha, at=1), label(item, "Ben", ben, at=1), judged(item, "judge", judge, at=1)]
    return found


def together(of: Study, rows: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]], **more: Any) -> Ratings:
    return apply(of, {"file": labels(rows), OWN: labels(own)}, **more)


def said(
    of: Study, rows: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]], items: pl.DataFrame | None = None
) -> Report:
    pulled = Pulled({"file": labels(rows), OWN: labels(own)}, items if items is not None else frame(ITEMS))
    report, ratings = build(of, pulled, NOW)
    return calibrated.calibrated(report, of, ratings, pulled.items)


def ceiling(report: Report) -> Any:
    found = calibrated.of(report.dimensions[0])
    assert found is not None
    beside = found.judges[0].beside_humans
    assert beside is not None
    return beside


def test_an_answer_given_after_the_ruling_counts_in_the_headline_and_not_in_the_ceiling() -> None:
    rows = [*seed(), label("2", "Ben", "T", at=3)]
    before = said(BINARY, seed(), [])
    after = said(BINARY, rows, [ruling("2", "T", at=2)])
    (dimension,) = after.dimensions
    assert dimension.annotators.agreement.value == dimension.annotators.kappa.value == 1
    assert before.dimensions[0].annotators.kappa.value == pytest.approx(1 / 2)
    for measure in ("human_human", "judge_human"):
        assert getattr(ceiling(after), measure).mean.value == pytest.approx(
            getattr(ceiling(before), measure).mean.value
        )
    assert ceiling(after).human_human.mean.value == pytest.approx(1 / 2)
    assert ceiling(after).difference.value == pytest.approx(-1 / 4)
    assert dimension.notes[0].startswith("1 answer was given after the disagreement on the item had been ruled on")


def test_the_same_answer_before_the_ruling_is_part_of_the_ceiling() -> None:
    rows = [*seed(), label("2", "Ben", "T", at=1.5)]
    found = said(BINARY, rows, [ruling("2", "T", at=2)])
    assert ceiling(found).human_human.mean.value == 1
    assert not any("ruled on" in note for note in found.dimensions[0].notes)


def test_a_first_answer_after_the_ruling_gives_the_ceiling_no_pair() -> None:
    rows = [*seed(), label("5", "Asha", "F", at=1), label("5", "Ben", "F", at=3), judged("5", "judge", "F", at=1)]
    found = said(BINARY, rows, [ruling("5", "F", at=2)])
    assert found.dimensions[0].annotators.agreement.n_pairs == 5
    assert ceiling(found).human_human.mean.n_items == 4


def test_a_person_who_clears_the_answer_after_the_ruling_had_one_before() -> None:
    rows = [*seed(), label("2", "Ben", None, at=3, state="cleared")]
    found = said(BINARY, rows, [ruling("2", "T", at=2)])
    assert found.dimensions[0].annotators.agreement.n_pairs == 3
    assert ceiling(found).human_human.mean.value == pytest.approx(1 / 2)


def test_what_was_cleared_unsure_or_outside_the_scale_before_the_ruling_is_no_answer_of_the_ceiling() -> None:
    unsure = study("D=binary:T/F")
    unsure = replace(unsure, dimensions=tuple(replace(d, abstain=("unsure",)) for d in unsure.dimensions))
    for earlier in (label("2", "Ben", None, at=1.5, state="skipped"), label("2", "Ben", "unsure", at=1.5)):
        ratings = together(unsure, [*seed(), earlier, label("2", "Ben", "T", at=3)], [ruling("2", "T", at=2)])
        alone = before_rulings(ratings.answers["D"], ratings.labels)
        ben = next(i for i, r in enumerate(alone.raters) if r.name == "Ben")
        assert alone.counted.filter(pl.col("rater") == ben).height == 3


def test_a_ruling_is_gold_that_stands_whatever_other_gold_says() -> None:
    star = [
        label("2", "dan", "F", kind="gold"),
        label("3", "dan", "F", kind="gold"),
        label("3", "eve", "T", kind="gold"),
    ]
    found = said(BINARY, [*seed(), *star], [ruling("2", "T", at=2)])
    calibration = calibrated.of(found.dimensions[0])
    assert calibration is not None
    assert calibration.gold.rule == "adjudicated"
    assert calibration.gold.counts == {"decided": 1, "tied": 1, "too_few": 0}
    against = calibration.judges[0].against_gold
    assert against is not None
    assert against.left_out.accuracy.value == 1  # the judge said T on item 2, as the ruling does


def test_a_ruling_is_gold_even_of_somebody_whom_the_study_calls_an_annotator() -> None:
    settled = replace(BINARY, kinds={"Ben": "annotator"})
    ratings = together(settled, seed(), [ruling("2", "T", at=2, by="Ben")])
    assert {(r.kind, r.name) for r in ratings.answers["D"].raters if r.name == "Ben"} == {
        ("annotator", "Ben"),
        ("gold", "Ben"),
    }
    assert said(settled, seed(), [ruling("2", "T", at=2, by="Ben")]).dimensions[0].annotators.agreement.n_pairs == 4


def test_who_rules_makes_nobody_be_called_otherwise() -> None:
    names = {"file": {"7": "Ben", "8": "Asha"}}
    rows = [label("1", "7", "T"), label("1", "8", "F")]
    ratings = together(BINARY, rows, [ruling("1", "T", at=2, by="Ben")], names=names)
    assert sorted(r.name for r in ratings.answers["D"].raters if r.kind == "annotator") == ["Asha", "Ben"]


def test_a_ruling_that_was_cleared_is_none() -> None:
    own = [ruling("2", "T", at=2) | {"value": None, "state": "cleared"}]
    ratings = together(BINARY, [*seed(), label("2", "Ben", "T", at=3)], own)
    assert late_rows(ratings.answers["D"], ratings.labels).is_empty()
    assert discussed(ratings) == set()
    assert rulings_in(BINARY, labels(own), facts(**{"2": "ambiguous"})) == {}


def test_a_ruling_is_told_with_its_cause_where_answers_differ() -> None:
    own = [ruling("2", "T", at=2, reason="a greeting is no promise")]
    found = said(BINARY, [*seed(), label("2", "Ben", "F", at=3)], own, facts(**{"2": "ambiguous", "9": "x"}))
    (listed,) = [d for d in found.dimensions[0].disagreements.listed if d.item == "2"]
    assert listed.ruling is not None
    assert (listed.ruling.value, listed.ruling.cause, listed.ruling.by) == ("T", "ambiguous", "carol")
    assert listed.ruling.reason == "a greeting is no promise"
    assert [(a.rater, a.after_ruling) for a in listed.answers] == [("Asha", False), ("Ben", True), ("judge", False)]


def test_a_pseudonym_stands_for_whoever_ruled() -> None:
    hidden = replace(BINARY, pseudonyms=True, pseudonym_key="key")
    own = [ruling("2", "T", at=2, by="Ben")]
    found = said(hidden, seed(), own, facts(**{"2": "ambiguous"}))
    (listed,) = [d for d in found.dimensions[0].disagreements.listed if d.item == "2"]
    assert listed.ruling is not None
    assert listed.ruling.by in {a.rater for a in listed.answers}
    assert listed.ruling.by != "Ben"


@pytest.mark.parametrize(
    ("declared", "given_", "expected"),
    [
        ({"scale": "binary", "values": ["Pass", "Fail"]}, " pass ", 0),
        ({"scale": "binary", "values": ["Pass", "Fail"], "map": {"0": "Fail"}}, "0", 1),
        ({"scale": "nominal", "values": [1, 2, True]}, "2", 1),
        ({"scale": "rating", "min": 1, "max": 5}, "4", 3),
        ({"scale": "binary", "values": ["yes", "no"], "choices": ["tone"], "choice": "tone"}, "No", 1),
        ({"scale": "binary", "values": ["yes", "no"], "choices": ["tone"], "choice": "tone"}, "yes", 0),
    ],
)
def test_an_answer_of_a_ruling_is_read_like_any_other(declared: dict[str, Any], given_: str, expected: int) -> None:
    dimension: Dimension = scales.dimension("D", declared)
    ((level, _),) = levels(dimension, [value_of(dimension, given_)]).values()
    assert level == expected


def test_an_answer_outside_the_scale_is_refused_with_what_there_is() -> None:
    (binary,) = BINARY.dimensions
    with pytest.raises(ValueError, match=r"'perhaps' is no answer on D; there are: T, F"):
        value_of(binary, "perhaps")
    free = scales.dimension("R", {"scale": "rating", "min": 0, "max": 1, "step": "any"})
    assert value_of(free, "0.25") == '"0.25"'
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        value_of(free, "2")


answers = st.lists(
    st.tuples(
        st.sampled_from("123"),
        st.sampled_from(["ann", "ben", "cem"]),
        st.sampled_from(["T", "F", None]),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=25,
)


@given(answers, st.lists(st.tuples(st.sampled_from("123"), st.integers(1, 9)), max_size=3, unique_by=lambda r: r[0]))
def test_answers_as_they_stood_before_the_rulings_are_those_of_a_study_that_never_heard_the_later_ones(
    given_: list[tuple[str, str, str | None, int]], rulings: list[tuple[str, int]]
) -> None:
    rows = [
        label(item, who, value, at=at, seq=i, state="answered" if value else "cleared")
        for i, (item, who, value, at) in enumerate(given_)
    ]
    own = [ruling(item, "T", at=at) for item, at in rulings]
    told = dict(rulings)
    ratings = together(BINARY, rows, own) if own else applied(BINARY, *rows)
    alone = before_rulings(ratings.answers["D"], ratings.labels)
    kept = [row for row, (item, _, _, at) in zip(rows, given_, strict=True) if item not in told or at <= told[item]]
    never = applied(BINARY, *kept) if kept else None

    def counted(found: Any, of: Ratings) -> set[tuple[str, str, int]]:
        return {
            (of.labels["item"][row], found.raters[rater].name, level)
            for row, rater, level in found.counted.select("row", "rater", "level").rows()
        }

    assert counted(alone, ratings) == (counted(never.answers["D"], never) if never else set())


def test_answers_asked_for_because_people_disagreed_are_gold() -> None:
    asked = replace(BINARY, review=("9",))
    rows = [*seed(), label("2", "cem", "F", job="9", at=2), label("2", "Asha", "F", job="9", at=3)]
    found = said(asked, rows, []).dimensions[0]
    assert found.annotators.agreement.value == pytest.approx(3 / 4)  # as if nobody had been asked
    assert {r.name for r in found.raters if r.kind == "annotator"} == {"Asha", "Ben"}
    calibration = calibrated.of(found)
    assert calibration is not None
    gold = calibration.gold
    # They settle the disputed item; the others still have their majority.
    assert (gold.rule, gold.resolved, gold.counts) == ("majority", 1, {"decided": 4, "tied": 0, "too_few": 0})
    alone = calibrated.of(said(replace(asked, gold="adjudicated"), rows, []).dimensions[0])
    assert alone is not None
    assert (alone.gold.rule, alone.gold.resolved, alone.gold.counts["decided"]) == ("adjudicated", 0, 1)


def test_one_ruling_settles_its_item_and_takes_the_majority_from_no_other() -> None:
    without = calibrated.of(said(BINARY, seed(), []).dimensions[0])
    ruled_on = calibrated.of(said(BINARY, seed(), [ruling("2", "T", at=2)]).dimensions[0])
    assert without is not None and ruled_on is not None
    assert without.gold.counts == {"decided": 3, "tied": 1, "too_few": 0}
    assert ruled_on.gold.counts == {"decided": 4, "tied": 0, "too_few": 0}
    assert ruled_on.gold.resolved == 1


def test_an_experts_gold_stays_what_judges_are_held_against() -> None:
    expert = [label("1", "expert", "T", kind="gold"), label("3", "expert", "F", kind="gold")]
    found = calibrated.of(said(BINARY, [*seed(), *expert], [ruling("2", "T", at=2)]).dimensions[0])
    assert found is not None
    assert (found.gold.rule, found.gold.counts["decided"]) == ("adjudicated", 3)
