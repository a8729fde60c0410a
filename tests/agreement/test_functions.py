"""The functions for a table of answers: every kind of table, every message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrate_plugin.agreement as ours
from calibrate_plugin.agreement import Resampling
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.ratings.counting import Patterns, canonical, of_pair

ROWS = {
    "item": ["1", "1", "2", "2", "3", "3", "4", "4", "5"],
    "rater": ["a", "b", "a", "b", "a", "b", "a", "b", "a"],
    "value": ["T", "T", "T", "F", "F", "F", "T", None, "T"],
}
BINARY = "binary:T/F"
#: Of ROWS: both answered items 1 to 3.
KAPPA = 0.4

TABLES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "polars, categories": lambda rows: pl.DataFrame(rows, schema_overrides=dict.fromkeys(rows, pl.Categorical)),
    "pandas": pd.DataFrame,
    "pandas, categories": lambda rows: pd.DataFrame(rows).astype("category"),
    "pandas, NaN": lambda rows: pd.DataFrame(
        rows | {"value": [float("nan") if v is None else v for v in rows["value"]]}
    ),
    "pyarrow": pa.table,
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(rows)),
    "dict of lists": lambda rows: rows,
    "dict of arrays": lambda rows: {k: np.array(v, dtype=object) for k, v in rows.items()},
    "list of dicts": lambda rows: [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)],
    "more columns": lambda rows: pl.DataFrame(rows | {"reason": ["because"] * len(rows["item"])}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_any_table_that_polars_can_take(kind: str) -> None:
    found = ours.cohen_kappa(TABLES[kind](ROWS), BINARY)
    assert (found.value, found.n_items, found.n_pairs) == (KAPPA, 3, 3)


@pytest.mark.parametrize("value", [[1, 2, None, 5], [1.0, 2.0, float("nan"), 5.0], np.array([1.0, 2.0, np.nan, 5.0])])
def test_numbers_answer_a_rating_and_a_missing_one_is_no_answer(value: Any) -> None:
    found = ours.percent_agreement({"item": [1, 1, 2, 2], "rater": [7, 8, 7, 8], "value": value}, "rating:1..5")
    assert (found.value, found.n_pairs) == (0.75, 1)


def test_numbers_and_flags_find_the_categories_written_as_text() -> None:
    flags = {"item": [1, 1, 2, 2], "rater": [1, 2, 1, 2], "value": [True, False, True, True]}
    assert ours.percent_agreement(flags, "binary:true/false").value == 0.5
    numbers = flags | {"value": [1, 2, 2, 2]}
    assert ours.percent_agreement(numbers, "nominal:1/2/3").value == 0.5
    assert ours.percent_agreement(numbers, Scale("nominal", ("1", "2"))).value == 0.5


def test_counted_tables_give_what_their_rows_give() -> None:
    by_rows = ours.cohen_kappa(ROWS, BINARY)
    assert ours.cohen_kappa([[1, 1], [0, 1]], BINARY) == by_rows
    assert ours.cohen_kappa(np.array([[1, 1], [0, 1]]), BINARY) == by_rows
    assert ours.cohen_kappa(of_pair(np.array([[1, 1], [0, 1]])), BINARY) == by_rows
    together = canonical(np.array([[2, 0], [1, 1], [0, 2], [1, 0]]), np.array([1, 1, 1, 2]))
    assert ours.fleiss_kappa(together, BINARY) == ours.fleiss_kappa(ROWS, BINARY)
    assert ours.krippendorff_alpha([[1, 1], [0, 1]], BINARY).value == ours.krippendorff_alpha(ROWS, BINARY).value
    assert ours.gwet_ac([[1, 1], [0, 1]], BINARY).n_items == 3


def test_tables_of_disjoint_items_add_up() -> None:
    one, two = of_pair(np.array([[5, 1], [2, 3]])), of_pair(np.array([[1, 0], [4, 4]]))
    assert ours.cohen_kappa(one + two, BINARY) == ours.cohen_kappa([[6, 1], [6, 7]], BINARY)


@pytest.mark.parametrize(
    ("answers", "scale", "message"),
    [
        (5, BINARY, "cannot be read as a table"),
        ({"item": [1], "rater": [1], "value": [[1, 2]]}, "rating:1..5", "is not on the scale"),
        ({"item": [1, 1], "rater": [1, 2], "value": ["T", 3]}, BINARY, "cannot be read as a table"),
        ({"item": [1], "rater": [1]}, BINARY, "the table has no column 'value'; it has 'item', 'rater'"),
        ({"item": [1, None], "rater": [1, 2], "value": ["T", "F"]}, BINARY, "a row has no item; name it"),
        ({"item": [1, 1], "rater": [1, None], "value": ["T", "F"]}, BINARY, "a row has no rater; name it"),
        ({"item": [1, 1], "rater": ["a", "a"], "value": ["T", "T"]}, BINARY, "rater 'a' answers item 1 more than once"),
        ({"item": [1, 1], "rater": ["a", "a"], "value": ["T", None]}, BINARY, "rater 'a' answers item 1 more than once"),
        ({"item": [1, 1], "rater": [1, 2], "value": ["T", "Q"]}, BINARY, 'the value "Q" is not on the scale; it has T, F'),
        ({"item": [1], "rater": [1], "value": [6]}, "rating:1..5", "the value 6 is not on the scale; it has values from 1 to 5"),
        ({"item": [1], "rater": [1], "value": [6]}, "rating:0..5:any", "the value 6 is not on the scale; it has values from 0 to 5"),
        ({"item": [1], "rater": [1], "value": [6]}, "likert", "is not a scale"),
        ([[1, 2]], BINARY, r"the table of counts is \(1, 2\), but the scale has 2 levels: it must be \(2, 2\)"),
        ([[1, 2], [3, -1]], BINARY, "a table of counts holds whole numbers, 0 or more"),
        ([[1, 2], [3, 0.5]], BINARY, "a table of counts holds whole numbers, 0 or more"),
        ([["a", "b"], ["c", "d"]], BINARY, "a table of counts holds whole numbers"),
        (of_pair(np.eye(3, dtype=int)), BINARY, "the patterns have 3 levels, but the scale has 2"),
        ([[1, 2], [3, 4]], "rating:0..1:any", "a rating without a step has no table of counts; give it a step"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", [ours.percent_agreement, ours.fleiss_kappa, ours.krippendorff_alpha])
def test_what_cannot_be_read_says_why(function: Callable[..., Measure], answers: Any, scale: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(answers, scale)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("cubic", "weights are 'cubic'; they are identity, linear, quadratic or a matrix"),
        ("linear", "weights are 'linear', but a nominal scale has no order; give a matrix"),
        ([[0, 1], [1, 0]], r"the weights are \(2, 2\), but the scale has 3 levels: they must be \(3, 3\) numbers"),
        ([[1, 1, 1], [1, 0, 1], [1, 1, 0]], "0 on the diagonal"),
        ([[0, 1, 2], [1, 0, 1], [1, 1, 0]], "the same both ways round"),
        ([[0, 0, 1], [0, 0, 1], [1, 1, 0]], "above 0 elsewhere"),
        ([[0, -1, 1], [-1, 0, 1], [1, 1, 0]], "above 0 elsewhere"),
        ([[0, float("inf"), 1], [float("inf"), 0, 1], [1, 1, 0]], "disagreement weights"),
        ([["a"] * 3] * 3, "they must be"),
    ],
)
def test_weights_that_do_not_fit_say_why(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours.cohen_kappa(np.eye(3, dtype=int), "nominal:a/b/c", weights=weights)


def test_a_matrix_of_whole_and_of_broken_weights_is_the_same_up_to_its_unit() -> None:
    # Cohen 1968: kappa_w .348 (8/23).
    counts = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
    weights = np.array([[0, 1, 3], [1, 0, 6], [3, 6, 0]])
    whole = ours.cohen_kappa(counts, "nominal:1/2/3", weights=weights)
    assert whole.value == float(Fraction(8, 23))
    assert ours.cohen_kappa(counts, "nominal:1/2/3", weights=weights / 6).value == pytest.approx(8 / 23, abs=1e-12)
    pairs = canonical(np.array([[2, 1, 0], [0, 1, 2], [1, 1, 1]]), np.array([3, 4, 5]))
    by_sixths = ours.fleiss_kappa(pairs, "nominal:1/2/3", weights=weights / 6)
    assert by_sixths.value == pytest.approx(ours.fleiss_kappa(pairs, "nominal:1/2/3", weights=weights).value, abs=1e-12)


def test_cohens_kappa_is_of_two_raters_who_must_be_named_among_more() -> None:
    three = {"item": [1, 1, 1, 2, 2, 2], "rater": list("abcabc"), "value": list("TTFFTF")}
    with pytest.raises(ValueError, match=r"there are 3 raters; name two of them, e.g. raters=\('a', 'b'\)"):
        ours.cohen_kappa(three, BINARY)
    assert ours.cohen_kappa(three, BINARY, raters=("a", "c")).n_pairs == 2
    with pytest.raises(ValueError, match="there is no rater 'z'; there are: 'a', 'b', 'c'"):
        ours.cohen_kappa(three, BINARY, raters=("a", "z"))
    with pytest.raises(ValueError, match="raters names 'a' twice"):
        ours.cohen_kappa(three, BINARY, raters=("a", "a"))
    with pytest.raises(ValueError, match="set no rater apart"):
        ours.cohen_kappa(Patterns(np.array([[1, 1]]), np.array([2])), BINARY)


def test_pooled_numbers_are_of_a_rater_who_must_be_named() -> None:
    with pytest.raises(ValueError, match="there is no rater None; there are: 'a', 'b'"):
        ours.pooled_kappa(ROWS, BINARY)
    assert ours.pooled_kappa(ROWS, BINARY, "a").value == KAPPA
    assert ours.pooled_agreement(of_pair(np.array([[1, 1], [0, 1]])), BINARY).value == 2 / 3


def test_alpha_has_the_metrics_that_its_scale_allows() -> None:
    rating = {"item": [1, 1, 2, 2], "rater": list("abab"), "value": [1, 2, 3, 3]}
    usual = {"binary:1/2": "nominal", "nominal:1/2/3": "nominal", "ordinal:1/2/3": "ordinal", "rating:1..3": "interval"}
    for scale, metric in usual.items():
        answers = rating if scale != "binary:1/2" else rating | {"value": [1, 2, 2, 2]}
        assert ours.krippendorff_alpha(answers, scale).details == {"metric": metric}
    for scale, metric, message in (
        ("nominal:1/2/3", "interval", "a nominal scale has no order; its metric is nominal"),
        ("rating:-1..3", "ratio", "the scale goes below 0; use interval"),
        ("rating:1..3:any", "ordinal", "a rating without a step has interval only; give it a step"),
        ("rating:1..3", "cubic", "metric is 'cubic'; it is one of nominal, ordinal, interval, ratio"),
    ):
        with pytest.raises(ValueError, match=message):
            ours.krippendorff_alpha(rating, scale, metric=metric)  # type: ignore[arg-type]


def test_positive_and_negative_agreement_are_of_a_binary_scale() -> None:
    for function in (ours.positive_agreement, ours.negative_agreement):
        with pytest.raises(ValueError, match="of a binary scale, but this one is rating"):
            function(np.eye(5, dtype=int), "rating:1..5")
    none_failed = ours.negative_agreement([[9, 0], [0, 0]], BINARY)
    assert (none_failed.value, none_failed.reason) == (None, "same_answer")
    assert ours.positive_agreement([[0, 0], [0, 0]], BINARY).reason == "nothing_to_compare"


def test_a_rating_without_a_step_has_no_chance_by_levels() -> None:
    answers = {"item": [1, 1, 2, 2], "rater": list("abab"), "value": [0.1, 0.25, 0.5, 0.5]}
    for function in (ours.gwet_ac, ours.brennan_prediger, ours.pabak):
        assert function(answers, "rating:0..1:any").reason == "not_applicable"
    scale = "rating:0..1:any"
    assert ours.percent_agreement(answers, scale).value == pytest.approx(1 - 0.15 / 2)
    for kappa in (
        ours.cohen_kappa(answers, scale),
        ours.fleiss_kappa(answers, scale),
        ours.pooled_kappa(answers, scale, "a"),
    ):
        assert kappa.value is not None
        assert kappa.details["weights"] == "linear"
    # What a step would give is the same number.
    steps = "rating:0..1:0.05"
    assert ours.cohen_kappa(answers, scale).value == pytest.approx(ours.cohen_kappa(answers, steps).value)
    assert ours.fleiss_kappa(answers, scale).value == pytest.approx(ours.fleiss_kappa(answers, steps).value)
    assert ours.pooled_agreement(answers, scale, "a").value == pytest.approx(
        ours.percent_agreement(answers, steps).value
    )
    assert ours.krippendorff_alpha(answers, scale).value == pytest.approx(ours.krippendorff_alpha(answers, steps).value)
    with pytest.raises(ValueError, match="form is 'items', but a rating without a step has 'pairs' only"):
        ours.fleiss_kappa(answers, scale, form="items")
    with pytest.raises(ValueError, match="a rating without a step has linear weights only"):
        ours.fleiss_kappa(answers, scale, weights="quadratic")


def test_no_labels_at_all_are_nothing_to_compare() -> None:
    for scale in (BINARY, "rating:0..1:any"):
        nothing: dict[str, list[Any]] = {"item": [], "rater": [], "value": []}
        for function in (ours.percent_agreement, ours.cohen_kappa, ours.fleiss_kappa, ours.krippendorff_alpha):
            assert function(nothing, scale).reason == "nothing_to_compare"
        one = {"item": [1, 2], "rater": ["a", "a"], "value": ["T", "F"] if scale == BINARY else [0.1, 0.2]}
        assert ours.cohen_kappa(one, scale).reason == ours.pooled_kappa(one, scale, "a").reason == "nothing_to_compare"


def test_intervals_come_when_they_are_asked_for() -> None:
    table = [[40, 4], [5, 11]]
    assert ours.cohen_kappa(table, BINARY).interval_reason == "not_asked"
    for function in (ours.cohen_kappa, ours.percent_agreement, ours.fleiss_kappa, ours.krippendorff_alpha, ours.gwet_ac,
                     ours.pabak, ours.brennan_prediger, ours.positive_agreement, ours.negative_agreement):  # fmt: skip
        found = function(table, BINARY, resampling=Resampling(resamples=500))  # type: ignore[operator]
        assert found.interval is not None
        assert found.value is not None
        assert found.interval.low < found.value < found.interval.high


@pytest.mark.parametrize("wrong", [(5, 4), (-1, 4), (0, 0)])
def test_a_share_that_is_none_has_no_interval(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is no share; give 0 <= successes <= n"):
        ours.wilson(*wrong)


@pytest.mark.parametrize(
    ("successes", "n", "low"),
    [
        (27, 30, 0.744),
        (45, 50, 0.786),
        (46, 50, 0.812),
        (48, 50, 0.865),
        (30, 30, 0.886),
        (90, 100, 0.826),
        (88, 100, 0.802),
    ],
)
def test_wilsons_lower_ends(successes: int, n: int, low: float) -> None:
    # facts/practice.md 3.6, beside statsmodels' proportion_confint.
    assert round(ours.wilson(successes, n).low, 3) == low
    assert round(ours.wilson(n - successes, n).high, 3) == round(1 - low, 3)


def test_more_of_wilsons_ends() -> None:
    assert round(ours.wilson(54, 60).low, 4) == 0.7985
    assert round(ours.wilson(45, 50, level=0.9).low, 4) == 0.8085  # one-sided 95 %
    swapped = ours.wilson(6, 10)
    assert (round(swapped.low, 3), round(swapped.high, 3), swapped.method) == (0.313, 0.832, "wilson")
    assert (ours.wilson(0, 20).low, ours.wilson(20, 20).high) == (0.0, 1.0)


#: a, b, c, d; agreement, chance, kappa, PABAK, Scott's pi, alpha, AC1, positive, negative: facts/practice.md 2.1.
GOLDEN = [
    ((70, 10, 5, 15), 0.85, 0.65, 0.5714, 0.70, 0.5699, 0.5720, 0.7697, 0.903, 0.667),
    ((90, 4, 4, 2), 0.92, 0.8872, 0.2908, 0.84, 0.2908, 0.2943, 0.9098, 0.957, 0.333),
    ((20, 5, 10, 15), 0.70, 0.50, 0.4000, 0.40, 0.3939, 0.4000, 0.4059, 0.727, 0.667),
    ((90, 5, 4, 1), 0.91, 0.896, 0.1346, 0.82, 0.1342, 0.1385, 0.8996, 0.952, 0.182),
    ((118, 5, 2, 0), 0.944, 0.9453, -0.0234, 0.888, -0.0288, -0.0247, 0.9408, 0.971, 0.000),
    ((122, 18, 12, 48), 0.85, 0.568, 0.6528, 0.70, 0.6524, 0.6533, 0.7361, 0.891, 0.762),
]


@pytest.mark.parametrize(
    ("cells", "agreement", "chance", "kappa", "pabak", "pi", "alpha", "ac", "positive", "negative"), GOLDEN
)
def test_the_golden_tables(
    cells: tuple[int, ...], agreement: float, chance: float, kappa: float, pabak: float, pi: float, alpha: float, ac: float, positive: float, negative: float
) -> None:  # fmt: skip
    table = np.array(cells).reshape(2, 2)
    found = ours.cohen_kappa(table, BINARY)
    assert round(found.value or 0, 4) == kappa
    assert round(found.details["chance"], 4) == chance
    assert round(ours.percent_agreement(table, BINARY).value or 0, 3) == agreement
    assert round(ours.pabak(table, BINARY).value or 0, 4) == pabak
    assert round(ours.fleiss_kappa(table, BINARY).value or 0, 4) == pi
    assert round(ours.krippendorff_alpha(table, BINARY).value or 0, 4) == alpha
    assert round(ours.gwet_ac(table, BINARY).value or 0, 4) == ac
    assert round(ours.positive_agreement(table, BINARY).value or 0, 3) == positive
    assert round(ours.negative_agreement(table, BINARY).value or 0, 3) == negative


def test_fleiss_1971_and_the_textbook_matrix() -> None:
    # 10 items, 14 raters, 5 categories: .2099 (statsmodels).
    matrix = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    patterns = canonical(np.array(matrix), np.ones(10, dtype=np.int64))
    found = ours.fleiss_kappa(patterns, "nominal:1/2/3/4/5")
    assert round(found.value or 0, 4) == 0.2099
    assert ours.fleiss_kappa(patterns, "nominal:1/2/3/4/5", form="items").value == pytest.approx(found.value, abs=1e-12)


def test_unequal_raters_have_numbers_that_name_their_form() -> None:
    # facts/practice.md 2.4: items {x,y}, {x,x,x}, {y,y,y}.
    patterns = canonical(np.array([[1, 1], [3, 0], [0, 3]]), np.ones(3, dtype=np.int64))
    items = ours.fleiss_kappa(patterns, "nominal:x/y", form="items")
    assert round(items.value or 0, 4) == 0.3333
    assert items.details["form"] == "items"
    assert round(ours.krippendorff_alpha(patterns, "nominal:x/y").value or 0, 4) == 0.5625


def test_twelve_ratings_of_a_likert_scale() -> None:
    # facts/practice.md 2.3.
    human, judge = [5, 5, 5, 4, 5, 5, 3, 5, 4, 1, 5, 2], [5, 4, 5, 4, 5, 5, 4, 5, 5, 2, 4, 2]
    table = {"item": [*range(12)] * 2, "rater": ["h"] * 12 + ["j"] * 12, "value": human + judge}
    scale = "rating:1..5"
    kappas = [ours.cohen_kappa(table, scale, weights=w).value for w in ("identity", "linear", "quadratic")]
    assert [round(k or 0, 4) for k in kappas] == [0.3478, 0.6512, 0.8558]
    alphas = [ours.krippendorff_alpha(table, scale, metric=m).value for m in ("nominal", "ordinal", "interval")]  # type: ignore[arg-type]
    assert [round(a or 0, 4) for a in alphas] == [0.3611, 0.7100, 0.8616]
    assert round(ours.gwet_ac(table, scale, weights="quadratic").value or 0, 4) == 0.9371


def test_weights_follow_the_declared_scale_and_not_the_labels_seen() -> None:
    # scikit-learn spaces the labels that it sees: .625 here.
    human, judge = [1, 2, 5, 5, 1, 2], [1, 5, 5, 2, 1, 2]
    table = {"item": [*range(6)] * 2, "rater": ["h"] * 6 + ["j"] * 6, "value": human + judge}
    assert ours.cohen_kappa(table, "rating:1..5").value == 0.4375


# a preference whose two responses change places


def shuffled(counts: Any) -> tuple[Measure, ...]:
    scale = Scale("preference", ("A", "B", "tie"), fixed=False)
    functions = (ours.cohen_kappa, ours.fleiss_kappa, ours.gwet_ac, ours.krippendorff_alpha)
    return tuple(f(np.array(counts), scale) for f in functions)  # type: ignore[operator]


def test_chance_does_not_depend_on_which_response_stood_where() -> None:
    # The same answers with the two responses of every item exchanged.
    counts = np.array([[30, 4, 1], [2, 5, 1], [1, 0, 6]])
    swapped = counts[np.ix_([1, 0, 2], [1, 0, 2])]
    assert [m.value for m in shuffled(counts)] == [m.value for m in shuffled(swapped)]


def test_chance_takes_the_margins_averaged_over_the_swap() -> None:
    counts = np.array([[6, 1, 1], [0, 0, 0], [0, 0, 2]])
    # Margins 8, 0, 2 and 6, 1, 3 of 10; averaged .4 .4 .2 and .35 .35 .3.
    cohen, fleiss, *_ = shuffled(counts)
    chance = Fraction(4, 10) * Fraction(35, 100) * 2 + Fraction(2, 10) * Fraction(3, 10)
    assert cohen.details["chance"] == float(chance)
    assert cohen.value == float((Fraction(8, 10) - chance) / (1 - chance))
    pooled = [Fraction(15, 40), Fraction(15, 40), Fraction(5, 20)]
    assert fleiss.details["chance"] == float(sum(p * p for p in pooled))
    fixed = ours.cohen_kappa(counts, replace(Scale("preference", ("A", "B", "tie")), fixed=True))
    assert fixed.details["chance"] == float(Fraction(48 + 6, 100))
