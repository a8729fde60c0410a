"""What pages are made of: the frame that all of them share, the drawn parts, and the last ones made.

Drawing costs more than a page may, so it is done before new numbers are shown, once for what did not change since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from calibrate_plugin.model import REASONS, DimensionReport, Report
from calibrate_plugin.report import calibrated, display, html
from calibrate_plugin.report.calibration_words import as_labelled, verdict_word
from calibrate_plugin.report.html import Section
from calibrate_plugin.server.explaining import Explaining
from calibrate_plugin.server.history import Point
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.trend import trend
from calibrate_plugin.server.versions import Later, Versions

REMEMBERED = 64  # pages, and drawn parts of them


@cache
def _environment() -> Environment:
    return html.environment("calibrate_plugin.server")


@dataclass(frozen=True, slots=True)
class Trend:
    """A number over the reports."""

    who: str
    role: str
    statistic: str
    drawing: Markup
    first: str
    now: str
    n: int


class _Remembered:
    """The last things that were made."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()
        self.most = REMEMBERED

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._made

    def get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What ``make`` gives; ``key`` names everything that it depends on."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        found = make()
        with self._lock:
            self._made[key] = found
            while len(self._made) > self.most:
                self._made.popitem(last=False)
        return found


class Pages:
    """The pages that show the numbers, and the frame of all of them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.later = Later(service)
        self.versions = Versions(service, self.later)
        self.explaining = Explaining(service, self.later)
        self._pages, self._parts = _Remembered(), _Remembered()
        self._drawn: dict[str, bytes] = {}  # the last page of each address that is drawn beforehand
        self._drawers: set[threading.Thread] = set()
        service.draw = self.draw

    def remembered(self, key: tuple[Any, ...], make: Callable[[], str]) -> HTMLResponse:
        """The page of ``key``, which names everything that it depends on."""
        return HTMLResponse(self._pages.get(key, lambda: make().encode("utf-8", "replace")))

    def _beforehand(self, address: str, key: tuple[Any, ...], make: Callable[[], str]) -> HTMLResponse:
        """As ``remembered``, for a page that is drawn before anybody looks: while that goes on the one before is shown."""
        before = self._drawn.get(address)
        elsewhere = self._drawers - {threading.current_thread()} == self._drawers != set()
        if before is not None and elsewhere and key not in self._pages:
            return HTMLResponse(before)
        page = self.remembered(key, make)
        self._drawn[address] = bytes(page.body)
        return page

    # --- what is drawn

    def draw(self, state: State) -> None:
        """Make the pages of the numbers before anybody looks at them."""
        self._pages.most = self._parts.most = max(REMEMBERED, 4 * len(state.report.dimensions))
        me = threading.current_thread()
        self._drawers.add(me)
        try:
            self.overview(state)
            for dimension in state.report.dimensions:
                self.dimension(state, dimension)
        finally:
            self._drawers.discard(me)

    def overview(self, state: State) -> HTMLResponse:
        parked = sum(t.parked for t in list(self.service.health.troubles.values()))
        key = ("/", state.serial, self.service.calibrations.serial, parked)
        return self._beforehand("/", key, lambda: self.of_report(state, state.report, "Overview"))

    def of_report(self, state: State, report: Report, heading: str, run: str = "") -> str:
        """The overview of a report: of the study, or of one run."""
        service = self.service
        sections = [Section(i + 1, d, report.bands) for i, d in enumerate(report.dimensions)]
        chart = self._part("overview", report.dimensions, lambda: html.overview_chart(sections))
        return self.written(
            "overview_page.html.j2",
            heading,
            "" if run else "/",
            state,
            heading=heading,
            run=run,
            coverage=report.coverage,
            dimensions=sections,
            dimension_links=[dimension_link(d.name) for d in report.dimensions],
            verdicts=[{} if run else self._verdicts(state, d) for d in report.dimensions],
            why=[None if run else _why(d) for d in report.dimensions],
            minded=[None if run else self._minded(state, d) for d in report.dimensions],
            overview=chart,
            unread=[] if run else display.by_count(report.coverage.unread),
            runs=[] if run else [(r, f"/runs/{quote(r, safe='')}") for r in state.runs[:500]],
            parked=0 if run else sum(t.parked for t in list(service.health.troubles.values())),
            level=next((at for d in report.dimensions if (at := display.level(d)) != 0.95), 0.95),
        )

    def _minded(self, state: State, dimension: DimensionReport) -> str | None:
        """What to mind about the numbers of items that were not chosen at random."""
        known = self.service.calibrations.of(state, dimension.name)
        return as_labelled(calibrated.of(known.dimension)) if known is not None else None

    def _verdicts(self, state: State, dimension: DimensionReport) -> dict[int, str]:
        """The verdict on each evaluator that has one, by its place among the lines of the dimension."""
        known = self.service.calibrations.of(state, dimension.name)
        found = calibrated.of(known.dimension) if known is not None else None
        if found is None:
            return {}
        judges = ((i, found.of(e)) for i, e in enumerate(dimension.evaluators, 1))
        return {i: verdict_word(judge) for i, judge in judges if judge is not None and judge.beside_humans is not None}

    def dimension(self, state: State, found: DimensionReport) -> HTMLResponse:
        service, name = self.service, found.name
        points = service.history.points
        known = service.calibrations.of(state, name)
        current = service.calibrations.current(state, name)
        key = ("dimension", name, state.serial, points[-1].report if points else 0, known and known.serial, current)
        return self._beforehand(dimension_link(name), key, lambda: self._of_dimension(state, found))

    def _of_dimension(self, state: State, found: DimensionReport) -> str:
        name, calibrations = found.name, self.service.calibrations
        known = calibrations.of(state, name)
        section = Section(1, found if known is None else known.beside(found), state.report.bands)
        level = display.level(found)
        template = _environment().get_template("dimension.html.j2")
        parts = (found, *(() if known is None else (known.dimension,)))
        drawn = self._part(
            "dimension",
            parts,
            lambda: Markup(template.render(dimension=section, level=level, why=_why(found))),  # noqa: S704  our own template
        )
        of_evaluators = self.versions.known(state, name).items()
        return self.written(
            "dimension_page.html.j2",
            name,
            dimension_link(name),
            state,
            dimension=section,
            drawn=drawn,
            level=level,
            calibrated_at=known.at if known is not None else None,
            calibrating=not calibrations.current(state, name),
            disagreements=f"/disagreements?{urlencode({'dimension': name})}",
            evaluators=[
                (e, f"/versions?{urlencode({'dimension': name, 'evaluator': e})}")
                for e, versions in of_evaluators
                if len(versions) > 1
            ],
            trends=self.trends(found),
            why=why_link(name),
            reasons=REASONS,
        )

    def _part(self, kind: str, of: Sequence[Any], make: Callable[[], Markup]) -> Markup:
        """A drawn part of a page, which says something of objects that never change."""
        key = (kind, *map(id, of))
        kept = self._parts.get(key, lambda: (of, make()))  # what is kept with it keeps its id
        part: Markup = kept[1]
        return part

    # --- the frame

    def written(self, template: str, title: str, here: str, state: State | None, **more: Any) -> str:
        """A page in the frame that all of them share."""
        links = [("/", "Overview")]
        if state is not None:
            links += [
                (dimension_link(d.name), display.clip(display.visible(d.name), 40)) for d in state.report.dimensions
            ]
        links += [("/disagreements", "Disagreements"), ("/health", "Health")]
        given: dict[str, Any] = {
            "study": self.service.config.study.name,
            "title": title,
            "here": here,
            "links": links,
            "stamp": self.service.stamp_of(state) if state else "none",
            "at": state.report.generated_at if state else None,
            "level": 0.95,
        }
        return _environment().get_template(template).render(**given | more).lstrip()

    def trends(self, dimension: DimensionReport) -> list[Trend]:
        points = self.service.history.points
        if len(points) < 2:
            return []
        keys = dict.fromkeys(key for p in points for key in p.values if key[0] == dimension.name)
        found = []
        for key in keys:
            drawn = _trend(points, key, dimension)
            if drawn is not None:
                found.append(drawn)
        return found[:40]


def _trend(points: Sequence[Point], key: tuple[str, str, str], dimension: DimensionReport) -> Trend | None:
    values = [p.values.get(key) for p in points]
    given = [v for v in values if v is not None]
    if not given or key[2] == "alpha":
        return None
    share = key[2] == "agreement" or (key[2] == "score" and dimension.scale.kind == "binary")
    low, high = min(0.0, *given), 1.0
    if key[2] == "score" and not share:
        assert dimension.scale.low is not None and dimension.scale.high is not None
        low, high = float(dimension.scale.low), float(dimension.scale.high)

    def text(value: float | None) -> str:
        if value is None:
            return display.DASH
        if share:
            return display.percent(value)
        if key[2] == "score":
            return display.rating(value)
        return display.coefficient(value).replace("-", "\N{MINUS SIGN}")

    role = "human" if key[1] == "annotators" else "judge"
    who = "Annotators" if role == "human" else key[1]
    return Trend(who, role, key[2], trend(values, low, high, role), text(values[0]), text(values[-1]), len(points))


def dimension_link(name: str) -> str:
    return f"/dimensions/{quote(name, safe='')}"


def why_link(dimension: str, statistic: str = "", evaluator: str = "") -> str:
    """The page that says why a number changed; without a statistic, why any of the dimension did."""
    number = f"{statistic} {evaluator}".strip()
    return f"/why?{urlencode({'dimension': dimension} | ({'number': number} if number else {}))}"


def _why(dimension: DimensionReport) -> Callable[[int, str], str]:
    """Where it is said why a number of a line of the dimension changed; "" for a line that is compared with nothing."""

    def of(line: int, statistic: str) -> str:
        if statistic == "score" and dimension.scale.kind not in ("binary", "rating"):
            return ""  # it has none
        if line == 0:
            name = "human_score" if statistic == "score" else f"annotators.{statistic}"
            return why_link(dimension.name, name)
        evaluator = dimension.evaluators[line - 1]
        return why_link(dimension.name, f"evaluator.{statistic}", evaluator.evaluator) if evaluator.live else ""

    return of
