"""What a Langfuse proposes, and what a look at it finds."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from calibrate_langfuse import open_source
from calibrate_langfuse.client import Clock, Langfuse
from calibrate_langfuse.live import LiveScores
from calibrate_langfuse.records import Rules
from langfuse_standin import LangfuseStandin
from live_langfuse import day, settings, source_of, spread

from calibrate_plugin.connector import Checks, Discovers, Discovery, Finding, SourceSettings


def project(server: LangfuseStandin) -> None:
    """Two score configs with people's answers, two judges, one in two versions, one without a config."""
    add = server.project.add_config
    safety = add(name="safety", dataType="BOOLEAN")["id"]
    add(name="empathy", dataType="NUMERIC", minValue=1, maxValue=5)
    add(name="tone", dataType="CATEGORICAL", categories=[{"label": "good", "value": 1}, {"label": "bad", "value": 0}])
    add(name="remark", dataType="TEXT")
    for i in range(4):
        server.project.annotate(configId=safety, value=True, authorUserId=f"u{i % 2}", traceId=f"t{i}")
        for version in ("v1", "v2"):
            server.add_score(
                id=f"j{i}{version}", name="safety-judge", value=i % 2 == 0, traceId=f"t{i}", source="EVAL",
                timestamp=day(20 if version == "v1" else 25), metadata={"evaluator_version_id": version},
            )  # fmt: skip
        server.add_score(id=f"q{i}", name="quality", value=i / 4, traceId=f"t{i}", source="API", timestamp=day(26))
        server.add_score(
            id=f"o{i}", name="tone", value="good", traceId=f"t{i}", observationId=f"o{i}", timestamp=day(26)
        )
    server.add_score(id="x", name="remark", value="nice", dataType="TEXT", traceId="t1", timestamp=day(26))
    server.add_score(id="ours", name="calibrate.Safety.agreement", value=0.5, traceId="t1", timestamp=day(26),
                     metadata={"calibrate_plugin": {}})  # fmt: skip


def discovered(server: LangfuseStandin, **options: Any) -> Discovery:
    source = source_of(server, settings(**options))
    assert isinstance(source, Discovers)
    return source.discover()


@pytest.mark.parametrize("dialect", ["3.150", "3.225", "4.16-events-only"])
def test_configs_and_scores_propose_dimensions_with_their_scales(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        project(server)
        found = discovered(server)
        proposed = {p.name: p for p in found.dimensions}
        assert {name: dict(p.settings) for name, p in proposed.items()} == {
            "safety": {"scale": "binary", "values": [True, False]},
            "safety-judge": {"scale": "binary", "values": [True, False]},
            "empathy": {"scale": "rating", "min": 1, "max": 5},
            "tone": {"scale": "nominal", "values": ["good", "bad"]},
            "quality": {"scale": "rating", "min": 0, "max": 1, "step": "any"},
        }
        assert all(p.fields == (name,) for name, p in proposed.items())
        assert "declares no range" in proposed["quality"].note
        assert "4 answers by 2 people" in proposed["safety"].note
        assert any(note.startswith("remark: ") for note in found.notes)


def test_the_versions_of_a_judge_come_oldest_first() -> None:
    with LangfuseStandin() as server:
        project(server)
        versions = discovered(server).versions
        assert versions["safety-judge"] == ("v1", "v2")
        assert versions["quality"] == ("",)
        assert "safety" not in versions


def test_items_are_shown_by_level_the_most_used_one_first() -> None:
    with LangfuseStandin() as server:
        project(server)
        links = discovered(server).links
        assert list(links) == ["trace", "observation"]
        assert sorted(links["trace"]) == ["t0", "t1", "t2", "t3"]
        assert sorted(links["observation"]) == ["o0", "o1", "o2", "o3"]


def test_a_label_set_is_proposed_as_choices() -> None:
    with LangfuseStandin() as server:
        for label in ("rude", "harmful"):
            server.add_score(id=label, name="flags", value=label, traceId="t1", source="EVAL", timestamp=day(20),
                             metadata={"job_execution_id": "j"})  # fmt: skip
        [proposal] = discovered(server).dimensions
        assert proposal.settings == {"scale": "choices", "values": ["harmful", "rude"]}


def test_only_the_declared_environments_propose_anything() -> None:
    with LangfuseStandin() as server:
        project(server)
        assert discovered(server, environments=["production"]).versions == {}


def test_an_empty_project_proposes_nothing_and_breaks_nothing() -> None:
    with LangfuseStandin() as server:
        found = discovered(server)
        assert (found.dimensions, dict(found.links)) == ((), {"trace": ()})


def test_a_file_of_scores_proposes_as_a_server_does(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        project(server)
        rows = [row for page in source_of(server).plain_reads.stream(None, floor=0) for row in page]
        live = discovered(server)
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    source = open_source(SourceSettings("judges", "langfuse", file=path))
    assert isinstance(source, Discovers)
    found = source.discover()
    assert found.versions == live.versions
    assert {k: sorted(v) for k, v in found.links.items()} == {k: sorted(v) for k, v in live.links.items()}
    assert {p.name for p in found.dimensions} == {"safety", "safety-judge", "tone", "quality"}


# the doctor


def checked(server: LangfuseStandin, given: SourceSettings | None = None) -> list[Finding]:
    source = source_of(server, given)
    assert isinstance(source, Checks)
    return source.check()


def said(findings: list[Finding], level: str) -> str:
    return "\n".join(f"{f.message} -> {f.fix}" for f in findings if f.level == level)


def test_a_project_in_order_has_nothing_to_mend() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(20, metadata={"evaluator_version_id": "v1"}))
        findings = checked(server, settings({"Safety": ("safety",)}, push={}))
        assert {f.level for f in findings} == {"ok"}
        assert "project demo-project (Demo Project)" in said(findings, "ok")
        assert "Langfuse 4.16.0; scores are read by v3" in said(findings, "ok")
        assert "written as score events of /ingestion" in said(findings, "ok")


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("3.50", "v1, by pages: it shows no scores of sessions or runs"),
        ("3.150", "v2, by pages: this server has no v3"),
    ],
)
def test_an_old_server_says_what_it_cannot_show(dialect: str, words: str) -> None:
    with LangfuseStandin(dialect) as server:
        assert words in said(checked(server), "warning")


def test_every_trouble_comes_with_its_fix() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(10))
        server.add_scores(spread(30, id="o", observationId="o1"))
        config = server.project.add_config(name="safety", dataType="BOOLEAN")["id"]
        server.add_score(
            id="p", name="safety", value=True, source="ANNOTATION", configId=config, traceId="t", timestamp=day(29)
        )
        findings = checked(server, settings({"Safety": ("safety",), "Tone": ("tone",)}))
        warnings = said(findings, "warning")
        assert "no score named tone -> the newest scores are named safety" in warnings
        assert "are not on a trace" in warnings
        assert "lift = true counts them for their traces" in warnings
        assert "the version of safety is not known -> say where it stands: version_key" in warnings
        assert "1 of the newest scores are annotations without an author" in said(findings, "ok")
        assert all(f.fix for f in findings if f.level != "ok")


def test_names_of_which_none_is_there_are_a_problem() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(3))
        findings = checked(server, settings({"Safety": ("Safety",)}, environments=["production"]))
        assert "no score named Safety in the environments production" in said(findings, "problem")


def test_a_key_that_does_not_work_is_the_only_finding() -> None:
    with LangfuseStandin() as server:
        source = source_of(server, None, secret_key="wrong")
        [finding] = source.check()
        assert finding.level == "problem"
        assert "Langfuse does not know the key" in finding.message
        assert "wrong" not in finding.message


def test_a_retention_is_warned_about() -> None:
    with LangfuseStandin() as server:
        server.faults.rewrite(
            lambda b: {"data": [{**b["data"][0], "retentionDays": 30}]}, path="/api/public/projects", times=None
        )
        assert "drops its data after 30 days" in said(checked(server), "warning")


@pytest.mark.parametrize(
    ("minutes", "words"), [(9, "540 s ahead of this machine's"), (-9, "540 s behind this machine's")]
)
def test_a_clock_that_is_off_is_warned_about(minutes: int, words: str) -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    date_header = format_datetime(now + timedelta(minutes=minutes), usegmt=True)

    def answer(request: httpx.Request) -> httpx.Response:
        body: dict[str, Any] = {"data": [], "meta": {}, "version": "4.16.0"}
        if request.url.path.endswith("/projects"):
            body = {"data": [{"id": "p", "name": "P"}]}
        return httpx.Response(200, json=body, headers={"Date": date_header})

    server = Langfuse("https://lf", "pk", "sk", clock=Clock(lambda: now), transport=httpx.MockTransport(answer))
    given = settings()
    assert words in said(LiveScores(given, Rules.of(given), server=server).check(), "warning")


def test_a_study_that_begins_later_is_proposed_from_what_came_later() -> None:
    with LangfuseStandin() as server:
        project(server)
        given = settings(since=date(2026, 11, 24))
        assert source_of(server, given).discover().versions["safety-judge"] == ("v2",)
