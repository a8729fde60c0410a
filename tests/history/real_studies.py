"""Real labels with judge versions as a study on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import tomlkit


def study(shared: Path, folder: Path, name: str, scale: dict[str, Any], judge: str, **given: Any) -> Path:
    """The labels of one judge and the people of a data set, as a study; ``given``: ``dimensions``, ``live``, ``study``."""
    labels = pl.read_csv(shared / "data" / name / "labels.csv.gz", infer_schema_length=0)
    dimensions = given.get("dimensions") or labels["dimension"].unique().sort().to_list()
    chosen = labels.filter(
        pl.col("dimension").is_in(dimensions) & ((pl.col("rater") == judge) | (pl.col("rater_kind") == "human"))
    ).filter(~pl.col("version").fill_null("").str.starts_with("self_consistency"))
    kind = pl.when(pl.col("rater_kind") == "human").then(pl.lit("annotator")).otherwise(pl.lit("evaluator"))
    chosen.select("item", "dimension", "rater", kind.alias("kind"), "version", "value").write_csv(folder / "labels.csv")
    document = {
        "study": {"name": name, "resamples": 1000, **given.get("study", {})},
        "dimensions": dict.fromkeys(dimensions, scale),
        "sources": {"labels": {"connector": "files", "file": "labels.csv", "live": {judge: given["live"]}}},
    }
    path = folder / "calibrate.toml"
    path.write_text(tomlkit.dumps(document))
    return path
