"""How long the whole calibration of one dimension takes: ``python -m tests.benchmarks.calibration_speed``.

Every judge beside the annotators with its verdict, the alternative annotator test, against majority and adjudicated gold with
and without weights, calibration of stated confidences, corrected rates of 30 days, judges side by side and together,
reliability and thresholds, all with their intervals. Seconds of CPU and by the clock, and the peak of memory of a fresh
process for each row.

``--quick`` leaves out the largest rows.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.calibration.alt_test import alt_test
from calibrate_plugin.calibration.ceiling import ceiling, judges_together
from calibrate_plugin.calibration.confidence import of_stated
from calibrate_plugin.calibration.design import Design
from calibrate_plugin.calibration.gold import adjudicated, against_gold, majority
from calibrate_plugin.calibration.icc import reliability
from calibrate_plugin.calibration.panel import Panel, coverage, panel
from calibrate_plugin.calibration.rates import Production, corrected_rates
from calibrate_plugin.calibration.side_by_side import side_by_side
from calibrate_plugin.calibration.thresholds import thresholds
from calibrate_plugin.model import Scale

#: items, annotators, judges, categories (0: a rating without a step)
ROWS = (
    (1_000, 3, 10, 5),
    (100_000, 3, 1, 2),
    (100_000, 3, 10, 2),
    (100_000, 3, 10, 5),
    (100_000, 3, 20, 5),
    (100_000, 5, 10, 5),
    (100_000, 3, 10, 20),
    (100_000, 3, 10, 0),
)


def made(items: int, people: int, judges: int, categories: int) -> tuple[Panel, NDArray[Any]]:
    """Annotators who answer 70 % of the items each, judges who answer all, and adjudicated gold; and what the items are."""
    rng = np.random.default_rng(0)
    q = categories or 5
    inside = rng.integers(0, q, items)
    if categories == 2:
        scale = Scale("binary", ("pass", "fail"))
    else:
        step = Fraction(1) if categories else None
        scale = Scale("rating", low=Fraction(1), high=Fraction(q), step=step)

    def rater(loyalty: float, answered: float = 1.0) -> NDArray[Any]:
        said = np.where(rng.random(items) < loyalty, inside, rng.integers(0, q, items)).astype(np.float64)
        if not categories:
            said = np.clip(said + 1 + rng.normal(0, 0.2, items), 1, q).round(2)
        said[rng.random(items) >= answered] = np.nan
        return said

    seen = panel(
        scale,
        {f"person {i}": rater(0.7, 0.7) for i in range(people)},
        {f"judge {i}": rater(0.6) for i in range(judges)},
        {"lead": rater(0.95)},
    )
    return seen, inside


def everything(items: int, people: int, judges: int, categories: int) -> dict[str, float]:
    """Seconds of CPU by part."""
    seen, inside = made(items, people, judges, categories)
    told, rng = Resampling(), np.random.default_rng(1)
    lopsided = Design("by_judge", inside % 2, np.where(inside % 2, 0.5, 0.1), "judge 0")
    most, lead = majority(seen), adjudicated(seen)
    took: dict[str, float] = {}

    def timed(name: str, work: Callable[[], object]) -> None:
        started = time.process_time()
        work()
        took[name] = took.get(name, 0.0) + time.process_time() - started

    days = [Production((1000, 200), str(day)) for day in range(30)]
    for j in seen.evaluators:
        timed("ceiling", lambda j=j: ceiling(seen, j, told, design=lopsided))  # type: ignore[misc]
        timed("alternative annotator", lambda j=j: alt_test(seen, j, told))  # type: ignore[misc]
        timed("gold", lambda j=j: against_gold(seen, j, most, told))  # type: ignore[misc]
        timed("gold", lambda j=j: against_gold(seen, j, lead, told, design=lopsided))  # type: ignore[misc]
        timed("coverage", lambda j=j: coverage(seen, j))  # type: ignore[misc]
        if categories:
            sure = rng.random(items).round(2)
            timed("confidence", lambda j=j, sure=sure: of_stated(sure, seen.own[j], lead, told))  # type: ignore[misc]
        if categories == 2:
            timed("rates", lambda j=j: corrected_rates(seen, j, lead, days, told, design=Design("random")))  # type: ignore[misc]
    timed("side by side", lambda: side_by_side(seen, seen.evaluators, told, gold=lead))
    timed("judges", lambda: judges_together(seen, seen.evaluators, told))
    timed("reliability", lambda: reliability(seen, told))
    half = rng.random(items) < 0.5
    timed("thresholds", lambda: thresholds(rng.random(items), (inside == 0).astype(int), dev=half, test=~half))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row is not None:
        started = time.monotonic()
        took = everything(*ROWS[given.row])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        parts = ", ".join(f"{k} {v:.1f}" for k, v in sorted(took.items(), key=lambda p: -p[1]) if v >= 0.05)
        items, people, judges, q = ROWS[given.row]
        name = f"{items:,} items, {people} annotators, {judges} judges, {q or 'any'} values"
        print(
            f"{name:60s} cpu {sum(took.values()):6.1f} s  clock {time.monotonic() - started:6.1f} s  {peak} MB  ({parts})",
            flush=True,
        )
        return
    for i, row in enumerate(ROWS):
        if not (given.quick and row[0] > 1_000 and row[2] > 1):
            subprocess.run([sys.executable, "-m", "tests.benchmarks.calibration_speed", "--row", str(i)], check=True)


if __name__ == "__main__":
    main()
