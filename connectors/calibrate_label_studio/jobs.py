"""Projects and tasks made for people to label: found again by a mark, checked before anything goes in, blind.

Nothing that a judge said goes into a project from here: a task holds what went into an item and what came out, how the item
is called and which guideline it was labelled by. Predictions are never made, and hidden where there are any.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from calibrate_label_studio import forms, labelling
from calibrate_label_studio.annotations import OURS, item_of, scalar
from calibrate_label_studio.forms import GUIDELINE, PARTS, PICTURES, Slot
from calibrate_label_studio.listing import Tasks
from calibrate_label_studio.server import Refused, Server
from calibrate_label_studio.showing import as_text, data_of
from calibrate_plugin.connector import (
    ConnectorError,
    Finding,
    Form,
    Held,
    NewTask,
    Placed,
    SettingsError,
    SourceSettings,
    Unavailable,
)

log = logging.getLogger(__name__)

#: Tasks, and bytes, that one import takes.
BATCH, HEAVY = 100, 8 << 20
#: How long a project's title may be (Label Studio refuses others).
TITLE = (3, 50)
#: What keeps judges' answers, and everybody's, off the page.
HIDDEN = {"show_collab_predictions": False, "model_version": "", "show_ground_truth_first": False}


class Jobs:
    """The labelling jobs of a server, for one source of a study."""

    def __init__(self, server: Server, settings: SourceSettings, item: tuple[str, ...]) -> None:
        self.server, self.settings, self.item = server, settings, item

    @property
    def _reason(self) -> str | None:
        """The textarea that the study reads reasons from. A form asks for one reason, so all dimensions must share it."""
        given = self.settings.options.get("reasons")
        names = {given} if isinstance(given, str) else set(given.values()) if isinstance(given, Mapping) else set()
        if len(names) > 1:
            raise SettingsError(
                f"sources.{self.settings.name}.reasons names {len(names)} textareas, and a form that is made has one;"
                ' write reasons = "why", or name a project of your own with --project'
            )
        return next(iter(names), None)

    def _item_key(self) -> tuple[str, ...]:
        """Where in its data a task names its item. Raises SettingsError where the study reads it from elsewhere."""
        if len(self.item) < 2 or self.item[0] != "data" or self.item[1] in (*PARTS, GUIDELINE, PICTURES):
            raise SettingsError(
                f"sources.{self.settings.name}.item is {'.'.join(self.item)!r}, so new tasks cannot say which item they are"
                ' of; write item = "data.trace_id"'
            )
        return self.item[1:]

    # -- projects

    def find(self, form: Form) -> str | None:
        """The project with the form's mark in its labelling configuration, whatever its title is by now."""
        page = 1
        while True:
            answer = self.server.get(
                "/api/projects/", {"page": page, "page_size": 100, "include": "id,title,label_config"}
            )
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list):
                raise Unavailable(f"{self.server.url}/api/projects/ gives no list of projects")
            for project in results:
                if isinstance(project, dict) and _mark(form) in str(project.get("label_config") or ""):
                    return str(project["id"])
            if not answer.get("next"):
                return None
            page += 1

    def make(self, form: Form) -> str:
        """A new project. It is looked at afterwards, and deleted again where the server made something else of it."""
        self._item_key()
        config = forms.made(form, self._reason)
        title = form.title.strip()
        if not TITLE[0] <= len(title) <= TITLE[1]:
            raise SettingsError(
                f"the project's title {title!r} has {len(title)} characters; Label Studio takes {TITLE[0]} to {TITLE[1]}"
            )
        body = {
            "title": title,
            "label_config": config,
            "maximum_annotations": form.people,
            "overlap_cohort_percentage": 100,
            "expert_instruction": forms.instruction(form),
            "show_instruction": bool(form.guideline),
            "enable_empty_annotation": False,
            "show_annotation_history": False,
            **HIDDEN,
        }
        made = self.server.write("POST", "/api/projects/", body)
        if not isinstance(made, dict) or "id" not in made:
            raise Unavailable(f"{self.server.url}/api/projects/ made no project")
        job = str(made["id"])
        try:
            project = self.server.project(int(job))
            differs = [k for k, v in body.items() if k in {*HIDDEN, "maximum_annotations"} and project.get(k) != v]
            controls = labelling.from_project(project)
            problems = [f for f in forms.unfit(form, config, controls, {}, self._reason) if f.level == "problem"]
            if differs or problems:
                what = f"keeps {differs[0]} as {project.get(differs[0])!r}" if differs else problems[0].message
                raise ConnectorError(f"{self.server.url}: the new project {what}; it was deleted again")
        except BaseException:
            with suppress(ConnectorError):
                self.server.write("DELETE", f"/api/projects/{job}/")
            raise
        return job

    def remove(self, job: str, form: Form) -> None:
        """Delete a project that was made from a form, unless people answered in it."""
        project = self.server.project(int(job))
        if _mark(form) not in str(project.get("label_config") or ""):
            raise Held(f"project {job} of {self.server.url} was not made by this study; nothing was deleted")
        if project.get("total_annotations_number") or project.get("skipped_annotations_number"):
            raise Held(f"project {job} of {self.server.url} holds answers; delete it in Label Studio if you mean to")
        self.server.write("DELETE", f"/api/projects/{job}/")

    def check(self, job: str, form: Form, *, answered: bool) -> list[Finding]:
        """What keeps blind tasks from going into a project."""
        self._item_key()
        if not job.isascii() or not job.isdigit():
            raise SettingsError(f"{job!r} is no project id; it is the number in the project's address")
        try:
            project = self.server.project(int(job))
        except Refused as refusal:
            raise SettingsError(f"project {job}: {refusal}") from None
        return list(self._findings(job, project, form, answered))

    def _findings(self, job: str, project: Mapping[str, Any], form: Form, answered: bool) -> Iterator[Finding]:
        address = f"PATCH {self.server.url}/api/projects/{job}/ with"
        config = str(project.get("label_config") or "")
        yield from forms.unfit(form, config, labelling.from_project(project), form.shows, self._reason)
        predictions = project.get("total_predictions_number") or 0
        if predictions and project.get("show_collab_predictions"):
            yield Finding(
                "problem",
                f"project {job}",
                f"shows {predictions} predictions to people who label",
                f'{address} {{"show_collab_predictions": false, "model_version": ""}}',
            )
        elif project.get("show_collab_predictions") and project.get("model_version"):
            yield Finding(
                "problem",
                f"project {job}",
                f"would fill forms with what the model {project['model_version']!r} says",
                f'{address} {{"show_collab_predictions": false, "model_version": ""}}',
            )
        people = project.get("maximum_annotations") or 1
        if people < form.people:
            yield Finding(
                "problem",
                f"project {job}",
                f"gives each task to {people} {'person' if people == 1 else 'people'}, and {form.people} are wanted",
                f'{address} {{"maximum_annotations": {form.people}}}',
            )
        answers = project.get("total_annotations_number") or 0
        if answers and not answered:
            yield Finding(
                "problem",
                f"project {job}",
                f"already holds {answers} answers, perhaps by another guideline",
                "make a new project (leave --project out), or say --answered if that is meant",
            )
        columns = self.server.get("/api/dm/columns", {"project": job})
        told = columns.get("columns", ()) if isinstance(columns, dict) else ()
        revealing = sorted(str(c.get("id")) for c in told if str(c.get("id", "")).startswith(OURS))
        if revealing:
            yield Finding(
                "problem",
                f"project {job}",
                f"shows results of the study in its columns ({', '.join(revealing[:3])})",
                "calibrate-plugin unpush takes them away; take reveal out of [push] while people label",
            )
        if form.guideline and not (
            project.get("expert_instruction") or any(s.key == GUIDELINE for s in forms.slots(config))
        ):
            yield Finding(
                "warning",
                f"project {job}",
                "does not show the guideline",
                f"add it in the project's settings under Labeling Instructions, or show ${GUIDELINE} in the form",
            )

    # -- tasks

    def placed(self, job: str) -> Iterator[Placed]:
        """The tasks of a project that name an item."""
        for page in Tasks(self.server, int(job)).counted():
            for task in page.tasks:
                key = item_of(task, self.item)
                if key is not None:
                    answers = sum(
                        n for k in ("total_annotations", "cancelled_annotations") if isinstance(n := task.get(k), int)
                    )
                    yield Placed(str(task["id"]), key, answers)

    def add(self, job: str, form: Form, tasks: Iterable[NewTask]) -> Iterator[Placed]:
        """Import tasks, a batch at a time."""
        project = self.server.project(int(job))
        shown = forms.slots(str(project.get("label_config") or ""))
        batch: list[tuple[str, str]] = []
        size = 0
        for task in tasks:
            text = json.dumps({"data": self._data(task, form, shown)}, ensure_ascii=True)
            if batch and (len(batch) == BATCH or size + len(text) > HEAVY):
                yield from self._import(job, batch)
                batch, size = [], 0
            batch.append((task.key, text))
            size += len(text)
        if batch:
            yield from self._import(job, batch)

    def _data(self, task: NewTask, form: Form, shown: Sequence[Slot]) -> dict[str, Any]:
        """The data of a task: the item's parts in the shape that the project's tags take, its key, and nothing else."""
        content = task.content
        parts = {
            "input": data_of(content.input, task.key),
            "context": data_of(content.context, task.key),
            "output": data_of(content.output, task.key),
        }
        data: dict[str, Any] = {}
        for slot in shown:
            part = form.shows.get(slot.key, slot.key)
            if part in parts:
                messages = parts[part].messages
                data[slot.key] = (
                    [{slot.name: m["author"], slot.text: m["text"]} for m in messages]
                    if slot.tag == "paragraphs"
                    else as_text(messages)
                )
            elif part == PICTURES:
                data[slot.key] = [{"url": url} for shown in parts.values() for url in shown.pictures]
            elif part == GUIDELINE:
                data[slot.key] = form.guideline or "(none)"
        data |= {k: v for k, v in task.facts.items() if k not in data}
        *above, last = self._item_key()
        inner = data
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = task.key
        return data

    def _import(self, job: str, batch: Sequence[tuple[str, str]]) -> list[Placed]:
        body = [json.loads(text) for _, text in batch]
        path = f"/api/projects/{job}/import"
        told = self.server.write("POST", path, body, {"return_task_ids": "true"})
        ids = told.get("task_ids") if isinstance(told, dict) else None
        if not isinstance(ids, list) or len(ids) != len(batch):
            count = len(ids) if isinstance(ids, list) else "none"
            raise Unavailable(f"{self.server.url}{path} took {count} of {len(batch)} tasks; run again to fill up")
        return [Placed(scalar(number) or "", key, 0) for number, (key, _) in zip(ids, batch, strict=True)]


def _mark(form: Form) -> str:
    return f'className="calibrate-{form.mark}"'
