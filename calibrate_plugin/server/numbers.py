"""The numbers of a study, kept up to date item by item.

What the store published since the last look is taken out as it was and put in as it is, by the rules and the counting that a
full computation uses; where that could not give the same (a person renamed, another version live, a rating without steps
touched, too much changed at once) everything is computed anew.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from calibrate_plugin.cycle import keyed, parts_of
from calibrate_plugin.model import ASIDE, DimensionReport, Report, Study
from calibrate_plugin.ratings.rules import Ratings, apply, names_of
from calibrate_plugin.ratings.tables import Tables
from calibrate_plugin.report import json, recount
from calibrate_plugin.report.build import Pulled, build, item_agreement
from calibrate_plugin.report.recount import Counts
from calibrate_plugin.server.overlay import Overlay
from calibrate_plugin.store import Store

log = logging.getLogger(__name__)

#: More touched items than this are not worth taking out and putting in one by one.
MOST_ITEMS = 20_000


class _Anew(Exception):
    """Only a full computation can give the numbers now; the message says why."""


@dataclass(frozen=True, slots=True)
class State:
    """The numbers at a sync number. Nothing in it ever changes; a newer state takes its place.

    ``differing``: per dimension the pairs of answers that differ (``recount.differing``); ``agreement``: the rows of
    ``build.item_agreement``. ``serial`` counts the states of this process; ``touched`` is, per dimension, the serial since which
    none of its labels and no fact of their items changed.
    """

    serial: int
    stamp: str  # names what the report says: the same for the same numbers whenever they were computed
    number: int
    report: Report
    body: bytes
    differing: Mapping[str, Overlay]
    agreement: Overlay
    runs: tuple[str, ...]
    full: bool  # computed anew, not adjusted
    study: Study
    counts: Counts
    called: Mapping[tuple[str, str], str]
    names: Mapping[str, Mapping[str, str]]
    touched: Mapping[str, int]

    def rated(self, store: Store, items: Sequence[str]) -> Ratings:
        """What the rules make of some items, with their written reasons."""
        labels = store.as_of(self.number, items=items)
        return _rated(self.study, labels, None, self.counts, self.names, self.called)


@dataclass(slots=True)
class _Known:
    """What is kept of the labels of a study, or of one run of it."""

    counts: Counts
    reports: dict[str, tuple[Tables | None, DimensionReport]] = field(default_factory=dict)


class Numbers:
    """Follows a store. Only one thread may call ``follow`` at a time; everybody may read ``state``."""

    def __init__(self, store: Store, study: Study) -> None:
        self.store, self.study = store, keyed(store, study)
        self.state: State | None = None
        self._known: dict[str | None, _Known] = {}
        self._called: dict[tuple[str, str], str] = {}
        self._names: Mapping[str, Mapping[str, str]] = {}
        self._sources: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._serial = 0

    def follow(self, at: datetime, study: Study | None = None) -> bool:
        """Bring ``state`` up to what the store has published (or to other settings); whether anything was new."""
        with self._lock:
            number = self.store.latest()
            if study is not None and (study := keyed(self.store, study)) != self.study:
                self.study, self.state = study, None
            if self.state is None:
                self._compute(number, at)
                return True
            if self.state.number == number:
                return False
            try:
                self._adjust(self.state, number, at)
            except (_Anew, ValueError) as error:
                log.info("everything is computed anew: %s", error)
                self._compute(number, at)
            return True

    def run(self, run: str) -> Report:
        """The report of one run, as of ``state``. Raises KeyError where no label of such a run stands.

        The first time this reads everything, and nobody who follows the store waits for that.
        """
        with self._lock:
            state, sources = self.state, self._sources
            if state is None or run not in state.runs:
                raise KeyError(run)
            known = self._known.get(run)
        if known is None:
            labels = self.store.as_of(state.number, reasons=False)
            ratings = apply(state.study, parts_of(labels), state.names, run=run, called=state.called)
            known = _Known(recount.count(state.study, ratings, run))
            self._whole(known, state.study, state.names, run, labels)
        with self._lock:
            if self.state is state:  # else it is of numbers that nobody follows any more
                self._known[run] = known
            return self._report(known, state.study, sources, run, state.number, state.report.generated_at)

    # --- everything

    def _compute(self, number: int, at: datetime) -> None:
        labels = self.store.as_of(number, reasons=False)
        self._names = self.store.names(number)
        people, _, _ = recount.told(labels)
        self._called = names_of(self.study, people, self._names)
        parts = parts_of(labels)
        ratings = apply(self.study, parts, self._names, called=self._called)
        self._sources = tuple(parts)
        known = _Known(recount.count(self.study, ratings))
        self._known = {None: known}
        self._whole(known, self.study, self._names, None, labels)
        differing = {name: Overlay(pairs) for name, pairs in recount.differing(ratings).items()}
        agreement = Overlay(item_agreement(ratings), ("dimension", "item"))
        self._publish(number, at, differing, agreement, None)

    def _whole(
        self,
        known: _Known,
        study: Study,
        names: Mapping[str, Mapping[str, str]],
        run: str | None,
        labels: pl.DataFrame,
    ) -> None:
        """The reports of dimensions that are not counted in tables."""
        if None not in known.counts.tables.values():
            return
        report, _ = build(study, Pulled(parts_of(labels), names=names), datetime.min.replace(tzinfo=UTC), run=run)
        for dimension in report.dimensions:
            if known.counts.tables[dimension.name] is None:
                known.reports[dimension.name] = None, dimension

    # --- what changed

    def _adjust(self, state: State, number: int, at: datetime) -> None:
        if self.store.itemless_changed(state.number, number):
            raise _Anew("labels without an item changed")
        items = self.store.changed_items(state.number, number)
        if len(items) > MOST_ITEMS:
            raise _Anew(f"{len(items)} items changed at once")
        before = self.store.as_of(state.number, items=items, reasons=False)
        after = self.store.as_of(number, items=items, reasons=False)
        counts = self._known[None].counts
        names, called = self._renamed(counts, before, after, number)
        if not counts.sequenced and (after["seq"].null_count() < after.height):
            raise _Anew("labels have a number of order for the first time")
        known: dict[str | None, _Known] = {}
        touched = set(before["run"].drop_nulls()) | set(after["run"].drop_nulls())
        replaced: tuple[Ratings, Ratings] | None = None
        for run, own in self._known.items():
            if run is not None and run not in touched:  # the labels of an item name every run that scored it
                known[run] = own
                continue
            was, now = (_rated(self.study, side, run, own.counts, names, called) for side in (before, after))
            for name, tables in own.counts.tables.items():
                if tables is None and not _answered(was, name).equals(_answered(now, name)):
                    raise _Anew(f"{name} has no steps and changed")
            made = own.counts.replaced(recount.count(self.study, was, run), recount.count(self.study, now, run))
            self._same_live(own.counts, made, run)
            known[run] = _Known(made, dict(own.reports))
            if run is None:
                replaced = was, now
        assert replaced is not None
        if bool(counts.sequenced) != bool(known[None].counts.sequenced):
            raise _Anew("no label has a number of order any more")
        fresh = recount.differing(replaced[1])
        differing = {name: old.replaced(items, fresh[name]) for name, old in state.differing.items()}
        agreement = state.agreement.replaced(items, item_agreement(replaced[1]))
        self._known, self._called, self._names = known, called, names
        touched = {d for d in differing if not _answered(replaced[0], d).equals(_answered(replaced[1], d))}
        facts = (self.store.item_facts(n, items=items) for n in (state.number, number))
        if not next(facts).equals(next(facts)):
            touched = set(differing)
        self._publish(number, at, differing, agreement, touched)

    def _renamed(
        self, counts: Counts, before: pl.DataFrame, after: pl.DataFrame, number: int
    ) -> tuple[Mapping[str, Mapping[str, str]], dict[tuple[str, str], str]]:
        if new := set(after["source"].unique()) - set(self._sources):
            raise _Anew(f"there is a new source: {', '.join(sorted(new))}")
        names = self.store.names(number)
        people = dict(counts.people)
        for side, sign in ((before, -1), (after, 1)):
            for key, n in recount.told(side)[0].items():
                people[key] = people.get(key, 0) + sign * n
        called = names_of(self.study, (key for key, n in people.items() if n > 0), names)
        if any(self._called.get(key, name) != name for key, name in called.items()):
            raise _Anew("somebody is called otherwise now")
        return names, self._called | called

    def _same_live(self, was: Counts, now: Counts, run: str | None) -> None:
        old, new = (recount.live(self.study, c.tables, run) for c in (was, now))
        for dimension, live in new.items():
            for evaluator, version in live.items():
                if old[dimension].get(evaluator, version) != version:
                    raise _Anew(f"another version of {evaluator} is live in {dimension}")

    # --- the report

    def _publish(
        self,
        number: int,
        at: datetime,
        differing: Mapping[str, Overlay],
        agreement: Overlay,
        touched: set[str] | None,
    ) -> None:
        """``touched``: the dimensions of which anything changed; None where everything was computed anew."""
        before = self.state.touched if self.state is not None else {}
        report = self._report(self._known[None], self.study, self._sources, None, number, at)
        self._serial += 1
        runs = tuple(sorted(self._known[None].counts.runs))
        body = json.render(report).encode("utf-8")
        self.state = State(
            self._serial,
            stamp_of(body),
            number,
            report,
            body,
            differing,
            agreement,
            runs,
            touched is None,
            self.study,
            self._known[None].counts,
            self._called,
            self._names,
            {d: self._serial if touched is None or d in touched else before[d] for d in differing},
        )

    def _report(
        self, known: _Known, study: Study, sources: tuple[str, ...], run: str | None, number: int, at: datetime
    ) -> Report:
        dimensions = []
        for dimension in study.dimensions:
            tables = known.counts.tables[dimension.name]
            kept = known.reports.get(dimension.name)
            if tables is not None and (kept is None or kept[0] is not tables):
                kept = tables, recount.dimension_report(study, dimension, tables, run)
                known.reports[dimension.name] = kept
            assert kept is not None
            dimensions.append(kept[1])
        aside = self.store.aside(number).select(list(ASIDE))
        return recount.report(study, tuple(dimensions), known.counts, aside, sources or ("",), at)


def stamp_of(body: bytes) -> str:
    """Names what a report (JSON) says, whenever it was made."""
    lines = [line for line in body.split(b"\n") if not line.startswith(b'  "generated_at"')]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()[:16]


def _rated(
    study: Study,
    labels: pl.DataFrame,
    run: str | None,
    counts: Counts,
    names: Mapping[str, Mapping[str, str]],
    called: Mapping[tuple[str, str], str],
) -> Ratings:
    """What the rules make of the labels of some items, knowing what those of all items say."""
    if counts.sequenced and labels["seq"].null_count() == labels.height:
        # Among all labels a missing number ties; alone these would be numbered by their rows.
        labels = labels.with_columns(seq=pl.lit(0, dtype=pl.Int64))
    live = recount.live(study, counts.tables, run)
    return apply(study, parts_of(labels), names, run=run, called=called, live=live)


def _answered(ratings: Ratings, dimension: str) -> pl.DataFrame:
    """Each label that a dimension looks at, and what became of it."""
    rows = ratings.answers[dimension].frame
    if "label" not in ratings.labels.columns:  # there are none
        return pl.DataFrame(schema={"level": pl.Int32, "number": pl.Float64, "cause": pl.String, "label": pl.Int64})
    labels = ratings.labels["label"].gather(rows["row"]).alias("label")
    return rows.select("level", "number", "cause", labels).sort("label")
