"""Examples become items of a Langfuse dataset: made where it is missing, brought up to date where it is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langfuse_standin import LangfuseStandin
from live_langfuse import source_of

from calibrate_plugin.connector import Example, Examples


@pytest.fixture
def server() -> Iterator[LangfuseStandin]:
    with LangfuseStandin() as running:
        yield running


def example(n: int = 1, answer: str = "Fail") -> Example:
    return Example(f"calibrate-{n}", f"trace-{n}", {"q": "é\ud800"}, ["out"], answer, "it promises", {"language": "en"})


def test_a_dataset_is_made_and_its_items_hold_answer_and_reason(server: LangfuseStandin) -> None:
    source = source_of(server)
    assert isinstance(source, Examples)
    pushed = source.add_examples("safety examples", [example(1), example(2, "true")])
    assert [w.outcome for w in pushed.writes] == ["written", "written"]
    state = server.project.state
    assert [d["name"] for d in state.datasets] == ["safety examples"]
    first, second = state.dataset_items
    assert first["expectedOutput"] == {"answer": "Fail", "reason": "it promises"}
    # a bare "true" would have come back as a truth value (observed of Langfuse)
    assert second["expectedOutput"]["answer"] == "true"
    assert first["metadata"] == {"item": "trace-1", "language": "en", "output": ["out"]}


def test_the_same_examples_again_are_no_further_items(server: LangfuseStandin) -> None:
    source = source_of(server)
    source.add_examples("safety", [example(1)])
    source.add_examples("safety", [example(1, "Pass"), example(2)])
    items = server.project.state.dataset_items
    assert [(i["id"], i["expectedOutput"]["answer"]) for i in items] == [
        ("calibrate-1", "Pass"),
        ("calibrate-2", "Fail"),
    ]
    assert len(server.project.state.datasets) == 1
