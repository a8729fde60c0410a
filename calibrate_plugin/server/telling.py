"""Alerts from the service: what its turns found, judged with the calibration of the numbers, and written down to be delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from calibrate_plugin import alerts, history
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.cycle import Turn
from calibrate_plugin.report.build import item_agreement
from calibrate_plugin.server.service import Service
from calibrate_plugin.store.outbox import Outbox, Standing
from calibrate_plugin.sync import SyncOutcome

#: In the table of what stands: the kept report (its id) with which the next numbers are compared.
LOOKED = "\x1flooked"
#: Items compared in a dimension after which the others are waited for no longer.
MANY = 10 * alerts.FEWEST


class Telling:
    """Looks after each turn whether anybody must be told. What it could not look at because the process ended the next one
    looks at, since the report that it compares with lies in the store."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._outcomes: dict[str, SyncOutcome] = {}
        self._report: int | None = None  # of the last turn that was not looked at

    def turned(self, outcomes: Iterable[SyncOutcome], report: int) -> None:
        """A turn ended so, and its report was kept. What is tried again shortly is no news yet."""
        with self._lock:
            for outcome in outcomes:
                trouble = self.service.health.troubles.get(outcome.source)
                if outcome.outcome == "ok" or trouble is None or trouble.parked:
                    self._outcomes[outcome.source] = outcome
            self._report = report

    def step(self) -> bool:
        """Look at what came since the last look, and write down what is to be told; whether there was anything to look at."""
        service = self.service
        with self._lock:
            report, outcomes = self._report, dict(self._outcomes)
        state = service.state
        if report is None or state is None or not alerts.channels(service.config.alerts):
            return False
        store, now = service.store, service.store.now()
        before = self._before()
        changed = store.changed_items(before.number, state.number) if before is not None else []
        ratings = state.rated(store, changed)
        turn = Turn(list(outcomes.values()), service.calibrations.joined(state) or state.report, ratings, {})
        try:
            found = alerts.events(store, service.config, turn, before)
            service.health.troubles.pop("alerts", None)
        except SettingsError as error:
            service.parked("alerts", str(error))
            found = []
        if alerts.raise_events(store, service.config, found, now, before) is not None:
            service.posted()
        compared = item_agreement(ratings).group_by("dimension").len()["len"].to_list()
        # A few items a turn say nothing about a rate, many turns together do.
        if before is None or all(n >= alerts.FEWEST for n in compared) or max(compared) >= MANY:
            Outbox(store).keep([Standing(LOOKED, clear=report)], "", None, [], now)
        with self._lock:  # but for what a turn gave meanwhile
            self._outcomes = {k: o for k, o in self._outcomes.items() if o is not outcomes.get(k)}
            self._report = None if self._report == report else self._report
        return True

    def _before(self) -> history.Moment | None:
        """The report that the numbers are compared with."""
        store = self.service.store
        known = Outbox(store).standing().get(LOOKED)
        for kept in store.reports():
            if known is not None and kept.id == known.clear:
                return history.Moment(kept.number, kept.settings, kept.at)
        return history.previous(store)
