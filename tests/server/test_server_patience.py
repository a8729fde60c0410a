"""Clients that are slow on purpose are let go, whatever they are slow with; those who only listen are not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import uvicorn
from served_study import Served
from told import until

from calibrate_plugin.server.access import Access
from calibrate_plugin.server.app import application, guarded
from calibrate_plugin.server.patience import Patient


class Hasty(Patient):
    HEADERS, WHOLE = 0.4, 0.8


@pytest.fixture
def port(ready: Served) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    access = Access()
    app = guarded(application(ready.service, access, working=False), access)
    config = uvicorn.Config(app, port=number, http=Hasty, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield number
    server.should_exit = True
    thread.join(10)


def let_go(port: int, begin: bytes, drip: bytes) -> bool:
    """Whether the server closes a connection that begins so and then sends a byte at a time, for ever."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.05) as connection:
        connection.sendall(begin)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with suppress(TimeoutError):
                if connection.recv(65_536) == b"":
                    return True
            try:
                if drip:
                    connection.sendall(drip)
            except OSError:
                return True
    return False


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/v1/retry HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"", b""),  # says nothing
        (b"", b"G"),
        (GET + b"X-Slow: ", b"a"),
        (GET + b"\r\n" + GET, b"a"),  # the second request on a connection
        (POST + b"Content-Length: 60000\r\n\r\n", b"x"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"POST /webhooks/people?project=12 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n", b"x"),
    ],
)
def test_who_is_slow_is_let_go(port: int, begin: bytes, drip: bytes) -> None:
    assert let_go(port, begin, drip)


def test_a_hundred_slow_clients_keep_nobody_else_out(port: int) -> None:
    import httpx

    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for connection in slow:
        connection.sendall(GET)
    assert httpx.get(f"http://localhost:{port}/api/v1/studies", timeout=10).status_code == 200
    for connection in slow:
        connection.close()


def test_who_listens_and_who_comes_back_later_is_not_let_go(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as listening:
        listening.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in listening.recv(65_536)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as again:
            for _ in range(3):
                again.sendall(GET + b"\r\n")
                answer = b""
                while not answer.endswith(b"\r\n\r\nok"):
                    answer += (more := again.recv(65_536))
                    assert more, answer
                time.sleep(Hasty.WHOLE)  # longer than a request may take
        listening.settimeout(0.2)
        try:
            heard = listening.recv(65_536)
        except TimeoutError:
            heard = b"still open"
        assert heard != b""
