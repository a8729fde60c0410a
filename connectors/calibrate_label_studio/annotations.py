"""What the tasks of a project say: one row per annotation and question, and what could not be read as one.

The same code serves exports and the API. It reports what the platform holds and decides nothing:

- A label is one annotation's answer to one control about the whole task. Results that belong to a region or to one of
  several items in a task are left out, as ``per_region``.
- A skipped annotation is "skipped" for every control, whatever results it carries. A control that an annotation does not
  answer is "cleared", if the project has it. A draft is not a label.
- Several different results for one control are given as one JSON list, which no single-choice scale accepts.
- ``completed_by: null`` is what Label Studio leaves of a deleted person.
- ``ground_truth`` is gold if a person set it. An import sets it too, unless told not to; but it stores no ``updated_by``
  and both times within one instant, which any later act of a person changes. So an imported answer that somebody saved
  again with its star on is gold, and one that nobody touched is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any
from urllib.parse import quote

from calibrate_label_studio.labelling import ANSWERS, Control, Controls
from calibrate_plugin.connector import GUIDELINE_VERSION, Page
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, frame

#: Keys of a result's value that place it in a region.
PLACES = frozenset(
    (
        "start",
        "end",
        "x",
        "y",
        "points",
        "vertices",
        "ranges",
        "sequence",
        "rle",
        "startOffset",
        "endOffset",
        "globalOffsets",
    )
)
LONGEST_FACT = 200
OURS = "calibrate_"
PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a study wants of a task.

    ``item`` is the path to the item's name in a task; ``fields`` the controls wanted, None for all; ``reasons`` control ->
    textarea that holds its written reason, None for "the only textarea". ``predictions`` evaluator -> model versions, None
    standing for every version. ``ground_truth`` says which stars are gold: "person", "all", "none".
    """

    item: tuple[str, ...] = ("id",)
    fields: frozenset[str] | None = None
    reasons: Mapping[str | None, str] | None = None
    predictions: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    ground_truth: str = "person"
    url: str | None = None

    def evaluator(self, version: str) -> str | None:
        for name, versions in self.predictions.items():
            if versions is None or version in versions:
                return name
        return None

    def wants(self, name: str, kind: str) -> bool:
        return kind != "textarea" if self.fields is None else name in self.fields

    def reason_of(self, controls: Controls) -> dict[str | None, str]:
        """Control -> the textarea with its reason; under None the textarea of all others."""
        if self.reasons is not None:
            return dict(self.reasons)
        texts = [c.name for c in controls.values() if c.kind == "textarea" and not self.wants(c.name, c.kind)]
        return {None: texts[0]} if len(texts) == 1 else {}


def clean(text: str) -> str:
    r"""Text that can be stored as UTF-8; half a surrogate pair is written out.

    >>> clean("a\ud83d")
    'a\\ud83d'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def scalar(value: Any) -> str | None:
    """A string, number or truth value as text; None for anything else."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool | int | float):
        return json.dumps(_cleaned(value)).strip('"')
    return None


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(v) for v in value]
    if isinstance(value, dict):
        return {clean(str(k)): _cleaned(v) for k, v in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # 1e999 is a number in JSON, but not one that can be given back
    return value


def _json(value: Any) -> str:
    return json.dumps(_cleaned(value), ensure_ascii=False)


def time_of(value: Any) -> datetime | None:
    """A platform's time. Label Studio's are UTC, so one without a zone is; releases before 1.0 gave seconds."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _sequence(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return value
    return None


def _seconds(value: Any) -> float | None:
    """How long the form was open, as Label Studio's page measured it; what comes by the API may say nothing, or anything."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
        return float(value)
    return None


def item_of(task: Mapping[str, Any], path: tuple[str, ...]) -> str | None:
    """What the task calls its item, or None. A key of the data may itself hold dots."""
    found: Any = task
    for place, key in enumerate(path):
        if not isinstance(found, Mapping):
            return None
        if (rest := ".".join(path[place:])) in found:
            return scalar(found[rest])
        if key not in found:
            return None
        found = found[key]
    return None


class Unreadable(Exception):
    """A result that holds no answer in the shape of its control."""


@dataclass(slots=True)
class _Results:
    """The results of one annotation or prediction, by control."""

    told: dict[str, list[Any]] = field(default_factory=dict)  # the answers to a control, each in its platform shape
    kinds: dict[str, str] = field(default_factory=dict)
    regions: Counter[str | None] = field(default_factory=Counter)
    unread: list[tuple[str | None, Any, str, str]] = field(default_factory=list)  # control, what, cause, message
    prefilled: bool = False


def _kind(result: Mapping[str, Any], value: Mapping[str, Any]) -> str | None:
    """The kind of control that gave a result; its type may be missing, as the API does not insist on it."""
    given = result.get("type")
    if isinstance(given, str) and given:
        return given.lower() if given.lower() in ANSWERS else None
    return next((kind for kind, key in ANSWERS.items() if key in value), None)


def _told(kind: str, value: Mapping[str, Any]) -> Any:
    """The answer as it stands in the value of a result; None where it is empty. Raises Unreadable."""
    key = ANSWERS[kind]
    if key not in value:
        raise Unreadable(f'its value has no "{key}"')
    found = value[key]
    if found is None or found == [] or found == "":
        return None
    if kind == "choices":
        if not isinstance(found, list) or not all(isinstance(c, str | int | float | bool) for c in found):
            raise Unreadable(f"its choices are no list of texts: {_short(found)}")
    elif kind == "taxonomy":
        if not isinstance(found, list) or not all(
            isinstance(path, list) and all(isinstance(step, str | int | float | bool) for step in path)
            for path in found
        ):
            raise Unreadable(f"its taxonomy is no list of paths: {_short(found)}")
    elif kind == "textarea":
        found = [found] if isinstance(found, str) else found
        if not isinstance(found, list) or not all(isinstance(t, str) for t in found):
            raise Unreadable(f"its text is no list of texts: {_short(found)}")
    elif isinstance(found, list | dict):
        raise Unreadable(f'its "{key}" is neither text nor number: {_short(found)}')
    return found


def _short(value: Any, most: int = 80) -> str:
    text = clean(value) if isinstance(value, str) else _json(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _collect(results: list[Any]) -> _Results:
    found = _Results()
    placed = {
        result["id"]
        for result in results
        if isinstance(result, dict)
        and isinstance(result.get("id"), str | int)
        and isinstance(result.get("value"), dict)
        and not PLACES.isdisjoint(result["value"])
    }
    for result in results:
        if not isinstance(result, dict):
            found.unread.append((None, result, "unreadable", f"a result is no object: {_short(result)}"))
            continue
        if str(result.get("origin", "")).startswith("prediction"):
            found.prefilled = True
        name, value = result.get("from_name"), result.get("value")
        if result.get("type") == "relation":
            found.regions[None] += 1
            continue
        if not isinstance(name, str):
            found.unread.append((None, result, "unreadable", f"a result names no control: {_short(result)}"))
            continue
        name = clean(name)
        if isinstance(value, dict) and (
            not PLACES.isdisjoint(value) or "item_index" in result or _hashable(result.get("id")) in placed
        ):
            found.regions[name] += 1
            continue
        if not isinstance(value, dict):
            if (kind := _kind(result, {})) is not None:
                found.kinds.setdefault(name, kind)
            what = "has no value" if value is None else f"has a value that is no object: {_short(value)}"
            found.unread.append((name, value, "unreadable", f"the result of {_short(name)} {what}"))
            continue
        kind = _kind(result, value)
        if kind is None:
            given = _short(result.get("type"))
            found.unread.append(
                (name, value, "unknown_control", f"{_short(name)} is a control of type {given}, which is not read")
            )
            continue
        found.kinds.setdefault(name, kind)
        try:
            told = _told(kind, value)
        except Unreadable as error:
            found.unread.append((name, value, "unreadable", f"the result of {_short(name)} cannot be read: {error}"))
            continue
        found.told.setdefault(name, []).append(told)
    return found


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int) else None


def _value(told: list[Any], kind: str, multiple: bool) -> str | None:
    """JSON text of all the answers to one control, or None where they are empty."""
    given = [t for t in told if t is not None]
    if not given:
        return None
    if kind == "textarea":
        texts = [text for t in given for text in t]
        return _json(texts[0] if len(texts) == 1 else texts)
    if kind == "taxonomy":
        return _json(_distinct(path for t in given for path in t))
    if kind == "choices":
        multiple = multiple or any(len(t) > 1 for t in given)
        given = _distinct(choice for t in given for choice in t)
    else:
        given = _distinct(given)
    if len(given) == 1 and not multiple:
        return _json(given[0])
    return _json(sorted(given, key=_json))


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({_json(value): value for value in values}.values())


def project_of(task: Any) -> str | None:
    """The id of the project that a task is in."""
    return scalar(task.get("project")) if isinstance(task, Mapping) else None


def seen(tasks: Iterable[Any]) -> dict[str | None, Controls]:
    """The controls that the answers of each project show; what no annotation ever answered cannot be seen."""
    found: dict[str | None, Controls] = {}
    for task in tasks:
        if not isinstance(task, dict):
            continue
        controls = found.setdefault(project_of(task), {})
        for answer in (*_listed(task, "annotations"), *_listed(task, "predictions")):
            if not isinstance(answer, dict) or not isinstance(answer.get("result"), list):
                continue
            results = _collect(answer["result"])
            for name, kind in results.kinds.items():
                multiple = kind == "choices" and any(t is not None and len(t) > 1 for t in results.told.get(name, ()))
                if name not in controls or (multiple and not controls[name].multiple):
                    controls[name] = Control(name, kind, multiple)
    return found


def _listed(task: Mapping[str, Any], key: str) -> list[Any]:
    found = task.get(key)
    return found if isinstance(found, list) else []


class Rows:
    """Pages in the making. One of these serves one pull: a record that comes twice counts once."""

    def __init__(self, reading: Reading, where: str) -> None:
        self.reading, self.where = reading, where
        self.records: set[str] = set()
        self._start()

    def _start(self) -> None:
        self.labels: dict[str, list[Any]] = {column: [] for column in _COLUMNS}
        self.aside: dict[str, list[Any]] = {column: [] for column in ASIDE}
        self.items: dict[tuple[str, str, str], None] = {}
        self.names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.labels["record"])

    def page(self) -> Page:
        """What was read since the last page."""
        columns = zip(*self.items, strict=True) if self.items else ((), (), ())
        made = Page(
            frame(LABELS, self.labels),
            frame(ITEMS, dict(zip(ITEMS, columns, strict=True))),
            frame(ASIDE, self.aside),
            dict(self.names),
        )
        self._start()
        return made

    def put_aside(self, cause: str, message: str, **columns: Any) -> None:
        for column in ASIDE:
            self.aside[column].append(columns.get(column))
        self.aside["cause"][-1] = cause
        self.aside["message"][-1] = f"{self.where}: {message}"

    def task(self, task: Any, controls: Controls) -> None:
        """Read one task of a project that has these controls."""
        if not isinstance(task, dict):
            self.put_aside("unreadable", f"a task is no object: {_short(task)}", value=_short(task))
            return
        place = _Place(
            task=scalar(task.get("id")),
            job=project_of(task),
            item=item_of(task, self.reading.item),
            guideline=item_of(task, ("data", GUIDELINE_VERSION)),
        )
        annotations = task.get("annotations")
        if not isinstance(annotations, list):
            self.put_aside("unreadable", f"{place}: has no list of annotations", record=str(place), item=place.item)
            annotations = []
        if place.item is not None:
            self._facts(place.item, task)
        for annotation in annotations:
            self._annotation(place, annotation, controls)
        if self.reading.predictions:
            for prediction in _listed(task, "predictions"):
                self._prediction(place, prediction, controls)

    def _facts(self, item: str, task: Mapping[str, Any]) -> None:
        data = task.get("data")
        if not isinstance(data, dict):
            return
        own = self.reading.item[1] if len(self.reading.item) == 2 and self.reading.item[0] == "data" else None
        for key, value in data.items():
            text = scalar(value)
            if text is not None and len(text) <= LONGEST_FACT and key != own and not key.startswith(OURS):
                self.items[item, clean(key), text] = None

    def _record(self, place: _Place, answer: Any, what: str) -> tuple[str | None, str]:
        """The record's id and how messages name it. Ids are given out again after a deletion, times are not."""
        number = scalar(answer.get("id")) if isinstance(answer, dict) else None
        if number is None:
            return None, f"{place}, {what} without id"
        made = scalar(answer.get("created_at")) or ""
        prefix = "" if what == "annotation" else f"{what} "
        return f"{prefix}{number}@{made}", f"{place}, {what} {number}"

    def _annotation(self, place: _Place, annotation: Any, controls: Controls) -> None:
        record, called = self._record(place, annotation, "annotation")
        if not isinstance(annotation, dict):
            self.put_aside(
                "unreadable", f"{called}: is no object: {_short(annotation)}", record=called, item=place.item
            )
            return
        rater = self._person(annotation)
        skipped = annotation.get("was_cancelled") is True
        known = {"record": record or called, "item": place.item, "rater": rater}
        given = annotation.get("result")
        if not isinstance(given, list) and not (skipped and given is None):
            self.put_aside("unreadable", f"{called}: has no list of results", **known)
            return
        if not self._first(record, called, known) or not self._has_item(place, called, known):
            return
        results = _collect(given or [])
        created, updated = time_of(annotation.get("created_at")), time_of(annotation.get("updated_at"))
        common = {
            "record": record,
            "seq": _sequence(annotation.get("id")),
            "retired": "annotator_deleted" if self._deleted(annotation) else None,
            "rater": rater,
            "kind": "gold" if self._gold(annotation, created, updated) else "annotator",
            "at": updated or created,
            "version": place.guideline,
            "seconds": _seconds(annotation.get("lead_time")),
            "blind": not (results.prefilled or annotation.get("parent_prediction") is not None),
        }
        self._rows(place, common, results, controls, skipped)
        if not skipped:
            self._unread(called, known, results)

    def _prediction(self, place: _Place, prediction: Any, controls: Controls) -> None:
        record, called = self._record(place, prediction, PREDICTION)
        known = {"record": record or called, "item": place.item}
        if not isinstance(prediction, dict):
            self.put_aside(
                "unreadable",
                f"{place}: names prediction {_short(prediction)} without what it says; make a snapshot whose predictions are full"
                " (serialization option predictions, only_id off), or read the project itself",
                record=f"prediction {_short(prediction)}",
                item=place.item,
            )
            return
        version = scalar(prediction.get("model_version")) or ""
        evaluator = self.reading.evaluator(version)
        if evaluator is None:
            return
        known["rater"] = evaluator
        if not self._first(record, called, known) or not self._has_item(place, called, known):
            return
        given = prediction.get("result")
        results = _collect(given) if isinstance(given, list) else _Results()
        score = prediction.get("score")
        created, updated = time_of(prediction.get("created_at")), time_of(prediction.get("updated_at"))
        common = {
            "record": record,
            "seq": _sequence(prediction.get("id")),
            "rater": evaluator,
            "kind": "evaluator",
            "version": version,
            "run": scalar(prediction.get("model_run")),
            "at": updated or created,
            "confidence": float(score) if isinstance(score, int | float) and 0 <= score <= 1 else None,
        }
        self._rows(place, common, results, controls, skipped=False)
        self._unread(called, known, results)

    def _rows(
        self, place: _Place, common: Mapping[str, Any], results: _Results, controls: Controls, skipped: bool
    ) -> None:
        """One row per control. A person is taken to have been asked what the project asks; a model only what it answers,
        or everything where it answers nothing at all."""
        human = common["kind"] != "evaluator"
        asked = {c.name: c.kind for c in controls.values() if self.reading.wants(c.name, c.kind)}
        told = {n: k for n, k in results.kinds.items() if self.reading.wants(n, k)}
        if not human and results.kinds:
            asked = {}
        unread = {name for name, *_ in results.unread}
        texts = self.reading.reason_of(controls)
        for name, kind in (asked if skipped else {**asked, **told}).items():
            state, value, reason = "skipped", None, None
            if not skipped:
                if name in unread and human and name not in results.told:
                    continue  # what was said is not known, so neither is that it was cleared
                multiple = name in controls and controls[name].multiple
                value = _value(results.told.get(name, []), kind, multiple)
                state = "answered" if value is not None else "cleared" if human else "failed"
                text = texts.get(name, texts.get(None))
                if text is not None and text != name:
                    said = [t for entry in results.told.get(text, ()) if isinstance(entry, list) for t in entry]
                    reason = clean("\n".join(map(str, said))) or None
            row = {
                **common,
                "item": place.item,
                "field": name,
                "value": value,
                "state": state,
                "job": place.job,
                "task": place.task,
                "reason": reason,
                "link": place.link(self.reading.url),
            }
            for column, values in self.labels.items():
                values.append(row.get(column))

    def _unread(self, called: str, known: Mapping[str, Any], results: _Results) -> None:
        for name, what, cause, message in results.unread:
            if name is None or self.reading.fields is None or name in self.reading.fields:
                self.put_aside(cause, f"{called}: {message}", field=name, value=_short(what, 200), **known)
        for name, count in results.regions.items():
            if self.reading.fields is None or name in self.reading.fields:
                what = f"{count} result{'s' if count > 1 else ''} of {_short(name or 'relations')}"
                message = f"{called}: {what} about a part of the task, not about the task"
                self.put_aside("per_region", message, field=name, **known)

    def _first(self, record: str | None, called: str, known: Mapping[str, Any]) -> bool:
        if record is None:
            return True
        if record in self.records:
            self.put_aside("duplicate", f"{called}: is listed a second time", **known)
            return False
        self.records.add(record)
        return True

    def _has_item(self, place: _Place, called: str, known: Mapping[str, Any]) -> bool:
        if place.item is None:
            path = ".".join(self.reading.item)
            self.put_aside("no_item", f"{called}: the task has no {path}; say where it names its item", **known)
        return place.item is not None

    def _deleted(self, annotation: Mapping[str, Any]) -> bool:
        if "completed_by" not in annotation:
            return False
        person = annotation["completed_by"]
        return person is None or (isinstance(person, dict) and person.get("id", 0) is None)

    def _person(self, annotation: Mapping[str, Any]) -> str | None:
        person = annotation.get("completed_by")
        if not isinstance(person, dict):
            rater = scalar(person)
            told = annotation.get("created_username")
            if rater is not None and isinstance(told, str) and told.endswith(f", {rater}"):
                self._name(rater, told[: -len(rater) - 2].split())
            return rater
        email = person.get("email")
        rater = scalar(person.get("id"))
        if rater is None and "id" not in person:
            rater = scalar(email)
        if rater is not None:
            self._name(
                rater, [p for p in (person.get("first_name"), person.get("last_name"), email) if isinstance(p, str)]
            )
        return rater

    def _name(self, rater: str, parts: list[str]) -> None:
        if name := called(parts):
            self.names[rater] = name

    def _gold(self, annotation: Mapping[str, Any], created: datetime | None, updated: datetime | None) -> bool:
        if annotation.get("ground_truth") is not True or self.reading.ground_truth == "none":
            return False
        if self.reading.ground_truth == "all" or annotation.get("updated_by") is not None:
            return True
        return created is not None and updated is not None and updated - created > timedelta(seconds=1)


def called(parts: list[str]) -> str | None:
    """How people call somebody: first and last name, else the e-mail address. Of a removed member Label Studio tells
    neither: the address is "Deleted"."""
    names = [clean(p).strip() for p in parts if p.strip() and "@" not in p]
    emails = [clean(p).strip() for p in parts if "@" in p]
    if "Deleted" in names and not emails:
        return None
    return " ".join(names) or (emails[0] if emails else None)


@dataclass(frozen=True, slots=True)
class _Place:
    task: str | None
    job: str | None
    item: str | None
    guideline: str | None = None

    def __str__(self) -> str:
        return f"task {self.task}" if self.task is not None else "a task without id"

    def link(self, url: str | None) -> str | None:
        if url is None or self.job is None or self.task is None:
            return None
        return f"{url}/projects/{quote(self.job, safe='')}/data?task={quote(self.task, safe='')}"


_COLUMNS = (
    "record",
    "seq",
    "item",
    "field",
    "value",
    "state",
    "retired",
    "rater",
    "kind",
    "version",
    "job",
    "run",
    "task",
    "at",
    "reason",
    "confidence",
    "blind",
    "seconds",
    "link",
)
