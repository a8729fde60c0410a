"""Results back into Label Studio: a line in the project's description, columns on its tasks, a tab of disagreements.

A column that shows where people disagree shows an annotator what the other one said, so columns and tab go only to projects
that the study declares ``closed``, or everywhere with ``reveal = true``. The line is safe: it speaks of the whole study.
Nothing is ever written as a prediction.

Everything carries a mark (columns ``calibrate_``, the line ``[calibrate-plugin]``), and only what differs is written.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import Any

import polars as pl

from calibrate_label_studio.annotations import OURS
from calibrate_label_studio.listing import Tasks
from calibrate_label_studio.server import Broken, Refused, Server
from calibrate_plugin.connector import ConnectorError, Pushed, Results, Scope, SettingsError, SourceSettings, Write
from calibrate_plugin.model import DimensionReport, EvaluatorReport, Measure

log = logging.getLogger(__name__)

MARK = "[calibrate-plugin]"
LINE = re.compile(r"^\[calibrate-plugin\][^\n]*$", re.MULTILINE)
COUNT = f"{OURS}disagreements"
TITLE, OTHER_TITLE = "Disagreements", "Disagreements (calibrate)"
CHUNK = 2000  # tasks of one action
LONGEST_LINE = 1000

Values = dict[str, float]


def revealed(settings: SourceSettings) -> Callable[[int], bool]:
    """Whether a project may show per-task results. Raises SettingsError."""
    given = settings.push or {}
    for key in given:
        if key != "reveal":
            raise SettingsError(f'push.{settings.name}.{key}: Label Studio knows no such key; it takes "reveal"')
    reveal, closed = given.get("reveal", False), settings.options.get("closed", [])
    if not isinstance(reveal, bool):
        raise SettingsError(f"push.{settings.name}.reveal is {reveal!r}; it is true or false")
    if not isinstance(closed, list | tuple) or not all(isinstance(p, int) and not isinstance(p, bool) for p in closed):
        raise SettingsError(
            f"sources.{settings.name}.closed is {closed!r}; list the projects in which labelling is over"
        )
    return lambda project: reveal or project in closed


def percent(value: float) -> str:
    """A share as a whole percentage, halves up.

    >>> percent(5 / 8)
    '63 %'
    """
    return f"{floor(round(value * 100, 9) + 0.5)} %"


def _decimals(value: float) -> str:
    return f"{floor(round(value * 100, 9) + 0.5) / 100:.2f}"


def _said(agreement: Measure, kappa: Measure) -> str:
    if agreement.value is None:
        return f"- ({(agreement.reason or '').replace('_', ' ')})"
    shown = _decimals(kappa.value) if kappa.value is not None else f"- ({(kappa.reason or '').replace('_', ' ')})"
    return f"{percent(agreement.value)}, kappa {shown}, {agreement.n_items} item{'s' if agreement.n_items != 1 else ''}"


def _judge(evaluator: EvaluatorReport) -> str:
    version = f" {evaluator.version}" if evaluator.version else ""
    return f"{evaluator.evaluator}{version} with people {_said(evaluator.agreement, evaluator.kappa)}"


def _dimension(report: DimensionReport) -> str:
    judges = [_judge(e) for e in report.evaluators if e.live]
    people = f"people {_said(report.annotators.agreement, report.annotators.kappa)}"
    return f"{report.name}: {'; '.join((people, *judges))}"


def line(dimensions: Iterable[DimensionReport]) -> str:
    """What the description of a project says about the study: one line without dates, so that it changes with the numbers."""
    text = " | ".join(_dimension(d) for d in dimensions)
    text = " ".join("".join(c if c.isprintable() else " " for c in f"{MARK} {text}").split())
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def described(description: str, wanted: str | None) -> str:
    """A description with our line replaced, added below the team's own text, or (None) taken out."""
    if wanted is None:
        return LINE.sub("", description).rstrip("\n") if LINE.search(description) else description
    if LINE.search(description):
        first, *others = LINE.finditer(description)
        for other in reversed(others):
            description = description[: other.start()] + description[other.end() :]
        return description[: first.start()] + wanted + description[first.end() :]
    return f"{description.rstrip()}\n\n{wanted}" if description.strip() else wanted


def column(dimension: str) -> str:
    """The data key of a dimension's agreement: letters, digits and _ only, as a dot would split the column's name."""
    return OURS + (re.sub(r"[^0-9A-Za-z]+", "_", dimension).strip("_") or "dimension")


def columns(dimensions: Iterable[str]) -> dict[str, str]:
    """Dimension -> its column, each of its own."""
    found: dict[str, str] = {}
    for dimension in dimensions:
        name, number = column(dimension), 2
        while name in found.values() or name == COUNT:
            name, number = f"{column(dimension)}_{number}", number + 1
        found[dimension] = name
    return found


class Projects:
    """Writes to the projects of a study."""

    def __init__(self, server: Server, settings: SourceSettings, projects: Sequence[int]) -> None:
        self.server, self.projects = server, projects
        self.shows = revealed(settings)

    def push(self, results: Results, dry_run: bool) -> Pushed:
        writes: list[Write] = []
        for project in self.projects:
            try:
                writes += self._project(project, results, dry_run)
            except ConnectorError as error:
                writes.append(Write(f"project/{project}", "", "refused", str(error)))
        return Pushed(tuple(writes))

    def _project(self, project: int, results: Results, dry_run: bool) -> Iterator[Write]:
        told = self.server.project(project)
        yield self._describe(project, told, line(results.report.dimensions), dry_run)
        wanted = self._wanted(project, results) if self.shows(project) else {}
        before = _written(project, results.written)
        yield from self._columns(project, wanted, before, dry_run)
        if self.shows(project):
            yield from self._tab(project, sorted({c for values in wanted.values() for c in values} | {COUNT}), dry_run)
        elif f"project/{project}/tab" in results.written:
            yield from self._no_tab(project, results.written, dry_run)
            if not dry_run:
                self._forget(project)

    # -- the line

    def _describe(self, project: int, told: Mapping[str, Any], wanted: str | None, dry_run: bool) -> Write:
        target, before = f"project/{project}/description", str(told.get("description") or "")
        after = described(before, wanted)
        if after == before:
            return Write(target, wanted or "", "unchanged")
        if dry_run:
            return Write(target, wanted or "", "planned", wanted or "removed")
        answer = self.server.write("PATCH", f"/api/projects/{project}/", {"description": after})
        stored = answer.get("description") if isinstance(answer, dict) else None
        if stored != after:
            return Write(target, wanted or "", "refused", "the server stored something else")
        return Write(target, wanted or "", "written", wanted or "removed")

    # -- columns

    def _wanted(self, project: int, results: Results) -> dict[int, Values]:
        """Task -> column -> value, for the tasks of items with at least one pair. Agreements have two decimals, so that
        few different values make few writes."""
        if results.items.is_empty():
            return {}
        known = results.known(Scope(jobs=(str(project),)))
        tasks = known.select("item", "task").drop_nulls().unique()
        names = columns(d.name for d in results.report.dimensions)
        rows = results.items.filter(pl.col("dimension").is_in(list(names))).join(tasks, on="item")
        found: dict[int, Values] = {}
        for task, dimension, agreement, disagree in rows.select(
            "task", "dimension", "agreement", "disagree"
        ).iter_rows():
            if not task.isdigit():
                continue
            values = found.setdefault(int(task), {COUNT: 0.0})
            values[names[dimension]] = floor(round(agreement * 100, 9) + 0.5) / 100
            values[COUNT] += bool(disagree)
        return found

    def _columns(
        self, project: int, wanted: Mapping[int, Values], before: Mapping[int, Values], dry_run: bool
    ) -> Iterator[Write]:
        groups: dict[tuple[str, float], list[int]] = {}
        emptied: dict[int, Values] = {}
        changed: list[int] = []
        for task in sorted(wanted.keys() | before.keys()):
            new, old = wanted.get(task, {}), before.get(task, {})
            target, digest = f"project/{project}/task/{task}", _digest(new)
            if new == old:
                if new:
                    yield Write(target, digest, "unchanged")
                continue
            if dry_run:
                yield Write(target, digest, "planned", digest or "removed")
                continue
            changed.append(task)
            if old.keys() - new.keys():
                emptied[task] = new
                continue
            for name in new:
                if old.get(name) != new[name]:
                    groups.setdefault((name, new[name]), []).append(task)
        failed: dict[int, str] = {}
        for (name, value), ids in sorted(groups.items()):
            for start in range(0, len(ids), CHUNK):
                failed |= self._set(project, name, value, ids[start : start + CHUNK])
        for task, values in emptied.items():
            failed |= self._merge(task, values)
        if changed and not failed:
            failed |= self._read_back(project, wanted, [ids[0] for ids in groups.values()])
        for task in changed:
            digest = _digest(wanted.get(task, {}))
            outcome = "refused" if task in failed else "written"
            yield Write(f"project/{project}/task/{task}", digest, outcome, failed.get(task, digest or "removed"))

    def _set(self, project: int, name: str, value: float, ids: list[int]) -> dict[int, str]:
        """Set one column of many tasks to one value, on the server's side: no clock moves and no webhook fires."""
        body = {
            "selectedItems": {"all": False, "included": ids},
            "value_name": name,
            "value_type": "Number",
            "value": value,
        }
        try:
            self.server.write("POST", "/api/dm/actions/", body, {"id": "add_data_field", "project": project})
        except (Refused, Broken) as error:
            # Older and other servers have no such action. There a task's data is read, merged and written whole.
            if not (isinstance(error, Refused) and error.status in (404, 405)) and "registered actions" not in str(
                error
            ):
                return dict.fromkeys(ids, str(error))
            failed: dict[int, str] = {}
            for task in ids:
                failed |= self._merge(task, {name: value}, keep=True)
            return failed
        except ConnectorError as error:
            return dict.fromkeys(ids, str(error))
        return {}

    def _merge(self, task: int, values: Values, keep: bool = False) -> dict[int, str]:
        """Give a task exactly these columns of ours (with ``keep``: these too), and leave the rest of its data alone."""
        path = f"/api/tasks/{task}/"
        try:
            data = self.server.get(path, {"include": "id,data", "resolve_uri": "false"}).get("data")
            if not isinstance(data, dict):
                return {task: "its data is no object"}
            kept = {k: v for k, v in data.items() if keep or not k.startswith(OURS)}
            if kept | values != data:
                self.server.write("PATCH", path, {"data": kept | values})
        except Refused as refusal:
            return {} if refusal.status == 404 and not values else {task: str(refusal)}
        except ConnectorError as error:
            return {task: str(error)}
        return {}

    def _forget(self, project: int) -> None:
        """Have the project count its columns anew, where it still names some of ours although no task has them."""
        try:
            told = self.server.get("/api/dm/columns", {"project": project})
            if any(str(c.get("id")).startswith(OURS) for c in told.get("columns", ())):
                self.server.write("POST", f"/api/projects/{project}/summary/reset/")
        except ConnectorError as error:
            log.info("project %s keeps the names of removed columns: %s", project, error)

    def _read_back(self, project: int, wanted: Mapping[int, Values], sample: list[int]) -> dict[int, str]:
        failed = {}
        for page in Tasks(self.server, project).by_id(sorted(set(sample)), include="id,data"):
            for task in page.tasks:
                data = task.get("data")
                stored = {k: v for k, v in data.items() if k.startswith(OURS)} if isinstance(data, dict) else {}
                if any(stored.get(name) != value for name, value in wanted[task["id"]].items()):
                    failed[task["id"]] = "the server took it and does not show it"
        return failed

    # -- the tab

    def _views(self, project: int) -> list[dict[str, Any]]:
        views = self.server.get("/api/dm/views/", {"project": project})
        return [v for v in views if isinstance(v, dict) and isinstance(v.get("data"), dict)]

    def _ours(self, views: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        return next((v for v in views if f"data.{COUNT}" in json.dumps(v["data"].get("filters"))), None)

    def _tab(self, project: int, names: Sequence[str], dry_run: bool) -> Iterator[Write]:
        views, target = self._views(project), f"project/{project}/tab"
        ours = self._ours(views)
        titles = {v["data"].get("title") for v in views if v is not ours}
        shown = [f"tasks:data.{name}" for name in names]
        data: dict[str, Any] = {
            "title": OTHER_TITLE if TITLE in titles else TITLE,
            "type": "list",
            "target": "tasks",
            "filters": {
                "conjunction": "and",
                "items": [
                    {"filter": f"filter:tasks:data.{COUNT}", "operator": "greater", "type": "Number", "value": 0}
                ],
            },
            "ordering": [f"-tasks:data.{COUNT}"],
            "columnsDisplayType": dict.fromkeys(shown, "Number"),
        }
        digest = _digest(data)
        old: dict[str, Any] = ours["data"] if ours else {}
        hidden = old.get("hiddenColumns") or self._hidden(project)
        labelling = [*hidden.get("labeling", ()), *(c for c in shown if c not in hidden.get("labeling", ()))]
        merged = {
            **old,
            **data,
            "columnsDisplayType": {**(old.get("columnsDisplayType") or {}), **data["columnsDisplayType"]},
            "hiddenColumns": {**hidden, "labeling": labelling},
        }
        if merged == old:
            yield Write(target, digest, "unchanged")
            return
        if not views:  # else ours would be the only one, and the one that opens
            if not dry_run:
                self.server.write("POST", "/api/dm/views/", {"project": project, "data": {"title": "Default"}})
            usual = "the usual tab, which the project does not have yet"
            yield Write(f"project/{project}/default-tab", "Default", "planned" if dry_run else "written", usual)
        if dry_run:
            yield Write(target, digest, "planned", data["title"])
            return
        if ours is None:
            self.server.write("POST", "/api/dm/views/", {"project": project, "data": merged})
        else:
            self.server.write("PATCH", f"/api/dm/views/{ours['id']}/", {"data": merged})
        stored = self._ours(self._views(project))
        right = stored is not None and all(stored["data"].get(k) == v for k, v in merged.items())
        yield Write(
            target,
            digest,
            "written" if right else "refused",
            data["title"] if right else "the server stored something else",
        )

    def _hidden(self, project: int) -> dict[str, list[str]]:
        """What Label Studio hides by itself; a tab that hides anything must say all of it."""
        told = self.server.get("/api/dm/columns", {"project": project})
        hidden: dict[str, list[str]] = {"explore": [], "labeling": []}
        for one in told.get("columns", ()):
            name = f"tasks:{one['parent']}.{one['id']}" if one.get("parent") else f"tasks:{one['id']}"
            for place, visible in (one.get("visibility_defaults") or {}).items():
                if not visible and not one["id"].startswith(OURS):
                    hidden.setdefault(place, []).append(name)
        return hidden

    def _no_tab(self, project: int, written: Mapping[str, str], dry_run: bool) -> Iterator[Write]:
        views, target = self._views(project), f"project/{project}/tab"
        ours = self._ours(views)
        if dry_run:
            if ours is not None:
                yield Write(target, "", "planned", "removed")
            return
        if ours is not None:
            self.server.write("DELETE", f"/api/dm/views/{ours['id']}/")
        if ours is not None or target in written:
            yield Write(target, "", "written" if ours else "unchanged", "removed")
        target = f"project/{project}/default-tab"
        if target in written:
            untouched = next((v for v in views if v["data"] == {"title": "Default"}), None)
            if untouched is not None:
                self.server.write("DELETE", f"/api/dm/views/{untouched['id']}/")
            yield Write(
                target,
                "",
                "written" if untouched else "unchanged",
                "removed" if untouched else "kept: it was changed since",
            )

    # -- all of it away again

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        writes: list[Write] = []
        named = {int(t.split("/")[1]) for t in written if re.match(r"project/\d+/", t)}
        for project in sorted(named | set(self.projects)):
            own = {t: d for t, d in written.items() if t.startswith(f"project/{project}/")}
            try:
                writes += self._clean(project, own)
            except Refused as refusal:
                if refusal.status != 404:
                    writes.append(Write(f"project/{project}", "", "refused", str(refusal)))
                    continue
                writes += [Write(target, "", "unchanged", "the project is not there any more") for target in own]
            except ConnectorError as error:
                writes.append(Write(f"project/{project}", "", "refused", str(error)))
        return Pushed(tuple(writes))

    def _clean(self, project: int, written: Mapping[str, str]) -> Iterator[Write]:
        told = self.server.project(project)
        line_there = self._describe(project, told, None, False)
        if line_there.outcome != "unchanged" or line_there.target in written:
            yield line_there
        yield from self._no_tab(project, written, False)
        left = {t for t in written if "/task/" in t}
        for page in Tasks(self.server, project).data():
            for task in page.tasks:
                data, target = task.get("data"), f"project/{project}/task/{task['id']}"
                if not isinstance(data, dict) or not any(key.startswith(OURS) for key in data):
                    continue
                failed = self._merge(task["id"], {})
                left.discard(target)
                yield Write(target, "", "refused" if failed else "written", failed.get(task["id"], "removed"))
            for number in page.poisoned:
                left.discard(f"project/{project}/task/{number}")
                yield Write(f"project/{project}/task/{number}", "", "refused", "the server cannot give this task (500)")
        self._forget(project)
        for target in sorted(left):
            yield Write(target, "", "unchanged", "nothing of ours is there any more")


def _digest(values: Mapping[str, Any]) -> str:
    """What was written, as text that says it; empty for nothing."""
    return json.dumps(values, sort_keys=True, separators=(",", ":")) if values else ""


def _written(project: int, written: Mapping[str, str]) -> dict[int, Values]:
    """The columns that earlier pushes left on the tasks of a project."""
    found: dict[int, Values] = {}
    prefix = f"project/{project}/task/"
    for target, digest in written.items():
        if target.startswith(prefix) and digest:
            try:
                found[int(target.removeprefix(prefix))] = json.loads(digest)
            except ValueError:
                continue
    return found
