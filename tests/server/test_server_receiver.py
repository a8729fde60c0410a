"""Webhooks in: who is believed, what is written down, what is answered."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from calibrate_label_studio.webhooks import HEADER as SECRET_HEADER
from calibrate_langfuse.webhooks import HEADER, Signed, signature
from served_study import SECRET, Served
from told import Told

from calibrate_plugin.connector import Incoming, Look, SourceSettings

HOOK = "/webhooks/people?project=12"
RIGHT = {SECRET_HEADER: SECRET}


def counted(served: Served, outcome: str, source: str = "people") -> float:
    found = served.service.meters.registry.get_sample_value(
        "calibrate_webhooks_total", {"source": source, "outcome": outcome}
    )
    return found or 0.0


def test_a_webhook_with_the_secret_is_on_disk_when_it_is_answered(served: Served) -> None:
    assert served.client().post(HOOK, headers=RIGHT, content=b'{"action": "X"}').status_code == 202
    (hint,) = served.service.store.hints()
    assert (hint.source, hint.job) == ("people", "12")
    assert counted(served, "accepted") == 1


def test_the_secret_may_be_part_of_the_path(served: Served) -> None:
    from urllib.parse import quote

    assert served.client().post(f"/webhooks/people/{quote(SECRET)}?project=13").status_code == 202


@pytest.mark.parametrize(
    "headers", [{}, {SECRET_HEADER: "wrong"}, {SECRET_HEADER: ""}, {SECRET_HEADER: SECRET + " "[:0] + "x"}]
)
def test_a_forged_webhook_is_refused_and_counted(served: Served, headers: dict[str, str]) -> None:
    answer = served.client().post(HOOK, headers=headers)
    assert answer.status_code == 401 and "Traceback" not in answer.text
    assert served.service.store.hints() == [] and counted(served, "forged") == 1


def test_without_a_secret_nobody_is_believed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALIBRATE_WEBHOOK_SECRET")
    for headers in ({}, {SECRET_HEADER: ""}, {SECRET_HEADER: "None"}):
        assert served.client().post(HOOK, headers=headers).status_code == 401


@pytest.mark.parametrize("project", ["", "14", "0x0c", "12; DROP", "-12", "१२", "9" * 400])
def test_a_webhook_about_another_project_is_unknown(served: Served, project: str) -> None:
    answer = served.client().post("/webhooks/people", params={"project": project}, headers=RIGHT)
    assert answer.status_code == 422 and counted(served, "unknown") == 1


@pytest.mark.parametrize("path", ["/webhooks/nobody", "/webhooks/judges", "/webhooks/%00"])
def test_a_source_that_cannot_be_woken_is_unknown(served: Served, path: str) -> None:
    assert served.client().post(path, headers=RIGHT).status_code == 422
    assert served.service.store.hints() == []


@pytest.mark.parametrize(
    "path", ["/webhooks/../store", "/webhooks/..%2f..%2fetc%2fpasswd", "/static/..%2fapp.py", "/static/%2e%2e/app.py"]
)
def test_no_path_leads_out(served: Served, path: str) -> None:
    for method in ("GET", "POST"):
        assert served.client().request(method, path).status_code in (404, 405, 422)


def test_every_recorded_payload_is_taken_and_ignored(served: Served, shared: Path) -> None:
    folder = shared / "recordings" / "label_studio" / "webhooks"
    taken = 0
    for file in sorted(folder.glob("*.json")):
        recorded = json.loads(file.read_text())
        if not isinstance(recorded, dict) or recorded.get("method") != "POST":
            continue
        headers = {k: v for k, v in recorded["headers"].items() if k.lower() not in ("content-length", "connection")}
        answer = served.client().post(HOOK, headers=headers | RIGHT, content=json.dumps(recorded["body"]))
        assert answer.status_code == 202, file.name
        taken += 1
    assert taken >= 10 and len(served.service.store.hints()) == taken
    assert {h.job for h in served.service.store.hints()} == {"12"}


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"[" * 50_000, b"x" * 2_000_000])
def test_a_body_is_never_data(served: Served, body: bytes) -> None:
    assert served.client().post(HOOK, headers=RIGHT, content=body).status_code == 202


def test_an_oversized_webhook_is_refused(served: Served) -> None:
    answer = served.client().post(HOOK, headers=RIGHT | {"content-length": "99000000000"}, content=b"")
    assert answer.status_code == 413 and counted(served, "too_large") == 1


def test_a_burst_loses_nothing(served: Served) -> None:
    client = served.client()
    for n in range(300):
        assert client.post(f"/webhooks/people?project={12 + n % 2}", headers=RIGHT).status_code == 202
    assert len(served.service.store.hints()) == 300


def test_no_secret_is_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = served.client()
    client.post("/webhooks/people/unguessable-part-of-a-path?project=12")
    client.post(HOOK, headers={SECRET_HEADER: "unguessable-part-of-a-path"})
    client.get("/?token=unguessable-part-of-a-path", headers={"authorization": "Bearer unguessable-part-of-a-path"})
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("calibrate")]
    assert any("/webhooks/people/***" in line for line in ours)
    assert "unguessable" not in "\n".join(ours) and SECRET not in "\n".join(ours)


# --- Langfuse


class Langfuse(Told):
    wants_body = True

    def __init__(self) -> None:
        super().__init__()
        self.signed = Signed(SourceSettings("judges", "langfuse"))

    def accepts(self, incoming: Incoming) -> Look:
        self.signed.check(incoming)
        return Look()


@pytest.fixture
def langfuse(served: Served) -> Served:
    served.service.sources = {**served.service.sources, "judges": Langfuse()}
    return served


def sent(served: Served, body: bytes, header: str | None) -> Any:
    return served.client().post(
        "/webhooks/judges", content=body, headers={HEADER: header.encode("latin-1")} if header else {}
    )


def now() -> int:
    return int(datetime.now(UTC).timestamp())


def test_a_signed_webhook_is_taken_once(langfuse: Served) -> None:
    header = signature(SECRET, now(), b'{"id": "1"}')
    assert sent(langfuse, b'{"id": "1"}', header).status_code == 202
    assert sent(langfuse, b'{"id": "1"}', header).status_code == 200
    assert [(h.source, h.job) for h in langfuse.service.store.hints()] == [("judges", None)]


def test_a_signature_covers_the_raw_body_and_the_time(langfuse: Served) -> None:
    header = signature(SECRET, now(), b'{"a": 1}')
    later = header.replace(f"t={now()}", f"t={now() + 1}")
    bare = f"t={now()},v1=" + __import__("hmac").new(SECRET.encode(), b'{"a": 1}', "sha256").hexdigest()
    for body, forged in (
        (b'{"a":1}', header),
        (b'{"a": 1}', later),
        (b'{"a": 1}', bare),
        (b'{"a": 1}', signature("another", now(), b'{"a": 1}')),
        (b'{"a": 1}', "t=,v1="),
        (b'{"a": 1}', "v1=" + "0" * 64),
        (b'{"a": 1}', None),
        (b'{"a": 1}', "t=" + "9" * 500 + ",v1=\xe9"),
    ):
        assert sent(langfuse, body, forged).status_code == 401, forged
    assert langfuse.service.store.hints() == []


def test_an_old_signature_is_a_replay(langfuse: Served) -> None:
    for seconds in (-301, 301):
        header = signature(SECRET, int((datetime.now(UTC) + timedelta(seconds=seconds)).timestamp()), b"{}")
        assert sent(langfuse, b"{}", header).status_code == 401


def test_a_body_that_is_part_of_the_proof_has_a_limit(langfuse: Served) -> None:
    body = b"x" * 1_100_000
    assert sent(langfuse, body, signature(SECRET, now(), body)).status_code == 413
