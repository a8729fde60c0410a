"""What sources said, in few words, for tests of what is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from calibrate_plugin import scales
from calibrate_plugin.model import LABELS, DimensionReport, Report, Study, frame
from calibrate_plugin.ratings.rules import Ratings, apply
from calibrate_plugin.report.build import Pulled, build

NOW = datetime(2026, 11, 5, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
#: No answer: the rater did not get to the item.
GAP = object()


def label(item: str | None, rater: str | None, value: Any, field: str = "D", **more: Any) -> dict[str, Any]:
    """One answer of an annotator, unless ``kind`` says otherwise. ``at`` may be given in days."""
    made = {"item": item, "rater": rater, "field": field, "kind": "annotator", "state": "answered"}
    made["value"] = None if value is None else json.dumps(value)
    if isinstance(more.get("at"), int | float):
        more["at"] = NOW + more["at"] * DAY
    return made | more


def judged(item: str | None, rater: str | None, value: Any, field: str = "D", **more: Any) -> dict[str, Any]:
    """One answer of an evaluator."""
    return label(item, rater, value, field, **({"kind": "evaluator"} | more))


def grid(field: str = "D", kind: str = "annotator", **answers: Sequence[Any]) -> list[dict[str, Any]]:
    """The answers of each rater to items 1, 2, 3 ...; ``GAP`` where there is none."""
    return [
        label(str(i), rater, value, field, kind=kind)
        for rater, given in answers.items()
        for i, value in enumerate(given, 1)
        if value is not GAP
    ]


def labels(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return frame(LABELS, {column: [row.get(column) for row in rows] for column in LABELS})


def study(*specs: str, **settings: Any) -> Study:
    return Study("study", tuple(scales.parse(spec) for spec in specs or ("D=binary:T/F",)), **settings)


def applied(of: Study, *rows: Mapping[str, Any], **more: Any) -> Ratings:
    return apply(of, {"file": labels(rows)}, **more)


def causes(of: Study, *rows: Mapping[str, Any], **more: Any) -> list[str | None]:
    """Of each row, why it does not count (None: it does), for a study of one dimension."""
    ratings = applied(of, *rows, **more)
    (answers,) = ratings.answers.values()
    found = dict(answers.frame.select("row", "cause").rows())
    return [found.get(row, "not in it") for row in range(len(rows))]


def counted(of: Study, *rows: Mapping[str, Any], **more: Any) -> dict[tuple[str, str], str | float]:
    """(rater, item) -> the answer that counts, for a study of one dimension."""
    ratings = applied(of, *rows, **more)
    (answers,) = ratings.answers.values()
    scale = answers.dimension.scale
    named = ratings.labels["item"]
    return {
        (answers.raters[rater].label, named[row]): scale.names[level] if scale.levels is not None else number
        for row, rater, level, number in answers.counted.select("row", "rater", "level", "number").rows()
    }


def report(of: Study, rows: Sequence[Mapping[str, Any]], **more: Any) -> Report:
    pulled = Pulled({"file": labels(rows)}, **{k: more.pop(k) for k in ("items", "aside", "names") if k in more})
    return build(of, pulled, NOW, **more)[0]


def reported(of: Study, rows: Sequence[Mapping[str, Any]], **more: Any) -> DimensionReport:
    """The report on the first dimension."""
    return report(of, rows, **more).dimensions[0]
