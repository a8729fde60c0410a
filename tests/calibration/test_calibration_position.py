"""Both orders of a pairwise judge, from lists and from what the rules said."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import polars as pl
import pytest
from calibration_cases import FAST

from calibrate_plugin.calibration.position import FAILED, NOT_JUDGED, TIE, BothOrders, orders_of, position
from calibrate_plugin.model import LABELS, Dimension, Scale, Study, frame
from calibrate_plugin.ratings.rules import Ratings, apply

PREFERENCE = Scale("preference", ("A", "B", "tie"))


def test_the_golden_ten_pairs() -> None:
    # practice.md 3.9, slot verdicts of both orders: AB x 6, AA x 2, BB x 1, A-tie x 1.
    first = np.array([0] * 6 + [0] * 2 + [1] + [0])
    second = np.array([0] * 6 + [1] * 2 + [0] + [TIE])
    found = position(BothOrders(first, second), FAST)
    assert found.consistent.value == 0.6 and found.consistent.interval is not None
    assert (found.consistent.interval.low, found.consistent.interval.high) == pytest.approx((0.313, 0.832), abs=5e-4)
    assert (found.to_first, found.to_second, found.tie_changes) == (2, 1, 1)
    assert found.first_share.value == pytest.approx(11 / 19) and found.first_share.n_pairs == 19
    assert (found.same_first, found.same_second, found.same_tie) == (6, 0, 0)
    assert found.direction_p == 1.0


def test_ties_errors_and_single_orders_are_counted_apart() -> None:
    first = np.array([TIE, 0, FAILED, 0, NOT_JUDGED, 1, NOT_JUDGED])
    second = np.array([TIE, 0, 0, NOT_JUDGED, 1, FAILED, NOT_JUDGED])
    found = position(BothOrders(first, second), FAST)
    assert (found.items, found.same_tie, found.failed, found.single_order) == (2, 1, 2, 2)
    assert found.consistent.value == 1.0 and found.consistent.interval_reason == "too_few_items"


def test_a_judge_that_always_takes_the_first_response_is_consistent_with_nothing() -> None:
    found = position(BothOrders(np.zeros(40, dtype=int), np.ones(40, dtype=int)), FAST)
    assert found.consistent.value == 0 and found.first_share.value == 1
    assert found.first_share.interval is not None and found.first_share.interval.low > 0.8
    assert found.direction_p is not None and found.direction_p < 1e-9


def test_nothing_in_both_orders_is_no_number() -> None:
    found = position(BothOrders(np.full(5, 0), np.full(5, NOT_JUDGED)), FAST)
    assert found.consistent.value is None and found.first_share.reason == "nothing_to_compare"


def judged(flipped: Literal["no_answer", "tie"]) -> tuple[Ratings, dict[str, int]]:
    said = {
        "same": ("A", "A"),
        "first": ("A", "B"),
        "broken": ("A", None),
        "single": ("B", None),
        "ties": ("tie", "tie"),
    }
    rows = [
        {"item": item, "order": order, "value": None if value is None else json.dumps(value), "seq": i}
        for i, (item, values) in enumerate(said.items())
        for order, value in zip(("AB", "BA"), values, strict=True)
        if not (item == "single" and value is None)
    ]
    table = pl.DataFrame(rows).with_columns(
        rater=pl.lit("judge"), kind=pl.lit("evaluator"), field=pl.lit("Better"), state=pl.lit("answered")
    )
    study = Study("s", (Dimension("Better", PREFERENCE, ("A", "B", "tie"), flipped=flipped),))
    ratings = apply(study, {"here": frame(LABELS, table)})
    rows_of = ratings.answers["Better"].frame
    return ratings, dict(zip(ratings.labels["item"].gather(rows_of["row"]), rows_of["item"], strict=True))


@pytest.mark.parametrize("flipped", ["no_answer", "tie"])
def test_the_orders_are_read_as_they_were_answered_whatever_became_of_flipped_pairs(
    flipped: Literal["no_answer", "tie"],
) -> None:
    ratings, code = judged(flipped)
    found = orders_of(ratings.answers["Better"], ratings.labels, 0, 5)
    assert found is not None
    both = {item: (int(found.first[at]), int(found.second[at])) for item, at in code.items()}
    assert both == {
        "same": (0, 0),
        "first": (0, 1),
        "broken": (0, FAILED),
        "single": (1, NOT_JUDGED),
        "ties": (TIE, TIE),
    }


def test_an_order_that_does_not_say_what_was_shown_first_has_to_be_declared() -> None:
    ratings, _ = judged("no_answer")
    answers = ratings.answers["Better"]
    renamed = ratings.labels.with_columns(pl.col("order").replace({"AB": "original", "BA": "swapped"}))
    assert orders_of(answers, renamed, 0, 5) is None
    found = orders_of(answers, renamed, 0, 5, {"original": 0, "swapped": 1})
    assert found is not None and position(found, FAST).items == 3
    assert orders_of(answers, ratings.labels.drop("order"), 0, 5) is None
