"""How the labels of a study came to be, beside its report: the target that was set before labelling and how far it is, the
rulings by cause, and how often the test split was looked at."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from calibrate_plugin.config import Config, TargetTable
from calibrate_plugin.model import DimensionReport, Goal, Labelling, Report, TestUse
from calibrate_plugin.ratings.rules import Answers, Ratings
from calibrate_plugin.ratings.rulings import CAUSES, cause_fact
from calibrate_plugin.report import calibrated
from calibrate_plugin.store import SettingsState, Store
from calibrate_plugin.store.labelling import Use, use_test, uses_of_test

MARGIN = 0.10
TEST = "test"
LIMIT = f"{calibrated.SPLIT} = {TEST}"


def labelled(store: Store, config: Config, report: Report, ratings: Ratings, facts: pl.DataFrame) -> Report:
    """The calibrated report with how each dimension's labels came to be. ``facts`` are those of the items."""
    uses = Counter((u.dimension, u.evaluator, u.version) for u in uses_of_test(store))
    states = store.settings_states() if config.target else []
    dimensions = []
    for dimension in report.dimensions:
        answers = ratings.answers[dimension.name]
        target = config.target.get(dimension.name)
        found = Labelling(
            goals=() if target is None else tuple(_goals(target, dimension, answers)),
            people=None if target is None else target.people,
            moved=None if target is None else _moved(config, states, dimension.name, answers, ratings.labels),
            causes=_causes(facts, dimension.name),
            test_uses=tuple(
                TestUse(evaluator, version, n)
                for (name, evaluator, version), n in sorted(uses.items())
                if name == dimension.name
            ),
        )
        dimensions.append(dimension if found == Labelling() else replace(dimension, labelling=found))
    return replace(report, dimensions=tuple(dimensions))


def _goals(target: TargetTable, dimension: DimensionReport, answers: Answers) -> Iterator[Goal]:
    if target.items is not None:
        people = [i for i, r in enumerate(answers.raters) if r.kind == "annotator"]
        per = answers.counted.filter(pl.col("rater").is_in(people)).group_by("item").agg(pl.col("rater").n_unique())
        n = per.filter(pl.col("rater") >= target.people).height
        yield Goal("items", target.items, n, n >= target.items)
    if target.half_width is not None:
        kappa = dimension.annotators.kappa
        if kappa.interval is None:
            yield Goal("half_width", target.half_width, None, False, kappa.reason or kappa.interval_reason)
        else:
            half = (kappa.interval.high - kappa.interval.low) / 2
            yield Goal("half_width", target.half_width, half, half <= target.half_width)
    if target.gold is not None:
        found = calibrated.of(dimension)
        n = 0
        if found is not None and dimension.scale.levels is not None:
            levels = found.gold.level[found.gold.level >= 0]
            n = int(np.bincount(levels, minlength=dimension.scale.levels).min())
        yield Goal("gold", target.gold, n, n >= target.gold)


def _causes(facts: pl.DataFrame, dimension: str) -> Mapping[str, int]:
    told = facts.filter((pl.col("fact") == cause_fact(dimension)) & pl.col("value").is_in(list(CAUSES)))
    counts = Counter(told.unique("item", keep="first")["value"].to_list())
    return {cause: counts[cause] for cause in CAUSES if counts[cause]}


# --- a target that moved


def _moved(
    config: Config, states: list[SettingsState], dimension: str, answers: Answers, labels: pl.DataFrame
) -> str | None:
    """What of the target was written or changed after the first answer was given; None where it stood before, or where no
    answer says when it was given."""
    began = _began(answers, labels)
    if began is None:
        return None
    now = _asked(config.document, dimension)
    before = [s for s in states if s.at <= began]
    then = _asked(before[-1].state, dimension) if before else None
    day = f"{began:%Y-%m-%d}"
    if then is None or set(then) == {"margin"}:
        written = next((s.at for s in states if s.at > began and set(_asked(s.state, dimension)) > {"margin"}), None)
        when = f" on {written:%Y-%m-%d}" if written is not None else ""
        return f"it was written{when}, after labelling had begun on {day}"
    changes = [
        f"{key} from {_said(then.get(key))} to {_said(now.get(key))}"
        for key in sorted({*then, *now})
        if then.get(key) != now.get(key)
    ]
    return f"changed after labelling had begun on {day}: {', '.join(changes)}" if changes else None


def _began(answers: Answers, labels: pl.DataFrame) -> datetime | None:
    people = [i for i, r in enumerate(answers.raters) if r.kind == "annotator"]
    stands = pl.col("cause").is_null() | ~pl.col("cause").is_in(["no_item", "retired"])
    rows = answers.frame.filter(pl.col("rater").is_in(people) & stands)
    found: Any = labels["at"].gather(rows["row"]).min()
    return found if isinstance(found, datetime) else None


def _asked(document: Mapping[str, Any], dimension: str) -> dict[str, Any]:
    """What a settings file asks of a dimension's labels; of the choices of one question, of that question."""
    tables: Mapping[str, Any] = document.get("target") or {}
    found = tables.get(dimension) or tables.get(dimension.rpartition(": ")[0]) or {}
    study = document.get("study") or {}
    return {**found, "margin": study.get("margin", MARGIN)}


def _said(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


# --- the test split


def looked_at(store: Store, report: Report, purpose: str) -> None:
    """Write down which numbers of the test split a calibrated report shows: those of a report limited to it or split by it, and
    a threshold's on it. The same numbers shown again are no further look."""
    use_test(store, _looks(report, purpose))


def _looks(report: Report, purpose: str) -> Iterator[Use]:
    for dimension in report.dimensions:
        if LIMIT in report.only:
            yield from _of_dimension(dimension.name, dimension, purpose)
        for part in dimension.slices:
            if (part.fact, part.value) == (calibrated.SPLIT, TEST):
                yield from _of_dimension(dimension.name, part.report, purpose)
        found = calibrated.of(dimension)
        for judge in (*found.judges, *found.silent) if found is not None else ():
            if judge.thresholds is not None and (test := judge.thresholds.test) is not None:
                row = test.row
                told = [row.threshold, row.true_pass, row.false_fail, row.false_pass, row.true_fail]
                yield Use(dimension.name, judge.evaluator, judge.version, "threshold", _digest(told))


def _of_dimension(name: str, dimension: DimensionReport, purpose: str) -> Iterator[Use]:
    for e in dimension.evaluators:
        if e.score.n_items:
            # The same answers give the same numbers; intervals only say how sure those are.
            told = [e.counts.table, e.score.value, e.score.n_items, e.agreement.value, e.agreement.n_pairs]
            yield Use(name, e.evaluator, e.version, purpose, _digest(told))


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


__all__ = ["labelled", "looked_at"]
