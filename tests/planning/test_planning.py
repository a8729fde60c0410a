"""How many items, which ones, and what is kept for the test."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from calibrate_plugin.planning.sample import allocate, simple_random, stratified
from calibrate_plugin.planning.size import (
    GoldSplit,
    gold_per_class,
    gold_split,
    items_for_kappa,
    items_for_share,
    kappa_half_width,
)
from calibrate_plugin.planning.splits import SPLITS, Item, assign, sizes

# --- how many (golden numbers: practice.md 2.6, 3.2, 3.6)


@pytest.mark.parametrize(
    ("pass_rate", "widths"),
    [
        (0.5, (0.222, 0.157, 0.111, 0.078, 0.055)),
        (0.8, (0.280, 0.198, 0.140, 0.099, 0.070)),
        (0.9, (0.375, 0.265, 0.188, 0.133, 0.094)),
        (0.95, (0.519, 0.367, 0.259, 0.183, 0.130)),
    ],
)
def test_half_widths_of_kappa_at_a_prevalence(pass_rate: float, widths: tuple[float, ...]) -> None:
    found = [kappa_half_width(0.6, pass_rate, n) for n in (50, 100, 200, 400, 800)]
    assert found == pytest.approx(widths, abs=5.1e-4)


@given(st.floats(0.05, 0.95), st.floats(0, 0.9), st.floats(0.02, 0.5))
@settings(deadline=None, derandomize=True)
def test_the_items_for_kappa_are_enough_and_one_less_is_not(pass_rate: float, kappa: float, half_width: float) -> None:
    n = items_for_kappa(kappa, pass_rate, half_width)
    assert kappa_half_width(kappa, pass_rate, n) <= half_width * (1 + 1e-9)
    assert n == 1 or kappa_half_width(kappa, pass_rate, n - 1) > half_width * (1 - 1e-9)


def test_the_spread_of_kappa_is_the_large_sample_one_of_statsmodels() -> None:
    table = np.array([[0.8 - 0.064, 0.064], [0.064, 0.2 - 0.064]]) * 1000  # kappa .6 at 80 % pass
    assert cohens_kappa(table).kappa == pytest.approx(0.6)
    assert kappa_half_width(0.6, 0.8, 1000) == pytest.approx(1.959964 * cohens_kappa(table).std_kappa)


@pytest.mark.parametrize(
    ("observed", "two_sided", "one_sided"),
    [(0.85, 276, 208), (0.88, 118, 86), (0.90, 74, 55), (0.92, 54, 42), (0.95, 33, 28)],
)
def test_gold_per_class_for_a_lower_bound_of_80_percent(observed: float, two_sided: int, one_sided: int) -> None:
    assert gold_per_class(observed, 0.80) == two_sided
    assert gold_per_class(observed, 0.80, one_sided=True) == one_sided


@pytest.mark.parametrize("observed", [0.85, 0.9, 0.95, 1.0])
def test_the_bound_holds_at_every_larger_number_of_items(observed: float) -> None:
    n = gold_per_class(observed, 0.80)

    def low(items: int) -> float:
        return float(proportion_confint(int(observed * items + 1e-9), items, method="wilson")[0])

    assert all(low(items) >= 0.80 for items in range(n, n + 400)) and low(n - 1) < 0.80


@pytest.mark.parametrize(
    ("successes", "n", "low"),
    [(27, 30, 0.744), (45, 50, 0.786), (46, 50, 0.812), (48, 50, 0.865), (30, 30, 0.886), (54, 60, 0.7985), (90, 100, 0.826), (88, 100, 0.802)],
)  # fmt: skip
def test_wilsons_lower_bounds(successes: int, n: int, low: float) -> None:
    from calibrate_plugin.agreement.estimate import wilson

    assert wilson(successes, n).low == pytest.approx(low, abs=5e-4)
    assert wilson(45, 50, 0.90).low == pytest.approx(0.8085, abs=5e-5)  # one-sided 95 %


def test_fifty_items_of_a_class_cannot_certify_a_90_percent_judge_at_80() -> None:
    assert gold_per_class(0.90, 0.80) > 50


def test_the_best_split_of_balanced_gold() -> None:
    assert gold_split(200, 0.8, 0.92, 0.88) == GoldSplit(passes=157, fails=43)
    assert gold_split(200, 0.4, 0.9, 0.7) == GoldSplit(passes=64, fails=136)
    perfect = gold_split(100, 0.99, 1.0, 1.0)  # a perfect pilot starves no class
    assert perfect.passes + perfect.fails == 100 and perfect.fails >= 1


@pytest.mark.parametrize(("share", "half_width"), [(0.9, 0.05), (0.5, 0.03), (0.99, 0.01)])
def test_the_items_for_a_share_are_enough_and_one_less_is_not(share: float, half_width: float) -> None:
    from calibrate_plugin.agreement.estimate import wilson

    def half(n: int) -> float:
        ends = wilson(share * n, n)  # type: ignore[arg-type]
        return (ends.high - ends.low) / 2

    n = items_for_share(share, half_width)
    assert half(n) <= half_width < half(n - 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: items_for_kappa(0.6, 1.0, 0.1), "pass_rate is 1.0"),
        (lambda: items_for_kappa(-0.9, 0.9, 0.1), "lies between -0.11 and below 1"),
        (lambda: items_for_kappa(0.6, 0.9, 0), "half_width is 0"),
        (lambda: items_for_share(0.9, 0.7), "half_width is 0.7"),
        (lambda: gold_per_class(0.8, 0.8), "observed is 0.8 and bound is 0.8"),
        (lambda: gold_per_class(0.80001, 0.8), "more than 10,000,000 items"),
        (lambda: gold_split(1, 0.5, 0.9, 0.9), "total is 1"),
    ],
)
def test_what_cannot_be_planned_says_why(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()


# --- which ones (practice.md 1.4)


def test_largest_remainders_add_up_exactly() -> None:
    assert allocate({"a": 10, "b": 10, "c": 10}, 10) == {"a": 4, "b": 3, "c": 3}
    assert list(allocate({f"s{i}": 10 for i in range(8)}, 20).values()) == [3, 3, 3, 3, 2, 2, 2, 2]
    assert allocate({"a": 100, "b": 100}, 5) == {"a": 3, "b": 2}


def test_a_rare_stratum_keeps_its_floor() -> None:
    assert allocate({"common": 990, "rare": 10}, 200, floor=10) == {"common": 190, "rare": 10}
    assert allocate({"big": 1000, **{f"one {i}": 1 for i in range(5)}}, 10) == {
        "big": 5,
        **{f"one {i}": 1 for i in range(5)},
    }
    assert allocate({"common": 990, "rare": 4}, 100, floor=10) == {"common": 96, "rare": 4}


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 60), min_size=1, max_size=8),
    st.integers(1, 200),
    st.integers(0, 6),
)
@settings(deadline=None, derandomize=True)
def test_an_allocation_is_exact_within_its_strata_and_above_its_floors(
    sizes_: dict[str, int], total: int, floor: int
) -> None:
    least = sum(min(floor, size) for size in sizes_.values())
    if total > sum(sizes_.values()) or least > total:
        with pytest.raises(ValueError):
            allocate(sizes_, total, floor)
        return
    found = allocate(sizes_, total, floor)
    assert sum(found.values()) == total
    for name, size in sizes_.items():
        assert min(floor, size) <= found[name] <= size


def test_a_floor_that_does_not_fit_says_what_would() -> None:
    with pytest.raises(ValueError, match="30 of each of 4 strata is 120 items, more than the 100 asked for"):
        allocate(dict.fromkeys("abcd", 50), 100, floor=30)
    with pytest.raises(ValueError, match="there are only 20 items"):
        allocate({"a": 20}, 21)


def test_a_sample_stores_its_inclusion_probabilities() -> None:
    items = {f"i{i}": "fail" if i < 50 else "pass" for i in range(1000)}
    chosen = stratified(items, 100, floor=50)
    counts = Counter(c.stratum for c in chosen)
    assert counts == {"fail": 50, "pass": 50}
    assert {c.stratum: c.probability for c in chosen} == {"fail": 1.0, "pass": 50 / 950}
    assert sum(1 / c.probability for c in chosen) == pytest.approx(1000)  # the weights stand for everyone


def test_a_sample_is_the_same_in_any_order_of_items_and_another_with_another_seed() -> None:
    items = {f"i{i}": "ab"[i % 2] for i in range(300)}
    backwards = dict(reversed(items.items()))
    assert stratified(items, 40) == stratified(backwards, 40)
    assert {c.item for c in stratified(items, 40)} != {c.item for c in stratified(items, 40, seed=1)}
    assert len(simple_random(list(items), 7)) == 7


def test_a_sample_shows_no_stratum_first() -> None:
    items = {f"i{i}": "ab"[i % 2] for i in range(200)}
    first = Counter(c.stratum for c in stratified(items, 100)[:50])
    assert 10 < first["a"] < 40


def test_every_item_is_as_likely_as_the_next() -> None:
    items = {f"i{i}": "only" for i in range(10)}
    seen = Counter(c.item for seed in range(400) for c in stratified(items, 3, seed=seed))
    assert all(80 < n < 160 for n in seen.values())  # 120 expected


# --- what is kept for the test


def test_the_sizes_of_the_splits() -> None:
    assert sizes(100) == {"train": 15, "dev": 42, "test": 43}
    assert sizes(200) == {"train": 30, "dev": 85, "test": 85}
    with pytest.raises(ValueError, match="must add up to 1"):
        sizes(10, {"train": Fraction(1, 2), "dev": Fraction(1, 2), "test": Fraction(1, 2)})


def test_each_class_is_split_by_itself() -> None:
    items = [Item(f"i{i}", "fail" if i < 100 else "pass") for i in range(300)]
    found = assign(items)
    counts = Counter((found.split[i.name], i.label) for i in items)
    assert [counts[s, "fail"] for s in SPLITS] == [15, 42, 43]
    assert [counts[s, "pass"] for s in SPLITS] == [30, 85, 85]
    assert found.short == ()


def test_adding_items_never_moves_an_old_one() -> None:
    items = [Item(f"i{i}", "ab"[i % 3 == 0]) for i in range(400)]
    first = assign(items[:150])
    second = assign(items, first.split)
    assert all(second.split[name] == where for name, where in first.split.items())
    counts = Counter(second.split.values())
    assert counts["train"] == pytest.approx(60, abs=2) and counts["dev"] == pytest.approx(170, abs=2)


def test_the_order_of_items_does_not_show() -> None:
    items = [Item(f"i{i}", "ab"[i % 2], f"g{i // 3}") for i in range(90)]
    assert assign(items).split == assign(reversed(items)).split
    assert assign(items).split != assign(items, seed=1).split


def test_a_conversation_is_never_torn_apart_and_follows_its_kept_part() -> None:
    items = [Item(f"i{i}", "fail" if i % 7 == 0 else "pass", f"talk {i // 4}") for i in range(200)]
    found = assign(items)
    for talk in range(50):
        assert len({found.split[f"i{i}"] for i in range(talk * 4, talk * 4 + 4)}) == 1
    later = assign([*items, Item("new", "fail", "talk 3")], found.split)
    assert later.split["new"] == found.split["i12"]


def test_a_split_with_too_few_of_a_class_is_named() -> None:
    items = [Item(f"i{i}", "fail" if i < 40 else "pass") for i in range(240)]
    found = assign(items)
    assert [(s.split, s.label, s.items) for s in found.short] == [("dev", "fail", 17), ("test", "fail", 17)]
    assert assign(items, least=10).short == ()


def test_mistakes_in_what_is_given_are_told() -> None:
    with pytest.raises(ValueError, match="'a' is listed 2 times"):
        assign([Item("a", "x"), Item("a", "y")])
    torn = {"a": "dev", "b": "test"}
    with pytest.raises(ValueError, match="lies in dev and test"):
        assign([Item("a", "x", "talk"), Item("b", "x", "talk")], torn)  # type: ignore[arg-type]


def test_hostile_names_are_hashed_like_any_other() -> None:
    names = ["", "\ud800", "\x00", "=1+1", "a" * 1_000_000, "0"]
    assert set(assign([Item(n, "x") for n in names]).split) == set(names)
    assert len(stratified(dict.fromkeys(names, "\ud800"), 3)) == 3
