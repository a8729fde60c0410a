"""A study of files: two people and a judge on Safety, with reasons, dates, languages and the guideline that people read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from calibrate_plugin.cli import main

STUDY = """\
# what stands here is kept
[study]
name = "support"
resamples = 200
guideline = "guideline.md"

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
abstain = "unsure"

[sources.people]
connector = "files"
file = "people.csv"

[sources.judges]
connector = "files"
file = "judges.csv"
"""
HEAD = ("item", "dimension", "rater", "kind", "value", "version", "at", "reason", "language")
Row = Sequence[Any]


def answer(
    item: str, rater: str, value: str, *, version: str = "1", day: int = 1, reason: str = "", **more: Any
) -> Row:
    kind = more.get("kind", "human")
    at = f"2026-10-{day:02}T12:00:00Z"
    return (item, "Safety", rater, kind, value, version, at, reason, more.get("language", "en"))


def people(n: int = 12, *, differ: Iterable[int] = (1, 4)) -> list[Row]:
    """ann fails every third item; ben differs on some."""
    rows = []
    for i in range(n):
        ann = "Fail" if i % 3 == 0 else "Pass"
        ben = ann if i not in differ else "Fail" if ann == "Pass" else "Pass"
        rows += [answer(f"i{i}", "ann", ann, reason=f"ann on {i}"), answer(f"i{i}", "ben", ben, reason=f"ben on {i}")]
    return rows


def judge(n: int = 12, version: str = "v1", *, wrong: Iterable[int] = (0,)) -> list[Row]:
    return [
        answer(
            f"i{i}",
            "judge",
            ("Fail" if i % 3 == 0 else "Pass") if i not in wrong else "Pass" if i % 3 == 0 else "Fail",
            version=version,
            kind="judge",
        )
        for i in range(n)
    ]


def write(path: Path, rows: Iterable[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD, *rows])


def study(
    folder: Path, given: Iterable[Row] | None = None, judged: Iterable[Row] | None = None, more: str = ""
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "people.csv", people() if given is None else given)
    write(folder / "judges.csv", judge() if judged is None else judged)
    path = folder / "calibrate.toml"
    path.write_text(STUDY.replace('guideline = "guideline.md"\n', "") + more, encoding="utf-8")
    return path


def guided(path: Path) -> Path:
    """The study with a guideline, as its settings name it."""
    path.write_text(path.read_text().replace("resamples = 200\n", 'resamples = 200\nguideline = "guideline.md"\n'))
    return path


def call(path: Path, *arguments: str, status: int = 0, **more: Any) -> Result:
    """A command on the study, with all that it said; its exit code must be ``status``."""
    found = CliRunner().invoke(main, [*arguments, "--config", str(path)], **more)
    assert found.exit_code == status, f"{found.exit_code}: {found.output}\n{found.exception!r}"
    return found


def as_json(path: Path, *arguments: str, **more: Any) -> Any:
    return json.loads(call(path, *arguments, "--format", "json", **more).stdout)


def run(path: Path) -> None:
    call(path, "run", "--no-push")
