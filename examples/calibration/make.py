"""Makes the two files of this example: 600 answers that a judge has checked, of which 120 were chosen for people to label.

What it plays: three annotators and an expert on a sample in strata of the judge's label; a judge that states its confidence,
one that is asked five times, one that gives numbers from 0 to 1, and one that compares pairs of answers in both orders.

    python make.py
"""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from calibrate_plugin.planning.sample import stratified

HERE = Path(__file__).parent
START = datetime(2026, 10, 5, 8, tzinfo=UTC)
COLUMNS = ("item", "dimension", "rater", "kind", "version", "value", "confidence", "sample", "order", "at")
#: How often each person sees what is there.
PEOPLE = {"asha": 0.94, "ben": 0.92, "chen": 0.90}


def main() -> None:
    """Write both files beside this script."""
    rng = random.Random(20261005)
    # From week to week a little less is right, which the judge's own rate hardly shows.
    truth = {f"a-{n:03d}": rng.random() < 0.86 - 0.12 * n / 600 for n in range(600)}
    rows: list[dict] = []
    said: dict[str, str] = {}
    for n, (item, right) in enumerate(truth.items()):
        caught = rng.random() < (0.97 if right else 0.62)
        said[item] = _word(right if caught else not right)
        sure = 0.9 + 0.1 * rng.random() if rng.random() < 0.7 else 0.6 + 0.3 * rng.random()
        at = START + timedelta(minutes=n * 60)
        rows.append(_row(item, "stater", said[item], kind="evaluator", version="v2", confidence=round(sure, 2), at=at))
    chosen = {c.item: c for c in stratified(said, 120, floor=60, seed=1)}
    for i, item in enumerate(sorted(chosen)):
        _people(rng, rows, item, truth[item], i)
        _machines(rng, rows, item, truth[item], i)
    _pairs(rng, rows)
    _write("labels.csv", COLUMNS, rows)
    facts = [
        {"item": c.item, "stratum": c.stratum, "probability": f"{c.probability:.6f}", "split": ("dev", "test")[i % 2]}
        for i, c in enumerate(sorted(chosen.values(), key=lambda c: c.item))
    ]
    _write("items.csv", ("item", "stratum", "probability", "split"), facts)


def _people(rng: random.Random, rows: list[dict], item: str, right: bool, i: int) -> None:
    at = START + timedelta(days=28, minutes=i)
    for person, sight in PEOPLE.items():
        if rng.random() < 0.1:
            continue  # a gap
        value = _word(right if rng.random() < sight else not right)
        rows.append(_row(item, person, value, kind="annotator", at=at))
    if i % 20:  # the expert left a few open
        rows.append(_row(item, "expert", _word(right), kind="gold", at=at + timedelta(days=1)))


def _machines(rng: random.Random, rows: list[dict], item: str, right: bool, i: int) -> None:
    at = START + timedelta(days=27, minutes=i)
    ease = rng.choice((0.97, 0.9, 0.6))
    for draw in range(5):
        if i % 40 == 7 or rng.random() < 0.02:
            value = "I cannot say."  # nothing that can be read
        else:
            value = _word(right if rng.random() < ease else not right)
        rows.append(_row(item, "sampler", value, kind="evaluator", version="v1", sample=draw, at=at))
    score = min(1.0, max(0.0, rng.gauss(0.72 if right else 0.42, 0.16)))
    rows.append(_row(item, "scorer", round(score, 2), kind="evaluator", version="v1", at=at))


def _pairs(rng: random.Random, rows: list[dict]) -> None:
    for n in range(60):
        item, at = f"p-{n:02d}", START + timedelta(days=30, minutes=n)
        better = rng.choices(("old", "new", "tie"), (0.3, 0.55, 0.15))[0]
        for person in PEOPLE:
            value = better if rng.random() < 0.85 else rng.choice(("old", "new", "tie"))
            rows.append(_row(item, person, value, kind="annotator", dimension="Better", at=at))
        for order, first in (("old first", "old"), ("new first", "new")):
            value = better if rng.random() < 0.75 else first  # in doubt it likes what it reads first
            more = {"kind": "evaluator", "version": "v1", "order": order, "dimension": "Better"}
            rows.append(_row(item, "picker", value, at=at, **more))


def _row(item: str, rater: str, value: object, at: datetime, **more: object) -> dict:
    return {"item": item, "dimension": "Correct", "rater": rater, "value": value, "at": at.isoformat(), **more}


def _word(right: bool) -> str:
    return "Pass" if right else "Fail"


def _write(name: str, columns: tuple[str, ...], rows: list[dict]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
