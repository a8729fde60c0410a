"""Who gets in, what a browser may do in somebody's name, and what no answer and no log ever holds."""

from __future__ import annotations

import logging
import re

import pytest
from served_study import Served
from told import label

from calibrate_plugin.connector import SettingsError
from calibrate_plugin.server.access import COOKIE, Access, shown

READ, WRITE = "read-token-0123456789", "write-token-0123456789"
TOKENS = Access(READ, WRITE)
PAGES = (
    "/",
    "/dimensions/Safety",
    "/disagreements",
    "/health",
    "/metrics",
    "/events",
    "/api/v1/report",
    "/api/v1/openapi.json",
)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_another_address_needs_somebody_to_watch_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CALIBRATE_READ_TOKEN", "CALIBRATE_WRITE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    Access.of("127.0.0.1")
    for host in ("0.0.0.0", "::", "192.168.1.5", "calibrate.example.com"):
        with pytest.raises(SettingsError, match="CALIBRATE_READ_TOKEN"):
            Access.of(host)
    assert Access.of("0.0.0.0", "X-Forwarded-User").guarded
    monkeypatch.setenv("CALIBRATE_READ_TOKEN", READ)
    assert Access.of("0.0.0.0").guarded


def test_a_short_token_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRATE_READ_TOKEN", "hunter2")
    with pytest.raises(SettingsError) as refused:
        Access.of("127.0.0.1")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_of_the_study_without_a_token(ready: Served, path: str) -> None:
    client = ready.client(TOKENS)
    for headers in (
        {},
        bearer("wrong"),
        {"authorization": "Basic eDp5"},
        {"cookie": f"{COOKIE}=write.99999999999.x.y"},
    ):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 401 and "support" not in answer.text
    assert client.get(path, headers={"accept": "text/html"}).headers["location"].startswith("/login?next=")


def test_whoever_asks_for_the_head_gets_that_of_the_page(ready: Served) -> None:
    client = ready.client(TOKENS)
    for path in PAGES:
        assert client.head(path).status_code == 401
        answer = client.head(path, headers=bearer(READ))
        assert answer.status_code == 200 and answer.content == b"", path
        if path != "/events":
            whole = client.get(path, headers=bearer(READ))
            same = {k: answer.headers[k] for k in ("content-type", "content-security-policy")}
            assert same == {k: whole.headers[k] for k in same}
    assert client.head("/nothing", headers=bearer(READ)).status_code == 404
    assert client.head("/webhooks/people").status_code == 405


def test_reading_is_not_writing(ready: Served) -> None:
    client = ready.client(TOKENS)
    assert client.get("/api/v1/studies", headers=bearer(READ)).status_code == 200
    assert client.post("/api/v1/retry", headers=bearer(READ), json={}).status_code == 403
    assert client.post("/api/v1/retry", headers=bearer(WRITE), json={}).status_code == 202
    assert client.post("/api/v1/retry", json={}).status_code == 401


def test_probes_and_webhooks_need_no_token(ready: Served) -> None:
    client = ready.client(TOKENS)
    assert [client.get(p).status_code for p in ("/healthz", "/readyz", "/login", "/static/server.css")] == [200] * 4
    assert client.post("/webhooks/people?project=12").status_code == 401


def sign_in(ready: Served, token: str = WRITE, access: Access = TOKENS):
    client = ready.client(access)
    answer = client.post("/login", data={"token": token, "next": "/health"})
    assert answer.status_code == 303 and answer.headers["location"] == "/health"
    return client, answer.headers["set-cookie"]


def test_a_token_is_traded_for_a_cookie_that_no_script_and_no_other_site_can_use(ready: Served) -> None:
    client, cookie = sign_in(ready)
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and WRITE not in cookie
    assert client.get("/").status_code == 200
    assert "wrong" not in client.post("/login", data={"token": "wrong"}).text
    assert ready.client(TOKENS).post("/login", data={"token": "wrong"}).status_code == 401


def test_a_form_of_another_page_does_nothing(ready: Served) -> None:
    client, _ = sign_in(ready)
    proof = re.search(r'name="proof" value="([0-9a-f]+)"', client.get("/health").text)
    assert proof is not None
    for data in ({"what": ""}, {"what": "", "proof": ""}, {"what": "", "proof": "0" * 64}):
        assert client.post("/retry", data=data).status_code == 403
    right = {"what": "people", "proof": proof[1]}
    for headers in ({"origin": "https://evil.example.com"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        assert client.post("/retry", data=right, headers=headers).status_code == 403
        assert client.post("/api/v1/retry", json={}, headers=headers).status_code == 403
    assert ready.service.asked == set()
    assert client.post("/retry", data=right, headers={"origin": "http://localhost"}).status_code == 303
    assert ready.service.asked == {"people"}


def test_a_reader_is_offered_nothing_to_write(ready: Served) -> None:
    client, _ = sign_in(ready, READ)
    page = client.get("/health").text
    assert "Pull everything" not in page and "Sign out" in page
    assert client.post("/retry", data={"what": ""}).status_code == 403


def test_signing_out_and_a_changed_token_end_a_session(ready: Served) -> None:
    client, _ = sign_in(ready)
    proof = re.search(r'name="proof" value="([0-9a-f]+)"', client.get("/health").text)
    assert proof is not None
    kept = client.cookies[COOKIE]
    assert client.post("/logout", data={"proof": proof[1]}).status_code == 303
    assert client.get("/api/v1/studies").status_code == 401
    other = ready.client(Access(READ, "another-write-token-1"))
    assert other.get("/api/v1/studies", headers={"cookie": f"{COOKIE}={kept}"}).status_code == 401


@pytest.mark.parametrize(
    "next", ["https://evil.example.com", "//evil.example.com", "/\\evil.example.com", "/a\r\nset-cookie: x=y", "x"]
)
def test_signing_in_leads_nowhere_else_and_injects_no_header(ready: Served, next: str) -> None:
    answer = ready.client(TOKENS).post("/login", data={"token": READ, "next": next})
    assert answer.headers["location"] == "/"
    assert "x=y" not in answer.headers.get("set-cookie", "")


def test_header_injection_through_a_path_is_quoted(ready: Served) -> None:
    answer = ready.client(TOKENS).get("/dimensions/a%0d%0aset-cookie:%20x=y", headers={"accept": "text/html"})
    assert "set-cookie" not in answer.headers and answer.status_code == 303


def test_a_proxy_that_is_declared_lets_people_in(ready: Served) -> None:
    client = ready.client(Access(proxy_header="X-Forwarded-User"))
    assert client.get("/api/v1/studies").status_code == 401
    assert client.get("/api/v1/studies", headers={"x-forwarded-user": "ann"}).status_code == 200


def test_without_tokens_only_this_machine_by_its_own_name(ready: Served) -> None:
    client = ready.client()
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"host": "evil.example.com"}).status_code == 421
    assert client.get("/", headers={"host": "127.0.0.1:8700"}).status_code == 200
    assert client.post("/api/v1/retry", json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/v1/studies", "/static/calibrate.js", "/webhooks/people"])
def test_every_answer_carries_the_headers(ready: Served, path: str) -> None:
    headers = ready.client().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
    assert "server" not in headers


def test_oversized_bodies_are_refused_however_they_come(ready: Served) -> None:
    client = ready.client()
    assert client.post("/api/v1/retry", content=b"x" * 70_000).status_code == 413
    assert client.post("/api/v1/retry", content=(b"x" * 1000 for _ in range(100))).status_code == 413


def test_an_error_says_nothing_of_what_was_sent(ready: Served) -> None:
    answer = ready.client().post("/api/v1/retry", json={"what": ["unguessable"]})
    assert answer.status_code == 422 and "unguessable" not in answer.text


def test_tokens_are_in_no_log(ready: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client, _ = sign_in(ready)
    client.get("/", headers=bearer(WRITE))
    client.get(f"/?token={WRITE}")
    text = "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith("httpx"))
    assert WRITE not in text and client.cookies[COOKIE] not in text
    assert WRITE not in repr(TOKENS)


def test_the_log_cannot_be_written_by_a_path() -> None:
    assert "\n" not in shown("/a\nGET /forged") and "\x1b" not in shown("/\x1b[31m")


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"


def test_what_a_platform_says_is_only_ever_text(served: Served) -> None:
    served.people.tell(
        label("x1", HOSTILE, HOSTILE, '"Pass"', reason=HOSTILE, link="javascript:alert(1)"),
        label("x2", HOSTILE, "ben", '"Fail"', reason="=1+1", link='https://a.example.com/" onclick="alert(1)'),
        label("x3", HOSTILE, "judge", '"Fail"', kind="evaluator", version=HOSTILE, run=HOSTILE),
    )
    served.turns(lambda: served.service.state and served.service.state.number >= 2)
    client = served.client()
    from urllib.parse import quote

    for path in (
        "/",
        "/dimensions/Safety",
        "/disagreements?dimension=Safety",
        f"/disagreements?dimension=Safety&annotator={quote(HOSTILE)}",
        f"/runs/{quote(HOSTILE, safe='')}",
        "/versions?dimension=Safety&evaluator=judge",
        "/health",
        f"/login?next={quote(HOSTILE)}",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        text = answer.text
        assert "<img" not in text and "onclick=" not in text.replace("&#34; onclick=", ""), path
        assert text.count("<script") == text.count('<script src="/static/calibrate.js" defer></script>'), path
        assert 'href="javascript' not in text
    table = client.get("/api/v1/disagreements.csv?dimension=Safety").text
    assert "'=1+1" in table


def test_a_host_or_origin_that_is_no_address_is_turned_away(ready: Served) -> None:
    assert ready.client().get("/", headers={"host": "[::1"}).status_code == 421
    sent = ready.client().post("/api/v1/retry", json={"what": ""}, headers={"origin": "http://[::1"})
    assert sent.status_code == 403
