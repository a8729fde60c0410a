"""What follows the numbers in its own time: the calibration of the judges, and the alerts that it is needed for.

It reads the store like everybody else and holds no lock that a turn or a webhook waits for. Between two calibrations it rests
twice as long as the last one took, so that a store that never stands still is served first.
"""

from __future__ import annotations

import logging
import threading
import time

from calibrate_plugin import alerts
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.telling import Telling

log = logging.getLogger(__name__)

REST = 2.0  # times as long as the work before
LONGEST_REST = 60.0  # seconds
LOOK = 5.0  # seconds between two looks at what is to be delivered


class _Own(threading.Thread):
    """Does ``step`` each time it is woken, until it is told to stop."""

    def __init__(self, name: str, pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.woken = threading.Event()
        self._pause = pause
        self._stopping = threading.Event()

    def stop(self, wait: float = 10.0) -> None:
        self._stopping.set()
        self.woken.set()
        if self.is_alive():
            self.join(wait)

    def run(self) -> None:
        while not self._stopping.is_set():
            self.woken.clear()
            try:
                rest = self.step()
            except Exception:
                log.exception("%s failed; it is tried again", self.name)
                rest = 1.0
            self._stopping.wait(rest)
            self.woken.wait(self._pause)

    def step(self) -> float:
        """What is to be done now; how long to rest after it, in seconds."""
        raise NotImplementedError


class Background(_Own):
    """Calibrates what changed, then looks whether anybody must be told."""

    def __init__(self, service: Service) -> None:
        super().__init__("background", service.pace.look)
        self.service = service
        self.telling = Telling(service)
        service.changed = self.woken.set
        service.turned = self.telling.turned

    def step(self) -> float:
        service, state = self.service, self.service.state
        if state is None:
            return 0.0
        started = time.monotonic()
        try:
            done = service.calibrations.follow(state, service.config)
            service.health.troubles.pop("calibration", None)
        except ValueError as error:
            done = ()
            service.parked("calibration", str(error))
        if done:
            service.calibrated(state)
        told = self.telling.step()
        return min(LONGEST_REST, REST * (time.monotonic() - started)) if done or told else 0.0


class Post(_Own):
    """Delivers the alerts that wait. A receiver that is slow or down holds up nobody else."""

    def __init__(self, service: Service) -> None:
        super().__init__("post", LOOK)
        self.service = service
        service.posted = self.woken.set

    def step(self) -> float:
        service = self.service
        if alerts.channels(service.config.alerts):
            alerts.deliver(service.store, service.config)
        return 0.0
