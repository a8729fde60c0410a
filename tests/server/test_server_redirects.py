"""Keys and secrets go to the server that the study names, and never follow it to another one."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibrate_plugin import alerts
from calibrate_plugin.config import load
from calibrate_plugin.connector import (
    ConnectorError,
    Results,
    Since,
    SourceSettings,
    Webhooks,
    open_source,
)
from calibrate_plugin.model import Coverage, Report
from calibrate_plugin.store import Store
from calibrate_plugin.store.outbox import Outbox

KEYS = {
    "LABEL_STUDIO_API_KEY": "label-studio-key-0123456789",
    "LANGFUSE_PUBLIC_KEY": "pk-lf-public-0123456789",
    "LANGFUSE_SECRET_KEY": "sk-lf-secret-0123456789",
    "HOOK_SECRET": "whsec_" + base64.b64encode(b"a secret of 24 bytes....").decode(),
}
SECRET = "the-secret-of-the-webhooks"


@dataclass
class Host:
    """A server that answers everything alike, and remembers what it heard."""

    port: int
    heard: list[str] = field(default_factory=list)


@contextlib.contextmanager
def host(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            made.heard.append(f"{self.command} {self.path}\n{self.headers}\n{body!r}")
            answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    server = ThreadingHTTPServer(("", 0), Handler)
    made = Host(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[tuple[Host, Host]]:
    """One that sends everybody on to the other, which would take anything."""

    def takes(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    with host(takes) as elsewhere:

        def sends_on(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(request.param)
            handler.send_header("location", f"http://localhost:{elsewhere.port}{handler.path}")
            handler.send_header("content-length", "0")
            handler.end_headers()

        with host(sends_on) as named:
            yield named, elsewhere


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # tries again at once


REPORT = Report("support", datetime(2026, 10, 1, tzinfo=UTC), (), Coverage(0, 0, 0, 0, 0, 0, {}, ()), "landis-koch", ())
ITEMS = pl.DataFrame(schema={"item": pl.String, "dimension": pl.String, "agreement": pl.Float64, "n_pairs": pl.Int64})
everywhere = pytest.mark.parametrize("hosts", [301, 302, 303, 307, 308], indirect=True)


@everywhere
@pytest.mark.parametrize("connector", ["label-studio", "langfuse"])
def test_the_key_of_a_platform_stays_with_it(hosts: tuple[Host, Host], connector: str, monkeypatch: Any) -> None:
    named, elsewhere = hosts
    for name in ("LABEL_STUDIO_URL", "LANGFUSE_BASE_URL"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{named.port}")
    options = {"projects": [1], "item": "data.id"} if connector == "label-studio" else {"item": "trace"}
    source: Any = open_source(SourceSettings("there", connector, push={}, options=options, labels={"S": ("s",)}))
    attempts = [
        lambda: source.identity(),
        lambda: list(source.pull(Since())),
        lambda: list(source.pull(Since(full=True))),
        lambda: source.check(),
        lambda: source.discover(),
        lambda: source.push(Results(REPORT, ITEMS)),
        lambda: source.unpush({"project 1": "x"}),
    ]
    if isinstance(source, Webhooks):
        url = "https://calibrate.example.com/webhooks/there"
        attempts += [
            lambda: source.install_webhooks(url, SECRET),
            lambda: source.webhooks(url),
            lambda: source.remove_webhooks(url),
        ]
    for attempt in attempts:
        with contextlib.suppress(ConnectorError):
            attempt()
    assert len(named.heard) >= 5, "the server that is named was asked"
    assert elsewhere.heard == []


ALERTING = """
[study]
name = "support"
[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
[sources.people]
connector = "files"
file = "people.csv"
[alerts]
slack = "SLACK_URL"
webhook = "HOOK_URL"
secret = "HOOK_SECRET"
"""


@everywhere
def test_an_alert_goes_to_the_address_that_was_given_and_is_kept_until_it_is_taken_there(
    hosts: tuple[Host, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, elsewhere = hosts
    for name in ("SLACK_URL", "HOOK_URL"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{named.port}/services/hidden")
    path = tmp_path / "calibrate.toml"
    path.write_text(ALERTING)
    config = load(path)
    with Store(config.store) as store:
        alerts.raise_events(store, config, [alerts.Event("a", "sync", True, "a test")], store.now())
        waiting = alerts.deliver(store, config)
        assert {w.channel for w in waiting} == {"slack", "webhook"} and all("30" in w.error for w in waiting)
        assert Outbox(store).listed(delivered=True) == []
    assert len(named.heard) == 2 and elsewhere.heard == []
