"""The report on a terminal: per dimension one headline table, then who and what stands behind it.

Everything fits 100 columns; narrower terminals wrap names and notes, never numbers. Platform text is only ever put into
``rich.text.Text``, never read as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import IO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from calibrate_plugin.model import (
    AnnotatorsReport,
    Counts,
    Coverage,
    DimensionReport,
    Disagreement,
    EvaluatorReport,
    Measure,
    Report,
    Scale,
)
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.report import calibrated, calibration_words, display, labelling_words
from calibrate_plugin.report.display import DASH, EMPTY

WIDTH = 100
LISTED = 5  # disagreements
RATERS = 12  # rows of annotators, of pairs and of slices
CATEGORIES = 12  # a wider table of counts is left to the other formats
NAME = 24  # characters of a name in a table
_WORD = 14  # columns that a kappa or a name needs at least
TEXT = 300  # characters of a note, a warning, a study's name
EXAMPLES = 3  # answers outside the scale
# Holds a number and its unit together until lines are broken; rich breaks at a no-break space.
_GLUE = "\ue000"

# What a terminal without these letters gets instead.
_ASCII = str.maketrans(
    {DASH: "-", "…": "...", "·": "-", "─": "-", **dict(zip("¹²³⁴⁵⁶⁷⁸⁹⁰", "1234567890", strict=True))}
)
_SUPERSCRIPT = str.maketrans("1234567890", "¹²³⁴⁵⁶⁷⁸⁹⁰")


def show(report: Report, file: IO[str] | None = None) -> None:
    """Write the report to ``file`` (standard output), as wide as the terminal but at most ``WIDTH``; colour only on a
    terminal and never where NO_COLOR is set."""
    out = file if file is not None else sys.stdout
    terminal = Console(file=out)
    width = min(terminal.width, WIDTH) if terminal.is_terminal else WIDTH
    text = render(report, width=width, colour=terminal.is_terminal and not terminal.no_color)
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    out.write(text)


def render(report: Report, width: int = WIDTH, colour: bool = False) -> str:
    """The report as text of at most ``width`` columns; with ``colour`` it holds escape sequences of our own."""
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    for part in _report(report):
        console.print(part)
    # Cells are padded to their column; what lies right of the last letter says nothing.
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().replace(_GLUE, " ").splitlines())


def _report(report: Report) -> Iterable[RenderableType]:
    at = report.generated_at.strftime("%Y-%m-%d %H:%M %Z").strip()
    yield Text.assemble((_name(report.study, TEXT), "bold"), (f"  {at}", "dim"))
    if report.only:
        yield Text(f"Only: {_name('; '.join(report.only), TEXT)}", "yellow")
    yield _coverage(report.coverage, report.sources)
    for dimension in report.dimensions:
        yield Text()
        yield from _dimension(dimension, report.bands)
    if not report.dimensions:
        yield Text("No dimension has any label.")


def _coverage(coverage: Coverage, sources: Sequence[str]) -> Text:
    text = Text(
        f"{display.plural(coverage.items, 'item')}: {coverage.with_humans:,} labelled by people, "
        f"{coverage.with_evaluators:,} scored by evaluators, {coverage.with_both:,} by both. "
        f"Labels that count: {coverage.counted:,} of {coverage.labels:,}."
    )
    if any(sources):
        text.append(f" From {_name(', '.join(sources), TEXT)}.")
    if coverage.unread:
        unread = ", ".join(f"{n:,} {display.cause_name(cause)}" for cause, n in display.by_count(coverage.unread))
        text.append(f"\nNot read as labels: {unread}.", "yellow")
    return text


def _dimension(dimension: DimensionReport, bands: str) -> Iterable[RenderableType]:
    title = Text.assemble((_name(dimension.name, 2 * NAME), "bold"), f" · {display.scale_words(dimension.scale)}")
    title.truncate(WIDTH - 20, overflow="ellipsis")
    yield Rule(title, align="left", style="dim")
    for index, block in enumerate(_blocks(dimension, bands)):
        if index:
            yield Text()
        yield block


def _blocks(dimension: DimensionReport, bands: str) -> Iterable[RenderableType]:
    scale, people = dimension.scale, dimension.annotators
    reasons = _Reasons(display.level(dimension))
    yield _headline(dimension, bands, reasons)
    if people.each:
        yield _annotators(dimension, reasons)
    if len(people.pairs) > 1:
        rows = [(f"{_name(p.a)} · {_name(p.b)}", p.agreement, p.kappa) for p in people.pairs]
        yield _pairs("Pairs of annotators", rows, bands, reasons)
    if coefficients := _coefficients(dimension, bands):
        yield coefficients
    if len(people.pairs) == 1 and people.pairs[0].counts is not None and _fits(people.pairs[0].counts):
        yield _counts(people.pairs[0].counts)
    for evaluator in dimension.evaluators:
        if evaluator.agreement.value is not None:
            yield _evaluator(evaluator, scale, bands, reasons)
    if dimension.judges:
        rows = [(f"{_name(p.a)} · {_name(p.b)}", p.agreement, p.kappa) for p in dimension.judges]
        yield _pairs("Evaluators with each other", rows, bands, reasons)
    yield from _calibration(dimension)
    if said := list(labelling_words.of(dimension.labelling)):
        yield _said(Text("How the labels came to be", "bold"), said)
    if dimension.slices:
        yield _slices(dimension, reasons)
    if dimension.disagreements.human_items or dimension.disagreements.judge_items:
        yield _disagreements(dimension)
    if aside := display.by_count(dimension.set_aside):
        lines = [
            Padding(Text(f"{n:>7,}  {display.cause_text(cause)}{_such_as(dimension, cause)}"), (0, 0, 0, 2))
            for cause, n in aside
        ]
        yield Group(Text("Set aside", "bold"), *lines)
    if dimension.notes:
        yield Group(*(Text(f"Note: {_name(note, TEXT)}", "yellow") for note in dimension.notes))


def _such_as(dimension: DimensionReport, cause: str) -> str:
    """What was answered instead of a value of the scale: a misspelt scale or a decimal comma shows here."""
    if cause not in ("failed", "rejected"):
        return ""
    values = dict.fromkeys(one.value for one in dimension.set_aside_listed if one.cause == cause and one.value)
    shown = [_name(value) for value in list(values)[:EXAMPLES]]
    return f", such as {', '.join(shown)}" if shown else ""


def _fits(counts: Counts) -> bool:
    return len(counts.labels) <= CATEGORIES


def _headline(dimension: DimensionReport, bands: str, reasons: _Reasons) -> RenderableType:
    """Scores, agreement and kappa of the people and of each evaluator with them; under it why a number is missing."""
    scale, people = dimension.scale, dimension.annotators
    table = _Table("Score", "Agreement", "Kappa", reasons.interval, "Pairs", "Items")
    note = calibration_words.as_labelled(calibrated.of(dimension))
    table.add_line(
        Text(_people(people), "bold"),
        _score(dimension.human_score, scale, "label", reasons, note),
        *_agreement(people.agreement, people.kappa, bands, reasons, note),
    )
    for evaluator in dimension.evaluators:
        name = Text(_name(display.evaluator_name(evaluator), 2 * NAME), "bold")
        if evaluator.live is not True:
            name.append(" (not live)" if evaluator.live is False else " (none is live)", "not bold yellow")
        table.add_line(
            name,
            _score(evaluator.score, scale, "item", reasons),
            *_agreement(evaluator.agreement, evaluator.kappa, bands, reasons, note),
        )
    return Group(table, *reasons.lines())


def _people(people: AnnotatorsReport) -> str:
    n = len(people.counted)
    if n == 2 and len(names := " and ".join(map(_name, people.counted))) <= NAME:
        return names
    return f"{n} annotators" if n > 1 else "Annotators"


def _annotators(dimension: DimensionReport, reasons: _Reasons) -> RenderableType:
    each = dimension.annotators.each
    table = _Table("Score", "Agreement", "Kappa", reasons.interval, "Pairs", "Items")
    for rater in each[:RATERS]:
        table.add_line(
            Text(_name(rater.rater)),
            _score(rater.score, dimension.scale, "label", reasons),
            *_agreement(rater.agreement, rater.kappa, "none", reasons),
        )
    title = Text("Each annotator with the others", "bold")
    return Group(title, table, *reasons.lines(), *_more(len(each) - RATERS, "annotator"))


def _pairs(title: str, rows: Sequence[tuple[str, Measure, Measure]], bands: str, reasons: _Reasons) -> RenderableType:
    table = _Table("Agreement", "Kappa", reasons.interval, "Pairs", "Items")
    for names, agreement, kappa in rows[:RATERS]:
        table.add_line(Text(names), *_agreement(agreement, kappa, bands, reasons))
    return Group(Text(title, "bold"), table, *reasons.lines(), *_more(len(rows) - RATERS, "pair"))


def _coefficients(dimension: DimensionReport, bands: str) -> Text | None:
    """The other coefficients of the annotators, and those of all raters, where they exist."""
    people = dimension.annotators
    parts = []
    if people.kappa.details.get("chance") is not None:
        parts.append(f"agreement by chance {display.percent(people.kappa.details['chance'])}")
    for metric, alpha in people.alphas.items():
        if alpha.value is not None:
            word = display.alpha_band(alpha, bands) if metric == people.alpha.details.get("metric") else ""
            name = f"alpha ({display.visible(metric)})"
            parts.append(f"{name} {display.coefficient(alpha.value)}{f', {word}' if word else ''}")
    for name, measure in (("Gwet AC", people.ac), ("PABAK", people.pabak)):
        if measure.value is not None:
            parts.append(f"{name} {display.coefficient(measure.value)}")
    for name, measure in (("positive", people.positive_agreement), ("negative", people.negative_agreement)):
        if measure.value is not None:
            parts.append(f"{name} agreement {display.percent(measure.value)}")
    lines = [f"Annotators: {'; '.join(parts)}.".replace(" %", f"{_GLUE}%")] if parts else []
    if dimension.evaluators:
        parts = [
            f"{name} {display.coefficient(measure.value)}"
            for name, measure in (("Fleiss' kappa", dimension.fleiss_all), ("alpha", dimension.alpha_all))
            if measure.value is not None
        ]
        lines += [f"All raters, evaluators included: {'; '.join(parts)}."] if parts else []
    return Text("\n".join(lines)) if lines else None


def _evaluator(evaluator: EvaluatorReport, scale: Scale, bands: str, reasons: _Reasons) -> RenderableType:
    name = _name(display.evaluator_name(evaluator), 2 * NAME)
    of_evaluator, of_humans = evaluator.on_shared_items
    parts = []
    if of_evaluator.value is not None and of_humans.value is not None:
        parts.append(
            f"on the {display.plural(of_evaluator.n_items, 'item')} that people labelled too it scores "
            f"{display.score(of_evaluator.value, scale)}, the people {display.score(of_humans.value, scale)}"
        )
    chance = evaluator.kappa.details.get("chance")
    if chance is not None:
        parts.append(f"agreement by chance {display.percent(chance)}")
    if evaluator.pabak.value is not None:
        parts.append(f"PABAK {display.coefficient(evaluator.pabak.value)}")
    blocks: list[RenderableType] = [
        Text.assemble((name, "bold"), f": {'; '.join(parts)}.".replace(" %", f"{_GLUE}%") if parts else "")
    ]
    if _fits(evaluator.counts):
        blocks.append(_counts(evaluator.counts))
    if len(evaluator.each) > 1:
        rows = [(_name(p.b), p.agreement, p.kappa) for p in evaluator.each]
        blocks += [Text(), _pairs(f"{name} with each annotator", rows, bands, reasons)]
    return Group(*blocks)


def _calibration(dimension: DimensionReport) -> Iterable[RenderableType]:
    """How good each judge is, the verdict first; then judges beside each other."""
    found = calibrated.of(dimension)
    if found is None or not (found.judges or found.silent):
        return
    yield _said(Text("How good the judges are", "bold"), calibration_words.of_dimension(found, dimension.scale))
    for judge in (*found.judges[:RATERS], *found.silent[:RATERS]):
        if said := list(calibration_words.of_judge(judge, dimension.scale)):
            yield _said(Text(_name(judge.name, 2 * NAME), "bold"), said)
    yield from _more(len(found.judges) - RATERS, "judge")
    if found.judges_compared:
        shown = found.judges_compared[: calibration_words.LISTED]
        lines = [
            Padding(Text(f"{_name(pair.a)} minus {_name(pair.b)}: {calibration_words.compared(pair)}"), (0, 0, 0, 2))
            for pair in shown
        ]
        more = _more(len(found.judges_compared) - len(shown), "pair")
        yield Group(Text("Judges side by side", "bold"), *lines, *more)


def _said(title: Text, said: Iterable[calibration_words.Said]) -> RenderableType:
    lines = [Text.assemble((f"{one.title}: ", "dim"), one.text.replace(" %", f"{_GLUE}%")) for one in said]
    return Group(title, *(Padding(line, (0, 0, 0, 2)) for line in lines))


def _counts(counts: Counts) -> RenderableType:
    corner = Text(f"rows: {_name(counts.rows)}\ncolumns: {_name(counts.columns)}", "dim")
    length = 12 if len(counts.labels) <= 5 else 6
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(corner, no_wrap=True)
    for label in counts.labels:
        table.add_column(Text(_name(label, length)), justify="right", no_wrap=True, vertical="bottom")
    for label, row in zip(counts.labels, counts.table, strict=True):
        table.add_row(Text(_name(label)), *(Text(f"{n:,}") for n in row))
    return Padding(table, (0, 0, 0, 2))


def _slices(dimension: DimensionReport, reasons: _Reasons) -> RenderableType:
    table = _Table("Score", "Agreement", "Kappa", reasons.interval, "Pairs", "Items")
    for part in dimension.slices[:RATERS]:
        people = part.report.annotators
        table.add_line(
            Text(f"{_name(part.fact)} = {_name(part.value)}", "bold"),
            _score(part.report.human_score, part.report.scale, "label", reasons),
            *_agreement(people.agreement, people.kappa, "none", reasons),
        )
        for evaluator in part.report.evaluators:
            table.add_line(
                Text(f"  {_name(display.evaluator_name(evaluator))}"),
                _score(evaluator.score, part.report.scale, "item", reasons),
                *_agreement(evaluator.agreement, evaluator.kappa, "none", reasons),
            )
    more = _more(len(dimension.slices) - RATERS, "slice")
    return Group(Text("Slices", "bold"), table, *reasons.lines(), *more)


def _disagreements(dimension: DimensionReport) -> RenderableType:
    found = dimension.disagreements
    title = Text.assemble(
        ("Disagreements", "bold"),
        f": the annotators differ on {display.plural(found.human_items, 'item')}, an evaluator differs from an "
        f"annotator on {display.plural(found.judge_items, 'item')}; {display.plural(found.pairs, 'pair')} in all.",
    )
    shown = [
        Padding(_disagreement(disagreement, dimension.scale), (0, 0, 0, 2)) for disagreement in found.listed[:LISTED]
    ]
    rest = len(found.listed) - len(shown)
    more = [Text(f"  {display.plural(rest, 'more item')} in the HTML report and in pairs.csv", "dim")] if rest else []
    return Group(title, *shown, *more)


def _disagreement(disagreement: Disagreement, scale: Scale) -> RenderableType:
    apart = display.distance(disagreement.distance, scale)
    lines = [Text.assemble((_name(disagreement.item, 60), "bold"), f"  {apart}" if apart else "")]
    for answer in disagreement.answers[:RATERS]:
        version = f" {answer.version}" if answer.version and answer.kind == "evaluator" else ""
        line = Text.assemble(f"  {_name(answer.rater + version)}: ", (_name(answer.value), "bold"))
        if answer.after_ruling:
            line.append(" (after the ruling)", "yellow")
        if answer.reason:
            line.append(f"  {_name(answer.reason, TEXT)}", "dim")
        lines.append(line)
    if (ruling := disagreement.ruling) is not None:
        cause = CAUSES.get(ruling.cause or "", "")
        line = Text.assemble("  ruled ", (_name(ruling.value), "bold"), f" by {_name(ruling.by)}: {cause}")
        lines.append(line.append(f"  {_name(ruling.reason or '', TEXT)}", "dim") if ruling.reason else line)
    if len(disagreement.answers) > RATERS:
        lines.append(Text(f"  {display.plural(len(disagreement.answers) - RATERS, 'more answer')}", "dim"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


class _Reasons:
    """Why a dash stands where a number should, and what to mind about one that is there: each has a mark and is told
    once per dimension."""

    def __init__(self, level: float) -> None:
        self.interval = f"{display.percent(level)} interval"
        self.marks: dict[str, str] = {}
        self.told = 0

    def dash(self, reason: str | None) -> Text:
        return Text(f"{DASH}{self.mark(display.reason_text(reason))}" if reason else DASH, "dim")

    def mark(self, text: str) -> str:
        return self.marks.setdefault(text, str(len(self.marks) + 1).translate(_SUPERSCRIPT))

    def lines(self) -> list[Text]:
        """Those that were not told yet."""
        new = list(self.marks.items())[self.told :]
        self.told = len(self.marks)
        return [Text(f"{mark} {text}", "dim") for text, mark in new]


class _Table(Table):
    """A table that wraps its kappas first, then its names, then its scores, as far as the terminal makes it."""

    def __init__(self, *columns: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        self.longest = [len(column) for column in ("", *columns)]
        self.word = _WORD
        self.add_column(overflow="fold")
        for column in columns:
            self.add_column(
                Text(column, "dim"),
                justify="right" if column in ("Pairs", "Items") else "left",
                no_wrap=column not in ("Score", "Kappa"),
                overflow="fold",
            )

    def add_line(self, *cells: Text) -> None:
        self.longest = [max(longest, cell.cell_len) for longest, cell in zip(self.longest, cells, strict=True)]
        self.word = min(NAME - 4, max(self.word, *map(len, cells[0].plain.split() or [""])))
        self.add_row(*cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headers = [str(column.header) for column in self.columns]
        lengths = zip(headers, self.longest, strict=True)
        least = [min(length, _WORD) if header == "Kappa" else length for header, length in lengths]
        room = options.max_width - sum(least) - 2 * (len(least) - 1)
        if "Score" in headers:
            self.columns[headers.index("Score")].no_wrap = room + least[0] >= _WORD
        if room >= 0:
            self.columns[0].no_wrap = True
        else:  # a name breaks between its words, not in one
            self.columns[0].width = min(max(least[0] + room, self.word), least[0])
        yield from super().__rich_console__(console, options)


def _name(text: str, length: int = NAME) -> str:
    """Platform text for one line, cut to ``length``; a text of megabytes is cut before anything else."""
    return display.clip(display.visible(text[: length + 1]), length) or EMPTY


def _score(measure: Measure, scale: Scale, unit: str, reasons: _Reasons, note: str | None = None) -> Text:
    if measure.value is None:
        return reasons.dash(measure.reason)
    text = Text(display.score(measure.value, scale), "bold")
    text.append(f" ({display.score_parts(measure, scale, unit)})", "not bold dim")
    return text.append(reasons.mark(note) if note else "", "not bold dim")


def _agreement(
    agreement: Measure, kappa: Measure, bands: str, reasons: _Reasons, note: str | None = None
) -> tuple[Text, ...]:
    """The cells from agreement to items; ``note`` is what to mind about all of them."""
    share = reasons.dash(agreement.reason) if agreement.value is None else Text(display.percent(agreement.value))
    if kappa.value is None:
        value, ends = reasons.dash(kappa.reason), Text()
    else:
        word = display.kappa_band(kappa, bands)
        value = Text(f"{display.coefficient(kappa.value)} {display.kappa_name(kappa)}".strip(), "bold")
        value.append(f" {word}" if word else "", "not bold")
        minded = [*filter(None, [note]), *(_name(display.warning_text(w), TEXT) for w in kappa.warnings)]
        value.append("".join(map(reasons.mark, minded)), "dim")
        ends = Text(display.interval(kappa.interval)) if kappa.interval else reasons.dash(kappa.interval_reason)
    pairs = "" if kappa.n_pairs is None else f"{kappa.n_pairs:,}"
    return share, value, ends, Text(pairs), Text(f"{kappa.n_items:,}")


def _more(n: int, unit: str) -> list[Text]:
    return [Text(display.plural(n, f"more {unit}"), "dim")] if n > 0 else []
