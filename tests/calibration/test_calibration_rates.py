"""From the judge's rate to the people's: the correction that the design allows, its golden numbers and its refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from calibration_cases import BINARY, FAST, FIVE, QUIET, spread

from calibrate_plugin.calibration.design import UNKNOWN, Design
from calibrate_plugin.calibration.gold import single
from calibrate_plugin.calibration.panel import Panel, panel
from calibrate_plugin.calibration.rates import (
    CorrectedRate,
    Production,
    corrected_rates,
    lee_interval,
    post_stratified,
    prediction_powered,
    rogan_gladen,
)
from calibrate_plugin.model import Scale

#: practice.md 3.5: 100 random gold items; rows the judge's pass and fail, columns the gold's.
RANDOM_GOLD = np.array([[78, 2], [7, 13]])
PLACES = np.array([1.0, 0.0])


def judged(tpr: tuple[int, int], tnr: tuple[int, int]) -> Panel:
    """Gold passes and fails, so many of each judged right."""
    gold = [0] * tpr[1] + [1] * tnr[1]
    said = [0] * tpr[0] + [1] * (tpr[1] - tpr[0]) + [1] * tnr[0] + [0] * (tnr[1] - tnr[0])
    return panel(BINARY, {"expert": gold}, {"judge": said})


def rate(seen: Panel, design: Design, *production: tuple[int, int]) -> CorrectedRate:
    told = [Production(counts) for counts in production]
    return corrected_rates(seen, 1, single(seen, 0), told, FAST, design=design)[0]


@pytest.mark.parametrize(
    ("observed", "tpr", "tnr", "corrected"),
    [
        (0.80, 0.92, 0.88, 0.85),
        (0.67, 122 / 140, 0.80, 0.70),  # the seed's grader on itself: the true 140 of 200
        (0.80, 122 / 140, 0.80, 0.8936),
        (0.85, 122 / 140, 0.80, 0.9681),
        (0.90, 122 / 140, 0.80, 1.0426),
        (0.95, 0.828, 0.952, 1.157),  # practice.md 3.4, unweighted: the way to "100 %"
        (0.95, 0.9892, 0.5128, 0.922),
        (0.4, 0.9, 0.7, 0.1667),
    ],
)
def test_rogan_gladens_golden_numbers(observed: float, tpr: float, tnr: float, corrected: float) -> None:
    found = rogan_gladen(observed, tpr, tnr)
    assert found == pytest.approx(corrected, abs=6e-4 if corrected > 1.1 else 1e-4 if corrected != 0.922 else 5e-4)


def test_a_judge_no_better_than_chance_has_no_rogan_gladen() -> None:
    with pytest.raises(ValueError, match="do not exceed 1"):
        rogan_gladen(0.5, 0.6, 0.4)
    found = rate(judged((20, 50), (25, 50)), Design("by_gold"), (400, 100))
    assert (found.rate.value, found.rate.reason) == (None, "no_better_than_chance")


@pytest.mark.parametrize(("n", "low", "high"), [(50, 0.675, 1.000), (500, 0.769, 0.973), (100_000, 0.782, 0.965)])
def test_lees_interval_carries_the_noise_of_production(n: int, low: float, high: float) -> None:
    ends = lee_interval((n * 4 // 5, n), (46, 50), (44, 50))
    assert ends is not None and (ends.low, ends.high) == pytest.approx((low, high), abs=5e-4)


def test_lees_published_example() -> None:
    ends = lee_interval((400, 1000), (180, 200), (140, 200))
    assert ends is not None and (ends.low, ends.high) == pytest.approx((0.0564, 0.2627), abs=5e-5)


def test_balanced_gold_is_corrected_by_rogan_gladen() -> None:
    found = rate(judged((46, 50), (44, 50)), Design("by_gold"), (400, 100))
    assert found.method == "rogan-gladen" and found.rate.value == pytest.approx(0.85)
    assert found.rate.interval is not None and found.rate.interval.low == pytest.approx(0.769, abs=5e-4)
    assert found.observed.value == 0.8 and found.tpr is not None and found.tpr.value == 0.92


def test_a_point_outside_is_no_number_and_is_not_cut() -> None:
    # The observed .90 lies above the judge's TPR of .871, but within what either could be.
    found = rate(judged((122, 140), (48, 60)), Design("by_gold"), (45, 5))
    assert (found.rate.value, found.rate.reason) == (None, "at_boundary")
    assert found.rate.interval is not None and found.rate.interval.high == 1.0 and found.rate.interval.low > 0.8


def test_infeasible_only_where_the_observed_interval_misses_what_tpr_and_tnr_allow() -> None:
    found = rate(judged((122, 140), (48, 60)), Design("by_gold"), (9500, 500))
    assert (found.rate.value, found.rate.reason) == (None, "infeasible") and found.rate.interval is None
    # practice.md 3.2 calls an observed .90 infeasible by the points alone; with 200 items it is not beyond doubt.
    assert rate(judged((122, 140), (48, 60)), Design("by_gold"), (180, 20)).rate.reason == "at_boundary"


def test_gold_of_one_class_corrects_nothing() -> None:
    found = rate(judged((46, 50), (0, 0)), Design("by_gold"), (400, 100))
    assert found.rate.reason == "one_class" and found.tnr is not None and found.tnr.reason == "one_class"


def test_gold_drawn_by_judge_label_is_post_stratified() -> None:
    # practice.md 3.4: fail rate .078, standard error .0265.
    told = post_stratified([(40, 50), (2, 50)], [50, 950])
    assert told.value == pytest.approx(0.078) and told.details["se"] == pytest.approx(0.0265, abs=5e-5)
    judge, truth = [1] * 50 + [0] * 50, [1] * 40 + [0] * 10 + [1] * 2 + [0] * 48
    seen = panel(BINARY, {"expert": truth}, {"judge": judge})
    for probability in (None, np.array([1.0] * 50 + [50 / 950] * 50)):
        found = rate(seen, Design("by_judge", np.array(judge), probability, "judge"), (950, 50))
        assert found.method == "post-stratification" and found.rate.value == pytest.approx(1 - 0.078)
        assert found.rate.interval is not None and found.rate.interval.low < 0.922 < found.rate.interval.high


def test_a_production_label_without_gold_is_refused() -> None:
    seen = panel(BINARY, {"expert": [0, 1] * 20}, {"judge": [0] * 40})
    found = rate(seen, Design("by_judge", np.zeros(40, dtype=np.int64), np.full(40, 0.1), "judge"), (300, 100))
    assert (found.rate.value, found.rate.reason) == (None, "no_gold")


def test_strata_of_another_judges_labels_are_weighted_back() -> None:
    rng = np.random.default_rng(0)
    n = 40_000
    truth = (rng.random(n) < 0.1).astype(int)
    first = np.where(rng.random(n) < 0.85, truth, 1 - truth)
    second = np.where(rng.random(n) < 0.75, truth, 1 - truth)
    probability = np.where(first == 1, 0.2, 0.01)
    taken = rng.random(n) < probability
    seen = panel(BINARY, {"expert": truth[taken]}, {"second": second[taken]})
    design = Design("by_judge", first[taken], probability[taken], "first")
    production = (int((second == 0).sum()), int((second == 1).sum()))
    found = rate(seen, design, production)
    assert found.rate.value == pytest.approx(0.9, abs=0.03)
    assert found.rate.interval is not None and found.rate.interval.low < 0.9 < found.rate.interval.high
    naive = rate(seen, Design("random"), production)
    assert naive.rate.value is not None and naive.rate.value < 0.8  # what ignoring the design would have said
    unknown = rate(seen, Design("by_judge", first[taken], None, "first"), production)
    assert unknown.rate.reason == "no_weights"


def test_prediction_powered_inferences_golden_numbers() -> None:
    production = np.array([400, 100])
    for lam, low, high in ((0.0, 0.780, 0.920), (1.0, 0.782, 0.918), (None, 0.796, 0.904)):
        found = prediction_powered(RANDOM_GOLD, PLACES, production, lam)
        ends = found.wald()
        assert (found.value, ends.low, ends.high) == pytest.approx((0.850, low, high), abs=5e-4)
    assert prediction_powered(RANDOM_GOLD, PLACES, production).lam == pytest.approx(0.525, abs=5e-4)


def test_random_gold_is_corrected_by_prediction_power_and_balanced_gold_is_not() -> None:
    truth, said = spread(78, 7, 2, 13)
    seen = panel(BINARY, {"expert": truth}, {"judge": said})
    found = rate(seen, Design("random"), (400, 100))
    assert found.method == "prediction-powered" and found.rate.value == pytest.approx(0.85)
    ends = found.rate.interval
    assert ends is not None and ends.high - ends.low < 0.92 - 0.78  # narrower than the labels alone
    # Balanced gold would give .780 (practice.md 3.5): the right number, .85, is Rogan and Gladen's.
    balanced = judged((46, 50), (44, 50))
    cells = np.array([[46, 6], [4, 44]])
    assert prediction_powered(cells, PLACES, np.array([400, 100]), 1.0).value == pytest.approx(0.780)
    assert rate(balanced, Design("by_gold"), (400, 100)).rate.value == pytest.approx(0.85)


def test_without_a_recorded_design_no_rate_is_corrected() -> None:
    found = rate(judged((46, 50), (44, 50)), UNKNOWN, (400, 100))
    assert (found.rate.value, found.rate.reason, found.method) == (None, "no_design", None)
    assert found.observed.value == 0.8


def test_without_gold_or_production_there_is_a_reason() -> None:
    seen = panel(BINARY, {"expert": [None] * 20}, {"judge": [0] * 20})
    assert rate(seen, Design("random"), (400, 100)).rate.reason == "no_gold"
    assert rate(judged((46, 50), (44, 50)), Design("by_gold"), (0, 0)).rate.reason == "no_labels"


def test_few_gold_items_give_a_value_and_no_interval() -> None:
    found = rate(judged((4, 4), (3, 4)), Design("random"), (40, 10))
    assert found.rate.value is not None and found.rate.interval is None
    assert found.rate.interval_reason == "too_few_items"


def test_mean_ratings_are_corrected_too_but_not_from_balanced_gold() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice(5, 400, p=[0.05, 0.1, 0.2, 0.35, 0.3])
    lenient = np.minimum(4, truth + (rng.random(400) < 0.5))
    seen = panel(FIVE, {"expert": truth[:100]}, {"judge": lenient[:100]})
    production = Production(tuple(np.bincount(lenient, minlength=5).tolist()))
    target = float(truth.mean()) + 1
    for kind in ("random", "by_judge"):
        design = Design(kind, lenient[:100], np.full(100, 0.25), "judge")  # type: ignore[arg-type]
        (found,) = corrected_rates(seen, 1, single(seen, 0), [production], FAST, design=design)
        assert found.rate.value == pytest.approx(target, abs=0.1) and found.observed.value > target + 0.2  # type: ignore[operator]
        assert found.rate.interval is not None and found.rate.interval.low < target < found.rate.interval.high
    (refused,) = corrected_rates(seen, 1, single(seen, 0), [production], FAST, design=Design("by_gold"))
    assert refused.rate.reason == "wrong_design"


def test_scales_without_a_rate_are_refused() -> None:
    nominal = panel(Scale("nominal", ("a", "b", "c")), {"x": [0, 1, 2]}, {"judge": [0, 1, 2]})
    free = panel(Scale("rating", low=Fraction(0), high=Fraction(1)), {"x": [0.5]}, {"judge": [0.25]})
    for seen in (nominal, free):
        (found,) = corrected_rates(seen, 1, single(seen, 0), [Production((1, 1, 1))], FAST, design=Design("random"))
        assert found.rate.reason == "not_applicable"


def test_a_period_with_the_wrong_number_of_counts_is_a_mistake() -> None:
    seen = judged((46, 50), (44, 50))
    with pytest.raises(ValueError, match="monday have 3 counts; the scale has 2 levels"):
        corrected_rates(seen, 1, single(seen, 0), [Production((1, 2, 3), "monday")], QUIET, design=Design("random"))


def test_every_period_has_a_rate_of_its_own() -> None:
    seen = judged((46, 50), (44, 50))
    days = [Production((400, 100), "monday"), Production((300, 200), "tuesday"), Production((0, 0), "sunday")]
    found = corrected_rates(seen, 1, single(seen, 0), days, FAST, design=Design("by_gold"))
    assert [f.period for f in found] == ["monday", "tuesday", "sunday"]
    assert [None if f.rate.value is None else round(f.rate.value, 2) for f in found] == [0.85, 0.6, None]


@pytest.mark.parametrize("kind", ["by_gold", "by_judge", "random"])
def test_the_interval_covers_the_true_rate_at_a_modest_number_of_runs(kind: str) -> None:
    covered, runs = 0, 400
    for run in range(runs):
        rng = np.random.default_rng(run)
        size = 3000
        passed = rng.random(size) < 0.9
        said = np.where(passed, rng.random(size) < 0.9, rng.random(size) > 0.85)
        strata = {"by_gold": passed, "by_judge": said, "random": np.ones(size, dtype=bool)}[kind]
        gold = np.concatenate([rng.permutation(np.flatnonzero(strata == s))[:60] for s in (True, False)])
        seen = panel(BINARY, {"expert": 1 - passed[gold]}, {"judge": 1 - said[gold]})
        design = Design(kind, strata[gold].astype(int), np.full(len(gold), 0.1), "judge")  # type: ignore[arg-type]
        later = np.where(rng.random(500) < 0.9, rng.random(500) < 0.9, rng.random(500) > 0.85)
        found = rate(seen, design, (int(later.sum()), int((~later).sum())))
        assert found.rate.interval is not None
        covered += found.rate.interval.low <= 0.9 <= found.rate.interval.high
    assert covered >= 0.92 * runs
