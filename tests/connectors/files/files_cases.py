"""Files in the making, and what the connector reads from them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from calibrate_files import open_source

from calibrate_plugin.connector import Covered, Page, Since, SourceSettings

HEADER = "item,dimension,rater,kind,value"
ROWS = [
    {"item": "1", "dimension": "Safety", "rater": "asha", "kind": "annotator", "value": "Pass"},
    {"item": "1", "dimension": "Safety", "rater": "ben", "kind": "annotator", "value": "Fail"},
    {"item": "1", "dimension": "Safety", "rater": "judge", "kind": "evaluator", "value": "Pass"},
]


def source(file: Path, labels: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> Any:
    not_before = options.pop("not_before", None)
    return open_source(
        SourceSettings("people", "files", file=file, labels=labels or {}, since=not_before, options=options)
    )


def pulled(
    file: Path, since: Since | None = None, labels: Mapping[str, tuple[str, ...]] | None = None, **options: Any
) -> tuple[Page, Covered]:
    page, covered = source(file, labels, **options).pull(since)
    return page, covered


def read(file: Path, **options: Any) -> Page:
    return pulled(file, **options)[0]


def written(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def csv_text(rows: Sequence[Mapping[str, str | None]], delimiter: str = ",", end: str = "\n") -> str:
    """Rows as a CSV that keeps null and "" apart: null is an empty cell, text is quoted where it must be, or empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(text: str | None) -> str:
        if text is None:
            return ""
        quoted = io.StringIO()
        csv.writer(quoted, quoting=csv.QUOTE_ALL, lineterminator="").writerow([text])
        plain = text and not set(text) & set(delimiter + '"\r\n')
        return text if plain else quoted.getvalue()

    return (
        end.join(
            delimiter.join(cell(row.get(n)) for n in names) for row in [dict(zip(names, names, strict=True)), *rows]
        )
        + end
    )


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(folder: Path, rows: Sequence[Mapping[str, str | None]]) -> Path:
    return written(folder / "labels.csv", csv_text(rows))


def as_json_lines(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    return written(folder / "labels.jsonl", json_lines(rows))


def as_parquet(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = folder / "labels.parquet"
    pl.DataFrame({n: [row.get(n) for row in rows] for n in names}).write_parquet(file)
    return file
