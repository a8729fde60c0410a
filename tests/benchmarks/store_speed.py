"""How fast the store writes and reads, how much memory it takes, and how long a webhook waits while it is busy.

    python -m tests.benchmarks.store_speed [--sizes 10000,100000,1000000] [--url postgresql://...]

Each sync runs in a process of its own, so that its peak memory is its own; another process meanwhile writes a hint every
2 ms, as a webhook would, and measures how long each takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

from calibrate_plugin.connector import Covered, Page, Scope, Since
from calibrate_plugin.model import LABELS, frame
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync

PAGE = 10_000
START = datetime(2026, 1, 1, tzinfo=UTC)


class Synthetic:
    """``size`` labels of 8 per item: two annotators (Label Studio's shape) and two judges (Langfuse's) on two dimensions.
    Judges' labels have written reasons. ``edited``: how many of them differ from the first time."""

    def __init__(self, size: int, edited: int = 0) -> None:
        self.size, self.edited = size, edited

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        for start in range(0, self.size, PAGE):
            yield Page(self.page(start, min(PAGE, self.size - start)))
        yield Covered(Scope(), "all")

    def page(self, start: int, count: int) -> pl.DataFrame:
        rows = np.arange(start, start + count)
        item = rows // 8
        judge = rows % 4 >= 2
        # ids as the platforms give them: Langfuse's are random, Label Studio's count up
        random = Random(start)
        ids = [f"{random.getrandbits(128):032x}" for _ in rows]
        edited = rows < self.edited
        one = pl.DataFrame(
            {
                "row": rows,
                "item": [f"{Random(int(i)).getrandbits(128):032x}" for i in item],
                "judge": judge,
                "who": rows % 2,
                "field": np.where(rows % 8 < 4, "Safety", "Empathy"),
                "value": np.where(edited, '"Fail"', np.where(rows % 3 == 0, '"Fail"', '"Pass"')),
                "score": ids,
                "edited": edited,
            }
        )
        number = pl.col("row").cast(pl.String)
        text = (
            "because the answer number " + number + " says nothing of the kind, as one can see in its second sentence"
        )
        who = pl.col("who").cast(pl.String)
        return frame(
            LABELS,
            one.select(
                record=pl.when("judge").then("score").otherwise(number),
                seq="row",
                item="item",
                field="field",
                value="value",
                state=pl.lit("answered"),
                rater=pl.when("judge").then("judge-" + who).otherwise(who),
                kind=pl.when("judge").then(pl.lit("evaluator")).otherwise(pl.lit("annotator")),
                version=pl.when("judge").then(pl.lit("v3")),
                job=pl.when(~pl.col("judge")).then(pl.lit("12")),
                task=pl.when(~pl.col("judge")).then((pl.col("row") // 8).cast(pl.String)),
                at=pl.lit(START) + pl.duration(seconds="row"),
                placed=pl.when("judge").then(pl.lit(START) + pl.duration(seconds="row")),
                reason=pl.when("judge").then(text),
                link=pl.when("judge")
                .then("https://langfuse.example.com/project/p/traces/" + pl.col("item"))
                .otherwise("https://labels.example.com/projects/12/data?task=" + (pl.col("row") // 8).cast(pl.String)),
            ),
        )


def child(where: str, what: str, size: int) -> None:
    """One measured job in a process of its own; prints its figures as JSON."""
    with Store(where) as store:
        begun, cpu = time.perf_counter(), time.process_time()
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if what == "read":
            rows = store.as_of().height
        elif what == "read without reasons":
            rows = store.as_of(reasons=False).height
        elif what == "read 100 items":
            items = store.as_of(1, fields=["Safety"], reasons=False)["item"].unique().sort()[:100].to_list()
            begun, cpu = time.perf_counter(), time.process_time()
            rows = store.as_of(items=items).height
        else:
            edited = {"first load": 0, "full again, nothing new": 0, "full again, 1,000 edits": 1000}[what]
            (outcome,) = sync(store, {"all": Synthetic(size, edited)}, full=True)
            assert outcome.outcome == "ok", outcome
            rows = outcome.seen
        figures = {
            "seconds": time.perf_counter() - begun,
            "cpu": time.process_time() - cpu,
            "rows": rows,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "base": base / 1024,
        }
    print(json.dumps(figures))


def webhooks(where: str) -> None:
    """Write hints until standard input closes; prints how long each took, in milliseconds."""
    import select

    waits = []
    with Store(where) as store:
        store.hint("people", "12")
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            begun = time.perf_counter()
            store.hint("people", "12")
            waits.append((time.perf_counter() - begun) * 1000)
    print(json.dumps(waits))


def run(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.benchmarks.store_speed", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def waited(hooks: subprocess.Popen[str]) -> str:
    """Stop the webhooks; how long theirs took, and what share took longer than 20 ms."""
    out, _ = hooks.communicate()
    times = np.array(json.loads(out.splitlines()[-1]))
    p50, p99, p999 = np.percentile(times, [50, 99, 99.9])
    slow = (times > 20).sum()
    return f"  hint ms p50 {p50:.1f} p99 {p99:.1f} p99.9 {p999:.1f} max {times.max():.1f} ({slow} of {len(times):,} over 20)"


def measure(where: str, what: str, size: int, beside: bool) -> None:
    hooks = run("--webhooks", where) if beside else None
    if hooks:
        assert hooks.stdout is not None
        assert hooks.stdout.readline().strip() == "ready"
    out, _ = run("--child", where, what, str(size)).communicate()
    figures = json.loads(out)
    waits = waited(hooks) if hooks else ""
    print(
        f"{size:>9,}  {what:<26} {figures['seconds']:6.2f} s (cpu {figures['cpu']:6.2f})"
        f"  {figures['rows'] / figures['seconds']:>9,.0f} rows/s  peak {figures['memory']:4.0f} MB"
        f" (before {figures['base']:.0f}){waits}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--url", help="an empty PostgreSQL database, instead of a SQLite file")
    parser.add_argument("--quiet", action="store_true", help="no webhooks beside")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--webhooks", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], given.child[1], int(given.child[2]))
        return
    if given.webhooks:
        webhooks(given.webhooks)
        return
    with tempfile.TemporaryDirectory(prefix="store-speed-") as folder:
        hooks = run("--webhooks", given.url or str(Path(folder) / "calibrate.db"))
        time.sleep(5)
        print(f"{'':>9}   nothing else{'':>16}{waited(hooks)}", flush=True)
    for size in map(int, given.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="store-speed-") as folder:
            where = given.url or str(Path(folder) / "calibrate.db")
            begun = time.perf_counter()
            for what in ("first load", "full again, nothing new", "full again, 1,000 edits"):
                measure(where, what, size, beside=not given.quiet)
            for what in ("read", "read without reasons", "read 100 items"):
                measure(where, what, size, beside=False)
            if not given.url:
                megabytes = sum(os.path.getsize(f) for f in Path(folder).iterdir()) / 1e6
                print(
                    f"{size:>9,}  {megabytes:.0f} MB on disk; all of it took {timedelta(seconds=round(time.perf_counter() - begun))}"
                )


if __name__ == "__main__":
    main()
