"""The golden numbers of agreement statistics (practice.md sections 2.1 to 2.4, cross-checked there against irrCAC 0.4.4,
statsmodels, krippendorff 0.9.0 and scikit-learn), and the examples in the docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest
from calibration_cases import BINARY, FIVE, HUMAN, JUDGE, QUIET, TWO_BY_TWO, frame_of, rated, spread

import calibrate_plugin.calibration
import calibrate_plugin.planning
from calibrate_plugin.agreement.compare import compare
from calibrate_plugin.agreement.estimate import Resampling, estimate, point
from calibrate_plugin.agreement.statistics import ChanceByScale, Cohen, Fleiss, Pabak
from calibrate_plugin.agreement.weights import Weights, weights_of
from calibrate_plugin.calibration.design import Stratum, weighted_estimate
from calibrate_plugin.calibration.paradox import explain
from calibrate_plugin.model import Scale
from calibrate_plugin.ratings.counting import canonical, of_pair

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (calibrate_plugin.calibration, calibrate_plugin.planning)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_every_module_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


# kappa, SE, interval, PABAK, PI, BI, pi, alpha, AC1 and its chance, kappa max, positive, negative agreement, MCC
GOLDEN = {
    "seed 001": (0.5714, 0.0980, 0.379, 0.763, 0.70, 0.55, 0.05, 0.5699, 0.5720, 0.7697, 0.8571, 0.903, 0.667, 0.5774),
    "seed 001 skewed": (
        *(0.2908, 0.1826, -0.067, 0.649, 0.84, 0.88, 0, 0.2908, 0.2943, 0.9098, 1, 0.957, 0.333, 0.2908),
    ),
    "Cohen": (0.4, 0.1270, 0.151, 0.649, 0.40, 0.10, -0.10, 0.3939, 0.4, 0.4059, 0.80, 0.727, 0.667, 0.4082),
    "rare": (0.1346, 0.1621, -0.183, 0.452, 0.82, 0.89, 0.01, 0.1342, 0.1385, 0.8996, 0.904, 0.952, 0.182, 0.1352),
    "no agreed failure": (
        *(-0.0234, 0.0123, -0.047, 0.001, 0.888, 0.944, 0.024, -0.0288, -0.0247, 0.9408, 0.561, 0.971, 0, -0.0260),
    ),
    "seed 001 grader": (
        *(0.6528, 0.0578, 0.540, 0.766, 0.70, 0.37, 0.03, 0.6524, 0.6533, 0.7361, 0.931, 0.891, 0.762, 0.6544),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_two_by_two_table_gives_its_golden_numbers(name: str) -> None:
    expected = GOLDEN[name]
    table = np.array(TWO_BY_TWO[name]).reshape(2, 2)
    first, second = spread(*TWO_BY_TWO[name])
    together = compare(BINARY, frame_of({0: first, 1: second}), [0, 1], [], QUIET).among_annotators()
    pooled = canonical(np.array([[2, 0], [1, 1], [1, 1], [0, 2]]), table.reshape(-1))
    told = explain(table)
    assert told is not None and together.kappa.value is not None and told.standard_error is not None
    half = 1.959964 * told.standard_error
    found = (
        *(together.kappa.value, told.standard_error, together.kappa.value - half, together.kappa.value + half),
        *(together.pabak.value, told.prevalence_index, told.bias_index),
        *(point(pooled, Fleiss(weights_of(BINARY))), together.alpha.value, together.ac.value),
        *(told.kappa_max, together.positive.value, together.negative.value, told.mcc),
    )
    assert found == pytest.approx(expected, abs=0.00051)


def test_one_label_only_has_agreement_and_pabak_but_no_kappa_and_no_paradox() -> None:
    together = compare(BINARY, frame_of({0: [0] * 5, 1: [0] * 5}), [0, 1], [], QUIET).among_annotators()
    assert together.agreement.value == together.pabak.value == together.ac.value == 1
    assert (together.kappa.value, together.kappa.reason) == (None, "same_answer")
    assert (together.negative.value, together.positive.value) == (None, 1)
    told = explain(np.array([[5, 0], [0, 0]]))
    assert told is not None and told.kappa_max is None and told.mcc is None and not told.paradox


def test_a_constant_rater_beside_a_varying_one_has_a_defined_kappa_of_zero() -> None:
    together = compare(BINARY, frame_of({0: [0] * 5, 1: [0, 0, 0, 1, 1]}), [0, 1], [], QUIET).among_annotators()
    assert together.kappa.value == 0


def test_the_paradox_is_flagged_where_agreement_is_high_kappa_low_and_prevalence_extreme() -> None:
    flagged = {name: explain(np.array(t).reshape(2, 2)).paradox for name, t in TWO_BY_TWO.items()}  # type: ignore[union-attr]
    assert [name for name, flag in flagged.items() if flag] == ["seed 001 skewed", "rare", "no agreed failure"]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("seed 001", 0.366, 0.751), ("seed 001 skewed", -0.053, 0.646), ("seed 001 grader", 0.536, 0.763)],
)
def test_plain_percentiles_equal_the_published_ones(name: str, low: float, high: float) -> None:
    patterns = of_pair(np.array(TWO_BY_TWO[name]).reshape(2, 2))
    plain = Resampling(resamples=10_000, method="percentile")
    interval = estimate(patterns, {"k": Cohen(weights_of(BINARY))}, {"k": None}, plain)["k"].interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.012)  # Monte Carlo error of both sides


def test_undefined_resamples_are_counted() -> None:
    patterns = of_pair(np.array([[45, 2], [2, 1]]))
    plain = Resampling(resamples=10_000, method="percentile")
    interval = estimate(patterns, {"k": Cohen(weights_of(BINARY))}, {"k": None}, plain)["k"].interval
    assert interval is not None
    assert 25 <= interval.discarded <= 85  # 0.9**50 of 10,000 is 52; practice.md saw 53


def test_fleiss_1971() -> None:
    counts = """0 0 0 0 14|0 2 6 4 2|0 0 3 5 6|0 3 9 2 0|2 2 8 1 1|7 7 0 0 0|3 2 6 3 0|2 5 3 2 2|6 5 2 1 0|0 2 2 3 7"""
    answers = np.array([[int(n) for n in row.split()] for row in counts.split("|")])
    alike = Weights(1 - np.eye(5, dtype=np.int64), 1, "identity")
    patterns = canonical(answers, np.ones(10, dtype=np.int64))
    assert point(patterns, Fleiss(alike)) == pytest.approx(0.2099, abs=5e-5)


def test_krippendorffs_canonical_example() -> None:
    observers = {
        0: [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        1: [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        2: [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        3: [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    }
    rows = frame_of({r: rated(v) for r, v in observers.items()}, [1, 2, 3, 4, 5])
    alphas = compare(FIVE, rows, list(observers), [], QUIET).among_annotators().alphas
    found = [alphas[m].value for m in ("nominal", "ordinal", "interval", "ratio")]
    assert found == pytest.approx([0.7434, 0.8154, 0.8491, 0.7974], abs=5e-5)


def test_twelve_likert_items() -> None:
    rows = frame_of({0: rated(HUMAN), 1: rated(JUDGE)}, [1, 2, 3, 4, 5])
    together = compare(FIVE, rows, [0, 1], [], QUIET).among_annotators()
    cells = np.zeros((5, 5), dtype=np.int64)
    np.add.at(cells, (np.array(JUDGE) - 1, np.array(HUMAN) - 1), 1)
    pair = of_pair(cells)
    alike = Weights(1 - np.eye(5, dtype=np.int64), 1, "identity")
    squared = weights_of(FIVE, "quadratic")
    assert point(pair, Cohen(alike)) == pytest.approx(0.3478, abs=5e-5)
    assert together.kappa.value == pytest.approx(0.6512, abs=5e-5)
    assert point(pair, Cohen(squared)) == pytest.approx(0.8558, abs=5e-5)
    found = [together.alphas[m].value for m in ("nominal", "ordinal", "interval")]
    assert found == pytest.approx([0.3611, 0.7100, 0.8616], abs=5e-5)
    both = canonical(
        np.eye(5, dtype=np.int64)[np.array(JUDGE) - 1] + np.eye(5, dtype=np.int64)[np.array(HUMAN) - 1],
        np.ones(12, dtype=np.int64),
    )
    assert point(both, ChanceByScale(squared, "gwet")) == pytest.approx(0.9371, abs=5e-5)


def test_weights_come_from_the_declared_scale_not_from_the_values_seen() -> None:
    cells = np.zeros((5, 5), dtype=np.int64)
    np.add.at(cells, (np.array([1, 2, 5, 5, 1, 2]) - 1, np.array([1, 5, 5, 2, 1, 2]) - 1), 1)
    assert point(of_pair(cells), Cohen(weights_of(FIVE))) == 0.4375
    seen = of_pair(cells[np.ix_([0, 1, 4], [0, 1, 4])])
    assert point(seen, Cohen(weights_of(Scale("ordinal", ("1", "2", "5"))))) == 0.625


def test_unequal_raters_are_not_padded() -> None:
    rows = frame_of({0: [0, 0, 1], 1: [1, 0, 1], 2: [None, 0, 1]})
    alike = weights_of(BINARY)
    patterns = canonical(np.array([[1, 1], [3, 0], [0, 3]]), np.ones(3, dtype=np.int64))
    assert point(patterns, Fleiss(alike, "items")) == pytest.approx(1 / 3)
    alpha = compare(BINARY, rows, [0, 1, 2], [], QUIET).among_annotators().alpha
    assert alpha.value == 0.5625


def test_pabak_of_more_categories_is_bennetts_s() -> None:
    cells = np.diag([4, 3, 2]) + np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    agreed = 9 / 10
    alike = Weights(1 - np.eye(3, dtype=np.int64), 1, "identity")
    assert point(of_pair(cells), Pabak(alike)) == pytest.approx((3 * agreed - 1) / 2)


def test_several_peoples_rare_answers_count_as_what_each_gave() -> None:
    # Five people, 50 items: each failed the same two items. Ten answers, but two items to learn from.
    few = canonical(np.array([[5, 0], [0, 5]]), np.array([48, 2]))
    many = canonical(np.array([[5, 0], [0, 5]]), np.array([45, 5]))
    told = [estimate(p, {"k": Fleiss(weights_of(BINARY))}, {"k": None}, QUIET)["k"].warnings for p in (few, many)]
    assert told == [("rare_answer",), ()]


def test_a_weighted_number_that_hangs_on_a_handful_of_items_is_warned_of() -> None:
    def of(n: int) -> tuple[str, ...]:
        strata = [
            Stratum(of_pair(np.array([[0, 0], [n // 5, n - n // 5]])), 1),
            Stratum(of_pair(np.array([[n - n // 25, n // 25], [0, 0]])), 19),
        ]
        found = weighted_estimate(strata, {"kappa": Cohen(weights_of(BINARY))}, {"kappa": None}, Resampling())
        return found["kappa"].warnings

    # facts/practice.md 3.4: of 50 passed items two hide a failure, and each stands for 19
    assert (of(50), of(500)) == (("handful",), ())
