"""What Label Studio declares, as a proposal for a study."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from calibrate_label_studio.annotations import LONGEST_FACT, OURS, scalar
from calibrate_label_studio.labelling import Control, Controls
from calibrate_plugin.connector import Discovery, Proposal
from calibrate_plugin.model import number

SAMPLE = 200
PASS = frozenset(("pass", "passed", "yes", "good", "true", "correct", "right", "safe", "ok", "acceptable", "helpful"))
UNSURE = frozenset(("unsure", "not sure", "don't know", "unclear", "cannot tell", "n/a", "na"))


def _numeric(control: Control) -> tuple[dict[str, Any], str]:
    if control.kind == "rating" and control.high is None:
        return {"scale": "rating", "min": 1, "max": 5}, "the number of stars is not declared here; 5 is the usual one"
    if control.low is None or control.high is None:
        return {"scale": "rating"}, "the labelling configuration does not say its ends; give min and max"
    settings: dict[str, Any] = {"scale": "rating", "min": _plain(control.low), "max": _plain(control.high)}
    if control.kind == "number":
        settings["step"] = _plain(control.step) if control.step else "any"
    return settings, ""


def _plain(value: Any) -> int | float:
    text = number(value)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def proposal(control: Control, seen: Iterable[str] = ()) -> Proposal | None:
    """The dimension that a control would be; None for a textarea. ``seen`` are its answers where nothing is declared."""
    declared = bool(control.labels)
    labels = list(control.labels or sorted(seen))
    shown = dict(control.shown)
    note = "" if declared else "no choices are declared; these are the answers seen so far"
    settings: dict[str, Any]
    if control.kind == "textarea":
        return None
    if control.kind in ("rating", "number"):
        settings, note = _numeric(control)
    elif control.kind == "pairwise":
        settings, note = (
            {"scale": "preference", "values": ["left", "right"], "fixed": False},
            "the responses by their side",
        )
        if control.objects:
            note = f"left is {control.objects[0]}, right is {control.objects[-1]}; fixed = true if those are always the same two systems"
    elif control.kind == "taxonomy" or control.multiple:
        settings = {"scale": "choices", "values": labels}
        note = note or "several may be chosen: one yes/no dimension for each"
    else:
        abstain = [v for v in labels if {v.casefold(), shown.get(v, v).casefold()} & UNSURE]
        values = [v for v in labels if v not in abstain]
        if len(values) < 2:
            values, abstain = labels, []
        if len(values) == 2 and values[1].casefold() in PASS and values[0].casefold() not in PASS:
            values.reverse()
        settings = {"scale": "binary" if len(values) == 2 else "nominal", "values": values}
        if abstain:
            settings["abstain"] = abstain
        if len(values) == 2:
            note += "; " if note else ""
            note += f"{values[0]} is taken as the pass; turn the values round if it is the other one"
        elif not note:
            note = 'if these have an order: scale = "ordinal", and the values from low to high'
    if shown:
        told = ", ".join(f"{stored} is shown as {text}" for stored, text in shown.items())
        note = f"{note}; {told}" if note else told
    return Proposal(control.name, (control.name,), settings, note)


def links(tasks: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Each way to name an item, with a sample of its values: the keys of the tasks' data, nested ones too, and the id."""
    found: dict[str, list[str]] = {}

    def look(value: Any, path: str, depth: int) -> None:
        if isinstance(value, Mapping) and depth < 4:
            for key, inner in value.items():
                if not str(key).startswith(OURS):
                    look(inner, f"{path}.{key}", depth + 1)
        elif (
            (text := scalar(value)) is not None
            and 0 < len(text) <= LONGEST_FACT
            and not isinstance(value, bool | float)
        ):
            found.setdefault(path, []).append(text)

    for count, task in enumerate(tasks):
        if count >= SAMPLE:
            break
        look(task.get("data"), "data", 0)
        look(task.get("meta"), "meta", 0)
        look(task.get("id"), "id", 0)
    # an item's name differs from task to task; a category does not
    telling = {path: values for path, values in found.items() if len(set(values)) > len(values) / 2}
    return {path: tuple(dict.fromkeys(values)) for path, values in (telling or found).items()}


def discovery(
    configurations: Mapping[str, Controls],
    tasks: Iterable[Mapping[str, Any]],
    versions: Iterable[str] = (),
    seen: Mapping[str, Iterable[str]] | None = None,
    notes: Iterable[str] = (),
) -> Discovery:
    """What projects (job -> controls) and a sample of their tasks propose."""
    said = list(notes)
    first: dict[str, Control] = {}
    for job, controls in configurations.items():
        for name, control in controls.items():
            if name in first and (first[name].kind, first[name].labels) != (control.kind, control.labels):
                said.append(f"project {job} asks {name} otherwise than the first project: look at its values")
            first.setdefault(name, control)
    texts = [name for name, control in first.items() if control.kind == "textarea"]
    if len(texts) > 1:
        said.append(
            f"there are {len(texts)} textareas ({', '.join(texts)}): say which holds the reasons, e.g. reasons = {json.dumps(texts[0])}"
        )
    counts = Counter(v for v in versions if v)
    if counts:
        said.append(
            "there are predictions: with predictions = true they are an evaluator, their model version its version"
        )
    return Discovery(
        dimensions=tuple(p for c in first.values() if (p := proposal(c, (seen or {}).get(c.name, ()))) is not None),
        links=links(tasks),
        versions={"prediction": tuple(sorted(counts))} if counts else {},
        notes=tuple(said),
    )
