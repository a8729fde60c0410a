"""What an item is: what went into a trace or an observation and what came out, for people who are to judge it.

Nothing that a judge said is read: no scores, no comments, tags or metadata; and of the steps of a trace only those that fetch
what the answer was made from (by default retrievers and tools), none below an evaluator or a guardrail.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from calibrate_langfuse.client import Langfuse, NotOffered
from calibrate_plugin.connector import Content, SettingsError, SourceSettings

#: The steps of a trace that hold what an answer was made from.
CONTEXT = ("RETRIEVER", "TOOL")
#: Steps that judge; nothing at or below them is shown.
JUDGING = ("EVALUATOR", "GUARDRAIL")
#: What an item can belong to, and how Langfuse calls it.
GROUPS = {"session": "sessionId", "user": "userId"}
#: How many items are asked for ahead of the one that is taken.
AHEAD = 16


def context_of(settings: SourceSettings) -> tuple[str, ...]:
    """The types or names of the steps that are shown as context. Raises SettingsError."""
    given = settings.options.get("context", list(CONTEXT))
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise SettingsError(
            f'sources.{settings.name}.context is {given!r}; list types or names of observations, e.g. ["RETRIEVER", "search"]'
        )
    judging = [one for one in given if one.upper() in JUDGING]
    if judging:
        raise SettingsError(
            f"sources.{settings.name}.context names {judging[0]}, which is a judge's; people must not see what it said"
        )
    return tuple(given)


@dataclass(slots=True)
class Shown:
    """Shows the items of a project. ``level`` is what an item is, ``project`` the id for links."""

    server: Langfuse
    level: str
    context: tuple[str, ...] = CONTEXT
    project: str | None = None
    workers: int = 8
    _traces: bool | None = field(default=None, init=False)

    @property
    def traces(self) -> bool:
        """Whether this server has whole traces to give; in its newest mode Langfuse has observations only."""
        if self._traces is None:
            try:
                self.server.get("/traces", {"limit": 1, "fields": "core"})
                self._traces = True
            except NotOffered:
                self._traces = False
        return self._traces

    def contents(self, items: Sequence[str]) -> Iterator[Content]:
        """See ``connector.Contents``."""
        if self.level not in ("trace", "observation"):
            kind = {"session": "a whole session", "experiment": "a whole run"}[self.level]
            for item in items:
                yield Content(item, problem=f"it is {kind}, which no single form can show")
            return
        show = self._trace if self.level == "trace" else self._observation
        assert self.traces is not None  # asked before the threads are there
        with ThreadPoolExecutor(max(1, self.workers)) as pool:
            # Large traces must not pile up: only a few are asked for before the first is taken.
            waiting = [pool.submit(show, item) for item in items[:AHEAD]]
            for place in range(len(items)):
                found = waiting.pop(0).result()
                if place + AHEAD < len(items):
                    waiting.append(pool.submit(show, items[place + AHEAD]))
                yield found

    def _trace(self, item: str) -> Content:
        if self.traces:
            try:
                told = self.server.get(f"/traces/{quote(item, safe='')}", {"fields": "core,io,observations"})
            except NotOffered:
                told = None
            if isinstance(told, dict):
                steps = [s for s in told.get("observations") or () if isinstance(s, dict)]
                return self._made(item, told, steps, trace=item)
        try:
            steps = list(self.server.cursor_pages("/v2/observations", {"traceId": item, "fields": "core,basic,io"}))
        except NotOffered:
            steps = []
        if not steps:
            return Content(item, problem="Langfuse has no such trace any more, or never had it")
        # A guardrail that stands beside the rest begins before it, and what it says is no output.
        roots = [s for s in _unjudged(steps) if s.get("isRootObservation") or not s.get("parentObservationId")]
        if not roots:
            return Content(item, problem="its trace has no step that begins it and is no judge's")
        return self._made(item, min(roots, key=_began), steps, trace=item)

    def _observation(self, item: str) -> Content:
        told: Any = None
        if self.traces:
            try:
                told = self.server.get(f"/observations/{quote(item, safe='')}")
            except NotOffered:
                told = None
        if not isinstance(told, dict):
            wanted = [{"type": "string", "column": "id", "operator": "=", "value": item}]
            params: dict[str, str | int] = {"filter": json.dumps(wanted), "fields": "core,basic,io"}
            try:
                told = next(
                    (s for s in self.server.cursor_pages("/v2/observations", params) if s.get("id") == item), None
                )
            except NotOffered:
                told = None
        if not isinstance(told, dict):
            return Content(item, problem="Langfuse has no such observation any more, or never had it")
        return self._made(item, told, (), trace=str(told.get("traceId") or ""))

    def _made(self, item: str, of: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], *, trace: str) -> Content:
        context = [
            {"name": step.get("name") or step.get("type"), "output": read(step.get("output"))}
            for step in sorted(_unjudged(steps), key=_began)
            if self._wanted(step) and step is not of and step.get("output") is not None
        ]
        link = None
        if self.project and trace:
            link = f"{self.server.url}/project/{quote(self.project, safe='')}/traces/{quote(trace, safe='')}"
            if trace != item:
                link += f"?observation={quote(item, safe='')}"
        return Content(item, read(of.get("input")), read(of.get("output")), context or None, link)

    def _wanted(self, step: Mapping[str, Any]) -> bool:
        return (
            str(step.get("type") or "").upper() in {c.upper() for c in self.context} or step.get("name") in self.context
        )

    # -- what belongs together

    def groups(self, items: Collection[str], by: str) -> Mapping[str, str]:
        """See ``connector.Contents``."""
        if by not in GROUPS:
            raise SettingsError(f"Langfuse knows no group {by!r} of items; it has {' and '.join(GROUPS)}")
        if self.level not in ("trace", "observation"):
            return {}
        found: dict[str, str] = {}
        left = set(items)
        for row, id_ in self._listed():
            if id_ in left:
                left.discard(id_)
                if row.get(GROUPS[by]):
                    found[id_] = str(row[GROUPS[by]])
                if not left:
                    break
        return found

    def _listed(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Every item with what it belongs to, newest first, a hundred or a thousand to a request."""
        if self.traces and self.level == "trace":
            for row in self.server.pages("/traces", {"fields": "core"}):
                yield row, str(row.get("id"))
        elif self.traces:
            of = {str(row.get("id")): row for row in self.server.pages("/traces", {"fields": "core"})}
            for row in self.server.pages("/observations"):
                yield of.get(str(row.get("traceId")), {}), str(row.get("id"))
            return
        params: dict[str, str | int] = {"fields": "core,basic", "limit": 1000}
        if self.level == "trace":
            params["isRootObservation"] = "true"
        key = "traceId" if self.level == "trace" else "id"
        try:
            for row in self.server.cursor_pages("/v2/observations", params):
                yield row, str(row.get(key))
        except NotOffered:
            return


def read(value: Any) -> Any:
    """What an input or output is: some servers give it as JSON, some as the text of it."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _began(step: Mapping[str, Any]) -> str:
    return str(step.get("startTime") or "")


def _unjudged(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The steps that are no judge's: neither one nor below one."""
    by_id = {str(s.get("id")): s for s in steps}

    def judged(step: Mapping[str, Any]) -> bool:
        seen: set[str] = set()
        at: Mapping[str, Any] | None = step
        while at is not None and (id_ := str(at.get("id"))) not in seen:
            if str(at.get("type") or "").upper() in JUDGING:
                return True
            seen.add(id_)
            at = by_id.get(str(at.get("parentObservationId")))
        return False

    return [s for s in steps if not judged(s)]
