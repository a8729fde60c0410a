"""Charts as static SVG that lies inside an HTML page: no script, no style of its own, readable in light and dark.

Altair describes a chart and vl-convert draws it. What comes out is rebuilt from a short list of elements and attributes, with
its colours as the page's CSS variables, so that a chart follows the page and nothing that a platform named can act.
Rows are placed by number and their names drawn as text: no measuring of fonts enters, and the same report gives the same bytes.
"""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import altair as alt
import vl_convert

from calibrate_plugin.report.display import DASH, visible

LABEL, PLOT, VALUE = 132, 186, 42  # pixels for names, for marks, for the number behind them
ROW = 17
FONT_SIZE = 11

Who = Literal["human", "judge", "all"]

#: Placeholders that Vega passes through; the page gives them their meaning.
_VARIABLES = {
    "#000001": "ink",
    "#000002": "soft",
    "#000003": "line",
    "#000004": "human",
    "#000005": "judge",
    "#000006": "all",
    **{f"#0000{10 + i}": f"l{i}" for i in range(7)},
    **{f"#0000{20 + i}": f"on{i}" for i in range(7)},
    **{f"#0000{30 + i}": f"c{i}" for i in range(7)},
    "#000040": "onc",
}
_PLACEHOLDERS = {variable: colour for colour, variable in _VARIABLES.items()}
_INK, _SOFT, _LINE = "#000001", "#000002", "#000003"
_SHAPES = {"human": "circle", "judge": "diamond", "all": "square"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a forest chart: a coefficient with its interval, or a heading where ``value`` and ``missing`` are None."""

    label: str
    who: Who = "all"
    value: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""
    missing: str | None = None  # why there is no value, in a word or two


@dataclass(frozen=True, slots=True)
class Bar:
    """How one rater's answers spread: ``shares`` over the levels, adding up to 1; ``text`` stands behind the bar."""

    label: str
    shares: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Answers of about one confidence: their mean confidence, the share that is right with its interval, how many."""

    confidence: float
    accuracy: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Span:
    """A day or a week: the judge's own rate and the corrected one with its interval; None where there is none."""

    label: str
    observed: float | None
    rate: float | None
    low: float | None
    high: float | None


def forest(rows: Sequence[Row], band: tuple[float, float] | None = None) -> str:
    """Every row's coefficient as a mark on a common axis, with its interval as a line through it. ``band`` is shaded from its
    first to its second end over all rows."""
    ends = [v for row in rows for v in (row.value, row.low) if v is not None]
    lowest = min(ends, default=0.0)
    left = 0.0 if lowest >= 0 else -0.5 if lowest >= -0.5 else -1.0
    step = 0.5 if left else 0.25
    ticks = [left + step * i for i in range(round((1 - left) / step) + 1)]
    axis = alt.Axis(values=ticks, title=None, format=".2~f", grid=True, labelFlush=False)
    x = alt.X("x:Q", scale=alt.Scale(domain=[left, 1.0], nice=False, zero=False), axis=axis)
    drawing = _Drawing(len(rows))
    drawing.add(drawing.marks([{"row": 0, "x": left}]).mark_point(opacity=0), x=x)
    if band is not None:
        shade = drawing.marks([{"row": 0, "x": max(band[0], left), "x2": min(band[1], 1.0)}])
        shade = shade.mark_rect(color=_PLACEHOLDERS["human"], opacity=0.14)
        drawing.add(shade, x=x, x2=alt.X2("x2:Q"), y=alt.value(0), y2=alt.value(ROW * len(rows)))
    headings = [i for i, row in enumerate(rows) if row.value is None and row.missing is None]
    drawing.texts(
        [{"row": i, "text": _fitted(rows[i].label, LABEL + PLOT)} for i in headings], -LABEL, fontWeight="bold"
    )
    drawing.names([{"row": i, "text": row.label} for i, row in enumerate(rows) if i not in headings])
    if left < 0:
        zero = drawing.marks([{"row": 0, "x": 0.0}]).mark_rule(color=_SOFT)
        drawing.add(zero, x=x, y=alt.value(0), y2=alt.value(ROW * len(rows)))
    for who in dict.fromkeys(row.who for row in rows if row.value is not None):
        own = [(i, row) for i, row in enumerate(rows) if row.who == who and row.value is not None]
        spans = [
            {"row": i, "x": max(row.low, left), "x2": min(row.high, 1.0)}
            for i, row in own
            if row.low is not None and row.high is not None
        ]
        colour = _PLACEHOLDERS[who]
        if spans:
            rule = drawing.marks(spans).mark_rule(color=colour, strokeWidth=2, opacity=0.55)
            drawing.add(rule, x=x, x2=alt.X2("x2:Q"))
        points = drawing.marks([{"row": i, "x": row.value} for i, row in own])
        drawing.add(points.mark_point(color=colour, filled=True, opacity=1, size=52, shape=_SHAPES[who]), x=x)
    drawing.texts([{"row": i, "text": row.text} for i, row in enumerate(rows) if row.value is not None], PLOT + 8)
    missing = [(i, f"{DASH} {row.missing}") for i, row in enumerate(rows) if row.missing is not None]
    words = [{"row": i, "text": _fitted(text, PLOT)} for i, text in missing]
    drawing.texts(words, 4, color=_SOFT, fontSize=FONT_SIZE - 1)
    return drawing.svg()


def stacked(bars: Sequence[Bar], ordered: bool, flip: bool = False) -> str:
    """The shares of at most seven levels as one bar per rater; ``flip`` gives the first level the strongest shade."""
    levels = len(bars[0].shares)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", title=None, grid=False, labelFlush=False)
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)
    drawing = _Drawing(len(bars))
    drawing.names([{"row": i, "text": bar.label} for i, bar in enumerate(bars)])
    for level in range(levels):
        starts = [sum(bar.shares[:level]) for bar in bars]
        segments = [
            {"row": i, "x": start, "x2": start + bar.shares[level]}
            for i, (bar, start) in enumerate(zip(bars, starts, strict=True))
            if bar.shares[level] > 0
        ]
        if not segments:
            continue
        place = ramp(levels - 1 - level if flip else level, levels) if ordered else level
        colour = _PLACEHOLDERS[f"{'l' if ordered else 'c'}{place}"]
        drawing.add(drawing.marks(segments).mark_bar(color=colour, size=ROW - 4), x=x, x2=alt.X2("x2:Q"))
        wide = [
            {"row": i, "x": start + bar.shares[level] / 2, "text": f"{int(100 * bar.shares[level] + 0.5)}"}
            for i, (bar, start) in enumerate(zip(bars, starts, strict=True))
            if bar.shares[level] >= 0.12
        ]
        if wide:
            ink = _PLACEHOLDERS[f"on{place}" if ordered else "onc"]
            drawing.add(drawing.marks(wide).mark_text(color=ink, fontSize=FONT_SIZE - 1), x=x, text=alt.Text("text:N"))
    totals = [{"row": i, "text": bar.text} for i, bar in enumerate(bars)]
    drawing.texts(totals, PLOT + 6, color=_SOFT, fontSize=FONT_SIZE - 1)
    return drawing.svg()


def dots(levels: Sequence[str], series: Sequence[tuple[Who, Sequence[float]]]) -> str:
    """The share of each of many levels as one mark per series."""
    top = max((share for _, shares in series for share in shares), default=1.0)
    top = min(1.0, max(0.05, -(-top // 0.05) * 0.05))
    axis = alt.Axis(tickCount=5, format=".0%", title=None, grid=True, labelFlush=False)
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=axis)
    drawing = _Drawing(len(levels))
    drawing.names([{"row": i, "text": level} for i, level in enumerate(levels)])
    for who, shares in series:
        points = drawing.marks([{"row": i, "x": share} for i, share in enumerate(shares)])
        look = {"color": _PLACEHOLDERS[who], "shape": _SHAPES[who]}
        drawing.add(points.mark_point(filled=True, opacity=0.85, size=46, **look), x=x)
    return drawing.svg()


def reliability(groups: Sequence[Group]) -> str:
    """How often answers of each confidence are right; on the diagonal they are right as often as they are sure."""
    top = max((g.n for g in groups), default=1)
    plane = _Plane((0, 1), (0, 1), [0, 0.25, 0.5, 0.75, 1], ".0%")
    plane.line([(0, 0), (1, 1)], _SOFT, 1)
    for g in groups:
        if g.low is not None and g.high is not None:
            plane.line([(g.confidence, g.low), (g.confidence, g.high)], _PLACEHOLDERS["judge"], 2, opacity=0.55)
    for g in groups:
        plane.point(g.confidence, g.accuracy, _PLACEHOLDERS["judge"], "diamond", 30 + 90 * g.n / top)
    return plane.svg()


def curve(
    low: float, high: float, lines: Sequence[tuple[Who, Sequence[tuple[float, float]]]], mark: float | None
) -> str:
    """Shares (0 to 1) as stairs over ``low`` to ``high``, with a line upright at ``mark``."""
    ticks = [low + (high - low) * i / 4 for i in range(5)]
    plane = _Plane((low, high), (0, 1), ticks, ".2~f")
    if mark is not None:
        plane.line([(mark, 0), (mark, 1)], _SOFT, 1)
    for who, points in lines:
        plane.line(points, _PLACEHOLDERS[who], 2, interpolate="step-before")
    return plane.svg()


def over_time(spans: Sequence[Span], low: float = 0.0, high: float = 1.0, format: str = ".0%") -> str:
    """The corrected rate of each span with its interval, and the judge's own beside it."""
    last = max(1, len(spans) - 1)
    step = -(-len(spans) // 4)
    labels = {i: span.label for i, span in enumerate(spans) if i % step == 0}
    plane = _Plane((-0.4, last + 0.4), (low, high), [], "", format)
    for i, span in enumerate(spans):
        if span.low is not None and span.high is not None:
            plane.line([(i, span.low), (i, span.high)], _PLACEHOLDERS["human"], 2, opacity=0.55)
    for i, span in enumerate(spans):
        if span.observed is not None:
            plane.point(i, span.observed, _PLACEHOLDERS["judge"], "diamond", 34)
        if span.rate is not None:
            plane.point(i, span.rate, _PLACEHOLDERS["human"], "circle", 42)
    plane.below(labels)
    return plane.svg()


def pair_label(a: str, b: str) -> str:
    """The names of two raters in the room of one."""
    room = (LABEL - 10 - 2 * FONT_SIZE) // 2
    return f"{_fitted(a, room)} · {_fitted(b, room)}"


def ramp(level: int, levels: int) -> int:
    """Which of the page's seven shades a level of an ordered scale takes: both ends are always the ends."""
    return round(6 * level / (levels - 1)) if levels > 1 else 3


Values = list[dict[str, Any]]


class _Drawing:
    """Layers on common rows. The values lie beside the layers and are named by them: altair copies what is inside."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.values: dict[str, Values] = {"rows": [{"row": i} for i in range(rows)]}
        everyone = alt.Scale(domain=list(range(rows)), paddingInner=0)
        place = alt.Y("row:O", axis=None, sort=None, scale=everyone)
        self.layers: list[Any] = [alt.Chart(alt.NamedData(name="rows")).mark_point(opacity=0).encode(y=place)]

    def marks(self, values: Values) -> Any:
        """A chart of ``values``, each on its ``row``, that still wants a mark and its place on the other axis."""
        name = f"v{len(self.values)}"
        self.values[name] = values
        return alt.Chart(alt.NamedData(name=name)).encode(y=alt.Y("row:O", axis=None, sort=None))

    def add(self, chart: Any, **places: Any) -> None:
        self.layers.append(chart.encode(**places))

    def texts(self, values: Values, x: int, **look: Any) -> None:
        """Texts at ``x`` pixels right of the plot's left side."""
        if values:
            look = {"align": "left", "fontSize": FONT_SIZE, "color": _INK, **look}
            self.add(self.marks(values).mark_text(**look), x=alt.value(x), text=alt.Text("text:N"))

    def names(self, names: Values) -> None:
        for name in names:
            name["text"] = _fitted(name["text"], LABEL - 10)
        self.texts(names, -8, align="right")

    def svg(self) -> str:
        return _drawn(self.layers, self.values, PLOT, ROW * self.rows, left=LABEL, right=VALUE, top=4, bottom=22)


class _Plane:
    """Marks on two axes of numbers."""

    WIDTH, HEIGHT = 296, 190

    def __init__(
        self,
        across: tuple[float, float],
        up: tuple[float, float],
        ticks: Sequence[float],
        format: str,
        up_format: str = ".0%",
    ) -> None:
        self.values: dict[str, Values] = {}
        below = alt.Axis(values=list(ticks), format=format, title=None, grid=bool(ticks), labelFlush=False)
        left = alt.Axis(tickCount=5, format=up_format, title=None, grid=True)
        self.x = alt.X("x:Q", scale=alt.Scale(domain=list(across), nice=False, zero=False), axis=below)
        self.y = alt.Y("y:Q", scale=alt.Scale(domain=list(up), nice=False, zero=False), axis=left)
        self.floor = up[0]
        self.layers: list[Any] = [
            self._of([{"x": across[0], "y": up[0]}]).mark_point(opacity=0).encode(x=self.x, y=self.y)
        ]

    def _of(self, values: Values) -> Any:
        name = f"v{len(self.values)}"
        self.values[name] = values
        return alt.Chart(alt.NamedData(name=name))

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float, **look: Any) -> None:
        values = [{"x": x, "y": y, "i": i} for i, (x, y) in enumerate(points)]
        chart = self._of(values).mark_line(color=colour, strokeWidth=width, **look)
        self.layers.append(chart.encode(x=self.x, y=self.y, order=alt.Order("i:Q")))

    def point(self, x: float, y: float, colour: str, shape: str, size: float) -> None:
        chart = self._of([{"x": x, "y": y}]).mark_point(color=colour, filled=True, opacity=1, shape=shape, size=size)
        self.layers.append(chart.encode(x=self.x, y=self.y))

    def below(self, labels: Mapping[int, str]) -> None:
        """Texts under the plane, at places across it."""
        values = [{"x": x, "text": _fitted(text, self.WIDTH // 4)} for x, text in labels.items()]
        look = {"color": _SOFT, "fontSize": FONT_SIZE - 1, "baseline": "top"}
        chart = self._of(values).mark_text(**look)
        self.layers.append(chart.encode(x=self.x, y=alt.value(self.HEIGHT + 8), text=alt.Text("text:N")))

    def svg(self) -> str:
        return _drawn(self.layers, self.values, self.WIDTH, self.HEIGHT, left=44, right=20, top=8, bottom=26)


def _drawn(layers: Sequence[Any], values: Mapping[str, Any], width: int, height: int, **padding: int) -> str:
    """Layers as SVG: ``width`` by ``height`` pixels of plot, with ``padding`` (left, right, top, bottom) around it."""
    chart = (
        alt.layer(*layers)
        .properties(width=width, height=height, padding=padding, autosize=alt.AutoSizeParams(type="none"))
        .configure(background="transparent", aria=False, font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_SOFT,
            labelFontSize=FONT_SIZE - 1,
            gridColor=_LINE,
            tickColor=_LINE,
            domainColor=_LINE,
            labelOverlap=False,
        )
    )
    spec = chart.to_dict(validate=False)  # what is drawn was tried; checking it takes longer than drawing it
    spec["datasets"] = values
    drawn = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return _rebuilt(drawn, padding["left"] + width + padding["right"], padding["top"] + height + padding["bottom"])


def _fitted(text: str, pixels: int) -> str:
    """A name cut in its middle where it is too wide: names of raters often differ in their last letters only."""
    shown = visible(text if len(text) <= 400 else f"{text[:200]}{text[-200:]}")
    if sum(map(_width, shown)) <= pixels:
        return shown
    head, tail, room = 0, 0, float(pixels - FONT_SIZE)
    while head + tail < len(shown):
        letter = shown[head] if head <= tail else shown[len(shown) - 1 - tail]
        room -= _width(letter)
        if room < 0:
            break
        head, tail = (head + 1, tail) if head <= tail else (head, tail + 1)
    return f"{shown[:head]}…{shown[len(shown) - tail :]}"


def _width(letter: str) -> float:
    """About how wide a letter is drawn, on the safe side: no font is known here."""
    if unicodedata.combining(letter):
        return 0
    if unicodedata.east_asian_width(letter) in "WF":
        return FONT_SIZE
    return FONT_SIZE * (0.85 if letter in "mwMW@%" or letter.isupper() else 0.35 if letter in "ijlt.,:;'|- " else 0.6)


_ELEMENTS = ("g", "path", "line", "rect", "text")
_ATTRIBUTES = (
    "transform",
    "d",
    "x",
    "y",
    "x2",
    "y2",
    "width",
    "height",
    "fill",
    "stroke",
    "stroke-width",
    "opacity",
    "text-anchor",
    "font-size",
    "font-weight",
)
_DECIMALS = re.compile(r"\d+\.\d{2,}")


def _rebuilt(drawn: str, width: int, height: int) -> str:
    """Vega's drawing from the allowed elements and attributes only, its colours as the page's variables."""
    root = ET.fromstring(drawn)  # noqa: S314  our own drawing, no entity in it
    inner = "".join(_element(child) for child in root)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true" focusable="false">{inner}</svg>'
    )


def _element(element: ET.Element) -> str:
    tag = element.tag.rpartition("}")[2]
    if tag not in _ELEMENTS or element.get("display") == "none" or element.get("opacity") == "0":
        return ""
    children = "".join(_element(child) for child in element)
    if tag == "g" and not children:
        return ""
    if tag == "path" and "background" in element.get("class", ""):
        return ""
    shown = []
    for name in _ATTRIBUTES:
        value = element.get(name)
        if value is None or (name, value) in (("opacity", "1"), ("font-weight", "normal"), ("stroke-width", "1")):
            continue
        if name in ("fill", "stroke") and value in _VARIABLES:
            value = f"var(--{_VARIABLES[value]})"
        if name in ("transform", "d"):
            value = _DECIMALS.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), value)
            if value == "translate(0,0)":
                continue
        shown.append(f' {name}="{escape(value)}"')
    if tag == "g" and not shown:
        return children
    text = escape(element.text) if tag == "text" and element.text else ""
    return f"<{tag}{''.join(shown)}>{text}{children}</{tag}>"
