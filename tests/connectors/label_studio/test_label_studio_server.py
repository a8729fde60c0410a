"""One request to Label Studio: keys, redirects, patience and plain errors."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from calibrate_label_studio import server as module
from calibrate_label_studio.server import Broken, Half, Refused, Server, retry_after

from calibrate_plugin.connector import ConnectorError, SettingsError, SourceSettings, Unavailable

LEGACY = "secret-legacy-token"
REFRESH = "secret.refresh.token"


class Wire:
    """A transport that gives these answers in turn, and what was sent over it."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.sent, self.slept = list(answers), list[httpx.Request](), list[float]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        answer = self.answers.pop(0) if self.answers else ok()
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, httpx.Response)
        return answer

    def server(self, key: str = LEGACY, url: str = "https://ls.example.com") -> Server:
        return Server(url, key, transport=httpx.MockTransport(self), sleep=self.slept.append)

    @property
    def keys(self) -> list[str | None]:
        return [r.headers.get("authorization") for r in self.sent]


def ok(body: Any = None, **more: Any) -> httpx.Response:
    return httpx.Response(200, json={"fine": True} if body is None else body, **more)


def no(status: int, detail: str = "No.") -> httpx.Response:
    return httpx.Response(status, json={"status_code": status, "detail": detail})


def jwt(seconds: int) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"iat": 1000, "exp": 1000 + seconds}).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def test_a_legacy_token_is_sent_as_it_is() -> None:
    wire = Wire()
    assert wire.server().get("/api/x") == {"fine": True}
    assert wire.keys == [f"Token {LEGACY}"]


def test_a_personal_token_buys_access_and_renews_it_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    first, second = jwt(300), jwt(300)[:-1] + "2"
    wire = Wire(ok({"access": first}), ok(), ok(), ok({"access": second}), ok())
    server = wire.server(REFRESH)
    server.get("/api/x")
    now[0] = 239
    server.get("/api/x")
    now[0] = 241  # of 300 s
    server.get("/api/x")
    assert wire.keys == [None, f"Bearer {first}", f"Bearer {first}", None, f"Bearer {second}"]
    assert json.loads(wire.sent[0].content) == {"refresh": REFRESH}
    assert wire.sent[0].url.path == "/api/token/refresh/"


def test_an_access_token_that_is_refused_is_renewed_once() -> None:
    wire = Wire(ok({"access": jwt(300)}), no(401), ok({"access": jwt(299)}), ok({"fine": 2}))
    assert wire.server(REFRESH).get("/api/x") == {"fine": 2}
    wire = Wire(ok({"access": jwt(300)}), no(401), ok({"access": jwt(299)}), no(401))
    with pytest.raises(Refused, match="does not accept the key"):
        wire.server(REFRESH).get("/api/x")
    assert len(wire.sent) == 4


@pytest.mark.parametrize(
    ("answers", "key", "message"),
    [
        ([no(401, "Invalid token.")], LEGACY, "does not accept the key (Invalid token.)"),
        # recorded from Label Studio 1.23.2
        ([no(401, "Authentication token no longer valid: legacy token authentication has been disabled for this organization")], LEGACY, "give a personal access token"),
        ([no(401, "Token is blacklisted")], REFRESH, "does not accept the key (Token is blacklisted)"),
        ([no(403, "You do not have permission to perform this action.")], LEGACY, "must be a member"),
        ([no(404, "No Project matches the given query.")], LEGACY, "no such thing (No Project matches"),
        ([httpx.Response(404, html="<!doctype html>")], LEGACY, "no such thing (text/html)"),
        ([httpx.Response(400, json={"detail": "Validation error", "validation_errors": {"project": "no"}})], LEGACY, '{"project": "no"}'),
    ],
)  # fmt: skip
def test_a_refusal_says_why_and_what_to_do(answers: list[httpx.Response], key: str, message: str) -> None:
    wire = Wire(*answers)
    with pytest.raises(Refused) as caught:
        wire.server(key).get("/api/x")
    assert message in str(caught.value)
    assert "https://ls.example.com/api/" in str(caught.value)
    assert len(wire.sent) == 1


@pytest.mark.parametrize("body", ["{}", "[]", '{"access": 5}'])
def test_a_refresh_without_access_is_no_crash(body: str) -> None:
    wire = Wire(httpx.Response(200, content=body, headers={"content-type": "application/json"}))
    with pytest.raises(ConnectorError):
        wire.server(REFRESH).get("/api/x")


def test_a_key_never_follows_to_another_host() -> None:
    for target in (
        "https://evil.example.com/api/x",
        "http://ls.example.com/api/x",
        "//evil.example.com/",
        "https://ls.example.com:444/",
    ):
        wire = Wire(httpx.Response(302, headers={"location": target}))
        with pytest.raises(SettingsError, match="sends us on to"):
            wire.server().get("/api/x")
        assert len(wire.sent) == 1


def test_a_redirect_within_the_server_is_followed_for_reads_only() -> None:
    wire = Wire(httpx.Response(301, headers={"location": "/api/x/"}), ok())
    assert wire.server().get("/api/x") == {"fine": True}
    assert [str(r.url) for r in wire.sent] == ["https://ls.example.com/api/x", "https://ls.example.com/api/x/"]
    assert wire.keys == [f"Token {LEGACY}"] * 2
    wire = Wire(httpx.Response(307, headers={"location": "/api/x/"}))
    with pytest.raises(SettingsError, match="sends a POST on to"):
        wire.server().write("POST", "/api/x", {})
    wire = Wire(*[httpx.Response(302, headers={"location": "/api/x"})] * 9)
    with pytest.raises(ConnectorError, match="in circles"):
        wire.server().get("/api/x")


def test_a_path_prefix_of_the_address_is_kept_everywhere() -> None:
    wire = Wire(ok({"access": jwt(300)}), ok(), no(404))
    server = wire.server(REFRESH, "https://example.com/label/studio")
    server.get("/api/x", {"a": 1})
    assert [str(r.url) for r in wire.sent] == [
        "https://example.com/label/studio/api/token/refresh/",
        "https://example.com/label/studio/api/x?a=1",
    ]
    with pytest.raises(Refused, match=r"https://example\.com/label/studio/api/y says"):
        server.get("/api/y")


def test_html_where_json_was_due_names_the_address() -> None:
    for kind in ("text/html; charset=utf-8", ""):
        answer = httpx.Response(200, content=b"<!doctype html>", headers={"content-type": kind})
        with pytest.raises(
            Unavailable, match=r"https://ls\.example\.com/api/x gives .* where JSON was due; is https://ls"
        ):
            Wire(answer).server().get("/api/x")


def test_a_wait_in_seconds_is_kept_and_one_of_days_is_reported() -> None:
    wire = Wire(httpx.Response(429, headers={"retry-after": "7"}), ok())
    assert wire.server().get("/api/x") == {"fine": True}
    assert wire.slept == [7]
    for told in ("200000", format_datetime(datetime.now(UTC) + timedelta(days=3), usegmt=True)):
        wire = Wire(httpx.Response(429, headers={"retry-after": told}))
        with pytest.raises(Unavailable, match=r"asks to wait until 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
            wire.server().get("/api/x")
        assert wire.slept == []
    wire = Wire(*[httpx.Response(429)] * 9)
    with pytest.raises(Unavailable, match="again and again"):
        wire.server().get("/api/x")
    assert len(wire.sent) == 5


def test_retry_after_is_read_as_seconds_or_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after("5", now) == 5
    assert retry_after("-5", now) == 0
    assert retry_after("Thu, 01 Jan 2026 00:00:09 GMT", now) == 9
    assert [retry_after(t, now) for t in (None, "", "soon")] == [None] * 3


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut"), httpx.Response(502, html="<html>"), httpx.Response(503), httpx.Response(504)])  # fmt: skip
def test_a_read_is_tried_again_and_then_given_up_in_plain_words(fault: Any) -> None:
    wire = Wire(fault, fault, ok())
    assert wire.server().get("/api/x") == {"fine": True}
    assert len(wire.slept) == 2 and wire.slept[0] < wire.slept[1]
    wire = Wire(*[fault] * 9)
    with pytest.raises(Unavailable, match=r"https://ls\.example\.com/api/x does not answer"):
        wire.server().get("/api/x")
    assert len(wire.sent) == 5


@pytest.mark.parametrize(
    "fault", [httpx.ReadTimeout("slow"), httpx.Response(500), httpx.Response(502), httpx.Response(503)]
)
def test_a_write_is_never_sent_twice(fault: Any) -> None:
    wire = Wire(fault, ok())
    with pytest.raises(Unavailable):
        wire.server().write("POST", "/api/x", {"a": 1})
    assert len(wire.sent) == 1


def test_a_500_is_asked_once_more_or_not_at_all() -> None:
    wire = Wire(httpx.Response(500, html="<html>"), httpx.Response(500, html="<html>"))
    with pytest.raises(Broken):
        wire.server().get("/api/x")
    assert len(wire.sent) == 2
    wire = Wire(httpx.Response(500))
    with pytest.raises(Broken):
        wire.server().get("/api/x", again=False)
    assert len(wire.sent) == 1


def test_half_an_answer_is_asked_for_again() -> None:
    half = httpx.Response(200, content=b'{"tasks": [', headers={"content-type": "application/json"})
    wire = Wire(half, ok())
    assert wire.server().get("/api/x") == {"fine": True}

    def cut(request: httpx.Request) -> httpx.Response:
        class Stream(httpx.SyncByteStream):
            def __iter__(self) -> Any:
                yield b'{"tasks"'
                raise httpx.ReadError("connection reset")

        return httpx.Response(200, stream=Stream(), headers={"content-type": "application/json"})

    wire = Wire(cut, ok())
    assert wire.server().get("/api/x") == {"fine": True}
    wire = Wire(*[cut] * 9)
    with pytest.raises(Half, match="broke off: connection reset"):
        wire.server().get("/api/x")
    with pytest.raises(Half), wire.server().download("/api/x") as chunks:
        list(chunks)


def test_a_download_of_a_web_page_is_an_error() -> None:
    wire = Wire(httpx.Response(200, html="<!doctype html>"))
    with pytest.raises(Unavailable, match="where JSON was due"), wire.server().download("/api/x"):
        pass


def test_a_session_cookie_is_not_kept() -> None:
    wire = Wire(ok(headers={"set-cookie": "sessionid=1; Path=/"}), ok())
    server = wire.server()
    server.get("/api/x")
    server.get("/api/x")
    assert "cookie" not in wire.sent[1].headers


def test_djangos_own_server_is_asked_to_close() -> None:
    wire = Wire(ok(headers={"server": "WSGIServer/0.2 CPython/3.11.7"}), ok(), ok(headers={"server": "nginx"}))
    server = wire.server()
    server.get("/api/x")
    server.get("/api/x")
    assert [r.headers["connection"] for r in wire.sent] == ["keep-alive", "close"]


def test_the_servers_clock_is_compared() -> None:
    wire = Wire(
        ok(headers={"date": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)}),
        ok(headers={"date": "x"}),
    )
    server = wire.server()
    server.get("/api/x")
    assert server.skew is not None and abs(server.skew.total_seconds() - 3600) < 3
    server.get("/api/x")


@pytest.mark.parametrize("key", [LEGACY, REFRESH])
def test_a_key_is_never_told(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    access = jwt(300)
    faults: list[Callable[[], Any]] = [
        lambda: httpx.Response(302, headers={"location": "https://evil.example.com"}),
        lambda: no(401),
        lambda: no(404),
        lambda: httpx.Response(500),
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.Response(200, html="x"),
    ]
    for fault in faults:
        wire = Wire(*([ok({"access": access})] if key == REFRESH else []), *[fault()] * 9)
        server = wire.server(key)
        with pytest.raises(ConnectorError) as caught:
            server.get("/api/x")
        told = f"{caught.value} {caught.value!r} {server} {server.__dict__}"
        assert key not in told and access not in told
    assert key not in caplog.text and access not in caplog.text


def settings(**options: Any) -> SourceSettings:
    return SourceSettings("people", "label-studio", options=options)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY", "LABEL_STUDIO_API_KEY_FILE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_address_and_key_come_from_the_environment_or_a_file(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("LABEL_STUDIO_URL", "https://env.example.com/ls/")
    (tmp_path / "key").write_text("from-a-file\n")
    environment.setenv("LABEL_STUDIO_API_KEY_FILE", str(tmp_path / "key"))
    assert Server.of(settings()).url == "https://env.example.com/ls"
    assert Server.of(settings(url="http://own.example.com")).url == "http://own.example.com"
    environment.setenv("PROD_LABEL_STUDIO_URL", "https://prod.example.com")
    environment.setenv("PROD_LABEL_STUDIO_API_KEY", "k")
    prod = SourceSettings("people", "label-studio", env="PROD")
    assert Server.of(prod).url == "https://prod.example.com"


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({}, {}, "sources.people: give the server's address as url, or in LABEL_STUDIO_URL"),
        ({"LABEL_STUDIO_URL": "ls"}, {}, "LABEL_STUDIO_URL is no address"),
        ({"LABEL_STUDIO_URL": "https://a:secretword@b"}, {}, "LABEL_STUDIO_URL holds a user name or password"),
        ({"LABEL_STUDIO_URL": "https://a/?x"}, {}, "goes on after the path"),
        ({"LABEL_STUDIO_URL": "https://a"}, {}, "LABEL_STUDIO_API_KEY is not set"),
        ({"LABEL_STUDIO_URL": "https://a", "LABEL_STUDIO_API_KEY": "secretword ü"}, {}, "characters that no token has"),
        ({"LABEL_STUDIO_URL": "https://a", "LABEL_STUDIO_API_KEY": "k"}, {"ca_file": "/nowhere.pem"}, "ca_file /nowhere.pem cannot be read"),
        ({"LABEL_STUDIO_URL": "https://a", "LABEL_STUDIO_API_KEY": "k", "SSL_CERT_FILE": "/nowhere.pem"}, {}, "ca_file /nowhere.pem cannot be read"),
        ({"LABEL_STUDIO_URL": "https://a", "LABEL_STUDIO_API_KEY": "k"}, {"proxy": 3}, "proxy is 3"),
        ({"LABEL_STUDIO_URL": "https://a", "LABEL_STUDIO_API_KEY": "k"}, {"proxy": "nonsense"}, "proxy"),
    ],
)  # fmt: skip
def test_settings_that_reach_no_server_say_so(
    environment: pytest.MonkeyPatch, variables: dict[str, str], options: dict[str, Any], message: str
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        Server.of(settings(**options))
    assert message in str(caught.value)
    assert "secretword" not in str(caught.value)


@pytest.mark.parametrize("key", [LEGACY, REFRESH])
@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_a_key_that_the_server_repeats_is_in_no_message(key: str, status: int) -> None:
    def repeats(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/token/refresh/":
            return ok({"access": "bought.access.token"})
        return httpx.Response(status, json={"detail": f"{request.headers['Authorization']} is wrong"})

    with pytest.raises((Refused, Broken)) as told:
        Wire(*[repeats] * 9).server(key).get("/api/x")
    assert "is wrong" in str(told.value)
    assert LEGACY not in str(told.value)
    assert "bought.access.token" not in str(told.value)


def test_a_refresh_key_that_the_server_repeats_is_in_no_message() -> None:
    wire = Wire(lambda request: httpx.Response(401, json={"detail": request.content.decode() + " is wrong"}))
    with pytest.raises(Refused, match="is wrong") as told:
        wire.server(REFRESH).get("/api/x")
    assert REFRESH not in str(told.value)


def test_a_project_that_is_none_is_said_so() -> None:
    with pytest.raises(Unavailable, match="/api/projects/7/ gives no project"):
        Wire(ok([1, None])).server().project(7)
