"""Confidence from draws and as stated: golden numbers, bins, refusals, and reading draws from what the rules said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from calibration_cases import BINARY, FAST, FIVE

from calibrate_plugin.calibration import confidence as module
from calibrate_plugin.calibration.confidence import Draws, answer_of_draws, bin_of, draws_of, of_draws, of_stated
from calibrate_plugin.calibration.design import Design
from calibrate_plugin.calibration.gold import Gold, single
from calibrate_plugin.calibration.panel import panel
from calibrate_plugin.model import LABELS, Dimension, Scale, Study, frame
from calibrate_plugin.ratings.rules import apply


def gold_of(levels: list[int]) -> Gold:
    return single(panel(BINARY, {"expert": levels}), 0)


def draws_from(rows: list[tuple[int, int]], failed: list[int] | None = None) -> Draws:
    return Draws(np.array(rows), np.array(failed or [0] * len(rows)))


def five_draws() -> tuple[Draws, Gold]:
    """practice.md 3.8: .6 of five draws on 10 items (5 right), .8 on 10 (6 right), all on 20 (18 right)."""
    rows = [(3, 2)] * 10 + [(4, 1)] * 10 + [(5, 0)] * 20
    right = [0] * 5 + [1] * 5 + [0] * 6 + [1] * 4 + [0] * 18 + [1] * 2
    return draws_from(rows), gold_of(right)


def test_the_golden_numbers_of_draws() -> None:
    draws, gold = five_draws()
    found = of_draws(draws, BINARY, gold, FAST)
    assert found.accuracy.value == 0.725
    assert found.ece.value == pytest.approx(0.125) and found.brier.value == pytest.approx(0.185)
    assert found.gap.value == pytest.approx(0.85 - 0.725)  # above 0: too sure
    assert found.base_rate_brier.value == pytest.approx(0.725 * 0.275)
    assert [(b.low, b.n) for b in found.bins] == [(0.6, 10), (0.8, 10), (1.0, 20)]  # one group per distinct confidence
    assert [b.accuracy.value for b in found.bins if b.accuracy] == [0.5, 0.6, 0.9]
    assert all(b.gap is not None and b.gap > 0 for b in found.bins)


def test_ece_depends_on_its_bins() -> None:
    stated = np.array([0.55] * 10 + [0.65] * 10)
    gold, level = gold_of([0] * 20), np.array([0] * 10 + [1] * 10)
    values = {bins: of_stated(stated, level, gold, FAST, bins=bins).ece.value for bins in (2, 5, 10)}
    assert values == pytest.approx({2: 0.10, 5: 0.55, 10: 0.55})


def test_empty_bins_are_nothing_rather_than_zero() -> None:
    found = of_stated(np.array([0.55] * 12), np.zeros(12, dtype=int), gold_of([0] * 12), FAST)
    assert len(found.bins) == 10
    empty = [b for b in found.bins if not b.n]
    assert len(empty) == 9 and all(b.confidence is None and b.accuracy is None and b.gap is None for b in empty)


def test_bins_are_half_open_and_the_last_is_closed_by_the_decimal_spelling() -> None:
    assert bin_of(np.array([0.0, 0.1, 0.3, 0.6, 0.7, 0.9999, 1.0]), 10).tolist() == [0, 1, 3, 6, 7, 9, 9]
    assert bin_of(np.array([0.29, 0.57, 0.58]), 100).tolist() == [29, 57, 58]  # 0.29 * 100 is 28.999... as a float


def test_ece_and_brier_equal_the_oracles(shared: Path) -> None:
    cases = json.loads((shared / "oracles" / "agreement_cases.json").read_text())["cases"]
    checked = 0
    for case in (c for c in cases if c["kind"] == "confidence"):
        expected = {e["statistic"]: e for e in case["expect"]}
        correct, stated = np.array(case["correct"]), np.array(case["confidence"])
        gold = gold_of([0] * len(correct))
        if case["id"] == "ece_edges":  # five draws; right-closed fifths hold one confidence each, as our groups do
            rows = [
                (round(c * 5), 5 - round(c * 5)) if ok else (5 - round(c * 5), round(c * 5))
                for c, ok in zip(stated, correct, strict=True)
            ]
            found = of_draws(draws_from(rows), BINARY, gold, FAST)
        else:
            found = of_stated(stated, 1 - correct, gold, FAST, bins=expected["ece"]["params"]["bins"])
        assert found.ece.value == pytest.approx(expected["ece"]["value"], abs=1e-9)
        assert found.brier.value == pytest.approx(expected["brier"]["value"], abs=1e-9)
        checked += 1
    assert checked == 3


def test_draws_that_never_differ_are_refused_as_calibration() -> None:
    found = of_draws(draws_from([(5, 0)] * 18 + [(0, 5)] * 2), BINARY, gold_of([0] * 20), FAST)
    assert [m.reason for m in (found.ece, found.brier, found.gap)] == ["never_differs"] * 3
    assert [m.value for m in (found.ece, found.brier, found.gap)] == [None] * 3
    assert found.accuracy.value == 0.9  # right or wrong it can be all the same


def test_single_draws_say_nothing() -> None:
    found = of_draws(draws_from([(1, 0)] * 20), BINARY, gold_of([0] * 20), FAST)
    assert found.ece.reason == "nothing_to_compare"


def test_failures_stand_apart_from_confidence() -> None:
    draws = draws_from([(2, 0), (1, 1), (0, 0), (3, 1)] * 5, [3, 3, 5, 1] * 5)
    found = of_draws(draws, BINARY, gold_of([0] * 20), FAST)
    assert (found.tied, found.failed_items, found.failed_draws) == (5, 5, 60)
    assert [b.low for b in found.bins] == [0.75, 1.0]  # shares of the successful draws
    assert found.draws_per_item == {2: 10, 4: 5}


def test_all_draws_failed_is_no_number() -> None:
    found = of_draws(draws_from([(0, 0)] * 20, [5] * 20), BINARY, gold_of([0] * 20), FAST)
    assert found.ece.value is None and found.accuracy.value is None and found.failed_items == 20


def test_without_gold_there_is_no_calibration() -> None:
    draws, _ = five_draws()
    empty = single(panel(BINARY, {"expert": [None] * 40}), 0)
    assert of_draws(draws, BINARY, empty, FAST).ece.reason == "no_gold"
    assert of_stated(np.full(40, 0.5), np.zeros(40, dtype=int), empty, FAST).ece.reason == "no_gold"


def test_the_answer_of_draws_is_the_mode_and_on_ordered_scales_the_median() -> None:
    counts = np.array([[2, 1, 2, 0, 0], [2, 0, 1, 0, 2], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    level, tied = answer_of_draws(counts, FIVE)
    assert level.tolist() == [1, 2, -1, -1] and tied.tolist() == [False, False, True, False]
    level, tied = answer_of_draws(counts, Scale("nominal", tuple("abcde")))
    assert level.tolist() == [-1, -1, -1, -1] and tied.tolist() == [True, True, True, False]


def test_the_noise_is_what_perfect_confidences_show_by_chance() -> None:
    rng = np.random.default_rng(0)
    for n, p in ((7, 0.8), (40, 0.6), (1, 0.3)):
        expected = np.abs(rng.binomial(n, p, 400_000) / n - p).mean()
        assert module._chance_gap(n, p) == pytest.approx(expected, rel=0.01)
    assert module._chance_gap(5, 1.0) == 0


def test_a_confidence_outside_zero_to_one_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a stated confidence is 80"):
        of_stated(np.array([80.0]), np.array([0]), gold_of([0]), FAST)


def test_a_designed_sample_has_weighted_calibration_too() -> None:
    draws, gold = five_draws()
    probability = np.array([1.0] * 20 + [0.1] * 20)
    found = of_draws(draws, BINARY, gold, FAST, design=Design("by_judge", (probability < 1).astype(int), probability))
    assert found.weighted is not None and found.ece.value == pytest.approx(0.125)
    # The surest 20 items stand for ten times as many: (10 * .1 + 10 * .2 + 200 * .1) / 220.
    assert found.weighted.ece.value == pytest.approx((10 * 0.1 + 10 * 0.2 + 200 * 0.1) / 220)


def test_draws_are_read_from_the_set_that_the_answer_was_made_of() -> None:
    rows: list[dict[str, object]] = []

    def add(item: str, value: str | None, **more: object) -> None:
        rows.append({"item": item, "value": None if value is None else json.dumps(value), **more})

    for sample, value in enumerate(["pass", "pass", "fail", None, "nonsense"]):
        add("one", value, sample=str(sample), run="r2", seq=10 + sample)
    for sample in range(3):
        add("one", "fail", sample=str(sample), run="r1", seq=sample)  # an older set
    add("two", "fail", seq=3)  # a plain answer is no draw
    add("three", None, sample="0", run="r2", seq=20)  # nothing but failures
    add("four", "pass", sample="0", run="r2", seq=21)
    add("four", "fail", sample="1", run="r2", seq=22)  # a tie
    table = pl.DataFrame(rows).with_columns(
        rater=pl.lit("judge"), kind=pl.lit("evaluator"), field=pl.lit("Safety"), state=pl.lit("answered")
    )
    study = Study("s", (Dimension("Safety", BINARY, ("pass", "fail")),))
    ratings = apply(study, {"here": frame(LABELS, table)})
    answers = ratings.answers["Safety"]
    code = dict(zip(ratings.labels["item"].gather(answers.frame["row"]), answers.frame["item"], strict=True))
    found = draws_of(answers, ratings.labels, 0, 4)
    assert found.counts[code["one"]].tolist() == [2, 1] and found.failed[code["one"]] == 2
    assert found.counts[code["two"]].tolist() == [0, 0] and found.failed[code["two"]] == 0
    assert found.counts[code["three"]].tolist() == [0, 0] and found.failed[code["three"]] == 1
    assert found.counts[code["four"]].tolist() == [1, 1]
