"""Over TLS only whom a known authority vouches for is talked to, by every client that carries a key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from calibrate_plugin import alerts
from calibrate_plugin.config import read
from calibrate_plugin.connector import Checks, ConnectorError, Identified, SourceSettings, open_source
from calibrate_plugin.store import Store

ANSWERS: dict[str, Any] = {
    "/api/current-user/whoami": {"id": 1, "email": "a@example.com", "active_organization": 1},
    "/api/organizations/1": {"id": 1, "created_at": "2026-01-01T00:00:00Z"},
    "/api/public/projects": {"data": [{"id": "p", "name": "demo"}]},
}


@dataclass
class Secured:
    """A server with a certificate, and what reached it."""

    url: str
    authority: Path
    requests: list[tuple[str, str | None]] = field(default_factory=list)


def served(certificate: trustme.LeafCert, seen: list[tuple[str, str | None]]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append((self.path, self.headers.get("Authorization")))
            body = json.dumps(ANSWERS.get(self.path.rstrip("/"), {})).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            return  # a client that breaks off

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    # Shaken hands in the thread of the connection: a client that breaks off must not end the server.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


@pytest.fixture(params=["unknown authority", "another host", "expired"])
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    """A server whose certificate proves nothing. ``authority`` is one that the client knows."""
    known, other = trustme.CA(), trustme.CA()
    issued = {
        "unknown authority": lambda: other.issue_cert("127.0.0.1"),
        "another host": lambda: known.issue_cert("elsewhere.example.com"),
        "expired": lambda: known.issue_cert("127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC)),
    }
    yield from running(known, issued[request.param](), tmp_path)


@pytest.fixture
def right(tmp_path: Path) -> Iterator[Secured]:
    authority = trustme.CA()
    yield from running(authority, authority.issue_cert("127.0.0.1"), tmp_path)


def running(authority: trustme.CA, certificate: trustme.LeafCert, folder: Path) -> Iterator[Secured]:
    path = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    seen: list[tuple[str, str | None]] = []
    server = served(certificate, seen)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield Secured(f"https://127.0.0.1:{server.server_address[1]}", path, seen)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a-secret-token")
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-a-secret-key")


def source(connector: str, server: Secured, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LABEL_STUDIO_URL", server.url)
    monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
    options: dict[str, Any] = {"ca_file": str(server.authority)}
    if connector == "label-studio":
        options["projects"] = [1]
    return open_source(SourceSettings("s", connector, options=options))


@pytest.mark.parametrize("connector", ["label-studio", "langfuse"])
def test_no_key_goes_to_a_server_with_a_wrong_certificate(
    connector: str, wrong: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = source(connector, wrong, monkeypatch)
    assert isinstance(opened, Identified)
    assert isinstance(opened, Checks)
    with pytest.raises(ConnectorError, match=r"(?i)certificate"):
        opened.identity()
    try:
        problems = [f.message + f.fix for f in opened.check() if f.level == "problem"]
    except ConnectorError as error:
        problems = [str(error)]
    assert any("certificate" in p.lower() for p in problems), problems
    assert "secret" not in str(problems)
    assert wrong.requests == []


@pytest.mark.parametrize("connector", ["label-studio", "langfuse"])
def test_a_server_that_a_declared_authority_vouches_for_is_read(
    connector: str, right: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right.url in source(connector, right, monkeypatch).identity()
    assert right.requests and all(key for _, key in right.requests)


def waiting(folder: Path) -> tuple[Store, Any]:
    document = {
        "study": {"name": "s"},
        "dimensions": {"Safety": {"scale": "binary", "values": ["Pass", "Fail"]}},
        "sources": {"people": {"connector": "files", "file": "a.csv"}},
        "alerts": {"webhook": "HOOK_URL", "secret": "HOOK_SECRET"},
    }
    config = read(document, folder / "calibrate.toml")
    store = Store(config.store)
    now = store.now()
    alerts.raise_events(store, config, [alerts.Event("test", "test", True, "a test")], now)
    return store, config


def test_no_alert_goes_to_a_receiver_with_a_wrong_certificate_and_it_waits(
    wrong: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(wrong.authority))
    store, config = waiting(tmp_path)
    environment = {"HOOK_URL": f"{wrong.url}/hidden-path", "HOOK_SECRET": secret()}
    with store:
        (left,) = alerts.deliver(store, config, environment=environment)
    assert left.error is not None and "certificate" in left.error.lower()
    assert "hidden-path" not in left.error
    assert wrong.requests == []


def test_an_alert_reaches_a_receiver_whose_authority_is_known(
    right: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(right.authority))
    store, config = waiting(tmp_path)
    with store:
        environment = {"HOOK_URL": f"{right.url}/in", "HOOK_SECRET": secret()}
        assert alerts.deliver(store, config, environment=environment) == []
    assert [path for path, _ in right.requests] == ["/in"]


def secret() -> str:
    return f"whsec_{base64.b64encode(b'a secret of 24 bytes....').decode()}"
