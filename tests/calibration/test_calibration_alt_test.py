"""The alternative annotator test: golden numbers, edges, and the two tests it leans on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from calibration_cases import BINARY, FAST, FIVE, urn_panel

from calibrate_plugin.calibration import alt_test as module
from calibrate_plugin.calibration.alt_test import alt_test, benjamini_yekutieli, wilcoxon_less
from calibrate_plugin.calibration.panel import panel


def differences(human: int, judge: int, ties: int) -> np.ndarray:
    return np.array([1] * human + [-1] * judge + [0] * ties)


def test_the_worked_examples_golden_numbers() -> None:
    # practice.md 3.10: 50 items, epsilon .15; (human better, judge better, ties).
    rows = [
        (differences(3, 5, 42), -0.04, 0.4020, -3.342, 0.00080),
        (differences(6, 5, 39), 0.02, None, -1.942, 0.02896),
        (differences(12, 5, 33), 0.14, None, -0.124, 0.4510),
    ]
    p_values: list[float | None] = []
    for d, mean, sd, t, p in rows:
        name, statistic, found = module._test(d, 0.15)
        assert name == "t" and d.mean() == pytest.approx(mean)
        assert sd is None or d.std(ddof=1) == pytest.approx(sd, abs=5e-5)
        assert statistic == pytest.approx(t, abs=5e-4) and found == pytest.approx(p, abs=6e-6 if p < 0.4 else 5e-5)
        p_values.append(found)
    thresholds, rejected = benjamini_yekutieli(p_values, 0.05)
    assert thresholds == pytest.approx([0.00909, 0.01818, 0.02727], abs=5e-6)
    assert rejected == [True, False, False]  # a winning rate of .333 fails, although the judge is at least as good
    assert np.mean([(d <= 0).mean() for d, *_ in rows]) == pytest.approx(0.860, abs=5e-4)  # on 86 % of the items


def test_all_ties_win_with_an_epsilon_and_show_nothing_without() -> None:
    ties = differences(0, 0, 40)
    assert module._test(ties, 0.15) == ("t", -np.inf, 0.0)
    assert module._test(ties, 0.0) == ("t", None, None)
    assert benjamini_yekutieli([None, None, None], 0.05)[1] == [False, False, False]


def test_a_mean_that_is_certain_and_above_epsilon_loses() -> None:
    assert module._test(differences(40, 0, 0), 0.15)[2] == 1.0


def test_a_judge_that_copies_a_person_wins_and_a_random_one_does_not() -> None:
    rng = np.random.default_rng(0)
    seen = urn_panel(120, 0.6, [0.9, 0.9, 0.9, 0.9], 0.0, rng)
    lost = alt_test(seen, 4, FAST)
    assert lost.passed is False and lost.winning_rate.value == 0
    people = {seen.names[a]: seen.own[a] for a in seen.annotators}
    copy = panel(BINARY, people, {"copy": seen.own[0]})
    won = alt_test(copy, 4, FAST)
    assert won.passed and won.winning_rate.value == 1
    assert won.advantage.value is not None and won.advantage.interval is not None
    assert won.annotators[0].ties == 120  # beside the one it copies, the judge is always as good


def test_under_thirty_items_wilcoxons_test_is_used() -> None:
    seen = urn_panel(25, 0.5, [0.9, 0.9, 0.9], 0.9, np.random.default_rng(1))
    assert {t.test for t in alt_test(seen, 3, FAST).annotators} == {"wilcoxon"}
    seen = urn_panel(30, 0.5, [0.9, 0.9, 0.9], 0.9, np.random.default_rng(1))
    assert {t.test for t in alt_test(seen, 3, FAST).annotators} == {"t"}


@pytest.mark.parametrize("n", [4, 7, 10])
def test_wilcoxon_is_exact_over_all_signs(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.choice([-1.15, -0.15, 0.85], n) if n > 4 else np.array([-0.15, 0.85, -1.15, -0.15])
    statistic, p = wilcoxon_less(values)
    every = scipy.stats.PermutationMethod(n_resamples=np.inf)
    expected = scipy.stats.wilcoxon(values, alternative="less", method=every)
    assert (statistic, p) == pytest.approx((expected.statistic, expected.pvalue))


def test_wilcoxon_of_nothing_but_zeros_is_undefined() -> None:
    assert wilcoxon_less(np.zeros(10)) == (None, None)


def test_fewer_than_three_annotators_with_shared_items_are_refused() -> None:
    two = urn_panel(100, 0.5, [0.9, 0.9], 0.9, np.random.default_rng(2))
    found = alt_test(two, 2, FAST)
    assert (found.passed, found.reason, found.winning_rate.value) == (None, "too_few_annotators", None)
    apart = panel(BINARY, {"a": [0, None, None], "b": [None, 0, None], "c": [None, None, 0]}, {"judge": [0, 0, 0]})
    assert alt_test(apart, 3, FAST).reason == "too_few_annotators"


def test_under_ten_items_nothing_is_passed() -> None:
    levels = [0, 1, 0, 1, 0, 1]
    found = alt_test(panel(BINARY, {"a": levels, "b": levels, "c": levels}, {"judge": levels}), 3, FAST)
    assert found.passed is None and found.winning_rate.interval_reason == "too_few_items"


def test_ratings_are_scored_by_their_distance_and_categories_by_their_likeness() -> None:
    # Against two people at 1 and 5 the middle is nearer on ratings, and like nobody as a category.
    people = {"a": [2] * 40, "b": [0] * 40, "c": [4] * 40}
    near = alt_test(panel(FIVE, people, {"judge": [2] * 40}), 3, FAST)
    by_name = {t.annotator: t for t in near.annotators}
    assert by_name["a"].ties == 40 and by_name["b"].judge_better == 40 and by_name["c"].judge_better == 40


def test_scores_against_the_others_are_root_mean_squares() -> None:
    rng = np.random.default_rng(3)
    people = {f"p{i}": rng.integers(0, 5, 60) for i in range(4)}
    judge = rng.integers(0, 5, 60)
    found = alt_test(panel(FIVE, people, {"judge": judge}), 4, FAST)
    for test in found.annotators:
        others = np.array([v for name, v in people.items() if name != test.annotator])
        machine = np.sqrt(((others - judge) ** 2).mean(axis=0))
        human = np.sqrt(((others - people[test.annotator]) ** 2).mean(axis=0))
        assert (test.human_better, test.judge_better) == (int((human < machine).sum()), int((human > machine).sum()))


def test_an_epsilon_outside_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epsilon is 1\.5"):
        alt_test(urn_panel(20, 0.5, [0.9] * 3, 0.9, np.random.default_rng(4)), 3, FAST, epsilon=1.5)
