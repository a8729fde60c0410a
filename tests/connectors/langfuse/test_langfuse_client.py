"""One request: what is tried again, what is waited for, and how a server's no is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from calibrate_langfuse.client import ATTEMPTS, Clock, Langfuse, NotOffered, Refused, base_url, encoded

from calibrate_plugin.connector import ConnectorError, Unavailable

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OK = httpx.Response(200, json={"data": [1]})


class Server:
    """Answers in turn; the last answer again and again."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []
        self.now = NOW

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)

    def client(self, url: str = "https://lf.example") -> Langfuse:
        clock = Clock(lambda: self.now, self.sleep)
        return Langfuse(url, "pk", "sk-secret", clock=clock, transport=httpx.MockTransport(self))


def test_a_path_prefix_stays_in_every_address() -> None:
    server = Server(OK)
    server.client("https://tools.example/langfuse").get("/v3/scores", {"id": "a b,c", "limit": 1})
    assert str(server.requests[0].url) == "https://tools.example/langfuse/api/public/v3/scores?id=a+b%2Cc&limit=1"


def test_ids_in_a_path_keep_their_slashes_escaped() -> None:
    server = Server(OK)
    server.client().get("/v2/scores/a%2Fb%20c")
    assert server.requests[0].url.raw_path == b"/api/public/v2/scores/a%2Fb%20c"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://cloud.langfuse.com", "https://cloud.langfuse.com"),
        ("https://cloud.langfuse.com/", "https://cloud.langfuse.com"),
        (" http://localhost:3000/api/public/ ", "http://localhost:3000"),
        ("https://x.example/lf/api", "https://x.example/lf"),
    ],
)
def test_an_address_is_taken_as_people_copy_it(given: str, url: str) -> None:
    assert base_url(given, "sources.judges") == url


TROUBLES = [
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.RemoteProtocolError("cut"),
    httpx.Response(500, json={"message": "Internal Server Error"}),
    httpx.Response(502, html="<html>502</html>"),
    httpx.Response(503),
    httpx.Response(200, text='{"data": [1', headers={"Content-Type": "application/json"}),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=[str(i) for i in range(len(TROUBLES))])
def test_trouble_on_the_way_is_tried_again_for_a_while(trouble: Any) -> None:
    server = Server(trouble, trouble, OK)
    assert server.client().get("/x") == {"data": [1]}
    assert server.slept == [0.5, 1.0]
    server = Server(trouble)
    with pytest.raises(Unavailable, match=rf"GET https://lf.example/api/public/x failed {ATTEMPTS} times"):
        server.client().get("/x")
    assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (httpx.Response(400, json={"message": "Invalid request data", "error": [{"message": "bad limit"}]}), Refused, "status 400: bad limit"),
        (httpx.Response(400, json="Invalid JSON"), Refused, "status 400: Invalid JSON"),
        (httpx.Response(413, text="Body exceeded 1mb limit"), Refused, "status 413"),
        (httpx.Response(401, json={"message": "Invalid credentials."}), Unavailable, "Check LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"),
        (httpx.Response(403, json={"message": "Access denied"}), Unavailable, "may not do this: Access denied"),
        (httpx.Response(404, html="<!DOCTYPE html><html>"), NotOffered, "not on this server (a web page)"),
        (httpx.Response(405, json={"message": "Method not allowed"}), NotOffered, "not on this server: Method not allowed"),
        (httpx.Response(200, html="<!DOCTYPE html><html>Sign in"), Unavailable, "answered with a web page where JSON was due"),
        (httpx.Response(302, headers={"Location": "https://sso.example/?key=1"}), Unavailable, "sent on to another address"),
    ],
)  # fmt: skip
def test_a_no_is_told_at_once_with_the_address_and_never_the_key(
    answer: Any, kind: type[ConnectorError], words: str
) -> None:
    server = Server(answer)
    with pytest.raises(kind) as raised:
        server.client().get("/x")
    assert words in str(raised.value)
    assert "https://lf.example/api/public/x" in str(raised.value)
    assert "sk-secret" not in str(raised.value)
    assert len(server.requests) == 1


def limited(headers: dict[str, str], body: Any = None) -> httpx.Response:
    return httpx.Response(429, headers=headers, json=body or {"message": "Rate limit exceeded"})


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (limited({"Retry-After": "58", "X-RateLimit-Limit": "30"}), 58),
        (limited({"Retry-After": "0"}), 0.1),
        (limited({"Retry-After": "Mon, 30 Nov 2026 12:00:20 GMT"}), 20),
        (limited({}, {"details": {"retryAfterSeconds": 7}}), 7),
        (limited({"Retry-After": "soon"}), 5),
    ],
)
def test_a_short_wait_is_waited(answer: Any, seconds: float) -> None:
    server = Server(answer, OK)
    assert server.client().get("/x") == {"data": [1]}
    assert sum(server.slept) == pytest.approx(seconds, abs=0.05)


def test_a_wait_of_a_day_is_told_with_its_end() -> None:
    server = Server(limited({"Retry-After": "86398"}))
    with pytest.raises(Unavailable, match="opens again at 2026-12-01 11:59 UTC"):
        server.client().get("/x")
    assert server.slept == []


def test_a_server_that_always_says_wait_is_not_waited_for_without_end() -> None:
    server = Server(limited({"Retry-After": "100"}))
    with pytest.raises(Unavailable, match="the rate limit"):
        server.client().get("/x")
    assert sum(server.slept) < 2000


def test_once_the_limit_is_known_it_is_kept_with_room_for_others() -> None:
    server = Server(limited({"Retry-After": "10", "X-RateLimit-Limit": "10"}), OK)
    client = server.client()
    client.get("/x")
    times = []
    for _ in range(40):
        client.get("/x")
        times.append(server.now)
    for first in times:
        assert sum(first <= t < first + timedelta(seconds=60) for t in times) <= 8


def test_the_time_of_the_server_is_noted() -> None:
    server = Server(httpx.Response(200, json={}, headers={"Date": "Mon, 30 Nov 2026 12:05:00 GMT"}))
    client = server.client()
    client.get("/x")
    assert client.skew == timedelta(minutes=5)
    server.answers = [httpx.Response(200, json={}, headers={"Date": "nonsense"})]
    client.get("/x")
    assert client.skew == timedelta(minutes=5)


def test_a_list_that_is_none_is_an_error_that_names_the_address() -> None:
    server = Server(httpx.Response(200, json={"message": "hello"}))
    with pytest.raises(Unavailable, match="score-configs answered with something that is no list"):
        list(server.client().pages("/score-configs"))


def test_a_body_never_holds_a_lone_surrogate_or_nan() -> None:
    with pytest.raises(UnicodeEncodeError):
        encoded({"comment": "\ud800"})
    with pytest.raises(ValueError):
        encoded({"value": float("nan")})
    assert encoded({"a": "é"}) == '{"a":"é"}'.encode()


def test_the_key_goes_into_the_header_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(httpx.ConnectError("refused"), OK)
    with caplog.at_level(logging.DEBUG):
        server.client().request("POST", "/x", body={"a": 1})
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert b"secret" not in server.requests[0].content
    assert not any("secret" in message for message in caplog.messages)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_a_key_that_the_server_repeats_is_in_no_message(status: int) -> None:
    def repeats(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"message": f"{request.headers['Authorization']} sk-secret is wrong"})

    with pytest.raises(ConnectorError) as told:
        Server(repeats).client().get("/projects")
    assert "is wrong" in str(told.value)
    assert "sk-secret" not in str(told.value)
    assert "cGs6c2stc2VjcmV0" not in str(told.value)  # pk:sk-secret as it was sent


@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_json_nested_without_end_is_a_broken_reply(status: int) -> None:
    with pytest.raises(ConnectorError):
        Server(httpx.Response(status, content="[" * 100_000)).client().get("/projects")


def test_a_cursor_that_leads_nowhere_ends_the_list() -> None:
    server = Server(httpx.Response(200, json={"data": [{"id": 1}], "meta": {"cursor": "again"}}))
    with pytest.raises(Unavailable, match="same cursor"):
        for read, _ in enumerate(server.client().cursor_pages("/v2/observations", {})):
            assert read < 10
