"""What Label Studio declares, read as controls and proposed as dimensions."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import calibrate_label_studio
import pytest
from calibrate_label_studio import labelling
from calibrate_label_studio.discovery import discovery, links, proposal
from calibrate_label_studio.labelling import Control, from_parsed, from_project, from_xml
from label_studio_cases import annotation, choice, result, task

from calibrate_plugin.connector import Discovers, SourceSettings, open_source


def control(xml: str) -> Control:
    (found,) = from_xml(f"<View>{xml}</View>").values()
    return found


def proposed(xml: str) -> dict[str, Any]:
    found = proposal(control(xml))
    assert found is not None
    return dict(found.settings)


def choices(*values: str, more: str = "") -> str:
    inner = "".join(f'<Choice value="{v}"/>' for v in values)
    return f'<Choices name="q" toName="t" {more}>{inner}</Choices>'


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (choices("Pass", "Fail"), {"scale": "binary", "values": ["Pass", "Fail"]}),
        (choices("no", "yes"), {"scale": "binary", "values": ["yes", "no"]}),
        (choices("a", "b", "c"), {"scale": "nominal", "values": ["a", "b", "c"]}),
        (choices("good", "bad", "Unsure"), {"scale": "binary", "values": ["good", "bad"], "abstain": ["Unsure"]}),
        (choices("a", "b", more='choice="multiple"'), {"scale": "choices", "values": ["a", "b"]}),
        (
            '<Choices name="q" toName="t"><Choice value="yes"/><Choice value="no"/><Choice value="not sure" alias="3"/></Choices>',
            {"scale": "binary", "values": ["yes", "no"], "abstain": ["3"]},
        ),
        ('<Rating name="q" toName="t"/>', {"scale": "rating", "min": 1, "max": 5}),
        ('<Rating name="q" toName="t" maxRating="10"/>', {"scale": "rating", "min": 1, "max": 10}),
        (
            '<Number name="q" toName="t" min="0" max="1" step="0.1"/>',
            {"scale": "rating", "min": 0, "max": 1, "step": 0.1},
        ),
        ('<Number name="q" toName="t" min="0" max="100"/>', {"scale": "rating", "min": 0, "max": 100, "step": "any"}),
        ('<Number name="q" toName="t"/>', {"scale": "rating"}),
        ('<Pairwise name="q" toName="a,b"/>', {"scale": "preference", "values": ["left", "right"], "fixed": False}),
        (
            '<Taxonomy name="q" toName="t"><Choice value="billing"><Choice value="refund"/></Choice><Choice value="tech"/></Taxonomy>',
            {"scale": "choices", "values": ["billing", "billing/refund", "tech"]},
        ),
    ],
)
def test_a_control_is_proposed_as_a_dimension(xml: str, expected: dict[str, Any]) -> None:
    assert proposed(xml) == expected


@pytest.mark.parametrize("xml", [choices("a", "b"), choices("a", "b", "c"), '<Rating name="q" toName="t"/>', '<Pairwise name="q" toName="a,b"/>', '<Number name="q" toName="t" min="0" max="1" step="0.1"/>'])  # fmt: skip
def test_a_proposal_is_a_scale_that_the_settings_take(xml: str) -> None:
    from calibrate_plugin import scales

    scales.dimension("q", proposed(xml))


def test_a_textarea_is_no_dimension() -> None:
    assert proposal(control('<TextArea name="why" toName="t"/>')) is None


def test_notes_tell_what_a_person_must_decide() -> None:
    def note(xml: str) -> str:
        found = proposal(control(xml))
        assert found is not None
        return found.note

    assert "a is taken as the pass" in note(choices("a", "b"))
    assert "ordinal" in note(choices("a", "b", "c"))
    assert "left is a, right is b" in note('<Pairwise name="q" toName="a, b"/>')
    assert "3 is shown as not sure" in note(
        '<Choices name="q" toName="t"><Choice value="not sure" alias="3"/></Choices>'
    )
    assert "give min and max" in note('<Number name="q" toName="t"/>')


def test_the_ends_of_a_scale_come_from_the_configuration() -> None:
    assert control('<Number name="q" toName="t" min="-1" max="1" step="0.25"/>').step == Fraction(1, 4)
    assert control('<Number name="q" toName="t" min="low"/>').low is None


def test_a_project_without_xml_is_read_by_its_parsed_configuration(shared: Path) -> None:
    told = json.loads((shared / "recordings" / "label_studio" / "project_get.json").read_text())
    whole, parsed = from_project(told), from_parsed(told["parsed_label_config"])
    assert list(whole) == list(parsed) == ["verdict", "issues", "likert", "stars", "score", "reason", "pref", "topic"]
    assert whole["verdict"] == parsed["verdict"]
    assert whole["verdict"].labels == ("pass", "fail", "n/a") and whole["verdict"].shown == (("n/a", "unsure"),)
    assert whole["issues"].multiple
    assert from_project({"label_config": "<View", "parsed_label_config": told["parsed_label_config"]}) == parsed
    assert from_project({"label_config": None}) == {}


def test_of_two_projects_a_choice_is_multiple_where_one_says_so() -> None:
    one, many = Control("q", "choices"), Control("q", "choices", multiple=True)
    assert labelling.union([{"q": one}, {"q": many}])["q"].multiple


def test_links_are_keys_that_differ_from_task_to_task() -> None:
    tasks = [
        {
            "id": n,
            "data": {
                "trace": f"t{n}",
                "system": "A",
                "deep": {"id": n},
                "long": "x" * 300,
                "calibrate_q": n,
                "ok": True,
            },
        }
        for n in range(6)
    ]
    found = links(tasks)
    assert set(found) == {"data.trace", "data.deep.id", "id"}
    assert found["data.trace"] == ("t0", "t1", "t2", "t3", "t4", "t5")


def test_projects_that_ask_differently_are_pointed_out() -> None:
    found = discovery(
        {"1": from_xml(f"<View>{choices('a', 'b')}</View>"), "2": from_xml(f"<View>{choices('a', 'c')}</View>")}, []
    )
    assert found.notes == ("project 2 asks q otherwise than the first project: look at its values",)


def test_an_export_proposes_what_its_answers_show(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    tasks = [
        task(n, annotation(n, 3, choice("q", "Fail" if n else "Pass"), result("stars", "rating", rating=3)))
        for n in range(4)
    ]
    path.write_text(json.dumps(tasks))
    source = open_source(SourceSettings("people", "label-studio", file=path))
    assert isinstance(source, Discovers)
    found = source.discover()
    assert {p.name: p.settings for p in found.dimensions} == {
        "q": {"scale": "binary", "values": ["Pass", "Fail"]},
        "stars": {"scale": "rating", "min": 1, "max": 5},
    }
    assert all(p.note for p in found.dimensions), "what is not declared is said to be a guess"
    assert found.links["data.trace_id"][:2] == ("trace-0", "trace-1")


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(calibrate_label_studio.__path__)])
def test_examples_in_the_words_of_a_function_are_true(name: str) -> None:
    module = importlib.import_module(f"calibrate_label_studio.{name}")
    assert doctest.testmod(module).failed == 0
