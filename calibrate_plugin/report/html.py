"""The report as one HTML file: opens offline, asks the network for nothing, holds no script.

What a platform named is only ever text: jinja2 escapes it, ``display`` shows its control characters, and only ordinary http
and https addresses become links. The page's policy allows its own style sheet by hash and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from calibrate_plugin.model import (
    REASONS,
    Answer,
    Counts,
    DimensionReport,
    Disagreement,
    EvaluatorReport,
    Measure,
    PairReport,
    RaterInfo,
    Report,
    Scale,
    SetAside,
)
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.report import calibrated, calibration_html, charts, display, labelling_words
from calibrate_plugin.report.calibration_words import Said, as_labelled
from calibrate_plugin.report.display import DASH, EMPTY

LISTED = 1000  # disagreements of one dimension
LISTED_TEXT = 1_500_000, 8_000_000  # characters of all lists together beyond which no list gets longer than LISTED in
# sum, and beyond which none gets longer at all
NAME = 60  # characters of a name
VALUE = 200  # characters of an answer
REASON = 1500  # characters of a written reason
NOTE = 1000
ASIDE = 200  # labels set aside that are listed per dimension
MATRIX = 60  # raters in a matrix
ROOMY = 12  # raters up to which the cells of a matrix have room for counts
TABLED = 30  # levels up to which a table of counts is shown
TABLES = 10  # tables of counts of single pairs per dimension
PAIRS = 1500  # rows in all lists of pairs together, shared by the dimensions
LONG = 12  # annotators up to which their table stands open
BARS = 16  # raters in a chart of answers
FOREST = 30  # rows in a forest chart
FEW = 7  # levels up to which answers are drawn as stacked bars
SLICES = 200


def render(report: Report) -> str:
    """The whole page. Raises ValueError where a number is not finite."""
    style = _package_text("report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    most_pairs = PAIRS // max(1, len(report.dimensions))
    dimensions = [
        Section(index + 1, dimension, report.bands, most_pairs) for index, dimension in enumerate(report.dimensions)
    ]
    _share_lists(dimensions)
    page: str = _template().render(
        report=report,
        at=report.generated_at,
        coverage=report.coverage,
        dimensions=dimensions,
        overview=overview_chart(dimensions),
        unread=display.by_count(report.coverage.unread),
        unread_listed=_aside(report.coverage.unread_listed),
        reasons=_reasons(dimensions),
        bands=_band_rows(report.bands),
        level=next((level for d in report.dimensions if (level := display.level(d)) != 0.95), 0.95),
        bands_name=report.bands,
        style=Markup(style),  # noqa: S704  our own file
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
    )
    return page.lstrip()


# --- numbers as a page shows them


@dataclass(frozen=True, slots=True)
class Shown:
    """A number or a dash, with what stands beside it."""

    text: str
    reason: str = ""  # in a few words
    advice: str = ""  # what the reason means and what to do
    kind: str = ""  # which kappa
    band: str = ""
    interval: str = ""
    level: str = ""
    interval_reason: str = ""
    made_of: str = ""  # 5 of 8 labels
    chance: str = ""
    n_pairs: int | None = None
    n_items: int = 0
    heat: str = ""
    warnings: tuple[str, ...] = ()


def _shown(measure: Measure, text: str, scale: Scale | None = None, **more: str) -> Shown:
    """``text`` is the measure's value as it is written; it stands only where there is a value."""
    ends = measure.interval
    defined = measure.value is not None
    return Shown(
        text=_minus(text) if defined else DASH,
        reason=display.reason_name(measure.reason),
        advice=display.reason_text(measure.reason) if measure.reason not in (None, "not_applicable") else "",
        interval=_minus(display.interval(ends, scale)) if ends and defined else "",
        level=display.percent(ends.level) if ends else "",
        interval_reason=display.reason_name(measure.interval_reason) if defined else "",
        n_pairs=measure.n_pairs,
        n_items=measure.n_items,
        warnings=tuple(display.clip(display.warning_text(warning), NOTE) for warning in measure.warnings),
        **more,
    )


def share(measure: Measure) -> Shown:
    return _shown(measure, display.percent(measure.value) if measure.value is not None else "", _PERCENT)


def coefficient(measure: Measure, band: str = "") -> Shown:
    value = measure.value
    chance = measure.details.get("chance")
    return _shown(
        measure,
        display.coefficient(value) if value is not None else "",
        kind=display.kappa_name(measure),
        band=band,
        chance=display.percent(chance) if isinstance(chance, int | float) else "",
        heat=_heat(value),
    )


def score(measure: Measure, scale: Scale, unit: str) -> Shown:
    return _shown(
        measure,
        display.score(measure.value, scale) if measure.value is not None else "",
        scale,
        made_of=display.score_parts(measure, scale, unit),
    )


#: A scale whose scores are shares, for the ends of an agreement's interval.
_PERCENT = Scale("binary", labels=("agree", "differ"))


def _heat(value: float | None) -> str:
    """The shade of a coefficient: one of ten from 0 to 1, another hue below 0, none where it is undefined."""
    if value is None:
        return ""
    return "below" if value < 0 else f"h{min(9, int(value * 10 + 1e-9))}"


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _name(text: str, length: int = NAME) -> str:
    return display.clip(display.visible(text[: length + 1]), length) or EMPTY


def _lines(text: str, length: int) -> str:
    """Text of several lines; where it is cut off it says how much is missing."""
    shown = display.visible_lines(text[:length])
    return shown if len(text) <= length else f"{shown}… ({len(text) - length:,} more characters)"


# --- one dimension


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table of agreement: who, their score, how they agree."""

    who: str
    score: Shown | None
    agreement: Shown
    kappa: Shown
    role: str = ""
    state: str = ""

    @property
    def no_interval(self) -> str:
        """Why none of its numbers has an interval, where that is the same for all."""
        numbers = [n for n in (self.score, self.agreement, self.kappa) if n is not None and not n.reason]
        reasons = {n.interval_reason for n in numbers}
        return reasons.pop() if len(reasons) == 1 else ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of counts with the shade of each cell."""

    title: str
    rows: str
    columns: str
    labels: tuple[str, ...]
    cells: tuple[tuple[tuple[str, str], ...], ...]  # text and class
    total: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every rater against every other: kappa below the diagonal, agreement above it."""

    names: tuple[str, ...]
    roles: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str, str], ...], ...]  # text, class, hint
    roomy: bool
    left_out: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How the raters' answers spread over the levels."""

    levels: tuple[str, ...]
    rows: tuple[tuple[str, str, int, tuple[tuple[str, str], ...]], ...]  # name, role, answers, cells
    chart: Markup
    keys: tuple[tuple[str, str], ...]  # class, text
    left_out: int


@dataclass(slots=True)
class Section:
    number: int
    report: DimensionReport
    bands: str
    most_pairs: int = PAIRS
    listed: list[tuple[Disagreement, str, list[tuple[Answer, str, str | None]]]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"d{self.number}"

    @property
    def name(self) -> str:
        return _name(self.report.name)

    @property
    def scale(self) -> str:
        return display.clip(display.scale_words(self.report.scale), 400)

    @property
    def score_of(self) -> str:
        scale = self.report.scale
        if scale.kind == "binary":
            return f"score: the share of {_name(scale.labels[0], VALUE)}"
        return "score: the mean" if scale.kind == "rating" else ""

    def lines(self) -> Iterator[Line]:
        """The people, then each evaluator with them."""
        scale, people = self.report.scale, self.report.annotators
        counted = people.counted
        named = " and ".join(_name(name, 24) for name in counted) if len(counted) == 2 else ""
        who = named or (f"{len(counted)} annotators" if counted else "Annotators")
        kappa = coefficient(people.kappa, display.kappa_band(people.kappa, self.bands))
        yield Line(who, score(self.report.human_score, scale, "label"), share(people.agreement), kappa, "human")
        for evaluator in self.report.evaluators:
            yield self._evaluator_line(evaluator)

    def _evaluator_line(self, evaluator: EvaluatorReport) -> Line:
        return Line(
            _name(display.evaluator_name(evaluator)),
            score(evaluator.score, self.report.scale, "item"),
            share(evaluator.agreement),
            coefficient(evaluator.kappa, display.kappa_band(evaluator.kappa, self.bands)),
            "judge",
            {True: "", False: "not the live version", None: "no version is named live"}[evaluator.live],
        )

    def shared(self) -> list[tuple[str, Shown, Shown]]:
        """Each evaluator's score beside the people's, on the items that both answered."""
        scale = self.report.scale
        return [
            (
                _name(display.evaluator_name(e)),
                score(e.on_shared_items[0], scale, "item"),
                score(e.on_shared_items[1], scale, "label"),
            )
            for e in self.report.evaluators
        ]

    def each(self) -> list[Line]:
        return [
            Line(
                _name(rater.rater),
                score(rater.score, self.report.scale, "label"),
                share(rater.agreement),
                coefficient(rater.kappa),
            )
            for rater in self.report.annotators.each
        ]

    def coefficients(self) -> list[tuple[str, str, Shown]]:
        """The other coefficients: of the annotators, of each evaluator with them, of all raters."""
        people = self.report.annotators
        rows: list[tuple[str, str, Shown]] = []
        for metric, alpha in people.alphas.items() or [(str(people.alpha.details.get("metric", "")), people.alpha)]:
            main = metric == people.alpha.details.get("metric")
            band = display.alpha_band(alpha, self.bands) if main else ""
            rows.append(("Annotators", f"Krippendorff’s alpha, {_name(metric)}", coefficient(alpha, band)))
        weights = people.ac.details.get("weights")
        name = f"Gwet’s AC, {_name(str(weights))} weights" if weights else "Gwet’s AC"
        rows.append(("Annotators", name, coefficient(people.ac)))
        rows += _paradox("Annotators", people)
        for evaluator in self.report.evaluators:
            rows += _paradox(_name(display.evaluator_name(evaluator)), evaluator)
        if self.report.evaluators:
            rows.append(("All raters", "Fleiss’ kappa", coefficient(self.report.fleiss_all)))
            rows.append(("All raters", "Krippendorff’s alpha", coefficient(self.report.alpha_all)))
        return [row for row in rows if row[2].reason != display.reason_name("not_applicable")]

    @property
    def has_all_raters(self) -> bool:
        return bool(self.report.evaluators) and self.report.fleiss_all.value is not None

    def forest(self) -> Markup:
        rows = list(self._forest())
        return _svg(charts.forest(rows)) if any(row.value is not None for row in rows) else Markup("")

    def _forest(self) -> Iterator[charts.Row]:
        """The kappas that matter most, as many as a reader can take in."""
        report, people = self.report, self.report.annotators
        yield _forest_row("Annotators together", "human", people.kappa)
        for evaluator in report.evaluators[:8]:
            yield _forest_row(display.evaluator_name(evaluator), "judge", evaluator.kappa)
        rows = 1 + min(len(report.evaluators), 8)
        if self.has_all_raters:
            yield _forest_row("All raters", "all", report.fleiss_all)
            rows += 1
        groups: list[tuple[str, charts.Who, list[tuple[str, Measure]]]] = []
        if len(people.each) > 2:
            groups.append(("Each with the others", "human", [(rater.rater, rater.kappa) for rater in people.each]))
        if len(people.pairs) > 1:
            groups.append(("Pairs of annotators", "human", _named(people.pairs)))
        for evaluator in report.evaluators:
            with_each = [(pair.b, pair.kappa) for pair in evaluator.each]
            groups.append((f"{display.evaluator_name(evaluator)} with", "judge", with_each))
        groups.append(("Evaluators with each other", "judge", _named(report.judges)))
        for title, who, kappas in groups:
            if kappas and rows + len(kappas) < FOREST:
                yield charts.Row(title)
                yield from (_forest_row(name, who, kappa) for name, kappa in kappas)
                rows += 1 + len(kappas)

    def calibration(self) -> calibration_html.Part | None:
        return calibration_html.part(self.report)

    def labelling(self) -> list[Said]:
        return list(labelling_words.of(self.report.labelling))

    def matrix(self) -> Matrix | None:
        return _matrix(self.report)

    def spread(self) -> Spread | None:
        return _spread(self.report)

    def pairs(self) -> list[Line]:
        """The pairs of raters, as many as this dimension may list."""
        return [_pair_line(pair, role, self.bands) for role, pair in self._pairs()[: self.most_pairs]]

    def n_pairs(self) -> int:
        return len(self._pairs())

    def _pairs(self) -> list[tuple[str, PairReport]]:
        report = self.report
        return [
            *(("human", pair) for pair in report.annotators.pairs),
            *(("judge", pair) for evaluator in report.evaluators for pair in evaluator.each),
            *(("judge", pair) for pair in report.judges),
        ]

    def tables(self) -> list[Table]:
        """The table of counts of the annotators (all pairs together) and of each evaluator with them."""
        people = self.report.annotators
        tables = []
        if len(people.pairs) == 1 and people.pairs[0].counts is not None:
            pair = people.pairs[0]
            tables.append(_table(f"{_name(pair.a)} and {_name(pair.b)}", people.pairs[0].counts))
        elif together := _together(people.pairs):
            tables.append(_table("Annotators, all pairs", together, halved=True))
        tables += [
            _table(f"{_name(display.evaluator_name(evaluator))} and the annotators", evaluator.counts)
            for evaluator in self.report.evaluators
        ]
        return [table for table in tables if len(table.labels) <= TABLED]

    def pair_tables(self) -> list[Table]:
        people = self.report.annotators
        pairs = [*(people.pairs if len(people.pairs) > 1 else ())]
        for evaluator in self.report.evaluators:
            pairs += evaluator.each if len(evaluator.each) > 1 else ()
        pairs += self.report.judges
        return [
            _table(f"{_name(pair.a)} and {_name(pair.b)}", pair.counts)
            for pair in pairs
            if pair.counts is not None and len(pair.counts.labels) <= TABLED
        ]

    @property
    def disagreements(self) -> Any:
        return self.report.disagreements

    def set_aside(self) -> list[tuple[int, str, str]]:
        return [
            (n, display.cause_name(cause), display.CAUSES.get(cause, ""))
            for cause, n in display.by_count(self.report.set_aside)
        ]

    def set_aside_listed(self) -> list[tuple[str, ...]]:
        return _aside(self.report.set_aside_listed)

    def slices(self) -> list[tuple[str, str, list[Line]]]:
        return [
            (_name(part.fact), _name(part.value), list(Section(0, part.report, self.bands).lines()))
            for part in self.report.slices[:SLICES]
        ]

    def notes(self) -> list[str]:
        minded = as_labelled(calibrated.of(self.report))
        first = [f"Each score of people, agreement and kappa {minded}."] if minded else []
        return [*first, *(_lines(note, NOTE) for note in self.report.notes)]

    def measures(self) -> Iterator[Measure]:
        """Every number of the section, for the reasons that it needs explained."""
        people = self.report.annotators
        yield from (self.report.human_score, people.agreement, people.kappa, people.ac, people.pabak)
        yield from people.alphas.values()
        for rater in people.each:
            yield from (rater.score, rater.agreement, rater.kappa)
        for evaluator in self.report.evaluators:
            yield from (evaluator.score, evaluator.agreement, evaluator.kappa, *evaluator.on_shared_items)
        every = [*people.pairs, *self.report.judges, *(pair for e in self.report.evaluators for pair in e.each)]
        yield from (pair.kappa for pair in every)


def _paradox(who: str, of: Any) -> list[tuple[str, str, Shown]]:
    return [
        (who, "PABAK", coefficient(of.pabak)),
        (who, "Positive agreement", share(of.positive_agreement)),
        (who, "Negative agreement", share(of.negative_agreement)),
    ]


def _pair_line(pair: PairReport, role: str, bands: str) -> Line:
    kappa = coefficient(pair.kappa, display.kappa_band(pair.kappa, bands))
    return Line(f"{_name(pair.a, 40)} · {_name(pair.b, 40)}", None, share(pair.agreement), kappa, role)


def _named(pairs: Sequence[PairReport]) -> list[tuple[str, Measure]]:
    names = {name for pair in pairs for name in (pair.a, pair.b)}
    domains = {name.partition("@")[2] for name in names}
    # Of addresses at one place only what tells people apart has room twice in a row.
    cut = len(domains) == 1 and "" not in domains and len({name.partition("@")[0] for name in names}) == len(names)
    shown = {name: name.partition("@")[0] if cut else name for name in names}
    return [(charts.pair_label(shown[pair.a], shown[pair.b]), pair.kappa) for pair in pairs[:FOREST]]


def _forest_row(label: str, who: charts.Who, kappa: Measure) -> charts.Row:
    if kappa.value is None:
        return charts.Row(label or EMPTY, who, missing=display.reason_name(kappa.reason) or "undefined")
    ends = kappa.interval
    text = _minus(display.coefficient(kappa.value))
    low, high = (ends.low, ends.high) if ends else (None, None)
    return charts.Row(label or EMPTY, who, kappa.value, low, high, text)


def overview_chart(dimensions: Sequence[Section]) -> Markup:
    """The people's kappa and each evaluator's, dimension by dimension, on one axis."""
    rows: list[charts.Row] = []
    for dimension in dimensions:
        report = dimension.report
        rows.append(charts.Row(report.name or EMPTY))
        rows.append(_forest_row("annotators", "human", report.annotators.kappa))
        rows += [_forest_row(display.evaluator_name(e), "judge", e.kappa) for e in report.evaluators[:4]]
    return _svg(charts.forest(rows)) if any(row.value is not None for row in rows) else Markup("")


def _svg(drawing: str) -> Markup:
    return Markup(drawing)  # noqa: S704  rebuilt by charts from allowed elements, its text escaped


# --- the matrix


def _matrix(report: DimensionReport) -> Matrix | None:
    raters: dict[tuple[str, str], str] = {}  # role and name -> as shown
    cells: dict[tuple[tuple[str, str], tuple[str, str]], PairReport] = {}

    def enter(a: tuple[str, str], b: tuple[str, str], pair: PairReport) -> None:
        cells[a, b] = cells[b, a] = pair

    for pair in report.annotators.pairs:
        a, b = ("human", pair.a), ("human", pair.b)
        for rater in (a, b):
            raters.setdefault(rater, _name(rater[1], 30))
        enter(a, b, pair)
    judges: dict[str, list[tuple[str, str]]] = {}
    for index, evaluator in enumerate(report.evaluators):
        # Two versions may carry one name, so the place in the report tells them apart.
        judge = (f"judge {index}", evaluator.evaluator)
        raters[judge] = _name(display.evaluator_name(evaluator), 30)
        for name in {evaluator.evaluator, display.evaluator_name(evaluator), *(pair.a for pair in evaluator.each)}:
            judges.setdefault(name, []).append(judge)
        for pair in evaluator.each:
            person = ("human", pair.b)
            raters.setdefault(person, _name(pair.b, 30))
            enter(judge, person, pair)
    for pair in report.judges:
        first, second = judges.get(pair.a, []), judges.get(pair.b, [])
        if len(first) == 1 and len(second) == 1:
            enter(first[0], second[0], pair)
    order = sorted(raters, key=lambda rater: (rater[0] != "human",))
    if len(order) < 2 or not cells:
        return None
    shown = order[:MATRIX] if len(order) > MATRIX else order
    roomy = len(shown) <= ROOMY
    rows = []
    for i, one in enumerate(shown):
        row: list[tuple[str, str, str]] = []
        for j, other in enumerate(shown):
            row.append(("", "self", "") if i == j else _cell(cells.get((one, other)), below=j < i, roomy=roomy))
        rows.append(tuple(row))
    return Matrix(
        tuple(raters[rater] for rater in shown),
        tuple("human" if rater[0] == "human" else "judge" for rater in shown),
        tuple(rows),
        roomy,
        len(order) - len(shown),
    )


def _cell(pair: PairReport | None, below: bool, roomy: bool) -> tuple[str, str, str]:
    if pair is None:
        return "", "", ""
    measure = pair.kappa if below else pair.agreement
    hint = display.plural(measure.n_items, "item") if roomy else ""
    if measure.value is None:
        return DASH, "", display.reason_name(measure.reason) if roomy else ""
    if below:
        return _minus(display.coefficient(measure.value)), _heat(measure.value), hint
    return display.percent(measure.value).removesuffix("" if roomy else " %"), "share" if roomy else "", hint


# --- tables of counts


def _together(pairs: Iterable[PairReport]) -> Counts | None:
    """The pairs' tables added up; which of two people is the row does not matter, so only one half is filled."""
    tables = [pair.counts for pair in pairs if pair.counts is not None]
    if not tables:
        return None
    labels = tables[0].labels
    if any(table.labels != labels for table in tables):
        return None
    sums = [[0] * len(labels) for _ in labels]
    for table in tables:
        for i, row in enumerate(table.table):
            for j, n in enumerate(row):
                sums[min(i, j)][max(i, j)] += n
    return Counts(labels, tuple(map(tuple, sums)), "one annotator", "the other")


def _table(title: str, counts: Counts, halved: bool = False) -> Table:
    most = max((n for row in counts.table for n in row), default=0) or 1
    cells = tuple(
        tuple(
            ("", "")
            if halved and j < i
            else (f"{n:,}", f"{'same ' if i == j else ''}{f'n{-(-n * 9 // most)}' if n else 'nil'}")
            for j, n in enumerate(row)
        )
        for i, row in enumerate(counts.table)
    )
    labels = tuple(_name(label, 30) for label in counts.labels)
    total = sum(map(sum, counts.table))
    return Table(title, _name(counts.rows), _name(counts.columns), labels, cells, total)


# --- how answers spread


def _spread(report: DimensionReport) -> Spread | None:
    levels = report.scale.names
    raters = [r for r in report.raters if len(r.distribution) == len(levels) and r.answers and r.kind != "gold"]
    if not levels or not raters:
        return None
    names, counts = _binned(report.scale, [r.distribution for r in raters])
    people = [c for r, c in zip(raters, counts, strict=True) if r.kind == "annotator"]
    together = tuple(sum(level) for level in zip(*people, strict=True))
    rows = [(_rater(r), r.kind, r.answers, c) for r, c in zip(raters, counts, strict=True)]
    rows.sort(key=lambda row: row[1] != "evaluator")  # the evaluators stand right under all annotators
    if len(people) > 1:
        rows.insert(0, ("All annotators", "annotator", sum(together), together))
    labels = tuple(_name(name, 30) for name in names)
    if len(names) <= FEW:
        kept = rows[:BARS]
        ordered = report.scale.ordered or report.scale.kind == "binary"
        flip = report.scale.kind == "binary"  # pass is the dark one
        bars = [charts.Bar(name, _shares(c), f"{sum(c):,}") for name, _, _, c in kept if sum(c)]
        chart = charts.stacked(bars, ordered, flip) if bars else ""
        shade = [charts.ramp(i, len(names)) for i in range(len(names))]
        shade = shade[::-1] if flip else shade
        keys = tuple((f"l{shade[i]}" if ordered else f"c{i}", label) for i, label in enumerate(labels))
    else:
        judged = [c for _, kind, _, c in rows if kind == "evaluator" and any(c)][:3]
        series: list[tuple[charts.Who, Sequence[float]]] = [("human", _shares(together))] if sum(together) else []
        series += [("judge", _shares(c)) for c in judged]
        chart = charts.dots(names, series) if series else ""
        keys = (("human", "all annotators"),) if sum(together) else ()
        keys += (("judge", "each evaluator"),) if judged else ()
    table = tuple(
        (name, "judge" if kind == "evaluator" else "human", answers, tuple(_count_cell(n, sum(c)) for n in c))
        for name, kind, answers, c in rows
    )
    return Spread(labels, table, _svg(chart), keys, max(0, len(rows) - BARS) if len(names) <= FEW else 0)


def _binned(
    scale: Scale, distributions: Sequence[tuple[int, ...]], most: int = 24
) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
    """At most ``most`` levels: neighbours of an ordered scale go together, of other scales the rare ones."""
    names = scale.names
    if len(names) <= most:
        return names, list(distributions)
    if scale.ordered:
        width = -(-len(names) // (most - 4))
        starts = range(0, len(names), width)
        parts = [names[s : s + width] for s in starts]
        binned = tuple(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)
        return binned, [tuple(sum(d[s : s + width]) for s in starts) for d in distributions]
    totals = [sum(column) for column in zip(*distributions, strict=True)]
    kept = sorted(sorted(range(len(names)), key=lambda i: -totals[i])[: most - 1])
    rest = f"{len(names) - len(kept)} others"
    return (
        (*(names[i] for i in kept), rest),
        [(*(d[i] for i in kept), sum(d) - sum(d[i] for i in kept)) for d in distributions],
    )


def _shares(counts: Sequence[int]) -> tuple[float, ...]:
    total = sum(counts)
    return tuple(n / total for n in counts) if total else tuple(0.0 for _ in counts)


def _count_cell(n: int, total: int) -> tuple[str, str]:
    return f"{n:,}", f"n{-(-n * 9 // total)}" if n else "nil"


def _rater(rater: RaterInfo) -> str:
    return _name(f"{rater.name} {rater.version}".strip() if rater.kind == "evaluator" else rater.name)


# --- lists


def _share_lists(dimensions: Sequence[Section]) -> None:
    """Give each dimension its worst disagreements, at most ``LISTED``. Where all lists together grow too long each keeps
    about as many as the others, and all together no fewer than ``LISTED``."""
    most, limit = LISTED_TEXT
    length = entries = 0
    for rank in range(LISTED):
        for dimension in dimensions:
            listed = dimension.report.disagreements.listed
            if rank >= len(listed):
                continue
            entry = _listed(listed[rank], dimension.report.scale)
            length += 150 + sum(200 + len(answer.value[:VALUE]) + len(reason) for answer, reason, _ in entry[2])
            if rank and ((length > most and entries >= LISTED) or length > limit):
                return
            dimension.listed.append(entry)
            entries += 1


def _listed(found: Disagreement, scale: Scale) -> tuple[Disagreement, str, list[tuple[Answer, str, str | None]]]:
    answers = [(answer, _lines(answer.reason or "", REASON), display.web_link(answer.link)) for answer in found.answers]
    return found, display.distance(found.distance, scale), answers


def _aside(listed: Sequence[SetAside]) -> list[tuple[str, ...]]:
    return [
        (
            display.cause_name(aside.cause[:NAME]),
            _name(aside.record),
            *("" if text is None else _name(text, VALUE) for text in (aside.item, aside.rater, aside.value)),
            "" if aside.message is None else _lines(aside.message, 400),
        )
        for aside in listed[:ASIDE]
    ]


def _reasons(dimensions: Sequence[Section]) -> list[tuple[str, str, str]]:
    """Each reason that the page shows: its words, its code, what to do."""
    seen: dict[str, None] = {}
    for dimension in dimensions:
        for measure in dimension.measures():
            for reason in (measure.reason, measure.interval_reason if measure.value is not None else None):
                if reason:
                    seen[reason] = None
    return [
        (display.reason_name(reason), reason, display.reason_text(reason))
        for reason in (*(r for r in REASONS if r in seen), *(r for r in seen if r not in REASONS))
    ]


def _band_rows(scheme: str) -> list[tuple[str, str]]:
    """The bands of the study in words: up to where each goes."""
    rows = []
    for end, inclusive, word in display.BANDS.get(scheme, ()):
        rows.append((f"{'up to' if inclusive else 'below'} {float(end):g}", word))
    return rows


# --- the template


def _package_text(name: str) -> str:
    return files("calibrate_plugin.report").joinpath(name).read_text(encoding="utf-8")


def _safe(value: Any) -> Any:
    """The last gate: whatever reaches the page without having been made visible is made so here."""
    return display.visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def environment(*packages: str) -> Environment:
    """How pages are written: everything escaped, and the templates of this package and of ``packages``."""

    def text_of(name: str) -> str | None:
        for package in ("calibrate_plugin.report", *packages):
            if (file := files(package).joinpath(name)).is_file():
                return file.read_text(encoding="utf-8")
        return None

    made = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["name"] = _name
    made.filters["lines"] = _lines
    made.filters["plural"] = display.plural
    made.filters["percent"] = display.percent
    made.filters["n"] = lambda n: f"{n:,}"
    made.globals |= {"CAUSES": CAUSES, "DASH": DASH, "VALUE": VALUE, "LONG": LONG, "TABLES": TABLES, "REASON": REASON}
    return made


@cache
def _template() -> Any:
    return environment().get_template("report.html.j2")
