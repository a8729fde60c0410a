"""Requests to one Langfuse, with its rate limits, its retries and its ways of saying no.

Everything goes through one ``httpx.Client`` and none of it through ``langfuse.api``: the SDK's closed models fail a whole
page for one score of an unknown type, its methods change their meaning between versions 4 and 5 (each speaks to some
servers only), it waits at most a minute where Langfuse asks for a day, and importing it costs 0.2 s. The dozen endpoints
that are used here are few enough to be named.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from calibrate_plugin.connector import ConnectorError, SettingsError, SourceSettings, Unavailable

log = logging.getLogger("calibrate_langfuse")

#: How often a request is tried when the connection breaks or the server stumbles.
ATTEMPTS = 5
#: The longest wait that is waited, in seconds: Langfuse's limits are by the minute or by the day.
LONGEST_WAIT = 150.0

Params = Mapping[str, str | int] | Sequence[tuple[str, str | int]]


class Refused(ConnectorError):
    """Langfuse will not do what was asked, however often it is asked."""


class NotOffered(Unavailable):
    """This server, or its mode, does not have the endpoint."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and waiting, so that a test need not wait."""

    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class Pace:
    """Keeps requests below the limit of calls per minute, once the server has named one; it names none before that."""

    clock: Clock
    limit: int | None = None
    _times: deque[float] = field(default_factory=deque)
    _not_before: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self) -> None:
        """Wait for this request's turn."""
        while True:
            with self._lock:
                now = self.clock.now().timestamp()
                ready = self._not_before
                if self.limit is not None:
                    while self._times and self._times[0] <= now - 60:
                        self._times.popleft()
                    # The last call of a limit is refused already, and others share it.
                    if len(self._times) >= max(1, self.limit - 2):
                        ready = max(ready, self._times[0] + 60)
                if ready <= now:
                    self._times.append(now)
                    if self.limit is None and len(self._times) > 2000:
                        self._times.popleft()
                    return
            self.clock.sleep(max(0.01, ready - now))

    def slow_down(self, seconds: float, limit: int | None) -> None:
        """The server asks to wait. Everybody waits."""
        with self._lock:
            now = self.clock.now().timestamp()
            self._not_before = max(self._not_before, now + seconds)
            if limit is not None and limit > 0:
                self.limit = limit
                while len(self._times) > limit:
                    self._times.popleft()


class Langfuse:
    """A Langfuse server and the project of a key."""

    def __init__(
        self,
        url: str,
        public_key: str,
        secret_key: str,
        *,
        clock: Clock | None = None,
        transport: httpx.BaseTransport | None = None,
        timeout: float = 60.0,
        verify: ssl.SSLContext | bool = True,
        proxy: str | None = None,
        connections: int = 8,
    ) -> None:
        self.url = url
        self.clock = clock or Clock()
        self.pace = Pace(self.clock)
        self.requests = 0
        self.skew: timedelta | None = None  # the server's clock less ours, by its last reply
        self._count = threading.Lock()
        self._http = httpx.Client(
            base_url=url,
            auth=(public_key, secret_key),
            timeout=httpx.Timeout(timeout, connect=10.0),
            transport=transport,
            verify=verify,
            proxy=proxy,
            limits=httpx.Limits(max_connections=connections + 2, max_keepalive_connections=connections + 2),
            headers={"Accept": "application/json", "User-Agent": "calibrate-plugin"},
        )

    @classmethod
    def of(cls, settings: SourceSettings, **changes: Any) -> Langfuse:
        """The server and key that the environment names. Raises SettingsError naming the variables."""
        where, options = f"sources.{settings.name}", settings.options
        url = settings.secret("LANGFUSE_BASE_URL") or settings.secret("LANGFUSE_HOST") or options.get("url")
        public, secret = settings.secret("LANGFUSE_PUBLIC_KEY"), settings.secret("LANGFUSE_SECRET_KEY")
        prefix = f"{settings.env}_" if settings.env else ""
        missing = [
            f"{prefix}{name}"
            for name, value in (
                ("LANGFUSE_BASE_URL", url),
                ("LANGFUSE_PUBLIC_KEY", public),
                ("LANGFUSE_SECRET_KEY", secret),
            )
            if not value
        ]
        if missing or not (url and public and secret):
            raise SettingsError(
                f"{where} needs the environment variable{'s' * (len(missing) > 1)} {', '.join(missing)} "
                f'(or {missing[0]}_FILE naming a file), or file = "scores.csv"'
            )
        verify: ssl.SSLContext | bool = True
        if ca := options.get("ca_file"):
            try:
                verify = ssl.create_default_context(cafile=os.fspath(ca))
            except (OSError, ssl.SSLError, TypeError) as error:
                raise SettingsError(
                    f"{where}.ca_file names {ca!r}, which is no file of certificates: {error}"
                ) from None
        timeout, proxy = options.get("timeout", 60), options.get("proxy")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
            raise SettingsError(f"{where}.timeout is {timeout!r}; give seconds above 0")
        given = {
            "verify": verify,
            "proxy": proxy,
            "timeout": float(timeout),
            "connections": int(options.get("workers", 8)),
            **changes,
        }
        try:
            return cls(base_url(url, where), public, secret, **given)
        except (ValueError, TypeError, httpx.InvalidURL, ImportError):
            raise SettingsError(f"{where}.proxy is no address of a proxy, e.g. http://proxy.example:3128") from None

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Any:
        """The JSON of a reply."""
        return self.request("GET", path, params=params)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of a reply, however many tries it takes.

        Every write carries ids of its own, so a write that is tried again changes nothing. Raises Refused (400, 413),
        NotOffered (404 of an endpoint) or Unavailable; the message names the URL.
        """
        where = f"{method} {self.url}/api/public{path}"
        content = None if body is None else encoded(body)
        sent = {**({"Content-Type": "application/json"} if content is not None else {}), **(headers or {})}
        waited = 0.0
        attempt = 0
        while True:
            self.pace.wait()
            attempt += 1
            with self._count:
                self.requests += 1
            trouble: str
            try:
                reply = self._http.request(
                    method, f"/api/public{path}", params=_params(params), content=content, headers=sent
                )
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                self._note_time(reply)
                if reply.status_code == 429:
                    seconds = retry_after(reply, self.clock.now())
                    waited += seconds
                    if seconds > LONGEST_WAIT or waited > 10 * LONGEST_WAIT:
                        when = self.clock.now() + timedelta(seconds=seconds)
                        raise Unavailable(
                            f"{where}: the rate limit of this Langfuse plan is used up; it opens again at"
                            f" {when:%Y-%m-%d %H:%M} UTC. Sync again after that, or less often"
                        )
                    limit = reply.headers.get("X-RateLimit-Limit", "")
                    self.pace.slow_down(seconds, int(limit) if limit.isdigit() else None)
                    log.info("rate limit of %s calls a minute reached; going on in %.0f s", limit or "?", seconds)
                    attempt -= 1
                    continue
                if 200 <= reply.status_code < 300:
                    try:
                        return self._read(reply)
                    except (ValueError, RecursionError) as error:
                        if is_html(reply):
                            raise Unavailable(
                                f"{where} answered with a web page where JSON was due: is the address right, and does no"
                                " proxy or login stand before it?"
                            ) from None
                        trouble = f"the reply is not whole JSON ({error})"
                elif reply.status_code in (408, 409, 425) or reply.status_code >= 500:
                    trouble = f"status {reply.status_code}{_said(reply)}"
                else:
                    raise _refusal(where, reply)
            if attempt >= ATTEMPTS:
                raise Unavailable(f"{where} failed {attempt} times, last with {trouble}; try again later")
            log.info("%s: %s; trying again", where, trouble)
            self.clock.sleep(min(8.0, 0.5 * 2 ** (attempt - 1)))

    def pages(
        self, path: str, params: Mapping[str, str | int] | None = None, *, limit: int = 100
    ) -> Iterator[dict[str, Any]]:
        """The rows of a list with page numbers."""
        page = 1
        while True:
            body = self.get(path, {**(params or {}), "limit": limit, "page": page})
            rows = data_of(body, f"{self.url}/api/public{path}")
            yield from rows
            meta = body.get("meta")
            total = meta.get("totalPages") if isinstance(meta, dict) else None
            if not rows or (isinstance(total, int) and page >= total):
                return
            page += 1

    def cursor_pages(self, path: str, params: Mapping[str, str | int]) -> Iterator[dict[str, Any]]:
        """The rows of a list with a cursor. A short page is not the last one; a page without a cursor is."""
        cursor: str | None = None
        while True:
            body = self.get(path, {"limit": 100, **params, **({"cursor": cursor} if cursor else {})})
            yield from data_of(body, f"{self.url}/api/public{path}")
            meta = body.get("meta")
            before, cursor = cursor, meta.get("cursor") if isinstance(meta, dict) else None
            if not cursor:
                return
            if cursor == before:
                raise Unavailable(
                    f"{self.url}/api/public{path} gives the same cursor again, so the list would never end"
                )

    def _read(self, reply: httpx.Response) -> Any:
        return json.loads(reply.content) if reply.content else None

    def _note_time(self, reply: httpx.Response) -> None:
        if date := reply.headers.get("Date"):
            try:
                self.skew = parsedate_to_datetime(date) - self.clock.now()
            except ValueError:
                return


def base_url(url: str, where: str) -> str:
    """The address of a server, without what people copy along with it. Raises SettingsError, which never repeats a key."""
    parts = urlsplit(url.strip())
    if parts.username or parts.password:
        raise SettingsError(f"{where}: the address of Langfuse must not hold a name or key; give it by the environment")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{where}: {url!r} is not the address of a server, e.g. https://cloud.langfuse.com")
    path = re.sub(r"/api(/public)?/?$", "", parts.path).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def encoded(body: Any) -> bytes:
    """``body`` as JSON. Raises UnicodeEncodeError for a lone surrogate: one of them loses everybody's scores of a second."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def data_of(body: Any, where: str) -> list[dict[str, Any]]:
    """The rows of a list. Raises Unavailable where the reply is none."""
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise Unavailable(f"{where} answered with something that is no list of records")
    return [row for row in rows if isinstance(row, dict)]


def is_html(reply: httpx.Response) -> bool:
    return "html" in reply.headers.get("Content-Type", "") or reply.content[:200].lstrip().lower().startswith(
        (b"<!doctype html", b"<html")
    )


def retry_after(reply: httpx.Response, now: datetime) -> float:
    """Seconds to wait: the header has seconds or a date, the body has them too."""
    given = reply.headers.get("Retry-After", "")
    try:
        return max(0.1, float(given))
    except ValueError:
        pass
    try:
        return max(0.1, (parsedate_to_datetime(given) - now).total_seconds())
    except (ValueError, TypeError):
        pass
    try:
        return max(0.1, float(reply.json()["details"]["retryAfterSeconds"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return 5.0


def _params(params: Params | None) -> list[tuple[str, str | int | float | bool | None]] | None:
    if params is None:
        return None
    return list(params.items()) if isinstance(params, Mapping) else list(params)


def _said(reply: httpx.Response) -> str:
    """What the server says, short."""
    if is_html(reply):
        return " (a web page)"
    try:
        body = json.loads(reply.content)
    except (ValueError, RecursionError):
        return ""
    message = body.get("message") if isinstance(body, dict) else body
    details = body.get("error") if isinstance(body, dict) else None
    if isinstance(details, list):
        message = "; ".join(str(d.get("message", d)) if isinstance(d, dict) else str(d) for d in details[:3])
    return f": {_without_key(str(message), reply.request)[:300]}" if message else ""


def _without_key(text: str, request: httpx.Request) -> str:
    """``text`` without the key that ``request`` carried: a gateway may repeat what it was sent."""
    sent = request.headers.get("Authorization", "").partition(" ")[2]
    secret = base64.b64decode(sent).decode("utf-8", "replace").partition(":")[2]
    for hidden in filter(None, (sent, secret)):
        text = text.replace(hidden, "***")
    return text


def _refusal(where: str, reply: httpx.Response) -> ConnectorError:
    status, said = reply.status_code, _said(reply)
    if status in (301, 302, 303, 307, 308):
        return Unavailable(f"{where} was sent on to another address; give the address it leads to")
    if status == 401:
        return Unavailable(
            f"{where}: Langfuse does not know the key{said}. Check LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, and that they"
            " are of this server"
        )
    if status == 403:
        return Unavailable(f"{where}: the key may not do this{said}. Give a project key with its secret key")
    if status in (404, 405):
        return NotOffered(f"{where}: not on this server{said}")
    return Refused(f"{where}: refused with status {status}{said}")
