"""Studies whose judges are calibrated, in few words."""

from __future__ import annotations

import json as stdlib_json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from said import GAP, NOW, judged, label, labels

from calibrate_plugin.model import ITEMS, DimensionReport, Report, Sampling, Study, frame
from calibrate_plugin.report import calibrated, json
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.report.calibrated import Calibration, JudgeCalibration

__all__ = ["GAP", "by_judge", "facts_of", "judge_of", "made", "paradox", "said_by", "whole"]


def made(of: Study, rows: Sequence[Mapping[str, Any]], facts: pl.DataFrame | None = None) -> Report:
    """The report with its calibration."""
    items = frame(ITEMS) if facts is None else facts
    report, ratings = build(of, Pulled({"file": labels(rows)}, items), NOW)
    return calibrated.calibrated(report, of, ratings, items)


def whole(report: Report | DimensionReport) -> Calibration:
    dimension = report.dimensions[0] if isinstance(report, Report) else report
    found = calibrated.of(dimension)
    assert found is not None
    return found


def judge_of(report: Report, name: str = "judge") -> JudgeCalibration:
    found = whole(report)
    (one,) = [j for j in (*found.judges, *found.silent) if j.evaluator == name]
    return one


def facts_of(**columns: Mapping[str, Any]) -> pl.DataFrame:
    """Facts of items: fact = {item: value}."""
    rows = [(item, fact, str(value)) for fact, values in columns.items() for item, value in values.items()]
    return pl.DataFrame(rows, schema=ITEMS, orient="row")


def said_by(rater: str, answers: str, **more: Any) -> list[dict[str, Any]]:
    """One answer a letter (T, F; "." for none) to items 1, 2, 3 ..."""
    make = judged if more.get("kind", "evaluator") == "evaluator" else label
    return [make(str(i), rater, a, **more) for i, a in enumerate(answers, 1) if a != "."]


def as_json(report: Report) -> dict[str, Any]:
    def never(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    found: dict[str, Any] = stdlib_json.loads(json.render(report), parse_constant=never)
    return found


def paradox(people: Sequence[str] = ("expert",), kind: str = "gold") -> tuple[list[dict[str, Any]], pl.DataFrame]:
    """practice.md 3.4: a judge fails 50 of 1,000 (40 truly fail) and passes 950 (38 truly fail); 50 of each of its labels were
    chosen, of which 40 and 2 truly fail. T is pass."""
    said = {str(i): "F" if i < 50 else "T" for i in range(1000)}
    chosen = {str(i): "F" if i < 40 else "T" for i in range(50)}
    chosen |= {str(i): "F" if i < 52 else "T" for i in range(50, 100)}
    rows = [judged(item, "judge", value) for item, value in said.items()]
    rows += [label(item, who, value, kind=kind) for who in people for item, value in chosen.items()]
    probability = {item: 1.0 if said[item] == "F" else 50 / 950 for item in chosen}
    return rows, facts_of(stratum={item: said[item] for item in chosen}, probability=probability)


def by_judge(**more: Any) -> Sampling:
    return Sampling("stratified", "D", "judge", **more)
