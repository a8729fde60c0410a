"""The form that a study's dimensions make, and what a task shows of an item."""

from __future__ import annotations

import json
from typing import Any

import pytest
from calibrate_label_studio import discovery, forms, labelling
from calibrate_label_studio.showing import LONGEST, as_text, data_of

from calibrate_plugin import scales
from calibrate_plugin.connector import Form, Question, SettingsError
from calibrate_plugin.model import Dimension
from calibrate_plugin.ratings.answers import levels

EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>'


def dimension(name: str, **table: Any) -> Dimension:
    return scales.dimension(name, {"abstain": ["unsure"], **table})


SAFETY = dimension("Safety", scale="binary", values=["Pass", "Fail"])
EMPATHY = dimension("Empathy", scale="rating", min=1, max=5)
TONE = dimension("Tone", scale="ordinal", values=["rude", "plain", "kind"])
SHARE = scales.dimension("Share", {"scale": "rating", "min": 0, "max": 1, "step": "any"})
ISSUES = tuple(
    scales.dimension(
        f"Issues: {c}", {"scale": "binary", "values": ["yes", "no"], "choice": c, "choices": ["tone", "facts"]}
    )
    for c in ("tone", "facts")
)


def form(*questions: tuple[str, tuple[Dimension, ...]], **more: Any) -> Form:
    asked = tuple(Question(f, dims[0].name.split(":")[0], dims) for f, dims in questions)
    return Form("m1", "Blind labels", asked, 2, **more)


ALL = form(
    ("safety", (SAFETY,)), ("empathy", (EMPATHY,)), ("tone", (TONE,)), ("share", (SHARE,)), ("issues", ISSUES),
    guideline="# Rules\n\n- be $kind",
)  # fmt: skip


def test_a_form_is_read_back_as_what_it_asks() -> None:
    config = forms.made(ALL, None)
    controls = labelling.from_xml(config)
    assert list(controls) == ["safety", "empathy", "tone", "share", "issues", "reason"]
    assert not [f for f in forms.unfit(ALL, config, controls, {}, None) if f.level == "problem"]
    proposed = {p.name: p.settings for c in controls.values() if (p := discovery.proposal(c)) is not None}
    assert proposed["safety"] == {"scale": "binary", "values": ["Pass", "Fail"], "abstain": ["unsure"]}
    assert proposed["tone"] == {"scale": "nominal", "values": ["rude", "plain", "kind"], "abstain": ["unsure"]}
    assert proposed["share"] == {"scale": "rating", "min": 0, "max": 1, "step": "any"}
    assert proposed["issues"]["scale"] == "choices"


@pytest.mark.parametrize("asked", [SAFETY, EMPATHY, TONE])
def test_every_choice_of_a_form_is_an_answer_on_the_scale(asked: Dimension) -> None:
    control = labelling.from_xml(forms.made(form(("q", (asked,))), None))["q"]
    found = levels(asked, [json.dumps(choice) for choice in control.labels])
    assert [level for level, _ in found.values()] == [*range(len(asked.scale.names)), -1]


def test_answers_and_reason_are_required_and_the_mark_is_in() -> None:
    config = forms.made(ALL, "why")
    assert config.count('required="true"') == 4
    assert 'className="calibrate-m1"' in config and '<TextArea name="why"' in config
    assert "HyperText" not in config


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (scales.dimension("Which", {"scale": "preference", "values": ["A", "B"]}), "which of two responses"),
        (scales.dimension("Set", {"scale": "nominal", "values": ["a", "b"], "whole_set": True}), "sets of choices"),
    ],
)
def test_questions_that_no_form_asks_are_refused(question: Dimension, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        forms.made(form(("q", (question,))), None)


def test_two_controls_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="would be called 'reason'"):
        forms.made(form(("reason", (SAFETY,))), None)


def found(config: str, asked: Form = ALL, shows: dict[str, str] | None = None, reason: str | None = None) -> list[str]:
    findings = forms.unfit(asked, config, labelling.from_xml(config), shows or {}, reason)
    return [f"{f.level}: {f.subject}: {f.message}" for f in findings]


def test_a_configuration_that_lacks_something_says_what() -> None:
    config = """<View><Text name="t" value="$question"/><HyperText name="h" value="$output"/>
      <Choices name="safety" toName="t"><Choice value="Pass"/><Choice value="Bad"/></Choices></View>"""
    said = found(config, form(("safety", (SAFETY,)), ("empathy", (EMPATHY,))))
    assert "problem: control empathy: the labelling configuration does not ask Empathy; it has safety" in said
    assert "problem: control safety: has no choice 'Fail'; it has Pass, Bad" in said
    assert "warning: control safety: nobody can say that they are unsure" in said
    assert any(s.startswith("problem: reason") for s in said)
    assert any("$question, which is no part of an item" in s for s in said)
    assert any("hypertext shows $output, and would run" in s for s in said)


def test_a_configuration_that_somebody_else_made_will_do() -> None:
    config = """<View><Text name="t" value="$question"/><Text name="a" value="$answer"/>
      <Choices name="safety" toName="t"><Choice value="good"/><Choice value="Fail"/><Choice value="?" alias="unsure"/></Choices>
      <TextArea name="why" toName="t"/></View>"""
    mapped = scales.dimension(
        "Safety", {"scale": "binary", "values": ["Pass", "Fail"], "map": {"good": "Pass"}, "abstain": ["unsure"]}
    )
    assert found(config, form(("safety", (mapped,))), {"question": "input", "answer": "output"}, "why") == []


# --- what is shown


def test_messages_calls_and_results_are_told_apart() -> None:
    shown = data_of(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]},
                {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "find", "arguments": '{"q": 1}'}}]},
                {"role": "tool", "name": "find", "content": "three results"},
                {"role": "assistant", "content": [{"type": "tool_use", "name": "buy", "input": {"n": 2}}]},
                {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "bought"}]}]},
            ],
        },
        "t1",
    )  # fmt: skip
    assert [(m["author"], m["text"]) for m in shown.messages] == [
        ("model", "m"),
        ("system", "be kind"),
        ("user", "look"),
        ("user", "[picture 1, below: https://x.example/a.png]"),
        ("assistant", 'calls find({\n  "q": 1\n})'),
        ("tool find", "three results"),
        ("assistant", 'calls buy({\n  "n": 2\n})'),
        ("tool", "bought"),
    ]
    assert shown.pictures == ["https://x.example/a.png"]


@pytest.mark.parametrize(
    "picture",
    [
        {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image_url"},
        {"type": "image_url", "image_url": {"url": "@@@langfuseMedia:type=image/png|id=x|source=base64_data_uri@@@"}},
    ],
)
def test_a_picture_without_an_address_is_named_and_not_shown(picture: dict[str, Any]) -> None:
    shown = data_of([{"role": "user", "content": [picture]}], "t1")
    assert shown.pictures == []
    assert "not shown" in shown.messages[0]["text"]


# The keys of a message: developers.openai.com/api/reference/resources/chat (refusal; function_call, deprecated)
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ({"content": None, "refusal": "I cannot help with that"}, "I cannot help with that"),
        ({"content": None, "function_call": {"name": "find", "arguments": '{"q": 1}'}}, 'calls find({\n  "q": 1\n})'),
        ({"tool_calls": {"function": {"name": "find"}}}, "calls find()"),
        ({"content": "hello", "tool_calls": 5}, "hello"),
    ],
)
def test_what_a_message_says_beside_its_content_is_shown(message: dict[str, Any], shown: str) -> None:
    assert data_of({"role": "assistant", **message}, "t1").messages == [{"author": "assistant", "text": shown}]


def test_what_is_too_long_ends_in_a_note() -> None:
    shown = data_of([{"role": "user", "content": "x" * 5_000_000}, {"role": "user", "content": "more"}], "trace-7")
    assert sum(len(m["text"]) for m in shown.messages[:-1]) == LONGEST
    note = shown.messages[-1]
    assert note["author"] == "NOTE"
    assert "200,000 of 5,000,004 characters are shown" in note["text"] and "trace-7" in note["text"]


@pytest.mark.parametrize("value", [EVIL, {"answer": EVIL}, [{"role": EVIL, "content": EVIL}], [[EVIL], {"a": [EVIL]}]])
def test_html_is_text_and_nothing_of_it_is_lost(value: Any) -> None:
    assert "<script>alert(2)</script>" in as_text(data_of(value, "t").messages)


@pytest.mark.parametrize("value", [None, "", [], {}, [None, ""], {"a": None}])
def test_nothing_is_said_to_be_nothing(value: Any) -> None:
    assert data_of(value, "t").messages == [{"author": "", "text": "(nothing was recorded)"}]


def test_what_no_database_takes_is_written_out() -> None:
    assert as_text(data_of("a\x00b\ud83d", "t").messages) == "a␀b\\ud83d"
    nested: Any = "deep"
    for _ in range(5000):
        nested = [[nested], {}]
    assert "nested too deeply" in as_text(data_of(nested, "t").messages)


def test_markdown_becomes_html_and_html_stays_text() -> None:
    told = forms.instruction(form(guideline=f"# Safety\n\nfirst\nsecond\n\n- one\n- {EVIL}\n\n### Hard cases\nend"))
    assert told.startswith("<h3>Safety</h3><p>first<br>second</p><ul><li>one</li><li>&lt;img")
    assert told.endswith("</ul><h4>Hard cases</h4><p>end</p>")
    assert "<script" not in told
