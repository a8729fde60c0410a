"""The numbers that the contract names, as exact fractions: from a page of labels to the report, and by the functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from said import GAP, grid, reported, study

from calibrate_plugin.agreement import cohen_kappa, fleiss_kappa, percent_agreement, pooled_agreement, pooled_kappa
from calibrate_plugin.model import Measure

BINARY, RATING = "binary:T/F", "rating:1..5"
SAFETY = {"Asha": "TTFT", "Ben": "TFFT"}
EMPATHY = {"Asha": [4, 3, 5, 2], "Ben": [4, 2, 5, 3]}


def crossed(both_first: int, first_second: int, second_first: int, both_second: int) -> dict[str, str]:
    """Two raters' answers from their table of counts."""
    first = "T" * (both_first + first_second) + "F" * (second_first + both_second)
    second = "T" * both_first + "F" * first_second + "T" * second_first + "F" * both_second
    return {"a": first, "b": second}


def rows(*items: str) -> dict[str, list[Any]]:
    """Answers item by item, the k-th answer of each being the k-th person's."""
    most = max(map(len, items))
    return {f"p{k}": [item[k] if k < len(item) else GAP for item in items] for k in range(most)}


def numbers(answers: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {rater: [v if v is GAP else int(v) for v in given] for rater, given in answers.items()}


CASES: dict[str, tuple[str, Mapping[str, Sequence[Any]], str, str, str, str]] = {
    "Asha and Ben, Safety": (BINARY, SAFETY, "cohen", "3/4", "1/2", "1/2"),
    "Asha and Ben, Empathy": (RATING, EMPATHY, "cohen", "7/8", "11/16", "3/5"),
    "two people pass 9 of 10, agree on 8": (BINARY, crossed(8, 1, 1, 0), "cohen", "4/5", "41/50", "-1/9"),
    "third annotator on all four items, Safety": (BINARY, SAFETY | {"Cem": "TTFF"}, "fleiss", "2/3", "37/72", "11/35"),
    "third annotator on all four items, Empathy": (
        RATING,
        EMPATHY | {"Cem": [4, 3, 4, 2]},
        "fleiss",
        "7/8",
        "205/288",
        "47/83",
    ),
    "third annotator on item 1 only, Safety": (BINARY, SAFETY | {"Cem": "F"}, "fleiss", "1/2", "41/81", "-1/80"),
    "third annotator on item 1 only, Empathy": (RATING, EMPATHY | {"Cem": [2]}, "fleiss", "3/4", "55/81", "23/104"),
    "binary items TTT, TFT, FF, TT, and F alone": (
        BINARY,
        rows("TTT", "TFT", "FF", "TT", "F"),
        "fleiss",
        "3/4",
        "29/50",
        "17/42",
    ),
    "ratings 445, 324, 55, 23, and 1 alone": (
        RATING,
        numbers(rows("445", "324", "55", "23", "1")),
        "fleiss",
        "25/32",
        "139/200",
        "69/244",
    ),
    "A-B on 2 items, C-D on 2 items": (
        BINARY,
        {"A": "TT", "B": "TF", "C": [GAP, GAP, "F", "T"], "D": [GAP, GAP, "F", "T"]},
        "fleiss",
        "3/4",
        "17/32",
        "7/15",
    ),
    "80 % / 75 % pass, both pass 70, both fail 15 of 100": (
        BINARY,
        crossed(70, 10, 5, 15),
        "cohen",
        "17/20",
        "13/20",
        "4/7",
    ),
    "both pass 90, both fail 2, split 4 and 4": (BINARY, crossed(90, 4, 4, 2), "cohen", "23/25", "1109/1250", "41/141"),
}
EVALUATOR: dict[str, tuple[str, Mapping[str, Sequence[Any]], Sequence[Any], str, str, str]] = {
    "evaluator and annotators, Safety": (BINARY, SAFETY, "TTFF", "5/8", "1/2", "1/4"),
    "evaluator and annotators, Empathy": (RATING, EMPATHY, [5, 4, 4, 2], "3/4", "11/16", "1/5"),
    "evaluator T vs {T,F}, T vs {T}, F vs {F,T,F}": (BINARY, rows("TF", "T", "FTF"), "TTF", "2/3", "1/2", "1/3"),
    "grader: 60 human fails, 66 grader fails, 48 both, of 200": (
        BINARY,
        {"human": crossed(122, 18, 12, 48)["a"]},
        crossed(122, 18, 12, 48)["b"],
        "17/20",
        "71/125",
        "47/72",
    ),
}


def table(answers: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"item": [], "rater": [], "value": []}
    for rater, given in answers.items():
        for item, value in enumerate(given):
            if value is not GAP:
                for column, entry in zip(found, (item, rater, value), strict=True):
                    found[column].append(entry)
    return found


def assert_exactly(agreement: Measure, kappa: Measure, *wanted: str) -> None:
    found = (agreement.value, kappa.details["chance"], kappa.value)
    assert found == tuple(float(Fraction(w)) for w in wanted)


@pytest.mark.parametrize("case", CASES)
def test_annotators_from_labels_to_report(case: str) -> None:
    spec, answers, kind, *wanted = CASES[case]
    found = reported(study(f"D={spec}"), grid(**answers)).annotators
    assert_exactly(found.agreement, found.kappa, *wanted)
    assert found.kappa.details["kind"] == kind


@pytest.mark.parametrize("case", CASES)
def test_annotators_by_the_functions(case: str) -> None:
    spec, answers, kind, *wanted = CASES[case]
    kappa = (cohen_kappa if kind == "cohen" else fleiss_kappa)(table(answers), spec)
    assert_exactly(percent_agreement(table(answers), spec), kappa, *wanted)


@pytest.mark.parametrize("case", EVALUATOR)
def test_an_evaluator_from_labels_to_report(case: str) -> None:
    spec, answers, judge, *wanted = EVALUATOR[case]
    (found,) = reported(study(f"D={spec}"), grid(**answers) + grid(kind="evaluator", judge=judge)).evaluators
    assert_exactly(found.agreement, found.kappa, *wanted)
    assert found.kappa.details["kind"] == "cohen"


@pytest.mark.parametrize("case", EVALUATOR)
def test_an_evaluator_by_the_functions(case: str) -> None:
    spec, answers, judge, *wanted = EVALUATOR[case]
    answered = table({"judge": judge, **answers})
    assert_exactly(pooled_agreement(answered, spec, "judge"), pooled_kappa(answered, spec, "judge"), *wanted)


def test_fleiss_for_two_annotators_would_be_another_number() -> None:
    assert fleiss_kappa(table(SAFETY), BINARY).value == float(Fraction(7, 15))


def test_a_third_annotator_with_items_of_their_own_leaves_it_cohens() -> None:
    alone = SAFETY | {"Cem": [GAP, GAP, GAP, GAP, "F", "T"]}
    found = reported(study(f"D={BINARY}"), grid(**alone)).annotators
    assert_exactly(found.agreement, found.kappa, "3/4", "1/2", "1/2")
    assert (found.kappa.details["kind"], found.counted) == ("cohen", ("Asha", "Ben"))


def test_chained_pairs_of_three_people_are_fleiss() -> None:
    chained = {"A": ["T", "F", GAP, GAP], "B": ["T", "T", "F", "F"], "C": [GAP, GAP, "F", "T"]}
    found = reported(study(f"D={BINARY}"), grid(**chained)).annotators
    assert (found.kappa.details["kind"], found.counted) == ("fleiss", ("A", "B", "C"))


def test_one_annotator_with_the_others_is_cohens_over_pooled_pairs() -> None:
    found = reported(study(f"D={BINARY}"), grid(**SAFETY, Cem="TTFF")).annotators
    asha = next(e for e in found.each if e.rater == "Asha")
    # Asha TTFT beside Ben TFFT and Cem TTFF: 6 of 8 pairs agree; she passes 6 of 8, they pass 4 of 8.
    assert_exactly(asha.agreement, asha.kappa, "3/4", "1/2", "1/2")
    assert (asha.agreement.n_pairs, asha.agreement.n_items) == (8, 4)


def test_the_scores_of_the_page() -> None:
    specs = study("Safety=binary:T/F", "Empathy=rating:1..5")
    answers = grid("Safety", **SAFETY) + grid("Safety", "evaluator", judge="TTFF")
    answers += grid("Empathy", **EMPATHY) + grid("Empathy", "evaluator", judge=[5, 4, 4, 2])
    safety, empathy = (
        reported(study(f"{d.name}={s}"), answers) for d, s in zip(specs.dimensions, (BINARY, RATING), strict=True)
    )
    assert (safety.human_score.value, safety.human_score.details["n_labels"]) == (5 / 8, 8)
    assert [e.score.value for e in safety.annotators.each] == [3 / 4, 2 / 4]
    assert safety.evaluators[0].score.value == 2 / 4
    assert (empathy.human_score.value, empathy.evaluators[0].score.value) == (3.5, 3.75)
    assert [e.score.value for e in empathy.annotators.each] == [3.5, 3.5]


def test_scores_count_every_human_label_and_every_item_of_an_evaluator_once() -> None:
    # Item 1 has three annotators and weighs three times; nobody but Ann labelled item 2; the judge alone scored item 3.
    answers = grid(ann="TF", ben="T", cem="T") + grid(kind="evaluator", judge=["F", GAP, "T"])
    found = reported(study(f"D={BINARY}"), answers)
    assert found.human_score.value == 3 / 4
    (judge,) = found.evaluators
    assert judge.score.value == 1 / 2
    shared, humans = judge.on_shared_items
    assert (shared.value, shared.n_items, humans.value, humans.n_items) == (0.0, 1, 1.0, 1)


def test_kappa_does_not_depend_on_the_ends_of_the_scale_but_agreement_does() -> None:
    narrow, wide = (cohen_kappa(table(EMPATHY), f"rating:{ends}") for ends in ("1..5", "0..100"))
    assert narrow.value == wide.value == 0.6
    assert narrow.details["chance"] != wide.details["chance"]
    assert percent_agreement(table(EMPATHY), "rating:0..100").value == float(1 - Fraction(1, 200))


def test_the_tables_of_counts_stand_with_the_kappas() -> None:
    found = reported(study(f"D={BINARY}"), grid(**SAFETY) + grid(kind="evaluator", judge="TTFF"))
    (pair,) = found.annotators.pairs
    assert pair.counts is not None
    assert (pair.a, pair.b, pair.counts.labels, pair.counts.table) == ("Asha", "Ben", ("T", "F"), ((2, 1), (0, 1)))
    counts = found.evaluators[0].counts
    assert (counts.rows, counts.columns, counts.table) == ("judge", "annotators", ((3, 1), (2, 2)))
