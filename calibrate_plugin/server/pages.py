"""The pages: written on the server, readable without a script, remembered until the numbers change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment
from markupsafe import Markup

from calibrate_plugin.connector import same
from calibrate_plugin.model import REASONS, DimensionReport, Disagreement, Report
from calibrate_plugin.report import display, html
from calibrate_plugin.report.html import Line, Section
from calibrate_plugin.server.access import COOKIE, SESSION, Access
from calibrate_plugin.server.api import PageNumber, Text
from calibrate_plugin.server.disagreements import Disagreements, Wanted
from calibrate_plugin.server.history import Point
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.trend import trend
from calibrate_plugin.server.versions import Later, Versions

REMEMBERED = 64  # pages
SIZE = 25  # disagreements on one
STATIC = {
    "report.css": ("calibrate_plugin.report", "report.css", "text/css; charset=utf-8"),
    "server.css": ("calibrate_plugin.server", "static/server.css", "text/css; charset=utf-8"),
    "calibrate.js": ("calibrate_plugin.server", "static/calibrate.js", "text/javascript; charset=utf-8"),
}


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


class Pages:
    """What a page is made of, and the last ones made."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service, self.access = service, access
        self._made: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def remembered(self, key: tuple[Any, ...], make: Callable[[], str]) -> HTMLResponse:
        """The page of ``key``, which names everything that it depends on."""
        with self._lock:
            found = self._made.get(key)
        if found is None:
            found = make().encode("utf-8", "replace")
            with self._lock:
                self._made[key] = found
                while len(self._made) > REMEMBERED:
                    self._made.popitem(last=False)
        return HTMLResponse(found)

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
            "stamp": state.stamp if state else "none",
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


def disagreements_link(wanted: Wanted, page: int = 1, *, csv: bool = False) -> str:
    given = {f: getattr(wanted, f) for f in ("dimension", "kind", "evaluator", "version", "annotator")}
    query: dict[str, Any] = {k: v for k, v in given.items() if v}
    if page > 1:
        query["page"] = page
    return f"{'/api/v1/disagreements.csv' if csv else '/disagreements'}?{urlencode(query)}"


def _listed(found: Disagreement, scale: Any) -> tuple[Disagreement, str, list[Any]]:
    answers = [
        (a, display.visible_lines((a.reason or "")[: html.REASON]), display.web_link(a.link)) for a in found.answers
    ]
    return found, display.distance(found.distance, scale), answers


def router(service: Service, access: Access, disagreements: Disagreements) -> APIRouter:
    """Every page, and what the pages send."""
    routes = APIRouter(include_in_schema=False)
    pages = Pages(service, access)
    later = Later(service)
    versions = Versions(service, later)

    def state_or_none() -> State | None:
        return service.state

    def waiting(here: str) -> HTMLResponse:
        return HTMLResponse(
            pages.written("health_page.html.j2", "Health", here, None, told=service.told(), writes=False, signed=False),
            503,
        )

    def of_dimension(state: State, name: str) -> DimensionReport:
        for dimension in state.report.dimensions:
            if dimension.name == name:
                return dimension
        raise HTTPException(404, "there is no such dimension")

    def overview(state: State, report: Report, heading: str, run: str = "") -> str:
        sections = [Section(i + 1, d, report.bands) for i, d in enumerate(report.dimensions)]
        return pages.written(
            "overview_page.html.j2",
            heading,
            "" if run else "/",
            state,
            heading=heading,
            run=run,
            coverage=report.coverage,
            dimensions=sections,
            dimension_links=[dimension_link(d.name) for d in report.dimensions],
            overview=html.overview_chart(sections),
            unread=[] if run else display.by_count(report.coverage.unread),
            runs=[] if run else [(r, f"/runs/{quote(r, safe='')}") for r in state.runs[:500]],
            parked=0 if run else sum(t.parked for t in list(service.health.troubles.values())),
            level=next((at for d in report.dimensions if (at := display.level(d)) != 0.95), 0.95),
        )

    @routes.get("/")
    def home() -> Response:
        state = state_or_none()
        if state is None:
            return waiting("/")
        parked = sum(t.parked for t in list(service.health.troubles.values()))
        return pages.remembered(("/", state.serial, parked), lambda: overview(state, state.report, "Overview"))

    @routes.get("/dimensions/{name:path}")
    def dimension(name: str) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        found = of_dimension(state, name)
        points = service.history.points
        last = points[-1].report if points else 0

        def make() -> str:
            section = Section(1, found, state.report.bands)
            return pages.written(
                "dimension_page.html.j2",
                found.name,
                dimension_link(name),
                state,
                dimension=section,
                level=display.level(found),
                disagreements=disagreements_link(Wanted(name)),
                evaluators=[
                    (e, f"/versions?{urlencode({'dimension': name, 'evaluator': e})}")
                    for e, known in versions.known(state, name).items()
                    if len(known) > 1
                ],
                trends=pages.trends(found),
                reasons=REASONS,
            )

        return pages.remembered(("dimension", name, state.serial, last), make)

    @routes.get("/runs/{name:path}")
    def run(name: str) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        if name not in state.runs:
            raise HTTPException(404, "no label of such a run stands")

        heading = f"Run {display.clip(display.visible(name), 80)}"
        report = later.get(state, ("run", name), lambda: service.numbers.run(name))
        if report is None:
            return HTMLResponse(
                pages.written("waiting_page.html.j2", heading, "", state, stamp=f"{state.stamp} ...", heading=heading)
            )
        return pages.remembered(("run", name, state.serial), lambda: overview(state, report, heading, name))

    @routes.get("/disagreements")
    def differing(
        dimension: Text = "",
        evaluator: Text = "",
        version: Text = "",
        annotator: Text = "",
        kind: Literal["", "humans", "judges"] = "",
        page: PageNumber = 1,
    ) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("/disagreements")
        name = dimension or state.report.dimensions[0].name
        found = of_dimension(state, name)
        wanted = Wanted(name, evaluator, version, annotator, kind)

        def make() -> str:
            shown = disagreements.page(state, wanted, page, SIZE)
            of_evaluator = [r for r in found.raters if r.kind == "evaluator"]
            some = sorted({r.version for r in of_evaluator if r.version and evaluator in ("", r.name)})
            options = {
                "dimension": [(d.name, d.name) for d in state.report.dimensions],
                "evaluator": [(n, n) for n in sorted({r.name for r in of_evaluator})],
                "version": [(v, v) for v in some],
                "annotator": [(n, n) for n in sorted({r.name for r in found.raters if r.kind == "annotator"})],
            }
            last = -(-shown.total // SIZE)
            return pages.written(
                "disagreements_page.html.j2",
                "Disagreements",
                "/disagreements",
                state,
                wanted=wanted,
                options=options,
                total=shown.total,
                items=[_listed(one, found.scale) for one in shown.items],
                page=page,
                pages=last,
                before=disagreements_link(wanted, page - 1) if page > 1 else "",
                after=disagreements_link(wanted, page + 1) if page < last else "",
                csv=disagreements_link(wanted, csv=True),
            )

        return pages.remembered(("disagreements", wanted, page, state.serial), make)

    @routes.get("/versions")
    def side_by_side(dimension: Text, evaluator: Text) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        found = of_dimension(state, dimension)
        if evaluator not in versions.known(state, dimension):
            raise HTTPException(404, "there is no such evaluator")
        made = versions.of(state, dimension, evaluator)
        lines, chart = None, Markup("")
        if made is not None:
            lines = []
            for e in made.reports:
                kappa = html.coefficient(e.kappa, display.kappa_band(e.kappa, state.report.bands))
                said = "live" if e.version == made.live else ""
                who = display.clip(display.visible(e.version), 60) or "no version"
                lines.append(
                    Line(who, html.score(e.score, found.scale, "item"), html.share(e.agreement), kappa, "judge", said)
                )
        return HTMLResponse(
            pages.written(
                "versions_page.html.j2",
                "Versions",
                "",
                state,
                stamp=state.stamp if made is not None else f"{state.stamp} ...",
                dimension=dimension,
                evaluator=evaluator,
                lines=lines,
                common=made.common if made else 0,
                chart=chart,
                back=dimension_link(dimension),
            )
        )

    @routes.get("/health")
    def health(request: Request) -> Response:
        cookie = request.state.cookie
        return HTMLResponse(
            pages.written(
                "health_page.html.j2",
                "Health",
                "/health",
                state_or_none(),
                told=service.told(),
                writes=request.state.level == "write",
                signed=bool(cookie),
                proof=access.proof(cookie),
            )
        )

    # --- what pages send

    async def form(request: Request) -> dict[str, str]:
        body = (await request.body()).decode("utf-8", "replace")
        return {k: v[0] for k, v in parse_qs(body, keep_blank_values=True, max_num_fields=20).items()}

    def proven(request: Request, given: dict[str, str]) -> None:
        if not same(given.get("proof", ""), access.proof(request.state.cookie)):
            raise HTTPException(403, "this did not come from a page of this service")

    @routes.post("/retry")
    async def retry(request: Request) -> Response:
        given = await form(request)
        proven(request, given)
        what = given.get("what", "")
        if what not in {"", *service.config.sources, *(f"push: {n}" for n in service.config.sources)}:
            raise HTTPException(404, "there is no such source or push")
        service.ask(what)
        return RedirectResponse("/health", 303)

    @routes.get("/login")
    def login_page(next: Annotated[str, Query(max_length=2000)] = "/") -> Response:
        return HTMLResponse(_login(pages, next, wrong=False))

    @routes.post("/login")
    async def login(request: Request) -> Response:
        given = await form(request)
        level = access.of_token(given.get("token", ""))
        if level == "none":
            return HTMLResponse(_login(pages, given.get("next", "/"), wrong=True), 401)
        answer = RedirectResponse(_inside(given.get("next", "/")), 303)
        answer.set_cookie(
            COOKIE,
            access.session(level),
            max_age=SESSION,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https",
        )
        return answer

    @routes.post("/logout")
    async def logout(request: Request) -> Response:
        proven(request, await form(request))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "there is no such file")
        package, path, kind = STATIC[name]
        return Response(_file(package, path), media_type=kind, headers={"cache-control": "max-age=300"})

    return routes


def _login(pages: Pages, next: str, *, wrong: bool) -> str:
    # Nothing of the study is told to somebody who is not let in yet.
    return pages.written(
        "login_page.html.j2",
        "Sign in",
        "",
        None,
        study="calibrate-plugin",
        links=[],
        stamp="",
        next=_inside(next),
        wrong=wrong,
    )


def _inside(path: str) -> str:
    """A path of this service, or its front page: nobody is sent elsewhere from here."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) < 2000
    return path if safe else "/"


@cache
def _file(package: str, path: str) -> bytes:
    return files(package).joinpath(path).read_bytes()
