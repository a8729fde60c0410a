"""A judge beside its humans: the difference, its interval, the verdict and what keeps a verdict away."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from calibration_cases import BINARY, FAST, FIVE, QUIET, spread, urn_panel
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration import kappas
from calibrate_plugin.calibration.ceiling import ceiling, judges_together, verdict
from calibrate_plugin.calibration.design import Design
from calibrate_plugin.calibration.panel import panel
from calibrate_plugin.model import Interval, Measure, Scale

GRADES = st.sampled_from([0, 1, 2, 3, 4, None])


def told(value: float | None, low: float, high: float, n: int = 100) -> Measure:
    return Measure(value, None, n, None, Interval(low, high, 0.95, "given"))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.3, -0.01, "below the annotators"),
        (-0.05, -0.01, "below the annotators"),  # both hold: below is checked first
        (-0.09, 0.2, "like another annotator"),
        (-0.10, 0.2, "cannot tell yet"),  # the lower end must lie above -margin
        (-0.3, 0.0, "cannot tell yet"),  # the upper end must lie under 0
        (0.02, 0.2, "like another annotator"),  # nearer the mean than any person: possible, and no error
    ],
)
def test_the_verdict_is_checked_in_its_order(low: float, high: float, word: str) -> None:
    assert verdict(told((low + high) / 2, low, high), 0.10).word == word


def test_seed_003s_judges_like_a_third_annotator_and_not() -> None:
    # Humans at .62: a judge at .60 is like another annotator, one at .35 is not, given enough items to say so.
    assert verdict(told(0.60 - 0.62, -0.06, 0.02), 0.10).word == "like another annotator"
    assert verdict(told(0.35 - 0.62, -0.35, -0.19), 0.10).word == "below the annotators"


def test_a_hundred_items_often_cannot_tell_and_say_how_many_would() -> None:
    # practice.md 2.7: HH .546, JH .446, difference -.100 (-.306 to .093).
    found = verdict(told(0.446 - 0.546, -0.306, 0.093), 0.10)
    assert found.word == "cannot tell yet"
    # The upper end must come from .193 above the point to .100 above it: (.193 / .100)^2 times the items.
    assert found.more_items == pytest.approx(100 * (0.193 / 0.1) ** 2 - 100, abs=1)


@given(st.floats(-1, 1), st.floats(0.001, 1), st.floats(0.001, 1), st.floats(0.01, 0.5), st.integers(10, 10_000))
@settings(deadline=None, derandomize=True)
def test_more_items_are_always_more_than_none(value: float, below: float, above: float, margin: float, n: int) -> None:
    found = verdict(told(value, value - below, value + above, n), margin)
    if found.word == "cannot tell yet":
        assert found.more_items is not None and found.more_items >= 1
    else:
        assert found.more_items is None


def test_the_difference_is_mean_pairwise_kappa_against_mean_pairwise_kappa_on_the_same_items() -> None:
    rng = np.random.default_rng(5)
    people = {f"p{i}": [None if rng.random() < 0.3 else int(rng.integers(5)) for _ in range(60)] for i in range(4)}
    judge = [None if rng.random() < 0.2 else int(rng.integers(5)) for _ in range(60)]
    found = ceiling(panel(FIVE, people, {"judge": judge}), 4, QUIET)
    shared = [i for i in range(60) if judge[i] is not None and sum(p[i] is not None for p in people.values()) >= 2]

    def kappa(a: list[int | None], b: list[int | None]) -> float:
        both = [i for i in shared if a[i] is not None and b[i] is not None]
        return float(
            cohen_kappa_score([a[i] for i in both], [b[i] for i in both], weights="linear", labels=[0, 1, 2, 3, 4])
        )

    among = np.mean([kappa(a, b) for a, b in combinations(people.values(), 2)])
    beside = np.mean([kappa(judge, p) for p in people.values()])
    assert found.human_human.mean.value == pytest.approx(among)
    assert found.judge_human.mean.value == pytest.approx(beside)
    assert found.difference.value == pytest.approx(beside - among)
    assert found.difference.n_items == len(shared)
    assert len(found.human_human.pairs) == 6 and len(found.judge_human.pairs) == 4


def test_pairs_without_a_kappa_are_counted_and_left_out() -> None:
    people = {"a": [0, 0, 1, 1, 0, 1], "b": [0, 1, 1, 1, 0, 0], "c": [0, 0, None, None, None, None]}
    found = ceiling(panel(BINARY, people, {"judge": [0, 0, 1, 0, 0, 1]}), 3, QUIET)
    # c answered two items with one value, as did the judge and a: only a-b and b-c are left, and judge-a, judge-b.
    assert found.human_human.undefined == 1 and found.judge_human.undefined == 1
    reasons = {(p.a, p.b): p.kappa.reason for p in (*found.human_human.pairs, *found.judge_human.pairs)}
    assert reasons["a", "c"] == "same_answer" and reasons["judge", "c"] == "same_answer"
    kept = [p.kappa.value for p in found.human_human.pairs if p.kappa.value is not None]
    assert found.human_human.mean.value == pytest.approx(np.mean(kept))


def test_one_annotator_is_no_ceiling_and_no_favourable_word() -> None:
    first, second = spread(40, 5, 5, 30)
    found = ceiling(panel(BINARY, {"a": first}, {"judge": second}), 1, FAST)
    assert found.verdict.word == "no human ceiling" and found.verdict.reason == "one_annotator"
    assert found.difference.value is None
    assert found.judge_human.mean.value is not None and found.judge_human.mean.interval is not None


def test_annotators_who_share_no_item_are_no_ceiling_either() -> None:
    people = {"a": [0, 1] * 10 + [None] * 20, "b": [None] * 20 + [0, 1] * 10}
    found = ceiling(panel(BINARY, people, {"judge": [0, 1] * 20}), 2, FAST)
    assert found.verdict.word == "no human ceiling"


def test_a_judge_that_did_not_answer_the_shared_items_gets_no_verdict() -> None:
    people = {"a": [0, 1] * 10, "b": [0, 1] * 9 + [1, 1]}
    found = ceiling(panel(BINARY, people, {"judge": [None] * 20}), 2, FAST)
    assert found.verdict.word is None and found.verdict.reason == "nothing_to_compare"


def test_under_ten_items_there_are_numbers_and_no_verdict() -> None:
    people = {"a": [0, 1, 0, 1, 0, 1, 0, 1, 0], "b": [0, 1, 0, 1, 0, 1, 0, 1, 1]}
    found = ceiling(panel(BINARY, people, {"judge": [0, 1, 0, 1, 0, 1, 0, 1, 0]}), 2, FAST)
    assert found.difference.value is not None and found.difference.interval is None
    assert found.verdict.word is None and found.verdict.reason == "too_few_items"


def test_a_constant_judge_is_not_like_an_annotator() -> None:
    rng = np.random.default_rng(1)
    seen = urn_panel(300, 0.8, [0.9, 0.9, 0.9], 0, rng)
    constant = replace(seen, own={**seen.own, 3: np.zeros(300, dtype=np.int32)})
    found = ceiling(constant, 3, FAST)
    assert found.judge_human.mean.value == 0
    assert found.verdict.word == "below the annotators"


def test_annotators_and_judge_who_all_say_one_thing_get_no_verdict() -> None:
    found = ceiling(panel(BINARY, {"a": [0] * 50, "b": [0] * 50}, {"judge": [0] * 50}), 2, FAST)
    assert found.difference.value is None and found.verdict.word is None and found.verdict.reason == "same_answer"


def test_too_few_failures_keep_the_favourable_word_away() -> None:
    # Four failures in 400, all agreed on: the interval is narrow and tells nothing about failures.
    levels = [1] * 4 + [0] * 396
    found = ceiling(panel(BINARY, {"a": levels, "b": levels}, {"judge": levels}), 2, FAST)
    assert found.difference.interval is not None and found.difference.interval.low > -0.10
    assert found.verdict.word == "cannot tell yet" and found.verdict.reason == "rare_answer"
    assert found.verdict.more_items == 100  # five failures instead of four: 500 items


def test_a_difference_that_hangs_on_a_few_items_is_warned_of_and_may_still_be_favourable() -> None:
    rng = np.random.default_rng(3)
    levels = rng.integers(0, 2, 200)
    other = np.where(np.arange(200) < 20, 1 - levels, levels)
    for differing, warnings in ((3, ("handful",)), (30, ())):
        judge = np.where(np.arange(200) >= 200 - differing, 1 - levels, levels)
        # beside a, the judge differs on `differing` items; beside b on 20 more
        told = ceiling(panel(BINARY, {"a": levels, "b": other}, {"judge": judge}), 2, FAST)
        assert told.difference.details["differing"] == (2 * differing + 20) / 2
        alone = ceiling(panel(BINARY, {"a": levels, "b": levels}, {"judge": judge}), 2, FAST)
        assert alone.difference.details["differing"] == differing
        assert alone.difference.warnings == warnings
    near = np.where(np.arange(200) >= 197, 1 - levels, levels)
    found = ceiling(panel(BINARY, {"a": levels, "b": other}, {"judge": near}), 2, FAST)
    assert found.verdict.word == "like another annotator"


def test_a_judge_that_abstains_on_the_hard_half_is_not_like_an_annotator() -> None:
    rng = np.random.default_rng(2)
    easy = [0, 1] * 100
    hard_a, hard_b = list(rng.integers(0, 2, 200)), list(rng.integers(0, 2, 200))
    people = {"a": easy + [int(x) for x in hard_a], "b": easy + [int(x) for x in hard_b]}
    judge = easy + [None] * 200
    left = {"judge": [None] * 200 + ["abstained"] * 200}
    found = ceiling(panel(BINARY, people, {"judge": judge}, unanswered=left), 2, FAST)
    assert found.difference.value == 0 and found.unanswered == 200
    assert found.as_wrong is not None and found.as_wrong.value is not None and found.as_wrong.value < -0.1
    assert found.verdict.word == "cannot tell yet" and found.verdict.reason == "unanswered"
    # Where nothing tells that it was asked, the same answers are all there is.
    assert ceiling(panel(BINARY, people, {"judge": judge}), 2, FAST).verdict.word == "like another annotator"


def test_a_sample_chosen_by_label_without_weights_gets_no_verdict() -> None:
    seen = urn_panel(200, 0.5, [0.9, 0.9], 0.9, np.random.default_rng(3))
    assert ceiling(seen, 2, FAST).verdict.word is not None
    for kind in ("by_judge", "by_gold"):
        found = ceiling(seen, 2, FAST, design=Design(kind))  # type: ignore[arg-type]
        assert found.verdict.word is None and found.verdict.reason == "no_weights"


def test_equal_weights_change_nothing_and_the_verdict_speaks_of_the_weighted_difference() -> None:
    seen = urn_panel(400, 0.7, [0.9, 0.9], 0.5, np.random.default_rng(4))
    flat = Design("by_judge", np.zeros(400, dtype=np.int64), np.full(400, 0.1))
    even = ceiling(seen, 2, FAST, design=flat)
    assert even.weighted is not None and even.weighted.value == pytest.approx(even.difference.value)
    # Where the judge says fail only a tenth of the items was taken.
    probability = np.where(seen.own[2] == 1, 0.1, 1.0)
    found = ceiling(seen, 2, FAST, design=Design("by_judge", seen.own[2], probability))
    assert found.weighted is not None and found.weighted.value != pytest.approx(found.difference.value, abs=0.01)
    assert found.verdict == verdict(found.weighted, 0.10)


def test_weights_give_what_repeating_the_items_gives() -> None:
    seen = urn_panel(60, 0.6, [0.8, 0.8, 0.8], 0.6, np.random.default_rng(6))
    times = np.where(seen.own[3] == 1, 1, 4)
    repeated = seen.limited(np.repeat(np.arange(60), times))
    design = Design("by_judge", seen.own[3], 1 / times)
    weighted = ceiling(seen, 3, QUIET, design=design).weighted
    assert weighted is not None
    assert weighted.value == pytest.approx(ceiling(repeated, 3, QUIET).difference.value)


def test_both_interval_forms_agree_on_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = urn_panel(4000, 0.7, [0.85, 0.8, 0.9], 0.6, np.random.default_rng(7))
    probability = np.where(seen.own[3] == 1, 0.5, 1.0)
    for design in (Design("random"), Design("by_judge", seen.own[3], probability)):
        drawn = ceiling(seen, 3, Resampling(resamples=4000), design=design)
        with monkeypatch.context() as patch:
            patch.setattr(kappas, "MOST_PATTERNS", 0)
            computed = ceiling(seen, 3, Resampling(), design=design)
        for a, b in (
            (drawn.difference, computed.difference),
            (drawn.weighted, computed.weighted),
            (drawn.human_human.mean, computed.human_human.mean),
            (drawn.judge_human.pairs[1].kappa, computed.judge_human.pairs[1].kappa),
        ):
            if a is None or b is None:
                continue
            assert a.value == b.value and a.interval is not None and b.interval is not None
            assert (b.interval.method, a.interval.method) == ("item-delta", "item-bootstrap+3")
            width = a.interval.high - a.interval.low
            assert (b.interval.low, b.interval.high) == pytest.approx((a.interval.low, a.interval.high), abs=width / 12)


def test_ratings_without_a_step_are_compared_by_their_values() -> None:
    scale = Scale("rating", low=Fraction(0), high=Fraction(1))
    rng = np.random.default_rng(8)
    truth = rng.random(500)
    people = {f"p{i}": np.clip(truth + rng.normal(0, 0.1, 500), 0, 1) for i in range(3)}
    found = ceiling(panel(scale, people, {"judge": np.clip(truth + rng.normal(0, 0.3, 500), 0, 1)}), 3, FAST)
    coarse = Scale("rating", low=Fraction(0), high=Fraction(1), step=Fraction(1, 100))
    rounded = {n: np.round(v * 100) for n, v in people.items()}
    near = ceiling(panel(coarse, rounded, {"judge": np.round(truth * 100)}), 3, QUIET)
    assert found.verdict.word == "below the annotators"
    assert found.human_human.mean.value == pytest.approx(near.human_human.mean.value, abs=0.01)


def test_shuffled_responses_use_margins_averaged_over_the_swap_in_both_interval_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scale = Scale("preference", ("A", "B", "tie"), fixed=False)
    rng = np.random.default_rng(9)
    truth = rng.choice(3, 1500, p=[0.6, 0.2, 0.2])
    people = {f"p{i}": np.where(rng.random(1500) < 0.7, truth, rng.integers(0, 3, 1500)) for i in range(3)}
    seen = panel(scale, people, {"judge": np.where(rng.random(1500) < 0.5, truth, rng.integers(0, 3, 1500))})
    drawn = ceiling(seen, 3, Resampling(resamples=3000))
    monkeypatch.setattr(kappas, "MOST_PATTERNS", 0)
    computed = ceiling(seen, 3, Resampling())
    a, b = drawn.difference.interval, computed.difference.interval
    assert a is not None and b is not None
    assert (b.low, b.high) == pytest.approx((a.low, a.high), abs=0.01)


def test_judge_pairs_stand_apart() -> None:
    rng = np.random.default_rng(10)
    judges = {f"j{i}": rng.integers(0, 2, 30) for i in range(3)}
    found = judges_together(panel(BINARY, {"a": rng.integers(0, 2, 30)}, judges), [1, 2, 3], QUIET)
    assert found is not None and [(p.a, p.b) for p in found.pairs] == [("j0", "j1"), ("j0", "j2"), ("j1", "j2")]
    assert found.pairs[0].kappa.value == pytest.approx(cohen_kappa_score(judges["j0"], judges["j1"]))
    assert judges_together(panel(BINARY, {"a": [0]}, judges), [1], QUIET) is None


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="margin is 0"):
        ceiling(panel(BINARY, {"a": [0], "b": [0]}, {"j": [0]}), 2, FAST, margin=0)


@given(st.lists(st.tuples(GRADES, GRADES, GRADES, GRADES), min_size=1, max_size=25), st.randoms(use_true_random=False))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_neither_the_order_of_items_nor_that_of_people_shows(rows, random) -> None:  # type: ignore[no-untyped-def]
    def difference(order, people):  # type: ignore[no-untyped-def]
        names = ["a", "b", "c"]
        picked = {names[p]: [rows[i][p] for i in order] for p in people}
        return ceiling(panel(FIVE, picked, {"judge": [rows[i][3] for i in order]}), 3, QUIET).difference

    plain = difference(range(len(rows)), [0, 1, 2])
    order = list(range(len(rows)))
    random.shuffle(order)
    assert difference(order, [0, 1, 2]) == plain
    other = difference(order, [2, 0, 1])
    assert other.reason == plain.reason
    if plain.value is not None:
        assert other.value == pytest.approx(plain.value)


def test_the_same_seed_gives_the_same_bytes() -> None:
    seen = urn_panel(80, 0.7, [0.9, 0.8], 0.7, np.random.default_rng(11))
    assert ceiling(seen, 2, FAST) == ceiling(seen, 2, FAST)
    assert ceiling(seen, 2, FAST) != ceiling(seen, 2, Resampling(seed=1, resamples=1000))


def test_the_interval_of_the_difference_covers_at_a_modest_number_of_runs() -> None:
    covered = flattered = 0
    for run in range(120):
        rng = np.random.default_rng(run)
        people, judge = [0.6**0.5] * 3, 0.4 / 0.6**0.5  # a judge that is .2 worse
        found = ceiling(urn_panel(100, 0.6, people, judge, rng), 3, Resampling(seed=run, resamples=500))
        assert found.difference.interval is not None
        covered += found.difference.interval.low <= -0.2 <= found.difference.interval.high
        flattered += found.verdict.word == "like another annotator"
    assert covered >= 105  # 95 % of 120 is 114; under 105 lies what a 95 % interval does once in 5,000
    assert flattered <= 5
