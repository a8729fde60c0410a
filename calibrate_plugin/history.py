"""Earlier reports again, and each number over time.

A report is a function of two things that the store keeps for ever: the facts at a sync number and a state of the
settings. So any report can be made again, byte for byte apart from its time stamp, within one version of this package and
of numpy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from calibrate_plugin import cycle
from calibrate_plugin.config import Config, read
from calibrate_plugin.model import Report
from calibrate_plugin.ratings.rules import Ratings
from calibrate_plugin.report import json as report_json
from calibrate_plugin.report.build import build
from calibrate_plugin.store import SettingsState, Store, StoredReport, StoreError
from calibrate_plugin.store.pseudonyms import empty_log, replace_report

#: The numbers that are followed over time, as commands name them.
STATISTICS = (
    "human_score",
    "annotators.agreement",
    "annotators.kappa",
    "annotators.alpha",
    "evaluator.score",
    "evaluator.agreement",
    "evaluator.kappa",
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of everything: the facts at a sync number, under a state of the settings (None: those of the file)."""

    number: int
    settings: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Point:
    """One number of one kept report. ``value`` is None where it was undefined, for ``reason``. ``live``: the version counts."""

    report: int
    number: int
    at: datetime
    dimension: str
    statistic: str
    evaluator: str | None
    version: str | None
    live: bool | None
    value: float | None
    reason: str | None
    low: float | None
    high: float | None
    n_items: int
    n_pairs: int | None
    kind: str | None


def moment(store: Store, when: str) -> Moment:
    """The state that ``when`` means: ``#12`` is a kept report, ``12`` a sync number, else a time (ISO 8601, UTC unless it
    says otherwise). Raises ValueError for anything else, and for a time before the first report or sync."""
    reports = store.reports()
    if when.startswith("#"):
        for kept in reports:
            if str(kept.id) == when[1:]:
                return Moment(kept.number, kept.settings, kept.at)
        raise ValueError(f"there is no report {when}; `calibrate-plugin history` lists them")
    if when.isdecimal():
        if int(when) > store.latest():
            raise ValueError(f"there is no sync {when}; the newest is {store.latest()}")
        of_number = [r for r in reports if r.number == int(when)]
        state = of_number[0].settings if of_number else _settings_at(store.settings_states(), number=int(when))
        return Moment(int(when), state, of_number[0].at if of_number else store.now())
    time = parsed_time(when)
    return Moment(store.sync_at(time), _settings_at(store.settings_states(), time=time), time)


def parsed_time(when: str) -> datetime:
    """A time as people write it. Raises ValueError saying what is wanted."""
    from datetime import UTC

    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        raise ValueError(
            f"{when!r} is no time; write e.g. 2026-10-01 or 2026-10-01T12:00:00Z, or #12 for a report"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def previous(store: Store) -> Moment | None:
    """The newest kept report that was made from other facts or settings than the last one."""
    reports = store.reports()
    for kept in reports[1:]:
        if (kept.number, kept.settings) != (reports[0].number, reports[0].settings):
            return Moment(kept.number, kept.settings, kept.at)
    return None


def settings_of(store: Store, config: Config, moment: Moment) -> Config:
    """The settings that held at a moment."""
    return config if moment.settings is None else restored(store.settings(moment.settings), config.path)


def restored(state: SettingsState, path: Path) -> Config:
    """Kept settings as the typed settings that they were; ``path`` is where relative names count from."""
    document: dict[str, Any] = {**state.state}
    for key, names in document.pop("order", {}).items():
        document[key] = {name: document[key][name] for name in names}
    # JSON knows no dates.
    document["sources"] = {
        name: {**table, "since": date.fromisoformat(table["since"][:10])} if "since" in table else table
        for name, table in document.get("sources", {}).items()
    }
    return read(document, path)


def report_as_of(store: Store, config: Config, moment: Moment, generated_at: datetime) -> tuple[Report, Ratings]:
    """The report of a moment, made again."""
    study = cycle.keyed(store, settings_of(store, config, moment).study)
    return build(study, cycle.pulled(store, moment.number), generated_at)


def remade(store: Store, config: Config, kept: StoredReport) -> tuple[Report, Ratings]:
    """A kept report made again from the facts and settings of its time, with its own time stamp."""
    stamp = datetime.fromisoformat(json.loads(store.report(kept.id))["generated_at"])
    return report_as_of(store, config, Moment(kept.number, kept.settings, kept.at), stamp)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What forgetting a person did: written ``reasons`` that were erased, kept ``reports`` that were written again without the
    name, and the states of the settings that still name the person."""

    reasons: int
    reports: int
    settings: int


def forget(store: Store, config: Config, source: str, rater: str) -> Forgotten:
    """Erase a person's names and written reasons, in the kept reports too. Their answers, and so every number, stay."""
    names = {
        n.get(source, {}).get(rater) for n in (store.names(number) for number in {r.number for r in store.reports()})
    }
    names |= {store.names().get(source, {}).get(rater)}
    with store.work(wait=60):
        reasons = store.forget(source, rater)
        # As JSON writes them: that is how they stand in kept reports and settings.
        written = [json.dumps(n, ensure_ascii=False)[1:-1] for n in names if n is not None and n != rater]
        again = 0
        for kept in store.reports():
            body = store.report(kept.id).decode("utf-8")
            if any(name in body for name in written):
                replace_report(store, kept.id, report_json.render(remade(store, config, kept)[0]).encode("utf-8"))
                again += 1
        empty_log(store)
    plain = [n for n in names if n is not None]
    states = [json.dumps(s.state, ensure_ascii=False) for s in store.settings_states()]
    return Forgotten(reasons, again, sum(any(n in s for n in plain) for s in states))


def series(
    store: Store,
    *,
    dimension: str | None = None,
    statistics: Sequence[str] = (),
    until: Moment | None = None,
    limit: int | None = None,
) -> list[Point]:
    """Each number over the last ``limit`` kept reports (all: None), oldest first.

    Reports made from the same facts and settings are one point in time. ``until`` leaves out what came later.
    """
    found: list[Point] = []
    seen: set[tuple[int, int]] = set()
    reports = [r for r in store.reports() if until is None or (r.number <= until.number and r.at <= until.at)]
    for kept in reports:
        if (kept.number, kept.settings) in seen:
            continue
        if limit is not None and len(seen) == limit:
            break
        seen.add((kept.number, kept.settings))
        points = points_of(json.loads(store.report(kept.id)), kept)
        chosen = (
            p for p in points if dimension in (None, p.dimension) and (not statistics or p.statistic in statistics)
        )
        found += chosen
    found.sort(key=lambda p: p.report)
    return found


def points_of(report: Mapping[str, Any], kept: StoredReport) -> Iterator[Point]:
    """The followed numbers of a report as JSON."""
    for dimension in report["dimensions"]:

        def point(
            statistic: str,
            measure: Mapping[str, Any],
            judge: Mapping[str, Any] | None = None,
            name: str = dimension["name"],
        ) -> Point:
            ends = measure["interval"] or {}
            return Point(
                report=kept.id,
                number=kept.number,
                at=kept.at,
                dimension=name,
                statistic=statistic,
                evaluator=judge["evaluator"] if judge else None,
                version=judge["version"] if judge else None,
                live=judge["live"] if judge else None,
                value=measure["value"],
                reason=measure["reason"],
                low=ends.get("low"),
                high=ends.get("high"),
                n_items=measure["n_items"],
                n_pairs=measure["n_pairs"],
                kind=measure.get("kind"),
            )

        yield point("human_score", dimension["human_score"])
        for key in ("agreement", "kappa", "alpha"):
            yield point(f"annotators.{key}", dimension["annotators"][key])
        for judge in dimension["evaluators"]:
            for key in ("score", "agreement", "kappa"):
                yield point(f"evaluator.{key}", judge[key], judge)


def _settings_at(
    states: Sequence[SettingsState], *, time: datetime | None = None, number: int | None = None
) -> int | None:
    """The state that held at a time, or that followed a sync number first; None where no state was kept."""
    if time is not None:
        before = [s for s in states if s.at <= time]
    else:
        assert number is not None
        before = [s for s in states if s.number <= number]
    return (before or states)[-1 if before else 0].id if states else None


__all__ = [
    "STATISTICS",
    "Forgotten",
    "Moment",
    "Point",
    "StoreError",
    "forget",
    "moment",
    "parsed_time",
    "points_of",
    "previous",
    "remade",
    "report_as_of",
    "restored",
    "series",
    "settings_of",
]
