"""Which request goes where, in which dialect, and what scores are posted, deleted and ingested by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from . import checks, reads
from .checks import Refused
from .dialects import Dialect
from .project import Project, new_id, no_constant

if TYPE_CHECKING:
    from .server import LangfuseStandin, Request

API = "/api/public"


@dataclass
class Call:
    server: LangfuseStandin
    project: Project | None
    request: Request
    arguments: list[str]

    @property
    def here(self) -> Project:
        assert self.project is not None
        return self.project

    @property
    def query(self) -> reads.Query:
        return self.request.query

    def json(self) -> Any:
        """The body, refused with the bare text that Next.js sends where it is no JSON. NaN is none."""
        try:
            return json.loads(self.request.body or b"{}", parse_constant=no_constant)
        except ValueError:
            raise Refused(400, text="Invalid JSON") from None


Run = Callable[[Call], tuple[int, Any]]


@dataclass
class Route:
    method: str
    pattern: str
    run: Run
    auth: bool = True
    resource: str | None = "public-api"
    public_key_is_enough: bool = False
    deprecated: bool = False
    exists: Callable[[Dialect], bool] = lambda dialect: True
    gone_in_events_only: bool = False


ROUTES: list[Route] = []


def route(method: str, pattern: str, **options: Any) -> Callable[[Run], Run]:
    def registered(run: Run) -> Run:
        ROUTES.append(Route(method, API + pattern, run, **options))
        return run

    return registered


def _match(pattern: str, path: str) -> list[str] | None:
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    arguments = []
    for want, have in zip(wanted, given, strict=True):
        if want.startswith("{"):
            arguments.append(unquote(have))
        elif want != have:
            return None
    return arguments


def find(method: str, path: str, dialect: Dialect) -> tuple[Route, list[str]]:
    here = [(one, found) for one in ROUTES if one.exists(dialect) and (found := _match(one.pattern, path)) is not None]
    for one, arguments in here:
        if one.method == method:
            if one.gone_in_events_only and dialect.events_only:
                raise Refused(404, {"message": checks.EVENTS_ONLY})
            return one, arguments
    if here:
        raise Refused(405, {"message": "Method not allowed", "error": "MethodNotAllowedError"})
    raise Refused(404, html=True)


def label(path: str) -> str:
    """A path without the ids in it."""
    return next((one.pattern for one in ROUTES if _match(one.pattern, path) is not None), path)


# health, projects


@route("GET", "/health", auth=False)
def health(call: Call) -> tuple[int, Any]:
    return 200, {"status": "OK", "version": call.server.dialect.version}


@route("GET", "/projects")
def projects(call: Call) -> tuple[int, Any]:
    project = call.here
    organization = {"id": "demo-org", "name": "Demo Org"}
    return 200, {
        "data": [{"id": project.id, "name": project.name, "organization": organization, "metadata": {}}],
    }


# reading scores


@route("GET", "/v3/scores", exists=lambda dialect: dialect.v3_scores)
def scores_v3(call: Call) -> tuple[int, Any]:
    return 200, reads.list_v3(call.here, call.query)


@route("GET", "/v2/scores", exists=lambda dialect: dialect.v2_scores, gone_in_events_only=True, deprecated=True)
def scores_v2(call: Call) -> tuple[int, Any]:
    return 200, reads.list_paged(call.here, call.query, v1=False)


@route("GET", "/v2/scores/{id}", exists=lambda dialect: dialect.v2_scores, gone_in_events_only=True, deprecated=True)
def score_v2(call: Call) -> tuple[int, Any]:
    return 200, reads.single(call.here, call.arguments[0], v1=False)


@route("GET", "/scores", gone_in_events_only=True, deprecated=True)
def scores_v1(call: Call) -> tuple[int, Any]:
    return 200, reads.list_paged(call.here, call.query, v1=True)


@route("GET", "/scores/{id}", gone_in_events_only=True, deprecated=True)
def score_v1(call: Call) -> tuple[int, Any]:
    return 200, reads.single(call.here, call.arguments[0], v1=True)


# writing scores


@route("POST", "/scores", public_key_is_enough=True)
def post_scores(call: Call) -> tuple[int, Any]:
    body, project, dialect = call.json(), call.here, call.server.dialect
    sources = ("API", "ANNOTATION") if dialect.source_in_post else ()
    if not dialect.list_post:
        if issues := checks.score_issues(body, dialect, sources=sources):
            raise checks.invalid(issues)
        return 200, {"id": _accept(project, body)}
    if not isinstance(body, list):
        raise checks.invalid([checks.expected("array", body, [])])
    errors = []
    for score in body:
        if issues := checks.score_issues(score, dialect, sources=sources):
            errors.append({"message": json.dumps(issues)})
        else:
            _accept(project, score)
    if not errors:
        return 202, {"message": "Accepted"}
    return 207, {"accepted": len(body) - len(errors), "rejected": len(errors), "errors": errors}


def _accept(project: Project, body: dict[str, Any]) -> str:
    kept = {key: value for key, value in body.items() if key != "timestamp"}
    score: str = body.get("id") or new_id()
    kept["id"] = score
    if not project.dialect.source_in_post:
        kept.pop("source", None)
    moment = None
    if project.dialect.list_post and body.get("timestamp") is not None:
        moment = checks.zoned_time(body["timestamp"], [], [])
    project.receive(kept, moment, file=None)
    return score


@route("DELETE", "/scores/{id}", resource="score-delete")
def delete_score(call: Call) -> tuple[int, Any]:
    call.here.delete_score(call.arguments[0])
    return 202, {"message": "Score deletion queued successfully"}


@route("POST", "/ingestion", resource="ingestion")
def ingestion(call: Call) -> tuple[int, Any]:
    body = call.json()
    batch = body.get("batch") if isinstance(body, dict) else None
    if not isinstance(batch, list):
        missing = not isinstance(body, dict) or "batch" not in body
        raise checks.invalid([checks.expected("array", batch, ["batch"], missing=missing)])
    successes: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    files: dict[str, str] = {}
    for index, event in enumerate(batch):
        name = event.get("id") if isinstance(event, dict) else None
        issues = _event_issues(event, call.server.dialect)
        if issues:
            text = json.dumps(issues, indent=2, ensure_ascii=False)
            errors.append({"id": name, "status": 400, "message": "Invalid request data", "error": text})
        elif event["type"] == "score-create":
            score = {**event["body"], "id": event["body"].get("id") or new_id()}
            file = files.setdefault(score["id"], str(name))
            moment = checks.zoned_time(event["timestamp"], [], [])
            call.here.receive(score, moment, file=file, index=index)
            successes.append({"id": name, "status": 201})
        elif call.server.dialect.events_only and event["type"] != "sdk-log":
            text = checks.NOT_ACCEPTED.format(event["type"])
            refused.append({"id": name, "status": 400, "message": "Event type not accepted", "error": text})
        else:
            if event["type"] != "sdk-log":
                call.here.take_event(event)
            successes.append({"id": name, "status": 201})
    return 207, {"successes": successes, "errors": errors + refused}


EVENT_TYPES = (
    "trace-create",
    "score-create",
    "span-create",
    "span-update",
    "generation-create",
    "generation-update",
    "event-create",
    "observation-create",
    "observation-update",
    "sdk-log",
)


def _event_issues(event: Any, dialect: Dialect) -> list[checks.Issue]:
    if not isinstance(event, dict):
        return [checks.expected("object", event, [])]
    issues = [
        checks.expected("string", event.get(key), [key], missing=key not in event)
        for key in ("id", "type")
        if not isinstance(event.get(key), str)
    ]
    checks.zoned_time(event.get("timestamp"), ["timestamp"], issues)
    if not issues and event["type"] not in EVENT_TYPES:
        issues.append(checks.one_of(EVENT_TYPES, ["type"]))
    if not issues and event["type"] == "score-create":
        issues = checks.score_issues(event.get("body"), dialect, sources=checks.SOURCES, path=["body"])
    return issues
