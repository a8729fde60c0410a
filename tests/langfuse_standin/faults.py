"""What can go wrong on the way, on demand.

Every fault takes ``times`` (how often it strikes at most; None: for ever), ``after`` (how many matching requests it lets
pass first), ``every`` (only each n-th of them), ``method`` and ``path`` (a beginning of the path without the query).
Where neither ``times`` nor ``every`` is given it strikes once; a cut by ``cut_every``, a key that stopped working and
another project's data stay.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BAD_GATEWAY = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"


def _once(when: dict[str, Any]) -> None:
    when.setdefault("times", None if "every" in when else 1)


@dataclass
class Answer:
    """What goes out: ``body`` as bytes, and whether the connection is cut before (``cut=0``) or in the middle of it."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    cut: float | None = None


@dataclass
class Fault:
    """``before`` answers instead of the server (or returns None), ``changed`` changes the server's answer."""

    name: str
    before: Callable[[], Answer | None] | None = None
    changed: Callable[[Answer], Answer] | None = None
    times: int | None = None
    after: int = 0
    every: int = 1
    method: str | None = None
    path: str | None = None
    seen: int = 0
    struck: int = 0

    def strikes(self, method: str, path: str) -> bool:
        if (self.method and method != self.method) or (self.path and not path.startswith(self.path)):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.seen - self.after) % self.every:
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        self.struck += 1
        return True


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self.latency = 0.0  # seconds that every reply takes longer

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()
            self.latency = 0.0

    def remove(self, fault: Fault) -> None:
        with self._lock:
            self._faults.remove(fault)

    def matching(self, method: str, path: str) -> list[Fault]:
        with self._lock:
            return [fault for fault in self._faults if fault.strikes(method, path)]

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def cut_every(self, n: int, *, where: str = "before", **when: Any) -> Fault:
        """Cut the connection at every n-th request: ``before`` it is carried out, ``after`` it was carried out but
        before a byte of the reply, or in the ``body`` of the reply."""
        return self._cut(where, every=n, **when)

    def cut_at(self, n: int, *, where: str = "before", **when: Any) -> Fault:
        """Cut the connection at the n-th request from now on, once."""
        return self._cut(where, after=n - 1, times=1, **when)

    def _cut(self, where: str, **when: Any) -> Fault:
        if where == "before":
            return self.add(Fault("cut before", before=lambda: Answer(0, b"", cut=0.0), **when))
        share = {"after": 0.0, "body": 0.5}[where]

        def cut(answer: Answer) -> Answer:
            return Answer(answer.status, answer.body, answer.headers, cut=share)

        return self.add(Fault(f"cut {where}", changed=cut, **when))

    def answer(
        self, status: int, body: Any = None, *, headers: Mapping[str, str] | None = None, name: str = "", **when: Any
    ) -> Fault:
        """Answer so instead of doing anything. ``body``: text (as HTML), or anything that goes into JSON."""
        html = isinstance(body, str)
        content = body.encode() if html else b"" if body is None else json.dumps(body).encode()
        kind = "text/html" if html else "application/json; charset=utf-8"
        sent = {"Content-Type": kind, **(headers or {})}
        _once(when)
        return self.add(Fault(name or f"answer {status}", before=lambda: Answer(status, content, dict(sent)), **when))

    def rate_limit(self, retry_after: float = 1, *, limit: int = 30, **when: Any) -> Fault:
        """429 as recorded from a cloud region; ``retry_after`` seconds (86398 for what is counted by the day)."""
        body = {
            "message": "Rate limit exceeded",
            "code": "rate_limited",
            "details": {"retryAfterSeconds": retry_after, "limit": limit, "remaining": 0, "resetAt": None},
        }
        headers = {"Retry-After": str(retry_after), "X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": "0"}
        return self.answer(429, body, headers=headers, **when)

    def server_error(self, status: int = 500, **when: Any) -> Fault:
        return self.answer(status, {"message": "Internal Server Error", "error": "InternalServerError"}, **when)

    def bad_gateway(self, **when: Any) -> Fault:
        return self.answer(502, BAD_GATEWAY, **when)

    def unauthorized(self, *, after: int = 0, times: int | None = None, **when: Any) -> Fault:
        """The key stops working once ``after`` requests have passed."""
        body = {"message": "Invalid credentials. Confirm that you've configured the correct host."}
        return self.answer(401, body, after=after, times=times, **when)

    def html_instead(self, **when: Any) -> Fault:
        """200 with a login page, as a proxy sends it."""
        return self.answer(200, "<!DOCTYPE html><html><body>Sign in</body></html>", **when)

    def truncated_json(self, **when: Any) -> Fault:
        """Half of the reply, with a Content-Length that fits the half."""
        _once(when)

        def half(answer: Answer) -> Answer:
            return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)

        return self.add(Fault("truncated JSON", changed=half, **when))

    def rewrite(self, change: Callable[[Any], Any], *, name: str = "rewrite", **when: Any) -> Fault:
        """Send ``change(body)`` in place of a reply's JSON."""

        def changed(answer: Answer) -> Answer:
            if answer.status != 200:
                return answer
            return Answer(answer.status, json.dumps(change(json.loads(answer.body))).encode(), answer.headers)

        return self.add(Fault(name, changed=changed, **when))

    def empty_page(self, **when: Any) -> Fault:
        """A list that is empty and says that it is complete."""
        _once(when)

        def empty(body: dict[str, Any]) -> dict[str, Any]:
            meta = {key: value for key, value in body.get("meta", {}).items() if key != "cursor"}
            meta |= {key: 0 for key in ("totalItems", "totalPages") if key in meta}
            return {**body, "data": [], "meta": meta}

        return self.rewrite(empty, name="empty page", method="GET", **when)

    def half_listing(self, **when: Any) -> Fault:
        """The list ends early: a page is cut in half and says that it is the last one."""
        _once(when)

        def half(body: dict[str, Any]) -> dict[str, Any]:
            kept = body["data"][: len(body["data"]) // 2]
            meta = {key: value for key, value in body["meta"].items() if key != "cursor"}
            if "totalPages" in meta:
                meta |= {"totalPages": meta["page"], "totalItems": (meta["page"] - 1) * meta["limit"] + len(kept)}
            return {**body, "data": kept, "meta": meta}

        return self.rewrite(half, name="half listing", method="GET", **when)

    def short_page(self, drop: int = 1, **when: Any) -> Fault:
        """Rows are missing from a page, although its cursor goes on (v3 leaves out what it cannot convert)."""
        _once(when)

        def short(body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "data": body["data"][: max(0, len(body["data"]) - drop)]}

        return self.rewrite(short, name="short page", method="GET", **when)

    def repeat_row(self, row: Mapping[str, Any], **when: Any) -> Fault:
        """A page that ends with a row which an earlier one already showed, with an old value."""
        _once(when)
        return self.rewrite(
            lambda body: {**body, "data": [*body["data"], dict(row)]}, name="repeated row", method="GET", **when
        )

    def other_project(self, key: str, other: str, **when: Any) -> Fault:
        """From now on the public key ``key`` shows what the project of the public key ``other`` holds."""
        return self.add(Fault(f"other project:{key}:{other}", **when))
