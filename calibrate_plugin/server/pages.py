"""The pages: written on the server, readable without a script, remembered until the numbers change."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from calibrate_plugin.connector import same
from calibrate_plugin.model import DimensionReport, Disagreement
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.report import display, html
from calibrate_plugin.report.html import Line
from calibrate_plugin.server.access import COOKIE, SESSION, Access
from calibrate_plugin.server.api import PageNumber, Text
from calibrate_plugin.server.disagreements import OPEN, RULED, Disagreements, Wanted
from calibrate_plugin.server.drawing import Pages, dimension_link
from calibrate_plugin.server.explaining import told
from calibrate_plugin.server.forms import form
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.ruling_form import ruling_forms
from calibrate_plugin.server.service import Service
from calibrate_plugin.why import Explanation

REMEMBERED = 64  # pages
SIZE = 25  # disagreements on one
STATIC = {
    "report.css": ("calibrate_plugin.report", "report.css", "text/css; charset=utf-8"),
    "server.css": ("calibrate_plugin.server", "static/server.css", "text/css; charset=utf-8"),
    "calibrate.js": ("calibrate_plugin.server", "static/calibrate.js", "text/javascript; charset=utf-8"),
}


def disagreements_link(wanted: Wanted, page: int = 1, *, csv: bool = False) -> str:
    given = {f: getattr(wanted, f) for f in ("dimension", "kind", "evaluator", "version", "annotator", "ruling")}
    query: dict[str, Any] = {k: v for k, v in given.items() if v}
    if page > 1:
        query["page"] = page
    return f"{'/api/v1/disagreements.csv' if csv else '/disagreements'}?{urlencode(query)}"


def _listed(found: Disagreement, scale: Any) -> tuple[Disagreement, str, list[Any]]:
    answers = [
        (a, display.visible_lines((a.reason or "")[: html.REASON]), display.web_link(a.link)) for a in found.answers
    ]
    return found, display.distance(found.distance, scale), answers


def router(service: Service, pages: Pages, access: Access, disagreements: Disagreements) -> APIRouter:
    """Every page, and what the pages send."""
    routes = APIRouter(include_in_schema=False)
    later, versions, explaining = pages.later, pages.versions, pages.explaining

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

    @routes.get("/")
    def home() -> Response:
        state = state_or_none()
        if state is None:
            return waiting("/")
        return pages.overview(state)

    @routes.get("/dimensions/{name:path}")
    def dimension(name: str) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        return pages.dimension(state, of_dimension(state, name))

    @routes.get("/runs/{name:path}")
    def run(name: str) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        if name not in state.runs:
            raise HTTPException(404, "no label of such a run stands")

        heading = f"Run {display.clip(display.visible(name), 80)}"
        drawn = later.get(
            state, ("run", name), lambda: pages.of_report(state, service.numbers.run(name), heading, name)
        )
        if drawn is not None:
            return HTMLResponse(drawn)
        return HTMLResponse(
            pages.written("waiting_page.html.j2", heading, "", state, stamp=f"{service.stamp} ...", heading=heading)
        )

    @routes.get("/disagreements")
    def differing(
        request: Request,
        dimension: Text = "",
        evaluator: Text = "",
        version: Text = "",
        annotator: Text = "",
        kind: Literal["", "humans", "judges"] = "",
        ruling: Text = "",
        page: PageNumber = 1,
    ) -> Response:
        state = state_or_none()
        if state is None:
            return waiting("/disagreements")
        name = dimension or state.report.dimensions[0].name
        found = of_dimension(state, name)
        wanted = Wanted(name, evaluator, version, annotator, kind, ruling)
        forms = ruling_forms(request, access, found.scale)

        if disagreements.study_of(state, wanted) != state.study:  # a version that is not live is counted anew
            asked = ("disagreements of", name, evaluator, version)
            if later.get(state, asked, lambda: disagreements.pairs(state, wanted)) is None:
                stamp = f"{service.stamp} ..."
                return HTMLResponse(
                    pages.written(
                        "waiting_page.html.j2", "Disagreements", "", state, stamp=stamp, heading="Disagreements"
                    )
                )

        def make() -> str:
            shown = disagreements.page(state, wanted, page, SIZE)
            known = versions.known(state, name)
            some = sorted({v for e, of_one in known.items() for v in of_one if v and evaluator in ("", e)})
            options = {
                "dimension": [(d.name, d.name) for d in state.report.dimensions],
                "evaluator": [(n, n) for n in known],
                "version": [(v, v) for v in some],
                "annotator": [(n, n) for n in sorted({r.name for r in found.raters if r.kind == "annotator"})],
                "ruling": [(OPEN, "not ruled on"), (RULED, "ruled on"), *CAUSES.items()],
            }
            counts = Counter(r.cause for r in disagreements.rulings(state).values() if r.dimension == name)
            causes = [
                (t, counts[c], disagreements_link(Wanted(name, ruling=c))) for c, t in CAUSES.items() if counts[c]
            ]
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
                causes=causes,
                dimension=name,
                back=disagreements_link(wanted, page),
                CAUSES=CAUSES,
                **forms,
            )

        key = ("disagreements", wanted, page, state.serial, service.store.latest(), forms["proof"], forms["by"])
        return pages.remembered(key, make)

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
                stamp=service.stamp if made is not None else f"{service.stamp} ...",
                dimension=dimension,
                evaluator=evaluator,
                lines=lines,
                common=made.common if made else 0,
                chart=chart,
                back=dimension_link(dimension),
            )
        )

    @routes.get("/why")
    def why(dimension: Text, number: Text = "", since: Text = "") -> Response:
        state = state_or_none()
        if state is None:
            return waiting("")
        found = of_dimension(state, dimension)
        statistic, _, evaluator = number.partition(" ")
        try:
            moment = explaining.since(state, since)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        made = explaining.of(state, dimension, moment) if moment is not None else ""
        explained = made if isinstance(made, Explanation) else None
        kept = explaining.offered()
        usual = next((f"#{r.id}" for r in kept if moment is not None and r.number == moment.number), "")
        return HTMLResponse(
            pages.written(
                "why_page.html.j2",
                "Why did it change?",
                "",
                state,
                stamp=service.stamp if made is not None else f"{service.stamp} ...",
                dimension=dimension,
                chosen=number,
                numbers=_numbers(found),
                since=since or usual,
                reports=[(f"#{r.id}", f"{r.at:%Y-%m-%d %H:%M:%S}, report {r.id}") for r in kept],
                computing=made is None,
                wrong=made if isinstance(made, str) else "",
                none=moment is None,
                told=told(explained, statistic, evaluator) if explained else [],
                notes=explained.notes if explained else (),
                beside=explained.beside if explained else (),
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


def _numbers(dimension: DimensionReport) -> list[tuple[str, str]]:
    """The numbers whose change can be explained: as the address says it, and in words."""
    people = [("human_score", "the annotators’ score")]
    people += [(f"annotators.{s}", f"{s} of the annotators") for s in ("agreement", "kappa")]
    judges = dict.fromkeys(e.evaluator for e in dimension.evaluators if e.live)
    of_judges = [(f"evaluator.{s} {e}", f"{s} of {e}") for e in judges for s in ("score", "agreement", "kappa")]
    return people + of_judges


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
