"""Langfuse's webhooks: signed, and only from monitors, prompts and the project; none for scores.

A monitor that counts the human scores can wake a study; the schedule finds the rest.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import OrderedDict
from datetime import datetime

from calibrate_plugin.connector import Finding, Forged, Incoming, Repeated, SourceSettings, same

HEADER = "x-langfuse-signature"
VARIABLE = "CALIBRATE_LANGFUSE_SIGNING_SECRET"
WINDOW = 300.0  # seconds that a signature is good for, to both sides
SEEN = 10_000  # signatures remembered within the window


def signature(secret: str, at: int, body: bytes) -> str:
    """What Langfuse sends: ``t=<seconds>,v1=<hex>``, the HMAC-SHA256 over ``<t>.<raw body>``.

    >>> signature("s", 1, b"{}")[:12]
    't=1,v1=b2536'
    """
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Signed:
    """Checks signatures, and remembers those of the last minutes."""

    def __init__(self, settings: SourceSettings) -> None:
        self.settings = settings
        self._seen: OrderedDict[str, datetime] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, incoming: Incoming) -> None:
        """Raises Forged where the signature is not right or not fresh, Repeated where it came before."""
        secret = self.settings.secret(VARIABLE)
        given = dict(part.partition("=")[::2] for part in incoming.headers.get(HEADER, "").split(",")[:8])
        stamp = given.get("t", "")
        if not secret or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
            raise Forged(f"{self.settings.name}: a webhook without a signature that {VARIABLE} could prove")
        expected = signature(secret, int(stamp), incoming.body).partition("v1=")[2]
        if not same(given.get("v1", ""), expected):
            raise Forged(f"{self.settings.name}: a webhook with a wrong signature")
        if abs(incoming.at.timestamp() - int(stamp)) > WINDOW:
            raise Forged(f"{self.settings.name}: a webhook whose signature is too old")
        with self._lock:
            if expected in self._seen:
                raise Repeated(f"{self.settings.name}: a webhook that came before")
            self._seen[expected] = incoming.at
            while len(self._seen) > SEEN:
                self._seen.popitem(last=False)


def advice(url: str) -> list[Finding]:
    """What Langfuse offers: nothing that a program could set up."""
    return [
        Finding(
            "warning",
            "Langfuse",
            "Langfuse sends no webhook when a score is given or changed; the schedule finds these",
            "to be woken sooner, make a monitor in its settings that counts the scores of source ANNOTATION (window 5 minutes,"
            f" notify every time), let its webhook go to {url}, and give the signing secret in {VARIABLE}",
        )
    ]
