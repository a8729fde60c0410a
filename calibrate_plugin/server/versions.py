"""The versions of an evaluator on the same items, by the formulas of any report."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import polars as pl

from calibrate_plugin.agreement.estimate import Resampling
from calibrate_plugin.cycle import parts_of
from calibrate_plugin.model import EvaluatorReport
from calibrate_plugin.ratings.rules import apply
from calibrate_plugin.report.build import Builder
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service

T = TypeVar("T")

REMEMBERED = 32
MOST = 6  # versions beside each other, the last in order of their names
PATIENCE = 0.15  # seconds that a page waits for a comparison


@dataclass(frozen=True, slots=True)
class SideBySide:
    """``reports``: each version with the annotators on the ``common`` items, which all of the versions answered."""

    common: int
    reports: tuple[EvaluatorReport, ...]
    live: str | None


class Later:
    """Computes in the background and remembers: a page never waits long for what costs more than a page may."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._made: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="later")
        self._lock = threading.Lock()

    def get(self, state: State, key: tuple[Any, ...], make: Callable[[], T], patience: float = PATIENCE) -> T | None:
        """What ``make`` gives for the numbers of ``state``; None while it is made. Open pages are told when it is."""
        key = (state.serial, *key)
        with self._lock:
            made = self._made.get(key)
            if made is None or (made.done() and made.exception() is not None):
                made = self._made[key] = self._pool.submit(make)
                made.add_done_callback(lambda _: self.service.events.tell(f"{self.service.stamp} made"))
                while len(self._made) > REMEMBERED:
                    self._made.popitem(last=False)
        try:
            found: T = made.result(patience)
        except TimeoutError:
            return None
        return found


class Versions:
    """The versions of evaluators, beside each other."""

    def __init__(self, service: Service, later: Later) -> None:
        self.service, self.later = service, later

    def known(self, state: State, dimension: str) -> dict[str, list[str]]:
        """The evaluators of a dimension with the versions of which a label stands."""
        tables = state.counts.tables[dimension]
        raters = (
            [(r.name, r.version) for r in tables.standing if r.kind == "evaluator"]
            if tables is not None
            else [
                (e.evaluator, e.version) for d in state.report.dimensions if d.name == dimension for e in d.evaluators
            ]
        )
        found: dict[str, list[str]] = {}
        for name, version in sorted(raters):
            found.setdefault(name, []).append(version)
        return found

    def of(self, state: State, dimension: str, evaluator: str) -> SideBySide | None:
        """None while they are being compared; open pages are told when they are."""
        return self.later.get(
            state, ("versions", dimension, evaluator), lambda: self._compare(state, dimension, evaluator)
        )

    def _compare(self, state: State, dimension: str, evaluator: str) -> SideBySide:
        study = state.study
        (asked,) = (d for d in study.dimensions if d.name == dimension)
        fields = {f for (_, f), names in study.fields.items() if dimension in names} | {dimension}
        labels = self.service.store.as_of(state.number, fields=sorted(fields), reasons=False)
        versions = self.known(state, dimension).get(evaluator, [])[-MOST:]
        rated = []
        for version in versions:
            one = replace(study, dimensions=(asked,), live={**study.live, (dimension, evaluator): version})
            ratings = apply(one, parts_of(labels), state.names, called=state.called)
            answers = ratings.answers[dimension]
            place = [i for i, r in enumerate(answers.raters) if (r.name, r.version) == (evaluator, version)]
            rated.append((one, ratings, answers, answers.counted.filter(pl.col("rater").is_in(place))["item"].unique()))
        if not rated:
            return SideBySide(0, (), None)
        # Codes of items are given in the order of the labels, which is the same each time.
        common = reduce(lambda a, b: a.filter(a.is_in(b.implode())), (items for *_, items in rated))
        reports = []
        for (one, ratings, answers, _), version in zip(rated, versions, strict=True):
            part = replace(answers, frame=answers.frame.filter(pl.col("item").is_in(common.implode())))
            draws = Resampling(one.seed, one.resamples, one.level).about(dimension, "versions")
            made = Builder(one, ratings, part, draws, None).report()
            reports += [e for e in made.evaluators if (e.evaluator, e.version) == (evaluator, version)]
        named = study.live.get((dimension, evaluator), study.live.get(("", evaluator)))
        return SideBySide(len(common), tuple(reports), named if named is not None or len(versions) > 1 else versions[0])
