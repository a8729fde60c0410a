"""The stand-in itself: what real servers were seen to do beyond single exchanges, the dialects, the faults."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from langfuse_standin import Clock, LangfuseStandin

V3 = "/api/public/v3/scores"
POST = "/api/public/scores"
ALL = "core,details,subject,annotation"
T = {"traceId": "t"}


@pytest.fixture
def server() -> Iterator[LangfuseStandin]:
    with LangfuseStandin() as server:
        yield server


def client(server: LangfuseStandin) -> httpx.Client:
    return httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key), verify=False)


def pages(server: LangfuseStandin, **params: Any) -> list[dict[str, Any]]:
    """All pages of v3."""
    found: list[dict[str, Any]] = []
    with client(server) as http:
        while True:
            found.append(http.get(V3, params={"fields": ALL, **params}).raise_for_status().json())
            if "cursor" not in found[-1]["meta"]:
                return found
            params["cursor"] = found[-1]["meta"]["cursor"]


def listing(server: LangfuseStandin, **params: Any) -> list[dict[str, Any]]:
    return [row for page in pages(server, **params) for row in page["data"]]


def post(server: LangfuseStandin, *scores: dict[str, Any]) -> None:
    with client(server) as http:
        for score in scores:
            http.post(POST, json={**T, **score}).raise_for_status()


def ingest(server: LangfuseStandin, *events: dict[str, Any]) -> dict[str, Any]:
    with client(server) as http:
        answer = http.post("/api/public/ingestion", json={"batch": list(events)})
    assert answer.status_code == 207
    body: dict[str, Any] = answer.json()
    return body


def event(name: str, moment: str, **body: Any) -> dict[str, Any]:
    return {"id": name, "type": "score-create", "timestamp": moment, "body": {**T, "name": "n", **body}}


# time


def test_a_posted_score_shows_only_after_its_delay(server: LangfuseStandin) -> None:
    post(server, {"id": "a", "name": "n", "value": 1})
    server.clock.advance(5.3)
    assert listing(server) == []
    server.clock.advance(0.1)
    assert [row["id"] for row in listing(server)] == ["a"]


def test_around_midnight_a_write_takes_16_seconds(server: LangfuseStandin) -> None:
    server.clock.set("2026-11-30T23:50:00Z")
    post(server, {"id": "a", "name": "n", "value": 1})
    server.clock.advance(15.9)
    assert listing(server) == []
    server.clock.advance(0.1)
    assert len(listing(server)) == 1


def test_a_running_clock_makes_scores_visible_by_itself() -> None:
    with LangfuseStandin(clock=Clock(speed=1000)) as server:
        post(server, {"id": "a", "name": "n", "value": 1})
        for _ in range(200):
            if listing(server):
                break
        assert len(listing(server)) == 1


def test_without_delay_a_score_is_there_at_once() -> None:
    with LangfuseStandin(visible_after=0) as server:
        post(server, {"id": "a", "name": "n", "value": 1})
        assert len(listing(server)) == 1


def test_score_deletes_run_one_in_two_minutes_and_the_first_at_once(server: LangfuseStandin) -> None:
    server.add_scores({**T, "id": name, "name": "n", "value": 1} for name in "abc")
    with client(server) as http:
        for name in "abc":
            assert http.delete(f"{POST}/{name}").status_code == 202
    left = []
    for _ in range(5):
        left.append("".join(row["id"] for row in listing(server)[::-1]))
        server.clock.advance(60)
    assert left == ["bc", "bc", "c", "c", ""]


def test_deleting_traces_takes_their_scores_in_one_job(server: LangfuseStandin) -> None:
    server.add_scores({"id": f"{name}-{n}", "name": "n", "value": 1, "traceId": name} for name in "abc" for n in (1, 2))
    with client(server) as http:
        http.request("DELETE", "/api/public/traces", json={"traceIds": ["a", "b"]}).raise_for_status()
    assert {row["id"] for row in listing(server)} == {"c-1", "c-2"}


# what is answered with 200 and never stored


@pytest.mark.parametrize(
    ("score", "stored_name"),
    [
        ({"value": 0.5, "configId": "num"}, "quality"),
        ({"value": 7, "configId": "num"}, None),
        ({"value": "good", "configId": "cat"}, "tone"),
        ({"value": "excellent", "configId": "cat"}, None),
        ({"value": 1, "dataType": "NUMERIC", "configId": "bool"}, None),
        ({"value": 1, "configId": "bool"}, "is_correct"),
        ({"value": 1, "configId": "unknown"}, None),
        ({"value": 1, "configId": "old"}, None),
        ({"value": 1}, "n"),
    ],
)
def test_a_score_that_breaks_its_config_is_accepted_and_dropped(
    server: LangfuseStandin, score: dict[str, Any], stored_name: str | None
) -> None:
    server.add_config("quality", "NUMERIC", id="num", minValue=0, maxValue=1)
    labels = [{"label": "good", "value": 2}, {"label": "bad", "value": 0}]
    server.add_config("tone", "CATEGORICAL", id="cat", categories=labels)
    server.add_config("is_correct", "BOOLEAN", id="bool")
    server.add_config("gone", "NUMERIC", id="old")["isArchived"] = True
    post(server, {"id": "a", "name": "n", **score})
    server.clock.advance(6)
    assert [row["name"] for row in listing(server)] == ([stored_name] if stored_name else [])
    assert server.project.state.lost == ([] if stored_name else ["a"])


def test_ingestion_takes_eval_and_drops_annotation_without_config(server: LangfuseStandin) -> None:
    moment = "2026-11-30T11:00:00Z"
    ingest(
        server,
        event("1", moment, id="e", value=1, source="EVAL"),
        event("2", moment, id="a", value=1, source="ANNOTATION"),
    )
    server.clock.advance(6)
    assert [(row["id"], row["source"], row["timestamp"]) for row in listing(server)] == [
        ("e", "EVAL", "2026-11-30T11:00:00.000Z")
    ]


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("production", "production"),
        ("PRODUCTION", "production"),
        ("Prod UPPER", "default"),
        ("langfuse-x", "-x"),
        ("x" * 60, "x" * 40),
        (None, "default"),
    ],
)
def test_an_environment_is_put_right_without_a_word(server: LangfuseStandin, sent: str | None, stored: str) -> None:
    post(server, {"id": "a", "name": "n", "value": 1, "environment": sent})
    server.clock.advance(6)
    assert [row["environment"] for row in listing(server)] == [stored]


def test_metadata_texts_that_read_as_json_come_back_as_json(server: LangfuseStandin) -> None:
    post(server, {"id": "a", "name": "n", "value": 1, "metadata": {"version": "1.10", "flag": "true", "text": "v1.10"}})
    server.clock.advance(6)
    assert listing(server)[0]["metadata"] == {"version": 1.1, "flag": True, "text": "v1.10"}


def test_surrogates_that_are_a_pair_lose_nothing(server: LangfuseStandin) -> None:
    post(server, {"id": "a", "name": "n", "value": 1, "comment": "🎯"})
    server.clock.advance(6)
    assert listing(server)[0]["comment"] == "🎯"


# the same id again


def test_an_older_event_changes_nothing_and_a_newer_one_keeps_the_first_time(server: LangfuseStandin) -> None:
    for name, moment, value in (("1", "2026-11-25", 1), ("2", "2026-11-22", 2), ("3", "2026-11-27", 3)):
        ingest(server, event(name, f"{moment}T10:00:00Z", id="a", value=value))
        server.clock.advance(6)
        (row,) = listing(server)
        assert (row["timestamp"], row["value"]) == ("2026-11-25T10:00:00.000Z", 3 if name == "3" else 1)


@pytest.mark.parametrize(("first", "second", "stored"), [("a", "b", 1), ("b", "a", 2)])
def test_of_two_events_with_one_timestamp_the_smaller_event_id_counts(
    server: LangfuseStandin, first: str, second: str, stored: int
) -> None:
    """So an update with the time of the first event may stay without effect: the event store lists by name."""
    moment = "2026-11-25T10:00:00Z"
    for name, value in ((first, 1), (second, 2)):
        ingest(server, event(name, moment, id="s", value=value))
        server.clock.advance(6)
    assert [row["value"] for row in listing(server)] == [stored]


def test_an_update_without_the_event_store_leaves_two_rows_of_two_days(server: LangfuseStandin) -> None:
    score = {"id": "a", "name": "n", "value": 1, "comment": "first"}
    post(server, score)
    server.clock.advance(days=1)
    assert len(listing(server)) == 1
    server.project.expire_event_store()
    post(server, {"id": "a", "name": "n", "value": 2})
    server.clock.advance(6)
    server.add_score(id="between", name="n", value=0, timestamp="2026-12-01T00:00:00Z", **T)
    server.project.state.table.merge_parts()  # which cannot merge them
    assert [(row["id"], row["value"]) for row in listing(server)] == [("a", 2), ("between", 0)]
    # one page a row: the old value comes after the new one
    assert [(row["id"], row["value"]) for row in listing(server, limit=1)] == [("a", 2), ("between", 0), ("a", 1)]
    assert [row["value"] for row in listing(server, toTimestamp="2026-12-01T00:00:00Z")] == [1]
    assert listing(server)[0]["comment"] is None


def test_a_value_filter_finds_the_version_that_was_replaced_until_parts_are_merged(server: LangfuseStandin) -> None:
    for value in (1, 2):
        server.add_score(id="a", name="n", value=value, timestamp="2026-11-20T10:00:00Z", **T)
    old = {"dataType": "NUMERIC", "value": "1"}
    assert [row["value"] for row in listing(server)] == [2]
    assert [row["value"] for row in listing(server, **old)] == [1]
    server.project.state.table.merge_parts()
    assert listing(server, **old) == []


def test_a_row_that_cannot_be_converted_makes_a_shorter_page_with_a_cursor(server: LangfuseStandin) -> None:
    server.add_scores({**T, "id": f"s{i}", "name": "n", "value": i, "convertible": i != 3} for i in range(6))
    found = pages(server, limit=2)
    assert [[row["id"] for row in page["data"]] for page in found] == [["s5", "s4"], ["s2"], ["s1", "s0"]]
    assert ["cursor" in page["meta"] for page in found] == [True, True, False]


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_every_row_comes_once_whatever_the_page_size(server: LangfuseStandin, limit: int) -> None:
    server.add_scores({"id": f"s{i}", "name": "n", "value": i, **T, "timestamp": i // 3} for i in range(200))
    assert [row["id"] for row in listing(server, limit=limit)] == sorted(
        (f"s{i}" for i in range(200)), key=lambda s: (int(s[1:]) // 3, s), reverse=True
    )


# people


def test_a_second_annotator_takes_the_first_ones_place(server: LangfuseStandin) -> None:
    config = server.add_config("ok", "BOOLEAN")["id"]
    queue = server.add_queue("review", [config])["id"]
    first = server.annotate(configId=config, value=True, authorUserId="ann", queueId=queue, **T)
    server.clock.advance(60)
    second = server.annotate(configId=config, value=False, authorUserId="ben", **T)
    other = server.annotate(configId=config, value=False, authorUserId="ben", observationId="o", **T)
    assert first == second != other
    row = listing(server, id=first)[0]
    assert (row["value"], row["authorUserId"], row["queueId"]) == (False, "ben", None)


def test_an_edited_annotation_moves_no_time(server: LangfuseStandin) -> None:
    config = server.add_config("ok", "BOOLEAN")["id"]
    label = server.annotate(configId=config, value=True, authorUserId="ann", **T)
    (before,) = listing(server)
    server.clock.advance(days=3)
    server.edit_annotation(label, value=False, comment="changed my mind")
    (after,) = listing(server)
    assert {key for key in before if before[key] != after[key]} == {"value", "comment"}


# traces


def otlp(trace: str, span: str, **attributes: str) -> dict[str, Any]:
    start = 1_796_000_000_000_000_000
    given = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()]
    one = {"traceId": trace, "spanId": span, "name": "report", "startTimeUnixNano": str(start)}
    one |= {"endTimeUnixNano": str(start + 5_000_000), "attributes": given}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}


@pytest.mark.parametrize(("headers", "seconds"), [({"x-langfuse-ingestion-version": "4"}, 1), ({}, 180)])
def test_spans_show_soon_only_with_the_header_of_v4(
    server: LangfuseStandin, headers: dict[str, str], seconds: int
) -> None:
    trace = "ab" * 16
    with client(server) as http:
        body = otlp(trace, "cd" * 8, langfuse__environment="calibrate")
        assert http.post("/api/public/otel/v1/traces", json=body, headers=headers).status_code == 200
        seen = []
        for step in (seconds - 0.1, 0.1):
            server.clock.advance(step)
            seen.append(http.get("/api/public/v2/observations", params={"traceId": trace}).json()["data"])
    assert seen[0] == []
    assert [(row["id"], row["environment"], row["isRootObservation"]) for row in seen[1]] == [
        ("cd" * 8, "calibrate", True)
    ]


def test_spans_of_an_experiment_make_it_up(server: LangfuseStandin) -> None:
    trace, span = "ab" * 16, "cd" * 8
    given = {"id": "exp", "name": "run-1", "item__id": "item-1", "item__expected_output": "4"}
    body = otlp(trace, span, **{f"langfuse__experiment__{key}": value for key, value in given.items()})
    server.add_score(id="item", name="exact", value=1, traceId=trace, observationId=span)
    server.add_score(id="run", name="accuracy", value=0.5, datasetRunId="exp")
    start = {"fromStartTime": "2026-01-01T00:00:00Z"}
    with client(server) as http:
        http.post("/api/public/otel/v1/traces", json=body, headers={"x-langfuse-ingestion-version": "4"})
        server.clock.advance(1)
        (experiment,) = http.get("/api/public/experiments", params={**start, "fields": "core,scores"}).json()["data"]
        (item,) = http.get("/api/public/experiment-items", params={**start, "fields": "core,io,scores"}).json()["data"]
    assert (experiment["id"], experiment["itemCount"]) == ("exp", 1)
    assert [score["id"] for score in experiment["scores"]] == ["run"]
    assert (item["experimentItemId"], item["expectedOutput"]) == ("item-1", "4")
    assert [score["id"] for score in item["scores"]] == ["item"]


def test_the_v2_list_leaves_out_scores_whose_trace_is_missing() -> None:
    with LangfuseStandin("3.225") as server, client(server) as http:
        server.add_trace("there")
        server.add_score(id="a", name="n", value=1, traceId="there")
        server.add_score(id="b", name="n", value=1, traceId="missing")
        by_default = http.get("/api/public/v2/scores").json()["data"]
        whole = http.get("/api/public/v2/scores", params={"fields": "score"}).json()["data"]
        assert [row["id"] for row in by_default] == ["a"]
        assert [row["id"] for row in whole] == ["b", "a"]
        assert http.get("/api/public/v2/scores/b").status_code == 200


# dialects


@pytest.mark.parametrize(
    ("dialect", "v1", "v2", "v3"),
    [
        ("3.50", 200, 404, 404),
        ("3.150", 200, 200, 404),
        ("3.225", 200, 200, 200),
        ("4.16-dual", 200, 200, 200),
        ("4.16-events-only", 404, 404, 200),
        ("4.35", 404, 404, 200),
        ("4.59", 404, 404, 200),
    ],
)
def test_which_reads_a_dialect_answers(dialect: str, v1: int, v2: int, v3: int) -> None:
    with LangfuseStandin(dialect) as server, client(server) as http:
        paths = ("/api/public/scores", "/api/public/v2/scores", V3)
        assert [http.get(path).status_code for path in paths] == [v1, v2, v3]
        assert http.get("/api/public/health").json()["version"].startswith(dialect.split("-")[0])


@pytest.mark.parametrize("dialect", ["3.50", "3.225", "4.16-dual", "4.16-events-only", "4.35"])
def test_before_4_59_a_list_of_scores_is_refused(dialect: str) -> None:
    with LangfuseStandin(dialect) as server, client(server) as http:
        assert http.post(POST, json=[{**T, "name": "n", "value": 1}]).status_code == 400
        assert http.post(POST, json={**T, "name": "n", "value": 1}).status_code == 200


def test_from_4_59_on_only_a_list_is_taken_and_answered_with_counts() -> None:
    with LangfuseStandin("4.59") as server, client(server) as http:
        good = {**T, "id": "a", "name": "n", "value": 1, "timestamp": "2026-11-20T10:00:00+01:00"}
        assert http.post(POST, json=good).status_code == 400
        assert (http.post(POST, json=[good]).status_code, http.post(POST, json=[good]).json()) == (
            202,
            {"message": "Accepted"},
        )
        no_zone = {**good, "id": "b", "timestamp": "2026-11-20T10:00:00"}
        mixed = http.post(POST, json=[{**good, "id": "c"}, no_zone, {"name": "n", "value": 1}])
        counts = mixed.json()
        assert (mixed.status_code, counts["accepted"], counts["rejected"]) == (207, 1, 2)
        assert [set(error) for error in counts["errors"]] == [{"message"}] * 2  # no ids: nobody can tell which
        server.clock.advance(6)
        assert {row["id"]: row["timestamp"] for row in listing(server)} == dict.fromkeys(
            "ac", "2026-11-20T09:00:00.000Z"
        )
        # the same id and timestamp again is an update
        http.post(POST, json=[{**good, "value": 2}])
        server.clock.advance(6)
        assert [row["value"] for row in listing(server, id="a")] == [2]


def test_3_50_knows_traces_only_and_no_source() -> None:
    with LangfuseStandin("3.50") as server, client(server) as http:
        assert http.post(POST, json={"sessionId": "s", "name": "n", "value": 1}).status_code == 400
        assert http.post(POST, json={**T, "name": "n", "value": 1, "source": "ANNOTATION"}).status_code == 200
        server.add_trace("t")
        server.clock.advance(6)
        assert [row["source"] for row in http.get(POST).json()["data"]] == ["API"]


def test_evaluators_have_versions_from_4_35_on() -> None:
    with LangfuseStandin("4.35") as server, client(server) as http:
        server.add_evaluator("e", "judge", [{"id": f"v{n}"} for n in range(1, 4)])
        (evaluator,) = http.get("/api/public/v2/evaluators").json()["data"]
        assert (evaluator["versionId"], evaluator["version"]) == ("v3", 3)
        first = http.get("/api/public/v2/evaluators/e/versions", params={"limit": 2}).json()
        cursor = {"limit": 2, "cursor": first["meta"]["cursor"]}
        second = http.get("/api/public/v2/evaluators/e/versions", params=cursor).json()
        assert [one["id"] for one in first["data"] + second["data"]] == ["v3", "v2", "v1"]
        assert "cursor" not in second["meta"]
        assert http.get("/api/public/unstable/evaluators").status_code == 404


# faults


def statuses(server: LangfuseStandin, count: int) -> list[int]:
    """0 where the connection broke."""
    found = []
    with client(server) as http:
        for _ in range(count):
            try:
                found.append(http.get(V3).status_code)
            except httpx.TransportError:
                found.append(0)
    return found


@pytest.mark.parametrize("where", ["before", "after", "body"])
def test_a_connection_is_cut_at_every_nth_request(server: LangfuseStandin, where: str) -> None:
    server.faults.cut_every(3, where=where)
    assert statuses(server, 7) == [200, 200, 0, 200, 200, 0, 200]
    server.faults.clear()
    assert statuses(server, 3) == [200] * 3


def test_a_connection_is_cut_at_one_request(server: LangfuseStandin) -> None:
    server.faults.cut_at(2, where="body")
    assert statuses(server, 5) == [200, 0, 200, 200, 200]


@pytest.mark.parametrize(("where", "stored"), [("before", 0), ("after", 1), ("body", 1)])
def test_a_cut_post_may_have_been_carried_out(server: LangfuseStandin, where: str, stored: int) -> None:
    server.faults.cut_at(1, where=where, method="POST")
    with pytest.raises(httpx.TransportError):
        post(server, {"id": "a", "name": "n", "value": 1})
    server.clock.advance(6)
    assert len(listing(server)) == stored


def test_a_reply_cut_in_its_body_has_begun(server: LangfuseStandin) -> None:
    server.add_score(id="a", name="n", value=1, **T)
    server.faults.cut_at(1, where="body")
    with client(server) as http, pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        http.get(V3)


def test_faults_strike_in_turn_and_where_they_are_told(server: LangfuseStandin) -> None:
    server.faults.server_error()
    server.faults.bad_gateway(after=1)
    server.faults.rate_limit(86398, after=2, times=2)
    server.faults.unauthorized(after=6, path=V3)
    server.faults.server_error(503, path="/api/public/projects", times=None)
    assert statuses(server, 8) == [500, 502, 429, 429, 200, 200, 401, 401]
    with client(server) as http:
        assert http.get("/api/public/projects").status_code == 503


def test_what_the_faults_send(server: LangfuseStandin) -> None:
    server.add_scores({**T, "id": f"s{i}", "name": "n", "value": i} for i in range(10))
    with client(server) as http:
        server.faults.bad_gateway()
        assert "<html>" in http.get(V3).text
        server.faults.html_instead()
        assert http.get(V3).headers["content-type"] == "text/html"
        server.faults.rate_limit(7)
        assert http.get(V3).headers["retry-after"] == "7"
        server.faults.truncated_json()
        with pytest.raises(json.JSONDecodeError):
            http.get(V3).json()
        server.faults.empty_page()
        assert http.get(V3, params={"limit": 5}).json() == {"data": [], "meta": {"limit": 5}}
        server.faults.half_listing()
        half = http.get(V3, params={"limit": 6}).json()
        assert (len(half["data"]), half["meta"]) == (3, {"limit": 6})
        server.faults.short_page()
        short = http.get(V3, params={"limit": 6}).json()
        assert len(short["data"]) == 5 and "cursor" in short["meta"]
        server.faults.repeat_row({**short["data"][0], "value": -1}, after=1)
        again = [row["value"] for page in pages(server, limit=5) for row in page["data"]]
        assert again == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1]


def test_another_projects_data_under_the_same_key(server: LangfuseStandin) -> None:
    other = server.add_project("other-project", public_key="pk-other", secret_key="sk-other")
    server.add_score(id="ours", name="n", value=1, **T)
    server.add_score(id="theirs", name="n", value=1, project=other, **T)
    with httpx.Client(base_url=server.url, auth=("pk-other", "sk-other")) as http:
        assert [row["id"] for row in http.get(V3).json()["data"]] == ["theirs"]
    server.faults.other_project(server.public_key, "pk-other", after=1)
    assert [row["id"] for row in listing(server)] == ["ours"]
    assert [row["id"] for row in listing(server)] == ["theirs"]
    with client(server) as http:
        assert http.get("/api/public/projects").json()["data"][0]["id"] == "other-project"


def test_a_server_comes_back_from_an_old_backup(server: LangfuseStandin) -> None:
    server.add_score(id="old", name="n", value=1, **T)
    post(server, {"id": "queued", "name": "n", "value": 1})
    backup = server.snapshot()
    server.add_score(id="new", name="n", value=1, **T)
    server.add_score(id="old", name="n", value=2, **T)
    server.restore(backup)
    assert [(row["id"], row["value"]) for row in listing(server)] == [("old", 1)]
    server.clock.advance(6)
    assert {row["id"] for row in listing(server)} == {"old", "queued"}
    server.restore(backup)  # as often as one likes


# the log, and many at once


def test_requests_are_counted_by_endpoint(server: LangfuseStandin) -> None:
    server.add_scores({**T, "id": f"s{i}", "name": "n", "value": i} for i in range(10))
    listing(server, limit=4)
    post(server, {"name": "n", "value": 1})
    with client(server) as http:
        http.delete(f"{POST}/some%2Fid")
    assert server.requests.counts() == {f"GET {V3}": 3, f"POST {POST}": 1, f"DELETE {POST}/{{id}}": 1}
    assert [request.rows for request in server.requests.of(f"GET {V3}")] == [4, 4, 2]
    assert server.requests[3].json()["name"] == "n"
    assert [request.status for request in server.requests] == [200, 200, 200, 200, 202]
    server.requests.clear()
    assert server.requests.counts() == {}


def test_readers_do_not_wait_for_one_another(server: LangfuseStandin) -> None:
    """Every one of sixteen waits for its own replies only: sixteen requests are under way at one moment."""
    server.add_scores({**T, "id": f"s{i}", "name": f"n{i % 16}", "value": i} for i in range(16_000))
    together = threading.Barrier(16, timeout=30)
    server.faults.rewrite(lambda body: (together.wait(), body)[1], times=16)
    server.faults.latency = 0.02
    with ThreadPoolExecutor(16) as pool:
        rows = list(pool.map(lambda n: len(listing(server, name=f"n{n}", limit=100)), range(16)))
    assert rows == [1000] * 16
    assert server.requests.counts() == {f"GET {V3}": 160}


def test_a_server_of_its_own_process_holds_a_hundred_thousand_scores() -> None:
    command = [sys.executable, "-m", "langfuse_standin", "--scores", "100000", "--latency", "0.02"]
    here = Path(__file__).parent
    with subprocess.Popen(command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        told = json.loads(process.stdout.readline())
        with httpx.Client(base_url=told["url"], auth=(told["public_key"], told["secret_key"])) as http:
            day = {"fromTimestamp": "2026-11-20T00:00:00Z", "toTimestamp": "2026-11-21T00:00:00Z"}
            page = http.get(V3, params={**day, "name": "safety", "limit": 100}).json()
        process.stdin.close()
    assert len(page["data"]) == 100 and "cursor" in page["meta"]
    assert process.returncode == 0


def test_the_plan_of_a_team_can_be_set_and_does_not_count_health() -> None:
    with LangfuseStandin(limits={"public-api": (3, 60)}) as server, client(server) as http:
        assert [http.get("/api/public/health").status_code for _ in range(5)] == [200] * 5
        assert [http.get(V3).status_code for _ in range(4)] == [200, 200, 429, 429]
        server.clock.advance(60)
        assert http.get(V3).status_code == 200
