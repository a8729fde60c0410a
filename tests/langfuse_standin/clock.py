"""The server's own time, so that a test need not wait for what takes a real server seconds or days."""

from __future__ import annotations

import threading
import time
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000


def to_ms(moment: datetime | str | int) -> int:
    """Milliseconds since 1970; a datetime or text without a zone is UTC, digits below the millisecond are cut."""
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=4096)
def _day(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def iso(ms: int) -> str:
    """``2026-11-30T21:34:20.465Z``, the only way Langfuse writes a time."""
    day, rest = divmod(ms, DAY_MS)
    seconds, milli = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day(day)}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"


class Clock:
    """Stands still unless moved (``speed=0``), or runs ``speed`` times as fast as real time from ``start`` on."""

    def __init__(self, start: datetime | str = "2026-11-30T12:00:00Z", speed: float = 0) -> None:
        self._base = to_ms(start)
        self._speed = speed
        self._since = time.monotonic()
        self._lock = threading.Lock()

    def ms(self) -> int:
        return self._base + int((time.monotonic() - self._since) * 1000 * self._speed) if self._speed else self._base

    def now(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self.ms())

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        span = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        with self._lock:
            self._base += span // timedelta(milliseconds=1)

    def set(self, moment: datetime | str) -> None:
        """Jump to a moment, back in time too."""
        with self._lock:
            self._base, self._since = to_ms(moment), time.monotonic()
