"""The calibration of the judges, which is computed from all labels: beside the numbers, and a little behind them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from calibrate_plugin.config import Config
from calibrate_plugin.cycle import pulled
from calibrate_plugin.labelling import labelled, looked_at
from calibrate_plugin.model import DimensionReport, Report, Study
from calibrate_plugin.ratings.rules import apply
from calibrate_plugin.report.calibrated import calibrated, of
from calibrate_plugin.report.calibration_words import verdict_word
from calibrate_plugin.server.numbers import State
from calibrate_plugin.store import Store


@dataclass(frozen=True, slots=True)
class Known:
    """A dimension with its calibration, and how its labels came to be, as of a state of the numbers: its serial, when those were made, by which settings."""

    serial: int
    at: datetime
    study: Study
    dimension: DimensionReport

    def beside(self, newest: DimensionReport) -> DimensionReport:
        """The newest numbers of the dimension with what is known here."""
        return replace(newest, calibration=self.dimension.calibration, labelling=self.dimension.labelling)


class Calibrations:
    """The last calibration of each dimension. One thread makes them; everybody may ask."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.serial = 0  # counts what was made, so that pages know whether they are new
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def of(self, state: State, dimension: str) -> Known | None:
        """The last calibration of a dimension, maybe of earlier numbers; see ``current``."""
        known = self._known.get(dimension)
        return known if known is not None and known.study == state.study else None

    def current(self, state: State, *dimensions: str) -> bool:
        """Whether these dimensions (none named: all of them) are calibrated as they stand."""
        found = {d: self.of(state, d) for d in dimensions or state.touched}
        return all(known is not None and known.serial >= state.touched[d] for d, known in found.items())

    def joined(self, state: State) -> Report | None:
        """The report with the last calibration of each dimension; None as long as one was never made."""
        known = [self.of(state, d.name) for d in state.report.dimensions]
        made = [k for k in known if k is not None]
        if len(made) < len(known):
            return None
        dimensions = tuple(k.beside(d) for d, k in zip(state.report.dimensions, made, strict=True))
        return replace(state.report, dimensions=dimensions)

    def measured(self, state: State) -> Iterator[tuple[str, str, str, str, float | None]]:
        """Dimension, evaluator, version, name and value of every number of the last calibrations, and each judge's verdict."""
        for dimension in state.report.dimensions:
            known = self.of(state, dimension.name)
            calibration = of(known.dimension) if known is not None else None
            if calibration is None:
                continue
            for judge in calibration.judges:
                yield dimension.name, judge.evaluator, judge.version, f"verdict: {verdict_word(judge)}", 1.0
            for number in calibration.numbers():
                if number.evaluator is not None:
                    name = number.name if number.kind is None else f"{number.name}[{number.kind}]"
                    yield dimension.name, number.evaluator, number.version or "", name, number.measure.value

    def follow(self, state: State, config: Config) -> Sequence[str]:
        """Calibrate what changed since; the names of those dimensions. Raises ValueError where ``study.gold`` names nobody."""
        due = [d for d in state.touched if not self.current(state, d)]
        if not due:
            return ()
        facts = pulled(self.store, state.number, reasons=False)
        ratings = apply(state.study, facts.labels, facts.names)
        part = replace(state.report, dimensions=tuple(d for d in state.report.dimensions if d.name in due))
        whole = calibrated(part, state.study, ratings, facts.items)
        looked_at(self.store, whole, "report")
        made = labelled(self.store, config, whole, ratings, facts.items).dimensions
        with self._lock:
            self._known |= {d.name: Known(state.serial, state.report.generated_at, state.study, d) for d in made}
            self.serial += 1
        return due
