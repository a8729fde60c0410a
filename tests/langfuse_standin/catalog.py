"""Score configs, annotation queues, datasets with their runs, evaluators: what is kept in Postgres."""

from __future__ import annotations

import hashlib
from typing import Any

from . import checks, reads
from .checks import Issue, expected, invalid, not_found, wrong
from .clock import iso
from .project import new_id, parsed
from .routes import Call, route

CONFIG_TYPES = ("NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT")
OBJECT_TYPES = ("TRACE", "OBSERVATION", "SESSION")


def paged(
    call: Call, rows: list[dict[str, Any]], *, strict: tuple[str, ...] | None = None, issues: list[Issue] | None = None
) -> dict[str, Any]:
    """A page of what was made last first. ``strict``: the parameters there are beside page and limit."""
    issues = issues if issues is not None else []
    page = checks.number_param(call.query, "page", 1, issues, zero=True)
    limit = checks.number_param(call.query, "limit", 50, issues, top=100, zero=False)
    if strict is not None and (unknown := [key for key in call.query if key not in ("page", "limit", *strict)]):
        issues.append(checks.unrecognized(unknown))
    if issues:
        raise invalid(issues)
    newest = rows[::-1]
    return {
        "data": newest[(page - 1) * limit : page * limit],
        "meta": {"page": page, "limit": limit, "totalItems": len(rows), "totalPages": -(-len(rows) // limit)},
    }


def body_of(call: Call) -> dict[str, Any]:
    body: Any = call.json()
    if not isinstance(body, dict):
        raise invalid([expected("object", body, [])])
    return body


def wants_text(body: dict[str, Any], *names: str) -> list[Issue]:
    return [
        expected("string", body.get(name), [name], missing=name not in body)
        for name in names
        if not isinstance(body.get(name), str)
    ]


def _now(call: Call) -> str:
    return iso(call.here.clock.ms())


def _one(rows: list[dict[str, Any]], message: str, **keys: str) -> dict[str, Any]:
    for row in reversed(rows):
        if all(row[key] == value for key, value in keys.items()):
            return row
    raise not_found(message)


# score configs


@route("GET", "/score-configs")
def configs(call: Call) -> tuple[int, Any]:
    return 200, paged(call, call.here.state.configs)


@route("GET", "/score-configs/{id}")
def config(call: Call) -> tuple[int, Any]:
    return 200, _config(call)


def _config(call: Call) -> dict[str, Any]:
    return _one(call.here.state.configs, "Score config not found within authorized project", id=call.arguments[0])


@route("POST", "/score-configs")
def post_config(call: Call) -> tuple[int, Any]:
    body = body_of(call)
    issues = wants_text(body, "name")
    if body.get("dataType") not in CONFIG_TYPES:
        issues.append(checks.one_of(CONFIG_TYPES, ["dataType"]))
    elif body["dataType"] == "CATEGORICAL" and not isinstance(body.get("categories"), list):
        issues.append(_no_categories(body.get("categories"), missing="categories" not in body))
    if issues:
        raise invalid(issues)
    options: dict[str, Any] = {key: body.get(key) for key in _CONFIG_OPTIONS}
    return 200, call.here.add_config(body["name"], body["dataType"], **options)


_CONFIG_OPTIONS = ("description", "minValue", "maxValue", "categories")


def _no_categories(value: Any, *, missing: bool) -> Issue:
    def union(*names: str) -> list[list[Issue]]:
        return [[expected(name, value, [], missing=missing)] for name in names]

    scalars = {
        "code": "invalid_union",
        "errors": union("string", "number", "boolean"),
        "path": [],
        "message": "Invalid input",
    }
    return {
        "code": "invalid_union",
        "errors": [*union("array", "record"), [scalars]],
        "path": ["categories"],
        "message": "Invalid input",
    }


@route("PATCH", "/score-configs/{id}")
def patch_config(call: Call) -> tuple[int, Any]:
    found, body = _config(call), body_of(call)
    found.update({key: body[key] for key in ("name", "isArchived", *_CONFIG_OPTIONS) if key in body})
    found["updatedAt"] = _now(call)
    return 200, found


# annotation queues


@route("GET", "/annotation-queues")
def queues(call: Call) -> tuple[int, Any]:
    return 200, paged(call, call.here.state.queues, strict=())


@route("POST", "/annotation-queues")
def post_queue(call: Call) -> tuple[int, Any]:
    body, project = body_of(call), call.here
    issues = wants_text(body, "name")
    wanted: Any = body.get("scoreConfigIds")
    if not isinstance(wanted, list):
        issues.append(expected("array", wanted, ["scoreConfigIds"], missing="scoreConfigIds" not in body))
    elif not wanted:
        issues.append(
            {
                "origin": "array",
                "code": "too_small",
                "minimum": 1,
                "inclusive": True,
                "path": ["scoreConfigIds"],
                "message": "Too small: expected array to have >=1 items",
            }
        )
    if issues:
        raise invalid(issues)
    if any(queue["name"] == body["name"] for queue in project.state.queues):
        raise wrong("A queue with this name already exists.")
    if any(project.config(one) is None for one in wanted):
        raise wrong("At least one of the score config IDs cannot be found for the given project.")
    return 200, project.add_queue(body["name"], wanted, description=body.get("description"))


def _queue(call: Call) -> dict[str, Any]:
    return _one(call.here.state.queues, "Annotation queue not found", id=call.arguments[0])


@route("GET", "/annotation-queues/{id}")
def queue(call: Call) -> tuple[int, Any]:
    return 200, _queue(call)


@route("GET", "/annotation-queues/{id}/items")
def queue_items(call: Call) -> tuple[int, Any]:
    found, issues = _queue(call), []
    status = reads.last(call.query, "status")
    if status is not None and status not in ("PENDING", "COMPLETED"):
        issues.append(checks.one_of(("PENDING", "COMPLETED"), ["status"]))
    items = [one for one in call.here.state.queue_items if one["queueId"] == found["id"]]
    return 200, paged(
        call, [one for one in items if status in (None, one["status"])], strict=("status",), issues=issues
    )


@route("POST", "/annotation-queues/{id}/items")
def post_queue_item(call: Call) -> tuple[int, Any]:
    body = body_of(call)
    issues = wants_text(body, "objectId")
    if body.get("objectType") not in OBJECT_TYPES:
        issues.append(checks.one_of(OBJECT_TYPES, ["objectType"]))
    if issues:
        raise invalid(issues)
    return 200, call.here.add_queue_item(
        _queue(call)["id"], body["objectId"], body["objectType"], status=body.get("status") or "PENDING"
    )


def _item(call: Call) -> dict[str, Any]:
    return _one(
        call.here.state.queue_items,
        "Annotation queue item not found",
        queueId=call.arguments[0],
        id=call.arguments[1],
    )


@route("GET", "/annotation-queues/{id}/items/{item}")
def queue_item(call: Call) -> tuple[int, Any]:
    return 200, _item(call)


@route("PATCH", "/annotation-queues/{id}/items/{item}")
def patch_queue_item(call: Call) -> tuple[int, Any]:
    found, body, now = _item(call), body_of(call), _now(call)
    if body.get("status") not in (None, "PENDING", "COMPLETED"):
        raise invalid([checks.one_of(("PENDING", "COMPLETED"), ["status"])])
    if status := body.get("status"):
        found |= {"status": status, "completedAt": now if status == "COMPLETED" else None, "updatedAt": now}
    return 200, found


@route("DELETE", "/annotation-queues/{id}/items/{item}")
def delete_queue_item(call: Call) -> tuple[int, Any]:
    call.here.state.queue_items.remove(_item(call))
    return 200, {"success": True, "message": "Annotation queue item deleted successfully"}


# datasets


def _dataset(call: Call, name: str) -> dict[str, Any]:
    return _one(call.here.state.datasets, "Dataset not found", name=name)


@route("GET", "/v2/datasets")
def datasets(call: Call) -> tuple[int, Any]:
    return 200, paged(call, call.here.state.datasets)


@route("POST", "/v2/datasets")
def post_dataset(call: Call) -> tuple[int, Any]:
    body = body_of(call)
    if issues := wants_text(body, "name"):
        raise invalid(issues)
    now, state = _now(call), call.here.state
    found = next((one for one in state.datasets if one["name"] == body["name"]), None)
    if found is None:
        found = {
            "id": new_id(),
            "projectId": call.here.id,
            "name": body["name"],
            "description": None,
            "metadata": None,
            "inputSchema": None,
            "expectedOutputSchema": None,
            "createdAt": now,
        }
        state.datasets.append(found)
    found |= {key: body[key] for key in ("description", "metadata") if key in body} | {"updatedAt": now}
    return 200, found


@route("GET", "/v2/datasets/{name}")
def dataset(call: Call) -> tuple[int, Any]:
    return 200, _dataset(call, call.arguments[0])


@route("POST", "/dataset-items")
def post_dataset_item(call: Call) -> tuple[int, Any]:
    body = body_of(call)
    if issues := wants_text(body, "datasetName"):
        raise invalid(issues)
    found, now, state = _dataset(call, body["datasetName"]), _now(call), call.here.state
    item = next((one for one in state.dataset_items if one["id"] == body.get("id")), None)
    if item is None:
        item = {"id": body.get("id") or new_id(), "createdAt": now}
        state.dataset_items.append(item)
    item |= {
        "datasetId": found["id"],
        "datasetName": found["name"],
        "status": body.get("status") or "ACTIVE",
        "sourceTraceId": body.get("sourceTraceId"),
        "sourceObservationId": body.get("sourceObservationId"),
        "input": parsed(body.get("input")),
        "expectedOutput": parsed(body.get("expectedOutput")),
        "metadata": parsed(body.get("metadata")),
        "mediaReferences": [],
        "updatedAt": now,
    }
    return 200, item


@route("GET", "/dataset-items")
def dataset_items(call: Call) -> tuple[int, Any]:
    rows, name = call.here.state.dataset_items, reads.last(call.query, "datasetName")
    if name is not None:
        found = _dataset(call, name)
        rows = [one for one in rows if one["datasetId"] == found["id"]]
    for key in ("sourceTraceId", "sourceObservationId"):
        if value := reads.last(call.query, key):
            rows = [one for one in rows if one[key] == value]
    return 200, paged(call, rows)


@route("GET", "/dataset-items/{id}")
def dataset_item(call: Call) -> tuple[int, Any]:
    return 200, _one(call.here.state.dataset_items, "Dataset item not found", id=call.arguments[0])


@route("POST", "/dataset-run-items")
def post_run_item(call: Call) -> tuple[int, Any]:
    body, state, now = body_of(call), call.here.state, _now(call)
    if issues := wants_text(body, "runName", "datasetItemId"):
        raise invalid(issues)
    if body.get("traceId") is None and body.get("observationId") is None:
        message = "observationId or traceId must be provided"
        raise invalid([checks.custom(message, ["observationId", "traceId"])])
    item = _one(state.dataset_items, "Dataset item not found", id=body["datasetItemId"])
    trace = body.get("traceId") or state.observations.get(body["observationId"], {}).get("traceId")
    stored = {
        "id": new_id(),
        "datasetRunName": body["runName"],
        "datasetItemId": item["id"],
        "traceId": trace,
        "observationId": body.get("observationId"),
        "createdAt": now,
        "updatedAt": now,
    }
    if call.server.dialect.events_only:  # answered like a stored one, and kept nowhere
        return 200, {**stored, "datasetRunId": run_id(item["datasetId"], body["runName"])}
    run = next((r for r in state.runs if (r["datasetId"], r["name"]) == (item["datasetId"], body["runName"])), None)
    if run is None:
        run = {"id": new_id(), "name": body["runName"], "description": None, "metadata": {}, "createdAt": now}
        run |= {"datasetId": item["datasetId"], "datasetName": item["datasetName"], "updatedAt": now}
        state.runs.append(run)
    run["description"] = body.get("runDescription") or run["description"]
    run["metadata"] = body.get("metadata") or run["metadata"]
    stored["datasetRunId"] = run["id"]
    state.run_items.append(stored)
    return 200, stored


def run_id(dataset_id: str, name: str) -> str:
    """A default v4 makes the id out of dataset and name, so that it is the same for every item of a run."""
    return hashlib.sha256(f"{dataset_id}/{name}".encode()).hexdigest()[:16]


@route("GET", "/dataset-run-items", gone_in_events_only=True)
def run_items(call: Call) -> tuple[int, Any]:
    missing = [key for key in ("datasetId", "runName") if key not in call.query]
    issues = [expected("string", None, [key], missing=True) for key in missing]
    rows = [
        one
        for one in call.here.state.run_items
        for run in call.here.state.runs
        if one["datasetRunId"] == run["id"]
        and run["datasetId"] == reads.last(call.query, "datasetId")
        and run["name"] == reads.last(call.query, "runName")
    ]
    return 200, paged(call, rows, issues=issues)


@route("GET", "/datasets/{name}/runs", gone_in_events_only=True)
def runs(call: Call) -> tuple[int, Any]:
    found = _dataset(call, call.arguments[0])
    return 200, paged(call, [one for one in call.here.state.runs if one["datasetId"] == found["id"]])


def _run(call: Call) -> dict[str, Any]:
    name, run = call.arguments
    return _one(call.here.state.runs, "Dataset run not found", datasetName=name, name=run)


@route("GET", "/datasets/{name}/runs/{run}", gone_in_events_only=True)
def run(call: Call) -> tuple[int, Any]:
    found = _run(call)
    items = [one for one in call.here.state.run_items if one["datasetRunId"] == found["id"]]
    return 200, {**found, "datasetRunItems": items[::-1]}


@route("DELETE", "/datasets/{name}/runs/{run}", gone_in_events_only=True)
def delete_run(call: Call) -> tuple[int, Any]:
    found, state = _run(call), call.here.state
    state.runs.remove(found)
    state.run_items = [one for one in state.run_items if one["datasetRunId"] != found["id"]]
    return 200, {"message": "Dataset run successfully deleted"}


# evaluators


def by_cursor(call: Call, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Newest first by an opaque cursor."""
    issues: list[Issue] = []
    limit = checks.number_param(call.query, "limit", 50, issues, top=100, zero=False)
    if issues:
        raise invalid(issues)
    newest = rows[::-1]
    if raw := reads.last(call.query, "cursor"):
        last = checks.cursor_json(raw).get("lastId")
        places = [i for i, row in enumerate(newest) if row["id"] == last]
        if not places:
            raise wrong("Invalid cursor format")
        newest = newest[places[0] + 1 :]
    more = {"cursor": checks.cursor_text({"v": 1, "lastId": newest[limit - 1]["id"]})} if len(newest) > limit else {}
    return {"data": newest[:limit], "meta": {"limit": limit, **more}}


def _latest(evaluator: dict[str, Any]) -> dict[str, Any]:
    """An evaluator as it is shown: with its latest version."""
    shown = {key: value for key, value in evaluator.items() if key != "versions"}
    version = evaluator["versions"][-1]
    own = {"id": "versionId", "createdAt": "versionCreatedAt", "createdBy": "versionCreatedBy"}
    return shown | {own.get(key, key): value for key, value in version.items()}


def _evaluator(call: Call) -> dict[str, Any]:
    return _one(call.here.state.evaluators, "Evaluator not found", id=call.arguments[0])


@route("GET", "/v2/evaluators", exists=lambda dialect: dialect.evaluators == "v2")
def evaluators(call: Call) -> tuple[int, Any]:
    return 200, by_cursor(call, [_latest(one) for one in call.here.state.evaluators])


@route("GET", "/v2/evaluators/{id}", exists=lambda dialect: dialect.evaluators == "v2")
def evaluator(call: Call) -> tuple[int, Any]:
    return 200, _latest(_evaluator(call))


@route("GET", "/v2/evaluators/{id}/versions", exists=lambda dialect: dialect.evaluators == "v2")
def evaluator_versions(call: Call) -> tuple[int, Any]:
    return 200, by_cursor(call, _evaluator(call)["versions"])


@route("GET", "/unstable/evaluators", exists=lambda dialect: dialect.evaluators == "unstable")
def unstable_evaluators(call: Call) -> tuple[int, Any]:
    """The latest version only, and no id for it."""
    rows = [_latest(one) for one in call.here.state.evaluators]
    return 200, paged(call, [{k: v for k, v in one.items() if not k.startswith("version")} for one in rows])
