"""Every exchange that was recorded from a real Langfuse (4.16.0 and 3.225.4) is replayed against the stand-in."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from langfuse_recordings import DIALECT_OF, Knowledge, Scene
from langfuse_standin import LangfuseStandin
from langfuse_standin.clock import to_ms
from langfuse_standin.project import State

FOLDER = Path(os.environ.get("CALIBRATE_SHARED") or Path(__file__).resolve().parents[1] / ".." / "shared")
RECORDINGS = FOLDER.resolve() / "recordings" / "langfuse"

# Summaries of several calls, and the test here that does what they tell; the rest of the files are single exchanges.
SUMMARIES = {
    "v3_225_4/measure_post_to_visible.json": "test_a_post_shows_after_six_seconds",
    "v4_16_events_only/measure_post_to_visible.json": "test_a_post_shows_after_six_seconds",
    "v4_16_events_only/measure_update.json": "test_two_posts_back_to_back_leave_the_second",
    "v4_16_events_only/measure_burst.json": "test_a_burst_by_eight_threads_is_all_there",
    "v4_16_events_only/measure_delete.json": "test_a_deleted_score_is_gone_at_once_and_can_be_posted_again",
    "v4_16_events_only/measure_url_length.json": "test_a_long_url_is_431_without_a_body",
    "v4_16_events_only/measure_timestamp_filters.json": "test_v3_time_filters",
    "v3_225_4/measure_timestamp_filters.json": "test_v3_time_filters",
    "v4_16_dual/measure_timestamp_filters_v1.json": "test_paged_time_filters",
    "v4_16_dual/measure_timestamp_filters_v2.json": "test_paged_time_filters",
    "v3_225_4/measure_timestamp_filters_v1.json": "test_paged_time_filters",
    "v3_225_4/measure_timestamp_filters_v2.json": "test_paged_time_filters",
    "v4_16_events_only/paging_v3_to_end.json": "test_v3_paging_to_the_end",
    "v4_16_dual/paging_v1_to_end.json": "test_paging_by_number_to_the_end",
    "v4_16_dual/paging_v2_to_end.json": "test_paging_by_number_to_the_end",
    "v3_225_4/paging_v1_to_end.json": "test_paging_by_number_to_the_end",
    "v3_225_4/paging_v2_to_end.json": "test_paging_by_number_to_the_end",
    "v4_16_dual/missing_legacy_traces/paging_v1_to_end.json": "test_paging_by_number_to_the_end",
    "v4_16_dual/missing_legacy_traces/paging_v2_to_end.json": "test_paging_by_number_to_the_end",
    "v4_16_events_only/edge_values_readback.json": "test_edge_values_come_back_as_recorded",
    "v4_16_events_only/upsert_same_id.json": "test_the_same_id_again",
    "v4_16_events_only/human_annotation_flow.json": "test_a_human_annotation",
    "v4_16_events_only/delete_renamed.json": "test_a_delete_removes_both_names",
    "v4_16_events_only/delete_right_after_post.json": "test_a_delete_right_after_the_post_does_not_delete",
    "v4_16_events_only/duplicate_id_in_batch.json": "test_one_id_twice_in_a_batch",
    "v4_16_events_only/lone_surrogate_loses_batch.json": "test_a_lone_surrogate_loses_the_batch",
    "v4_16_events_only/score_post_1_2MB.json": "test_a_body_over_one_megabyte",
    "v4_16_cloud_region/rate_limited_get_v3.json": "test_rate_limits",
    "v4_16_cloud_region/rate_limited_post.json": "test_rate_limits",
    "v4_16_cloud_region/rate_limited_delete.json": "test_rate_limits",
}

# Not replayed, and why.
NOT_COVERED: dict[str, str] = {}

CLIENT = httpx.Client(verify=False)  # reading the certificates would take longer than all the rest

# What the stand-in does not model of an exchange that it otherwise answers as recorded.
NOT_MODELLED = {"modelId", "inputPrice", "outputPrice", "totalPrice", "usagePricingTierId", "usagePricingTierName"}


def recorded() -> list[str]:
    return [str(path.relative_to(RECORDINGS)) for path in sorted(RECORDINGS.rglob("*.json"))]


def exchanges() -> list[str]:
    return [name for name in recorded() if name not in SUMMARIES and name not in NOT_COVERED]


def read(name: str) -> Any:
    return json.loads((RECORDINGS / name).read_text())


@cache
def knowledge(version: str) -> Knowledge:
    return Knowledge(FOLDER.resolve(), version)


def test_every_recording_is_replayed_or_named_with_a_reason(shared: Path) -> None:
    names = set(recorded())
    assert names, f"no recordings in {shared}"
    assert set(SUMMARIES) <= names
    assert set(NOT_COVERED) <= names and all(NOT_COVERED.values())
    assert not set(SUMMARIES) & set(NOT_COVERED)
    for name in exchanges():
        assert {"request", "response"} <= set(read(name)), name
    for test in SUMMARIES.values():
        assert callable(globals()[test])


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], LangfuseStandin]]:
    """The server for a folder of recordings, with nothing in it."""
    with ExitStack() as running:
        started: dict[str, LangfuseStandin] = {}

        def of(folder: str) -> LangfuseStandin:
            if folder not in started:
                plan = "pro" if folder == "v4_16_cloud_region" else None
                started[folder] = running.enter_context(LangfuseStandin(DIALECT_OF[folder], plan=plan))
            started[folder].project.state = State()
            return started[folder]

        yield of


@pytest.mark.parametrize("name", exchanges())
def test_a_recorded_exchange_is_answered_as_recorded(name: str, servers: Callable[[str], LangfuseStandin]) -> None:
    recording = read(name)
    folder = name.split("/")[0]
    server = servers(folder)
    prepare(Scene(folder, recording, knowledge(folder[:2]), server))
    check(name, recording["response"], ask(server, recording["request"], name), recording["request"])
    assert not server.errors


def prepare(scene: Scene) -> None:
    path, method, status = scene.path, scene.request["method"], scene.response["status"]
    if status not in (200, 202, 207) and "nnotation-queues" not in path:
        return
    parts = path.removeprefix("/api/public/").split("/")
    state = scene.server.project.state
    if "scores" in parts and method == "GET":
        if parts[0] == "v3":
            scene.scores_v3()
        elif parts[-1] == "scores":
            scene.scores_paged(v1=parts[0] == "scores")
        else:
            scene.score()
    elif parts[0] == "score-configs" and method != "POST":
        if parts[1:]:
            scene.configs()
        else:
            name = "configs_list.json"
            state.configs += deepcopy(read(f"{scene.folder}/{name}")["response"]["body"]["data"][::-1])
        if method == "PATCH":
            one = scene.server.project.config(parts[1])
            assert one is not None
            one["description"] = None
    elif parts[0] == "annotation-queues":
        prepare_queue(scene, parts, method)
    elif parts[:2] == ["v2", "datasets"] and method == "GET":
        if len(parts) == 2:
            scene.paged(state.datasets, scene.rows)
        else:
            state.datasets.append(deepcopy(scene.body))
    elif parts[0] in ("dataset-items", "dataset-run-items", "datasets"):
        prepare_dataset(scene, parts, method)
    elif parts[0] in ("traces", "sessions", "observations") and method == "GET":
        prepare_traces(scene, parts)
    elif parts[:2] == ["v2", "observations"]:
        prepare_events(scene)
    elif parts[0] in ("experiments", "experiment-items"):
        prepare_experiments(scene, parts[0])


def prepare_queue(scene: Scene, parts: list[str], method: str) -> None:
    state = scene.server.project.state
    scene.configs()
    if scene.response["status"] == 404 and len(parts) < 4:
        return
    if len(parts) == 1 and method == "POST":
        if scene.response["status"] == 400:
            scene.queues()
        return
    scene.queues()
    if parts[-1] == "items" and method == "GET":
        other = "PENDING" if scene.query.get("status") == "COMPLETED" else "COMPLETED"
        elsewhere = {"queueId": "another queue"}
        decoy = {"status": other} if "status" in scene.query else elsewhere
        scene.paged(state.queue_items, scene.rows, **decoy)
    elif len(parts) == 4 and scene.response["status"] == 200:
        item = {"queueId": parts[1], "id": parts[3], "status": "PENDING", **(scene.body if method != "DELETE" else {})}
        if method == "PATCH":
            item |= {"status": "PENDING", "completedAt": None}
        state.queue_items.append(item)


def prepare_dataset(scene: Scene, parts: list[str], method: str) -> None:
    state, known = scene.server.project.state, scene.knowledge
    state.datasets += deepcopy(list(known.datasets.values()))
    if parts[0] == "dataset-items" and method == "GET":
        scene.paged(state.dataset_items, scene.rows, datasetId="another dataset")
        return
    state.dataset_items += deepcopy(list(known.items.values()))
    if method == "POST":
        return
    if parts[0] == "dataset-run-items":
        run = {"id": scene.rows[0]["datasetRunId"], "datasetId": scene.query["datasetId"]}
        state.runs += [{**run, "name": scene.query["runName"]}, {**run, "id": "decoy", "name": "decoy"}]
        scene.paged(state.run_items, scene.rows, datasetRunId="decoy")
    elif parts[-1] == "runs":
        dataset = next((one for one in state.datasets if one["name"] == dataset_name(scene)), None)
        if dataset is None:
            dataset = scene.rows[0]["datasetId"] if scene.rows else "d"
            state.datasets.append({"id": dataset, "name": dataset_name(scene)})
        scene.paged(state.runs, scene.rows, datasetId="another dataset", datasetName="another")
    else:
        run = {key: value for key, value in scene.body.items() if key != "datasetRunItems"}
        state.runs += [{**run, "id": "decoy", "name": "decoy"}, run]
        items = deepcopy(scene.body["datasetRunItems"][::-1])
        state.run_items += [*items, {**items[0], "datasetRunId": "decoy"}]


def dataset_name(scene: Scene) -> str:
    return unquote(scene.path.split("/")[4])


def prepare_traces(scene: Scene, parts: list[str]) -> None:
    server = scene.server
    if parts[0] == "observations":
        for one in scene.rows:
            add_observation(server, one)
        add_observation(server, {**scene.rows[0], "id": "decoy", "traceId": "another"})
        return
    alone = [scene.body] if parts[0] == "traces" else scene.body.get("traces")
    found = scene.rows if parts == ["traces"] else alone
    for one in found[::-1]:  # of two with one timestamp the one that came last comes first
        add_trace(server, one)
        for observation in one.get("observations", ()):
            if isinstance(observation, dict):
                add_observation(server, observation)
            else:
                moment = one["timestamp"]
                cost = {"costDetails": {"total": one["totalCost"] / len(one["observations"])}}
                server.add_observation(observation, one["id"], start=moment, end=moment, **cost)
        for score in one.get("scores", ()):
            if isinstance(score, dict):
                scene.server.add_scores([scene._known(score)])
            else:
                server.add_score(id=score, name="n", value=1, traceId=one["id"])
    if parts[0] == "sessions":
        add_trace(server, {**found[0], "id": "decoy", "sessionId": "another"})
    if parts == ["traces"]:
        meta = scene.body["meta"]
        for n in range(meta["totalItems"] - len(found)):
            last = to_ms(found[-1]["timestamp"])
            add_trace(server, {**found[-1], "id": f"older-{n}", "timestamp": last - n - 1})
        if "tags" in scene.query:
            add_trace(server, {**found[0], "id": "decoy", "tags": ["another"]})


TRACE_KEYS = ("timestamp", "name", "environment", "tags", "bookmarked", "release", "version", "userId", "sessionId")
TRACE_KEYS += ("public", "input", "output", "metadata", "createdAt", "updatedAt")


def add_trace(server: LangfuseStandin, one: dict[str, Any]) -> None:
    server.add_trace(one["id"], **{key: deepcopy(one[key]) for key in TRACE_KEYS})


def add_observation(server: LangfuseStandin, one: dict[str, Any], **more: Any) -> None:
    keys = ("parentObservationId", "type", "environment", "name", "level", "createdAt", "updatedAt", "input", "output")
    keys += ("statusMessage", "version", "metadata", "model", "modelParameters", "usageDetails", "costDetails")
    keys += ("userId", "sessionId")
    given = {key: deepcopy(one[key]) for key in keys if key in one}
    times = {"start": one["startTime"], "end": one["endTime"]}
    server.add_observation(one["id"], one["traceId"], **times, **given, **more)


def prepare_events(scene: Scene) -> None:
    for one in scene.rows:
        add_observation(scene.server, one, root=one["isRootObservation"])
    if scene.body["meta"].get("cursor"):
        last = scene.rows[-1]
        add_observation(scene.server, {**last, "id": "0"})
    if "traceId" in scene.query:
        wanted = scene.query["traceId"]
        start = "2026-11-30T23:00:00Z"
        scene.server.add_observation("decoy", "another", start=start)
        # what /ingestion brought does not reach the events table
        scene.server.add_observation("legacy", wanted, start=start, events=False)


def prepare_experiments(scene: Scene, kind: str) -> None:
    server = scene.server
    if kind == "experiments":
        for one in scene.rows:
            server.project.state.experiments.append(
                {
                    **{key: one[key] for key in ("id", "name", "description", "itemCount", "datasetId", "metadata")},
                    "start": to_ms(one["startTime"]),
                    "end": to_ms(one["endTime"]),
                }
            )
            server.add_scores(scene._known(score) for score in one["scores"])
        old = {**server.project.state.experiments[0], "id": "decoy", "start": to_ms("2026-11-29T23:59:59Z")}
        server.project.state.experiments.append(old)
        return
    for one in [*scene.rows, *([next_item(scene.rows[-1])] if scene.body["meta"].get("cursor") else [])]:
        add_observation(
            server,
            one,
            experiment={
                "id": one["experimentId"],
                "name": one["experimentName"],
                "itemId": one["experimentItemId"],
                "datasetId": one["experimentDatasetId"],
                "itemVersion": one["experimentItemVersion"],
                "expectedOutput": one["expectedOutput"],
                "itemMetadata": one["experimentItemMetadata"],
                "metadata": one["experimentMetadata"],
                "description": one["experimentDescription"],
            },
        )
        if one["id"] != "next":
            server.add_scores(scene._known(score) for score in one["scores"])


def next_item(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "id": "next", "startTime": to_ms(one["startTime"]) - 1}


def ask(server: LangfuseStandin, request: dict[str, Any], name: str) -> httpx.Response:
    body: dict[str, Any] = {}
    if isinstance(request["body"], str):
        body["content"] = request["body"]
    elif request["body"] is not None:
        body["json"] = request["body"]
    query = request["query"] or None
    if query:
        query = {key: value if isinstance(value, list) else str(value) for key, value in query.items()}
    headers = key_of(server, request["auth"], name)
    return CLIENT.request(request["method"], server.url + request["path"], params=query, headers=headers, **body)


def key_of(server: LangfuseStandin, auth: str, name: str) -> dict[str, str]:
    if auth == "none":
        return {}
    kinds = {
        "bearer_pk": f"Bearer {server.public_key}",
        "401_malformed": "Basic not*base64",
        "401_wrong": f"Basic {basic(server.public_key, 'sk-lf-wrong')}",
        "401_unknown_pk": f"Basic {basic('pk-lf-unknown', server.secret_key)}",
    }
    header = next((header for kind, header in kinds.items() if kind in name), None)
    assert (header is None) == auth.startswith("basic"), f"{name}: do not know which key {auth!r} is"
    return {"Authorization": header or f"Basic {basic(server.public_key, server.secret_key)}"}


def basic(public: str, secret: str) -> str:
    return base64.b64encode(f"{public}:{secret}".encode()).decode()


def check(name: str, wanted: dict[str, Any], answer: httpx.Response, request: dict[str, Any]) -> None:
    assert answer.status_code == wanted["status"], answer.text
    kind = wanted["headers"].get("Content-Type", "")
    assert answer.headers.get("Content-Type", "") == kind
    if kind.startswith("text/html"):
        assert answer.text.startswith("<!DOCTYPE html>") and wanted["body"].startswith("<!DOCTYPE html>")
        return
    body = answer.json() if kind else answer.text
    made_here = request["method"] != "GET" and wanted["status"] == 200
    expected = wanted["body"]
    if made_here:  # the server gives ids and times of its own
        sent = {**(request["body"] or {})}
        body, expected = made(body, sent), made(expected, sent)
    if "/sessions/" in request["path"]:
        body, expected = {**body, "createdAt": ""}, {**expected, "createdAt": ""}
    if (
        isinstance(expected, dict)
        and isinstance(expected.get("data"), list)
        and len(expected["data"]) < len(body.get("data", ()))
    ):
        shortened = read(name)["shortened"]
        assert shortened == f"data shortened from {len(body['data'])} to {len(expected['data'])} rows"
        body = {**body, "data": body["data"][: len(expected["data"])]}
    assert comparable(body) == comparable(expected)


def made(body: Any, sent: dict[str, Any]) -> Any:
    if not isinstance(body, dict):
        return body
    ours = {"createdAt", "updatedAt", "completedAt", "datasetRunId", *({"id"} - set(sent))}
    return {key: bool(value) if key in ours else value for key, value in body.items()}


def comparable(body: Any) -> Any:
    """Without what is not modelled; the scores and observations of a trace, whose order says nothing, sorted."""
    if isinstance(body, list):
        return [comparable(one) for one in body]
    if isinstance(body, dict):
        kept = {key: comparable(value) for key, value in body.items() if key not in NOT_MODELLED}
        if isinstance(kept.get("scores"), list):
            kept["scores"].sort(key=lambda one: one if isinstance(one, str) else one["id"])
        if all(isinstance(one, str) for one in kept.get("observations", ())):
            kept |= {"observations": sorted(kept["observations"])} if "observations" in kept else {}
        return kept
    return body


# the summaries


V3 = "/api/public/v3/scores"
ALL = "core,details,subject,annotation"
T = {"traceId": "t"}


@pytest.fixture
def server() -> Iterator[LangfuseStandin]:
    with LangfuseStandin() as server:
        yield server


def http(server: LangfuseStandin) -> httpx.Client:
    return httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key), verify=False)


def get(server: LangfuseStandin, path: str = V3, **params: Any) -> Any:
    with http(server) as client:
        return client.get(path, params=params).raise_for_status().json()


def rows(server: LangfuseStandin, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(server, **{"fields": ALL, **params})["data"]
    return found


def post(server: LangfuseStandin, *scores: dict[str, Any]) -> None:
    with http(server) as client:
        for score in scores:
            client.post("/api/public/scores", json=score).raise_for_status()


def ingest(server: LangfuseStandin, *events: tuple[str, dict[str, Any]]) -> None:
    batch = [
        {"id": f"e{i}", "type": "score-create", "timestamp": moment, "body": body}
        for i, (moment, body) in enumerate(events)
    ]
    with http(server) as client:
        answer = client.post("/api/public/ingestion", json={"batch": batch})
    assert answer.status_code == 207 and not answer.json()["errors"]


def summary(name: str) -> Any:
    return read(f"v4_16_events_only/{name}.json")


def test_a_post_shows_after_six_seconds(server: LangfuseStandin, shared: Path) -> None:
    """As soon as the quickest that was recorded, no sooner."""
    folders = ("v3_225_4", "v4_16_events_only")
    seen = [pair[1] for folder in folders for pair in read(f"{folder}/measure_post_to_visible.json")["pairs"]]
    post(server, {**T, "id": "a", "name": "n", "value": 1})
    server.clock.advance(min(seen) - 0.05)
    assert rows(server) == []
    server.clock.advance(0.05)
    assert len(rows(server)) == 1


def test_two_posts_back_to_back_leave_the_second(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("measure_update")
    (final,) = recorded["two_posts_back_to_back_final"]
    post(server, *({**T, "id": final["id"], "name": final["name"], "value": value} for value in (1, 2)))
    server.clock.advance(6)
    (row,) = rows(server, fields="core")
    times = ("timestamp", "createdAt", "updatedAt")
    assert {**row, **dict.fromkeys(times, "")} == {**final, **dict.fromkeys(times, "")}
    post(server, {**T, "id": final["id"], "name": final["name"], "value": 3})
    server.clock.advance(max(recorded["update_to_visible_s"]))
    assert rows(server)[0]["value"] == 3
    assert rows(server)[0]["timestamp"] == row["timestamp"]
    assert rows(server)[0]["updatedAt"] > row["updatedAt"]


def test_a_burst_by_eight_threads_is_all_there(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("measure_burst")
    scores = [{**T, "id": f"b{i}", "name": "n", "value": i} for i in range(recorded["posts"])]
    parts = [scores[i :: recorded["threads"]] for i in range(recorded["threads"])]
    with ThreadPoolExecutor(recorded["threads"]) as pool:
        list(pool.map(lambda part: post(server, *part), parts))
    server.clock.advance(recorded["all_visible_after_last_reply_s"])
    server.settle()
    assert len(server.project.state.table.by_id) == recorded["visible"] == 400


def test_a_deleted_score_is_gone_at_once_and_can_be_posted_again(server: LangfuseStandin, shared: Path) -> None:
    score = {**T, "id": "d", "name": "n", "value": 1, "comment": "first"}
    post(server, score)
    server.clock.advance(6)
    with http(server) as client:
        assert client.delete("/api/public/scores/d").status_code == 202
    server.clock.advance(summary("measure_delete")["delete_to_gone_s"])
    assert rows(server) == []
    post(server, {**T, "id": "d", "name": "n", "value": 2})
    server.clock.advance(summary("measure_delete")["repost_same_id_visible_s"])
    (row,) = rows(server)
    assert (row["value"], row["comment"]) == (2, None)  # nothing of the deleted one comes back


def test_a_long_url_is_431_without_a_body(server: LangfuseStandin, shared: Path) -> None:
    assert summary("measure_url_length")["6.6_kB_url"] == 200
    with http(server) as client:
        assert client.get(V3, params={"traceId": ",".join(["f" * 32] * 200)}).status_code == 200
        answer = client.get(V3, params={"id": "x" * 20_000})
    assert (answer.status_code, answer.content) == (431, b"")


@pytest.mark.parametrize("folder", ["v4_16_events_only", "v3_225_4"])
def test_v3_time_filters(server: LangfuseStandin, shared: Path, folder: str) -> None:
    recorded = read(f"{folder}/measure_timestamp_filters.json")
    start = to_ms("2026-11-20T12:00:00Z")
    stored = 200 if recorded["empty"] == 100 else recorded["empty"]  # a full page, or all there were
    numbers = [{**T, "id": f"b{i}", "name": "n", "value": i} for i in range(stored)]
    server.add_scores({**one, "timestamp": start + i * 600_000} for i, one in enumerate(numbers))
    first, last = "2026-11-20T12:10:00.000Z", "2026-11-20T12:30:00.000Z"
    asked: dict[str, tuple[str, str | None]] = {
        "from=12:10:00.000Z": (first, last),
        "to=12:30:00.001Z": (first, "2026-11-20T12:30:00.001Z"),
        "from=12:10:00.001Z": ("2026-11-20T12:10:00.001Z", last),
        "from micro 12:10:00.000500Z": ("2026-11-20T12:10:00.000500Z", last),
        "offset +01:00": ("2026-11-20T13:10:00.000+01:00", "2026-11-20T13:30:00+01:00"),
        "no zone": ("2026-11-20T12:10:00", "2026-11-20T12:30:00"),
        "date only": ("2026-11-21", "2026-11-22"),
        "epoch ms": (str(start), None),
        "from>to": (last, first),
        "garbage": ("yesterday", None),
        "empty": ("", None),
    }
    assert set(asked) == set(recorded)
    for what, (begin, end) in asked.items():
        with http(server) as client:
            bounds = {"fromTimestamp": begin} | ({"toTimestamp": end} if end else {})
            answer = client.get(V3, params={"limit": 100, **bounds})
        if isinstance(recorded[what], list):
            assert [answer.status_code, answer.json()] == recorded[what], what
        else:
            assert len(answer.json()["data"]) == recorded[what], what


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("folder", ["v4_16_dual", "v3_225_4"])
def test_paged_time_filters(shared: Path, folder: str, version: str) -> None:
    recorded = read(f"{folder}/measure_timestamp_filters_{version}.json")
    path = "/api/public/scores" if version == "v1" else "/api/public/v2/scores"
    asked = {
        "from_exact": ("2026-11-29T10:01:30.000Z", "2026-11-29T10:03:30.000Z"),
        "to_plus1ms": ("2026-11-29T10:01:30.000Z", "2026-11-29T10:03:30.001Z"),
        "from_plus1ms": ("2026-11-29T10:01:30.001Z", "2026-11-29T10:03:30.000Z"),
        "offset": ("2026-11-29T11:01:30+01:00", "2026-11-29T11:03:30+01:00"),
        "no_zone": ("2026-11-29T10:01:30", "2026-11-29T10:03:30"),
        "date_only": ("2026-11-29", None),
        "garbage": ("yesterday", None),
        "empty": ("", None),
    }
    assert set(asked) == set(recorded)
    with LangfuseStandin(DIALECT_OF[folder]) as server, http(server) as client:
        server.add_trace("t")
        start = to_ms("2026-11-29T10:00:30Z")
        server.add_scores(
            {**T, "id": f"l{i}", "name": "lq", "value": i, "timestamp": start + i * 60_000} for i in range(20)
        )
        for what, (begin, end) in asked.items():
            bounds = {"fromTimestamp": begin} | ({"toTimestamp": end} if end else {})
            answer = client.get(path, params={"name": "lq", "limit": 100, **bounds})
            seen = answer.status_code if answer.status_code != 200 else len(answer.json()["data"])
            assert seen == recorded[what], what


@pytest.mark.parametrize("limit", [100, 37, 10])
def test_v3_paging_to_the_end(server: LangfuseStandin, shared: Path, limit: int) -> None:
    recorded = summary("paging_v3_to_end")
    total, multiple = recorded["rows_total"], recorded["exact_multiple"]
    start = to_ms("2026-11-20T12:00:00Z")
    server.add_scores(
        {**T, "id": f"s{i}", "name": "n", "value": i, "timestamp": start + i // 3} for i in range(total)
    )  # three to a timestamp
    pages: list[dict[str, Any]] = [get(server, limit=limit)]
    while "cursor" in pages[-1]["meta"]:
        pages.append(get(server, limit=limit, cursor=pages[-1]["meta"]["cursor"]))
    seen = [row["id"] for page in pages for row in page["data"]]
    assert seen == sorted((f"s{i}" for i in range(total)), key=lambda s: (int(s[1:]) // 3, s), reverse=True)
    if limit == 100:
        assert len(pages) == recorded["pages_at_100"] and pages[-1]["meta"] == recorded["last_page_meta"]
    numbers = [{**T, "id": f"demo-bulk-num-{i}", "name": "bulk", "value": i} for i in range(200)]
    server.add_scores({**one, "timestamp": start + i * 600_000} for i, one in enumerate(numbers))
    first = get(server, limit=100, name="bulk")
    second = get(server, limit=100, name="bulk", cursor=first["meta"]["cursor"])
    assert (len(first["data"]), first["meta"]) == (multiple["page1_rows"], multiple["page1_meta"])
    assert (len(second["data"]), second["meta"]) == (multiple["page2_rows"], multiple["page2_meta"])


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("folder", ["v4_16_dual", "v4_16_dual/missing_legacy_traces", "v3_225_4"])
def test_paging_by_number_to_the_end(shared: Path, folder: str, version: str) -> None:
    """As many rows as recorded, some of them stored twice, and every score counted as often as it is stored."""
    recorded = read(f"{folder}/paging_{version}_to_end.json")
    path = "/api/public/scores" if version == "v1" else "/api/public/v2/scores"
    start = to_ms("2026-11-20T12:00:00Z")
    count, stored = recorded["rows"], recorded["meta_first"]["totalItems"]
    with LangfuseStandin(DIALECT_OF[folder.split("/")[0]]) as server, http(server) as client:
        server.add_trace("t")
        scores = [{**T, "id": f"s{i}", "name": "n", "value": i, "timestamp": start + i} for i in range(count)]
        server.add_scores(scores)
        server.add_scores({**one, "value": -1} for one in scores[: stored - count])  # updated, not merged yet
        if "missing" in folder:
            server.add_scores({**one, "id": f"m{i}", "traceId": "gone"} for i, one in enumerate(scores))
        pages = [client.get(path, params={"limit": 100, "page": 1}).json()]
        while pages[-1]["data"]:
            pages.append(client.get(path, params={"limit": 100, "page": len(pages) + 1}).json())
        seen = [row["id"] for page in pages for row in page["data"]]
        assert seen == [f"s{i}" for i in range(count - 1, -1, -1)]
        assert (len(set(seen)), len(pages)) == (recorded["unique_ids"], recorded["pages"])
        assert pages[0]["meta"] == recorded["meta_first"] and pages[-1]["meta"] == recorded["meta_last"]
        server.project.state.table.merge_parts()
        assert client.get(path).json()["meta"]["totalItems"] == count


def test_edge_values_come_back_as_recorded(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("edge_values_readback")
    bodies = [
        f'{{"id":"{key}","traceId":"t","name":"edge-float","value":{one["sent"]}}}'
        for key, one in recorded["floats"].items()
    ]
    with http(server) as client:
        for body in bodies:
            client.post("/api/public/scores", content=body).raise_for_status()
    comments = {key: one["sent"] for key, one in recorded["comments"].items()}
    comments["u10"] = "x" * 100_000
    post(server, *({**T, "id": key, "name": "edge-comment", "value": 1, "comment": c} for key, c in comments.items()))
    others = []
    for one in recorded["others"].values():
        value, kept = one["value"], one["metadata"]
        sent = kept["metadata"] if set(kept) == {"metadata"} else kept
        others.append({**T, "id": one["id"], "name": one["name"], "value": value, "metadata": sent})
    post(server, *others, {**T, "id": "big", "name": "b", "value": 1, "comment": "y" * 900_000})
    server.clock.advance(6)
    shown = {row["id"]: row for row in rows(server, limit=100)}
    assert {key: json.dumps(shown[key]["value"]) for key in recorded["floats"]} == {
        key: one["got"] for key, one in recorded["floats"].items()
    }
    assert {key: shown[key]["comment"] for key in comments} == comments
    for one in recorded["others"].values():
        same = ("name", "source", "environment", "comment", "configId", "metadata", "dataType", "value")
        assert {key: shown[one["id"]][key] for key in same} == {key: one[key] for key in same}
        assert [row["id"] for row in rows(server, id=one["id"])] == ([] if "," in one["id"] else [one["id"]])
    assert len(shown["big"]["comment"]) == recorded["extra"]["edge-900k comment length"]


def test_the_same_id_again(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("upsert_same_id")
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    for case, found in recorded["before"].items():
        before, after = found[0], recorded["after"][case][0]
        trace = {"traceId": before["subject"]["id"]}
        sent = {**trace, "id": before["id"], "name": before["name"], "value": before["value"]}
        first.append({**sent, "comment": before["comment"], "metadata": before["metadata"]})
        again = {**trace, "id": before["id"], "name": after["name"], "value": after["value"]}
        again |= {"1": {"metadata": {"k": 2}}, "2": {"traceId": "another"}, "5": {"comment": None}}.get(case, {})
        second.append(again)
    assert len(first) == len(recorded["cases"]) == 5
    post(server, *first)
    server.clock.advance(8)
    before = {row["id"]: row for row in rows(server)}
    post(server, *second)
    server.clock.advance(8)
    after = {row["id"]: row for row in rows(server)}
    for case in recorded["cases"]:
        was, now = recorded["before"][case][0], recorded["after"][case][0]
        moved = {key for key in was if was[key] != now[key]}
        ours = {key for key in was if before[was["id"]][key] != after[was["id"]][key]}
        assert ours == moved, recorded["cases"][case]
        times = ("timestamp", "createdAt", "updatedAt")
        assert {k: v for k, v in after[now["id"]].items() if k not in times} == {
            k: v for k, v in now.items() if k not in times
        }
    assert [row["value"] for row in rows(server, name="up-old-name")] == [0.1]
    assert [row["value"] for row in rows(server, name="up-new-name")] == [0.4]


def test_a_human_annotation(server: LangfuseStandin, shared: Path) -> None:
    made_, edited, again, deleted = summary("human_annotation_flow")
    (new,), (changed,), (over,) = made_["v3_right_after"], edited["v3_right_after"], again["v3_for_trace"]
    server.add_config("is_correct", "BOOLEAN", id=new["configId"])
    server.clock.set(new["timestamp"])
    on = {"traceId": new["subject"]["id"], "configId": new["configId"], "authorUserId": new["authorUserId"]}
    created = server.annotate(**on, value=True, id=new["id"])
    # the real one wrote the row a few milliseconds later than its timestamp
    late = {"createdAt": new["timestamp"], "updatedAt": new["timestamp"]}
    assert rows(server) == [{**new, **late}]
    server.clock.advance(3)
    server.edit_annotation(created, value=False, comment="changed my mind", authorUserId=new["authorUserId"])
    assert rows(server) == [{**changed, **late}]
    assert changed["updatedAt"] == new["updatedAt"]
    server.clock.set(over["timestamp"])
    assert (server.annotate(**on, value=True) == created) is again["returned_id_is_first"]
    assert rows(server) == [{**over, **late}]
    server.delete_annotation(created)
    assert rows(server) == deleted["v3_right_after"] == deleted["v3_after_10_s"] == []


def test_a_delete_removes_both_names(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("delete_renamed")
    for name in ("old", "new"):
        post(server, {**T, "id": "r", "name": name, "value": 1})
        server.clock.advance(6)
    assert len(rows(server, name="old")) == len(rows(server, name="new")) == 1
    with http(server) as client:
        client.delete("/api/public/scores/r")
    assert rows(server, name="old") == recorded["left_by_old_name"]
    assert rows(server, name="new") == recorded["left_by_new_name"]


def test_a_delete_right_after_the_post_does_not_delete(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("delete_right_after_post")
    post(server, {**T, "id": recorded["rows"][0]["id"], "name": "del", "value": 1})
    with http(server) as client:
        assert client.delete(f"/api/public/scores/{recorded['rows'][0]['id']}").status_code == recorded["delete_status"]
    server.clock.advance(15)
    (row,) = rows(server)
    assert (row["id"], row["value"]) == (recorded["rows"][0]["id"], recorded["rows"][0]["value"])


def test_one_id_twice_in_a_batch(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("duplicate_id_in_batch")
    (row,) = recorded["rows"]
    sent = [{"id": row["id"], "name": "d", "traceId": one["trace"], "value": one["value"]} for one in recorded["sent"]]
    ingest(server, *((row["timestamp"], one) for one in sent))
    server.clock.advance(6)
    (ours,) = rows(server, fields="subject")
    assert (ours["subject"], ours["value"]) == (row["subject"], row["value"])


def test_a_lone_surrogate_loses_the_batch(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("lone_surrogate_loses_batch")
    bad = recorded["bad_post_reply"][1]["id"]
    with http(server) as client:
        for name in [*recorded["lost"][:5], bad, *recorded["lost"][5:]]:
            comment = "\\ud800" if name == bad else "good"
            body = f'{{"id":"{name}","traceId":"t","name":"n","value":1,"comment":"{comment}"}}'
            answer = client.post("/api/public/scores", content=body)
            assert (answer.status_code, answer.json()) == (200, {"id": name})
    server.clock.advance(20)
    assert [row["id"] for row in rows(server)] == recorded["visible"] == []
    assert sorted(server.project.state.lost) == sorted([*recorded["lost"], bad])
    post(server, {**T, "id": "later", "name": "n", "value": 1})
    server.clock.advance(6)
    assert [row["id"] for row in rows(server)] == ["later"]


def test_a_body_over_one_megabyte(server: LangfuseStandin, shared: Path) -> None:
    recorded = summary("score_post_1_2MB")["response"]
    with http(server) as client:
        answer = client.post("/api/public/scores", json={**T, "name": "n", "value": 1, "comment": "x" * 1_200_000})
    assert (answer.status_code, answer.text) == (recorded["status"], recorded["body"])


@pytest.mark.parametrize("name", ["rate_limited_get_v3", "rate_limited_post", "rate_limited_delete"])
def test_rate_limits(shared: Path, name: str) -> None:
    recording = read(f"v4_16_cloud_region/{name}.json")
    request, response = recording["request"], recording["response"]
    details = response["body"]["details"]
    seconds = 86_400 if "delete" in name else 60
    with LangfuseStandin("4.16-dual", plan="hobby") as server, http(server) as client:
        opened = to_ms(details["resetAt"]) - seconds * 1000
        server.clock.set(datetime.fromtimestamp(opened / 1000, UTC))
        for n in range(details["limit"] - 1):
            if "delete" in name:
                answer = client.delete(f"/api/public/scores/{n}")
            else:  # GET and POST share one limit
                post_ = {"json": {**T, "name": "n", "value": 1}}
                answer = client.post("/api/public/scores", **post_) if n % 2 else client.get(V3, params={"limit": 1})
            assert answer.status_code in (200, 202)
        server.clock.advance(seconds - details["retryAfterSeconds"])
        limited = client.request(request["method"], request["path"], params=request["query"])
        assert (limited.status_code, limited.json()) == (response["status"], response["body"])
        for header, value in response["headers"].items():
            if header.lower() != "etag":
                assert limited.headers[header] == value, header
        server.clock.advance(details["retryAfterSeconds"])
        assert client.request(request["method"], request["path"], params=request["query"]).status_code != 429
