"""What a project's scores and score configs propose: dimensions with their scales, items by level, versions of judges."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from calibrate_langfuse.records import LEVELS, Reader, Row, Rules, labels_of
from calibrate_plugin.connector import Discovery, Proposal

#: A sample of item ids, and the most categories that still look like a scale.
SAMPLE = 1_000
CATEGORIES = 20
#: Scales that numbers without a declared range most often have.
_USUAL = ((0, 1), (1, 5), (0, 5), (0, 10), (1, 10), (0, 100))


def discover(rows: Iterable[tuple[str | None, Row]], rules: Rules, configs: Sequence[Row] = ()) -> Discovery:
    """``rows``: scores with the place that a message may name. ``configs``: the project's score configs."""
    readers = {level: Reader(replace(rules, level=level, lift=False, names=None)) for level in LEVELS}
    first = readers["trace"]
    texts: set[str] = set()
    for where, row in rows:
        level = _level(row)
        if row.get("dataType") == "TEXT":
            texts.add(str(row.get("name")))
        readers.get(level, first).add(row, where)
    parts = []
    aside: dict[str, int] = {}
    for level, reader in readers.items():
        table, rest = reader.take()
        parts.append(labels_of(table).with_columns(pl.lit(level).alias("level")))
        for cause, n in rest.aside.group_by("cause").len().sort("cause").iter_rows():
            aside[cause] = aside.get(cause, 0) + n
    labels = pl.concat(parts)
    links = {
        str(level): tuple(part["item"].drop_nulls().unique(maintain_order=True).head(SAMPLE).to_list())
        for (level,), part in sorted(labels.group_by("level"), key=lambda g: -len(g[1]))
    }
    notes = [f"{n} records were set aside ({cause})" for cause, n in aside.items()]
    proposals, more = _proposals(labels, configs, texts)
    return Discovery(tuple(proposals), links or {"trace": ()}, _versions(labels), tuple(notes + more))


def _level(row: Row) -> str:
    subject = row.get("subject")
    if isinstance(subject, dict):
        return str(subject.get("kind"))
    for key, level in (("datasetRunId", "experiment"), ("observationId", "observation"), ("traceId", "trace")):
        if row.get(key):
            return level
    return "session" if row.get("sessionId") else "trace"


def _versions(labels: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    """Per judge its versions, the one that began last at the end."""
    judged = labels.filter((pl.col("kind") == "evaluator") & (pl.col("state") == "answered"))
    begun = judged.group_by("rater", "version", maintain_order=True).agg(pl.col("at").min())
    begun = begun.sort("rater", "at", maintain_order=True)
    return {
        str(rater): tuple(part["version"].to_list()) for (rater,), part in begun.group_by("rater", maintain_order=True)
    }


def _proposals(
    labels: pl.DataFrame, configs: Sequence[Row], texts: Collection[str]
) -> tuple[list[Proposal], list[str]]:
    declared: dict[str, Row] = {}
    notes: list[str] = []
    for config in configs:
        name = config.get("name")
        if not isinstance(name, str) or config.get("isArchived"):
            continue
        if name in declared:
            notes.append(f"Langfuse has several score configs named {name}; the newest one is taken")
            continue
        declared[name] = config
    proposals = []
    answered = labels.filter(pl.col("state") == "answered")
    seen = {str(name): part for (name,), part in answered.group_by("field", maintain_order=True)}
    for name in sorted({*declared, *seen}):
        part = seen.get(name)
        values = [] if part is None else part["value"].drop_nulls().unique(maintain_order=True).to_list()
        found = declared.get(name) or ({"dataType": "TEXT"} if name in texts else None)
        settings, note = _scale(found, [json.loads(v) for v in values])
        if settings is None:
            notes.append(f"{name}: {note}")
            continue
        who = "" if part is None else _who(part)
        proposals.append(Proposal(name, (name,), settings, "; ".join(n for n in (note, who) if n)))
    return proposals, notes


def _who(part: pl.DataFrame) -> str:
    people = part.filter(pl.col("kind") == "annotator")
    if not len(people):
        return ""
    judged = len(part) - len(people)
    return f"{len(people)} answers by {people['rater'].n_unique()} people" + (f", {judged} by judges" if judged else "")


def _scale(config: Mapping[str, Any] | None, values: list[Any]) -> tuple[dict[str, Any] | None, str]:
    """The table of a dimension, and what to look at in it; None where the answers are no scale."""
    kind = config.get("dataType") if config else None
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    if kind == "BOOLEAN" or (kind is None and flat and all(isinstance(v, bool) for v in flat)):
        return {"scale": "binary", "values": [True, False]}, "true counts as pass"
    if kind == "CATEGORICAL" and config:
        categories = [c.get("label") for c in config.get("categories") or () if isinstance(c, dict)]
        several = any(isinstance(value, list) for value in values)
        note = "several answers at once were seen" if several else ""
        return {"scale": "choices" if several else "nominal", "values": categories}, note
    numbers = [v for v in flat if isinstance(v, int | float) and not isinstance(v, bool)]
    if kind == "NUMERIC" or (kind is None and numbers and len(numbers) == len(flat)):
        low, high = (config.get("minValue"), config.get("maxValue")) if config else (None, None)
        note = ""
        if low is None or high is None or low >= high:
            if not numbers:
                return None, "a number without a range and without scores: declare the ends of its scale"
            low, high = next(
                ((a, b) for a, b in _USUAL if a <= min(numbers) and max(numbers) <= b),
                (min(numbers), max(numbers)) if min(numbers) < max(numbers) else (min(numbers), min(numbers) + 1),
            )
            note = f"Langfuse declares no range; {min(numbers)} to {max(numbers)} were seen: give the real ends"
        whole = all(float(v).is_integer() for v in (low, high, *numbers))
        return {"scale": "rating", "min": low, "max": high, **({} if whole else {"step": "any"})}, note
    texts = sorted({v for v in flat if isinstance(v, str)})
    if kind == "TEXT" or not texts or len(texts) != len({json.dumps(v) for v in flat}) or len(texts) > CATEGORIES:
        return None, "free text or mixed answers: no scale to propose"
    several = any(isinstance(value, list) for value in values)
    return (
        {"scale": "choices" if several else "nominal", "values": texts},
        "no score config declares these; they are the answers that were seen",
    )
