"""A judge against gold: classification, errors and correlations, ties, failures, weights, and independent oracles."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from calibration_cases import BINARY, FAST, FIVE, HUMAN, JUDGE, QUIET, TWO_BY_TWO, rated, spread
from sklearn.metrics import f1_score, precision_score, recall_score

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration import gold as gold_module
from calibrate_plugin.calibration.design import Design
from calibrate_plugin.calibration.errors import errors_of_values
from calibrate_plugin.calibration.gold import adjudicated, against_gold, majority, single
from calibrate_plugin.calibration.panel import coverage, panel
from calibrate_plugin.calibration.side_by_side import mcnemar, side_by_side
from calibrate_plugin.model import Measure, Scale

NOMINAL = Scale("nominal", ("a", "b", "c"))


def grader() -> gold_module.AgainstGold:
    person, machine = spread(*TWO_BY_TWO["seed 001 grader"])
    seen = panel(BINARY, {"person": person}, {"grader": machine})
    return against_gold(seen, 1, single(seen, 0), FAST)


def test_the_graders_golden_numbers_with_either_positive_class() -> None:
    # practice.md 3.1: human fail 60, judge fail 66, both 48, both pass 122.
    found = grader().left_out
    fail, good = found.positive("fail"), found.positive("pass")
    assert found.accuracy.value == 0.85
    values = [m.value for m in (fail.precision, fail.recall, fail.f1, good.tpr, good.tnr, good.f1)]
    assert values == pytest.approx([0.7273, 0.8, 0.7619, 0.8714, 0.8, 0.8905], abs=5e-5)
    assert fail.youden == pytest.approx(0.6714, abs=5e-5) and good.youden == fail.youden
    # EvalGen: coverage of fails .800, false-failure rate .1286, harmonic mean of coverage and one less that rate .8342.
    assert fail.tnr.value == pytest.approx(1 - 0.1286, abs=5e-5)
    assert fail.alignment == good.alignment == pytest.approx(0.8342, abs=5e-5)


def test_rates_have_wilson_intervals() -> None:
    tpr = grader().left_out.positive("pass").tpr
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(122, 140, method="wilson")
    assert tpr.interval is not None and (tpr.interval.low, tpr.interval.high) == pytest.approx((low, high))


def test_an_undeclared_positive_class_is_refused() -> None:
    with pytest.raises(ValueError, match="'Pass' is no class of this scale; declare one of pass, fail"):
        grader().left_out.positive("Pass")


def test_the_likert_items_golden_numbers() -> None:
    seen = panel(FIVE, {"human": rated(HUMAN)}, {"judge": rated(JUDGE)})
    found = against_gold(seen, 1, single(seen, 0), FAST).left_out
    assert found.errors is not None and found.accuracy.value == pytest.approx(0.583, abs=5e-4)
    values = [m.value for m in (found.errors.within_one, found.errors.mae, found.errors.bias)]
    assert values == pytest.approx([1.0, 0.4167, 0.0833], abs=5e-5)
    assert found.kappa.value == pytest.approx(0.6512, abs=5e-5)
    assert found.classes == ()


def test_gold_of_one_class_leaves_the_other_rate_undefined() -> None:
    seen = panel(BINARY, {"person": [0] * 20}, {"judge": [0] * 15 + [1] * 5})
    fail = against_gold(seen, 1, single(seen, 0), FAST).left_out.positive("fail")
    assert (fail.tpr.value, fail.tpr.reason) == (None, "one_class")
    assert fail.tnr.value == 0.75 and fail.precision.value == 0 and fail.youden is None


def test_a_class_that_was_never_predicted_has_no_precision_and_a_recall_of_zero() -> None:
    seen = panel(BINARY, {"person": [1] * 6 + [0] * 14}, {"judge": [0] * 20})
    fail = against_gold(seen, 1, single(seen, 0), FAST).left_out.positive("fail")
    assert (fail.precision.value, fail.precision.reason) == (None, "never_predicted")
    assert (fail.recall.value, fail.f1.value, fail.tnr.value) == (0, 0, 1)


def test_failed_answers_are_left_out_and_counted_as_wrong() -> None:
    person = [0] * 10 + [1] * 10
    judge = [0] * 6 + [None] * 4 + [1] * 5 + [0] * 2 + [None] * 3
    left = {"judge": [None] * 6 + ["failed"] * 4 + [None] * 7 + ["failed"] * 3}
    seen = panel(BINARY, {"person": person}, {"judge": judge}, unanswered=left)
    found = against_gold(seen, 1, single(seen, 0), FAST)
    assert found.failed == (4, 3)
    assert found.left_out.accuracy.value == 11 / 13 and found.as_wrong.accuracy.value == 11 / 20
    fail = found.as_wrong.positive("fail")
    assert (fail.recall.value, fail.precision.value) == (5 / 10, 1.0)
    assert fail.tnr.value == 6 / 10  # what was not answered is not a true negative either
    assert fail.f1.value == 2 * 5 / (5 + 10)
    told = coverage(seen, 1)
    assert (told.asked, told.answered, told.failed, told.share.value) == (20, 13, 7, 0.65)


def test_a_judge_that_answers_two_of_four_is_not_perfect() -> None:
    # practice.md 0.6: two right answers, two crashes.
    seen = panel(
        BINARY, {"a": [0, 1, 0, 1]}, {"j": [0, 1, None, None]}, unanswered={"j": [None, None, "failed", "failed"]}
    )
    found = against_gold(seen, 1, single(seen, 0), FAST)
    assert (found.left_out.accuracy.value, found.as_wrong.accuracy.value, found.coverage.share.value) == (1, 0.5, 0.5)


def test_a_tie_of_the_annotators_is_counted_and_is_no_label() -> None:
    people = {"x": [0, 0, 0, None], "y": [0, 1, 1, 1], "z": [1, 2, None, None]}
    found = majority(panel(NOMINAL, people))
    assert found.level.tolist() == [0, -1, -1, -1]
    assert found.counts == {"decided": 1, "tied": 2, "too_few": 1}


def test_nothing_but_ties_is_no_gold_and_no_number() -> None:
    seen = panel(BINARY, {"x": [0] * 20, "y": [1] * 20}, {"judge": [0] * 20})
    found = against_gold(seen, 2, majority(seen), FAST)
    assert found.gold_counts == {"decided": 0, "tied": 20, "too_few": 0}
    assert found.left_out.accuracy.value is None and found.left_out.accuracy.reason == "nothing_to_compare"


def test_the_majority_of_an_ordered_scale_is_the_median() -> None:
    people = {"x": rated([1, 1, 2]), "y": rated([4, 2, 2]), "z": rated([5, None, None])}
    found = majority(panel(FIVE, people))
    assert found.level.tolist() == [3, -1, 1]  # 4 of 1, 4, 5; between 1 and 2 lies no level; 2
    assert found.counts == {"decided": 2, "tied": 1, "too_few": 0}


def test_a_majority_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="a majority of 1"):
        majority(panel(BINARY, {"x": [0]}), least=1)


def test_adjudicated_answers_that_differ_are_tied() -> None:
    seen = panel(BINARY, {"x": [0, 0, 0]}, {}, {"lead": [0, 1, None], "chief": [0, 0, 1]})
    found = adjudicated(seen)
    assert found.level.tolist() == [0, -1, 1] and found.counts["tied"] == 1 and found.source == "lead, chief"


def test_soft_labels_need_no_majority() -> None:
    seen = panel(BINARY, {"x": [0] * 12, "y": [0] * 6 + [1] * 6}, {"judge": [0] * 12})
    assert against_gold(seen, 2, majority(seen), FAST).soft.value == 0.75


def test_without_any_gold_nothing_is_told() -> None:
    seen = panel(BINARY, {"x": [None] * 5}, {"judge": [0] * 5})
    found = against_gold(seen, 1, adjudicated(seen), FAST)
    numbers = [found.left_out.accuracy, found.left_out.kappa, found.soft, found.left_out.positive("pass").tpr]
    assert [n.value for n in numbers] == [None] * 4 and all(n.reason for n in numbers)


def test_numbers_equal_scikit_learns_on_three_classes() -> None:
    rng = np.random.default_rng(0)
    truth, said = rng.integers(0, 3, 80), rng.integers(0, 3, 80)
    seen = panel(NOMINAL, {"x": truth}, {"judge": said})
    found = against_gold(seen, 1, single(seen, 0), QUIET).left_out
    for measure, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        expected = score(truth, said, average=None)
        assert [getattr(c, measure).value for c in found.classes] == pytest.approx(list(expected))


def test_a_number_in_points_is_not_cut_at_one_whatever_the_method() -> None:
    scale = Scale("rating", low=Fraction(0), high=Fraction(100), step=Fraction(1))
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 101, 400)
    seen = panel(scale, {"x": truth}, {"judge": rng.integers(0, 101, 400)})
    for method in ("item-bootstrap+3", "item-jackknife"):
        errors = against_gold(seen, 1, single(seen, 0), Resampling(resamples=400, method=method)).left_out.errors  # type: ignore[arg-type]
        assert errors is not None and errors.mae.value is not None and errors.mae.value > 25
        assert errors.mae.interval is not None and errors.mae.interval.high > errors.mae.value


def test_correlations_of_many_levels_equal_those_of_their_values() -> None:
    scale = Scale("rating", low=Fraction(0), high=Fraction(100), step=Fraction(1))
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 101, 300)
    said = np.clip(truth + rng.integers(-30, 31, 300), 0, 100)
    seen = panel(scale, {"x": truth}, {"judge": said})
    errors = against_gold(seen, 1, single(seen, 0), QUIET).left_out.errors
    assert errors is not None
    assert errors.spearman.value == pytest.approx(scipy.stats.spearmanr(said, truth).statistic)
    assert errors.pearson.value == pytest.approx(scipy.stats.pearsonr(said, truth).statistic)


def test_ratings_without_a_step_have_errors_and_a_kappa_but_no_classes() -> None:
    scale = Scale("rating", low=Fraction(0), high=Fraction(1))
    rng = np.random.default_rng(3)
    truth = rng.random(200)
    said = np.clip(truth + rng.normal(0, 0.1, 200), 0, 1)
    seen = panel(scale, {"x": truth, "y": truth}, {"judge": said})
    found = against_gold(seen, 2, majority(seen), FAST)
    errors = found.left_out.errors
    assert errors is not None and errors.mae.value == pytest.approx(float(np.abs(said - truth).mean()))
    assert errors.spearman.value == pytest.approx(scipy.stats.spearmanr(said, truth).statistic)
    assert found.left_out.accuracy.reason == "not_applicable" and found.left_out.classes == ()
    assert found.left_out.kappa.value is not None and sum(map(sum, found.counts.table)) == 200


def test_the_intervals_of_correlations_cover() -> None:
    covered = {"pearson": 0, "spearman": 0, "mae": 0}
    runs = 300
    for run in range(runs):
        rng = np.random.default_rng(run)
        x = rng.normal(size=60)
        y = 0.6 * x + 0.8 * rng.normal(size=60)
        told = errors_of_values(x, y, Resampling())
        truth = {"pearson": 0.6, "spearman": 6 / np.pi * np.arcsin(0.3), "mae": np.sqrt(0.8 * 2 / np.pi)}
        for name, value in truth.items():
            ends = getattr(told, name).interval
            covered[name] += ends.low <= value <= ends.high
    assert all(count >= 0.91 * runs for count in covered.values()), covered


def test_the_linear_part_of_spearman_with_ties_is_its_jackknife() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 6, 400).astype(float), rng.integers(0, 6, 400).astype(float)
    y = np.where(rng.random(400) < 0.5, x, y)
    ends = errors_of_values(x, y, Resampling()).spearman.interval
    assert ends is not None
    keep = ~np.eye(400, dtype=bool)
    left = np.array([scipy.stats.spearmanr(x[k], y[k]).statistic for k in keep])
    error = np.sqrt(399 / 400 * ((left - left.mean()) ** 2).sum())
    half = np.arctanh(ends.high) - np.arctanh(ends.low)
    rho = scipy.stats.spearmanr(x, y).statistic
    assert half / 2 * (1 - rho**2) / 1.966 == pytest.approx(error, rel=0.02)


# --- independent oracles

COMPARABLE = ("mae", "pearson", "spearman", "accuracy", "precision", "recall", "f1", "tnr")


def scale_of(case: dict) -> Scale:  # type: ignore[type-arg]
    if case["kind"] != "rating":
        kind = case["kind"] if case["kind"] in ("binary", "nominal", "ordinal") else "nominal"
        return Scale(kind, tuple(map(str, case["scale"])))
    points = tuple(Fraction(str(v)) for v in case["scale"])
    return Scale("rating", low=points[0], high=points[-1], points=points)


def test_errors_and_classes_equal_the_oracles(shared: Path) -> None:
    checked = 0
    for case in json.loads((shared / "oracles" / "agreement_cases.json").read_text())["cases"]:
        wanted = [e for e in case["expect"] if e["statistic"] in COMPARABLE]
        if not wanted:
            continue
        scale = scale_of(case)
        place = {str(v): i for i, v in enumerate(case["scale"])}
        columns = {
            name: [None if row[i] is None else place[str(row[i])] for row in case["labels"]]
            for i, name in enumerate(case["raters"])
        }
        for expected in wanted:
            about = expected["params"]
            first, second = about.get("raters") or (about["truth"], about["prediction"])
            seen = panel(scale, {"truth": columns[first]}, {"judge": columns[second]})
            told = against_gold(seen, 1, single(seen, 0), QUIET).left_out
            if expected["statistic"] in ("mae", "pearson", "spearman"):
                found: Measure = getattr(told.errors, expected["statistic"])
            elif expected["statistic"] == "accuracy":
                found = told.accuracy
            else:
                found = getattr(told.positive(about["positive"]), expected["statistic"])
            assert (found.value is None) == (expected["value"] is None), (case["id"], expected)
            if found.value is not None:
                assert found.value == pytest.approx(expected["value"], abs=expected["tolerance"]), case["id"]
            else:
                assert found.reason is not None
            checked += 1
    assert checked == 43


# --- designs and judges side by side


def verification() -> tuple[object, Design]:
    # practice.md 3.4: gold is 50 + 50 drawn by judge label out of 50 flagged (40 truly fail) and 950 passed (38 truly fail).
    judge = [1] * 50 + [0] * 50
    truth = [1] * 40 + [0] * 10 + [1] * 2 + [0] * 48
    seen = panel(BINARY, {"expert": truth}, {"judge": judge})
    return seen, Design("by_judge", np.array(judge), np.where(np.array(judge) == 1, 1.0, 50 / 950), "judge")


def test_gold_drawn_by_judge_label_is_weighted_back() -> None:
    seen, design = verification()
    found = against_gold(seen, 1, single(seen, 0), FAST, design=design)  # type: ignore[arg-type]
    plain, weighted = found.left_out, found.weighted
    assert weighted is not None
    assert [plain.accuracy.value, plain.kappa.value] == pytest.approx([0.880, 0.760], abs=5e-4)
    assert [weighted.accuracy.value, weighted.kappa.value] == pytest.approx([0.952, 0.601], abs=5e-4)
    assert plain.positive("fail").recall.value == pytest.approx(0.952, abs=5e-4)
    assert weighted.positive("fail").recall.value == pytest.approx(0.513, abs=5e-4)
    for told, tpr, tnr in ((plain, 0.828, 0.952), (weighted, 0.989, 0.513)):
        good = told.positive("pass")
        assert (good.tpr.value, good.tnr.value) == pytest.approx((tpr, tnr), abs=5e-4)
    for measure in (weighted.accuracy, weighted.kappa, weighted.positive("pass").tnr):
        assert measure.interval is not None and measure.interval.low < measure.value < measure.interval.high  # type: ignore[operator]


def test_gold_drawn_by_label_without_weights_says_why_there_is_no_weighted_number() -> None:
    seen, _ = verification()
    found = against_gold(seen, 1, single(seen, 0), FAST, design=Design("by_judge"))  # type: ignore[arg-type]
    assert found.weighted is None and found.weighted_reason == "no_weights"


def test_an_item_that_could_not_be_chosen_is_a_mistake() -> None:
    seen, design = verification()
    broken = Design("by_judge", design.stratum, np.zeros(100))
    with pytest.raises(ValueError, match="inclusion probability 0"):
        against_gold(seen, 1, single(seen, 0), FAST, design=broken)  # type: ignore[arg-type]


def test_mcnemar_is_the_exact_test_of_the_discordant_items() -> None:
    assert mcnemar(12, 4) == pytest.approx(0.0768, abs=5e-5) and mcnemar(9, 1) == pytest.approx(0.0215, abs=5e-5)
    for a, b in ((0, 5), (3, 3), (7, 8), (1500, 1400)):
        expected = scipy.stats.binomtest(min(a, b), a + b).pvalue
        assert mcnemar(a, b) == pytest.approx(expected)


def test_judges_are_compared_on_the_items_that_both_answered() -> None:
    truth = np.array([0, 1] * 50)
    good, bad = truth.copy(), truth.copy()
    good[:8], bad[:30] = 1 - truth[:8], 1 - truth[:30]
    other = np.where(np.arange(100) < 95, truth, 1 - truth)
    first = [None if i >= 90 else int(v) for i, v in enumerate(good)]
    seen = panel(BINARY, {"x": truth, "y": other}, {"good": first, "bad": bad})
    (found,) = side_by_side(seen, [2, 3], FAST, gold=single(seen, 0))
    assert (found.a, found.b, found.n_items) == ("good", "bad", 90)
    assert (found.only_a, found.only_b) == (22, 0) and found.p_value == mcnemar(22, 0)
    assert found.accuracy_difference is not None and found.accuracy_difference.value == pytest.approx(22 / 90)
    assert found.kappa_difference.interval is not None and found.kappa_difference.interval.low > 0
    (swapped,) = side_by_side(seen, [3, 2], FAST, gold=single(seen, 0))
    assert swapped.kappa_difference.value == pytest.approx(-found.kappa_difference.value)  # type: ignore[operator]


def test_two_judges_without_a_common_item_have_no_difference() -> None:
    seen = panel(BINARY, {"x": [0, 1] * 10}, {"j": [0] * 10 + [None] * 10, "k": [None] * 10 + [0] * 10})
    (found,) = side_by_side(seen, [1, 2], FAST, gold=single(seen, 0))
    assert found.kappa_difference.value is None and found.kappa_difference.reason == "nothing_to_compare"
    assert found.accuracy_difference is not None and found.accuracy_difference.value is None
