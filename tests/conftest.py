"""What all tests share."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import settings
from store_engines import (
    clock,
    empty,
    engine,
    postgresql,
    postgresql_template,
    sqlite_template,
    store,
    where,
)

__all__ = [
    "clock",
    "empty",
    "engine",
    "postgresql",
    "postgresql_template",
    "shared",
    "sqlite_template",
    "store",
    "where",
]

# A slow or busy machine is no failure, and CI must not fail today on what it passed yesterday.
settings.register_profile("tests", deadline=None, derandomize=os.environ.get("CI", "").lower() == "true")
settings.load_profile("tests")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recordings and real data beside the checkout. Where it is missing the test is skipped, but not in CI."""
    folder = Path(os.environ.get("CALIBRATE_SHARED") or Path(__file__).resolve().parents[1] / ".." / "shared").resolve()
    if not folder.is_dir():
        message = f"{folder} is missing: recordings and real data that lie beside the checkout"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(scope="session")
def real_data(shared: Path) -> Callable[[str], tuple[pl.DataFrame, dict[str, Any]]]:
    """Real labelled data by name: its labels as the source gave them (all columns text) and its published numbers."""

    def load(name: str) -> tuple[pl.DataFrame, dict[str, Any]]:
        folder = shared / "data" / name
        text = gzip.decompress((folder / "labels.csv.gz").read_bytes())
        items = gzip.decompress((folder / "items.csv.gz").read_bytes())
        labels = pl.read_csv(text, infer_schema=False).with_columns(pl.col("value").fill_null(""))
        facts = pl.read_csv(items, infer_schema=False)
        return labels.join(facts, on="item", how="left"), json.loads((folder / "expected.json").read_text())

    return load
