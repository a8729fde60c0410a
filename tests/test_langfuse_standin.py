"""The stand-in itself: what the recorded servers were seen to do, and the faults."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from langfuse_standin import LangfuseStandin

V3 = "/api/public/v3/scores"
ALL = "core,details,subject,annotation"


@pytest.fixture
def server() -> Iterator[LangfuseStandin]:
    with LangfuseStandin() as server:
        yield server


def client(server: LangfuseStandin) -> httpx.Client:
    return httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key))


def listing(server: LangfuseStandin, **params: object) -> list[dict[str, object]]:
    """All pages of v3."""
    rows: list[dict[str, object]] = []
    with client(server) as http:
        while True:
            body = http.get(V3, params={"fields": ALL, **params}).raise_for_status().json()  # type: ignore[dict-item]
            rows += body["data"]
            if "cursor" not in body["meta"]:
                return rows
            params["cursor"] = body["meta"]["cursor"]


def test_a_posted_score_shows_only_after_its_delay(server: LangfuseStandin) -> None:
    with client(server) as http:
        http.post("/api/public/scores", json={"id": "a", "name": "n", "value": 1, "traceId": "t"}).raise_for_status()
    server.clock.advance(5.3)
    assert listing(server) == []
    server.clock.advance(0.1)
    assert [row["id"] for row in listing(server)] == ["a"]


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_every_row_comes_once_whatever_the_page_size(server: LangfuseStandin, limit: int) -> None:
    server.add_scores({"id": f"s{i}", "name": "n", "value": i, "traceId": "t", "timestamp": i // 3} for i in range(200))
    assert [row["id"] for row in listing(server, limit=limit)] == sorted(
        (f"s{i}" for i in range(200)), key=lambda s: (int(s[1:]) // 3, s), reverse=True
    )


def test_a_connection_is_cut_at_every_nth_request(server: LangfuseStandin) -> None:
    server.faults.cut_every(3)
    outcomes = []
    with client(server) as http:
        for _ in range(6):
            try:
                outcomes.append(http.get(V3).status_code)
            except httpx.TransportError:
                outcomes.append(0)
    assert outcomes == [200, 200, 0, 200, 200, 0]
