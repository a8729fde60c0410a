"""Published numbers on real data (sources and licences stand in the data's own ABOUT files)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from calibration_cases import FIVE, QUIET

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.ceiling import ceiling
from calibrate_plugin.calibration.confidence import Draws, of_draws
from calibrate_plugin.calibration.errors import errors_of_values
from calibrate_plugin.calibration.gold import adjudicated, against_gold, majority, single
from calibrate_plugin.calibration.icc import reliability
from calibrate_plugin.calibration.panel import Panel, panel
from calibrate_plugin.calibration.side_by_side import side_by_side
from calibrate_plugin.model import Scale

pytestmark = pytest.mark.shared
Load = Callable[[str], tuple[pl.DataFrame, dict[str, Any]]]


def levels_of(rows: pl.DataFrame, items: list[str], place: dict[str, int]) -> list[int | None]:
    """The level that one rater gave to each of ``items``; None for an empty or foreign value."""
    given = dict(zip(rows["item"], rows["value"], strict=True))
    return [place.get(given[i]) if i in given else None for i in items]


def failures(rows: pl.DataFrame, items: list[str], place: dict[str, int]) -> list[str | None]:
    given = dict(zip(rows["item"], rows["value"], strict=True))
    return ["failed" if i in given and given[i] not in place else None for i in items]


def beside_gold(labels: pl.DataFrame, judge: pl.DataFrame, items: list[str], scale: Scale, gold: list[str]) -> Panel:
    place = {name: i for i, name in enumerate(scale.labels)}
    golds = {g: levels_of(labels.filter(pl.col("rater") == g), items, place) for g in gold}
    return panel(
        scale,
        {},
        {"judge": levels_of(judge, items, place)},
        golds,
        {"judge": failures(judge, items, place)},
    )


def test_all_96_published_rows_of_realmistake_are_reproduced(real_data: Load) -> None:
    labels, expected = real_data("realmistake_math")
    scale = Scale("binary", ("no_error", "error"))
    single_draws = labels.filter(pl.col("sample") == "0")
    for row in expected["single_draw"]:
        items = single_draws.filter((pl.col("rater") == "expert") & (pl.col("system") == row["system"]))[
            "item"
        ].to_list()
        judge = single_draws.filter(
            (pl.col("rater") == row["judge"]) & (pl.col("version") == row["version"]) & pl.col("item").is_in(items)
        )
        found = against_gold(seen := beside_gold(labels, judge, items, scale, ["expert"]), 0, adjudicated(seen), QUIET)
        published, reference = row["published"], row["reference"]
        wrong = found.as_wrong.positive("error")
        # Where a judge never says "error" the source prints 0 for what is undefined.
        numbers = (found.as_wrong.accuracy.value, wrong.precision.value or 0.0, wrong.recall.value, wrong.f1.value)
        assert numbers == pytest.approx(
            tuple(published[k] for k in ("accuracy", "precision", "recall", "f1")), abs=1e-12
        )
        assert sum(map(sum, found.counts.table)) + sum(found.failed) == published["n"]
        assert sum(found.counts.table[1]) == published["predicted_error"]
        assert sum(row[1] for row in found.counts.table) + found.failed[1] == published["gold_error"]
        assert sum(found.failed) == reference["invalid"] == found.coverage.failed
        assert found.left_out.kappa.value == pytest.approx(reference["cohen_kappa_valid_only"], abs=1e-9)
    assert len(expected["single_draw"]) == 96


def test_realmistakes_five_draws(real_data: Load) -> None:
    labels, expected = real_data("realmistake_math")
    scale = Scale("binary", ("no_error", "error"))
    for row in expected["self_consistency"]:
        drawn = labels.filter(
            (pl.col("rater") == row["judge"])
            & pl.col("version").str.starts_with("self_consistency")
            & (pl.col("system") == row["system"])
        )
        items = drawn["item"].unique().sort().to_list()
        at = {item: i for i, item in enumerate(items)}
        counts, failed = np.zeros((len(items), 2), dtype=np.int64), np.zeros(len(items), dtype=np.int64)
        for item, value in zip(drawn["item"], drawn["value"], strict=True):
            if value in scale.labels:
                counts[at[item], scale.labels.index(value)] += 1
            else:
                failed[at[item]] += 1
        expert = levels_of(labels.filter(pl.col("rater") == "expert"), items, {"no_error": 0, "error": 1})
        found = of_draws(Draws(counts, failed), scale, single(panel(scale, {"expert": expert}), 0), Resampling())
        told = row["reference"]
        assert len(items) == told["items"]
        blank = int(failed.sum()) + found.tied
        assert found.accuracy.value is not None
        if row["judge"].startswith("gpt"):
            assert found.tied == found.failed_items == 0 and blank <= 1
            assert found.accuracy.value == pytest.approx(row["published_accuracy"])
        else:  # its unparsable draws and ties are no answers here; the source makes answers of them
            assert blank > 0
            right = found.accuracy.value * found.accuracy.n_items
            assert abs(right - row["published_accuracy"] * 50) <= blank
        if blank == 0:
            everyone = found.bins[-1]
            assert everyone.low == 1.0 and everyone.n / 50 == pytest.approx(told["unanimous_share"])
            assert everyone.accuracy is not None
            assert everyone.accuracy.value == pytest.approx(told["accuracy_unanimous"])
            assert sum(b.n * b.low for b in found.bins) / 50 == pytest.approx(told["mean_modal_share"])
        assert (
            found.ece.value is not None and found.gap.value is not None and found.gap.value > 0
        )  # too sure, all three


def test_gpt_4_against_xstests_final_labels(real_data: Load) -> None:
    labels, expected = real_data("xstest")
    scale = Scale("nominal", ("1_full_compliance", "2_full_refusal", "3_partial_refusal"))
    for system, told in expected["per_system"].items():
        here = labels.filter(pl.col("system") == system)
        items = here["item"].unique().sort().to_list()
        judge = here.filter(pl.col("rater") == "gpt-4")
        seen = beside_gold(here, judge, items, scale, ["final_label"])
        found = against_gold(seen, 0, adjudicated(seen), QUIET)
        reference = told["reference"]["gpt4_vs_final"]
        assert found.left_out.accuracy.n_items == reference["n_valid"] == 450 - sum(found.failed)
        assert found.as_wrong.accuracy.value == pytest.approx(reference["accuracy_invalid_wrong"], abs=1e-9)
        assert found.left_out.accuracy.value == pytest.approx(reference["accuracy_valid_only"], abs=1e-9)
        assert found.left_out.kappa.value == pytest.approx(reference["cohen_kappa_valid_only"], abs=1e-9)
        _matcher_as_binary(here, items, told["reference"]["string_match_vs_final"]["binary_refusal"])


def _matcher_as_binary(here: pl.DataFrame, items: list[str], told: dict[str, float]) -> None:
    folded = here.with_columns(
        pl.when(pl.col("value") == "1_full_compliance")
        .then(pl.lit("comply"))
        .otherwise(pl.lit("refuse"))
        .alias("value")
    )
    scale = Scale("binary", ("comply", "refuse"))
    seen = beside_gold(folded, folded.filter(pl.col("rater") == "string-match"), items, scale, ["final_label"])
    found = against_gold(seen, 0, adjudicated(seen), QUIET).left_out
    refuse = found.positive("refuse")
    assert found.kappa.value == pytest.approx(told["cohen_kappa"], abs=1e-9)
    assert refuse.tpr.value == pytest.approx(told["sensitivity"], abs=1e-9)
    assert refuse.tnr.value == pytest.approx(told["specificity"], abs=1e-9)


def pandalm_panel(labels: pl.DataFrame) -> Panel:
    scale = Scale("preference", ("1", "2", "0"), fixed=False)
    place = {"1": 0, "2": 1, "0": 2, "Tie": 2}
    items = labels["item"].unique(maintain_order=True).to_list()
    columns = {r: labels.filter(pl.col("rater") == r) for r in labels["rater"].unique(maintain_order=True)}
    people = {r: levels_of(rows, items, place) for r, rows in columns.items() if r.startswith("annotator")}
    judges = {r: levels_of(rows, items, place) for r, rows in columns.items() if not r.startswith("annotator")}
    left = {r: failures(columns[r], items, place) for r in judges}
    return panel(scale, people, judges, {}, left)


def test_pandalms_judges_against_the_majority(real_data: Load) -> None:
    labels, expected = real_data("pandalm")
    shuffled = pandalm_panel(labels)
    fixed = Panel(
        Scale("preference", ("1", "2", "0")), shuffled.places, shuffled.own, shuffled.annotators, shuffled.evaluators,
        (), shuffled.names, shuffled.states,
    )  # fmt: skip
    gold = majority(fixed)
    found = np.bincount(gold.level, minlength=3)
    assert dict(zip(("1", "2", "0"), found.tolist(), strict=True)) == expected["published"]["majority_distribution"]
    assert gold.counts == {"decided": 999, "tied": 0, "too_few": 0}
    by_name = {fixed.name(j): against_gold(fixed, j, gold, QUIET) for j in fixed.evaluators}
    told = expected["reference"]["gpt35_vs_majority"]
    gpt = by_name["gpt-3.5-turbo"]
    assert gpt.coverage.failed == 25 and gpt.left_out.accuracy.n_items == told["n_valid"]
    assert gpt.as_wrong.accuracy.value == pytest.approx(told["accuracy_garbage_wrong"], abs=1e-9)
    assert gpt.left_out.accuracy.value == pytest.approx(told["accuracy_valid_only"], abs=1e-9)
    assert gpt.left_out.kappa.value == pytest.approx(told["cohen_kappa_valid_only"], abs=1e-9)
    told = expected["reference"]["pandalm7b_vs_majority"]
    assert by_name["pandalm-7b"].left_out.accuracy.value == pytest.approx(told["accuracy"], abs=1e-9)
    assert by_name["pandalm-7b"].left_out.kappa.value == pytest.approx(told["cohen_kappa"], abs=1e-9)


def test_pandalms_annotators_are_a_ceiling_that_neither_judge_reaches(real_data: Load) -> None:
    labels, expected = real_data("pandalm")
    seen = pandalm_panel(labels)
    fixed = Panel(
        Scale("preference", ("1", "2", "0")), seen.places, seen.own, seen.annotators, seen.evaluators, (), seen.names, {}
    )  # fmt: skip
    found = ceiling(fixed, next(j for j in fixed.evaluators if fixed.name(j) == "pandalm-7b"), Resampling())
    kappas = {f"{p.a[-1]}-{p.b[-1]}": p.kappa.value for p in found.human_human.pairs}
    assert kappas == pytest.approx(expected["reference"]["cohen_kappa"], abs=1e-9)
    assert found.human_human.mean.value == pytest.approx(np.mean(list(kappas.values())))
    assert found.verdict.word == "below the annotators"
    (pair,) = side_by_side(fixed, fixed.evaluators, Resampling(resamples=1000), gold=majority(fixed))
    assert pair.n_items == 974 and pair.p_value is not None
    assert pair.kappa_difference.interval is not None


def test_hannas_intraclass_correlations_to_six_digits(real_data: Load) -> None:
    labels, expected = real_data("hanna")
    humans = labels.filter(pl.col("rater_kind") == "human")
    for dimension, told in expected["dimensions"].items():
        rows = humans.filter(pl.col("dimension") == dimension)
        people = {
            r: rows.filter(pl.col("rater") == r).sort(pl.col("item").cast(pl.Int64))["value"].cast(pl.Int64).to_numpy()
            - 1
            for r in ("human_1", "human_2", "human_3")
        }
        found = reliability(panel(FIVE, people), Resampling(resamples=300))
        assert found.single.value == pytest.approx(told["published"]["ICC1"], rel=5e-6, abs=5e-8)
        assert found.mean.value == pytest.approx(told["published"]["ICC1k"], rel=5e-6, abs=5e-8)
        assert found.single.value == pytest.approx(told["reference"]["ICC1"], abs=1e-9)
        ends = found.single.interval
        assert ends is not None and ends.low < found.single.value < ends.high < 0.5


def test_hannas_judges_against_the_mean_of_the_humans(real_data: Load) -> None:
    labels, expected = real_data("hanna")
    for dimension, told in expected["dimensions"].items():
        rows = labels.filter(pl.col("dimension") == dimension).with_columns(pl.col("value").cast(pl.Float64))
        mean = rows.filter(pl.col("rater_kind") == "human").group_by("item").agg(pl.col("value").mean().alias("gold"))
        for judge, numbers in told["reference"]["judges_vs_human_mean_eval_prompt_1"].items():
            own = rows.filter((pl.col("rater") == judge) & (pl.col("version") == "eval-prompt-1")).join(mean, on="item")
            found = errors_of_values(own["value"].to_numpy(), own["gold"].to_numpy(), Resampling())
            values = (found.spearman.value, found.pearson.value, found.bias.value, found.mae.value)
            names = ("spearman", "pearson", "mean_bias", "mae")
            assert values == pytest.approx(tuple(numbers[n] for n in names), abs=1e-9)
            for measure in (found.spearman, found.pearson, found.bias, found.mae):
                assert measure.interval is not None and measure.interval.low < measure.value < measure.interval.high  # type: ignore[operator]


def test_hannas_fractional_judges_beside_its_slots(real_data: Load) -> None:
    labels, _ = real_data("hanna")
    scale = Scale("rating", low=Fraction(1), high=Fraction(5))
    rows = labels.filter(pl.col("dimension") == "relevance").with_columns(
        pl.col("value").cast(pl.Float64), pl.col("item").cast(pl.Int64)
    )
    humans = {
        r: rows.filter(pl.col("rater") == r).sort("item")["value"].to_numpy() for r in ("human_1", "human_2", "human_3")
    }
    own = rows.filter((pl.col("rater") == "Beluga-13B") & (pl.col("version") == "eval-prompt-1")).sort("item")["value"]
    judge = np.where((own < 1) | (own > 5), np.nan, own)
    found = ceiling(panel(scale, humans, {"Beluga-13B": judge}), 3, Resampling())
    # The humans hardly agree (ICC .14), and the judge agrees with each as much as they do among themselves.
    assert found.human_human.mean.value == pytest.approx(0.13, abs=0.05)
    assert found.verdict.word == "like another annotator"
