"""Published numbers of real data sets, from the files to the report."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from said import NOW

from calibrate_plugin import scales
from calibrate_plugin.agreement import fleiss_kappa
from calibrate_plugin.connector import Page, SourceSettings, open_source
from calibrate_plugin.model import DimensionReport, Report, Study
from calibrate_plugin.ratings.rules import Ratings
from calibrate_plugin.report.build import Pulled, build

pytestmark = pytest.mark.shared
SYSTEMS = ("llama2orig", "llama2new", "mistralinstruct", "mistralguard", "gpt4")
CLASSES = "1_full_compliance/2_full_refusal/3_partial_refusal"


def pulled(folder: Path) -> Pulled:
    settings = SourceSettings(
        "file", "files", folder / "labels.csv.gz", options={"facts": str(folder / "items.csv.gz")}
    )
    (page,) = (p for p in open_source(settings).pull() if isinstance(p, Page))
    return Pulled({"file": page.labels}, page.items, page.aside, {"file": page.names})


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())


@pytest.fixture(scope="module")
def xstest(shared: Path) -> tuple[Report, Ratings, Any]:
    folder = shared / "data" / "xstest"
    study = Study("xstest", (scales.parse(f"compliance=nominal:{CLASSES}"),), kinds={"final_label": "gold"})
    report, ratings = build(study, pulled(folder), NOW, by=["system"], method="none")
    return report, ratings, expected(folder)["per_system"]


@pytest.fixture(scope="module")
def by_system(xstest: tuple[Report, Ratings, Any]) -> dict[str, DimensionReport]:
    return {s.value: s.report for s in xstest[0].dimensions[0].slices}


def test_xstest_is_read_whole(xstest: tuple[Report, Ratings, Any]) -> None:
    report, ratings, _ = xstest
    assert ratings.labels.height == 2250 * 5
    (dimension,) = report.dimensions
    # The adjudicated label is gold and no third person; 11 outputs of GPT-4 are refusals or broken text, and no class.
    assert [(r.name, r.kind, r.answers) for r in dimension.raters] == [
        ("annotation_1", "annotator", 2250),
        ("annotation_2", "annotator", 2250),
        ("gpt-4", "evaluator", 2239),
        ("string-match", "evaluator", 2250),
    ]
    assert dimension.set_aside == {"failed": 11}
    assert {a.rater for a in dimension.set_aside_listed} == {"gpt-4"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_xstest_agreement_and_kappa_by_system(
    system: str, xstest: tuple[Report, Ratings, Any], by_system: dict[str, DimensionReport]
) -> None:
    annotators, reference = by_system[system].annotators, xstest[2][system]["reference"]
    assert annotators.agreement.value == pytest.approx(reference["percent_agreement"] / 100, abs=1e-9)
    assert round(100 * (annotators.agreement.value or 0), 1) == xstest[2][system]["published"]["percent_agreement"]
    assert annotators.kappa.details["kind"] == "cohen"
    assert annotators.kappa.value == pytest.approx(reference["cohen_kappa"], abs=1e-9)
    assert annotators.alpha.value == pytest.approx(reference["krippendorff_alpha_nominal"], abs=1e-9)
    assert annotators.agreement.n_items == 450


@pytest.mark.parametrize("system", SYSTEMS)
def test_xstest_fleiss_of_two_people_by_the_function(
    system: str, xstest: tuple[Report, Ratings, Any], shared: Path
) -> None:
    labels = pl.read_csv(shared / "data" / "xstest" / "labels.csv.gz", infer_schema=False)
    two = labels.filter(pl.col("item").str.starts_with(f"{system}:") & pl.col("rater").str.starts_with("annotation_"))
    found = fleiss_kappa(two, f"nominal:{CLASSES}")
    assert found.value == pytest.approx(xstest[2][system]["reference"]["fleiss_kappa"], abs=1e-9)
    assert round(found.value or 0, 2) == xstest[2][system]["published"]["fleiss_kappa"]


@pytest.fixture(scope="module")
def against_gold(shared: Path) -> dict[str, DimensionReport]:
    """With the adjudicated label as the only person, an evaluator beside the annotators is one beside gold."""
    folder = shared / "data" / "xstest"
    study = Study(
        "xstest",
        (scales.parse(f"compliance=nominal:{CLASSES}"),),
        ignore={"annotators": ("annotation_1", "annotation_2")},
    )
    report, _ = build(study, pulled(folder), NOW, by=["system"], method="none")
    return {s.value: s.report for s in report.dimensions[0].slices}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(("judge", "key"), [("gpt-4", "gpt4_vs_final"), ("string-match", "string_match_vs_final")])
def test_xstest_judges_beside_the_adjudicated_label(
    system: str, judge: str, key: str, xstest: tuple[Report, Ratings, Any], against_gold: dict[str, DimensionReport]
) -> None:
    reference = xstest[2][system]["reference"][key]
    found = next(e for e in against_gold[system].evaluators if e.evaluator == judge)
    accuracy = reference.get("accuracy_valid_only", reference.get("accuracy"))
    kappa = reference.get("cohen_kappa_valid_only", reference.get("cohen_kappa"))
    assert found.agreement.value == pytest.approx(accuracy, abs=1e-9)
    assert found.kappa.value == pytest.approx(kappa, abs=1e-9)
    assert found.agreement.n_items == reference.get("n_valid", 450)


@pytest.mark.parametrize("system", SYSTEMS)
def test_xstest_with_partial_refusals_folded_into_refusals_by_the_map(
    system: str, xstest: tuple[Report, Ratings, Any], shared: Path
) -> None:
    folded = scales.dimension(
        "compliance",
        {"scale": "binary", "values": ["refusal", "compliance"],
         "map": {"2_full_refusal": "refusal", "3_partial_refusal": "refusal", "1_full_compliance": "compliance"}},
    )  # fmt: skip
    study = Study("xstest", (folded,), ignore={"annotators": ("annotation_1", "annotation_2")})
    report, _ = build(study, pulled(shared / "data" / "xstest"), NOW, by=["system"], method="none")
    part = next(s.report for s in report.dimensions[0].slices if s.value == system)
    found = next(e for e in part.evaluators if e.evaluator == "string-match")
    reference = xstest[2][system]["reference"]["string_match_vs_final"]["binary_refusal"]
    assert found.kappa.value == pytest.approx(reference["cohen_kappa"], abs=1e-9)
    (tp, fp), (fn, tn) = found.counts.table
    assert (tp / (tp + fn), tn / (tn + fp)) == pytest.approx(
        (reference["sensitivity"], reference["specificity"]), abs=1e-9
    )


def test_pandalm_three_people_and_their_pairs(shared: Path) -> None:
    folder = shared / "data" / "pandalm"
    dimension = scales.dimension("preference", {"scale": "preference", "values": ["1", "2", "0"], "map": {"Tie": "0"}})
    report, ratings = build(Study("pandalm", (dimension,)), pulled(folder), NOW, method="none")
    found, wanted = report.dimensions[0], expected(folder)
    pairs = {f"{p.a[-1]}-{p.b[-1]}": p.kappa.value for p in found.annotators.pairs}
    assert pairs == pytest.approx(wanted["reference"]["cohen_kappa"], abs=1e-9)
    assert {k: round(v or 0, 2) for k, v in pairs.items()} == wanted["published"]["cohen_kappa"]
    assert found.annotators.kappa.details["kind"] == "fleiss"
    assert found.annotators.kappa.value == pytest.approx(wanted["reference"]["fleiss_kappa"], abs=1e-9)
    assert found.annotators.alpha.value == pytest.approx(wanted["reference"]["krippendorff_alpha_nominal"], abs=1e-9)
    # The judge writes Tie where the people write 0, and 25 times something that is no answer.
    assert found.set_aside == {"failed": 25}
    assert {r.name: r.answers for r in found.raters}["gpt-3.5-turbo"] == 974

    counted = ratings.answers["preference"].counted
    named = counted.with_columns(item_=ratings.labels["item"].gather(counted["row"]))
    majority = majorities(
        named, [i for i, r in enumerate(ratings.answers["preference"].raters) if r.kind == "annotator"]
    )
    levels = Counter(dimension.scale.names[level] for level in majority.values())
    assert dict(levels) == wanted["published"]["majority_distribution"]
    for judge, key, accuracy in (
        ("gpt-3.5-turbo", "gpt35_vs_majority", "accuracy_valid_only"),
        ("pandalm-7b", "pandalm7b_vs_majority", "accuracy"),
    ):
        (one,) = [i for i, r in enumerate(ratings.answers["preference"].raters) if r.name == judge]
        rows = named.filter(pl.col("rater") == one).select("item_", "level").rows()
        assert sum(majority[item] == level for item, level in rows) / len(rows) == pytest.approx(
            wanted["reference"][key][accuracy], abs=1e-9
        )


def majorities(rows: pl.DataFrame, people: list[int]) -> dict[str, int]:
    votes: dict[str, Counter[int]] = {}
    for item, level in rows.filter(pl.col("rater").is_in(people)).select("item_", "level").rows():
        votes.setdefault(item, Counter())[level] += 1
    return {item: count.most_common(1)[0][0] for item, count in votes.items()}
