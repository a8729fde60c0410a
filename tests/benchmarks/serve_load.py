"""How fast the service answers webhooks while it works, and what an event costs in stores of several sizes.

python tests/benchmarks/serve_load.py events --sizes 10000 100000 1000000
python tests/benchmarks/serve_load.py load --labels 1000000 --seconds 60 --rate 50
python tests/benchmarks/serve_load.py pages --labels 1000000
python tests/benchmarks/serve_load.py page --turns 20   (with LABEL_STUDIO_BIN, and Chromium)
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))

from calibrate_plugin.config import load
from calibrate_plugin.connector import Covered, Page, Scope
from calibrate_plugin.model import LABELS, frame
from calibrate_plugin.server.numbers import Numbers
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync

SETTINGS = """
[study]
name = "load"
[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
[sources.people]
connector = "files"
file = "people.csv"
"""


class Pieces:
    """A source that says prepared pieces."""

    def __init__(self, *pieces: Page | Covered) -> None:
        self.pieces = pieces
        self.wants_body = False

    def pull(self, since=None):
        yield from self.pieces


def many(n: int) -> pl.DataFrame:
    """n labels: two people and a judge on each item."""
    items = -(-n // 3)
    i = pl.int_range(n, eager=True)
    rater = pl.Series(["ann", "ben", "judge"]).gather(i % 3)
    return frame(
        LABELS,
        {
            **{c: [None] * n for c in LABELS},
            "record": i.cast(pl.String),
            "item": "item " + (i // 3).cast(pl.String),
            "task": (i // 3).cast(pl.String),
            "field": ["Safety"] * n,
            "value": pl.Series(['"Pass"', '"Fail"']).gather(((i * 2654435761) // 7 % 10 < 3).cast(pl.Int64)),
            "state": ["answered"] * n,
            "rater": rater,
            "kind": pl.Series(["annotator", "annotator", "evaluator"]).gather(i % 3),
            "version": pl.Series([None, None, "v1"], dtype=pl.String).gather(i % 3),
            "at": [datetime(2026, 10, 1, tzinfo=UTC)] * n,
        },
    ).head(items * 3)


def filled(store: Store, n: int, run: pl.Expr | None = None) -> pl.DataFrame:
    labels = many(n) if run is None else many(n).with_columns(run=run)
    started = time.monotonic()
    (outcome,) = sync(store, {"people": Pieces(Page(labels), Covered(Scope(), "0"))})
    assert outcome.outcome == "ok", outcome.message
    print(f"{n:>9,} labels stored in {time.monotonic() - started:.1f} s")
    return labels


def changed(labels: pl.DataFrame, task: int, turn: int) -> Pieces:
    """One person gives the other answer to a task, so that every number moves."""
    other = pl.when(pl.col("value") == '"Pass"').then(pl.lit('"Fail"')).otherwise(pl.lit('"Pass"'))
    rows = labels.filter(pl.col("task") == str(task)).with_columns(
        value=pl.when(pl.col("rater") == "ann").then(other).otherwise("value")
    )
    return Pieces(Page(rows), Covered(Scope(tasks=(str(task),)), str(turn)))


def events(sizes: list[int], turns: int) -> None:
    """The cost of one event: the pull of one task, and the numbers after it."""
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "calibrate.db") as store:
            (Path(folder) / "calibrate.toml").write_text(SETTINGS)
            study = load(Path(folder) / "calibrate.toml").study
            labels = filled(store, n)
            numbers = Numbers(store, study)
            started = time.monotonic()
            numbers.follow(store.now())
            first = time.monotonic() - started
            pulls, counts = [], []
            for turn in range(turns):
                started = time.monotonic()
                sync(store, {"people": changed(labels, turn * 7, turn)})
                pulls.append(time.monotonic() - started)
                started = time.monotonic()
                assert numbers.follow(store.now()), "nothing changed"
                counts.append(time.monotonic() - started)
                assert numbers.state is not None and not numbers.state.full
            print(
                f"{n:>9,} labels: all at once {first:.2f} s; an event: pull {statistics.median(pulls) * 1000:.0f} ms,"
                f" numbers {statistics.median(counts) * 1000:.0f} ms (median of {turns})"
            )


def load_test(n: int, seconds: float, rate: float) -> None:
    """Webhooks at a steady rate while the worker pulls and counts: how long the answers take, and whether all are stored."""
    import os

    import httpx
    import uvicorn
    from calibrate_label_studio.webhooks import HEADER
    from told import Woken

    from calibrate_plugin.server.access import Access
    from calibrate_plugin.server.app import application, guarded
    from calibrate_plugin.server.service import Pace, Service

    os.environ["CALIBRATE_WEBHOOK_SECRET"] = secret = "the secret of the webhooks"
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "calibrate.db") as store:
        (Path(folder) / "calibrate.toml").write_text(SETTINGS)
        labels = filled(store, n)

        class Busy(Woken):
            turn = 0

            def pull(self, since=None):
                self.turn += 1
                yield from changed(labels, self.turn * 7 % max(1, n // 3), self.turn).pieces

        service = Service(load(Path(folder) / "calibrate.toml"), store, {"people": Busy()}, Pace(debounce=0.5, cap=1.0))
        port = _free()
        access = Access()
        app = guarded(application(service, access), access)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run)
        thread.start()
        while service.state is None:
            time.sleep(0.1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times: list[float] = []
        client = httpx.Client(headers={HEADER: secret}, timeout=30)

        def send() -> None:
            started = time.monotonic()
            status = client.post(f"http://127.0.0.1:{port}/webhooks/people?project=12").status_code
            times.append(time.monotonic() - started)
            assert status == 202, status

        first = store.hint("people", "12")
        total = int(seconds * rate)
        started = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            sent = []
            for i in range(total):
                time.sleep(max(0.0, started + i / rate - time.monotonic()))
                sent.append(pool.submit(send))
            for one in sent:
                one.result()
        last = store.hint("people", "12")
        times.sort()
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            f"{total} webhooks in {time.monotonic() - started:.0f} s with {n:,} labels: median"
            f" {times[total // 2] * 1000:.0f} ms, p99 {times[int(total * 0.99)] * 1000:.0f} ms, worst"
            f" {times[-1] * 1000:.0f} ms; {last - first - 1} of {total} in the store; memory +{memory:.0f} MB;"
            f" {service.state.serial} reports"
        )
        server.should_exit = True
        thread.join(30)


PAGES = (
    "/",
    "/dimensions/Safety",
    "/disagreements?dimension=Safety",
    "/disagreements?dimension=Safety&kind=humans",
    "/disagreements?dimension=Safety&page=1000",
    "/versions?dimension=Safety&evaluator=judge",
    "/runs/night",
    "/why?dimension=Safety",
    "/health",
    "/api/v1/report",
    "/api/v1/calibration",
    "/metrics",
)


def pages_test(n: int) -> None:
    """How long each page takes right after new numbers, and when it is looked at again; with the numbers following meanwhile."""
    from starlette.testclient import TestClient

    from calibrate_plugin.server.access import Access
    from calibrate_plugin.server.app import application, guarded
    from calibrate_plugin.server.background import Background
    from calibrate_plugin.server.service import Service
    from calibrate_plugin.server.worker import Worker

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "calibrate.db") as store:
        (Path(folder) / "calibrate.toml").write_text(SETTINGS)
        run = pl.when(pl.col("kind") == "evaluator").then(pl.lit("night"))
        labels = filled(store, n, run)
        told = changed(labels, 0, 0)
        source = Pieces()
        service = Service(load(Path(folder) / "calibrate.toml"), store, {"people": source})
        access = Access()
        client = TestClient(guarded(application(service, access, working=False), access), base_url="http://localhost")
        worker, background = Worker(service), Background(service)
        source.pieces = (Covered(Scope(tasks=()), "1"),)
        worker.step()
        background.step()

        def seconds(path: str) -> float:
            started = time.monotonic()
            assert client.get(path).status_code == 200, path
            return time.monotonic() - started

        for path in PAGES:
            seconds(path)  # what is imported once is no cost of a page
        firsts: dict[str, list[float]] = {path: [] for path in PAGES}
        again: dict[str, list[float]] = {path: [] for path in PAGES}
        shown = []
        for turn in range(5):
            told = changed(labels, 1 + turn, turn)
            source.pieces = told.pieces
            store.hint("people", "12")
            service.ask("people")
            started = time.monotonic()
            worker.step()
            shown.append(time.monotonic() - started)
            for path in PAGES:
                firsts[path].append(seconds(path))
            for path in PAGES:
                again[path].append(seconds(path))
            background.step()
        print(f"an event, drawn and shown: {statistics.median(shown) * 1000:.0f} ms with {n:,} labels")
        for path in PAGES:
            first, later = (max(found[path]) * 1000 for found in (firsts, again))
            print(f"{path:<48} first {first:5.0f} ms, then {later:5.0f} ms (worst of 5)")


def page_test(turns: int) -> None:
    """From a label given in a real Label Studio to the number on an open page in Chromium."""
    import os
    import subprocess

    import httpx
    from click.testing import CliRunner
    from playwright.sync_api import sync_playwright

    from calibrate_plugin.cli import main as command

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
    from label_studio_server import choose, running

    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as studio:
        os.environ |= {
            "LABEL_STUDIO_URL": studio.url,
            "LABEL_STUDIO_API_KEY": studio.token,
            "CALIBRATE_WEBHOOK_SECRET": "the secret of the webhooks",
        }
        project = studio.project("served")
        path = Path(folder) / "calibrate.toml"
        people = f"""connector = "label-studio"
projects = [{project}]
item = "data.trace_id"
labels = {{ Safety = "safety" }}
[push.people]
"""
        path.write_text(SETTINGS.split("connector")[0] + people)
        ann, ben, _ = studio.people
        tasks = studio.replies(project, turns + 4)
        for task in tasks:
            studio.annotate(task, ann, choose("safety", "Pass"))
        for task in tasks[:4]:
            studio.annotate(task, ben, choose("safety", "Pass"))
        port = _free()
        start = [sys.executable, "-c", "from calibrate_plugin.cli import main; main()", "serve", "--debounce", "0"]
        process = subprocess.Popen([*start, "--config", str(path), "--port", str(port)], stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            while True:
                try:
                    if httpx.get(f"{url}/readyz").is_success:
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.1)
            made = CliRunner().invoke(command, ["webhooks", "install", "--config", str(path), "--url", url])
            assert made.exit_code == 0, made.output
            with sync_playwright() as playwright:
                arguments = ["--headless=new", "--no-sandbox", "--disable-gpu"]
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
                page = browser.new_page()
                page.goto(f"{url}/dimensions/Safety")
                pairs = page.locator(".card.human dd").nth(1)
                times = []
                for turn in range(turns):
                    started = time.monotonic()
                    studio.annotate(tasks[4 + turn], ben, choose("safety", "Fail" if turn % 2 else "Pass"))
                    given = time.monotonic()
                    page.wait_for_function(
                        "n => document.querySelectorAll('.card.human dd')[1].textContent.includes(n + ' pairs')",
                        arg=5 + turn,
                    )
                    times.append(time.monotonic() - started)
                    print(f"  {times[-1]:.2f} s, of which Label Studio {given - started:.2f} s; {pairs.inner_text()!r}")
                browser.close()
            times.sort()
            print(f"label given to number changed on an open page: median {statistics.median(times):.2f} s,")
            print(f"  worst {times[-1]:.2f} s of {turns}")
        finally:
            process.terminate()
            process.wait(30)


def _free() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_events = commands.add_parser("events")
    of_events.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    of_events.add_argument("--turns", type=int, default=20)
    of_load = commands.add_parser("load")
    of_load.add_argument("--labels", type=int, default=1_000_000)
    of_load.add_argument("--seconds", type=float, default=60)
    of_load.add_argument("--rate", type=float, default=50)
    of_pages = commands.add_parser("pages")
    of_pages.add_argument("--labels", type=int, default=1_000_000)
    of_page = commands.add_parser("page")
    of_page.add_argument("--turns", type=int, default=20)
    given = parser.parse_args()
    if given.command == "pages":
        pages_test(given.labels)
    elif given.command == "page":
        page_test(given.turns)
    elif given.command == "events":
        events(given.sizes, given.turns)
    else:
        load_test(given.labels, given.seconds, given.rate)


if __name__ == "__main__":
    main()
