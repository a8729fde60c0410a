"""The one who pulls, counts and pushes, in a thread of its own.

Everything it does may be done twice and may break off anywhere: hints stay open until what they asked for is published, what
was published is counted again at the next start, and a push writes only what differs. So a process may be killed at any moment,
and another one that serves the same study takes over: the lock of the store is held for one turn at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from calibrate_plugin import cycle
from calibrate_plugin.config import load
from calibrate_plugin.connector import Focused, SettingsError, Source, Write, open_source
from calibrate_plugin.report import json
from calibrate_plugin.server.history import numbers
from calibrate_plugin.server.numbers import State, stamp_of
from calibrate_plugin.server.service import WHOLE, Service, Trouble
from calibrate_plugin.store import Busy, Hint
from calibrate_plugin.sync import SyncOutcome, sync

log = logging.getLogger(__name__)

LONGEST_PAUSE = 300.0  # seconds between two tries


@dataclass(frozen=True, slots=True)
class Reach:
    """How a source is pulled: everything again or what changed; in which jobs (None: all), and whether something may be gone."""

    mode: Literal["full", "incremental"]
    jobs: tuple[str, ...] | None = None
    gone: bool = False


class Worker(threading.Thread):
    """Runs until it is told to stop, and then ends with the turn that it is in."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="worker", daemon=True)
        self.service = service
        self._stopping = threading.Event()
        self._kept: tuple[str, int] | None = None  # the stamp and id of the report that was kept last
        self._pushed: tuple[str, int] | None = None  # the stamp of what was pushed, and the serial of its calibration
        self._ripe_in = 0.0
        self._settings = _written_at(service)
        self._settled = False  # whether the store was looked at since the start
        self._opened = service.store.now()
        self._heard = 0  # the pull up to which the two below know
        self._last: dict[str, datetime] = {}
        self._whole: dict[str, datetime] = {}

    def stop(self, wait: float = 30.0) -> None:
        self._stopping.set()
        self.service.woken.set()
        if self.is_alive():
            self.join(wait)

    def run(self) -> None:
        while not self._stopping.is_set():
            self.service.woken.clear()
            try:
                self.step()
            except Busy as busy:
                log.debug("%s", busy)  # another process is at it; its results show in the store
            except Exception as error:
                log.exception("a turn failed")
                self._failed("worker", f"a turn failed ({type(error).__name__}); the log says more", parks=False)
                self._stopping.wait(self.service.pace.retry)
            self.service.woken.wait(self._pause())

    def _pause(self) -> float:
        """Until the store is looked at again, or the next hint is ripe."""
        return max(0.005, min(self.service.pace.look, self._ripe_in))

    def step(self) -> None:
        """What is due now, if anything."""
        service = self.service
        self._follow()
        self._show()
        service.health.troubles.pop("worker", None)
        if "" in service.asked:
            pushes = {f"push: {n}" for n in cycle.wants_push(service.config) if service.pushing}
            service.asked = {*service.asked, *service.sources, *pushes} - {""}
        due = self._due()
        push_due = self._push_due()
        if not due and not push_due and self._settled:
            return
        with service.store.work():
            service.health.working = True
            try:
                hints = service.store.hints()
                due = self._due()  # another process may have done it meanwhile
                read = [self._pull(name, reach) for name, reach in due.items() if not self._stopping.is_set()]
                self._follow()
                kept = self._keep()
                self._settled = True
                self._show()
                fine = {o.source for o in read if o.outcome == "ok"}
                self._done([h for h in hints if h.source in fine or h.source not in service.sources])
                if read and kept is not None:
                    service.turned(read, kept)
                    service.changed()
                if self._push_due():
                    self._push()
            finally:
                service.health.working = False

    # --- what is due

    def _due(self) -> dict[str, Reach]:
        service, pace, now = self.service, self.service.pace, self.service.store.now()
        ripe: set[str] = set()
        self._ripe_in = pace.look
        by_source: dict[str, list[Hint]] = {}
        for hint in service.store.hints():
            by_source.setdefault(hint.source, []).append(hint)
        for name, hints in by_source.items():
            quiet = pace.debounce - (now - hints[-1].received).total_seconds()
            latest = pace.cap - (now - hints[0].received).total_seconds()
            self._ripe_in = min(self._ripe_in, max(0.0, min(quiet, latest)) or pace.look)
            if quiet <= 0 or latest <= 0:
                ripe.add(name)
        self._hear()
        due: dict[str, Reach] = {}
        for name in service.sources:
            trouble = service.health.troubles.get(name)
            asked = name in service.asked
            last = self._last.get(name)
            # Whatever happened while nobody served had no one to tell: the first look is taken at once.
            polled = last is None or service.sync_due_after(last, pace.poll) or last < self._opened
            if trouble is not None and not asked:
                # what failed waits for its time; what is parked for the schedule
                waits = trouble.next_try is not None and trouble.next_try > now
                if waits or (trouble.parked and not polled):
                    continue
            elif not (asked or polled or name in ripe):
                continue
            if service.sync_due_after(self._whole.get(name), pace.reconcile):
                due[name] = Reach("full")
            else:
                everywhere = asked or polled or trouble is not None
                due[name] = _reach(service.sources[name], by_source.get(name, ()), everywhere)
        return due

    def _hear(self) -> None:
        """When each source was pulled last, and when it was last read whole, by whatever process."""
        for done in reversed(self.service.store.syncs(None, after=self._heard)):
            if done.outcome == "running":
                break  # it is looked at again
            self._heard = done.id
            if done.mode != "focused":
                self._last[done.source] = done.started
            if done.mode == "full" and done.outcome == "ok":
                self._whole[done.source] = done.started

    def _push_due(self) -> bool:
        service = self.service
        if not service.pushing or service.state is None or not cycle.wants_push(service.config):
            return False
        now = service.store.now()
        waiting = [service.health.troubles.get(f"push: {n}") for n in cycle.wants_push(service.config)]
        asked = any(f"push: {n}" in service.asked for n in cycle.wants_push(service.config))
        if not self._calibrated(service.state):
            return False
        if asked or (service.state.stamp, service.calibrations.serial) != self._pushed:
            return all(t is None or asked or (t.next_try is not None and t.next_try <= now) for t in waiting)
        return False

    def _calibrated(self, state: State) -> bool:
        """Whether there is a calibration to be pushed with the numbers: without any, what an earlier push wrote of it would be
        removed. The one of these very numbers is waited for a little; after that an older one does until it is there."""
        calibrations = self.service.calibrations
        if calibrations.joined(state) is None:
            return False
        waited = (self.service.store.now() - (self.service.health.last_report or self._opened)).total_seconds()
        return calibrations.current(state) or waited >= self.service.pace.patience

    # --- the steps of a turn

    def _pull(self, name: str, reach: Reach) -> SyncOutcome:
        service = self.service
        source = {name: service.sources[name]}
        (outcome,) = sync(service.store, source, reach.mode == "full", jobs=reach.jobs, gone=reach.gone)
        service.asked -= {name}
        service.meters.syncs.labels(name, outcome.outcome).inc()
        service.meters.sync_seconds.labels(name).observe(outcome.seconds)
        if outcome.outcome == "ok":
            service.health.troubles.pop(name, None)
        else:
            log.warning("%s: %s: %s", name, outcome.outcome, outcome.message)
            self._failed(name, outcome.message, parks=not outcome.retry)
        return outcome

    def _follow(self) -> None:
        """Bring the numbers up to the store."""
        service = self.service
        self._read_settings()
        started = time.monotonic()
        if not service.numbers.follow(service.store.now(), service.config.study):
            return
        state = service.numbers.state
        assert state is not None
        how = "full" if state.full else "adjusted"
        service.meters.recount_seconds.labels(how).observe(time.monotonic() - started)
        service.meters.number.set(state.number)
        for (dimension, subject, statistic), value in numbers(json.plain(state.report)):
            gauge = service.meters.measure.labels(dimension, subject, statistic)
            gauge.set(float("nan") if value is None else value)

    def _show(self) -> None:
        """Bring every open page up to the numbers."""
        state = self.service.numbers.state
        # Before the first pull there is nothing to show, and drawing that would only keep it waiting.
        if state is not None and (state.number or self._settled):
            self.service.show(state)

    def _read_settings(self) -> None:
        """What calibrate.toml says by now. Sources that changed (a new project, say) are opened anew and pulled."""
        service = self.service
        written_at = _written_at(service)
        if written_at == self._settings:
            return
        self._settings = written_at
        try:
            config = load(service.config.path)
        except SettingsError as error:
            self._failed("settings", f"{error}; the settings before still hold", parks=True)
            return
        trouble = ""
        if config.store != service.config.store:
            trouble = "study.store changed; start the service anew to work on another store"
            config = replace(config, store=service.config.store)
        if config.sources != service.config.sources:
            fresh = {name for name, s in config.sources.items() if service.config.sources.get(name) != s}
            try:
                opened = {n: open_source(s) if n in fresh else service.sources[n] for n, s in config.sources.items()}
            except SettingsError as error:
                trouble = f"{error}; the sources before still hold"
                config = replace(config, sources=service.config.sources)
            else:
                service.sources = opened
                service.asked |= fresh
        if trouble:
            self._failed("settings", trouble, parks=True)
        else:
            service.health.troubles.pop("settings", None)
        service.config = config

    def _keep(self) -> int | None:
        """Keep the report if it says anything new; the id of the one that says this."""
        service, state = self.service, self.service.numbers.state
        if state is None:
            return None
        if self._kept is None or state.stamp != self._kept[0]:
            newest = service.store.reports(1)
            if not newest or stamp_of(service.store.report(newest[0].id)) != state.stamp:
                self._kept = state.stamp, cycle.keep(service.store, service.config, state.body, state.number)
            else:
                self._kept = state.stamp, newest[0].id
        service.history.follow()
        return self._kept[1]

    def _done(self, hints: list[Hint]) -> None:
        if not hints:
            return
        self.service.store.done(hints)
        lag = (self.service.store.now() - hints[0].received).total_seconds()
        self.service.health.lag = lag
        self.service.meters.lag.set(lag)

    def _push(self) -> None:
        service, state = self.service, self.service.state
        assert state is not None
        serial, report = service.calibrations.serial, service.calibrations.joined(state)
        assert report is not None
        runs = {run: service.numbers.run(run) for run in state.runs}
        service.asked -= {f"push: {n}" for n in cycle.wants_push(service.config)}
        done = cycle.write_back(
            service.store, service.config, service.sources, state.report, state.agreement.frame, runs
        )
        failed = False
        for name, pushed in done.items():
            if isinstance(pushed, str) or cycle.refused(pushed):
                failed = True
                message = pushed if isinstance(pushed, str) else _refusals(pushed.writes)
                self._failed(f"push: {name}", message, parks=False)
            else:
                service.health.troubles.pop(f"push: {name}", None)
                outcomes = Counter(w.outcome for w in pushed.writes)
                service.health.pushed[name] = (
                    ", ".join(f"{n} {o}" for o, n in sorted(outcomes.items())) or "nothing to write"
                )
        if not failed:
            self._pushed = state.stamp, serial

    def _failed(self, what: str, message: str, *, parks: bool) -> None:
        service, now = self.service, self.service.store.now()
        before = service.health.troubles.get(what)
        tries = before.tries + 1 if before else 1
        pause = min(service.pace.retry * 2 ** (tries - 1), LONGEST_PAUSE)
        parked = parks or (tries >= service.pace.tries and what != "worker")
        service.health.troubles[what] = Trouble(
            what, message, tries, before.since if before else now, None if parked else now + timedelta(seconds=pause)
        )
        service.meters.parked.set(sum(t.parked for t in service.health.troubles.values()))


def _reach(source: Source, hints: Sequence[Hint], everywhere: bool) -> Reach:
    """What the hints of a source ask for; ``everywhere``: not only where they say."""
    gone = any((hint.job or "").startswith(WHOLE) for hint in hints)
    if not (isinstance(source, Focused) and source.focuses):
        return Reach("full" if gone else "incremental")
    named = {(hint.job or "").removeprefix(WHOLE) for hint in hints}
    jobs = None if everywhere or "" in named or not named else tuple(sorted(named))
    return Reach("incremental", jobs, gone)


def _written_at(service: Service) -> float:
    try:
        return service.config.path.stat().st_mtime
    except OSError:
        return 0.0


def _refusals(writes: Sequence[Write]) -> str:
    refused = [f"{w.target}: {w.detail}" for w in writes if w.outcome == "refused"]
    return f"{len(refused)} writes were refused: " + "; ".join(refused[:3])
