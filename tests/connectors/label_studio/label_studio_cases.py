"""Small Label Studio exports written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from calibrate_plugin.connector import Covered, Page

T0 = "2026-01-01T10:00:00.000000Z"
T1 = "2026-01-01T10:00:00.000020Z"


def result(control: str, kind: str, **value: Any) -> dict[str, Any]:
    return {"id": f"r-{control}", "from_name": control, "to_name": "t", "type": kind, "value": value}


def choice(control: str, *choices: str) -> dict[str, Any]:
    return result(control, "choices", choices=list(choices))


def annotation(number: Any, by: Any, *results: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "completed_by": by,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": T0,
        "updated_at": T1,
        "updated_by": by,
        "parent_prediction": None,
    } | more


def task(number: Any, *annotations: Any, project: Any = 7, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "project": project,
        "data": {"trace_id": f"trace-{number}"},
        "annotations": list(annotations),
        "predictions": [],
        "drafts": [],
    } | more


class Read:
    """All pages of a pull, put together."""

    def __init__(self, pieces: list[Page | Covered]) -> None:
        pages = [p for p in pieces if isinstance(p, Page)]
        self.covered = [p for p in pieces if isinstance(p, Covered)]
        self.labels = pl.concat([p.labels for p in pages])
        self.items = pl.concat([p.items for p in pages])
        self.aside = pl.concat([p.aside for p in pages])
        self.names = {k: v for p in pages for k, v in p.names.items()}

    def said(self, *columns: str) -> list[tuple[Any, ...]]:
        return self.labels.select(columns).rows()


Reader = Callable[..., Read]
