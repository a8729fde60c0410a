"""Lists of a project's tasks, as ``/api/tasks`` gives them.

Pages follow one another by task id, so that what is deleted or changed meanwhile moves nothing past us. A page that fails on
the server because of one task is asked for in halves, down to that task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from calibrate_label_studio.server import Broken, Server
from calibrate_plugin.connector import Unavailable

PAGE = 500
BATCH = 100  # ids in one address
HEAVY = 16 << 20  # bytes of a page; of larger tasks fewer are asked for at once


@dataclass(slots=True)
class TaskPage:
    """Some tasks in the order of their ids, and the ids of those that the server cannot give."""

    tasks: list[dict[str, Any]]
    poisoned: list[int] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        return [task["id"] for task in self.tasks]


def _filter(column: str, operator: str, kind: str, value: Any) -> dict[str, Any]:
    return {"filter": f"filter:tasks:{column}", "operator": operator, "type": kind, "value": value}


def wire_time(when: datetime) -> str:
    """A time as the filters of Label Studio want it; every other notation is answered with a 500."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Tasks:
    """The tasks of one project."""

    def __init__(self, server: Server, project: int) -> None:
        self.server, self.project = server, project

    def _ask(
        self, filters: Sequence[Any], size: int, *, ordering: str = "tasks:id", again: bool = True, **more: Any
    ) -> Any:
        query = {"filters": {"conjunction": "and", "items": list(filters)}, "ordering": [ordering]}
        params = {
            "project": self.project,
            "page_size": size,
            "resolve_uri": "false",  # data as the team wrote it, as in exports
            "query": json.dumps(query),
            **more,
        }
        answer = self.server.get("/api/tasks/", params, again=again)
        tasks = answer.get("tasks") if isinstance(answer, dict) else None
        total = answer.get("total") if isinstance(answer, dict) else None
        if not isinstance(tasks, list) or not isinstance(total, int):
            raise Unavailable(f"{self.server.url}/api/tasks/ gives no list of tasks for project {self.project}")
        if not all(isinstance(task, dict) and isinstance(task.get("id"), int) for task in tasks):
            raise Unavailable(f"{self.server.url}/api/tasks/ gives tasks without ids for project {self.project}")
        if total and not tasks:
            raise Unavailable(f"{self.server.url}/api/tasks/ gives none of {total} tasks of project {self.project}")
        return answer

    def newest(self) -> tuple[str | None, int]:
        """When a task was last changed, by the server's clock, and how many tasks there are."""
        answer = self._ask((), 1, ordering="-tasks:updated_at", include="id,updated_at")
        return (answer["tasks"][0].get("updated_at") if answer["tasks"] else None), answer["total"]

    def ids(self) -> set[int]:
        """The ids of all tasks, without anything that a broken one could spoil."""
        return {i for page in self._pages((), 1000, include="id") for i in page.ids}

    def whole(self) -> Iterator[TaskPage]:
        """All tasks with all that they hold."""
        return self._pages((), PAGE, fields="all")

    def changed(self, since: datetime | None) -> Iterator[TaskPage]:
        """The ids and times of the tasks changed at or after a time."""
        filters = [] if since is None else [_filter("updated_at", "greater_or_equal", "Datetime", wire_time(since))]
        return self._pages(filters, 1000, include="id,updated_at,created_at")

    def between(self, start: datetime, end: datetime) -> int:
        """How many tasks were last changed from ``start`` to ``end``, both included."""
        filters = [
            _filter("updated_at", "greater_or_equal", "Datetime", wire_time(start)),
            _filter("updated_at", "less_or_equal", "Datetime", wire_time(end)),
        ]
        return int(self._ask(filters, 1, include="id")["total"])

    def manifest(self, predictions: bool) -> Iterator[TaskPage]:
        """All tasks with the ids, times and people of their annotations, without what those say."""
        names = "id,updated_at,created_at,completed_by,annotations" + (
            ",predictions,model_version" if predictions else ""
        )
        return self._pages((), PAGE, fields="all", include=names)

    def data(self) -> Iterator[TaskPage]:
        """All tasks with their data alone."""
        return self._pages((), PAGE, include="id,data")

    def counted(self) -> Iterator[TaskPage]:
        """All tasks with their data and how many answers each has."""
        return self._pages((), PAGE, include="id,data,total_annotations,cancelled_annotations")

    def _pages(self, filters: Sequence[Any], size: int, **more: Any) -> Iterator[TaskPage]:
        last: int | None = None
        while True:
            received = self.server.received
            after = [] if last is None else [_filter("id", "greater", "Number", last)]
            try:
                answer = self._ask([*filters, *after], size, again=False, **more)
                page = TaskPage(answer["tasks"])
            except Broken:
                answer = self._ask([*filters, *after], size, include="id")
                page = TaskPage([])
                for part in self.by_id([task["id"] for task in answer["tasks"]], **more):
                    page.tasks += part.tasks
                    page.poisoned += part.poisoned
            listed = [task["id"] for task in answer["tasks"]]
            if listed and last is not None and min(listed) <= last:
                raise Unavailable(f"{self.server.url}/api/tasks/ repeats tasks of project {self.project}")
            yield page
            if len(listed) >= answer["total"]:
                return
            last = max(listed)
            weight = (self.server.received - received) / len(listed)
            size = max(1, min(size, int(HEAVY / weight)))

    def by_id(self, ids: Sequence[int], **more: Any) -> Iterator[TaskPage]:
        """The tasks with these ids, as far as they are there; with ``fields="all"`` whole."""
        for start in range(0, len(ids), BATCH):
            yield self._batch(list(ids[start : start + BATCH]), more)

    def _batch(self, ids: list[int], more: dict[str, Any]) -> TaskPage:
        try:
            answer = self._ask([_filter("id", "in_list", "Number", ids)], len(ids), again=len(ids) == 1, **more)
        except Broken:
            if len(ids) == 1:
                return TaskPage([], ids)
            half = len(ids) // 2
            first, second = self._batch(ids[:half], more), self._batch(ids[half:], more)
            return TaskPage(first.tasks + second.tasks, first.poisoned + second.poisoned)
        wanted = set(ids)
        return TaskPage([task for task in answer["tasks"] if task["id"] in wanted])
