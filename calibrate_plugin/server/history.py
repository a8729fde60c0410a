"""The numbers of earlier reports, to draw how they moved."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from calibrate_plugin.store import Store

log = logging.getLogger(__name__)

KEPT = 300  # reports whose numbers stay in memory

#: dimension, subject ("annotators", or an evaluator with its version), statistic
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of one report; None where one was undefined."""

    report: int
    number: int
    at: datetime
    values: Mapping[Key, float | None]


class History:
    """The last reports of a store, oldest first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._points: tuple[Point, ...] = ()
        self._lock = threading.Lock()

    @property
    def points(self) -> tuple[Point, ...]:
        return self._points

    def follow(self) -> None:
        """Take in the reports that were kept since."""
        with self._lock:
            last = self._points[-1].report if self._points else 0
            new = [r for r in self.store.reports(KEPT) if r.id > last]
            found = list(self._points)
            for kept in reversed(new):
                try:
                    values = dict(numbers(json.loads(self.store.report(kept.id))))
                except (ValueError, LookupError, TypeError):
                    log.warning("report %d cannot be read", kept.id)
                    continue
                found.append(Point(kept.id, kept.number, kept.at, values))
            self._points = tuple(found[-KEPT:])


def numbers(report: Mapping[str, Any]) -> Iterator[tuple[Key, float | None]]:
    """The scores, agreements and kappas of a report (JSON) by who they are of."""
    for dimension in report["dimensions"]:
        name, people = dimension["name"], dimension["annotators"]
        yield (name, "annotators", "score"), dimension["human_score"]["value"]
        for statistic in ("agreement", "kappa", "alpha"):
            yield (name, "annotators", statistic), people[statistic]["value"]
        for evaluator in dimension["evaluators"]:
            who = f"{evaluator['evaluator']} {evaluator['version']}".strip()
            for statistic in ("score", "agreement", "kappa"):
                yield (name, who, statistic), evaluator[statistic]["value"]
