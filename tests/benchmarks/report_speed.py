"""How long ``calibrate-plugin report`` takes on Parquet, and how much memory, beside the peers' point values alone.

    python -m tests.benchmarks.report_speed [--items 1000000] [--rounds 5]

Ours computes every number of the report with its interval and all lists; the peers a part of the point values. Each
measurement is a fresh process, ours and theirs in turn, so that a busy machine slows both. Numbers that both compute are
compared. Last comes a cold ``report`` of a CSV of 1,000 items and of one of 1,000 rows, in seconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

# Nothing big may be imported here: Linux counts the memory of this process as the least peak of what it starts.

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds by the clock, seconds of user and of all CPU, peak of memory in MB."""

    wall: float
    user: float
    cpu: float
    peak: float


def timed(command: Sequence[str], output: Path | None = None) -> Took:
    """What a command took; its standard output goes to ``output``. RuntimeError with its last words if it fails."""
    with tempfile.TemporaryFile() as words, open(output or os.devnull, "wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=words)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            words.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed: {words.read().decode(errors='replace')[-2000:]}")
    return Took(wall, used.ru_utime, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def report(file: Path, output: Path) -> list[str]:
    command = Path(sysconfig.get_path("scripts")) / "calibrate-plugin"
    scale = ["--scale", "Quality=rating:1..5", "--format", "json", "--output", str(output)]
    return [str(command), "report", str(file), *scale]


def peers(file: Path) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.peers", str(file)]


def middle(all_took: Sequence[Took]) -> Took:
    return Took(*(median(getattr(t, name) for t in all_took) for name in ("wall", "user", "cpu", "peak")))


def common(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """The numbers that both report: name, ours, theirs."""
    found = ours["dimensions"][0]
    people, judge = found["annotators"], found["evaluators"][0]
    yield "human score", found["human_score"]["value"], theirs["human_score"]
    yield "evaluator score", judge["score"]["value"], theirs["evaluator_score"]
    for pair in people["pairs"]:
        name = " ".join(sorted((pair["a"], pair["b"])))
        yield f"kappa {name}", pair["kappa"]["value"], theirs["pairs"][name]
    yield "kappa evaluator", judge["kappa"]["value"], theirs["evaluator"]
    yield "agreement evaluator", judge["agreement"]["value"], theirs["evaluator_agreement"]
    for pair in judge["each"]:
        yield f"kappa evaluator {pair['b']}", pair["kappa"]["value"], theirs["evaluator_each"][pair["b"]]
    for metric, value in theirs["alphas"].items():
        yield f"alpha {metric}", people["alphas"][metric]["value"], value


def compare(folder: Path, items: int, rounds: int) -> None:
    file = folder / f"labels-{items}.parquet"
    made, values = folder / "report.json", folder / "peers.json"
    ours: list[Took] = []
    theirs: list[Took] = []
    for _ in range(rounds):
        ours.append(timed(report(file, made)))
        theirs.append(timed(peers(file), values))
    a, b = middle(ours), middle(theirs)
    print(f"\n{items:,} items, {file.stat().st_size / 2**20:.1f} MB of Parquet, median of {rounds} rounds")
    print(f"{'':34}{'wall s':>10}{'user s':>10}{'CPU s':>10}{'peak MB':>10}")
    for name, took in (("calibrate-plugin, with intervals", a), ("peers, point values alone", b)):
        print(f"{name:34}{took.wall:10.2f}{took.user:10.2f}{took.cpu:10.2f}{took.peak:10.0f}")
    print(
        f"{'peers / ours':34}{b.wall / a.wall:10.2f}{b.user / a.user:10.2f}{b.cpu / a.cpu:10.2f}{b.peak / a.peak:10.2f}"
    )
    numbers = list(common(json.loads(made.read_text()), json.loads(values.read_text())["values"]))
    worst = max(numbers, key=lambda n: abs(n[1] - n[2]))
    print(f"{len(numbers)} numbers that both report differ by {abs(worst[1] - worst[2]):.1e} at most ({worst[0]})")
    if not math.isclose(worst[1], worst[2], abs_tol=1e-9):
        raise SystemExit(f"{worst[0]}: ours is {worst[1]}, theirs {worst[2]}")


def cold(folder: Path, rounds: int) -> None:
    whole = folder / "labels-1000.csv"
    thousand = folder / "rows.csv"
    thousand.write_text("".join(_both_kinds(whole.read_text().splitlines(keepends=True))))
    for name, file in (("a CSV of 1,000 rows", thousand), ("a CSV of 1,000 items", whole)):
        took = middle([timed(report(file, folder / "report.json")) for _ in range(rounds)])
        print(f"cold report of {name}: {took.cpu:.2f} s of CPU, {took.wall:.2f} s wall, {took.peak:.0f} MB")


def _both_kinds(lines: list[str]) -> list[str]:
    """The header and the labels of the first items: 1,000 rows, people's and the evaluator's."""
    by_item: dict[int, list[str]] = {}
    for line in lines[1:]:
        by_item.setdefault(int(line.split(",", 1)[0]), []).append(line)
    return [lines[0], *(line for item in sorted(by_item) for line in by_item[item])][:1001]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = [str(n) for n in {*arguments.items, 1_000}]
        timed([sys.executable, "-m", "tests.benchmarks.data", name, "--items", *sizes])
        for items in arguments.items:
            compare(folder, items, arguments.rounds)
        print()
        cold(folder, arguments.rounds)


if __name__ == "__main__":
    main()
