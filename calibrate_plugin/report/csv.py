"""The report as two CSV files: ``numbers.csv`` holds every number, ``pairs.csv`` every possible pair of answers.

UTF-8, commas, a header line. Text is quoted and a missing value is empty. What a spreadsheet would run as a formula gets a
leading apostrophe; control characters are shown, not obeyed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import polars as pl

from calibrate_plugin.model import DimensionReport, EvaluatorReport, Measure, PairReport, RaterReport, Report
from calibrate_plugin.report import display

NUMBERS = "numbers.csv"
PAIRS = "pairs.csv"

#: One row per dimension, slice, subject and statistic. ``fact`` and ``slice`` are empty for the whole dimension.
#: ``subject`` is annotators, annotator (one with the others), annotator_pair, evaluator (with the annotators),
#: evaluator_annotator, evaluator_pair or all_raters; ``kind`` says which kappa, which alpha or which weights, and of the
#: numbers of a calibration which positive class or period.
COLUMNS: dict[str, type[pl.DataType]] = {
    "study": pl.String,
    "dimension": pl.String,
    "fact": pl.String,
    "slice": pl.String,
    "subject": pl.String,
    "rater_a": pl.String,
    "rater_b": pl.String,
    "version": pl.String,
    "statistic": pl.String,
    "kind": pl.String,
    "value": pl.Float64,
    "reason": pl.String,
    "n_items": pl.Int64,
    "n_pairs": pl.Int64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "method": pl.String,
    "interval_reason": pl.String,
}

Row = tuple[Any, ...]


def write(report: Report, pairs: pl.DataFrame, folder: Path) -> tuple[Path, Path]:
    """Write both files into ``folder``, which is made where it is missing; returns where they lie. A file that was there
    before is replaced once the new one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in ((NUMBERS, numbers(report)), (PAIRS, pairs)):
        part = folder / f"{name}.part"
        _write(table, part)
        part.replace(folder / name)
    return folder / NUMBERS, folder / PAIRS


def write_numbers(report: Report, target: Path | IO[bytes]) -> None:
    """Write every number of the report, one per row."""
    _write(numbers(report), target)


def write_pairs(pairs: pl.DataFrame, target: Path | IO[bytes]) -> None:
    """Write one row per possible pair of answers, as they come: both answers and reasons, in or out and the cause."""
    _write(pairs, target)


def numbers(report: Report) -> pl.DataFrame:
    """Every number of the report with the columns of ``COLUMNS``, text as it is."""
    rows = [
        (report.study, dimension.name, *row) for dimension in report.dimensions for row in _rows(dimension, None, None)
    ]
    # Lone surrogates cannot be in a frame at all.
    text = [i for i, dtype in enumerate(COLUMNS.values()) if dtype is pl.String]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    for i in text:
        columns[i] = [None if value is None else display.encodable(value) for value in columns[i]]
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)), schema=COLUMNS)


def _rows(dimension: DimensionReport, fact: str | None, value: str | None) -> Iterator[Row]:
    people = dimension.annotators
    of_people: dict[str, Measure] = {
        "score": dimension.human_score,
        "agreement": people.agreement,
        "kappa": people.kappa,
        "ac": people.ac,
        "pabak": people.pabak,
        "positive_agreement": people.positive_agreement,
        "negative_agreement": people.negative_agreement,
    }
    rows = list(_measures("annotators", None, None, None, of_people))
    for alpha in people.alphas.values() or (people.alpha,):
        rows += _measures("annotators", None, None, None, {"alpha": alpha})
    for rater in people.each:
        rows += _each(rater)
    for pair in people.pairs:
        rows += _pair("annotator_pair", pair, None)
    for evaluator in dimension.evaluators:
        rows += _evaluator(evaluator)
    for pair in dimension.judges:
        rows += _pair("evaluator_pair", pair, None)
    if dimension.calibration is not None:
        for told in dimension.calibration.numbers():
            subject = "annotators" if told.evaluator is None else "evaluator_pair" if told.other else "evaluator"
            for row in _measures(subject, told.evaluator, told.other, told.version, {told.name: told.measure}):
                rows.append((*row[:5], told.kind if told.kind is not None else row[5], *row[6:]))
    rows += _measures("all_raters", None, None, None, {"kappa": dimension.fleiss_all, "alpha": dimension.alpha_all})
    for row in rows:
        yield (fact, value, *row)
    for part in dimension.slices:
        yield from _rows(part.report, part.fact, part.value)


def _evaluator(evaluator: EvaluatorReport) -> Iterator[Row]:
    of_evaluator, of_humans = evaluator.on_shared_items
    measures = {
        "score": evaluator.score,
        "score_on_shared_items": of_evaluator,
        "human_score_on_shared_items": of_humans,
        "agreement": evaluator.agreement,
        "kappa": evaluator.kappa,
        "pabak": evaluator.pabak,
        "positive_agreement": evaluator.positive_agreement,
        "negative_agreement": evaluator.negative_agreement,
    }
    yield from _measures("evaluator", evaluator.evaluator, None, evaluator.version, measures)
    for pair in evaluator.each:
        yield from _pair("evaluator_annotator", pair, evaluator.version)


def _each(rater: RaterReport) -> Iterator[Row]:
    measures = {"score": rater.score, "agreement": rater.agreement, "kappa": rater.kappa}
    yield from _measures("annotator", rater.rater, None, None, measures)


def _pair(subject: str, pair: PairReport, version: str | None) -> Iterator[Row]:
    measures = {"agreement": pair.agreement, "kappa": pair.kappa}
    yield from _measures(subject, pair.a, pair.b, version, measures)


def _measures(
    subject: str, a: str | None, b: str | None, version: str | None, measures: Mapping[str, Measure]
) -> Iterable[Row]:
    for statistic, measure in measures.items():
        if measure.value is not None and not math.isfinite(measure.value):
            raise ValueError(f"a report cannot hold {measure.value}; a number that does not exist has a reason instead")
        details, ends = measure.details, measure.interval
        kind = details.get("kind") or details.get("metric") or details.get("weights")
        yield (
            subject,
            a,
            b,
            version,
            statistic,
            None if kind is None else str(kind),
            measure.value,
            measure.reason,
            measure.n_items,
            measure.n_pairs,
            ends and ends.low,
            ends and ends.high,
            ends and ends.level,
            ends and ends.method,
            measure.interval_reason,
        )


def _write(table: pl.DataFrame, target: Path | IO[bytes]) -> None:
    table.select(_neutral(table[name]) for name in table.columns).write_csv(target, quote_style="non_numeric")


def _neutral(column: pl.Series) -> pl.Series:
    """The column as a spreadsheet may read it. Clean columns, which are nearly all, pass through untouched."""
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        return column
    formula = column.str.contains(display.FORMULA) & ~column.str.contains(display.PLAIN_NUMBER)
    if column.str.contains(display.HIDDEN).any():
        shown = display.SHOWN
        column = column.str.replace_all("\r\n", "\n", literal=True).str.replace_many(list(shown), list(shown.values()))
    if formula.any():
        apostrophe = pl.when(formula).then(pl.lit("'") + column).otherwise(column)
        column = pl.select(apostrophe.alias(column.name)).to_series()
    return column
