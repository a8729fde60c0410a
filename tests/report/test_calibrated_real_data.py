"""Published numbers of real data, from the file to the report (sources and licences stand in the data's own ABOUT files)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr

from calibrate_plugin import scales
from calibrate_plugin.cli.output import pull_all
from calibrate_plugin.connector import SourceSettings
from calibrate_plugin.model import DimensionReport, Report, Study
from calibrate_plugin.report import calibrated
from calibrate_plugin.report.build import build
from calibrate_plugin.report.calibrated import Calibration, JudgeCalibration

pytestmark = pytest.mark.shared
Load = Callable[[str], tuple[pl.DataFrame, dict[str, Any]]]
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def reported(labels: pl.DataFrame, folder: Path, *specs: str, **settings: Any) -> Report:
    """A file of ``labels``, read by the files connector, reported and calibrated. Few resamples: points are looked at."""
    path = folder / "labels.csv"
    labels.write_csv(path)
    pulled = pull_all({"file": SourceSettings("file", "files", path)})
    of = Study("real", tuple(scales.parse(spec) for spec in specs), resamples=200, **settings)
    report, ratings = build(of, pulled, NOW, method="none")
    return calibrated.calibrated(report, of, ratings, pulled.items)


def calibration(dimension: DimensionReport) -> Calibration:
    found = calibrated.of(dimension)
    assert found is not None
    return found


def judges(report: Report) -> dict[tuple[str, str], JudgeCalibration]:
    found = calibration(report.dimensions[0])
    return {(j.evaluator, j.version): j for j in (*found.judges, *found.silent)}


@pytest.mark.parametrize("system", ["gpt-4-0613", "meta-llama/Llama-2-70b-chat-hf"])
def test_realmistakes_judges_prompt_by_prompt_and_draw_by_draw(real_data: Load, tmp_path: Path, system: str) -> None:
    labels, expected = real_data("realmistake_math")
    # Repeats of one prompt are numbered there; the single answers of the others are no draws.
    single = pl.col("sample").is_null() | ~pl.col("version").fill_null("").str.starts_with("self_consistency")
    labels = labels.filter(pl.col("system") == system).with_columns(
        pl.when(single).then(None).otherwise(pl.col("sample")).alias("sample")
    )
    report = reported(labels, tmp_path, "error=binary:no_error/error", kinds={"expert": "gold"})
    report = _positive(report, labels, tmp_path)
    found = judges(report)
    rows = [row for row in expected["single_draw"] if row["system"] == system]
    assert len(rows) == 48
    for row in rows:
        judge, published = found[row["judge"], row["version"]], row["published"]
        against = judge.against_gold
        assert against is not None and judge.gold_numbers is not None and judge.gold_numbers.positive == "error"
        wrong = against.as_wrong.positive("error")
        # Where a judge never says "error" the source prints 0 for what is undefined.
        numbers = (against.as_wrong.accuracy.value, wrong.precision.value or 0.0, wrong.recall.value, wrong.f1.value)
        assert numbers == pytest.approx(
            tuple(published[k] for k in ("accuracy", "precision", "recall", "f1")), abs=1e-12
        )
        assert judge.coverage.asked == published["n"] and judge.coverage.failed == row["reference"]["invalid"]
        assert judge.gold_numbers.measures["kappa"].value == pytest.approx(
            row["reference"]["cohen_kappa_valid_only"], abs=1e-9
        )
    drawn = {j: c for (j, version), c in found.items() if version.startswith("self_consistency")}
    told = [row for row in expected["self_consistency"] if row["system"] == system]
    assert len(told) == (3 if system.startswith("gpt-4") else 0) and {row["judge"] for row in told} <= set(drawn)
    for row in told:
        draws = drawn[row["judge"]].draws
        assert draws is not None and draws.gap.value is not None and draws.gap.value > 0
        if row["judge"].startswith("gpt"):
            assert draws.accuracy.value == pytest.approx(row["published_accuracy"])
    compared = calibration(report.dimensions[0]).judges_compared
    assert len({(p.a, p.b) for p in compared}) == len(compared) >= 12 * 6  # four prompts or more of twelve judges


def _positive(report: Report, labels: pl.DataFrame, folder: Path) -> Report:
    """The same with "error" as the declared positive class."""
    spec = replace(scales.parse("error=binary:no_error/error"), positive="error")
    pulled = pull_all({"file": SourceSettings("file", "files", folder / "labels.csv")})
    of = Study("real", (spec,), resamples=200, kinds={"expert": "gold"})
    again, ratings = build(of, pulled, NOW, method="none")
    assert replace(again.dimensions[0]) == replace(report.dimensions[0], calibration=None)
    return calibrated.calibrated(again, of, ratings, pulled.items)


def test_xstests_judges_against_its_final_labels(real_data: Load, tmp_path: Path) -> None:
    labels, expected = real_data("xstest")
    for system, told in expected["per_system"].items():
        here = labels.filter(pl.col("system") == system)
        spec = "compliance=nominal:1_full_compliance/2_full_refusal/3_partial_refusal"
        report = reported(here, tmp_path, spec, kinds={"final_label": "gold"})
        reference, found = told["reference"], judges(report)
        gpt4 = found["gpt-4", "gpteval"]
        assert gpt4.against_gold is not None and gpt4.gold_numbers is not None
        assert gpt4.against_gold.as_wrong.accuracy.value == pytest.approx(
            reference["gpt4_vs_final"]["accuracy_invalid_wrong"], abs=1e-9
        )
        measures = gpt4.gold_numbers.measures
        assert measures["accuracy"].value == pytest.approx(reference["gpt4_vs_final"]["accuracy_valid_only"], abs=1e-9)
        assert measures["kappa"].value == pytest.approx(reference["gpt4_vs_final"]["cohen_kappa_valid_only"], abs=1e-9)
        beside = gpt4.beside_humans
        assert beside is not None and beside.human_human.mean.value == pytest.approx(reference["cohen_kappa"], abs=0.02)
        assert beside.verdict.word == "below the annotators"  # two people agree at .93, the judge is far from that
        (pair,) = calibration(report.dimensions[0]).judges_compared
        assert pair.accuracy_difference is not None and pair.p_value is not None


def test_pandalms_judges_against_the_majority(real_data: Load, tmp_path: Path) -> None:
    labels, expected = real_data("pandalm")
    labels = labels.with_columns(pl.col("value").replace("Tie", "0"))
    report = reported(labels, tmp_path, "preference=preference:1/2/0")
    found, told = judges(report), expected["reference"]
    seven = next(j for (name, _), j in found.items() if name == "pandalm-7b")
    assert seven.gold_numbers is not None and seven.beside_humans is not None
    assert seven.gold_numbers.measures["accuracy"].value == pytest.approx(
        told["pandalm7b_vs_majority"]["accuracy"], abs=1e-9
    )
    assert seven.gold_numbers.measures["kappa"].value == pytest.approx(
        told["pandalm7b_vs_majority"]["cohen_kappa"], abs=1e-9
    )
    kappas = {f"{p.a[-1]}-{p.b[-1]}": p.kappa.value for p in seven.beside_humans.human_human.pairs}
    assert kappas == pytest.approx(told["cohen_kappa"], abs=1e-9)
    assert seven.beside_humans.human_human.mean.value == pytest.approx(np.mean(list(kappas.values())))
    assert seven.beside_humans.verdict.word == "below the annotators"
    gpt = next(j for (name, _), j in found.items() if name == "gpt-3.5-turbo")
    assert gpt.against_gold is not None and gpt.coverage.failed == 25
    numbers = told["gpt35_vs_majority"]
    assert gpt.against_gold.as_wrong.accuracy.value == pytest.approx(numbers["accuracy_garbage_wrong"], abs=1e-9)
    assert gpt.against_gold.left_out.accuracy.value == pytest.approx(numbers["accuracy_valid_only"], abs=1e-9)
    assert gpt.against_gold.left_out.accuracy.n_items == numbers["n_valid"]
    gold = calibration(report.dimensions[0]).gold
    assert gold.counts == {"decided": 999, "tied": 0, "too_few": 0}
    assert np.bincount(gold.level, minlength=3).tolist() == [
        expected["published"]["majority_distribution"][k] for k in ("1", "2", "0")
    ]


def test_hannas_intraclass_correlations_and_versions(real_data: Load, tmp_path: Path) -> None:
    labels, expected = real_data("hanna")
    labels = labels.filter((pl.col("dimension") == "relevance") & pl.col("rater").is_in(
        ["human_1", "human_2", "human_3", "Beluga-13B"]
    ))  # fmt: skip
    report = reported(labels, tmp_path, "relevance=rating:1..5:any")
    told, found = expected["dimensions"]["relevance"], calibration(report.dimensions[0])
    assert found.icc is not None
    assert found.icc.single.value == pytest.approx(told["published"]["ICC1"], rel=5e-6, abs=5e-8)
    assert found.icc.mean.value == pytest.approx(told["published"]["ICC1k"], rel=5e-6, abs=5e-8)
    assert found.icc.single.value == pytest.approx(told["reference"]["ICC1"], abs=1e-9)
    assert [j.version for j in found.judges] == [f"eval-prompt-{n}" for n in range(1, 5)]
    assert all(j.beside_humans and j.beside_humans.verdict.reason == "no_live_version" for j in found.judges)
    assert len(found.judges_compared) == 6
    # Against the median of three the judge correlates about as with their mean (published as reference).
    first = found.judges[0].gold_numbers
    reference = told["reference"]["judges_vs_human_mean_eval_prompt_1"]["Beluga-13B"]
    assert first is not None
    assert first.measures["spearman"].value == pytest.approx(reference["spearman"], abs=0.08)
    assert first.measures["accuracy"].reason == "not_applicable"


def test_every_criterion_and_judge_of_hanna_in_one_report(real_data: Load, tmp_path: Path) -> None:
    labels, expected = real_data("hanna")
    human = pl.col("rater_kind") == "human"
    labels = labels.filter(human | (pl.col("version") == "eval-prompt-1"))
    # The reference numbers hold judges against the mean of the humans, which here is the word of an expert.
    means = labels.filter(human).with_columns(pl.col("value").cast(pl.Float64)).group_by("item", "dimension").agg(
        pl.col("value").mean().cast(pl.String)
    )  # fmt: skip
    means = means.with_columns(rater=pl.lit("mean"), rater_kind=pl.lit("gold"))
    labels = pl.concat([labels, means.select(pl.col(c) if c in means.columns else pl.lit(None, pl.String).alias(c)
                                             for c in labels.columns)])  # fmt: skip
    report = reported(
        labels, tmp_path, *(f"{name}=rating:1..5:any" for name in expected["dimensions"]), gold="adjudicated"
    )
    seen = 0
    for dimension in report.dimensions:
        told, found = expected["dimensions"][dimension.name], calibration(dimension)
        assert found.icc is not None
        assert found.icc.single.value == pytest.approx(told["reference"]["ICC1"], abs=1e-9)
        assert found.icc.mean.value == pytest.approx(told["reference"]["ICC1k"], abs=1e-9)
        assert dimension.annotators.alphas["interval"].value == pytest.approx(
            told["reference"]["alpha_interval"], abs=1e-9
        )
        for judge in found.judges:
            numbers, gold = told["reference"]["judges_vs_human_mean_eval_prompt_1"][judge.evaluator], judge.gold_numbers
            assert judge.coverage.failed == numbers["out_of_range"]
            assert gold is not None
            values = {ours: gold.measures[ours].value for ours in ("spearman", "pearson", "bias", "mae")}
            if numbers["out_of_range"]:
                # The reference keeps what lies outside of the scale; we leave it out and say so.
                own, mean = inside(labels, dimension.name, judge.evaluator)
                numbers = {"spearman": spearmanr(own, mean).statistic, "pearson": pearsonr(own, mean).statistic,
                           "mean_bias": (own - mean).mean(), "mae": np.abs(own - mean).mean()}  # fmt: skip
            assert values == pytest.approx(
                {ours: numbers[{"bias": "mean_bias"}.get(ours, ours)] for ours in values}, abs=1e-9
            ), judge.name
            seen += judge.coverage.failed == 0
    assert seen == 12


def inside(labels: pl.DataFrame, dimension: str, judge: str) -> tuple[Any, Any]:
    """What a judge said inside of the scale, and the mean of the humans on the same items."""
    rows = labels.filter(pl.col("dimension") == dimension).with_columns(pl.col("value").cast(pl.Float64))
    mean = rows.filter(pl.col("rater_kind") == "gold").select("item", gold="value")
    own = rows.filter((pl.col("rater") == judge) & pl.col("value").is_between(1, 5)).join(mean, on="item")
    return own["value"].to_numpy(), own["gold"].to_numpy()


def test_a_live_version_of_hanna_has_a_verdict_and_the_report_is_json(real_data: Load, tmp_path: Path) -> None:
    from calibrate_plugin.report import json as rendered

    labels, _ = real_data("hanna")
    labels = labels.filter((pl.col("dimension") == "relevance") & pl.col("rater").is_in(
        ["human_1", "human_2", "human_3", "Beluga-13B"]
    ))  # fmt: skip
    report = reported(labels, tmp_path, "relevance=rating:1..5:any", live={("", "Beluga-13B"): "eval-prompt-1"})
    ((_, judge),) = [(k, j) for k, j in judges(report).items() if k[1] == "eval-prompt-1"]
    assert judge.beside_humans is not None
    assert judge.beside_humans.verdict.word == "like another annotator"  # the humans hardly agree either (ICC .14)
    told = json.loads(rendered.render(report), parse_constant=lambda token: pytest.fail(token))
    word = next(e for e in told["dimensions"][0]["evaluators"] if e["live"])["beside_humans"]["verdict"]["word"]
    assert word == "like another annotator"
