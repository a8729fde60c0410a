"""What a Langfuse server is and can do: its version, how its scores are read and written, its project, its runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from calibrate_langfuse.client import Langfuse, NotOffered, log
from calibrate_langfuse.listing import Mode, iso
from calibrate_plugin.connector import Unavailable

#: From this version on POST /scores takes a list of scores with their times, and only that.
LIST_POST = (4, 59)
#: Where Langfuse keeps the traces of its own judges' executions.
JUDGES = "langfuse-llm-as-a-judge"


@dataclass(frozen=True, slots=True)
class Project:
    """The project of the key. ``retention`` is how many days it keeps its data, None for ever."""

    id: str
    name: str
    retention: int | None


@dataclass(frozen=True, slots=True)
class Abilities:
    """``mode`` is the newest way to read scores, ``version`` empty where the server does not say it."""

    version: str
    mode: Mode

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(n) for n in re.findall(r"\d+", self.version)[:3])

    @property
    def list_post(self) -> bool:
        return self.number >= LIST_POST


def abilities(server: Langfuse) -> Abilities:
    """Ask the server what it is. Raises Unavailable where nothing there reads scores with this key."""
    try:
        health = server.get("/health")
    except NotOffered:
        health = None
    version = health.get("version") if isinstance(health, dict) else None
    refusals: list[str] = []
    ways: tuple[tuple[Mode, str, dict[str, str | int]], ...] = (
        ("v3", "/v3/scores", {"limit": 1}),
        ("v2", "/v2/scores", {"limit": 1, "fields": "score"}),
        ("v1", "/scores", {"limit": 1}),
    )
    for mode, path, params in ways:
        try:
            server.get(path, params)
        except NotOffered as error:
            refusals.append(str(error))
            continue
        return Abilities(str(version or ""), mode)
    raise Unavailable(f"{server.url}: no way to read scores: {'; '.join(refusals)}")


def project(server: Langfuse) -> Project:
    """The project of the key."""
    body = server.get("/projects")
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict) or not rows[0].get("id"):
        raise Unavailable(
            f"{server.url}: the key is not of one project; give a project's own key (Project settings, API keys)"
        )
    days = rows[0].get("retentionDays")
    return Project(
        str(rows[0]["id"]), str(rows[0].get("name") or ""), days if isinstance(days, int) and days > 0 else None
    )


@dataclass(slots=True)
class Runs:
    """The evaluation runs of a project (experiments, dataset runs): which traces and observations are their items.

    ``listed`` holds the runs there are; ``failed`` those whose metadata says so in the words that the study declares, as
    Langfuse itself knows no state of a run.
    """

    of: dict[str, str] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    kind: str = "none"  # experiments, dataset runs, none
    exists: Callable[[Collection[str]], set[str]] = set

    confirmed: set[str] = field(default_factory=set)  # not listed, and there when asked for
    gone: set[str] = field(default_factory=set)

    def deleted(self, known: Collection[str]) -> set[str]:
        """Those of ``known`` that are no runs any more: neither listed nor there when asked for."""
        if self.kind == "none":
            return set()
        doubtful = set(known) - self.listed - self.confirmed - self.gone
        if doubtful:
            there = self.exists(doubtful)
            self.confirmed |= there
            self.gone |= doubtful - there
        return self.gone & set(known)


def runs(server: Langfuse, start: int | None, failed: Mapping[str, Collection[str]]) -> Runs:
    """The runs with items since ``start`` (milliseconds; None: all), by whichever API the server has."""
    try:
        return _experiments(server, start, failed)
    except NotOffered:
        pass
    try:
        return _dataset_runs(server, start, failed)
    except NotOffered as error:
        log.info("runs are not known: %s", error)
        return Runs()


def _experiments(server: Langfuse, start: int | None, failed: Mapping[str, Collection[str]]) -> Runs:
    found = Runs(kind="experiments")
    since = iso(start if start is not None else 0)
    for run in server.cursor_pages("/experiments", {"fromStartTime": since, "fields": "core,metadata"}):
        _note(found, run, failed)
    if found.listed:
        for item in server.cursor_pages("/experiment-items", {"fromStartTime": since, "fields": "core"}):
            run_id = item.get("experimentId")
            if run_id:
                for key in (item.get("traceId"), item.get("id")):
                    if key:
                        found.of.setdefault(str(key), str(run_id))

    def exists(ids: Collection[str]) -> set[str]:
        there: set[str] = set()
        asked = sorted(id_ for id_ in ids if "," not in id_)
        for i in range(0, len(asked), 50):
            params = {"fromStartTime": iso(0), "fields": "core", "id": ",".join(asked[i : i + 50])}
            there |= {str(run.get("id")) for run in server.cursor_pages("/experiments", params)}
        return there | {id_ for id_ in ids if "," in id_}

    found.exists = exists
    return found


def _dataset_runs(server: Langfuse, start: int | None, failed: Mapping[str, Collection[str]]) -> Runs:
    found = Runs(kind="dataset runs")

    def listed() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [
            (dataset, run)
            for dataset in server.pages("/v2/datasets")
            for run in server.pages(f"/datasets/{quote(str(dataset.get('name')), safe='')}/runs")
        ]

    for dataset, run in listed():
        _note(found, run, failed)
        if start is not None and str(run.get("updatedAt") or run.get("createdAt") or "") < iso(start):
            continue
        params = {"datasetId": str(dataset.get("id")), "runName": str(run.get("name"))}
        try:
            items = list(server.pages("/dataset-run-items", params))
        except NotOffered:
            whole = server.get(
                f"/datasets/{quote(str(dataset.get('name')), safe='')}/runs/{quote(str(run.get('name')), safe='')}"
            )
            items = whole.get("datasetRunItems") or [] if isinstance(whole, dict) else []
        for item in items:
            # An observation of a shared trace is the closer key, so a trace in two runs keeps the newer one, listed first.
            for key in (item.get("observationId"), item.get("traceId")):
                if key:
                    found.of.setdefault(str(key), str(run.get("id")))
    found.exists = lambda ids: {str(run.get("id")) for _, run in listed()} & set(ids)
    return found


def _note(found: Runs, run: Mapping[str, Any], failed: Mapping[str, Collection[str]]) -> None:
    id_ = str(run.get("id"))
    found.listed.add(id_)
    metadata = run.get("metadata")
    if isinstance(metadata, dict) and any(str(metadata.get(key)) in values for key, values in failed.items()):
        found.failed.add(id_)


def models(server: Langfuse, start: int | None) -> dict[str, str]:
    """The model that answered in each execution of a judge of Langfuse's own since ``start`` (milliseconds; None: all), by
    the trace of the execution. Where it asked several times, the last answer counts."""
    found: dict[str, tuple[str, str]] = {}
    params: dict[str, str | int] = {"environment": JUDGES, "type": "GENERATION", "fromStartTime": iso(start or 0)}

    def note(row: Mapping[str, Any], model: Any) -> None:
        if model:
            trace, told = str(row.get("traceId")), (str(row.get("startTime")), str(model))
            found[trace] = max(found.get(trace, told), told)

    try:
        for row in server.cursor_pages("/v2/observations", {**params, "fields": "core,model", "limit": 1000}):
            note(row, row.get("providedModelName"))
    except NotOffered:
        try:
            for row in server.pages("/observations", params):
                note(row, row.get("model"))
        except NotOffered as error:
            log.info("models of judges are not known: %s", error)
    return {trace: model for trace, (_, model) in found.items()}


def execution_trace(execution: str) -> str:
    """The trace of a judge's execution: Langfuse derives it from the execution's id."""
    return hashlib.sha256(execution.encode("utf-8", "surrogatepass")).hexdigest()[:32]
