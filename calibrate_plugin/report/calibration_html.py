"""The calibration of a dimension as its part of the page: sentences, pictures and tables of each judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calibrate_plugin.calibration.confidence import Confidence
from calibrate_plugin.calibration.gold import AgainstGold
from calibrate_plugin.calibration.thresholds import Thresholds
from calibrate_plugin.model import DimensionReport, Measure, Scale
from calibrate_plugin.report import calibrated, calibration_words, charts, display
from calibrate_plugin.report.calibrated import JudgeCalibration
from calibrate_plugin.report.calibration_words import Said
from calibrate_plugin.report.display import EMPTY

NAME = 60
DRAWN = 6  # judges of a dimension that have pictures
JUDGES = 60  # judges of a dimension that are told at all
ROWS = 24  # kappas in one forest
TABLED = 12  # levels up to which a confusion table is shown
COMPARED = 200


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its caption, and its keys: class and text."""

    caption: str
    drawing: Markup
    keys: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Confusion:
    """The judge's answers (rows) against gold (columns): per row its name and cells (text, shade, whether both say the same).
    The last row, where there is one, are items without an answer."""

    labels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    total: int
    gold: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One judge. ``word`` is its verdict's, "no verdict" where there is none."""

    name: str
    word: str
    said: tuple[Said, ...]
    pictures: tuple[Picture, ...]
    confusion: Confusion | None


@dataclass(frozen=True, slots=True)
class Part:
    """All of it. ``compared``: two judges and what the first minus the second says."""

    said: tuple[Said, ...]
    judges: tuple[Judged, ...]
    left_out: int
    compared: tuple[tuple[str, str], ...]


def part(dimension: DimensionReport) -> Part | None:
    """The part of one dimension; None where no calibration was made or no judge was asked."""
    found = calibrated.of(dimension)
    if found is None or not (found.judges or found.silent):
        return None
    every = [*found.judges, *found.silent]
    return Part(
        tuple(calibration_words.of_dimension(found, dimension.scale)),
        tuple(_judged(judge, dimension.scale, i < DRAWN) for i, judge in enumerate(every[:JUDGES])),
        max(0, len(every) - JUDGES),
        tuple(
            (f"{_name(pair.a)} minus {_name(pair.b)}", calibration_words.compared(pair))
            for pair in found.judges_compared[:COMPARED]
        ),
    )


def _judged(judge: JudgeCalibration, scale: Scale, drawn: bool) -> Judged:
    return Judged(
        _name(judge.name),
        calibration_words.verdict_word(judge),
        tuple(calibration_words.of_judge(judge, scale)),
        tuple(_pictures(judge, scale)) if drawn else (),
        None if judge.against_gold is None else _confusion(judge.against_gold),
    )


def _pictures(judge: JudgeCalibration, scale: Scale) -> Iterator[Picture]:
    if (forest := _forest(judge)) is not None:
        yield forest
    for title, told in (("Confidence of its draws", judge.draws), ("Stated confidence", judge.stated)):
        if told is not None and (picture := _reliability(title, told)) is not None:
            yield picture
    if judge.thresholds is not None and judge.thresholds.rows:
        yield _curve(judge.thresholds)
    if (rates := _rates(judge, scale)) is not None:
        yield rates


def _forest(judge: JudgeCalibration) -> Picture | None:
    """Every kappa of the judge with an annotator beside the annotators' own; shaded is what they reach with each other."""
    found = judge.beside_humans
    if found is None or found.judge_human.mean.value is None:
        return None
    rows = [_row("Annotators, mean", "human", found.human_human.mean)]
    if len(found.human_human.pairs) > 1:
        pairs = found.human_human.pairs[: ROWS // 2]
        rows += [_row(charts.pair_label(p.a, p.b), "human", p.kappa) for p in pairs]
    rows.append(_row("Judge, mean", "judge", found.judge_human.mean))
    if len(found.judge_human.pairs) > 1:
        rows += [_row(f"with {p.b}", "judge", p.kappa) for p in found.judge_human.pairs[: ROWS // 2]]
    ends = found.human_human.mean.interval
    band = (ends.low, ends.high) if ends is not None else None
    keys = (("human", "annotators with each other"), ("judge", "the judge with annotators"))
    note = "Shaded: the interval of the annotators’ mean, the human ceiling." if band else ""
    return Picture("Kappa against the human ceiling", _svg(charts.forest(rows, band)), keys, note)


def _row(label: str, who: charts.Who, kappa: Measure) -> charts.Row:
    if kappa.value is None:
        return charts.Row(label or EMPTY, who, missing=display.reason_name(kappa.reason) or "undefined")
    ends = kappa.interval
    low, high = (ends.low, ends.high) if ends else (None, None)
    return charts.Row(label or EMPTY, who, kappa.value, low, high, _minus(display.coefficient(kappa.value)))


def _reliability(title: str, found: Confidence) -> Picture | None:
    groups = []
    for one in (found.weighted or found).bins:
        if one.n and one.confidence is not None and one.accuracy is not None and one.accuracy.value is not None:
            ends = one.accuracy.interval
            low, high = (ends.low, ends.high) if ends else (None, None)
            groups.append(charts.Group(one.confidence, one.accuracy.value, low, high, one.n))
    if not groups:
        return None
    counts = ", ".join(f"{display.percent(g.confidence)}: {g.n:,}" for g in groups)
    return Picture(
        f"{title}: how often it is right",
        _svg(charts.reliability(groups)),
        (("judge", "right answers by confidence, larger where there are more"),),
        f"On the diagonal it is right as often as it is sure. Items by confidence: {counts}.",
    )


def _curve(found: Thresholds) -> Picture:
    rows = found.rows
    low, high = rows[0].threshold, rows[-1].threshold
    if low == high:
        low, high = low - 0.5, high + 0.5
    tpr = [(row.threshold, row.tpr) for row in rows]
    tnr = [(row.threshold, row.tnr) for row in rows]
    told = "" if found.test is not None else " They are the items that chose it, so this is no evidence for it."
    return Picture(
        "What every threshold would do",
        _svg(charts.curve(low, high, (("human", tpr), ("judge", tnr)), found.chosen)),
        (("human", "TPR, passes that pass"), ("judge", "TNR, fails that fail")),
        f"Upright: the best threshold, {found.chosen:.4g}.{told}" if found.chosen is not None else "",
    )


def _rates(judge: JudgeCalibration, scale: Scale) -> Picture | None:
    spans = []
    for one in judge.corrected_rate:
        if one.period is None:
            continue
        ends = one.rate.interval
        low, high = (ends.low, ends.high) if ends else (None, None)
        spans.append(charts.Span(one.period, one.observed.value, one.rate.value, low, high))
    if len(spans) < 2 or all(span.rate is None and span.low is None for span in spans):
        return None
    if scale.kind == "binary":
        drawing = charts.over_time(spans)
    else:
        assert scale.low is not None and scale.high is not None
        drawing = charts.over_time(spans, float(scale.low), float(scale.high), ".2~f")
    keys = (("human", "what people would say, with its interval"), ("judge", "what the judge says"))
    return Picture("Corrected rate over time", _svg(drawing), keys)


def _confusion(found: AgainstGold) -> Confusion | None:
    counts = found.counts
    total = sum(map(sum, counts.table))
    if len(counts.labels) > TABLED or not total:
        return None
    most = max(n for row in counts.table for n in row)
    rows = [
        (_name(label), _cells(row, most, i))
        for i, (label, row) in enumerate(zip(counts.labels, counts.table, strict=True))
    ]
    if any(found.failed):
        rows.append(("no answer", _cells(found.failed, max(most, *found.failed), None)))
    return Confusion(tuple(map(_name, counts.labels)), tuple(rows), total, _name(found.gold))


def _cells(row: Sequence[int], most: int, same: int | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{n:,}", f"{'same ' if j == same else ''}{f'n{-(-n * 9 // most)}' if n else 'nil'}")
        for j, n in enumerate(row)
    )


def _name(text: str) -> str:
    return display.clip(display.visible(text[: NAME + 1]), NAME) or EMPTY


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _svg(drawing: str) -> Markup:
    return Markup(drawing)  # noqa: S704  rebuilt by charts from allowed elements, its text escaped


__all__ = ["Confusion", "Judged", "Part", "Picture", "part"]
