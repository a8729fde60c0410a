"""The report as JSON: schema ``calibrate-plugin/report/1``.

The same report gives the same bytes. There is never a NaN, and the text is valid UTF-8 whatever the labels hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from calibrate_plugin.model import (
    AnnotatorsReport,
    Counts,
    DimensionReport,
    EvaluatorReport,
    Labelling,
    Measure,
    PairReport,
    RaterInfo,
    RaterReport,
    Report,
    Scale,
)
from calibrate_plugin.report import calibrated
from calibrate_plugin.report.calibrated import Calibration, JudgeCalibration, Sampled
from calibrate_plugin.report.display import encodable

SCHEMA = "calibrate-plugin/report/1"

# JSON lets these stand unescaped; on a terminal they could still give orders.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")


def render(report: Report) -> str:
    """The report as JSON text that ends with a newline. Raises ValueError where a number is not finite."""
    text = _written(plain(report), "\n")
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _written(value: Any, line: str) -> str:
    """Indented as far as people read it: a measure and a row of a table stand on one line each."""
    inner = line + "  "
    if isinstance(value, dict) and value and "n_items" not in value:
        entries = [f"{_dumps(key)}: {_written(entry, inner)}" for key, entry in value.items()]
        return f"{{{inner}{f',{inner}'.join(entries)}{line}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return f"[{inner}{f',{inner}'.join(_written(entry, inner) for entry in value)}{line}]"
    return _dumps(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain(report: Report) -> dict[str, Any]:
    """The report as dicts, lists, text and numbers, ready for JSON."""
    if report.generated_at.tzinfo is None:
        raise ValueError("generated_at has no time zone; give it in UTC")
    coverage = report.coverage
    return {
        "schema": SCHEMA,
        "study": encodable(report.study),
        "generated_at": _time(report.generated_at),
        "bands": encodable(report.bands),
        "sources": [encodable(source) for source in report.sources],
        **({"only": [encodable(one) for one in report.only]} if report.only else {}),
        "dimensions": [_dimension(dimension) for dimension in report.dimensions],
        "coverage": {
            "items": coverage.items,
            "with_humans": coverage.with_humans,
            "with_evaluators": coverage.with_evaluators,
            "with_both": coverage.with_both,
            "labels": coverage.labels,
            "counted": coverage.counted,
            "unread": _counted(coverage.unread),
        },
    }


def _dimension(dimension: DimensionReport) -> dict[str, Any]:
    disagreements = dimension.disagreements
    calibration = calibrated.of(dimension)
    return {
        "name": encodable(dimension.name),
        "scale": _scale(dimension.scale),
        "human_score": measure(dimension.human_score),
        "raters": [_rater(rater) for rater in dimension.raters],
        "annotators": _annotators(dimension.annotators),
        "evaluators": [
            _evaluator(evaluator) | (_calibrated(calibration.of(evaluator)) if calibration else {})
            for evaluator in dimension.evaluators
        ],
        "judges": [_pair(pair) for pair in dimension.judges],
        "all_raters": {"fleiss": measure(dimension.fleiss_all), "alpha": measure(dimension.alpha_all)},
        "disagreements": {
            "human_items": disagreements.human_items,
            "judge_items": disagreements.judge_items,
            "pairs": disagreements.pairs,
        },
        "set_aside": _counted(dimension.set_aside),
        "notes": [encodable(note) for note in dimension.notes],
        **(_calibration(calibration) if calibration else {}),
        **({"labelling": _labelling(dimension.labelling)} if dimension.labelling else {}),
        "slices": [
            {"fact": encodable(part.fact), "value": encodable(part.value), **_dimension(part.report)}
            for part in dimension.slices
        ],
    }


def _annotators(annotators: AnnotatorsReport) -> dict[str, Any]:
    return {
        "agreement": measure(annotators.agreement),
        "kappa": measure(annotators.kappa),
        "alpha": measure(annotators.alpha),
        "alphas": {encodable(metric): measure(annotators.alphas[metric]) for metric in sorted(annotators.alphas)},
        "ac": measure(annotators.ac),
        "pabak": measure(annotators.pabak),
        "positive_agreement": measure(annotators.positive_agreement),
        "negative_agreement": measure(annotators.negative_agreement),
        "counted": [encodable(name) for name in annotators.counted],
        "pairs": [_pair(pair) for pair in annotators.pairs],
        "each": [_each(rater) for rater in annotators.each],
    }


def _evaluator(evaluator: EvaluatorReport) -> dict[str, Any]:
    of_evaluator, of_humans = evaluator.on_shared_items
    return {
        "evaluator": encodable(evaluator.evaluator),
        "version": encodable(evaluator.version),
        "live": evaluator.live,
        "score": measure(evaluator.score),
        "on_shared_items": {"evaluator": measure(of_evaluator), "humans": measure(of_humans)},
        "agreement": measure(evaluator.agreement),
        "kappa": measure(evaluator.kappa),
        "pabak": measure(evaluator.pabak),
        "positive_agreement": measure(evaluator.positive_agreement),
        "negative_agreement": measure(evaluator.negative_agreement),
        "counts": _counts(evaluator.counts),
        "each": [_pair(pair) for pair in evaluator.each],
    }


def _calibration(calibration: Calibration) -> dict[str, Any]:
    """What a dimension holds beside its judges' own numbers."""
    gold = calibration.gold
    return {
        "gold": {"rule": gold.rule, "source": encodable(gold.source), **gold.counts, "resolved": gold.resolved},
        "design": calibration.sampled and _design(calibration.sampled),
        "judges_together": _told(calibration.judges_together),
        "judges_compared": _told(calibration.judges_compared),
        "icc": _told(calibration.icc),
        "paradox": _told(calibration.paradox),
        "judges_without_answers": [
            {"evaluator": encodable(judge.evaluator), "version": encodable(judge.version), **_calibrated(judge)}
            for judge in calibration.silent
        ],
    }


def _labelling(found: Labelling) -> dict[str, Any]:
    return {
        "people": found.people,
        "goals": [
            {"what": g.what, "asked": _plain(g.asked), "reached": _plain(g.reached), "met": g.met, "reason": g.reason}
            for g in found.goals
        ],
        "target_moved": None if found.moved is None else encodable(found.moved),
        "causes": {cause: found.causes[cause] for cause in found.causes},
        "test_split_uses": [
            {"evaluator": encodable(u.evaluator), "version": encodable(u.version), "uses": u.uses}
            for u in found.test_uses
        ],
    }


def _design(sampled: Sampled) -> dict[str, Any]:
    design = sampled.design
    return {
        "kind": design.kind,
        "dimension": _plain(design.dimension),
        "judge": _plain(design.judge),
        "weighted": sampled.weighted,
        "chosen": sampled.chosen,
        "unknown": sampled.unknown,
    }


def _calibrated(judge: JudgeCalibration | None) -> dict[str, Any]:
    """What stands beside an evaluator's own keys."""
    if judge is None:
        return {}
    against = _told(judge.against_gold)
    if judge.gold_numbers is not None:
        numbers = judge.gold_numbers
        told = {name: measure(one) for name, one in numbers.measures.items()}
        head = {"positive": _plain(numbers.positive), "is_weighted": numbers.weighted}
        against = head | told | against
    return {
        "coverage": _told(judge.coverage),
        "beside_humans": _told(judge.beside_humans),
        "alt_test": _told(judge.alt_test),
        "against_gold": against,
        "thresholds": _told(judge.thresholds),
        "confidence": {"draws": _told(judge.draws), "stated": _told(judge.stated)},
        "position": _told(judge.position),
        "corrected_rate": _told(judge.corrected_rate),
        "paradox": _told(judge.paradox),
    }


#: Said by the place already.
_SAID = ("judge", "coverage")


def _told(value: Any) -> Any:
    """A result of ``calibration`` by the names of its fields."""
    if isinstance(value, Measure):
        return measure(value)
    if isinstance(value, Counts):
        return _counts(value)
    if is_dataclass(value) and not isinstance(value, type):
        kept = [f.name for f in fields(value) if f.name not in _SAID]
        # The t of a judge that never differs is infinite; its p value is the one to read.
        return {name: None if _infinite(one := getattr(value, name)) else _told(one) for name in kept}
    if isinstance(value, tuple | list):
        return [_told(one) for one in value]
    if isinstance(value, Mapping):
        return {encodable(str(key)): _told(value[key]) for key in sorted(value, key=str)}
    return _plain(value)


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _pair(pair: PairReport) -> dict[str, Any]:
    return {
        "a": encodable(pair.a),
        "b": encodable(pair.b),
        "agreement": measure(pair.agreement),
        "kappa": measure(pair.kappa),
        "counts": None if pair.counts is None else _counts(pair.counts),
    }


def _each(rater: RaterReport) -> dict[str, Any]:
    return {
        "rater": encodable(rater.rater),
        "score": measure(rater.score),
        "agreement": measure(rater.agreement),
        "kappa": measure(rater.kappa),
    }


def _rater(rater: RaterInfo) -> dict[str, Any]:
    return {
        "name": encodable(rater.name),
        "kind": rater.kind,
        "version": encodable(rater.version),
        "answers": rater.answers,
        "items": rater.items,
        "distribution": list(rater.distribution),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "rows": encodable(counts.rows),
        "columns": encodable(counts.columns),
        "labels": [encodable(label) for label in counts.labels],
        "table": [list(row) for row in counts.table],
    }


def _scale(scale: Scale) -> dict[str, Any]:
    shape: dict[str, Any] = {"kind": scale.kind, "labels": [encodable(name) for name in scale.names]}
    if scale.kind == "rating":
        shape |= {"low": _plain(scale.low), "high": _plain(scale.high), "step": _plain(scale.step)}
        shape |= {"points": _plain(scale.points)} if scale.points else {}
    if scale.kind == "binary":
        shape["pass"] = encodable(scale.labels[0])
    if scale.kind == "preference":
        shape["fixed"] = scale.fixed
    return shape


def measure(measure: Measure) -> dict[str, Any]:
    """A measure with its details beside the contract's own keys, which no detail can overwrite."""
    interval = measure.interval
    shape = {
        "value": _plain(measure.value),
        "reason": measure.reason,
        "n_items": measure.n_items,
        "n_pairs": measure.n_pairs,
        "interval": interval
        and {
            "low": _plain(interval.low),
            "high": _plain(interval.high),
            "level": _plain(interval.level),
            "method": encodable(interval.method),
            "resamples": interval.resamples,
            "discarded": interval.discarded,
        },
        "interval_reason": measure.interval_reason,
    }
    shape |= {key: value for key, value in _plain(measure.details).items() if key not in shape}
    if measure.warnings:
        shape["warnings"] = [encodable(warning) for warning in measure.warnings]
    return shape


def _counted(causes: Mapping[str, int]) -> dict[str, int]:
    return {encodable(cause): int(causes[cause]) for cause in sorted(causes)}


def _plain(value: Any) -> Any:
    """What JSON can hold: fractions and numpy's numbers as numbers, the rest as text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a report cannot hold {value}; a number that does not exist is null and has a reason")
        return float(value) + 0.0  # -0.0 would be written with its sign
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, Mapping):
        return {encodable(str(key)): _plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        return _plain(value.item())
    return encodable(str(value))


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
