"""The HTTP side: sockets, keys, faults, rate limits, the log of requests."""

from __future__ import annotations

import base64
import binascii
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import catalog, checks, routes, traces  # noqa: F401 (catalog and traces register their routes)
from .checks import Refused
from .clock import Clock, iso
from .dialects import DIALECTS, Dialect
from .faults import Answer, Faults
from .project import Project
from .table import Row

NODE_HEADER_LIMIT = 16 * 1024
BODY_LIMITS = {"/api/public/scores": 1024 * 1024, "/api/public/ingestion": 4_500_000}
HTML_404 = (
    '<!DOCTYPE html><html lang="en"><head><meta charSet="utf-8"/><title>404: This page could not be found</title>'
    "</head><body><h1>404</h1><h2>This page could not be found.</h2></body></html>"
)
# calls, seconds: the calls are counted over the whole organisation
PLANS = {
    "hobby": {"public-api": (30, 60), "ingestion": (1000, 60), "score-delete": (50, 86400)},
    "core": {"public-api": (1000, 60), "ingestion": (4000, 60), "score-delete": (200, 86400)},
    "pro": {"public-api": (1000, 60), "ingestion": (4000, 60), "score-delete": (1000, 86400)},
}


@dataclass(slots=True)
class Request:
    """A request as it came in. ``endpoint`` has no ids in it: ``GET /api/public/v2/scores/{id}``."""

    number: int
    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Message
    body: bytes
    endpoint: str = ""
    status: int = 0
    fault: str = ""
    public_key: str = ""
    rows: int = 0

    def json(self) -> Any:
        return json.loads(self.body)


class RequestLog(list[Request]):
    """All requests so far, in the order of their arrival."""

    def counts(self) -> Counter[str]:
        return Counter(request.endpoint for request in self)

    def of(self, endpoint: str) -> list[Request]:
        """Those of one endpoint: ``GET /api/public/v3/scores``."""
        return [request for request in self if request.endpoint == endpoint]


class LangfuseStandin:
    """A server on a port of its own while the ``with`` block lasts. See the package's docstring."""

    def __init__(
        self,
        dialect: str = "4.16-events-only",
        *,
        clock: Clock | None = None,
        visible_after: float = 5.4,
        write_interval: float = 1.0,
        delete_interval: float = 120.0,
        plan: str | None = None,
        limits: Mapping[str, tuple[int, int]] | None = None,
        project_id: str = "demo-project",
        public_key: str = "pk-lf-demo",
        secret_key: str = "sk-lf-demo",
        port: int = 0,
    ) -> None:
        self.dialect: Dialect = DIALECTS[dialect]
        self.clock = clock or Clock()
        self.faults = Faults()
        self.requests = RequestLog()
        self.errors: list[Exception] = []  # mistakes of the stand-in itself; leaving the with block raises the first
        self.lock = threading.RLock()
        self.limits = dict(limits if limits is not None else PLANS.get(plan or "", {}))
        self.cloud = plan is not None
        self._windows: dict[str, tuple[int, int]] = {}
        self._timing = {
            "visible_after": visible_after,
            "write_interval": write_interval,
            "delete_interval": delete_interval,
        }
        self.projects: dict[str, Project] = {}
        self.project = self.add_project(project_id, public_key=public_key, secret_key=secret_key)
        self.project_id, self.public_key, self.secret_key = project_id, public_key, secret_key
        self._port = port
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None

    # life

    def start(self) -> LangfuseStandin:
        self._http = _Http(("127.0.0.1", self._port), self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.close_all()
            self._http.server_close()
            self._http = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> LangfuseStandin:
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        if self.errors and kind is None:
            raise self.errors[0]

    @property
    def url(self) -> str:
        assert self._http is not None, "the server is not running: use it as a context manager"
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    # what there is: filled by tests, without a request

    def add_project(self, project_id: str, *, public_key: str, secret_key: str) -> Project:
        project = Project(
            self.clock, self.dialect, id=project_id, public_key=public_key, secret_key=secret_key, **self._timing
        )
        self.projects[public_key] = project
        return project

    def add_score(self, *, id: str, name: str, value: Any, project: Project | None = None, **fields: Any) -> Row:
        """Put a score into the table, visible at once. ``fields`` have the names of the API: dataType, traceId,
        observationId, sessionId, datasetRunId, timestamp, source, comment, metadata, configId, queueId, environment,
        authorUserId, executionTraceId, createdAt, updatedAt. The same id again is a further stored version."""
        return self.add_scores([{"id": id, "name": name, "value": value, **fields}], project=project)[0]

    def add_scores(self, scores: Iterable[Mapping[str, Any]], project: Project | None = None) -> list[Row]:
        """Many at once: 100,000 take a second or two."""
        project = project or self.project
        with self.lock:
            now = self.clock.ms()
            rows = [project.row(score, now) for score in scores]
            for row in rows:
                project.state.table.add(row)
        return rows

    def add_config(self, name: str, dataType: str, **fields: Any) -> dict[str, Any]:
        """A score config (minValue, maxValue, categories [{label, value}], id, description); not unique by name."""
        with self.lock:
            return self.project.add_config(name, dataType, **fields)

    def add_queue(self, name: str, scoreConfigIds: list[str], **fields: Any) -> dict[str, Any]:
        with self.lock:
            return self.project.add_queue(name, scoreConfigIds, **fields)

    def add_queue_item(self, queueId: str, objectId: str, **fields: Any) -> dict[str, Any]:
        with self.lock:
            return self.project.add_queue_item(queueId, objectId, **fields)

    def add_evaluator(self, id: str, name: str, versions: list[Mapping[str, Any]]) -> dict[str, Any]:
        with self.lock:
            return self.project.add_evaluator(id, name, versions)

    def add_trace(self, id: str, *, legacy: bool | None = None, **fields: Any) -> dict[str, Any]:
        """A trace (timestamp, name, tags, userId, sessionId, environment, input, output, metadata ...). ``legacy``: it
        lies in the old traces table, which the v1 and v2 score lists join; by default where the write mode has one."""
        with self.lock:
            return traces.add_trace(self.project, id, legacy=legacy, **fields)

    def add_observation(self, id: str, traceId: str, **fields: Any) -> dict[str, Any]:
        """An observation (type, name, start, end, input, output, metadata, model, parentObservationId, root ...).
        ``experiment`` makes it an item of one: {id, name, datasetId, itemId, expectedOutput ...}."""
        with self.lock:
            return traces.add_observation(self.project, id, traceId, **fields)

    def annotate(self, **label: Any) -> str:
        """A human's label, given in the web app: see ``Project.annotate``. Gives the score's id."""
        with self.lock:
            return self.project.annotate(**label)

    def edit_annotation(self, id: str, **changes: Any) -> None:
        """A human changes a label: value and comment move, no time does."""
        with self.lock:
            self.project.edit_annotation(id, **changes)

    def delete_annotation(self, id: str) -> None:
        with self.lock:
            self.project.delete_annotation(id)

    def settle(self) -> None:
        """Carry out what was due by now, as a request would."""
        with self.lock:
            for project in self.projects.values():
                project.settle()

    def snapshot(self, project: Project | None = None) -> bytes:
        with self.lock:
            return (project or self.project).snapshot()

    def restore(self, snapshot: bytes, project: Project | None = None) -> None:
        """The server comes back from a backup: everything that came later is gone without a trace."""
        with self.lock:
            (project or self.project).restore(snapshot)

    # requests

    def handle(self, request: Request) -> Answer:
        faults = self.faults.matching(request.method, request.path)
        request.fault = ", ".join(fault.name for fault in faults)
        for fault in faults:
            answer = fault.before() if fault.before else None
            if answer is not None:
                return answer
        try:
            answer = self._carried_out(request, faults)
        except Refused as refused:
            answer = _refusal(refused)
        except Exception as error:  # a mistake of the stand-in's own must not look like the server's
            self.errors.append(error)
            answer = _json_answer(500, {"message": "Internal Server Error", "error": repr(error)})
        for fault in faults:
            if fault.changed:
                answer = fault.changed(answer)
        return answer

    def _carried_out(self, request: Request, faults: list[Any]) -> Answer:
        with self.lock:
            self.settle()
            route, arguments = routes.find(request.method, request.path, self.dialect)
            request.endpoint = f"{request.method} {route.pattern}"
            project = None
            if route.auth:
                project = self._project_of(request, route)
                for fault in faults:
                    if fault.name.startswith(f"other project:{project.public_key}:"):
                        project = self.projects[fault.name.rsplit(":", 1)[1]]
                if route.resource:
                    self._count(route.resource)
            if len(request.body) > BODY_LIMITS.get(route.pattern, 50_000_000):
                raise Refused(413, text="Body exceeded 1mb limit")
            status, body = route.run(routes.Call(self, project, request, arguments))
            if self.cloud and route.deprecated:
                body = {**body, "_deprecation": checks.DEPRECATION}
            if isinstance(body, dict) and isinstance(body.get("data"), list):
                request.rows = len(body["data"])
            return _json_answer(status, body)

    def _project_of(self, request: Request, route: routes.Route) -> Project:
        header = request.headers.get("Authorization")
        if not header:
            raise Refused(401, {"message": "No authorization header"})
        scheme, _, credentials = header.partition(" ")
        hint = "Confirm that you've configured the correct host."
        if scheme == "Basic":
            try:
                public, colon, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise Refused(401, {"message": f"Invalid character. {hint}"}) from None
            project = self.projects.get(public)
            request.public_key = public
            if not colon or project is None or project.secret_key != secret:
                raise Refused(401, {"message": f"Invalid credentials. {hint}"})
            return project
        if scheme == "Bearer" and credentials in self.projects:
            request.public_key = credentials
            if not route.public_key_is_enough:
                raise Refused(403, {"message": "Access denied - insufficient permissions for this endpoint"})
            return self.projects[credentials]
        raise Refused(401, {"message": f"Invalid credentials. {hint}"})

    def _count(self, resource: str) -> None:
        """The window opens with its first call; its last point already counts as too much, as recorded."""
        if resource not in self.limits:
            return
        limit, seconds = self.limits[resource]
        now = self.clock.ms()
        opened, used = self._windows.get(resource, (now, 0))
        if now >= opened + seconds * 1000:
            opened, used = now, 0
        self._windows[resource] = (opened, used + 1)
        if used + 1 < limit:
            return
        reset = opened + seconds * 1000
        wait = round((reset - now) / 1000)
        moment = datetime.fromtimestamp(reset / 1000, UTC)
        raise Refused(
            429,
            {
                "message": "Rate limit exceeded",
                "code": "rate_limited",
                "details": {"retryAfterSeconds": wait, "limit": limit, "remaining": 0, "resetAt": iso(reset)},
            },
            headers={
                "Retry-After": str(wait),
                "X-RateLimit-Limit": str(limit),
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": f"{moment:%a %b %d %Y %H:%M:%S} GMT+0000 (Coordinated Universal Time)",
            },
        )


def _json_answer(status: int, body: Any) -> Answer:
    try:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        content = json.dumps(body, separators=(",", ":")).encode()
    return Answer(status, content, {"Content-Type": "application/json; charset=utf-8"})


def _refusal(refused: Refused) -> Answer:
    if refused.html:
        answer = Answer(refused.status, HTML_404.encode(), {"Content-Type": "text/html; charset=utf-8"})
    elif refused.text is not None:
        answer = Answer(refused.status, refused.text.encode())
    elif refused.body is None:
        answer = Answer(refused.status, b"")
    else:
        answer = _json_answer(refused.status, refused.body)
    answer.headers |= refused.headers
    return answer


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], standin: LangfuseStandin) -> None:
        self.standin = standin
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is not worth a word."""

    def close_all(self) -> None:
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave in one piece

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(1 << 20)
        if not self.raw_requestline:
            self.close_connection = True
            return
        if len(self.raw_requestline) > NODE_HEADER_LIMIT:
            self._drain_headers()
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", "GET"
            self._send(Answer(431, b"", {"Connection": "close"}))
            self.close_connection = True
            return
        if not self.parse_request():
            return
        self._serve()

    def _drain_headers(self) -> None:
        while self.rfile.readline(1 << 16) not in (b"\r\n", b"\n", b""):
            pass

    def _serve(self) -> None:
        standin = self.server.standin
        body = self._body()
        target = urlsplit(self.path)
        query = parse_qs(target.query, keep_blank_values=True)
        with standin.lock:
            request = Request(len(standin.requests) + 1, self.command, target.path, query, self.headers, body)
            standin.requests.append(request)
        if standin.faults.latency:
            time.sleep(standin.faults.latency)
        answer = standin.handle(request)
        request.status = answer.status
        if not request.endpoint:
            request.endpoint = f"{request.method} {routes.label(request.path)}"
        if answer.cut is not None:
            self._cut(answer)
        else:
            self._send(answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    def _cut(self, answer: Answer) -> None:
        self.close_connection = True
        if answer.cut:
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: int(len(answer.body) * answer.cut)])
            self.wfile.flush()
        else:
            # a reset, not a clean end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.connection.close()
