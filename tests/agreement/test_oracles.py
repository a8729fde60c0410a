"""Values of independent libraries (scikit-learn, statsmodels, krippendorff, irrCAC, R) for 46 data sets, through the
functions. What is not ours to give is listed by name, with why."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from calibrate_plugin import agreement as ours
from calibrate_plugin.agreement import Resampling
from calibrate_plugin.model import Measure, Scale

#: Statistics that are not of this part of the package.
ELSEWHERE = {
    # Against gold, and on ordered scales: calibration.
    "accuracy", "confusion", "f1", "mcc", "precision", "recall", "tnr", "mae", "pearson", "spearman", "kendall_tau_b",
    # Confidence: calibration.
    "brier", "ece",
    # Fleiss, Cohen and Everitt 1969: pairs as independent units. Ours resamples items.
    "cohen_kappa_se_fce1969",
    # Gwet's linearised standard errors. Ours resamples items.
    "fleiss_kappa_se_gwet", "gwet_ac_se",
}  # fmt: skip


def scale_of(case: Mapping[str, Any]) -> Scale:
    if case["kind"] == "rating":
        points = tuple(Fraction(str(v)) for v in case["scale"])
        return Scale("rating", low=points[0], high=points[-1], points=points)
    return Scale(case["kind"], tuple(map(str, case["scale"])))


def rows_of(case: Mapping[str, Any], raters: list[str] | None = None) -> dict[str, list[Any]]:
    kept = case["raters"] if raters is None else raters
    cells = [
        (item, rater, case["labels"][item][case["raters"].index(rater)] if rater in case["raters"] else None)
        for item in range(len(case["labels"]))
        for rater in kept
    ]
    text = case["kind"] != "rating"
    values = [None if v is None else str(v) if text else float(v) for _, _, v in cells]
    return {"item": [i for i, _, _ in cells], "rater": [r for _, r, _ in cells], "value": values}


def percent_agreement(case: Mapping[str, Any], p: Mapping[str, Any]) -> Measure:
    form = {"items": "items", "pairs": "pairs", None: "pairs"}[p.get("mean_over")]
    return ours.percent_agreement(rows_of(case, p.get("raters")), scale_of(case), weights=p["weights"], form=form)  # type: ignore[arg-type]


def cohen_kappa(case: Mapping[str, Any], p: Mapping[str, Any]) -> Measure:
    weights = p.get("disagreement_weights") or p["weights"]
    return ours.cohen_kappa(rows_of(case, p.get("raters")), scale_of(case), weights=weights)


def cohen_kappa_ci(case: Mapping[str, Any], p: Mapping[str, Any]) -> Measure:
    resampling = Resampling(seed=1, resamples=p["n_resamples"], level=p["level"], method=p["method"])
    return ours.cohen_kappa(rows_of(case, p["raters"]), scale_of(case), weights=p["weights"], resampling=resampling)


def fleiss_kappa(case: Mapping[str, Any], p: Mapping[str, Any]) -> Measure:
    form = {"items": "items", "pairs+pooled_labels": "pairs"}[p["form"]]
    return ours.fleiss_kappa(rows_of(case), scale_of(case), form=form, weights=p["weights"])  # type: ignore[arg-type]


def pooled(function: Callable[..., Measure]) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Measure]:
    def ask(case: Mapping[str, Any], p: Mapping[str, Any]) -> Measure:
        rows = rows_of(case, [p["one"], *p["others"]])
        return function(rows, scale_of(case), p["one"], weights=p["weights"])

    return ask


def over_all(function: Callable[..., Measure]) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Measure]:
    return lambda case, p: function(rows_of(case), scale_of(case), weights=p["weights"])


ASK: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Measure]] = {
    "percent_agreement": percent_agreement,
    "cohen_kappa": cohen_kappa,
    "cohen_kappa_ci_low": cohen_kappa_ci,
    "cohen_kappa_ci_high": cohen_kappa_ci,
    "fleiss_kappa": fleiss_kappa,
    "pooled_percent_agreement": pooled(ours.pooled_agreement),
    "pooled_cohen_kappa": pooled(ours.pooled_kappa),
    "krippendorff_alpha": lambda case, p: ours.krippendorff_alpha(rows_of(case), scale_of(case), metric=p["level"]),
    "gwet_ac1": over_all(ours.gwet_ac),
    "gwet_ac2": over_all(ours.gwet_ac),
    "brennan_prediger": over_all(ours.brennan_prediger),
    # The libraries' agreement is the mean over items; a report's is over pairs, as everything it stands beside.
    "pabak": lambda case, p: ours.pabak(rows_of(case), scale_of(case), form="items", weights=p["weights"]),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "oracles" / "agreement_cases.json").read_text())["cases"]
    return found


def test_every_value_is_hit_to_its_tolerance(cases: list[dict[str, Any]]) -> None:
    wrong: list[str] = []
    asked = 0
    for case in cases:
        for expected in case["expect"]:
            statistic, p = expected["statistic"], expected["params"]
            if statistic in ELSEWHERE:
                continue
            asked += 1
            found = ASK[statistic](case, p)
            told = f"{case['id']} {statistic} {p}: {found.value} {found.reason}, not {expected['value']}"
            if expected["value"] is None:
                if (found.value, found.reason) != (None, expected["undefined"]):
                    wrong.append(told)
            else:
                value = found.value
                if statistic.startswith("cohen_kappa_ci"):
                    assert found.interval is not None
                    value = found.interval.low if statistic.endswith("low") else found.interval.high
                if value is None or abs(value - expected["value"]) > expected["tolerance"]:
                    wrong.append(told)
                elif expected.get("exact") and statistic in ("cohen_kappa", "pooled_cohen_kappa"):
                    assert value == float(Fraction(expected["exact"]))
    assert not wrong, "\n".join(wrong)
    assert asked == 338


def test_what_is_left_is_exactly_what_is_listed(cases: list[dict[str, Any]]) -> None:
    statistics = {expected["statistic"] for case in cases for expected in case["expect"]}
    assert statistics - ASK.keys() == ELSEWHERE
    assert statistics - ELSEWHERE == ASK.keys()
