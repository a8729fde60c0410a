"""The three ways to read scores: v3 by cursor, v2 and v1 by page."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from . import checks
from .checks import Issue
from .clock import iso
from .project import Project
from .table import DATA_TYPES, Row, newest_per_id

Query = Mapping[str, list[str]]

_V3_LISTS: dict[str, Callable[[Row], str | None]] = {
    "id": lambda row: row.id,
    "name": lambda row: row.name,
    "source": lambda row: row.source,
    "dataType": lambda row: row.data_type,
    "environment": lambda row: row.environment,
    "configId": lambda row: row.config_id,
    "queueId": lambda row: row.queue_id,
    "authorUserId": lambda row: row.author,
    "traceId": lambda row: row.trace_id,
    "sessionId": lambda row: row.session_id,
    "observationId": lambda row: row.observation_id,
    "experimentId": lambda row: row.run_id,
}
_V3_OTHERS = ("limit", "cursor", "fields", "fromTimestamp", "toTimestamp", "value", "valueMin", "valueMax")
_JOINED = "{} filter requires a trace JOIN and is not supported in v3 — use v2 or omit this filter"

_COMPARE = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
}


def plain(number: float | None) -> float | int | None:
    """JavaScript has one kind of number: 1.0 is written 1."""
    if number is not None and number == int(number) and abs(number) < 1e21:
        return int(number)
    return number


def last(query: Query, name: str) -> str | None:
    return query[name][-1] if name in query else None


def comma_list(raw: str | None) -> list[str] | None:
    """A name that holds a comma is split like any other list; nothing but blanks is no filter."""
    values = [value.strip() for value in (raw or "").split(",")]
    return [value for value in values if value] or None


# v3


def list_v3(project: Project, query: Query) -> dict[str, Any]:
    issues: list[Issue] = []
    limit = checks.number_param(query, "limit", 50, issues, top=100, zero=False)
    groups = _groups(query, issues)
    wanted = {name: comma_list(last(query, name)) for name in _V3_LISTS}
    for name, allowed in (("source", checks.SOURCES), ("dataType", DATA_TYPES)):
        if wanted[name]:
            wanted[name] = [value.upper() for value in wanted[name] or ()]
            for value in comma_list(last(query, name)) or ():
                if value.upper() not in allowed:
                    message = f'Invalid {name} value: "{value}". Allowed: {", ".join(allowed)}'
                    issues.append(checks.custom(message, [name]))
    start = checks.loose_time(last(query, "fromTimestamp"), "fromTimestamp", issues)
    end = checks.loose_time(last(query, "toTimestamp"), "toTimestamp", issues)
    issues += [checks.custom(_JOINED.format(name), []) for name in ("userId", "traceTags") if name in query]
    unknown = [name for name in query if name not in (*_V3_LISTS, *_V3_OTHERS, "userId", "traceTags")]
    if unknown:
        issues.append(checks.unrecognized(unknown))
    if not issues:
        if wanted["observationId"] and not wanted["traceId"]:
            message = "observationId filter requires traceId — observation IDs are scoped to a trace"
            issues.append(checks.custom(message, []))
        if sum(wanted[name] is not None for name in ("traceId", "sessionId", "experimentId")) > 1:
            message = "At most one of traceId, sessionId, experimentId may be specified"
            issues.append(checks.custom(message, []))
    value_test = _v3_value(query, wanted["dataType"], issues)
    if issues:
        raise checks.invalid(issues)
    after = checks.cursor_position(query["cursor"][-1]) if "cursor" in query else None

    indexed = {"id": "ids", "name": "names", "traceId": "traces"}
    tests: list[Callable[[Row], bool]] = [
        _in(_V3_LISTS[name], frozenset(values)) for name, values in wanted.items() if values is not None
    ]
    if value_test:
        tests.append(value_test)
    rows = newest_per_id(
        project.state.table.versions(
            **{indexed[name]: wanted[name] for name in indexed if wanted[name] is not None},
            start=start,
            end=end,
            after=after,
            keep=(lambda row: all(test(row) for test in tests)) if tests else None,
        )
    )
    page = list(islice(rows, limit + 1))
    meta: dict[str, Any] = {"limit": limit}
    if len(page) > limit:
        page.pop()
        meta["cursor"] = checks.cursor_text(
            {"v": 1, "lastTimestamp": iso(page[-1].timestamp), "lastId": page[-1].id},
        )
    return {"data": [v3_row(project, row, groups) for row in page if row.convertible], "meta": meta}


def _in(column: Callable[[Row], str | None], values: frozenset[str]) -> Callable[[Row], bool]:
    return lambda row: column(row) in values


def _groups(query: Query, issues: list[Issue]) -> frozenset[str]:
    raw = last(query, "fields")
    names = [name.strip() for name in raw.split(",")] if raw else []
    for i, name in enumerate(names):
        if name not in checks.GROUPS:
            issues.append(checks.one_of(checks.GROUPS, ["fields", i]))
    return frozenset(names)


def _v3_value(query: Query, types: list[str] | None, issues: list[Issue]) -> Callable[[Row], bool] | None:
    tests: list[Callable[[Row], bool]] = []
    if values := comma_list(last(query, "value")):
        only = types[0] if types and len(types) == 1 else None
        if only not in ("NUMERIC", "BOOLEAN", "CATEGORICAL"):
            message = "value filter requires a single dataType from: NUMERIC, BOOLEAN, CATEGORICAL"
            issues.append(checks.custom(message, []))
        elif only == "CATEGORICAL":
            texts = frozenset(values)
            tests.append(lambda row: row.text in texts)
        else:
            numbers = set()
            for value in values:
                number = _as_number(value, only)
                if number is None:
                    wants = '"true" or "false"' if only == "BOOLEAN" else "a number"
                    wants = f"requires each value to be {wants}"
                    issues.append(checks.custom(f'value filter with dataType={only} {wants} (got "{value}")', []))
                numbers.add(number)
            tests.append(lambda row: row.number in numbers)
    for name, compare in (("valueMin", operator.ge), ("valueMax", operator.le)):
        if raw := last(query, name):
            if types != ["NUMERIC"]:
                message = "valueMin and valueMax require dataType=NUMERIC as a single value"
                issues.append(checks.custom(message, []))
                break
            bound = _as_number(raw, "NUMERIC")
            if bound is None:
                issues.append(checks.expected("number", float("nan"), [name]))
            else:
                tests.append(lambda row, bound=bound, compare=compare: compare(row.number, bound))
    return (lambda row: all(test(row) for test in tests)) if tests else None


def _as_number(raw: str, data_type: str) -> float | None:
    if data_type == "BOOLEAN":
        return {"true": 1.0, "false": 0.0}.get(raw)
    try:
        return float(raw)
    except ValueError:
        return None


def v3_row(project: Project, row: Row, groups: frozenset[str]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": row.id,
        "projectId": project.id,
        "name": row.name,
        "source": row.source,
        "timestamp": iso(row.timestamp),
        "environment": row.environment,
        "createdAt": iso(row.created),
        "updatedAt": iso(row.updated),
    }
    if "details" in groups:
        record |= {"comment": row.comment, "configId": row.config_id, "metadata": row.metadata}
    if "annotation" in groups:
        record |= {"authorUserId": row.author, "queueId": row.queue_id}
    if "subject" in groups:
        record["subject"] = subject_of(row)
    if row.data_type == "BOOLEAN":
        value: Any = bool(row.number)
    else:
        value = plain(row.number) if row.data_type == "NUMERIC" else row.text
    return {**record, "dataType": row.data_type, "value": value}


def subject_of(row: Row) -> dict[str, Any] | None:
    if row.run_id is not None:
        return {"kind": "experiment", "id": row.run_id}
    if row.observation_id is not None:
        return {"kind": "observation", "id": row.observation_id, "traceId": row.trace_id}
    if row.session_id is not None:
        return {"kind": "session", "id": row.session_id}
    return {"kind": "trace", "id": row.trace_id}


# v1 and v2


def list_paged(project: Project, query: Query, *, v1: bool) -> dict[str, Any]:
    issues: list[Issue] = []
    page = checks.number_param(query, "page", 1, issues, zero=True)
    limit = checks.number_param(query, "limit", 50, issues, top=100, zero=False)
    times = {
        name: checks.zoned_time(query[name][-1], [name], issues)
        for name in ("fromTimestamp", "toTimestamp")
        if name in query
    }
    for name, allowed in (("source", checks.SOURCES), ("operator", checks.OPERATORS), ("dataType", DATA_TYPES)):
        if name in query and query[name][-1] not in allowed:
            issues.append(checks.one_of(allowed, [name]))
    if issues:
        raise checks.invalid(issues)
    groups = ["score", "trace"] if v1 else (last(query, "fields") or "score,trace").split(",")
    if "score" not in groups:
        raise checks.wrong("Scores needs to be selected always.")
    joined = "trace" in groups
    if not joined and ("userId" in query or "traceTags" in query):
        raise checks.wrong(
            "Cannot filter by trace properties (userId, traceTags) when 'trace' field is not included. "
            "Please add 'trace' to the fields parameter or remove trace filters."
        )
    found, total = _found(project, query, times, v1=v1, joined=joined)
    rows = found[(page - 1) * limit : page * limit]
    return {
        "data": [{**paged_row(project, row, v1=v1), "trace": _trace_part(project, row, v1, joined)} for row in rows],
        # stored versions are counted, not scores
        "meta": {"page": page, "limit": limit, "totalItems": total, "totalPages": -(-total // limit)},
    }


def _found(
    project: Project, query: Query, times: Mapping[str, int | None], *, v1: bool, joined: bool
) -> tuple[list[Row], int]:
    """All that a list holds, whatever the page: remembered as long as nothing changes, or a walk would be quadratic."""
    words = tuple((name, tuple(values)) for name, values in sorted(query.items()) if name not in ("page", "limit"))
    key = (v1, joined, words, project.state.table.generation)
    if project.listed is None or project.listed[0] != key:
        tests = list(_paged_tests(project, query, v1=v1, joined=joined))
        ids, name = comma_list(last(query, "scoreIds")), last(query, "name")
        versions = list(
            project.state.table.versions(
                ids=ids,
                names=[name] if name and ids is None else None,
                start=times.get("fromTimestamp"),
                end=times.get("toTimestamp"),
                keep=(lambda row: all(test(row) for test in tests)) if tests else None,
            )
        )
        project.listed = (key, list(newest_per_id(versions)), len(versions))
    return project.listed[1:]


def _paged_tests(project: Project, query: Query, *, v1: bool, joined: bool) -> Iterator[Callable[[Row], bool]]:
    state = project.state
    if v1:
        yield visible_in_v1
    if joined:
        yield lambda row: row.trace_id is None or row.trace_id in state.legacy_traces
    columns: dict[str, Callable[[Row], Any]] = {
        "name": lambda row: row.name,
        "source": lambda row: row.source,
        "dataType": lambda row: row.data_type,
        "configId": lambda row: row.config_id,
        "queueId": lambda row: row.queue_id,
    }
    if not v1:
        columns |= {
            "traceId": lambda row: row.trace_id,
            "observationId": lambda row: row.observation_id,
            "sessionId": lambda row: row.session_id,
            "datasetRunId": lambda row: row.run_id,
        }
    for name, column in columns.items():
        if value := last(query, name):
            yield _in(column, frozenset({value}))
    if environments := [one for one in query.get("environment", ()) if one]:
        yield _in(lambda row: row.environment, frozenset(environments))
    if (user := last(query, "userId")) is not None:
        yield lambda row: state.traces.get(row.trace_id or "", {}).get("userId") == user
    if tags := query.get("traceTags"):
        yield lambda row: set(tags) <= set(state.traces.get(row.trace_id or "", {}).get("tags", ()))
    value, sign = last(query, "value"), last(query, "operator")
    if value is not None and sign is not None:  # a value without an operator filters nothing
        number = _as_number(value, "NUMERIC")
        yield lambda row: number is not None and row.number is not None and _COMPARE[sign](row.number, number)
    if raw := last(query, "filter"):
        yield from _json_filter(raw)


_FILTER_COLUMNS: dict[str, Callable[[Row], Any]] = {
    "id": lambda row: row.id,
    "name": lambda row: row.name,
    "value": lambda row: row.number,
    "stringValue": lambda row: row.text,
    "comment": lambda row: row.comment,
    "source": lambda row: row.source,
    "dataType": lambda row: row.data_type,
    "environment": lambda row: row.environment,
    "traceId": lambda row: row.trace_id,
    "observationId": lambda row: row.observation_id,
    "sessionId": lambda row: row.session_id,
}


def _json_filter(raw: str) -> Iterator[Callable[[Row], bool]]:
    try:
        conditions = json.loads(raw)
    except ValueError:
        raise checks.wrong("Invalid JSON in filter parameter") from None
    for condition in conditions:
        column, sign, value = (
            _FILTER_COLUMNS.get(condition.get("column")),
            condition.get("operator"),
            condition["value"],
        )
        if column is None or (sign not in _COMPARE and sign not in ("any of", "none of", "contains")):
            raise checks.wrong(f"Invalid filter condition: {json.dumps(condition)}")
        if sign in ("any of", "none of"):
            yield lambda row, column=column, value=value, sign=sign: (column(row) in value) == (sign == "any of")
        elif sign == "contains":
            yield lambda row, column=column, value=value: value in (column(row) or "")
        else:
            yield (
                lambda row, column=column, value=value, sign=sign: (
                    column(row) is not None and _COMPARE[sign](column(row), value)
                )
            )


def visible_in_v1(row: Row) -> bool:
    return row.trace_id is not None and row.data_type != "CORRECTION"


def single(project: Project, score: str, *, v1: bool) -> dict[str, Any]:
    rows = newest_per_id(project.state.table.versions(ids=[score], keep=visible_in_v1 if v1 else None))
    row = next(rows, None)
    if row is None:
        raise checks.not_found("Score not found")
    return paged_row(project, row, v1=v1)


def paged_row(project: Project, row: Row, *, v1: bool) -> dict[str, Any]:
    value = {} if row.data_type == "TEXT" else {"value": plain(row.number)}
    others = {} if v1 else {"sessionId": row.session_id, "datasetRunId": row.run_id}
    return {
        "id": row.id,
        "projectId": project.id,
        "environment": row.environment,
        "name": row.name,
        **value,
        "source": row.source,
        "authorUserId": row.author,
        "comment": row.comment,
        "metadata": row.metadata,
        "configId": row.config_id,
        "queueId": row.queue_id,
        "executionTraceId": row.execution_trace_id,
        "createdAt": iso(row.created),
        "updatedAt": iso(row.updated),
        "timestamp": iso(row.timestamp),
        "traceId": row.trace_id,
        "observationId": row.observation_id,
        **others,
        "stringValue": row.text,
        "dataType": row.data_type,
    }


def _trace_part(project: Project, row: Row, v1: bool, joined: bool) -> dict[str, Any] | None:
    trace = project.state.traces.get(row.trace_id or "") if joined else None
    if trace is None:
        return None
    part = {"userId": trace["userId"], "tags": trace["tags"], "environment": trace["environment"]}
    return part if v1 else {**part, "sessionId": trace["sessionId"]}
