"""All numbers of a comparison against the brute-force reference, on random labels with gaps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrate_plugin import agreement as ours
from calibrate_plugin.agreement.compare import Comparison, Measured, compare
from calibrate_plugin.agreement.estimate import Resampling, t_quantile
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.scales import parse

NO_INTERVAL = Resampling(method="none")
SCALES = (
    "binary:T/F",
    "nominal:a/b/c",
    "ordinal:low/mid/high/top",
    "rating:1..5",
    "rating:0..2:0.5",
    "rating:-1..1",
    "preference:A/B/tie",
    "nominal:a/b/c/d/e/f",
)


@st.composite
def labelled(draw: Any, most_items: int = 10) -> tuple[Scale, list[list[int | None]]]:
    """A scale, and each rater's level (or none) on each item: two to six raters, the last one being a judge."""
    scale = parse(f"D={draw(st.sampled_from(SCALES))}").scale
    raters = draw(st.integers(2, 6))
    level = st.none() | st.integers(0, (scale.levels or 1) - 1)
    few = st.none() | st.sampled_from(draw(st.lists(st.integers(0, (scale.levels or 1) - 1), min_size=1, max_size=2)))
    answers = st.lists(draw(st.sampled_from([level, few])), min_size=raters, max_size=raters)
    return scale, draw(st.lists(answers, max_size=most_items))


def compared(scale: Scale, levels: Sequence[Sequence[int | None]], resampling: Resampling = NO_INTERVAL) -> Comparison:
    rows = [(i, r, v, None) for i, item in enumerate(levels) for r, v in enumerate(item) if v is not None]
    schema = {"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64}
    raters = len(levels[0]) if levels else 2
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return compare(scale, frame, list(range(raters - 1)), [raters - 1], resampling)


def placed(scale: Scale, levels: Sequence[Sequence[int | None]]) -> list[list[Fraction | None]]:
    return [[None if v is None else scale.positions[v] for v in item] for item in levels]


def weight_of(scale: Scale) -> ref.Weight:
    if not scale.ordered:
        return ref.identity()
    return ref.linear(scale.positions[-1] - scale.positions[0])


def assert_same(found: Measure, value: Fraction | None, reason: str | None, pairs: Sequence[Any] | None = None) -> None:
    assert found.reason == reason
    if reason is None:
        assert value is not None
        assert found.value == pytest.approx(float(value), abs=1e-12)
    else:
        assert found.value is None
    if pairs is not None:
        assert (found.n_pairs, found.n_items) == (len(pairs), len({i for i, *_ in pairs}))


def assert_exact(found: Measure, value: Fraction | None, reason: str | None, pairs: Sequence[Any]) -> None:
    assert_same(found, value, reason, pairs)
    if reason is None:
        assert value is not None
        assert found.value == float(value)


@settings(max_examples=60)
@given(labelled())
def test_annotators_together(case: tuple[Scale, list[list[int | None]]]) -> None:
    scale, levels = case
    items = placed(scale, [item[:-1] for item in levels])
    w, categories = weight_of(scale), scale.positions
    comparison = compared(scale, levels)
    found = comparison.among_annotators()
    pairs = ref.within(items)
    why = ref.reason(pairs)
    defined = why is None
    assert_exact(found.agreement, ref.agreement(pairs, w), None if pairs else "nothing_to_compare", pairs)

    raters = len(levels[0]) - 1 if levels else 1
    counted = {r for r in range(raters) for item in items if item[r] is not None and len(ref.given(item)) > 1}
    assert set(comparison.counted()) == counted
    if len(counted) == 2:
        assert found.kappa.details["kind"] == "cohen"
        a, b = sorted(counted)
        sides = ref.across(items, a, [b])
        chance = ref.cohen_chance(sides, w) if sides else Fraction(0)
    else:
        assert found.kappa.details["kind"] == ("fleiss" if len(counted) > 2 else None)
        chance = ref.fleiss_chance(items, w) if pairs else Fraction(0)
    observed = ref.agreement(pairs, w)
    assert_exact(found.kappa, ref.corrected(observed, chance) if defined and observed is not None else None, why, pairs)
    if defined:
        assert found.kappa.details["chance"] == float(chance)

    for metric, measure in found.alphas.items():
        assert_same(measure, ref.alpha(items, metric, categories) if defined else None, why, pairs)
    steady = ref.reason(pairs, constant_is_defined=True)
    by_items = ref.by_items(items, w)
    gwet = (
        ref.corrected(by_items, ref.gwet_chance(items, categories, w))
        if steady is None and by_items is not None
        else None
    )
    assert_same(found.ac, gwet, steady, pairs)
    pabak = (
        ref.corrected(observed, ref.uniform_chance(categories, w)) if steady is None and observed is not None else None
    )
    assert_exact(found.pabak, pabak, steady, pairs)
    if scale.kind == "binary":
        for measure, level in ((found.positive, 0), (found.negative, 1)):
            value = ref.specific(pairs, categories[level])
            none = "nothing_to_compare" if not pairs else "same_answer"
            assert_exact(measure, value, None if value is not None else none, pairs)


@given(labelled())
def test_one_rater_beside_the_others(case: tuple[Scale, list[list[int | None]]]) -> None:
    scale, levels = case
    if not levels:
        return
    items, w = placed(scale, levels), weight_of(scale)
    comparison = compared(scale, levels)
    judge = len(levels[0]) - 1
    people = list(range(judge))
    for one in (judge, 0):
        found = comparison.beside(one, "one", "others")
        pairs = ref.across(items, one, [p for p in people if p != one])
        why = ref.reason(pairs)
        assert_exact(found.agreement, ref.agreement(pairs, w), None if pairs else "nothing_to_compare", pairs)
        observed = ref.agreement(pairs, w)
        kappa = ref.corrected(observed, ref.cohen_chance(pairs, w)) if why is None and observed is not None else None
        assert_exact(found.kappa, kappa, why, pairs)
        cells = Counter((scale.positions.index(a), scale.positions.index(b)) for _, a, b in pairs)
        assert {(i, j): n for i, row in enumerate(found.counts.table) for j, n in enumerate(row) if n} == cells
        if scale.kind not in ("binary", "rating"):
            assert found.score.reason in ("not_applicable", "no_labels")
            continue
        score = (lambda v: 1 - v) if scale.kind == "binary" else (lambda v: v)
        mine = [score(v) for item in items if (v := item[one]) is not None]
        assert_same(found.score, ref.mean(mine), None if mine else "no_labels")
        shared = [
            score(v) for i, item in enumerate(items) if (v := item[one]) is not None and any(j == i for j, *_ in pairs)
        ]
        assert_same(found.shared, ref.mean(shared), None if shared else "no_labels")
        assert_same(found.theirs, ref.mean([score(b) for _, _, b in pairs]), None if pairs else "no_labels")


@settings(max_examples=60)
@given(labelled())
def test_each_two_raters_and_all_of_them(case: tuple[Scale, list[list[int | None]]]) -> None:
    scale, levels = case
    if not levels:
        return
    items, w = placed(scale, levels), weight_of(scale)
    comparison = compared(scale, levels)
    raters = range(len(levels[0]))
    for a in raters:
        for b in raters:
            if a == b:
                continue
            pairs = ref.across(items, a, [b])
            pair = comparison.pair(a, b, "a", "b")
            assert (pair is None) == (not pairs)
            if pair is not None:
                why, observed = ref.reason(pairs), ref.agreement(pairs, w)
                assert observed is not None
                assert_exact(pair[0], observed, None, pairs)
                kappa = ref.corrected(observed, ref.cohen_chance(pairs, w)) if why is None else None
                assert_exact(pair[1], kappa, why, pairs)
    pairs = ref.within(items)
    why, observed = ref.reason(pairs), ref.agreement(pairs, w)
    fleiss, alpha = comparison.all_raters([len(levels[0]) - 1])
    kappa = ref.corrected(observed, ref.fleiss_chance(items, w)) if why is None and observed is not None else None
    assert_exact(fleiss, kappa, why, pairs)
    assert_same(alpha, ref.alpha(items, alpha.details["metric"], scale.positions) if why is None else None, why, pairs)


@given(labelled())
def test_scores_distributions_and_disagreements(case: tuple[Scale, list[list[int | None]]]) -> None:
    scale, levels = case
    if not levels:
        return
    items, w = placed(scale, levels), weight_of(scale)
    judge = len(levels[0]) - 1
    comparison = compared(scale, levels)
    for r in range(judge + 1):
        counts = Counter(item[r] for item in levels)
        assert comparison.distribution(r) == tuple(counts[k] for k in range(scale.levels or 0))
    human = [v for item in items for v in item[:judge] if v is not None]
    if scale.kind == "rating":
        assert_same(comparison.human_score(), ref.mean(human), None if human else "no_labels")
    among, judged, worst = comparison.differing([judge])
    for i in range(len(among)):
        people, machine = ref.given(items[i][:judge]), items[i][judge]
        apart = [w(a, b) for a in people for b in people]
        beside = [w(machine, p) for p in people] if machine is not None else []
        assert bool(among[i]) == (min(apart, default=Fraction(1)) < 1)
        assert bool(judged[i]) == (min(beside, default=Fraction(1)) < 1)
        assert worst[i] == pytest.approx(float(1 - min([*apart, *beside], default=Fraction(1))), abs=1e-12)
    pairs = ref.within([item[:judge] for item in items]) + ref.across(items, judge, list(range(judge)))
    assert comparison.differing_pairs([judge]) == sum(a != b for _, a, b in pairs)


@settings(max_examples=60)
@given(labelled())
def test_the_items_forms_by_the_functions(case: tuple[Scale, list[list[int | None]]]) -> None:
    scale, levels = case
    items, w, categories = placed(scale, levels), weight_of(scale), scale.positions
    rows = [(i, r, scale.names[v]) for i, item in enumerate(levels) for r, v in enumerate(item) if v is not None]
    table = pl.DataFrame(rows, schema={"item": pl.Int64, "rater": pl.Int64, "value": pl.String}, orient="row")
    pairs = ref.within(items)
    by_items = ref.by_items(items, w)
    assert_same(
        ours.percent_agreement(table, scale, form="items"), by_items, None if pairs else "nothing_to_compare", pairs
    )
    why = ref.reason(pairs)
    fleiss = ours.fleiss_kappa(table, scale, form="items")
    if why is None and by_items is not None:
        chance = ref.fleiss_items_chance(items, categories, w)
        assert_same(fleiss, ref.corrected(by_items, chance), None, pairs)
        assert fleiss.details["chance"] == pytest.approx(float(chance))
    else:
        assert fleiss.reason == why
    steady = ref.reason(pairs, constant_is_defined=True)
    uniform = (
        ref.corrected(by_items, ref.uniform_chance(categories, w)) if steady is None and by_items is not None else None
    )
    assert_same(ours.brennan_prediger(table, scale), uniform, steady, pairs)
    assert_same(ours.pabak(table, scale, form="items"), uniform, steady, pairs)


@settings(max_examples=60)
@given(labelled(), st.sampled_from(["identity", "linear", "quadratic", "matrix"]))
def test_other_weights_by_the_functions(case: tuple[Scale, list[list[int | None]]], name: str) -> None:
    scale, levels = case
    if not levels or (name in ("linear", "quadratic") and scale.kind in ("nominal", "preference")):
        return
    span = scale.positions[-1] - scale.positions[0]
    w = {"identity": ref.identity(), "linear": ref.linear(span), "quadratic": ref.quadratic(span)}.get(name)
    weights: Any = name
    if w is None:
        q = scale.levels or 0
        weights = [[0 if a == b else 1 + abs(a - b) + (a + b) % 2 for b in range(q)] for a in range(q)]
        worst = max(map(max, weights))
        matrix = weights

        def w(a: Fraction, b: Fraction) -> Fraction:
            return 1 - Fraction(matrix[scale.positions.index(a)][scale.positions.index(b)], worst)

    rows = [(i, r, scale.names[v]) for i, item in enumerate(levels) for r, v in enumerate(item) if v is not None]
    table = pl.DataFrame(rows, schema={"item": pl.Int64, "rater": pl.Int64, "value": pl.String}, orient="row")
    items = placed(scale, levels)
    pairs = ref.within(items)
    why, observed = ref.reason(pairs), ref.agreement(pairs, w)
    assert_exact(
        ours.percent_agreement(table, scale, weights=weights), observed, None if pairs else "nothing_to_compare", pairs
    )
    kappa = ref.corrected(observed, ref.fleiss_chance(items, w)) if why is None and observed is not None else None
    assert_exact(ours.fleiss_kappa(table, scale, weights=weights), kappa, why, pairs)
    if table.filter(pl.col("rater") == 0).is_empty():
        return
    beside = ref.across(items, 0, range(1, len(levels[0])))
    why, observed = ref.reason(beside), ref.agreement(beside, w)
    cohen = ref.corrected(observed, ref.cohen_chance(beside, w)) if why is None and observed is not None else None
    assert_exact(ours.pooled_kappa(table, scale, 0, weights=weights), cohen, why, beside)


# leaving out one item at a time


def assert_jackknife(found: Measure, left: list[float], n: int, value: float) -> None:
    half = t_quantile(0.975, n - 1) * ref.spread(left, n)
    assert found.interval is not None
    assert found.interval.method == "item-jackknife"
    assert (found.interval.resamples, found.interval.discarded) == (n, n - len(left))
    assert found.interval.low == pytest.approx(value - half, abs=1e-9)
    top = value + half if "n_labels" in found.details else min(value + half, 1.0)
    assert found.interval.high == pytest.approx(top, abs=1e-9)


@pytest.mark.parametrize("spec", ["binary:T/F", "rating:1..5", "ordinal:low/mid/high/top"])
@pytest.mark.parametrize("seed", range(3))
def test_a_jackknife_leaves_out_each_item(spec: str, seed: int) -> None:
    scale = parse(f"D={spec}").scale
    chance = random.Random(seed)
    answer = [None, *range(scale.levels or 1)] if seed else [None, 0, 0, 0, 0, 0, 1]
    levels = [[chance.choice(answer) for _ in range(4)] for _ in range(16)]
    items, w = placed(scale, [item[:-1] for item in levels]), weight_of(scale)
    paired = [item for item in items if len(ref.given(item)) > 1]
    found = compared(scale, levels, Resampling(method="item-jackknife")).among_annotators()
    assert found.kappa.details["kind"] == "fleiss"

    def agreement(part: ref.Items) -> Fraction | None:
        return ref.agreement(ref.within(part), w)

    def kappa(part: ref.Items) -> Fraction | None:
        observed = agreement(part)
        return ref.or_none(lambda: ref.corrected(observed, ref.fleiss_chance(part, w)))  # type: ignore[arg-type]

    assert found.agreement.value is not None and found.kappa.value is not None
    assert_jackknife(found.agreement, *ref.jackknife(paired, agreement), found.agreement.value)
    assert_jackknife(found.kappa, *ref.jackknife(paired, kappa), found.kappa.value)
    for metric, measure in found.alphas.items():
        left = ref.jackknife(paired, lambda part, m=metric: ref.alpha(part, m, scale.positions))  # type: ignore[misc]
        assert measure.value is not None
        assert_jackknife(measure, *left, measure.value)


# ratings without a step

STEPLESS = parse("D=rating:-1..3:any").scale
NUMBER = st.none() | st.sampled_from([-1.0, 0.0, 0.1, 0.3, 2.999, 3.0]) | st.floats(-1, 3).map(lambda x: round(x, 6))


@st.composite
def measured(draw: Any) -> list[list[float | None]]:
    raters = draw(st.integers(2, 5))
    return draw(st.lists(st.lists(NUMBER, min_size=raters, max_size=raters), max_size=10))  # type: ignore[no-any-return]


def compared_numbers(values: Sequence[Sequence[float | None]], resampling: Resampling = NO_INTERVAL) -> Comparison:
    rows = [(i, r, 0, v) for i, item in enumerate(values) for r, v in enumerate(item) if v is not None]
    schema = {"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32, "number": pl.Float64}
    raters = len(values[0]) if values else 2
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    found = compare(STEPLESS, frame, list(range(raters - 1)), [raters - 1], resampling)
    assert isinstance(found, Measured)
    return found


def fractions(values: Sequence[Sequence[float | None]]) -> list[list[Fraction | None]]:
    return [[None if v is None else Fraction(v) for v in item] for item in values]


def assert_near(found: Measure, value: Fraction | None, reason: str | None, pairs: Sequence[Any]) -> None:
    assert found.reason == reason
    assert (found.n_pairs, found.n_items) == (len(pairs), len({i for i, *_ in pairs}))
    if reason is None:
        assert value is not None and found.value == pytest.approx(float(value), abs=1e-7, rel=1e-7)


@given(measured())
def test_ratings_without_a_step(values: list[list[float | None]]) -> None:
    items, w = fractions(values), ref.linear(Fraction(4))
    judge = len(values[0]) - 1 if values else 1
    people = [item[:judge] for item in items]
    comparison = compared_numbers(values)
    found = comparison.among_annotators()
    pairs = ref.within(people)
    why, observed = ref.reason(pairs), ref.agreement(pairs, w)
    assert_near(found.agreement, observed, None if pairs else "nothing_to_compare", pairs)
    counted = comparison.counted()
    if why is None and observed is not None:
        cohen = len(counted) == 2
        chance = (
            ref.cohen_chance(ref.across(people, counted[0], [counted[1]]), w) if cohen else ref.fleiss_chance(people, w)
        )
        assert found.kappa.details["kind"] == ("cohen" if cohen else "fleiss")
        if 1 - chance > Fraction(1, 1000):
            assert_near(found.kappa, ref.corrected(observed, chance), None, pairs)
            assert found.kappa.details["chance"] == pytest.approx(float(chance))
            listed = [v for item in people if len(ref.given(item)) > 1 for v in ref.given(item)]
            if max(listed) - min(listed) > Fraction(1, 1000):
                assert_near(found.alpha, ref.alpha(people, "interval", []), None, pairs)
    else:
        assert found.kappa.reason == found.alpha.reason == why
    human = [v for item in people for v in ref.given(item)]
    assert_same(comparison.human_score(), ref.mean(human), None if human else "no_labels")
    if not values:
        return
    among, judged, worst = comparison.differing([judge])
    for i in range(len(among)):
        apart = [1 - w(a, b) for _, a, b in ref.within([people[i]])]
        beside = [1 - w(a, b) for _, a, b in ref.across([items[i]], judge, range(judge))]
        assert (bool(among[i]), bool(judged[i])) == (any(apart), any(beside))
        assert worst[i] == pytest.approx(float(max([*apart, *beside], default=Fraction(0))))
    everyone = pairs + ref.across(items, judge, range(judge))
    assert comparison.differing_pairs([judge]) == sum(a != b for _, a, b in everyone)
    beside_ = comparison.beside(judge, "j", "others")
    across = ref.across(items, judge, range(judge))
    assert_near(beside_.agreement, ref.agreement(across, w), None if across else "nothing_to_compare", across)
    assert sum(map(sum, beside_.counts.table)) == len(across)


@pytest.mark.parametrize("seed", range(4))
def test_the_jackknife_of_ratings_without_a_step(seed: int) -> None:
    chance = random.Random(seed)
    few = [None, -1.0, 0.0, 0.25, 3.0]
    values = [[chance.choice([*few, chance.uniform(-1, 3)]) for _ in range(4)] for _ in range(18)]
    items, w, judge = fractions(values), ref.linear(Fraction(4)), 3
    comparison = compared_numbers(values, Resampling())

    beside = [item for item in items if ref.across([item], judge, range(judge))]
    found = comparison.beside(judge, "j", "others")

    def agreement(part: ref.Items) -> Fraction | None:
        return ref.agreement(ref.across(part, judge, range(judge)), w)

    def kappa(part: ref.Items) -> Fraction | None:
        pairs = ref.across(part, judge, range(judge))
        return ref.or_none(lambda: ref.corrected(agreement(part), ref.cohen_chance(pairs, w)))  # type: ignore[arg-type]

    assert found.agreement.value is not None and found.kappa.value is not None
    assert_jackknife(found.agreement, *ref.jackknife(beside, agreement), found.agreement.value)
    assert_jackknife(found.kappa, *ref.jackknife(beside, kappa), found.kappa.value)

    everyone = [item for item in items if len(ref.given(item)) > 1]
    fleiss, alpha = comparison.all_raters([judge])

    def fleiss_of(part: ref.Items) -> Fraction | None:
        observed = ref.agreement(ref.within(part), w)
        return ref.or_none(lambda: ref.corrected(observed, ref.fleiss_chance(part, w)))  # type: ignore[arg-type]

    assert fleiss.value is not None and alpha.value is not None
    assert_jackknife(fleiss, *ref.jackknife(everyone, fleiss_of), fleiss.value)
    assert_jackknife(alpha, *ref.jackknife(everyone, lambda part: ref.alpha(part, "interval", [])), alpha.value)

    human = [item[:judge] for item in items if ref.given(item[:judge])]
    score = comparison.human_score()
    left = ref.jackknife(human, lambda part: ref.mean([v for item in part for v in ref.given(item)]))
    assert score.value is not None
    assert_jackknife(score, *left, score.value)


def test_the_order_of_items_never_shows_in_the_last_bit() -> None:
    chance = np.random.default_rng(3)
    values = chance.uniform(-1, 3, size=(60, 3)).tolist()
    order = chance.permutation(60)
    one, other = (compared_numbers(v, Resampling()) for v in (values, [values[i] for i in order]))
    assert one.among_annotators() == other.among_annotators()
    assert one.beside(2, "j", "h").kappa == other.beside(2, "j", "h").kappa
    assert one.human_score() == other.human_score()
