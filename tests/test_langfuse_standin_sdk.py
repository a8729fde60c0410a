"""The real Langfuse SDK (5.x) takes the stand-in for a Langfuse: what it parses and sends holds the stand-in honest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langfuse_standin import LangfuseStandin

pytest.importorskip("langfuse", minversion="5.0")

from langfuse.api import CreateScoreRequest, LangfuseAPI
from langfuse.api.core import ApiError

T = {"traceId": "t"}
VALUES: tuple[tuple[str, Any], ...] = (
    ("NUMERIC", 0.5),
    ("BOOLEAN", True),
    ("CATEGORICAL", "good"),
    ("TEXT", "a remark"),
    ("CORRECTION", "the right answer"),
)


def api(server: LangfuseStandin) -> LangfuseAPI:
    return LangfuseAPI(base_url=server.url, username=server.public_key, password=server.secret_key)


@pytest.fixture
def server() -> Iterator[LangfuseStandin]:
    with LangfuseStandin("4.59") as server:
        yield server


@pytest.mark.parametrize("dialect", ["3.225", "4.16-dual", "4.16-events-only", "4.35", "4.59"])
def test_the_sdk_reads_all_pages_of_every_type_and_source(dialect: str) -> None:
    subjects = ({"traceId": "t"}, {"traceId": "t", "observationId": "o"}, {"sessionId": "s"}, {"datasetRunId": "r"})
    with LangfuseStandin(dialect) as server:
        server.add_scores(
            {
                "id": f"s{i}",
                "name": "n",
                "dataType": VALUES[i % 5][0],
                "value": VALUES[i % 5][1],
                "source": ("API", "EVAL", "ANNOTATION")[i % 3],
                "timestamp": f"2026-11-{1 + i % 28:02}T10:00:00Z",
                "metadata": {"evaluator_id": "e"},
                **subjects[i % 4],
            }
            for i in range(420)
        )
        langfuse, scores, cursor = api(server), [], None
        while True:
            page = langfuse.scores.get_many(limit=100, fields="core,details,subject,annotation", cursor=cursor)
            scores += page.data
            cursor = page.meta.cursor
            if not cursor:
                break
        assert len({score.id for score in scores}) == len(scores) == 420
        by_id = {score.id: score for score in scores}
        for i in range(420):
            score = by_id[f"s{i}"]
            assert (score.data_type, score.value) == VALUES[i % 5]
            assert score.subject is not None
            assert score.subject.kind == ("trace", "observation", "session", "experiment")[i % 4]
        assert server.requests.counts() == {"GET /api/public/v3/scores": 5}


def test_the_sdk_posts_to_4_59_and_hears_how_many_were_refused(server: LangfuseStandin) -> None:
    good = CreateScoreRequest(id="a", name="n", value=1.0, trace_id="t")
    bad = CreateScoreRequest(id="b", name="n", value=1.0)
    accepted = api(server).scores.create(request=[good])
    mixed = api(server).scores.create(request=[good, bad])
    assert accepted.dict() == {"message": "Accepted"}
    assert (mixed.accepted, mixed.rejected, len(mixed.errors)) == (1, 1, 1)  # type: ignore[union-attr]
    assert [request.status for request in server.requests] == [202, 207]
    server.clock.advance(6)
    assert [score.id for score in api(server).scores.get_many().data] == ["a"]


@pytest.mark.parametrize("dialect", ["3.50", "3.225", "4.16-dual", "4.16-events-only", "4.35"])
def test_the_sdk_is_refused_by_older_servers(dialect: str) -> None:
    with LangfuseStandin(dialect) as server, pytest.raises(ApiError) as refused:
        api(server).scores.create(request=[CreateScoreRequest(name="n", value=1.0, trace_id="t")])
    assert refused.value.status_code == 400
    assert "expected object, received array" in json.dumps(refused.value.body)


def test_the_sdk_reads_what_else_there_is(server: LangfuseStandin) -> None:
    config = server.add_config("ok", "BOOLEAN")["id"]
    server.add_config("tone", "CATEGORICAL", categories=[{"label": "good", "value": 1}])
    queue = server.add_queue("review", [config])["id"]
    server.add_queue_item(queue, "t")
    server.add_evaluator("judge", "helpfulness", [{"id": "v1"}, {"id": "v2"}])
    server.add_trace("t", name="chat")
    experiment = {"id": "exp", "name": "run-1", "itemId": "item", "datasetId": "set", "expectedOutput": "4"}
    server.add_observation("o", "t", end=server.clock.now(), output="5", experiment=experiment)
    server.add_score(id="s", name="n", value=1, traceId="t", observationId="o")
    langfuse = api(server)
    assert langfuse.health.health().version == "4.59.0"
    assert [project.id for project in langfuse.projects.get().data] == [server.project_id]
    assert [one.name for one in langfuse.score_configs.get().data] == ["tone", "ok"]
    assert [one.name for one in langfuse.annotation_queues.list_queues().data] == ["review"]
    assert [one.object_id for one in langfuse.annotation_queues.list_queue_items(queue).data] == ["t"]
    assert [one.version_id for one in langfuse.evaluators.list().data] == ["v2"]
    assert [one.id for one in langfuse.evaluators.list_versions("judge").data] == ["v2", "v1"]
    assert [one.id for one in langfuse.observations.get_many(trace_id="t", fields="core,basic,io").data] == ["o"]
    start = server.clock.now().replace(month=1)
    (found,) = langfuse.experiments.list(from_start_time=start, fields="core,scores").data
    assert (found.id, found.item_count) == ("exp", 1)
    (item,) = langfuse.experiments.list_items(from_start_time=start, fields="core,io,scores").data
    assert (item.output, item.expected_output, [score.id for score in item.scores or ()]) == ("5", "4", ["s"])
    dataset = langfuse.datasets.create(name="set one")
    langfuse.dataset_items.create(dataset_name="set one", input={"q": 1}, expected_output="4")
    assert langfuse.datasets.get("set one").id == dataset.id
    assert [one.expected_output for one in langfuse.dataset_items.list(dataset_name="set one").data] == [4]


WRITER = """
import sys
from langfuse import Langfuse

langfuse = Langfuse(public_key=sys.argv[2], secret_key=sys.argv[3], base_url=sys.argv[1], environment="production")
langfuse.create_score(score_id="s", name="ok", value=1, data_type="BOOLEAN", trace_id="a" * 32, metadata={"k": 1})
with langfuse.start_as_current_observation(name="chat", as_type="span", input={"q": 1}) as span:
    span.update(output="4")
    print(span.trace_id)
langfuse.flush()
langfuse.shutdown()
"""


@pytest.mark.parametrize(("dialect", "status", "stored"), [("4.59", 202, ["s"]), ("4.16-events-only", 400, [])])
def test_create_score_and_a_trace_of_the_whole_sdk(dialect: str, status: int, stored: list[str]) -> None:
    """In a process of its own, which takes the SDK's threads with it. Before 4.59 the score is lost, and nobody told."""
    with LangfuseStandin(dialect) as server:
        command = [sys.executable, "-c", WRITER, server.url, server.public_key, server.secret_key]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        trace = done.stdout.split()[0]
        assert [request.status for request in server.requests.of("POST /api/public/scores")] == [status]
        server.clock.advance(6)
        scores = api(server).scores.get_many().data
        assert [(score.id, score.value) for score in scores] == [(name, True) for name in stored]
        (span,) = api(server).observations.get_many(trace_id=trace, fields="core,basic,io").data
        assert (span.name, span.environment, span.output, span.is_root_observation) == ("chat", "production", "4", True)
