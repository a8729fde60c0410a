"""What a project asks: the controls of its labelling configuration.

Only controls that answer a question about the whole task are kept; those that label regions, or one of several items in a
task, are not questions about the task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from calibrate_plugin.connector import SettingsError

#: Type of a result -> the key of its value that holds the answer.
ANSWERS = {
    "choices": "choices",
    "rating": "rating",
    "number": "number",
    "pairwise": "selected",
    "taxonomy": "taxonomy",
    "textarea": "text",
}


@dataclass(frozen=True, slots=True)
class Control:
    """One question. ``labels`` are the answers as annotations store them (the alias where there is one), ``shown`` what
    the annotator reads for an aliased one. ``low``, ``high``, ``step`` belong to ratings and numbers."""

    name: str
    kind: str
    multiple: bool = False
    labels: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    objects: tuple[str, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None


Controls = dict[str, Control]


def _number(text: str | None) -> Fraction | None:
    try:
        return Fraction(text) if text else None
    except (ValueError, ZeroDivisionError):
        return None


def _stored(choice: ElementTree.Element) -> str:
    return choice.get("alias") or choice.get("value") or ""


def _paths(tag: ElementTree.Element, above: str = "") -> Iterator[str]:
    """The choices of a taxonomy, as paths from the top: ``billing``, ``billing/refund``."""
    for choice in tag.findall("Choice"):
        path = f"{above}{_stored(choice)}"
        yield path
        yield from _paths(choice, f"{path}/")


def from_xml(text: str) -> Controls:
    """The controls of a labelling configuration. Raises ValueError where it is not one.

    >>> from_xml('<View><Choices name="q" toName="t"><Choice value="yes"/></Choices></View>')["q"].labels
    ('yes',)
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a labelling configuration declares no document type")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - entities are refused above, and nothing else expands
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from None
    controls: Controls = {}
    for tag in root.iter():
        kind, name, objects = str(tag.tag).lower(), tag.get("name"), tag.get("toName")
        if kind not in ANSWERS or name is None or objects is None or "{{" in name:
            continue
        if any((tag.get(attribute) or "").lower() == "true" for attribute in ("perRegion", "perItem")):
            continue
        low = high = step = None
        if kind == "rating":
            low, high, step = Fraction(1), _number(tag.get("maxRating")) or Fraction(5), Fraction(1)
        elif kind == "number":
            low, high, step = _number(tag.get("min")), _number(tag.get("max")), _number(tag.get("step"))
        choices = list(tag.iter("Choice")) if kind in ("choices", "taxonomy") else []
        labels = tuple(_stored(choice) for choice in choices) if kind == "choices" else tuple(_paths(tag))
        controls[name] = Control(
            name,
            kind,
            multiple=kind == "choices" and (tag.get("choice") or "").lower() == "multiple",
            labels=labels,
            shown=tuple((_stored(c), c.get("value") or "") for c in choices if c.get("alias") and c.get("value")),
            objects=tuple(part.strip() for part in objects.split(",")),
            low=low,
            high=high,
            step=step,
        )
    return controls


def from_parsed(parsed: Mapping[str, Any]) -> Controls:
    """The controls of a ``parsed_label_config``, which knows no ends of ratings and not which choices are multiple."""
    controls: Controls = {}
    for name, control in parsed.items():
        if not isinstance(control, Mapping):
            continue
        kind = str(control.get("type", "")).lower()
        if kind not in ANSWERS or "{{" in name:
            continue
        attributes = control.get("labels_attrs") or {}
        labels = tuple(str(label) for label in control.get("labels") or ())
        controls[name] = Control(
            name,
            kind,
            labels=labels,
            shown=tuple(
                (label, str(attributes[label]["value"]))
                for label in labels
                if isinstance(attributes.get(label), Mapping) and attributes[label].get("alias")
            ),
            objects=tuple(str(o) for o in control.get("to_name") or ()),
        )
    return controls


def from_project(project: Mapping[str, Any]) -> Controls:
    """The controls of a project as the API gives it."""
    text, parsed = project.get("label_config"), project.get("parsed_label_config")
    if isinstance(text, str) and text.strip():
        try:
            return from_xml(text)
        except ValueError:
            pass
    return from_parsed(parsed) if isinstance(parsed, Mapping) else {}


def read(path: Path) -> Controls:
    """The controls of a labelling configuration in a file: its XML, a project as the API gives it, or a
    ``parsed_label_config``. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"project_config: {path} cannot be read: {error}") from None
    try:
        if not text.lstrip().startswith("{"):
            controls = from_xml(text)
        else:
            found = json.loads(text)
            controls = from_project(found) or from_parsed(found)
    except ValueError as error:
        raise SettingsError(f"project_config: {path} is no labelling configuration: {error}") from None
    if not controls:
        raise SettingsError(f"project_config: {path} has no control that answers a question about a task")
    return controls


def union(configurations: Iterable[Controls]) -> Controls:
    """All controls of several projects; a choice is multiple where one of them says so."""
    found: Controls = {}
    for controls in configurations:
        for name, control in controls.items():
            if name not in found or (control.multiple and not found[name].multiple):
                found[name] = control
    return found
