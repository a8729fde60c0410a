"""The panel made from what the rules said, coverage, designs, thresholds, reliability, and numbers that must have a reason."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from calibration_cases import BINARY, FAST, FIVE, QUIET, TWO_BY_TWO, spread
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from calibrate_plugin.agreement.compare import compare
from calibrate_plugin.agreement.estimate import estimate
from calibrate_plugin.agreement.statistics import Alpha, Cohen, Fleiss
from calibrate_plugin.agreement.weights import weights_of
from calibrate_plugin.calibration.alt_test import alt_test
from calibrate_plugin.calibration.ceiling import ceiling, judges_together
from calibrate_plugin.calibration.design import Design, Stratum, weighted_estimate
from calibrate_plugin.calibration.gold import adjudicated, against_gold, majority, single
from calibrate_plugin.calibration.icc import reliability
from calibrate_plugin.calibration.panel import STATES, coverage, panel, panel_of
from calibrate_plugin.calibration.side_by_side import side_by_side
from calibrate_plugin.calibration.thresholds import scores_of, thresholds
from calibrate_plugin.model import LABELS, REASONS, Dimension, Measure, Scale, Study, frame
from calibrate_plugin.ratings.counting import canonical, of_pair
from calibrate_plugin.ratings.rules import Answers, Ratings, apply


def ratings_of(rows: list[dict[str, Any]], dimension: Dimension, **settings_: Any) -> tuple[Ratings, Answers]:
    table = pl.DataFrame(rows).with_columns(field=pl.lit(dimension.name))
    if "state" not in table.columns:
        table = table.with_columns(state=pl.lit("answered"))
    ratings = apply(Study("s", (dimension,), **settings_), {"here": frame(LABELS, table)})
    return ratings, ratings.answers[dimension.name]


def row(item: str, rater: str, kind: str, value: object, **more: Any) -> dict[str, Any]:
    return {"item": item, "rater": rater, "kind": kind, "value": None if value is None else json.dumps(value), **more}


SAFETY = Dimension("Safety", BINARY, ("pass", "fail"), abstain=("unsure",))


def mixed() -> tuple[Ratings, Answers]:
    said: list[dict[str, Any]] = []
    for item, asha, ben, judge, gold in (
        ("1", "pass", "pass", "pass", "pass"),
        ("2", "pass", "fail", "unsure", None),
        ("3", "fail", "fail", "nonsense", "fail"),
        ("4", "fail", None, "pass", None),
        ("5", "pass", "pass", None, None),
    ):
        said.append(row(item, "asha", "annotator", asha))
        if ben is not None:
            said.append(row(item, "ben", "annotator", ben))
        said.append(row(item, "judge", "evaluator", judge, version="v2"))
        if gold is not None:
            said.append(row(item, "lead", "gold", gold))
    return ratings_of(said, SAFETY)


def test_the_panel_holds_what_the_rules_let_count() -> None:
    ratings, answers = mixed()
    seen = panel_of(answers)
    code = dict(zip(ratings.labels["item"].gather(answers.frame["row"]), answers.frame["item"], strict=True))
    who = {seen.name(r): r for r in seen.own}
    assert [seen.name(r) for r in seen.annotators] == ["asha", "ben"]
    assert [seen.name(r) for r in seen.evaluators] == ["judge v2"] and [seen.name(r) for r in seen.golds] == ["lead"]
    by_item = {name: [int(seen.own[r][code[i]]) for i in "12345"] for name, r in who.items()}
    assert by_item == {
        "asha": [0, 0, 1, 1, 0],
        "ben": [0, 1, 1, -1, 0],
        "judge v2": [0, -1, -1, 0, -1],
        "lead": [0, -1, 1, -1, -1],
    }
    states = [STATES[seen.states[who["judge v2"]][code[i]]] for i in "12345"]
    assert states == ["answered", "abstained", "failed", "answered", "failed"]


def test_coverage_stands_apart_from_accuracy() -> None:
    _, answers = mixed()
    seen = panel_of(answers)
    (judge,) = seen.evaluators
    told = coverage(seen, judge)
    assert (told.asked, told.answered, told.abstained, told.failed, told.share.value) == (5, 2, 1, 2, 0.4)
    found = against_gold(seen, judge, adjudicated(seen), FAST)
    assert (found.left_out.accuracy.value, found.as_wrong.accuracy.value) == (1.0, 0.5)


def test_an_older_good_answer_stands_although_the_newest_failed() -> None:
    rows = [row("1", "judge", "evaluator", "pass", seq=1), row("1", "judge", "evaluator", None, seq=2)]
    _, answers = ratings_of([*rows, row("1", "asha", "annotator", "pass")], SAFETY)
    seen = panel_of(answers)
    assert coverage(seen, seen.evaluators[0]).answered == 1 and not seen.unanswered(seen.evaluators[0]).any()


def test_a_judge_that_never_answered_is_still_on_the_panel() -> None:
    rows = [row(str(i), "judge", "evaluator", None) for i in range(3)]
    _, answers = ratings_of([*rows, row("0", "asha", "annotator", "pass")], SAFETY)
    seen = panel_of(answers)
    told = coverage(seen, seen.evaluators[0])
    assert (told.asked, told.answered, told.failed, told.share.value) == (3, 0, 3, 0.0)
    assert ceiling(seen, seen.evaluators[0], FAST).judge_human.mean.reason == "nothing_to_compare"


def test_versions_are_judges_of_their_own() -> None:
    rows = [row(str(i), "judge", "evaluator", "pass", version=v) for i in range(4) for v in ("v1", "v2")]
    _, answers = ratings_of([*rows, row("0", "asha", "annotator", "pass")], SAFETY)
    seen = panel_of(answers)
    assert [seen.name(j) for j in seen.evaluators] == ["judge v1", "judge v2"]


def test_ratings_without_a_step_have_their_values_as_places() -> None:
    free = Dimension("Score", Scale("rating", low=Fraction(0), high=Fraction(1)))
    _, answers = ratings_of([row("1", "a", "annotator", 0.25), row("2", "a", "annotator", 0.125)], free)
    seen = panel_of(answers)
    assert seen.places.tolist() == [0.125, 0.25] and sorted(seen.own[0].tolist()) == [0, 1]


def test_the_panel_of_nothing_is_empty() -> None:
    _, answers = ratings_of([row("1", "judge", "evaluator", None)], SAFETY)
    empty = panel_of(Answers(answers.dimension, answers.frame.clear(), answers.raters, answers.live))
    assert empty.n == 0 and empty.own == {}


# --- designs


def test_a_weighted_statistic_equals_the_statistic_of_repeated_items() -> None:
    rng = np.random.default_rng(0)
    answers = rng.multinomial(3, [0.5, 0.3, 0.2], size=30)
    first = canonical(answers[:10], np.ones(10, dtype=np.int64))
    second = canonical(answers[10:], np.ones(20, dtype=np.int64))
    repeated = canonical(np.concatenate([answers[:10]] * 5 + [answers[10:]] * 2), np.ones(90, dtype=np.int64))
    ordinal = Scale("ordinal", ("low", "mid", "high"))
    for statistic in (Fleiss(weights_of(ordinal)), Fleiss(weights_of(ordinal), "items")):
        (found,) = weighted_estimate(
            [Stratum(first, 5), Stratum(second, 2)], {"k": statistic}, {"k": None}, QUIET
        ).values()
        (plain,) = estimate(repeated, {"k": statistic}, {"k": None}, QUIET).values()
        assert found.value == pytest.approx(plain.value)


def test_one_stratum_of_equal_weights_is_the_plain_statistic() -> None:
    patterns = of_pair(np.array(TWO_BY_TWO["seed 001"]).reshape(2, 2))
    cohen = {"k": Cohen(weights_of(BINARY)), "a": Alpha("nominal", np.arange(2))}
    found = weighted_estimate([Stratum(patterns, 7.0)], {"k": cohen["k"]}, {"k": None}, FAST)["k"]
    plain = estimate(patterns, {"k": cohen["k"]}, {"k": None}, FAST)["k"]
    assert found.value == pytest.approx(plain.value) and found.interval and plain.interval
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (plain.interval.low, plain.interval.high), abs=0.03
    )


def test_the_weighted_interval_covers_under_verification_by_judge_label() -> None:
    # practice.md 3.4: 1,000 items, kappa .601; 50 of the 50 flagged and 50 of the 950 passed are labelled.
    covered, naive, runs = 0, 0, 150
    cohen = {"k": Cohen(weights_of(BINARY))}
    for run in range(runs):
        rng = np.random.default_rng(run)
        fails = int(rng.hypergeometric(38, 912, 50))
        flagged, passed = np.array([[0, 0], [10, 40]]), np.array([[50 - fails, fails], [0, 0]])
        told = dataclasses.replace(FAST, seed=run, resamples=400)
        strata = [Stratum(of_pair(flagged), 1.0), Stratum(of_pair(passed), 19.0)]
        ends = weighted_estimate(strata, cohen, {"k": None}, told)["k"].interval
        plain = estimate(of_pair(flagged + passed), cohen, {"k": None}, told)["k"].interval
        assert ends is not None and plain is not None
        covered += ends.low <= 0.601 <= ends.high
        naive += plain.low <= 0.601 <= plain.high
    assert covered >= 0.9 * runs and naive < 0.7 * runs


# --- thresholds


def test_the_threshold_is_chosen_on_dev_and_told_on_test() -> None:
    rng = np.random.default_rng(1)
    passed = (rng.random(400) < 0.7).astype(int)
    scores = np.clip(passed * 0.3 + rng.random(400) * 0.7, 0, 1)
    dev = np.arange(400) < 200
    found = thresholds(scores, passed, dev=dev, test=~dev)
    assert found.chosen is not None and found.test is not None
    best = max(thresholds(scores[dev], passed[dev]).rows, key=lambda r: r.youden)
    assert found.chosen == best.threshold
    said = scores[~dev] >= found.chosen
    right = passed[~dev] == 1
    assert found.test.tpr.value == pytest.approx((said & right).sum() / right.sum())
    assert found.test.tnr.value == pytest.approx((~said & ~right).sum() / (~right).sum())
    assert found.area.value == pytest.approx(roc_auc_score(passed[dev], scores[dev]))
    assert found.area.interval is not None and found.area.interval.low < found.area.value < found.area.interval.high


def test_every_threshold_of_the_table_counts_right_and_the_curve_ends_in_both_corners() -> None:
    scores = np.array([0.1, 0.4, 0.4, 0.8, np.nan, 0.9])
    passed = np.array([0, 0, 1, 1, 1, -1])
    found = thresholds(scores, passed)
    assert [(r.threshold, r.true_pass, r.false_fail, r.false_pass, r.true_fail) for r in found.rows] == [
        (0.1, 2, 0, 2, 0),
        (0.4, 2, 0, 1, 1),
        (0.8, 1, 1, 0, 2),
    ]
    assert found.roc == ((0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0))


def test_without_a_test_split_nothing_is_told_of_the_chosen_threshold() -> None:
    found = thresholds(np.array([0.1, 0.9] * 10), np.array([0, 1] * 10))
    assert found.test is None and found.test_reason == "no_split" and found.chosen == 0.9


def test_gold_of_one_class_chooses_no_threshold() -> None:
    found = thresholds(np.array([0.1, 0.9]), np.array([1, 1]))
    assert (found.chosen, found.reason, found.area.value) == (None, "one_class", None)
    half = np.array([True, True, False, False])
    told = thresholds(np.array([0.1, 0.9, 0.2, 0.3]), np.array([0, 1, 1, 1]), dev=half, test=~half)
    assert told.chosen == 0.9 and told.test is None and told.test_reason == "one_class"


def test_a_long_table_is_thinned_and_keeps_the_best_threshold() -> None:
    rng = np.random.default_rng(2)
    passed = (rng.random(5000) < 0.5).astype(int)
    found = thresholds(rng.random(5000) + passed * 0.2, passed)
    assert len(found.rows) <= 102 and any(r.threshold == found.chosen for r in found.rows)
    assert found.roc[0] == (0.0, 0.0) and found.roc[-1] == (1.0, 1.0)


def test_classes_wholly_apart_have_an_area_of_one_with_an_honest_interval() -> None:
    found = thresholds(np.arange(40.0), (np.arange(40) >= 20).astype(int))
    assert found.area.value == 1.0 and found.area.interval is not None
    assert found.area.interval.low == pytest.approx(20 / (20 + 1.96**2), abs=1e-3)


def test_the_area_equals_scikit_learns_with_ties() -> None:
    rng = np.random.default_rng(3)
    passed, scores = (rng.random(200) < 0.4).astype(int), rng.integers(0, 6, 200) / 5.0
    assert thresholds(scores, passed).area.value == pytest.approx(roc_auc_score(passed, scores))


def test_the_numbers_of_a_judge_are_read_before_there_is_a_verdict_for_them() -> None:
    rows = [
        row("1", "judge", "evaluator", 0.7, seq=2),
        row("1", "judge", "evaluator", 0.2, seq=1),
        row("2", "judge", "evaluator", "0.5", seq=3),
        row("3", "judge", "evaluator", "broken", seq=4),
        row("1", "asha", "annotator", "pass", seq=5),
    ]
    ratings, answers = ratings_of(rows, SAFETY)
    seen = panel_of(answers)
    judge = seen.evaluators[0]
    code = dict(zip(ratings.labels["item"].gather(answers.frame["row"]), answers.frame["item"], strict=True))
    found = scores_of(answers, ratings.labels, judge, seen.n)
    assert [found[code["1"]], found[code["2"]]] == [0.7, 0.5] and math.isnan(found[code["3"]])


# --- reliability


def test_the_intraclass_correlation_of_unequal_numbers_of_ratings() -> None:
    people = {"a": [0, 4, 2, 1, 3], "b": [1, 4, None, 2, 3], "c": [0, None, 3, None, None]}
    found = reliability(panel(FIVE, people), QUIET)  # by hand: MSB and MSW of the one-way table
    groups = [[0, 1, 0], [4, 4], [2, 3], [1, 2], [3, 3]]
    n, k = len(groups), np.array([len(g) for g in groups])
    every = np.concatenate(groups)
    between = sum(len(g) * (np.mean(g) - every.mean()) ** 2 for g in groups) / (n - 1)
    within = sum(((np.array(g) - np.mean(g)) ** 2).sum() for g in groups) / (k.sum() - n)
    k0 = (k.sum() - (k**2).sum() / k.sum()) / (n - 1)
    assert found.single.value == pytest.approx((between - within) / (between + (k0 - 1) * within))
    assert found.mean.value == pytest.approx((between - within) / between)


def test_reliability_is_for_ratings_with_something_to_compare() -> None:
    assert reliability(panel(BINARY, {"a": [0, 1], "b": [0, 1]}), QUIET).single.reason == "not_applicable"
    assert reliability(panel(FIVE, {"a": [0, 1]}), QUIET).single.reason == "nothing_to_compare"
    assert reliability(panel(FIVE, {"a": [0, 1], "b": [0, None]}), QUIET).single.reason == "single_item"
    assert reliability(panel(FIVE, {"a": [2, 2], "b": [2, 2]}), QUIET).mean.reason == "same_answer"


# --- what must hold of everything


def measures(value: object) -> Iterator[Measure]:
    if isinstance(value, Measure):
        yield value
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            yield from measures(getattr(value, f.name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from measures(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from measures(one)


LEVEL = st.sampled_from([0, 1, 2, 3, 4, None])


@given(
    st.lists(st.tuples(LEVEL, LEVEL, LEVEL, LEVEL, LEVEL), max_size=30),
    st.sampled_from(["binary", "nominal", "ordinal", "rating", "preference"]),
    st.sampled_from(["unknown", "random", "by_judge", "weighted"]),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_every_number_is_a_finite_value_or_a_known_reason(
    rows: list[tuple[int | None, ...]], kind: str, design_kind: str
) -> None:
    names = ("a", "b", "c", "d", "e")
    scale = {
        "binary": BINARY,
        "nominal": Scale("nominal", names),
        "ordinal": Scale("ordinal", names),
        "rating": FIVE,
        "preference": Scale("preference", ("A", "B", "tie"), fixed=False),
    }[kind]
    most = (scale.levels or 5) - 1
    columns = [[None if r[i] is None else min(most, r[i]) for r in rows] for i in range(5)]  # type: ignore[type-var]
    left = {"j": ["failed" if v is None and i % 2 else None for i, v in enumerate(columns[3])]}
    seen = panel(scale, dict(zip("xyz", columns[:3], strict=True)), {"j": columns[3], "k": columns[4]}, {}, left)
    design = Design(design_kind) if design_kind != "weighted" else Design(  # type: ignore[arg-type]
        "by_judge", np.arange(len(rows)) % 2, np.where(np.arange(len(rows)) % 2, 0.5, 0.1)
    )  # fmt: skip
    quick = dataclasses.replace(FAST, resamples=200)
    gold = majority(seen)
    told = [
        ceiling(seen, 3, quick, design=design),
        judges_together(seen, [3, 4], quick),
        alt_test(seen, 3, quick),
        against_gold(seen, 3, gold, quick, design=design),
        against_gold(seen, 4, single(seen, 0), quick),
        side_by_side(seen, [3, 4], quick, gold=gold, design=design),
        reliability(seen, quick),
    ]
    for measure in measures(told):
        assert (measure.value is None) == (measure.reason is not None)
        assert measure.reason is None or measure.reason in REASONS
        assert measure.interval_reason is None or measure.interval_reason in REASONS
        for number in (measure.value, *((measure.interval.low, measure.interval.high) if measure.interval else ())):
            assert number is None or math.isfinite(number)
        if measure.value is not None:
            assert (measure.interval is None) == (measure.interval_reason is not None), measure


def test_a_kappa_of_a_pair_is_the_kappa_that_the_report_shows() -> None:
    first, second = spread(*TWO_BY_TWO["seed 001"])
    seen = panel(BINARY, {"a": first, "b": second}, {"judge": first})
    rows = pl.DataFrame(
        {"item": list(range(100)) * 2, "rater": [0] * 100 + [1] * 100, "level": first + second, "number": [0.0] * 200},
        schema={"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64},
    )
    shown = compare(BINARY, rows, [0, 1], [], QUIET).pair(0, 1, "a", "b")
    assert shown is not None and ceiling(seen, 2, QUIET).human_human.pairs[0].kappa.value == shown[1].value
