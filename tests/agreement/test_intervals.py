"""Intervals: seeded, over items, honest about what was left out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from calibrate_plugin import agreement as ours
from calibrate_plugin.agreement import Resampling, estimate
from calibrate_plugin.agreement.compare import compare
from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, MOST_PATTERNS, intervals, replicates, t_quantile
from calibrate_plugin.agreement.statistics import Agreement, Alpha, Cohen, Fleiss, Mean, Pabak
from calibrate_plugin.agreement.weights import weights_of
from calibrate_plugin.model import Interval, Measure
from calibrate_plugin.ratings.counting import Patterns, canonical, of_pair
from calibrate_plugin.scales import parse

BINARY = "binary:T/F"
PLAIN = Resampling(seed=1, method="percentile")


def kappa(table: Any, resampling: Resampling, scale: str = BINARY) -> Measure:
    return ours.cohen_kappa(table, scale, resampling=resampling)


def interval(measure: Measure) -> Interval:
    assert measure.interval is not None
    return measure.interval


def answered(n: int, raters: int, levels: int, seed: int, gaps: float = 0.2, noise: int = 2) -> pl.DataFrame:
    """Labels whose raters mostly agree with a latent level of the item."""
    chance = np.random.default_rng(seed)
    latent = chance.integers(0, levels, size=(n, 1))
    near = np.clip(latent + chance.integers(-noise, noise + 1, size=(n, raters)), 0, levels - 1)
    level = np.where(chance.random((n, raters)) < 0.6, latent, near)
    item, rater = np.nonzero(chance.random((n, raters)) >= gaps)
    return pl.DataFrame(
        {"item": item, "rater": rater, "level": level[item, rater], "number": level[item, rater]},
        schema={"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64},
    )


# the same again


def test_the_same_input_and_seed_give_the_same_interval_and_another_seed_another() -> None:
    table = [[30, 5], [4, 11]]
    one, again, other = (kappa(table, Resampling(seed=s)) for s in (3, 3, 4))
    assert one == again
    assert one.value == other.value
    assert one.interval != other.interval


def test_different_numbers_do_not_share_their_draws_by_accident() -> None:
    table = [[30, 5], [4, 11]]
    assert kappa(table, Resampling().about("a")).interval != kappa(table, Resampling().about("b")).interval


def test_the_order_of_rows_never_shows() -> None:
    rows = answered(60, 4, 5, seed=2)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=5)
    for scale in ("rating:1..5", "rating:0..4:any"):
        one, other = (
            compare(parse(f"D={scale}").scale, r, [0, 1, 2], [3], Resampling(resamples=500)) for r in (rows, shuffled)
        )
        assert one.among_annotators() == other.among_annotators()
        assert one.beside(3, "j", "h") == other.beside(3, "j", "h")
        assert one.pair(0, 1, "a", "b") == other.pair(0, 1, "a", "b")


def test_no_global_random_state_is_read_or_moved() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    kappa([[30, 5], [4, 11]], Resampling())
    assert (random.random(), np.random.random()) == before


# too little


def test_under_ten_items_there_is_a_value_and_no_interval() -> None:
    nine, ten = kappa([[5, 1], [1, 2]], Resampling()), kappa([[6, 1], [1, 2]], Resampling())
    assert (nine.value is not None, nine.interval, nine.interval_reason) == (True, None, "too_few_items")
    assert (ten.interval is not None, ten.interval_reason) == (True, None)


@pytest.mark.parametrize("scale", ["binary:T/F", "rating:0..1:any"])
def test_items_that_nobody_else_answered_do_not_help_an_interval(scale: str) -> None:
    # 9 items with two answers, 40 with one: the number stands on 9.
    values = {"binary:T/F": ["T", "F"], "rating:0..1:any": [0.25, 0.75]}[scale]
    item = [*range(9), *range(9), *range(100, 140)]
    rater = ["a"] * 9 + ["b"] * 9 + ["a"] * 40
    table = {
        "item": item,
        "rater": rater,
        "value": [values[i % 2] for i in range(8)] + [values[i % 3 == 0] for i in range(50)],
    }
    functions = [ours.percent_agreement, ours.fleiss_kappa, ours.krippendorff_alpha]
    functions += [ours.gwet_ac, ours.brennan_prediger] if scale == "binary:T/F" else []
    for function in functions:
        found = function(table, scale, resampling=Resampling())  # type: ignore[operator]
        assert (found.value is not None, found.n_items, found.interval_reason) == (True, 9, "too_few_items")


def test_an_undefined_number_has_no_interval_and_no_reason_for_it() -> None:
    found = kappa([[50, 0], [0, 0]], Resampling())
    assert (found.value, found.reason, found.interval, found.interval_reason) == (None, "same_answer", None, None)


def test_resamples_without_a_value_are_left_out_and_counted() -> None:
    # facts/practice.md 2.1: a 45/2/2/1 table of 50 lost 53 of 10,000: (45 / 50) ** 50.
    found = interval(kappa([[45, 2], [2, 1]], replace(PLAIN, resamples=10_000)))
    assert found.resamples == 10_000
    assert 25 < found.discarded < 85


@dataclass(frozen=True)
class Fickle:
    """A number that most resamples leave undefined."""

    def enters(self, patterns: Patterns) -> Any:
        return patterns.size > 0

    def features(self, patterns: Patterns, sizes: Any) -> Any:
        return np.column_stack([patterns.answers[:, 0], patterns.size])

    def ratio(self, sums: Any, sizes: Any) -> tuple[Any, Any]:
        return sums[..., 0], np.where(np.asarray(sums[..., 0]) % 3 == 0, 1, 0)


@pytest.mark.parametrize("method", ["item-bootstrap+3", "percentile", "bca", "item-jackknife"])
def test_where_most_resamples_are_undefined_there_is_no_interval(method: Any) -> None:
    patterns = of_pair(np.array([[9, 2], [1, 9]]))
    found = intervals(patterns, {"": Fickle()}, {"": 1.0}, Resampling(method=method))
    assert found[""] == (None, "too_many_undefined")


# what is drawn


def naive(first: Any, second: Any, draws: int, q: int, seed: int) -> Any:
    """Cohen's kappa of plain resamples of items."""
    chance = np.random.default_rng(seed)
    n = len(first)
    out = np.empty(draws)
    for i in range(draws):
        at = chance.integers(0, n, n)
        table = np.bincount(first[at] * q + second[at], minlength=q * q).reshape(q, q) / n
        expected = (table.sum(axis=1) * table.sum(axis=0)).sum()
        out[i] = (np.trace(table) - expected) / (1 - expected)
    return out


@pytest.mark.parametrize(("n", "q"), [(30, 2), (200, 3), (40, 6)])
def test_a_bootstrap_over_patterns_is_the_bootstrap_over_items(n: int, q: int) -> None:
    # 40 items on 6 levels show about as many patterns as items, which is drawn another way than many items of few patterns.
    chance = np.random.default_rng(n)
    first = chance.integers(0, q, n)
    second = np.where(chance.random(n) < 0.7, first, chance.integers(0, q, n))
    table = np.zeros((q, q), dtype=np.int64)
    np.add.at(table, (first, second), 1)
    weights = weights_of(parse("D=nominal:" + "/".join("abcdef"[:q])).scale)
    drawn = replicates(of_pair(table), {"": Cohen(weights)}, replace(PLAIN, resamples=4000))[""]
    assert stats.ks_2samp(drawn[np.isfinite(drawn)], naive(first, second, 4000, q, seed=7)).pvalue > 0.01


def test_a_bootstrap_of_several_answers_an_item_is_the_bootstrap_over_items() -> None:
    rows = answered(50, 4, 3, seed=3)
    counts = np.zeros((50, 3), dtype=np.int64)
    np.add.at(counts, (rows["item"].to_numpy(), rows["level"].to_numpy()), 1)
    counts = counts[counts.sum(axis=1) > 1]
    patterns = canonical(counts, np.ones(len(counts), dtype=np.int64))
    statistics = {
        "agreement": Agreement(weights_of(parse("D=ordinal:a/b/c").scale)),
        "alpha": Alpha("nominal", np.arange(3)),
    }
    drawn = replicates(patterns, statistics, replace(PLAIN, resamples=1500))
    chance = np.random.default_rng(11)
    plain: dict[str, list[float]] = {"agreement": [], "alpha": []}
    for _ in range(1500):
        at = chance.integers(0, len(counts), len(counts))
        sample = canonical(counts[at], np.ones(len(counts), dtype=np.int64))
        for name, statistic in statistics.items():
            plain[name].append(estimate.point(sample, statistic))
    for name in statistics:
        assert stats.ks_2samp(drawn[name], plain[name]).pvalue > 0.01


def test_numbers_over_the_same_items_share_their_draws() -> None:
    # For two levels PABAK is 2 p - 1, replicate by replicate.
    weights = weights_of(parse("D=binary:T/F").scale)
    drawn = replicates(
        of_pair(np.array([[30, 5], [4, 11]])), {"p": Agreement(weights), "k": Pabak(weights)}, Resampling()
    )
    assert drawn["k"] == pytest.approx(2 * drawn["p"] - 1, abs=1e-12)


def test_pseudo_items_are_half_agreement_and_half_chance() -> None:
    # 200 items without a single disagreement: what differs comes from the three pseudo-items alone.
    table = np.array([[100, 0], [0, 100]])
    drawn = replicates(
        of_pair(table), {"": Agreement(weights_of(parse("D=binary:T/F").scale))}, Resampling(resamples=40_000)
    )[""]
    # Three draws' worth, of which half are chance pairs, of which half differ.
    assert (1 - drawn.mean()) * 203 == pytest.approx(0.75, abs=0.03)


def test_a_perfect_sample_is_not_a_certainty() -> None:
    perfect = [[12, 0], [0, 8]]
    assert (interval(kappa(perfect, PLAIN)).low, interval(kappa(perfect, PLAIN)).high) == (1.0, 1.0)
    found = interval(kappa(perfect, Resampling()))
    assert found.low < 0.9 < found.high


def test_percentiles_are_widened_by_the_t_quantile() -> None:
    patterns = of_pair(np.array([[8, 2], [2, 8]]))
    statistic = Cohen(weights_of(parse("D=binary:T/F").scale))
    drawn = replicates(patterns, {"": statistic}, Resampling())[""]
    n, z = 20, t_quantile(0.975, 19) * (20 / 19) ** 0.5
    low, high = np.quantile(drawn, [stats.norm.cdf(-z), stats.norm.cdf(z)])
    assert n * 0 + z == pytest.approx(stats.t.ppf(0.975, 19) * np.sqrt(20 / 19))
    found = interval(kappa([[8, 2], [2, 8]], Resampling()))
    assert (found.low, found.high, found.method) == (low, high, "item-bootstrap+3")


def coverage(method: Any, samples: int = 250) -> float:
    """How often an interval holds the true kappa of .6: two raters, half of 20 items pass."""
    chance = np.random.default_rng(20)
    held = 0
    for _ in range(samples):
        table = chance.multinomial(20, [0.4, 0.1, 0.1, 0.4]).reshape(2, 2)
        found = kappa(table, Resampling(resamples=400, method=method))
        held += found.interval is not None and found.interval.low <= 0.6 <= found.interval.high
    return held / samples


def test_twenty_items_are_covered_as_promised() -> None:
    # facts/statistics.md 3: .970 on average at n = 20, and .816 for plain percentiles.
    assert coverage("item-bootstrap+3") >= 0.94
    assert coverage("percentile") < 0.94


def test_bca_is_that_of_scipy() -> None:
    table = np.array([[24, 6], [3, 17]])
    rows, columns = np.indices((2, 2)).reshape(2, -1)
    first, second = (np.repeat(side, table.reshape(-1)) for side in (rows, columns))

    def statistic(a: Any, b: Any) -> float:
        cells = np.bincount(a * 2 + b, minlength=4).reshape(2, 2) / len(a)
        expected = (cells.sum(axis=1) * cells.sum(axis=0)).sum()
        return float((np.trace(cells) - expected) / (1 - expected))

    theirs = stats.bootstrap(
        (first, second), statistic, paired=True, vectorized=False, n_resamples=4000, method="BCa",
        rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    found = interval(kappa(table, Resampling(seed=1, resamples=20_000, method="bca")))
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)
    assert interval(kappa([[12, 0], [0, 8]], Resampling(method="bca"))).low == 1.0  # nothing to correct by


# scores


def human_score(levels: Mapping[int, list[int]], scale: str = BINARY, **resampling: Any) -> Measure:
    rows = [(i, r, v, float(v)) for r, given in levels.items() for i, v in enumerate(given)]
    schema = {"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return compare(parse(f"D={scale}").scale, frame, sorted(levels), [], Resampling(**resampling)).human_score()


def test_a_share_of_items_with_one_label_each_has_wilsons_interval() -> None:
    # 45 of 50 pass: .786 (facts/practice.md 3.6).
    found = human_score({0: [0] * 45 + [1] * 5})
    assert found.value == 0.9
    assert interval(found) == ours.wilson(45, 50)
    assert round(interval(found).low, 3) == 0.786
    assert interval(human_score({0: [0] * 45 + [1] * 5}, level=0.9)) == ours.wilson(45, 50, level=0.9)


def test_a_share_of_items_with_several_labels_is_resampled_by_items() -> None:
    found = human_score({0: [0] * 45 + [1] * 5, 1: [0] * 45 + [1] * 5})
    assert found.value == 0.9
    assert interval(found).method == "item-bootstrap+3"
    # Two labels that always agree tell no more than one.
    single = ours.wilson(45, 50)
    assert interval(found).high - interval(found).low > 0.8 * (single.high - single.low)


def test_a_score_of_few_items_has_no_interval() -> None:
    assert human_score({0: [0] * 9}).interval_reason == "too_few_items"
    assert human_score({0: [0] * 5, 1: [1] * 5}).interval_reason == "too_few_items"
    assert human_score({0: [0] * 50}, method="none").interval_reason == "not_asked"


def test_a_mean_rating_is_resampled_too() -> None:
    found = human_score({0: [0, 1, 2, 3, 4] * 10}, "rating:1..5")
    assert found.value == 3.0
    half = (interval(found).high - interval(found).low) / 2
    assert half == pytest.approx(t_quantile(0.975, 49) * 2**0.5 / 49**0.5, rel=0.1)


def test_a_mean_of_many_patterns_has_few_that_it_tells_apart() -> None:
    rows = answered(6000, 5, 6, seed=1, gaps=0.0)
    patterns = compare(parse("D=rating:1..6").scale, rows, range(5), [], Resampling()).table.annotated()  # type: ignore[attr-defined]
    mean = Mean(np.arange(1, 7), 1)
    found, _ = intervals(patterns, {"": mean}, {"": 0.0}, Resampling(most_patterns=60))[""]
    assert len(patterns) > 60
    assert found is not None and found.method == "item-bootstrap+3"


# where a bootstrap would cost too much


def test_above_so_many_patterns_a_jackknife_serves_and_is_close_to_the_bootstrap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = answered(4000, 5, 60, seed=4, noise=60)
    comparison = compare(parse("D=rating:1..60").scale, rows, range(5), [], Resampling())
    patterns = comparison.table.annotated()  # type: ignore[attr-defined]
    assert len(patterns) > MOST_PATTERNS
    weights = weights_of(parse("D=rating:1..60").scale)
    statistics = {
        "agreement": Agreement(weights),
        "kappa": Fleiss(weights),
        "alpha": Alpha("interval", np.arange(1, 61)),
    }
    values = {name: estimate.point(patterns.where(s.enters(patterns)), s) for name, s in statistics.items()}
    entering = patterns.where(patterns.size > 1)
    quick = intervals(entering, statistics, values, Resampling())
    monkeypatch.setattr(estimate, "MOST_FEATURES", 10**9)
    slow = intervals(entering, statistics, values, Resampling(resamples=1500, most_patterns=10**9))
    for name in statistics:
        one, other = quick[name][0], slow[name][0]
        assert one is not None and other is not None
        assert (one.method, other.method) == ("item-jackknife", "item-bootstrap+3")
        width = other.high - other.low
        assert abs(one.low - other.low) < 0.15 * width
        assert abs(one.high - other.high) < 0.15 * width


def test_a_hundred_and_one_levels_and_fifty_raters() -> None:
    rows = answered(120, 50, 101, seed=6, gaps=0.93)
    found = compare(parse("D=rating:0..100").scale, rows, range(49), [49], Resampling())
    together = found.among_annotators()
    by_item = [
        group["number"].to_numpy()
        for _, group in rows.filter(pl.col("rater") < 49).group_by("item", maintain_order=True)
    ]
    apart = np.concatenate([np.abs(v[:, None] - v[None, :])[np.triu_indices(len(v), 1)] for v in by_item]) / 100
    listed = np.concatenate([v for v in by_item if len(v) > 1])
    chance = 1 - np.abs(listed[:, None] - listed[None, :]).mean() / 100
    assert together.agreement.value == pytest.approx(1 - apart.mean())
    assert together.kappa.value == pytest.approx((1 - apart.mean() - chance) / (1 - chance))
    for measure in (together.agreement, together.kappa, *together.alphas.values(), together.ac, together.pabak):
        assert measure.interval is not None and measure.value is not None
        assert measure.interval.low < measure.value < measure.interval.high
    # What is told of single ones among so many is resampled less, and says so.
    assert all(found.beside(a, str(a), "h").kappa.reason is None for a in range(3))
    pair = next(
        p for a in range(49) for b in range(a) if (p := found.pair(a, b, "a", "b")) and p[0].n_items >= FEWEST_ITEMS - 9
    )
    assert pair[0].value is not None


def test_sums_that_would_not_fit_a_machine_word_stay_exact() -> None:
    table = np.array([[3, 1], [1, 4]]) * 10**15
    assert ours.cohen_kappa(table, BINARY).value == ours.cohen_kappa([[3, 1], [1, 4]], BINARY).value
    wide = parse("D=rating:0..1000000000000:250000000000").scale
    counts = np.diag([5, 0, 3, 1, 2]) + 1
    assert ours.cohen_kappa(counts * 10**9, wide).value == ours.cohen_kappa(counts, "rating:1..5").value
    quadratic = ours.cohen_kappa(counts * 10**9, wide, weights="quadratic").value
    assert quadratic == pytest.approx(ours.cohen_kappa(counts, "rating:1..5", weights="quadratic").value, abs=1e-12)
