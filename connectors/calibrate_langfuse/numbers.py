"""A report as scores: what each number is called in Langfuse, and what stands beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calibrate_langfuse.records import PREFIX
from calibrate_plugin.model import REASONS, CalibrationNumber, DimensionReport, Measure, Report

#: The numbers of a calibration that are pushed. They speak of all annotators together, of none by name.
CALIBRATION = (
    "beside_humans.difference",
    "beside_humans.weighted",
    "against_gold.tpr",
    "against_gold.tnr",
    "corrected_rate",
)


@dataclass(frozen=True, slots=True)
class Number:
    """One score to write: a number, or the reason why there is none (a category under ``<name>.status``).

    ``beside`` goes into the score's metadata, with every key each time: Langfuse merges metadata by key and forgets none.
    """

    name: str
    value: float | str
    comment: str | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)


def numbers(report: Report) -> Iterator[Number]:
    """Every number of a report. Numbers of single annotators are left out: whoever is forgotten must not stay in Langfuse.

    An evaluator of which several versions answered and none is named as live has no number yet.
    """
    for dimension in report.dimensions:
        yield from _dimension(dimension, f"{PREFIX}{dimension.name}")
    coverage = report.coverage
    for name in ("items", "with_humans", "with_evaluators", "with_both", "labels", "counted"):
        yield Number(f"{PREFIX}coverage.{name}", float(getattr(coverage, name)), beside=_beside(None))


def _dimension(dimension: DimensionReport, prefix: str) -> Iterator[Number]:
    yield from _measure(f"{prefix}.human_score", dimension.human_score)
    people = dimension.annotators
    for name in ("agreement", "kappa", "alpha", "ac", "pabak", "positive_agreement", "negative_agreement"):
        yield from _measure(f"{prefix}.annotators.{name}", getattr(people, name))
    for metric, alpha in people.alphas.items():
        yield from _measure(f"{prefix}.annotators.alpha_{metric}", alpha)
    yield from _measure(f"{prefix}.all_raters.fleiss", dimension.fleiss_all)
    yield from _measure(f"{prefix}.all_raters.alpha", dimension.alpha_all)
    judges = [judge for judge in dimension.evaluators if judge.live is not None]
    for judge in judges:
        alone = sum(other.evaluator == judge.evaluator for other in judges) == 1
        called = judge.evaluator if alone or judge.live else f"{judge.evaluator}@{judge.version}"
        here, version = f"{prefix}.evaluators.{called}", {"name": judge.evaluator, "version": judge.version}
        yield from _measure(f"{here}.score", judge.score, version)
        yield from _measure(f"{here}.score_on_shared_items", judge.on_shared_items[0], version)
        yield from _measure(f"{here}.human_score_on_shared_items", judge.on_shared_items[1], version)
        for name in ("agreement", "kappa", "pabak", "positive_agreement", "negative_agreement"):
            yield from _measure(f"{here}.{name}", getattr(judge, name), version)
        if dimension.calibration is not None:
            mine = (n for n in dimension.calibration.numbers() if n.evaluator == judge.evaluator)
            for number in mine:
                if number.version == judge.version and number.name in CALIBRATION:
                    yield from _calibrated(f"{here}.{number.name}", number, version)
    for pair in dimension.judges:
        yield from _measure(f"{prefix}.judges.{pair.a} and {pair.b}.agreement", pair.agreement)
        yield from _measure(f"{prefix}.judges.{pair.a} and {pair.b}.kappa", pair.kappa)
    found = dimension.disagreements
    for name in ("human_items", "judge_items", "pairs"):
        yield Number(f"{prefix}.disagreements.{name}", float(getattr(found, name)), beside=_beside(None))
    for part in dimension.slices:
        yield from _dimension(part.report, f"{prefix}[{part.fact}={part.value}]")


def _calibrated(name: str, number: CalibrationNumber, evaluator: Mapping[str, str]) -> Iterator[Number]:
    """The positive class goes beside the number, a period (a day, a week) into its name: each has a score of its own."""
    rate = number.name in ("corrected_rate", "observed_rate")
    if rate and number.measure.reason == "no_design":
        return
    period = f"[{number.kind}]" if rate and number.kind is not None else ""
    for one in _measure(f"{name}{period}", number.measure, evaluator):
        yield replace(one, beside={**one.beside, "positive": None if rate else number.kind})


def _measure(name: str, measure: Measure, evaluator: Mapping[str, str] | None = None) -> Iterator[Number]:
    beside = _beside(measure, evaluator)
    if measure.value is not None and math.isfinite(measure.value):
        yield Number(name, float(measure.value), beside=beside)
    elif measure.reason is not None and measure.reason != "not_applicable":
        yield Number(f"{name}.status", measure.reason, REASONS.get(measure.reason), beside)


def _beside(measure: Measure | None, evaluator: Mapping[str, str] | None = None) -> dict[str, Any]:
    details = measure.details if measure is not None else {}
    interval = measure.interval if measure is not None else None
    return {
        "n_items": measure.n_items if measure is not None else None,
        "n_pairs": measure.n_pairs if measure is not None else None,
        "interval": None
        if interval is None
        else {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method},
        "interval_reason": measure.interval_reason if measure is not None else None,
        "kind": _plain(details.get("kind")),
        "chance": _plain(details.get("chance")),
        "evaluator": dict(evaluator) if evaluator is not None else None,
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
