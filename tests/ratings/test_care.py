"""Answers that were given too fast, and people who keep whatever a judge had filled in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from calibrate_plugin import scales
from calibrate_plugin.model import LABELS, Study, frame
from calibrate_plugin.ratings.care import care
from calibrate_plugin.ratings.rules import apply
from calibrate_plugin.report import json
from calibrate_plugin.report.build import Pulled, build

SAFETY = scales.dimension("Safety", {"scale": "binary", "values": ["Pass", "Fail"]})
STUDY = Study("s", (SAFETY,))


def row(item: str, rater: str, value: str, **more: Any) -> dict[str, Any]:
    kind = "evaluator" if rater == "judge" else "annotator"
    given = {"item": item, "rater": rater, "value": f'"{value}"', "field": "Safety", "kind": kind, "state": "answered"}
    return {**dict.fromkeys(LABELS), **given, "blind": True, **more}


def labels(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return frame(LABELS, {c: [r[c] for r in rows] for c in LABELS})


def rows() -> list[dict[str, Any]]:
    items = [f"i{n}" for n in range(12)]
    said = {i: "Fail" if n % 3 == 0 else "Pass" for n, i in enumerate(items)}
    found = [row(i, "judge", said[i]) for i in items]
    found += [row(i, "meek", said[i], blind=False, seconds=20.0) for i in items]
    found += [row(i, "hasty", "Pass", seconds=1.5 if n < 5 else 40.0) for n, i in enumerate(items)]
    found += [row(i, "free", "Pass", blind=n > 2, seconds=None) for n, i in enumerate(items)]
    return found


def of(study: Study = STUDY) -> dict[str, Any]:
    ratings = apply(study, {"": labels(rows())})
    return {c.rater: c for c in care(study, ratings.answers["Safety"], ratings)}


def test_who_keeps_what_was_filled_in_is_told_from_who_looks() -> None:
    found = of()
    assert (found["meek"].seen, found["meek"].compared, found["meek"].kept) == (12, 12, 12)
    assert found["meek"].always_agrees
    assert (found["free"].seen, found["free"].kept) == (3, 2) and not found["free"].always_agrees
    assert found["hasty"].seen == 0 and not found["hasty"].always_agrees


def test_an_unknown_time_is_not_fast() -> None:
    found = of()
    assert [(found[n].fast, found[n].timed) for n in ("hasty", "free", "meek")] == [(5, 12), (0, 0), (0, 12)]
    assert of(replace(STUDY, fast_seconds=0.0))["hasty"].fast == 0


@pytest.mark.parametrize(("left_out", "counted"), [(False, 12), (True, 7)])
def test_fast_answers_count_unless_the_study_leaves_them_out(left_out: bool, counted: int) -> None:
    study = replace(STUDY, leave_out_fast=left_out, resamples=200)

    report, _ = build(study, Pulled({"": labels(rows())}), datetime(2026, 12, 1, tzinfo=UTC))
    told = json.plain(report)["dimensions"][0]
    hasty = next(r for r in told["raters"] if r["name"] == "hasty")
    assert sum(n for n in hasty["distribution"]) == counted
    assert told["set_aside"]["not_blind"] == 15, "what a judge's answer was seen for is left out for that"
    assert told["set_aside"].get("fast", 0) == (5 if left_out else 0)
    noted = [n for n in told["notes"] if "less than 3 s" in n]
    assert bool(noted) != left_out
    assert not noted or noted[0].startswith("5 answers that count took")


def test_a_fast_answer_that_is_left_out_hides_no_older_one() -> None:
    study = replace(STUDY, leave_out_fast=True)
    given = [row("a", "x", "Pass", seconds=30.0, seq=1), row("a", "x", "Fail", seconds=1.0, seq=2)]
    answers = apply(study, {"": labels(given)}).answers["Safety"]
    assert answers.frame.sort("row")["cause"].to_list() == [None, "fast"]


def test_a_judge_is_never_too_fast() -> None:
    study = replace(STUDY, leave_out_fast=True)
    answers = apply(study, {"": labels([row("a", "judge", "Pass", seconds=0.2)])}).answers["Safety"]
    assert answers.frame["cause"].to_list() == [None]
