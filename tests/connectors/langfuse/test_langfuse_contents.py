"""What Langfuse shows of an item, on servers of each kind, and that nothing of a judge's is among it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langfuse_standin import LangfuseStandin

from calibrate_plugin.connector import Contents, SettingsError, SourceSettings, open_source


@pytest.fixture(params=["3.225", "4.16-dual", "4.16-events-only"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LangfuseStandin]:
    with LangfuseStandin(dialect=request.param) as langfuse:
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        chat = json.dumps([{"role": "user", "content": "where is it?"}])
        for n in range(5):
            langfuse.add_trace(
                f"t{n}", input=chat, output='{"answer": "here"}', sessionId=f"s{n // 2}", userId="u", tags=["VERDICT"],
                metadata={"judge": "VERDICT"},
            )  # fmt: skip
            start = f"2026-11-29T10:0{n}:00Z"
            langfuse.add_observation(
                f"o{n}", f"t{n}", input=chat, output='{"answer": "here"}', start=start, sessionId=f"s{n // 2}", userId="u",
                metadata={"judge": "VERDICT"},
            )  # fmt: skip
            steps = [
                ("r", "RETRIEVER", "search", '["doc one", "doc two"]', f"o{n}"),
                ("g", "GENERATION", "llm", "a draft", f"o{n}"),
                ("e", "EVALUATOR", "judge", "VERDICT", f"o{n}"),
                ("x", "TOOL", "judge's tool", "VERDICT", f"e{n}"),
            ]
            for id_, kind, name, output, parent in steps:
                langfuse.add_observation(
                    f"{id_}{n}", f"t{n}", type=kind, name=name, output=output, start=start, root=False,
                    parentObservationId=parent, sessionId=f"s{n // 2}", userId="u",
                )  # fmt: skip
            langfuse.add_score(id=f"sc{n}", name="safety", value=True, traceId=f"t{n}", comment="VERDICT")
        yield langfuse


def source(**options: Any) -> Any:
    return open_source(SourceSettings("judges", "langfuse", options=options))


def test_a_trace_is_its_input_its_output_and_what_was_retrieved(server: LangfuseStandin) -> None:
    shows = source()
    assert isinstance(shows, Contents)
    found = list(shows.contents([f"t{n}" for n in range(5)]))
    assert [c.item for c in found] == ["t0", "t1", "t2", "t3", "t4"]
    for content in found:
        assert content.problem == ""
        assert content.input == [{"role": "user", "content": "where is it?"}]
        assert content.output == {"answer": "here"}
        assert content.context == [{"name": "search", "output": ["doc one", "doc two"]}]
        assert content.link == f"{server.url}/project/{server.project_id}/traces/{content.item}"
    assert "VERDICT" not in repr(found)
    assert not server.requests.of("GET /api/public/v3/scores")


def test_one_request_shows_one_trace(server: LangfuseStandin) -> None:
    shows = source()
    list(shows.contents(["t0"]))
    before = len(server.requests)
    list(shows.contents(["t1", "t2", "t3"]))
    assert len(server.requests) - before <= 4


def test_an_observation_is_shown_too(server: LangfuseStandin) -> None:
    found = next(iter(source(item="observation").contents(["o1"])))
    assert (found.input, found.output) == ([{"role": "user", "content": "where is it?"}], {"answer": "here"})
    assert found.link is not None and found.link.endswith("/traces/t1?observation=o1")


@pytest.mark.parametrize("item", ["trace", "observation"])
def test_what_is_not_there_says_so(server: LangfuseStandin, item: str) -> None:
    gone, there = source(item=item).contents(["gone", "t1" if item == "trace" else "o1"])
    assert f"no such {item}" in gone.problem and not there.problem


def test_what_no_form_can_show_says_so(server: LangfuseStandin) -> None:
    assert "whole session" in next(iter(source(item="session").contents(["s1"]))).problem


def test_items_of_one_session_or_user_are_found(server: LangfuseStandin) -> None:
    items = [f"t{n}" for n in range(5)]
    assert source().groups([*items, "gone"], "session") == {f"t{n}": f"s{n // 2}" for n in range(5)}
    assert set(source().groups(items, "user").values()) == {"u"}
    with pytest.raises(SettingsError, match="no group 'team'"):
        source().groups(items, "team")


def test_a_judges_steps_cannot_be_asked_for_as_context(server: LangfuseStandin) -> None:
    with pytest.raises(SettingsError, match="must not see"):
        source(context=["evaluator"])
    named = next(iter(source(context=["llm"]).contents(["t1"])))
    assert named.context == [{"name": "llm", "output": "a draft"}]


def test_a_guardrail_that_stands_beside_the_rest_is_not_the_item(server: LangfuseStandin) -> None:
    server.add_observation(
        "guard", "t0", type="GUARDRAIL", name="guard", input="VERDICT", output="VERDICT", start="2026-11-29T09:00:00Z"
    )
    (found,) = source().contents(["t0"])
    assert found.output == {"answer": "here"}
    assert "VERDICT" not in json.dumps([found.input, found.output, found.context])
