"""Traces and observations, how they come in (OTLP, /ingestion), and the experiments that they make up.

An observation lies in the old tables (v1 reads), in the events table (v2 reads, experiments) or in both, by the server's
write mode and by the way it came.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import checks, reads
from .catalog import body_of, paged
from .checks import Issue, Refused, not_found, wrong
from .clock import iso, to_ms
from .project import ARRIVALS, Project, parsed
from .reads import Query, comma_list, last
from .routes import Call, route
from .table import Row, newest_per_id

HEX = "0123456789abcdef"


# OTLP


@route("POST", "/otel/v1/traces", resource="ingestion")
def otlp(call: Call) -> tuple[int, Any]:
    spans = list(_spans(call))
    quick = call.request.headers.get("x-langfuse-ingestion-version") == "4"
    call.here.take_spans(spans, quick=quick)
    return 200, {}


def _spans(call: Call) -> Iterator[dict[str, Any]]:
    body, headers = call.request.body, call.request.headers
    if headers.get("Content-Encoding", "").lower() == "gzip":
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError, zlib.error):
            raise wrong("Failed to decompress the request body") from None
    kind = headers.get("Content-Type", "").split(";")[0].strip()
    if kind == "application/x-protobuf":
        message = _from_protobuf(body)
    elif kind == "application/json":
        try:
            message = json.loads(body)
        except ValueError:
            raise wrong("Failed to parse OTel JSON Trace") from None
    else:
        raise wrong("Invalid content type")
    for resource in message.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                attributes = {one["key"]: _value(one.get("value", {})) for one in span.get("attributes", ())}
                yield {
                    "traceId": _hex(span["traceId"]),
                    "id": _hex(span["spanId"]),
                    "parentObservationId": _hex(span.get("parentSpanId") or "") or None,
                    "name": span.get("name", ""),
                    "start": int(span.get("startTimeUnixNano") or 0) // 1_000_000,
                    "end": int(span["endTimeUnixNano"]) // 1_000_000 if span.get("endTimeUnixNano") else None,
                    "attributes": attributes,
                }


def _from_protobuf(body: bytes) -> dict[str, Any]:
    try:
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise Refused(415, text="the stand-in needs opentelemetry-proto to read protobuf") from None
    message: dict[str, Any] = MessageToDict(ExportTraceServiceRequest.FromString(body))
    return message


def _hex(raw: str) -> str:
    """Ids are hex in OTLP JSON; protobuf's own JSON has them in base64."""
    if len(raw) in (0, 16, 32) and set(raw.lower()) <= set(HEX):
        return raw.lower()
    return base64.b64decode(raw).hex()


def _value(value: dict[str, Any]) -> Any:
    if "arrayValue" in value:
        return [_value(one) for one in value["arrayValue"].get("values", ())]
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


# what is made of it


def blank_trace(id: str, moment: int, now: int, project: str) -> dict[str, Any]:
    return {
        "id": id,
        "projectId": project,
        "name": None,
        "timestamp": moment,
        "environment": "default",
        "tags": [],
        "bookmarked": False,
        "release": None,
        "version": None,
        "userId": None,
        "sessionId": None,
        "public": False,
        "input": None,
        "output": None,
        "metadata": {},
        "createdAt": now // 1000 * 1000,
        "updatedAt": now,
    }


def blank_observation(id: str, trace: str, moment: int, now: int) -> dict[str, Any]:
    return {
        "id": id,
        "traceId": trace,
        "start": moment,
        "end": None,
        "parentObservationId": None,
        "type": "SPAN",
        "name": None,
        "level": "DEFAULT",
        "statusMessage": None,
        "version": None,
        "environment": "default",
        "input": None,
        "output": None,
        "metadata": {},
        "model": None,
        "modelParameters": None,
        "usageDetails": {},
        "costDetails": {},
        "userId": None,
        "sessionId": None,
        "root": True,
        "legacy": True,
        "events": True,
        "experiment": None,
        "createdAt": now,
        "updatedAt": now,
    }


def span_into(project: Project, span: dict[str, Any], now: int) -> None:
    """A span becomes an observation, and its trace what the span says of it."""
    given, mode = span["attributes"], project.dialect.write_mode
    observation = blank_observation(span["id"], span["traceId"], span["start"], now)
    environment = given.get("langfuse.environment") or given.get("deployment.environment") or "default"
    observation |= {key: span[key] for key in ("end", "parentObservationId", "name")}
    observation |= {
        "type": str(given.get("langfuse.observation.type") or "span").upper(),
        "level": given.get("langfuse.observation.level") or "DEFAULT",
        "statusMessage": given.get("langfuse.observation.status_message"),
        "version": given.get("langfuse.version"),
        "environment": environment,
        "input": given.get("langfuse.observation.input"),
        "output": given.get("langfuse.observation.output"),
        "metadata": _under(given, "langfuse.observation.metadata") | _under(given, "langfuse.trace.metadata"),
        "model": given.get("langfuse.observation.model.name") or given.get("gen_ai.request.model"),
        "modelParameters": parsed(given.get("langfuse.observation.model.parameters")),
        "usageDetails": parsed(given.get("langfuse.observation.usage_details")) or {},
        "costDetails": parsed(given.get("langfuse.observation.cost_details")) or {},
        "userId": given.get("user.id"),
        "sessionId": given.get("session.id"),
        "root": not span["parentObservationId"] or bool(given.get("langfuse.internal.as_root")),
        "legacy": mode != "events_only",
        "events": mode != "legacy",
    }
    if experiment := given.get("langfuse.experiment.id"):
        observation["experiment"] = {
            "id": experiment,
            "name": given.get("langfuse.experiment.name"),
            "description": given.get("langfuse.experiment.description") or "",
            "metadata": parsed(given.get("langfuse.experiment.metadata")) or {},
            "datasetId": given.get("langfuse.experiment.dataset.id"),
            "itemId": given.get("langfuse.experiment.item.id"),
            "itemVersion": given.get("langfuse.experiment.item.version"),
            "expectedOutput": given.get("langfuse.experiment.item.expected_output"),
            "itemMetadata": parsed(given.get("langfuse.experiment.item.metadata")) or {},
            "root": given.get("langfuse.experiment.item.root_observation_id") in (None, span["id"]),
        }
    project.state.table.generation += 1
    project.state.observations[span["id"]] = observation
    trace = project.state.traces.get(span["traceId"])
    if trace is None:
        trace = blank_trace(span["traceId"], span["start"], now, project.id)
    trace["timestamp"] = min(trace["timestamp"], span["start"])
    trace["environment"], trace["updatedAt"] = environment, now
    for key, name in (("userId", "user.id"), ("sessionId", "session.id"), ("release", "langfuse.release")):
        trace[key] = given.get(name) or trace[key]
    trace["tags"] = sorted({*trace["tags"], *(given.get("langfuse.trace.tags") or ())})
    trace["metadata"] |= _under(given, "langfuse.trace.metadata")
    if name := given.get("langfuse.trace.name") or (observation["root"] and span["name"]):
        trace["name"] = name
    for key in ("input", "output"):
        if (value := given.get(f"langfuse.trace.{key}")) is not None:
            trace[key] = value
        elif observation["root"] and observation[key] is not None:
            trace[key] = observation[key]
    project.state.traces[span["traceId"]] = trace
    if mode != "events_only":
        project.state.legacy_traces.add(span["traceId"])


def _under(given: dict[str, Any], prefix: str) -> dict[str, Any]:
    whole = parsed(given.get(prefix))
    found = dict(whole) if isinstance(whole, dict) else {}
    return found | {k.removeprefix(prefix + "."): parsed(v) for k, v in given.items() if k.startswith(prefix + ".")}


def event_into(project: Project, event: dict[str, Any], now: int) -> None:
    """A trace or observation event of /ingestion. It reaches the old tables only."""
    project.state.table.generation += 1
    body, kind = event["body"], event["type"]
    issues: list[Issue] = []
    moment = checks.zoned_time(body.get("timestamp") or body.get("startTime") or event["timestamp"], [], issues) or now
    if kind.startswith("trace"):
        trace = project.state.traces.get(body["id"]) or blank_trace(body["id"], moment, now, project.id)
        given = {key: body[key] for key in trace if body.get(key) is not None and key not in ("id", "timestamp")}
        trace |= given | {"updatedAt": now}
        trace["tags"] = sorted(trace["tags"])
        project.state.traces[body["id"]] = trace
        project.state.legacy_traces.add(body["id"])
        return
    found = project.state.observations.get(body["id"])
    observation = found or blank_observation(body["id"], body.get("traceId") or body["id"], moment, now)
    observation |= {key: body[key] for key in observation if body.get(key) is not None and key not in ("id", "traceId")}
    named = "type" in body and str(body["type"]).upper()
    observation["type"] = named or {"generation": "GENERATION", "event": "EVENT"}.get(kind.split("-")[0], "SPAN")
    observation["createdAt"] = observation["createdAt"] // 1000 * 1000
    if end := body.get("endTime"):
        observation["end"] = checks.zoned_time(end, [], issues)
    observation["events"] = bool(found and found["events"])
    project.state.observations[body["id"]] = observation


def add_trace(project: Project, id: str, *, legacy: bool | None = None, **fields: Any) -> dict[str, Any]:
    now = project.clock.ms()
    moment = to_ms(fields.pop("timestamp", now))
    trace = blank_trace(id, moment, now, project.id)
    _fill(trace, fields)
    trace["tags"] = sorted(trace["tags"])
    project.state.table.generation += 1
    project.state.traces[id] = trace
    if legacy if legacy is not None else not project.dialect.events_only:
        project.state.legacy_traces.add(id)
    return trace


def add_observation(project: Project, id: str, traceId: str, **fields: Any) -> dict[str, Any]:
    now, mode = project.clock.ms(), project.dialect.write_mode
    observation = blank_observation(id, traceId, to_ms(fields.pop("start", now)), now)
    observation |= {"legacy": mode != "events_only", "events": mode != "legacy"}
    if "end" in fields:
        fields["end"] = None if fields["end"] is None else to_ms(fields["end"])
    if experiment := fields.pop("experiment", None):
        fields["experiment"] = {
            "name": experiment["id"],
            "description": "",
            "metadata": {},
            "datasetId": None,
            "itemId": None,
            "itemVersion": None,
            "expectedOutput": None,
            "itemMetadata": {},
            "root": True,
            **experiment,
        }
    _fill(observation, fields)
    project.state.observations[id] = observation
    return observation


def _fill(blank: dict[str, Any], fields: dict[str, Any]) -> None:
    if unknown := set(fields) - set(blank):
        raise TypeError(f"there is no {unknown}; there are {sorted(blank)}")
    for key in ("createdAt", "updatedAt"):
        if key in fields:
            fields[key] = to_ms(fields[key])
    blank.update(fields)


ARRIVALS["span"] = span_into
ARRIVALS["event"] = event_into


# reading traces


def _observations(project: Project, trace: str) -> list[dict[str, Any]]:
    of_trace = [one for one in project.state.observations.values() if one["traceId"] == trace and one["legacy"]]
    return sorted(of_trace, key=lambda one: one["start"])


def _scores(project: Project, trace: str) -> list[Row]:
    rows = newest_per_id(project.state.table.versions(traces=[trace], keep=reads.visible_in_v1))
    return sorted(rows, key=lambda row: row.written, reverse=True)


def plain_trace(trace: dict[str, Any], groups: Iterable[str]) -> dict[str, Any]:
    shown = {
        **trace,
        "timestamp": iso(trace["timestamp"]),
        "createdAt": iso(trace["createdAt"]),
        "updatedAt": iso(trace["updatedAt"]),
        "externalId": None,
    }
    if "io" not in groups:
        return {**shown, "input": None, "output": None, "metadata": {}}
    return {**shown, "input": parsed(trace["input"]), "output": parsed(trace["output"])}


_GROUPS = ("core", "io", "scores", "observations", "metrics")


def _measures(project: Project, trace: str, groups: Iterable[str]) -> dict[str, Any]:
    if "metrics" not in groups:
        return {"latency": -1, "totalCost": -1}
    observations = _observations(project, trace)
    latency = 0.0
    if observations:
        ends = [one["end"] if one["end"] is not None else one["start"] for one in observations]
        latency = (max(ends) - min(one["start"] for one in observations)) / 1000
    cost = sum(one["costDetails"].get("total", 0) for one in observations)
    return {"latency": reads.plain(latency), "totalCost": reads.plain(cost)}


def _asked(query: Query) -> list[str]:
    return [one.strip() for one in (last(query, "fields") or ",".join(_GROUPS)).split(",")]


@route("GET", "/traces", gone_in_events_only=True)
def traces(call: Call) -> tuple[int, Any]:
    project, query = call.here, call.query
    issues: list[Issue] = []
    groups = _asked(query)
    times = {
        name: checks.zoned_time(query[name][-1], [name], issues)
        for name in ("fromTimestamp", "toTimestamp")
        if name in query
    }
    found = []
    for trace in project.state.traces.values():
        if trace["id"] not in project.state.legacy_traces or not set(query.get("tags", ())) <= set(trace["tags"]):
            continue
        if any(last(query, key) not in (None, trace[key]) for key in ("userId", "name", "sessionId", "version")):
            continue
        if "environment" in query and trace["environment"] not in query["environment"]:
            continue
        start, end = times.get("fromTimestamp"), times.get("toTimestamp")
        if (start is None or trace["timestamp"] >= start) and (end is None or trace["timestamp"] < end):
            found.append(trace)
    found.sort(key=lambda trace: trace["timestamp"])
    body = paged(call, found, issues=issues)
    body["data"] = [
        {
            **plain_trace(trace, groups),
            "observations": sorted(one["id"] for one in _observations(project, trace["id"]))
            if "observations" in groups
            else [],
            "scores": sorted(row.id for row in _scores(project, trace["id"])) if "scores" in groups else [],
            **_measures(project, trace["id"], groups),
            "htmlPath": f"/project/{project.id}/traces/{trace['id']}",
        }
        for trace in body["data"]
    ]
    return 200, body


@route("GET", "/traces/{id}", gone_in_events_only=True)
def trace(call: Call) -> tuple[int, Any]:
    project, name, groups = call.here, call.arguments[0], _asked(call.query)
    if name not in project.state.legacy_traces:
        raise not_found(f"Trace {name} not found within authorized project")
    scores = [reads.paged_row(project, row, v1=True) for row in _scores(project, name)]
    observations = [plain_observation(project, one) for one in _observations(project, name)]
    return 200, {
        **plain_trace(project.state.traces[name], groups),
        "scores": scores if "scores" in groups else [],
        "observations": observations if "observations" in groups else [],
        **_measures(project, name, groups),
        "htmlPath": f"/project/{project.id}/traces/{name}",
    }


@route("DELETE", "/traces/{id}")
def delete_trace(call: Call) -> tuple[int, Any]:
    call.here.delete_traces([call.arguments[0]])
    return 200, {"message": "Trace deleted successfully"}


@route("DELETE", "/traces")
def delete_traces(call: Call) -> tuple[int, Any]:
    body = body_of(call)
    wanted = body.get("traceIds")
    if not isinstance(wanted, list):
        raise checks.invalid([checks.expected("array", wanted, ["traceIds"], missing="traceIds" not in body)])
    call.here.delete_traces(wanted)
    return 200, {"message": "Traces deleted successfully"}


@route("GET", "/sessions", gone_in_events_only=True)
def sessions(call: Call) -> tuple[int, Any]:
    firsts: dict[str, dict[str, Any]] = {}
    for one in call.here.state.traces.values():
        if one["sessionId"] and one["id"] in call.here.state.legacy_traces:
            firsts.setdefault(one["sessionId"], one)
    rows = [_session(call.here, first) for first in firsts.values()]
    return 200, paged(call, rows)


def _session(project: Project, first: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": first["sessionId"],
        "createdAt": iso(first["createdAt"]),
        "projectId": project.id,
        "environment": first["environment"],
    }


@route("GET", "/sessions/{id}", gone_in_events_only=True)
def session(call: Call) -> tuple[int, Any]:
    state = call.here.state
    found = [one for one in state.traces.values() if one["sessionId"] == call.arguments[0]]
    found = [one for one in found if one["id"] in state.legacy_traces]
    if not found:
        raise not_found("Session not found within authorized project")
    found.sort(key=lambda one: one["timestamp"])
    return 200, {**_session(call.here, found[0]), "traces": [plain_trace(one, _GROUPS) for one in found[::-1]]}


# reading observations


def plain_observation(project: Project, one: dict[str, Any]) -> dict[str, Any]:
    """An observation as v1 shows it."""
    usage = {key: one["usageDetails"].get(key, 0) for key in ("input", "output", "total")}
    costs = one["costDetails"]
    return {
        **{key: one[key] for key in ("id", "traceId", "parentObservationId", "type", "environment", "name", "level")},
        "startTime": iso(one["start"]),
        "endTime": None if one["end"] is None else iso(one["end"]),
        "projectId": project.id,
        **{key: one[key] for key in ("statusMessage", "version", "metadata", "model")},
        "input": parsed(one["input"]),
        "output": parsed(one["output"]),
        "createdAt": iso(one["createdAt"]),
        "updatedAt": iso(one["updatedAt"]),
        "modelParameters": one["modelParameters"],
        "completionStartTime": None,
        **dict.fromkeys(("promptId", "promptName", "promptVersion", "usagePricingTierId", "usagePricingTierName")),
        "latency": None if one["end"] is None else reads.plain((one["end"] - one["start"]) / 1000),
        "timeToFirstToken": None,
        "usageDetails": one["usageDetails"],
        "costDetails": costs,
        **dict.fromkeys(("modelId", "inputPrice", "outputPrice", "totalPrice")),
        "calculatedInputCost": costs.get("input"),
        "calculatedOutputCost": costs.get("output"),
        "calculatedTotalCost": costs.get("total", 0),
        "unit": "TOKENS",
        "promptTokens": usage["input"],
        "completionTokens": usage["output"],
        "totalTokens": usage["total"],
        "usage": {"unit": "TOKENS", **usage},
    }


def _chosen(call: Call, table: str) -> list[dict[str, Any]]:
    query = call.query
    issues: list[Issue] = []
    times = {
        name: checks.zoned_time(query[name][-1], [name], issues)
        for name in ("fromStartTime", "toStartTime")
        if name in query
    }
    if issues:
        raise checks.invalid(issues)
    found = []
    # A structured filter takes the place of the parameters (openapi.yml, GET v2/observations); here only by id.
    asked_for = {
        one["column"]: one["value"] for one in json.loads(last(query, "filter") or "[]") if one["operator"] == "="
    }
    for one in call.here.state.observations.values():
        if any(one[column] != value for column, value in asked_for.items()):
            continue
        keys = ("traceId", "name", "type", "level", "parentObservationId", "userId", "sessionId", "version")
        if not one[table] or any(last(query, key) not in (None, one[key]) for key in keys):
            continue
        if "environment" in query and one["environment"] not in query["environment"]:
            continue
        if (root := last(query, "isRootObservation")) is not None and one["root"] != (root == "true"):
            continue
        start, end = times.get("fromStartTime"), times.get("toStartTime")
        if (start is None or one["start"] >= start) and (end is None or one["start"] < end):
            found.append(one)
    return sorted(found, key=lambda one: (one["start"], one["traceId"], one["id"]))


@route("GET", "/observations", gone_in_events_only=True)
def observations_v1(call: Call) -> tuple[int, Any]:
    body = paged(call, _chosen(call, "legacy"))
    return 200, {**body, "data": [plain_observation(call.here, one) for one in body["data"]]}


@route("GET", "/observations/{id}", gone_in_events_only=True)
def observation_v1(call: Call) -> tuple[int, Any]:
    found = call.here.state.observations.get(call.arguments[0])
    if found is None or not found["legacy"]:
        raise not_found("Observation not found within authorized project")
    return 200, plain_observation(call.here, found)


@route("GET", "/v2/observations", exists=lambda dialect: dialect.experiments)
def observations_v2(call: Call) -> tuple[int, Any]:
    _needs_v4(call, "observations v2")
    issues: list[Issue] = []
    limit = checks.number_param(call.query, "limit", 50, issues, top=1000, zero=False)
    if issues:
        raise checks.invalid(issues)
    rows = _chosen(call, "events")[::-1]
    if raw := last(call.query, "cursor"):
        position = checks.cursor_json(raw)
        after = (to_ms(position["lastStartTimeTo"]), position["lastTraceId"], position["lastId"])
        rows = [one for one in rows if (one["start"], one["traceId"], one["id"]) < after]
    page, meta = rows[:limit], {}
    if len(rows) > limit:
        end = page[-1]
        place = {"lastStartTimeTo": iso(end["start"]), "lastTraceId": end["traceId"], "lastId": end["id"]}
        meta["cursor"] = checks.cursor_text(place)
    groups = [one.strip() for one in (last(call.query, "fields") or "core,basic").split(",")]
    whole = comma_list(last(call.query, "expandMetadata")) or []
    return 200, {"data": [_event_row(call.here, one, groups, whole) for one in page], "meta": meta}


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _event_row(project: Project, one: dict[str, Any], groups: list[str], whole: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": one["id"],
        "traceId": one["traceId"],
        "startTime": iso(one["start"]),
        "endTime": None if one["end"] is None else iso(one["end"]),
        "projectId": project.id,
        "parentObservationId": one["parentObservationId"],
        "type": one["type"],
    }
    if "basic" in groups:
        row |= {key: one[key] for key in ("name", "level", "environment", "userId", "sessionId")}
        row |= {"statusMessage": one["statusMessage"] or "", "version": one["version"] or ""}
        row |= {"isRootObservation": one["root"], "bookmarked": False, "public": False}
        row |= {"latency": None, "timeToFirstToken": None}
        if one["end"] is not None:
            row["latency"] = reads.plain((one["end"] - one["start"]) / 1000)
    if "time" in groups:
        row |= {"createdAt": iso(one["createdAt"]), "updatedAt": iso(one["updatedAt"]), "completionStartTime": None}
    if "io" in groups:
        row |= {"input": _as_text(one["input"]), "output": _as_text(one["output"])}
    if "metadata" in groups:
        texts = {key: _as_text(value) or "" for key, value in one["metadata"].items()}
        row["metadata"] = {key: text if key in whole else text[:200] for key, text in texts.items()}
    if "model" in groups:
        row |= {"providedModelName": one["model"], "internalModelId": None}
        row["modelParameters"] = one["modelParameters"]
    if "usage" in groups:
        row |= {"usageDetails": one["usageDetails"], "costDetails": one["costDetails"], "usagePricingTierName": None}
        row["totalCost"] = one["costDetails"].get("total")
    if "trace_context" in groups:
        trace = project.state.traces.get(one["traceId"], {})
        row |= {"tags": trace.get("tags", []), "release": trace.get("release"), "traceName": trace.get("name")}
    return row | dict.fromkeys(("modelId", "inputPrice", "outputPrice", "totalPrice"))


# experiments


def _span_of_time(call: Call, issues: list[Issue]) -> tuple[int | None, int | None]:
    if "fromStartTime" not in call.query:
        issues.append(checks.expected("string", None, ["fromStartTime"], missing=True))
        return None, None
    start, end = (
        checks.zoned_time(call.query[name][-1], [name], issues) if name in call.query else None
        for name in ("fromStartTime", "toStartTime")
    )
    return start, end


def _limited(
    call: Call, rows: list[dict[str, Any]], limit: int, position: Callable[[dict[str, Any]], dict[str, str]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Newest first, then by id, from behind the cursor's position on."""

    def order(place: dict[str, str]) -> tuple[Any, ...]:
        return (-to_ms(place["lastTime"]), *list(place.values())[1:])

    rows.sort(key=lambda one: order(position(one)))
    if raw := last(call.query, "cursor"):
        after = order({key: value for key, value in checks.cursor_json(raw).items() if key != "v"})
        rows = [one for one in rows if order(position(one)) > after]
    meta = {"cursor": checks.cursor_text({"v": 1, **position(rows[limit - 1])})} if len(rows) > limit else {}
    return rows[:limit], meta


def _clickhouse(ms: int) -> str:
    return iso(ms).replace("T", " ").replace("Z", "000")


def _only(rows: list[dict[str, Any]], query: Query, names: dict[str, str]) -> list[dict[str, Any]]:
    for name, key in names.items():
        if (wanted := comma_list(last(query, name))) is not None:
            rows = [one for one in rows if one[key] in wanted]
    return rows


def _v4_scores(project: Project, query: Query, **keys: str) -> list[dict[str, Any]]:
    issues: list[Issue] = []
    limit = checks.number_param(query, "scoreLimit", 50, issues, top=50, zero=False)
    if issues:
        raise checks.invalid(issues)

    def keep(row: Row) -> bool:
        return all(getattr(row, key) == value for key, value in keys.items())

    of_trace = [keys["trace_id"]] if "trace_id" in keys else None
    rows = list(newest_per_id(project.state.table.versions(traces=of_trace, keep=keep)))[:limit]
    return [reads.v3_row(project, row, frozenset({"subject"})) for row in rows if row.convertible]


@route("GET", "/experiments", exists=lambda dialect: dialect.experiments)
def experiments(call: Call) -> tuple[int, Any]:
    issues: list[Issue] = []
    start, end = _span_of_time(call, issues)
    limit = checks.number_param(call.query, "limit", 50, issues, top=100, zero=False)
    if issues:
        raise checks.invalid(issues)
    _needs_v4(call, "experiments")
    groups = (last(call.query, "fields") or "core").split(",")
    rows = [one for one in _experiments(call.here) if (start or 0) <= one["start"] < (end or 1 << 62)]
    rows = _only(rows, call.query, {"id": "id", "name": "name", "datasetId": "datasetId"})
    page, meta = _limited(call, rows, limit, lambda one: {"lastTime": _clickhouse(one["start"]), "lastId": one["id"]})
    data = []
    for one in page:
        shown = {key: one[key] for key in ("id", "name", "description", "itemCount", "datasetId")}
        shown |= {"startTime": iso(one["start"]), "endTime": iso(one["end"])}
        if "metadata" in groups:
            shown["metadata"] = one["metadata"]
        if "scores" in groups:
            shown["scores"] = _v4_scores(call.here, call.query, run_id=one["id"])
        data.append(shown)
    return 200, {"data": data, "meta": meta}


def _needs_v4(call: Call, api: str) -> None:
    """In an older write mode the request is read first, and only then refused."""
    if call.server.dialect.write_mode == "legacy":
        raise not_found(checks.ONLY_IN_V4.format(api))


def _experiments(project: Project) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {one["id"]: dict(one) for one in project.state.experiments}
    for item in _items(project):
        experiment = item["experiment"]
        end = item["end"] if item["end"] is not None else item["start"]
        one = found.setdefault(
            experiment["id"],
            {
                **{key: experiment[key] for key in ("id", "name", "description", "metadata", "datasetId")},
                "start": item["start"],
                "end": end,
                "itemCount": 0,
            },
        )
        one["start"], one["end"] = min(one["start"], item["start"]), max(one["end"], end)
        one["itemCount"] += 1
    return list(found.values())


def _items(project: Project) -> list[dict[str, Any]]:
    rows = [one for one in project.state.observations.values() if one["experiment"] and one["events"]]
    return [one for one in rows if one["experiment"]["root"]]


@route("GET", "/experiment-items", exists=lambda dialect: dialect.experiments)
def experiment_items(call: Call) -> tuple[int, Any]:
    issues: list[Issue] = []
    start, end = _span_of_time(call, issues)
    limit = checks.number_param(call.query, "limit", 50, issues, top=100, zero=False)
    if issues:
        raise checks.invalid(issues)
    _needs_v4(call, "experiment items")
    groups = (last(call.query, "fields") or "core,dataset").split(",")
    rows = []
    for one in _items(call.here):
        if (start or 0) <= one["start"] < (end or 1 << 62):
            experiment = one["experiment"]
            names = {"experimentId": "id", "experimentName": "name", "experimentItemId": "itemId"}
            names["experimentDatasetId"] = "datasetId"
            rows.append({**one, **{name: experiment[key] for name, key in names.items()}})
    wanted = {name: name for name in ("experimentId", "experimentName", "experimentItemId")}
    rows = _only(rows, call.query, {**wanted, "datasetId": "experimentDatasetId"})
    page, meta = _limited(
        call,
        rows,
        limit,
        lambda one: {
            "lastTime": _clickhouse(one["start"]),
            "lastTraceId": one["traceId"],
            "lastId": one["id"],
            "lastExperimentId": one["experimentId"],
        },
    )
    data = []
    for one in page:
        experiment = one["experiment"]
        shown = {key: one[key] for key in ("id", "traceId", "level", "environment", *wanted)}
        shown |= {"startTime": iso(one["start"]), "endTime": None if one["end"] is None else iso(one["end"])}
        if "dataset" in groups:
            shown["experimentDatasetId"] = one["experimentDatasetId"]
            shown["experimentItemVersion"] = experiment["itemVersion"]
        if "io" in groups:
            shown |= {key: _as_text(one[key]) for key in ("input", "output")}
            shown["expectedOutput"] = _as_text(experiment["expectedOutput"])
        if "metadata" in groups:
            shown["metadata"] = {key: _as_text(value) or "" for key, value in one["metadata"].items()}
        if "itemMetadata" in groups:
            shown["experimentItemMetadata"] = {k: _as_text(v) for k, v in experiment["itemMetadata"].items()}
        if "experimentMetadata" in groups:
            shown["experimentMetadata"] = {k: _as_text(v) for k, v in experiment["metadata"].items()}
            shown["experimentDescription"] = experiment["description"]
        if "scores" in groups:
            shown["scores"] = _v4_scores(call.here, call.query, trace_id=one["traceId"], observation_id=one["id"])
        data.append(shown)
    return 200, {"data": data, "meta": meta}


# what has no content here, but must be as gone as on the real server


@route("GET", "/metrics", gone_in_events_only=True)
def metrics(call: Call) -> tuple[int, Any]:
    raise Refused(501, text="the stand-in has no metrics")


@route("GET", "/metrics/daily", gone_in_events_only=True)
def metrics_daily(call: Call) -> tuple[int, Any]:
    raise Refused(501, text="the stand-in has no metrics")
