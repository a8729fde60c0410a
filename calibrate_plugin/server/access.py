"""Who may read and who may write, how a browser stays signed in, and what every answer carries.

Without tokens only this machine gets in, by its own name: a page of somebody else's that has its host name point here is
turned away. A token in a header is for programs; a browser trades it for a cookie, and what it writes carries a proof that
it came from our own page.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from calibrate_plugin.connector import SettingsError, same
from calibrate_plugin.report.display import visible

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Level = Literal["none", "read", "write"]

log = logging.getLogger("calibrate_plugin.server.access")

COOKIE = "calibrate_session"
SESSION = 12 * 3600  # seconds
MOST_BODY = 64_000  # bytes of a form or an API call
#: What needs no sign-in: it tells nothing of the study, or has a proof of its own.
OPEN = ("/healthz", "/readyz", "/login", "/static/", "/webhooks/")
#: What is told for as long as somebody listens; whoever asks for the head of it listens to nothing.
ENDLESS = ("/events",)
LOCAL = ("localhost", "127.0.0.1", "::1")
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


def secret(variable: str) -> str | None:
    """The value of an environment variable, or of the file that ``<variable>_FILE`` names. Raises SettingsError."""
    if path := os.environ.get(f"{variable}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"{variable}_FILE names {path}, which cannot be read") from None
    return os.environ.get(variable) or None


@dataclass(frozen=True)
class Access:
    """``read`` and ``write`` are tokens; ``proxy_header`` is a header that a proxy in front sets for those whom it let in, and
    takes from everybody else. With none of them only requests to one of ``hosts`` get in."""

    read: str | None = None
    write: str | None = None
    proxy_header: str | None = None
    hosts: tuple[str, ...] = LOCAL
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not self.key:
            # The same in every process that has the same tokens, so that a session outlives a restart.
            told = f"{self.read}\x1f{self.write}".encode()
            own = hashlib.sha256(b"session" + told).digest() if self.guarded else secrets.token_bytes(32)
            object.__setattr__(self, "key", own)

    def __repr__(self) -> str:
        return f"Access(guarded={self.guarded})"

    @classmethod
    def of(cls, host: str, proxy_header: str | None = None) -> Access:
        """As the environment says. Raises SettingsError where anybody could get in from another machine."""
        made = cls(secret("CALIBRATE_READ_TOKEN"), secret("CALIBRATE_WRITE_TOKEN"), proxy_header)
        for name, token in (("CALIBRATE_READ_TOKEN", made.read), ("CALIBRATE_WRITE_TOKEN", made.write)):
            if token is not None and len(token) < 16:
                raise SettingsError(f"{name} is shorter than 16 characters, which can be guessed; make a longer one")
        if host not in LOCAL and not made.guarded:
            raise SettingsError(
                f"--host {host} can be reached from other machines, and nothing says who may get in; set"
                " CALIBRATE_READ_TOKEN and CALIBRATE_WRITE_TOKEN, or name the header of the proxy in front with"
                " --proxy-header, or leave out --host"
            )
        return made

    @property
    def guarded(self) -> bool:
        return bool(self.read or self.write or self.proxy_header)

    def of_token(self, token: str) -> Level:
        """What a token is good for."""
        writes, reads = same(token, self.write), same(token, self.read)
        return "write" if writes else "read" if reads else "none"

    # --- sessions

    def session(self, level: Level) -> str:
        """A cookie's value: what it is good for, until when, and our seal on it."""
        told = f"{level}.{int(time.time()) + SESSION}.{secrets.token_hex(8)}"
        return f"{told}.{self._seal(told)}"

    def of_session(self, cookie: str) -> Level:
        told, _, seal = cookie.rpartition(".")
        if not same(seal, self._seal(told)):
            return "none"
        level, until, _ = told.split(".")
        if int(until) < time.time():
            return "none"
        return "write" if level == "write" else "read"

    def proof(self, cookie: str) -> str:
        """What a form of ours carries, so that no other page can send it."""
        return self._seal(f"form {cookie}")

    def _seal(self, told: str) -> str:
        return hmac.new(self.key, told.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    # --- requests

    def of_request(self, headers: dict[str, str]) -> tuple[Level, str]:
        """What a request may do, and its cookie where that says so."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if token:
            return (self.of_token(token.strip()) if scheme.lower() == "bearer" else "none"), ""
        if self.proxy_header and headers.get(self.proxy_header.lower()):
            return "write", ""
        if not self.guarded:
            return "write", ""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return self.of_session(value), value
        return "none", ""


class Guard:
    """Around the whole application: who gets in, how much they may send, what every answer carries, and one line of log each."""

    def __init__(self, app: Asgi, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        path: str = scope["path"]
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        head = scope["method"] == "HEAD"
        if head:  # it is answered like GET, and without what GET would be told
            scope = {**scope, "method": "GET"}
        status = 500
        begun = False
        limit = _Limit(receive)

        async def sending(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                if limit.exceeded:  # whoever read the body may have taken it for a broken one
                    message = {**message, "status": 413}
                status, begun = message["status"], True
                given = {k.lower() for k, _ in message["headers"]}
                more = [(k, v) for k, v in HEADERS if k not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            elif head:
                message = {**message, "body": b""}
            await send(message)

        try:
            refusal = self._refusal(scope, path, headers)
            if refusal is not None:
                await _answer(sending, *refusal)
                return
            if head and path in ENDLESS:
                await _answer(sending, 200, "")
                return
            await self.app(scope, receive if path.startswith("/webhooks/") else limit.receive, sending)
        except _TooLarge:
            if not begun:
                await _answer(sending, 413, "the request is too large")
        except Exception:
            log.exception("%s %s failed", scope["method"], shown(path))
            if not begun:
                await _answer(sending, 500, "something went wrong here; the log says what")
        finally:
            method = "HEAD" if head else scope["method"]
            log.info("%s %s %d %.0f ms", method, shown(path), status, 1000 * (time.monotonic() - started))

    def _refusal(
        self, scope: Scope, path: str, headers: dict[str, str]
    ) -> tuple[int, str] | tuple[int, str, str] | None:
        length = headers.get("content-length", "0")
        if not path.startswith("/webhooks/") and (not length.isdigit() or int(length) > MOST_BODY):
            return 413, "the request is too large"
        if not self.access.guarded and not path.startswith(("/webhooks/", "/healthz", "/readyz")):
            try:
                host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
            except ValueError:  # half a bracket
                host = ""
            if host not in self.access.hosts:
                return 421, "this service answers to localhost only; set tokens to let others in"
        level, cookie = self.access.of_request(headers)
        scope.setdefault("state", {})
        scope["state"] |= {"level": level, "cookie": cookie}
        if any(path == o or (o.endswith("/") and path.startswith(o)) for o in OPEN):
            return None
        writes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if level == "none" or (writes and level != "write"):
            if level == "none" and not writes and "text/html" in headers.get("accept", ""):
                query = scope.get("query_string", b"").decode("latin-1")
                return 303, "sign in first", f"/login?next={quote(path + ('?' + query if query else ''), safe='')}"
            return (401, "a token is needed") if level == "none" else (403, "this needs the write token")
        if writes and "authorization" not in headers and not self._ours(headers):
            return 403, "this did not come from a page of this service"
        return None

    def _ours(self, headers: dict[str, str]) -> bool:
        """Whether a browser sent this from one of our own pages; a program says nothing of the kind."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        try:
            return origin is None or urlsplit(origin).netloc == headers.get("host")
        except ValueError:  # half a bracket
            return False


def shown(path: str) -> str:
    """A path as the log may have it: without what only the sender of a webhook may know."""
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "webhooks":
        parts[3:] = ["***"]
    return visible("/".join(parts)[:300])


class _TooLarge(Exception):
    pass


class _Limit:
    """Lets a body in up to a size."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size, self.exceeded = receive, 0, False

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > MOST_BODY:
            self.exceeded = True
            raise _TooLarge
        return message


async def _answer(send: Send, status: int, detail: str, location: str = "") -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if location:
        headers.append((b"location", location.encode("ascii", "replace")))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": detail.encode()})
