"""What the receiver, the worker, the pages and the API share: one study, its store, its numbers and how it fares."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from calibrate_plugin.config import Config
from calibrate_plugin.connector import Source
from calibrate_plugin.server.calibration import Calibrations
from calibrate_plugin.server.history import History
from calibrate_plugin.server.numbers import Numbers, State
from calibrate_plugin.store import Store
from calibrate_plugin.store.outbox import Outbox, Waiting
from calibrate_plugin.sync import SyncOutcome

log = logging.getLogger(__name__)

#: Before the job of a hint after which everything there must be asked for: something may be gone.
WHOLE = "whole: "
ALERTS = 10  # delivered ones that are shown
QUEUE = 50  # events that a page may lag behind before it is let go


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. A hint is acted on once there was none for ``debounce``, and at the latest ``cap`` after the first. Without any
    hint sources are pulled every ``poll`` and read whole every ``reconcile``."""

    debounce: float = 2.0
    cap: float = 10.0
    poll: float = 300.0
    reconcile: float = 86_400.0
    look: float = 0.5  # how often the store is looked at for what other processes wrote
    retry: float = 1.0  # the first pause after a failure; each next one is twice as long
    patience: float = 3.0  # how long results wait for the calibration of the same numbers before they are pushed
    tries: int = 6  # after so many failures in a row it is left to the schedule, or to a person


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that failed ``tries`` times in a row: the pull of a source, or the push to one (``push: NAME``)."""

    what: str
    message: str
    tries: int
    since: datetime
    next_try: datetime | None  # None: parked

    @property
    def parked(self) -> bool:
        return self.next_try is None


@dataclass(slots=True)
class Health:
    """How the service fares. ``last_event``: when the last hint came; ``lag``: from the last hint to its report, in seconds."""

    last_event: datetime | None = None
    last_report: datetime | None = None
    lag: float | None = None
    working: bool = False
    troubles: dict[str, Trouble] = field(default_factory=dict)
    pushed: dict[str, str] = field(default_factory=dict)


class Meters:
    """What Prometheus is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.webhooks = Counter("calibrate_webhooks", "Webhooks received.", ["source", "outcome"], registry=r)
        self.syncs = Counter("calibrate_syncs", "Pulls of a source.", ["source", "outcome"], registry=r)
        self.sync_seconds = Histogram("calibrate_sync_seconds", "How long a pull takes.", ["source"], registry=r)
        self.recount_seconds = Histogram(
            "calibrate_recount_seconds", "How long the numbers take after a pull.", ["how"], registry=r
        )
        self.queue = Gauge("calibrate_hints_open", "Hints that are not acted on yet.", registry=r)
        self.waiting = Gauge("calibrate_oldest_hint_seconds", "How long the oldest open hint has waited.", registry=r)
        self.lag = Gauge("calibrate_lag_seconds", "From the last hint to the report that has it.", registry=r)
        self.parked = Gauge("calibrate_parked", "Pulls and pushes that wait for a person.", registry=r)
        self.number = Gauge("calibrate_sync_number", "The sync number of the report.", registry=r)
        self.measure = Gauge(
            "calibrate_measure", "A number of the report.", ["dimension", "subject", "statistic"], registry=r
        )
        self.calibration = Gauge(
            "calibrate_calibration",
            "A number of the last calibration; the verdict that holds is 1.",
            ["dimension", "evaluator", "version", "statistic"],
            registry=r,
        )
        self.alerts = Gauge("calibrate_alerts_waiting", "Alerts that are not delivered yet.", registry=r)


class Broadcast:
    """Tells every open page, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[str]]:
        queue: asyncio.Queue[str] = asyncio.Queue(QUEUE)
        with self._lock:
            self._open[queue] = asyncio.get_running_loop()
        try:
            yield queue
        finally:
            with self._lock:
                del self._open[queue]

    def tell(self, stamp: str) -> None:
        with self._lock:
            told = list(self._open.items())
        for queue, loop in told:
            try:
                loop.call_soon_threadsafe(_put, queue, stamp)
            except RuntimeError:  # its loop has ended
                continue


def _put(queue: asyncio.Queue[str], stamp: str) -> None:
    if not queue.full():
        queue.put_nowait(stamp)


class Service:
    """One study as it is served. ``config`` and ``sources`` follow the settings file."""

    def __init__(
        self,
        config: Config,
        store: Store,
        sources: Mapping[str, Source],
        pace: Pace | None = None,
        *,
        pushing: bool = True,
    ) -> None:
        self.config, self.store, self.sources = config, store, sources
        self.pace = pace or Pace()
        self.pushing = pushing
        self.numbers = Numbers(store, config.study)
        self.calibrations = Calibrations(store)
        self.history = History(store)
        self.events = Broadcast()
        self.meters = Meters()
        self.health = Health()
        self.woken = threading.Event()
        #: What a person asked to be tried again, or pulled now: names of sources and ``push: NAME``; "" is everything.
        self.asked: set[str] = set()
        #: What pages and API show: the newest numbers, once their pages are drawn.
        self.state: State | None = None
        # Who wants to know; each is set by the one who does.
        self.draw: Callable[[State], None] = lambda state: None
        self.changed: Callable[[], None] = lambda: None
        self.turned: Callable[[Iterable[SyncOutcome], int], None] = lambda outcomes, report: None
        self.posted: Callable[[], None] = lambda: None

    @property
    def stamp(self) -> str:
        """Names what the pages show."""
        return self.stamp_of(self.state) if self.state is not None else ""

    def stamp_of(self, state: State) -> str:
        return f"{state.stamp}.{self.calibrations.serial}"

    def show(self, state: State) -> None:
        """Draw what is wanted of new numbers, and let everybody see them."""
        before = self.state
        if state is before:
            return
        self._drawn(state)
        self.state = state
        if before is None or state.stamp != before.stamp:
            self.health.last_report = self.store.now()
            self.events.tell(self.stamp)
        self.changed()

    def calibrated(self, state: State) -> None:
        """There are new calibrations."""
        gauge = self.meters.calibration
        gauge.clear()
        for dimension, judge, version, statistic, value in self.calibrations.measured(state):
            gauge.labels(dimension, judge, version, statistic).set(float("nan") if value is None else value)
        self._drawn(self.state or state)  # there may be newer numbers by now
        self.events.tell(self.stamp)
        self.woken.set()  # they are pushed

    def _drawn(self, state: State) -> None:
        try:
            self.draw(state)
        except Exception:
            log.exception("pages could not be drawn; each is when it is looked at")

    def parked(self, what: str, message: str) -> None:
        """Something that will not mend itself."""
        before = self.health.troubles.get(what)
        since = before.since if before is not None else self.store.now()
        self.health.troubles[what] = Trouble(what, message, 1, since, None)

    def wake(self) -> None:
        """Something came that is worth a look."""
        self.health.last_event = self.store.now()
        self.woken.set()

    def ask(self, what: str = "") -> None:
        """Try again now, parked or not."""
        self.asked.add(what)
        self.woken.set()

    def sync_due_after(self, last: datetime | None, seconds: float) -> bool:
        return last is None or self.store.now() - last >= timedelta(seconds=seconds)

    def told(self) -> dict[str, Any]:
        """How it fares, for the health page and the API."""
        now = self.store.now()
        hints = self.store.hints()
        last: dict[str, Any] = {}
        for sync in self.store.syncs(200):
            last.setdefault(
                sync.source,
                {
                    "source": sync.source,
                    "outcome": sync.outcome,
                    "message": sync.message,
                    "mode": sync.mode,
                    "server": sync.server,
                    "started": sync.started.isoformat(),
                    "finished": sync.finished.isoformat() if sync.finished else None,
                },
            )
        health = self.health
        box = Outbox(self.store)
        alerts = [*reversed(box.listed(delivered=False)), *box.listed(delivered=True, limit=ALERTS)]
        return {
            "status": "parked"
            if any(t.parked for t in health.troubles.values())
            else "ok"
            if self.state
            else "starting",
            "sync_number": self.state.number if self.state else None,
            "last_event": health.last_event.isoformat() if health.last_event else None,
            "last_report": health.last_report.isoformat() if health.last_report else None,
            "lag_seconds": health.lag,
            "open_hints": len(hints),
            "oldest_hint_seconds": (now - hints[0].received).total_seconds() if hints else None,
            "sources": [last.get(n, {"source": n, "outcome": "never", "message": ""}) for n in self.config.sources],
            "troubles": [
                {
                    "what": t.what,
                    "message": t.message,
                    "tries": t.tries,
                    "since": t.since.isoformat(),
                    "parked": t.parked,
                    "next_try": t.next_try.isoformat() if t.next_try else None,
                }
                for t in list(health.troubles.values())
            ],
            "pushed": dict(health.pushed),
            "alerts": [_alert(one) for one in alerts[: 5 * ALERTS]],
        }


def _alert(one: Waiting) -> dict[str, Any]:
    return {
        "channel": one.channel,
        "titles": [event["title"] for event in one.body["data"]["events"]],
        "at": one.at.isoformat(),
        "delivered": one.delivered.isoformat() if one.delivered else None,
        "tries": one.tries,
        "error": one.error,
        "next_try": one.due.isoformat() if one.due else None,
    }
