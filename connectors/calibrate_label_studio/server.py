"""Talking with a Label Studio server: one connection pool, either kind of key, reads that are tried again, writes that
never are.

A key is sent to the address that the study gives and nowhere else: redirects within it are followed, others are refused.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from calibrate_label_studio.options import checked_address
from calibrate_plugin.connector import ConnectorError, SettingsError, SourceSettings, Unavailable

log = logging.getLogger(__name__)

TRIES = 5
LONGEST_WAIT = 60.0  # seconds; a server that asks for more is left alone
TIMEOUT = httpx.Timeout(connect=10, read=300, write=60, pool=10)  # a snapshot answers when it is made
MOST_WORDS = 200  # characters of what the server says
RENEW = 0.8  # of an access token's life


class Refused(ConnectorError):
    """The server answered, and the answer is no. ``status`` is its HTTP status, ``detail`` its own words."""

    def __init__(self, message: str, status: int, detail: str) -> None:
        super().__init__(message)
        self.status, self.detail = status, detail


class Broken(Unavailable):
    """The server failed on this very request (500), so that a smaller one may work."""


class Half(Unavailable):
    """The answer broke off, so that the same request may work."""


@dataclass(slots=True)
class _Key:
    """A legacy token, which is sent as it is, or a personal access token, which buys access for some minutes."""

    secret: str
    access: str | None = None
    renew_at: float = 0.0

    @property
    def personal(self) -> bool:
        return self.secret.count(".") == 2

    def __repr__(self) -> str:
        return "_Key(...)"


def lifetime(token: str) -> float:
    """Seconds that a JWT lives, by its own words; 300 (Label Studio's default) where it does not say.

    >>> lifetime("head.eyJpYXQiOiAxMDAsICJleHAiOiAxNjB9.signature")
    60.0
    """
    try:
        payload = token.split(".")[1]
        told = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(told["exp"]) - float(told["iat"]))
    except (ValueError, LookupError, TypeError):
        return 300.0


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` asks for, given as seconds or as a date; None where it says nothing readable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())


class Server:
    """A Label Studio server. ``transport`` and ``sleep`` are for tests. Counts its ``requests`` and the bytes ``received``."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        ca_file: str | None = None,
        proxy: str | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.sleep, self.requests, self.received = url, sleep, 0, 0
        self.skew: timedelta | None = None  # the server's clock minus ours, from its last answer
        self._key = _Key(key)
        self._origin = urlsplit(url)[:2]
        verify: Any = True
        if ca_file := ca_file or os.environ.get("SSL_CERT_FILE"):
            import ssl

            try:
                verify = ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                raise SettingsError(f"ca_file {ca_file} cannot be read: {error}") from None
        try:
            self.http = httpx.Client(
                timeout=TIMEOUT,
                verify=verify,
                proxy=proxy,
                transport=transport,
                follow_redirects=False,
                cookies=CookieJar(
                    DefaultCookiePolicy(allowed_domains=[])
                ),  # a session cookie would ask for CSRF tokens
                headers={"Accept": "application/json", "User-Agent": "calibrate-plugin"},
            )
        except ValueError:  # whose words would show a password in the proxy's address
            raise SettingsError("the proxy is no address of one; give one like http://proxy.example.com:3128") from None

    @classmethod
    def of(cls, settings: SourceSettings, **more: Any) -> Server:
        """The server that a study names, by its settings or the environment. Raises SettingsError."""
        variable = f"{settings.env}_LABEL_STUDIO_URL" if settings.env else "LABEL_STUDIO_URL"
        called, url = f"sources.{settings.name}.url", settings.options.get("url")
        if url is None:
            called, url = variable, settings.secret("LABEL_STUDIO_URL")
        if url is None:
            raise SettingsError(f"sources.{settings.name}: give the server's address as url, or in {variable}")
        url = checked_address(url, called)
        key = settings.secret("LABEL_STUDIO_API_KEY")
        if not key:
            name = variable.replace("_URL", "_API_KEY")
            raise SettingsError(f"{name} is not set; it takes a token from Account & Settings in Label Studio")
        if not key.isascii() or any(c.isspace() for c in key):
            raise SettingsError(
                f"{variable.replace('_URL', '_API_KEY')} holds characters that no token has; copy it again"
            )
        options: dict[str, Any] = {k: settings.options.get(k) for k in ("ca_file", "proxy")}
        for name, value in options.items():
            if value is not None and not isinstance(value, str):
                raise SettingsError(f"sources.{settings.name}.{name} is {value!r}; give it as text")
        return cls(url, key, **options, **more)

    def close(self) -> None:
        self.http.close()

    # -- keys

    def _authorization(self, fresh: bool = False) -> str:
        key = self._key
        if not key.personal:
            return f"Token {key.secret}"
        if fresh or key.access is None or time.monotonic() >= key.renew_at:
            asked = time.monotonic()
            answer = self._exchange(
                "POST", "/api/token/refresh/", authorization=None, json={"refresh": key.secret}, tries=TRIES
            )
            if answer.status_code in (400, 401, 403, 404):
                raise self._refused(answer, "/api/token/refresh/")
            self._check(answer)
            told = self._json(answer)
            access = told.get("access") if isinstance(told, dict) else None
            if not isinstance(access, str):
                raise Unavailable(f"{self.url}/api/token/refresh/ gave no access token")
            key.access, key.renew_at = access, asked + RENEW * lifetime(access)
        return f"Bearer {key.access}"

    # -- one exchange

    def _exchange(
        self, method: str, path: str, *, authorization: str | None, tries: int, **more: Any
    ) -> httpx.Response:
        """One answer, whatever its status. Network failures, 429 and gateway errors are met with patience if ``tries``."""
        url = self.url + path
        headers = {"Authorization": authorization} if authorization else {}
        for attempt in range(1, tries + 1):
            try:
                self.requests += 1
                response = self._follow(self.http.build_request(method, url, headers=headers, **more))
            except httpx.HTTPError as error:
                if attempt == tries:
                    raise Unavailable(f"{url} does not answer: {_plain(error)}") from None
                self._pause(attempt)
                continue
            self._note(response)
            if response.status_code == 429:
                wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
                response.close()
                if wait is not None and wait > LONGEST_WAIT:
                    when = datetime.now(UTC) + timedelta(seconds=min(wait, 366 * 86400))
                    raise Unavailable(f"{url} asks to wait until {when:%Y-%m-%d %H:%M} UTC (Retry-After)")
                if attempt < tries:
                    self._pause(attempt, wait)
                    continue
                raise Unavailable(f"{url} asks to wait, again and again (429)")
            if response.status_code in (502, 503, 504) and attempt < tries:
                response.close()
                self._pause(attempt)
                continue
            return response
        raise AssertionError("tries is 1 or more")

    def _pause(self, attempt: int, wait: float | None = None) -> None:
        self.sleep(wait if wait is not None else 0.5 * 2 ** (attempt - 1) * random.uniform(0.8, 1.2))  # noqa: S311

    def _follow(self, request: httpx.Request) -> httpx.Response:
        for _ in range(4):
            response = self.http.send(request, stream=True)
            if response.next_request is None:
                return response
            response.close()
            target = urljoin(str(request.url), response.headers.get("location", ""))
            if urlsplit(target)[:2] != self._origin:
                place = "{0.scheme}://{0.netloc}".format(urlsplit(target))
                raise SettingsError(
                    f"{self.url} sends us on to {place}, where no key is sent unasked; give that address if it is right"
                )
            if request.method != "GET":
                raise SettingsError(
                    f"{self.url} sends a {request.method} on to {target}; give the address as the server wants it"
                )
            request = self.http.build_request("GET", target, headers=request.headers)
        raise ConnectorError(f"{self.url} sends us in circles")

    def _note(self, response: httpx.Response) -> None:
        # Django's own server delays small answers on a kept connection by 40 ms; others are better kept.
        if response.headers.get("server", "").startswith("WSGIServer"):
            self.http.headers["Connection"] = "close"
        with suppress(KeyError, ValueError, TypeError):
            self.skew = parsedate_to_datetime(response.headers["date"]) - datetime.now(UTC).replace(microsecond=0)

    def _refused(self, response: httpx.Response, path: str) -> Refused:
        detail = self._detail(response)
        status = response.status_code
        if status == 401:
            what = f"does not accept the key ({detail}); give a valid one in LABEL_STUDIO_API_KEY"
            if "legacy" in detail:
                what = "has legacy tokens switched off; give a personal access token in LABEL_STUDIO_API_KEY"
        elif status == 403:
            what = f"does not allow it ({detail}); the key's owner must be a member of the project's organization"
        elif status == 404:
            what = f"says there is no such thing ({detail})"
        else:
            what = f"answers {status}: {detail}"
        return Refused(f"{self.url}{path} {what}", status, detail)

    def _check(self, response: httpx.Response) -> httpx.Response:
        """The answer, if it is a good one; its body is read, unless that is still to be streamed."""
        status = response.status_code
        if status < 300:
            return response
        response.read()
        path = response.request.url.path
        if status == 500:
            raise Broken(f"{_address(response)} fails on the server (500: {self._detail(response)})")
        if status > 500:
            raise Unavailable(f"{_address(response)} does not answer ({status})")
        raise self._refused(response, path.removeprefix(urlsplit(self.url).path))

    def _detail(self, response: httpx.Response) -> str:
        """The server's own words without our key, which a gateway may repeat."""
        text = _words(response)
        for hidden in filter(None, (self._key.secret, self._key.access)):
            text = text.replace(hidden, "***")
        return text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + "…"

    def _json(self, response: httpx.Response) -> Any:
        try:
            response.read()
        except httpx.HTTPError as error:
            raise Half(f"{_address(response)} broke off: {_plain(error)}") from None
        self.received += len(response.content)
        kind = response.headers.get("content-type", "")
        if "json" not in kind:
            shown = kind.split(";")[0] or "something without a type"
            raise Unavailable(
                f"{_address(response)} gives {shown} where JSON was due; is {self.url} the address of Label Studio itself, path and all?"
            )
        try:
            return json.loads(response.content, parse_constant=str)
        except (ValueError, RecursionError):
            raise Half(f"{_address(response)} gives broken JSON, perhaps only half of it") from None

    def _send(self, method: str, path: str, *, tries: int, **more: Any) -> httpx.Response:
        response = self._exchange(method, path, authorization=self._authorization(), tries=tries, **more)
        if response.status_code == 401 and self._key.personal:
            response.close()
            response = self._exchange(method, path, authorization=self._authorization(fresh=True), tries=tries, **more)
        return self._check(response)

    # -- what others use

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, again: bool = True) -> Any:
        """The JSON at ``path``. Asked again where the network, the gateway or the answer breaks, and once after a 500,
        except without ``again``."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._json(self._send("GET", path, tries=TRIES, params=params))
            except Broken:
                if attempt > 1 or not again:
                    raise
            except Half:
                if attempt == TRIES:
                    raise
            self._pause(attempt)
        raise AssertionError("a try returns or raises")

    def project(self, number: int) -> dict[str, Any]:
        """What the server says of a project."""
        path = f"/api/projects/{number}/"
        told = self.get(path)
        if not isinstance(told, dict):
            raise Unavailable(f"{self.url}{path} gives no project")
        return told

    def write(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer to a write, which is sent once: a second one could write twice."""
        response = self._send(method, path, tries=1, json=body, params=params)
        response.read()
        return self._json(response) if response.content else None

    @contextmanager
    def download(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[Iterator[bytes]]:
        """The bytes at ``path`` as they come."""
        response = self._send("GET", path, tries=TRIES, params=params)
        try:
            if "json" not in response.headers.get("content-type", ""):
                response.read()
                self._json(response)
            yield self._bytes(response)
        finally:
            response.close()

    def _bytes(self, response: httpx.Response) -> Iterator[bytes]:
        try:
            for chunk in response.iter_bytes(1 << 20):
                self.received += len(chunk)
                yield chunk
        except httpx.HTTPError as error:
            raise Half(f"{_address(response)} broke off: {_plain(error)}") from None


def _address(response: httpx.Response) -> str:
    return str(response.request.url.copy_with(query=None))


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__


def _words(response: httpx.Response) -> str:
    """The server's own words, if it has any."""
    try:
        response.read()
        told = json.loads(response.content)
    except (ValueError, RecursionError, httpx.HTTPError):
        kind: str = response.headers.get("content-type", "no words")
        return kind.split(";")[0]
    words: object = told
    if isinstance(told, dict):
        words = told.get("validation_errors") or told.get("detail") or told
    return words if isinstance(words, str) else json.dumps(words, ensure_ascii=True)
