"""What holds for all labels, from the labels to the report."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from said import grid, judged, label, report, reported, study

from calibrate_plugin.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, percent_agreement
from calibrate_plugin.model import DimensionReport, Measure
from calibrate_plugin.report.json import render

VALUES = {
    "binary:T/F": ["T", "F"],
    "nominal:a/b/c": ["a", "b", "c"],
    "ordinal:low/mid/high": ["low", "mid", "high"],
    "rating:1..5": [1, 2, 3, 4, 5],
    "rating:0..1:any": [0, 0.1, 0.25, 0.7, 1],
    "preference:A/B/tie": ["A", "B", "tie"],
}


@st.composite
def labelled(draw: Any, specs: tuple[str, ...] = tuple(VALUES)) -> tuple[str, list[dict[str, Any]]]:
    """A scale, and labels of people and judges on few items, one a rater and item."""
    spec = draw(st.sampled_from(specs))
    value = st.sampled_from(VALUES[spec])
    rows = []
    for name, make in (("ann", label), ("ben", label), ("cem", label), ("judge", judged), ("other judge", judged)):
        items = draw(st.lists(st.integers(0, 14), unique=True, max_size=15))
        rows += [make(str(item), name, draw(value)) for item in items]
    return spec, rows


def values(found: DimensionReport) -> list[Any]:
    """Every number without its interval, whose draws follow the names."""
    people = found.annotators
    measures: list[Measure] = [
        found.human_score, people.agreement, people.kappa, people.alpha, people.ac, people.pabak, people.positive_agreement,
        people.negative_agreement, *people.alphas.values(), found.fleiss_all, found.alpha_all,
    ]  # fmt: skip
    for e in found.evaluators:
        measures += [e.score, *e.on_shared_items, e.agreement, e.kappa, e.pabak]
    told = [(m.value, m.reason, m.n_items, m.n_pairs) for m in measures]
    return [*told, found.disagreements.human_items, found.disagreements.judge_items, found.disagreements.pairs]


@settings(max_examples=30)
@given(labelled(), st.randoms(use_true_random=False))
def test_the_order_of_labels_does_not_matter(case: tuple[str, list[dict[str, Any]]], chance: random.Random) -> None:
    spec, rows = case
    of = replace(study(f"D={spec}"), resamples=200)
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert render(report(of, rows)) == render(report(of, shuffled))


@settings(max_examples=30)
@given(labelled())
def test_what_items_and_raters_are_called_does_not_matter(case: tuple[str, list[dict[str, Any]]]) -> None:
    spec, rows = case
    of = study(f"D={spec}")
    items = {str(i): f"item {(7 * i) % 15}" for i in range(15)}
    called = {"ann": "zoe", "ben": "ann", "cem": "yan", "judge": "w", "other judge": "x"}
    renamed = [r | {"item": items[r["item"]], "rater": called[r["rater"]]} for r in rows]
    one, other = reported(of, rows, method="none"), reported(of, renamed, method="none")
    # Two people who change places are the two sides of a Cohen's kappa: its float sums may differ in their last bit.
    assert approximately(values(one)) == values(other)
    assert [e.counts.table for e in one.evaluators] == [e.counts.table for e in other.evaluators]


@settings(max_examples=30)
@given(labelled(("nominal:a/b/c",)), st.permutations(["a", "b", "c"]))
def test_the_order_of_nominal_categories_does_not_matter(
    case: tuple[str, list[dict[str, Any]]], order: list[str]
) -> None:
    _, rows = case
    one, other = (reported(study(f"D=nominal:{'/'.join(o)}"), rows, method="none") for o in (["a", "b", "c"], order))
    assert approximately(values(one)) == values(other)


@settings(max_examples=30)
@given(labelled(("nominal:a/b/c",)), st.permutations(["a", "b", "c"]))
def test_relabelling_nominal_categories_does_not_matter(
    case: tuple[str, list[dict[str, Any]]], names: list[str]
) -> None:
    _, rows = case
    new = {json.dumps(old): json.dumps(new) for old, new in zip("abc", names, strict=True)}
    renamed = [r | {"value": new[r["value"]]} for r in rows]
    of = study("D=nominal:a/b/c")
    assert approximately(values(reported(of, rows, method="none"))) == values(reported(of, renamed, method="none"))


@settings(max_examples=30)
@given(labelled(("ordinal:low/mid/high",)))
def test_an_ordered_scale_may_be_turned_around(case: tuple[str, list[dict[str, Any]]]) -> None:
    _, rows = case
    one, other = (reported(study(f"D=ordinal:{o}"), rows, method="none") for o in ("low/mid/high", "high/mid/low"))
    assert approximately(values(one)) == values(other)


def approximately(found: list[Any]) -> list[Any]:
    """Sums of floats (items forms, alpha) may differ in their last bits."""
    return [
        pytest.approx(v, abs=1e-12)
        if isinstance(v, float)
        else tuple(approximately(list(v)))
        if isinstance(v, tuple)
        else v
        for v in found
    ]


TABLE = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=3, max_size=3)


@settings(max_examples=40)
@given(TABLE, st.integers(-3, 0), st.integers(3, 9))
def test_weighted_kappa_does_not_move_with_the_ends_of_the_scale(table: list[list[int]], low: int, high: int) -> None:
    rows = [(i, j) for i, row in enumerate(table) for j, n in enumerate(row) for _ in range(n)]
    answers = {
        "item": [*range(len(rows))] * 2,
        "rater": ["a"] * len(rows) + ["b"] * len(rows),
        "value": [a for a, _ in rows] + [b for _, b in rows],
    }
    narrow, wide = "rating:0..2", f"rating:{low}..{high}"
    for function in (cohen_kappa, fleiss_kappa):
        assert function(answers, narrow).value == function(answers, wide).value
        for weights in ("identity", "quadratic"):
            assert function(answers, narrow, weights=weights).value == function(answers, wide, weights=weights).value
    apart = sum((Fraction(abs(a - b)) for a, b in rows), Fraction(0))
    if rows:
        assert percent_agreement(answers, wide).value == float(1 - apart / (len(rows) * (high - low)))
        alpha = krippendorff_alpha(answers, narrow).value
        assert krippendorff_alpha(answers, wide).value == pytest.approx(alpha, abs=1e-12)


@given(TABLE)
def test_agreement_kappa_and_chance_shown_reproduce_each_other(table: list[list[int]]) -> None:
    kappa = cohen_kappa(table, "rating:1..3")
    if kappa.value is not None:
        agreement, chance = percent_agreement(table, "rating:1..3").value, kappa.details["chance"]
        assert agreement is not None
        assert kappa.value == pytest.approx((agreement - chance) / (1 - chance), abs=1e-9)


# undefined, by its precedence


def kappa_of(**answers: Any) -> Measure:
    return reported(study("D=binary:T/F"), grid(**answers)).annotators.kappa


def test_without_a_pair_there_is_nothing_to_compare() -> None:
    for answers in ({"ann": "TTTT"}, {"ann": "TT", "ben": [*"  TT"][2:]}, {}):
        apart = {k: v for k, v in answers.items() if k == "ann"}
        assert kappa_of(**apart).reason == "nothing_to_compare"


def test_one_item_is_a_single_item_even_where_all_answers_are_the_same_or_the_formula_gives_a_number() -> None:
    same, differing, three = kappa_of(ann="T", ben="T"), kappa_of(ann="T", ben="F"), kappa_of(ann="T", ben="F", cem="F")
    assert [m.reason for m in (same, differing, three)] == ["single_item"] * 3
    assert [m.value for m in (same, differing, three)] == [None] * 3
    assert three.n_pairs == 3


def test_one_answer_everywhere_is_the_same_answer() -> None:
    assert kappa_of(ann="TTT", ben="TTT").reason == "same_answer"
    assert kappa_of(ann="TTT", ben="TTT", cem="TTT").reason == "same_answer"
    # An answer that meets no other does not make it defined.
    assert kappa_of(ann="TTTF", ben="TTT").reason == "same_answer"


def test_the_same_answer_is_decided_on_the_answers_and_not_on_a_float() -> None:
    # Chance is 1 - 2e-9, which a formula with floats may take for 1.
    table = [[10**9, 1], [0, 0]]
    found = cohen_kappa(table, "binary:T/F")
    assert (found.value, found.reason) == (0.0, None)
    nearly = fleiss_kappa(table, "binary:T/F")
    assert nearly.value == float(Fraction(-1, 2 * 10**9 + 1))


def test_one_side_constant_while_the_other_varies_is_a_defined_0() -> None:
    found = kappa_of(ann="TTTT", ben="TFTF")
    assert (found.value, found.reason) == (0.0, None)


def test_each_side_constant_but_different_is_a_defined_0() -> None:
    found = reported(study("D=binary:T/F"), grid(ann="TTTT", ben="FFFF")).annotators
    assert (found.kappa.value, found.kappa.reason, found.agreement.value) == (0.0, None, 0.0)


def test_raw_agreement_stays_defined_where_kappa_is_not() -> None:
    found = reported(study("D=binary:T/F"), grid(ann="TTT", ben="TTT")).annotators
    assert (found.agreement.value, found.pabak.value, found.ac.value) == (1.0, 1.0, 1.0)
    assert found.alpha.reason == found.kappa.reason == "same_answer"
    assert (found.negative_agreement.reason, found.positive_agreement.value) == ("same_answer", 1.0)


def test_an_evaluator_that_never_met_an_annotator_has_nothing_to_compare() -> None:
    found = reported(study("D=binary:T/F"), [label("1", "ann", "T"), judged("2", "j", "T")])
    (judge,) = found.evaluators
    assert (judge.agreement.reason, judge.kappa.reason, judge.score.value) == (
        "nothing_to_compare",
        "nothing_to_compare",
        1.0,
    )
    assert [m.reason for m in judge.on_shared_items] == ["no_labels", "no_labels"]


# JSON never holds NaN

ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["T", "F", 1, 2, 0.5])
)
ROW = st.fixed_dictionaries(
    {
        "item": st.sampled_from(["", "0", "1", "2", "\x00", None]),
        "rater": st.sampled_from(["", "0", "ann", "[/]", "=1+1", None]),
        "field": st.just("D"),
        "kind": st.sampled_from(["annotator", "evaluator", "gold"]),
        "state": st.sampled_from(["answered", "answered", "cleared", "skipped", "failed"]),
        "value": st.none() | ANYTHING.map(json.dumps) | st.sampled_from(["NaN", "-Infinity", "{", '"\\ud800"']),
        "version": st.none() | st.sampled_from(["", "v1"]),
        "run": st.none() | st.just("r1"),
        "sample": st.none() | st.sampled_from(["0", "1"]),
        "order": st.none() | st.sampled_from(["AB", "BA"]),
        "execution": st.none() | st.just("e"),
        "retired": st.none() | st.sampled_from(["expired", "item_deleted", "run_failed"]),
        "blind": st.none() | st.booleans(),
        "confidence": st.none() | st.floats(),
        "reason": st.none() | st.text(max_size=3),
    }
)


@settings(max_examples=60)
@given(st.lists(ROW, max_size=30), st.sampled_from([*VALUES, "nominal:1/2/true"]), st.sampled_from([None, "r1"]))
def test_whatever_the_labels_hold_a_report_is_made_and_its_json_has_no_nan(
    rows: list[dict[str, Any]], spec: str, run: str | None
) -> None:
    made = report(replace(study(f"D={spec}"), resamples=200), rows, run=run)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in the JSON")

    json.loads(render(made), parse_constant=refuse)
    (found,) = made.dimensions
    left = sum(n for cause, n in found.set_aside.items() if cause != "unpaired")
    answered = sum(r.answers for r in found.raters)
    gold = sum(r["kind"] == "gold" for r in rows)
    if run is None:
        # Each label counts, or is set aside for one cause, or is gold.
        assert left + answered + gold >= len(rows)
        assert left + answered <= len(rows)
