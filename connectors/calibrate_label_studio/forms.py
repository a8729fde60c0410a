"""The labelling form of a study: a labelling configuration made from its dimensions, and whether another one will do."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from calibrate_label_studio import labelling
from calibrate_label_studio.labelling import Control, Controls
from calibrate_plugin.connector import Finding, Form, Question, SettingsError
from calibrate_plugin.model import Dimension

#: The parts of an item that a task shows, and what stands above each.
PARTS = {"input": "What went in", "context": "What the answer was made from", "output": "What came out: judge this"}
#: Keys of a task's data that are ours.
GUIDELINE, PICTURES = "guideline", "pictures"
REASON = "reason"
#: Tags that show text as text. ``HyperText`` would run what stands in a trace.
PLAIN = ("text", "paragraphs", "textarea")
#: Ratings with more levels than this are typed in, not chosen.
MOST_CHOICES = 11
#: Label Studio folds nothing that is long, so a long part scrolls in a box of its own; it also runs lines together, and shows
#: times that a conversation does not have. Where its class names are other ones, only the looks suffer.
LOOKS = """
.calibrate-part { max-height: 26em; overflow-y: auto; border: 1px solid #ddd; padding: 0 .5em; margin-bottom: 1em }
.calibrate-part [class*=dialoguetext] { white-space: pre-wrap; overflow-wrap: anywhere }
.calibrate-part [class*=time--], .calibrate-part [class*=authorFilter], .calibrate-part [class*=selectAllBtn] { display: none }
"""


def made(form: Form, reason: str | None) -> str:
    """The labelling configuration of a form. ``reason`` names the textarea of the written reason; None: the usual one.

    Raises SettingsError for a question that no form of ours can ask.
    """
    root = ElementTree.Element("View", {"className": f"calibrate-{form.mark}"})
    ElementTree.SubElement(root, "Style").text = LOOKS
    if form.guideline:
        panel = ElementTree.SubElement(ElementTree.SubElement(root, "Collapse"), "Panel", {"value": "Guideline"})
        ElementTree.SubElement(panel, "Text", {"name": "item_guideline", "value": f"${GUIDELINE}"})
    for part, heading in PARTS.items():
        ElementTree.SubElement(root, "Header", {"value": heading, "size": "4"})
        box = ElementTree.SubElement(root, "View", {"className": "calibrate-part"})
        ElementTree.SubElement(
            box,
            "Paragraphs",
            {"name": f"item_{part}", "value": f"${part}", "layout": "dialogue", "nameKey": "author", "textKey": "text"},
        )
    repeated = ElementTree.SubElement(root, "Repeater", {"on": f"${PICTURES}", "indexFlag": "{{picture}}"})
    ElementTree.SubElement(
        repeated, "Image", {"name": "item_picture_{{picture}}", "value": f"${PICTURES}[{{{{picture}}}}].url"}
    )
    for question in form.questions:
        ElementTree.SubElement(root, "Header", {"value": _title(question.title), "size": "4"})
        _control(root, question)
    ElementTree.SubElement(root, "Header", {"value": "Why? Write what decided it.", "size": "4"})
    ElementTree.SubElement(
        root,
        "TextArea",
        {
            "name": reason or REASON,
            "toName": "item_output",
            "required": "true",
            "requiredMessage": "Write the reason for your answers.",
            "rows": "3",
            "maxSubmissions": "1",
            "editable": "true",
        },
    )
    names = [tag.get("name") for tag in root.iter() if tag.get("name")]
    if double := next((n for n in names if names.count(n) > 1), None):
        raise SettingsError(
            f"two parts of the form would be called {double!r}; give one control another name in labels"
        )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _title(text: str) -> str:
    return text.replace("$", "＄")  # a value that begins with a dollar is a key of the task's data


def _control(root: ElementTree.Element, question: Question) -> None:
    dimension = question.dimensions[0]
    common = {"name": question.field, "toName": "item_output", "required": "true"}
    common["requiredMessage"] = f"{question.title} has no answer yet."
    scale = dimension.scale
    if scale.kind == "preference" or dimension.whole_set:
        what = "which of two responses is better" if scale.kind == "preference" else "sets of choices as wholes"
        raise SettingsError(
            f"dimensions.{question.title} asks {what}, for which no form is made; make the project in Label Studio and"
            " name it with --project"
        )
    if dimension.choice is not None:
        tag = ElementTree.SubElement(root, "Choices", common | {"choice": "multiple", "required": "false"})
        for one in [*(d.choice or "" for d in question.dimensions), *dimension.abstain[:1]]:
            ElementTree.SubElement(tag, "Choice", {"value": one})
        return
    if scale.levels is not None and scale.levels <= MOST_CHOICES:
        tag = ElementTree.SubElement(root, "Choices", common | {"choice": "single", "showInline": "true"})
        for one in [*scale.names, *dimension.abstain[:1]]:
            ElementTree.SubElement(tag, "Choice", {"value": one})
        return
    ends = (
        {}
        if scale.low is None or scale.high is None
        else {"min": f"{float(scale.low):g}", "max": f"{float(scale.high):g}"}
    )
    step = {"step": f"{float(scale.step):g}"} if scale.step else {"step": "any"}
    # It cannot say "unsure" but by being left empty.
    ElementTree.SubElement(root, "Number", common | ends | step | {"required": "false"})


def instruction(form: Form) -> str:
    """The guideline as the HTML of Label Studio's own "Labeling Instructions". Markdown is read in part: headings, lists,
    paragraphs; all else is shown as it is written, and HTML in it stays text.

    >>> instruction(Form("m", "t", (), 2, "# Rules\\n\\n- be <b>kind</b>"))
    '<h3>Rules</h3><ul><li>be &lt;b&gt;kind&lt;/b&gt;</li></ul>'
    """
    parts: list[str] = []
    listed = False
    paragraph: list[str] = []

    def end(*, of_list: bool = True) -> None:
        nonlocal listed
        if paragraph:
            parts.append(f"<p>{'<br>'.join(paragraph)}</p>")
            paragraph.clear()
        if listed and of_list:
            parts.append("</ul>")
            listed = False

    for line in form.guideline.splitlines():
        text = html.escape(line.strip())
        if heading := re.match(r"(#{1,6})\s+(.*)", text):
            end()
            parts.append(f"<h3>{heading[2]}</h3>" if len(heading[1]) < 3 else f"<h4>{heading[2]}</h4>")
        elif point := re.match(r"[-*+]\s+(.*)", text):
            end(of_list=False)
            parts.append(f"{'' if listed else '<ul>'}<li>{point[1]}</li>")
            listed = True
        elif not text:
            end()
        else:
            end() if listed else None
            paragraph.append(text)
    end()
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Slot:
    """A key of a task's data that the configuration shows: ``tag`` is the tag that does, ``name`` and ``text`` the keys of its
    messages where it takes a list of them."""

    key: str
    tag: str
    name: str = "author"
    text: str = "text"


def slots(config: str) -> tuple[Slot, ...]:
    """The keys of the data that a labelling configuration shows."""
    try:
        labelling.from_xml(config)  # refuses what must not be parsed
        root = ElementTree.fromstring(config)  # noqa: S314
    except (ValueError, ElementTree.ParseError):
        return ()
    found: dict[str, Slot] = {}
    for tag in root.iter():
        for attribute in ("value", "valueList", "on"):
            given = tag.get(attribute) or ""
            if key := re.match(r"\$([A-Za-z_][\w]*)", given):
                slot = Slot(key[1], str(tag.tag).lower(), tag.get("nameKey") or "author", tag.get("textKey") or "text")
                found.setdefault(key[1], slot)
    return tuple(found.values())


def unfit(
    form: Form, config: str, controls: Controls, shows: Mapping[str, str], reason: str | None
) -> Iterator[Finding]:
    """What keeps a project's labelling configuration from asking a form's questions, each with the way out."""
    there = ", ".join(controls) or "none"
    for question in form.questions:
        control = controls.get(question.field)
        if control is None:
            yield Finding(
                "problem",
                f"control {question.field}",
                f"the labelling configuration does not ask {question.title}; it has {there}",
                f"add a control named {question.field}, or name another one under labels in the study",
            )
            continue
        yield from _lacking(question, control)
    texts = [c.name for c in controls.values() if c.kind == "textarea"]
    if (reason is not None and reason not in texts) or not texts:
        yield Finding(
            "problem",
            "reason",
            "the labelling configuration has no textarea for the written reason",
            f'add <TextArea name="{reason or REASON}" toName="..." required="true"/>',
        )
    ours = {*PARTS, GUIDELINE, PICTURES}
    for slot in slots(config):
        part = shows.get(slot.key, slot.key)
        if part not in ours:
            yield Finding(
                "problem",
                f"key {slot.key}",
                f"the labelling configuration shows ${slot.key}, which is no part of an item ({', '.join(PARTS)})",
                f"say which part it is, e.g. --show {slot.key}=input",
            )
        elif part in PARTS and slot.tag not in PLAIN:
            yield Finding(
                "problem",
                f"key {slot.key}",
                f"the tag {slot.tag} shows ${slot.key}, and would run what stands in a trace",
                "use Text or Paragraphs for it",
            )


def _lacking(question: Question, control: Control) -> Iterator[Finding]:
    subject = f"control {question.field}"
    dimension = question.dimensions[0]
    if control.kind in ("choices", "taxonomy"):
        known = {label.strip().casefold() for label in control.labels}
        wanted = (
            [d.choice or "" for d in question.dimensions] if dimension.choice is not None else dimension.scale.names
        )
        lacking = [w for w in wanted if not _reached(w, known, dimension)]
        if lacking:
            yield Finding(
                "problem",
                subject,
                f"has no choice {', '.join(map(repr, lacking))}; it has {', '.join(control.labels)}",
                f"add the choices, or say under dimensions.{question.title}.map what those there mean",
            )
        if not any(_reached(a, known, dimension) for a in dimension.abstain):
            yield Finding(
                "warning",
                subject,
                "nobody can say that they are unsure",
                f'add a choice "unsure", and abstain = ["unsure"] to dimensions.{question.title}',
            )
    elif dimension.scale.kind != "rating":
        yield Finding(
            "problem", subject, f"is a {control.kind}, which answers no {dimension.scale.kind} question", "use Choices"
        )


def _reached(answer: str, known: set[str], dimension: Dimension) -> bool:
    """Whether a choice says ``answer``, as it stands or by the study's map."""
    wanted = answer.strip().casefold()
    mapped = {k.strip().casefold() for k, v in dimension.map.items() if v.strip().casefold() == wanted}
    return bool(({wanted} | mapped) & known)
