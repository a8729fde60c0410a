"""What the server says to a request that it does not take: the texts as recorded, where they were recorded."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .clock import to_ms
from .dialects import Dialect
from .table import DATA_TYPES

Issue = dict[str, Any]
SOURCES = ("API", "EVAL", "ANNOTATION")
GROUPS = ("core", "details", "subject", "annotation")
OPERATORS = ("<", ">", "<=", ">=", "!=", "=")

EVENTS_ONLY = (
    "This endpoint is not available on deployments running in Langfuse v4 events_only mode. "
    "Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"
)
ONLY_IN_V4 = "The {} API is only available in a Langfuse v4 write mode. Learn more at: https://langfuse.com/docs/v4"
NOT_ACCEPTED = (
    'Event type "{}" is not accepted by /api/public/ingestion when LANGFUSE_MIGRATION_V4_WRITE_MODE is events_only. '
    "This endpoint only accepts score and log events. Upgrade the client or integration to a v4-compatible SDK or OTLP "
    "ingestion path. As a temporary migration bridge, set LANGFUSE_MIGRATION_V4_WRITE_MODE=dual on both the web and "
    "worker services and redeploy. Docs: "
    "https://langfuse.com/self-hosting/upgrade/upgrade-guides/upgrade-v3-to-v4"
)
DEPRECATION = {
    "message": "On Langfuse Cloud, Langfuse v3 is deprecated and this endpoint will be removed on November 16, 2026. "
    "Use GET /api/public/v3/scores instead.",
    "replacement": "GET /api/public/v3/scores",
    "docsUrl": "https://langfuse.com/docs/api-and-data-platform/features/scores-api",
    "sunsetAt": "2026-11-16",
}
SUBJECT = (
    "Provide exactly one of the following: traceId (with optional observationId), sessionId or datasetRunId. "
    "ObservationId requires traceId."
)
ISO_DATETIME = (
    r"/^(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|\d{4}-(?:(?:0[13578]|1[02])"
    r"-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))T(?:(?:[01]\d|2[0-3])"
    r":[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|([+-](?:[01]\d|2[0-3]):[0-5]\d)))$/"
)
_ZONED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_ANY_ZONE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


class Refused(Exception):
    """An answer that is not the one asked for. ``text`` is a bare text instead of JSON."""

    def __init__(
        self,
        status: int,
        body: Any = None,
        *,
        text: str | None = None,
        html: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status)
        self.status, self.body, self.text, self.html, self.headers = status, body, text, html, dict(headers or {})


def invalid(issues: list[Issue]) -> Refused:
    return Refused(400, {"message": "Invalid request data", "error": issues})


def wrong(message: str, status: int = 400, error: str = "InvalidRequestError") -> Refused:
    return Refused(status, {"message": message, "error": error})


def not_found(message: str) -> Refused:
    return wrong(message, 404, "LangfuseNotFoundError")


def kind(value: Any, *, missing: bool = False) -> str:
    if missing:
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "number" if isinstance(value, int | float) else "object"


def expected(what: str, value: Any, path: list[Any], *, missing: bool = False) -> Issue:
    issue: Issue = {"expected": what, "code": "invalid_type", "path": path}
    if what == "number" and isinstance(value, float) and not math.isfinite(value):
        issue["received"] = "NaN" if math.isnan(value) else "Infinity"
        seen = "NaN" if math.isnan(value) else "number"
    else:
        seen = kind(value, missing=missing)
    return {**issue, "message": f"Invalid input: expected {what}, received {seen}"}


def one_of(values: tuple[str, ...], path: list[Any]) -> Issue:
    options = "|".join(f'"{value}"' for value in values)
    return {
        "code": "invalid_value",
        "values": list(values),
        "path": path,
        "message": f"Invalid option: expected one of {options}",
    }


def custom(message: str, path: list[Any]) -> Issue:
    return {"code": "custom", "message": message, "path": path}


def unrecognized(keys: list[str]) -> Issue:
    quoted = ", ".join(f'"{key}"' for key in keys)
    message = f"Unrecognized key{'s' * (len(keys) > 1)}: {quoted}"
    return {"code": "unrecognized_keys", "keys": keys, "path": [], "message": message}


def number_param(
    query: Mapping[str, list[str]], name: str, default: int, issues: list[Issue], *, top: int | None = None, zero: bool
) -> int:
    """``limit`` (from 1, up to ``top``) or ``page`` (more than 0, ``zero``); absent and empty mean the default."""
    raw = query[name][-1].strip() if name in query else ""
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        issues.append(
            {
                "expected": "number",
                "code": "invalid_type",
                "received": "NaN",
                "path": [name],
                "message": "Invalid input: expected number, received NaN",
            }
        )
    elif zero and value <= 0:
        issues.append(_bound("too_small", "minimum", 0, name, "Too small: expected number to be >0", inclusive=False))
    elif not zero and value < 1:
        issues.append(_bound("too_small", "minimum", 1, name, "Too small: expected number to be >=1"))
    elif top is not None and value > top:
        issues.append(_bound("too_big", "maximum", top, name, f"Too big: expected number to be <={top}"))
    elif value != int(value):
        issues.append(expected("int", value, [name]))
    else:
        return int(value)
    return default


def _bound(code: str, which: str, bound: int, name: str, message: str, *, inclusive: bool = True) -> Issue:
    return {
        "origin": "number",
        "code": code,
        which: bound,
        "inclusive": inclusive,
        "path": [name],
        "message": message,
    }


def loose_time(raw: str | None, name: str, issues: list[Issue]) -> int | None:
    """A time as v3 takes it: with or without a zone (then the server's, UTC), a bare date; empty is absent."""
    if not raw:
        return None
    try:
        if _ANY_ZONE.fullmatch(raw):
            return to_ms(datetime.fromisoformat(raw))
    except ValueError:
        pass
    issues.append(
        {
            "expected": "date",
            "code": "invalid_type",
            "received": "Invalid Date",
            "path": [name],
            "message": "Invalid input: expected date, received Date",
        }
    )
    return None


def zoned_time(raw: Any, path: list[Any], issues: list[Issue]) -> int | None:
    """A time as v1, v2 and event envelopes take it: the zone must be there."""
    try:
        if isinstance(raw, str) and _ZONED.fullmatch(raw):
            return to_ms(datetime.fromisoformat(raw))
    except ValueError:
        pass
    issues.append(
        {
            "origin": "string",
            "code": "invalid_format",
            "format": "datetime",
            "pattern": ISO_DATETIME,
            "path": path,
            "message": "Invalid ISO datetime",
        }
    )
    return None


def cursor_json(raw: str) -> dict[str, Any]:
    try:
        position = json.loads(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
    except (ValueError, UnicodeDecodeError):
        position = None
    if not isinstance(position, dict):
        raise wrong("Invalid cursor format")
    return position


def cursor_position(raw: str) -> tuple[int, str]:
    position = cursor_json(raw)
    if position.get("v") != 1:
        raise invalid(
            [
                {
                    "code": "invalid_union",
                    "errors": [],
                    "note": "No matching discriminator",
                    "discriminator": "v",
                    "path": ["cursor", "v"],
                    "message": "Invalid input",
                }
            ]
        )
    issues: list[Issue] = []
    moment = loose_time(str(position.get("lastTimestamp", "-")), "cursor", issues)
    last = position.get("lastId")
    if issues or moment is None or not isinstance(last, str):
        raise wrong("Invalid cursor format")
    return moment, last


def cursor_text(position: Mapping[str, Any]) -> str:
    text = json.dumps(position, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def score_issues(
    body: Any, dialect: Dialect, *, sources: tuple[str, ...], path: list[Any] | None = None
) -> list[Issue]:
    """What is wrong with a score; an empty list where it is taken, which does not mean that it will be stored."""
    path = path or []
    if not isinstance(body, dict):
        issue = expected("object", body, path)
        return [issue, {"code": issue["code"], "expected": "object", "path": path, "message": issue["message"]}]
    issues: list[Issue] = []
    if not isinstance(body.get("name"), str):
        issues.append(expected("string", body.get("name"), [*path, "name"], missing="name" not in body))
    issues += _value_issues(body, path)
    for key in ("id", "traceId", "sessionId", "datasetRunId", "observationId", "configId", "queueId", "comment"):
        if body.get(key) is not None and not isinstance(body[key], str):
            issues.append(expected("string", body[key], [*path, key]))
    source = body.get("source")
    if sources and source is not None and source not in sources:
        issues.append(one_of(sources, [*path, "source"]))
    if dialect.list_post and body.get("timestamp") is not None:
        zoned_time(body["timestamp"], [*path, "timestamp"], issues)
    if issues:
        return issues
    if dialect.other_subjects:
        subjects = [key for key in ("traceId", "sessionId", "datasetRunId") if body.get(key) is not None]
        if len(subjects) != 1 or (body.get("observationId") is not None and subjects != ["traceId"]):
            keys = ("traceId", "sessionId", "datasetRunId", "observationId")
            issues.append({"code": "custom", "path": [*path, *keys], "message": SUBJECT})
    elif body.get("traceId") is None:
        issues.append(expected("string", body.get("traceId"), [*path, "traceId"], missing="traceId" not in body))
    prefilled = source == "ANNOTATION" and sources and "EVAL" not in sources  # /ingestion lets it pass
    if prefilled and not body.get("configId") and body.get("dataType") != "CORRECTION":
        message = "configId is required when source is ANNOTATION (except for CORRECTION scores)."
        issues.append({"code": "custom", "path": [*path, "configId"], "message": message})
    return issues


def _value_issues(body: Mapping[str, Any], path: list[Any]) -> list[Issue]:
    data_type, value, missing = body.get("dataType"), body.get("value"), "value" not in body
    at = [*path, "value"]
    finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if data_type is None:
        if isinstance(value, str) or finite:
            return []
        either = [[expected("string", value, [], missing=missing)], [expected("number", value, [], missing=missing)]]
        return [{"code": "invalid_union", "errors": either, "path": at, "message": "Invalid input"}]
    if data_type not in DATA_TYPES:
        return [
            {
                "code": "invalid_union",
                "errors": [],
                "note": "No matching discriminator",
                "discriminator": "dataType",
                "path": [*path, "dataType"],
                "message": "Invalid input",
            }
        ]
    if data_type in ("NUMERIC", "BOOLEAN"):
        if not finite:
            return [expected("number", value, at, missing=missing)]
        if data_type == "BOOLEAN" and value not in (0, 1):
            message = "Value must be a number equal to either 0 or 1 for data type BOOLEAN"
            return [{"code": "custom", "path": at, "message": message}]
        return []
    if not isinstance(value, str):
        return [expected("string", value, at, missing=missing)]
    if data_type == "TEXT" and not 1 <= len(value.encode("utf-16-le", "surrogatepass")) // 2 <= 500:
        big = bool(value)
        return [
            {
                "origin": "string",
                "code": "too_big" if big else "too_small",
                "maximum" if big else "minimum": 500 if big else 1,
                "inclusive": True,
                "path": at,
                "message": f"Too {'big' if big else 'small'}: expected string to have {'<=500' if big else '>=1'} characters",
            }
        ]
    return []
