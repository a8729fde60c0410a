"""Rulings on disagreements, from a form of the page and from programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from calibrate_plugin import rulings
from calibrate_plugin.connector import same
from calibrate_plugin.guideline import version_now
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.server.access import Access
from calibrate_plugin.server.api import DENIED, NOT_READY, RulingInfo, Text, ruling_info, state_of
from calibrate_plugin.server.disagreements import Disagreements
from calibrate_plugin.server.drawing import Pages
from calibrate_plugin.server.forms import form
from calibrate_plugin.server.ruling_form import ruling_forms
from calibrate_plugin.server.service import Service
from calibrate_plugin.store import Busy

WAIT = 10.0  # seconds for whoever works on the store to be done
BUSY: dict[int | str, dict[str, Any]] = {503: {"description": "Not computed yet, or the store is being worked on."}}
WRONG: dict[int | str, dict[str, Any]] = {400: {"description": "The ruling cannot be meant so; the answer says why."}}


class RulingWanted(BaseModel):
    """A ruling to write."""

    item: str = Field(max_length=5_000)
    dimension: str = Field(max_length=500)
    value: str = Field(max_length=500, description="An answer of the dimension's scale.")
    cause: str = Field(max_length=100, description=f"One of {', '.join(CAUSES)}.")
    reason: str = Field(max_length=rulings.LONGEST)
    by: str = Field(max_length=200, description="Who rules.")


class RulingGone(BaseModel):
    """A ruling to take back."""

    item: str = Field(max_length=5_000)
    dimension: str = Field(max_length=500)


class Written(BaseModel):
    sync_number: int | None = Field(description="Null where that was so already.")


def router(service: Service, pages: Pages, access: Access, disagreements: Disagreements) -> APIRouter:
    """``/api/v1/rulings``, and what the forms of the page send."""
    every = APIRouter()
    routes = APIRouter(prefix="/api/v1", responses=DENIED)

    def written(given: rulings.Given | RulingGone) -> Written:
        try:
            return Written(sync_number=_write(service, given))
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except Busy as busy:
            raise HTTPException(503, str(busy), {"retry-after": "10"}) from None

    @routes.get("/rulings", responses={**NOT_READY})
    def listed(dimension: Text = "", cause: Annotated[str, Query(max_length=100)] = "") -> list[RulingInfo]:
        """The rulings that stand, by item."""
        found = disagreements.rulings(state_of(service)).values()
        chosen = [r for r in found if dimension in ("", r.dimension) and cause in ("", r.cause)]
        return [ruling_info(r) for r in sorted(chosen, key=lambda r: (r.dimension, r.item))]

    @routes.get("/causes", responses={**NOT_READY})
    def causes() -> dict[str, dict[str, int]]:
        """Per dimension how many rulings there are of each cause."""
        state = state_of(service)
        counts = Counter((r.dimension, r.cause) for r in disagreements.rulings(state).values())
        return {d.name: {c: counts[d.name, c] for c in CAUSES} for d in state.study.dimensions}

    @routes.post("/rulings", responses={**BUSY, **WRONG})
    def rule(wanted: RulingWanted) -> Written:
        """Rule on an item on which answers differ. What was ruled on it before is replaced."""
        return written(rulings.Given(**wanted.model_dump()))

    @routes.post("/rulings/clear", responses={**BUSY, **WRONG})
    def clear(gone: RulingGone) -> Written:
        """Take a ruling back."""
        return written(gone)

    every.include_router(routes)
    _form_routes(every, service, access, disagreements, pages)
    return every


def _write(service: Service, given: rulings.Given | RulingGone) -> int | None:
    """Raises ValueError and Busy."""
    store, study = service.store, state_of(service).study
    if isinstance(given, RulingGone):
        number = rulings.clear(store, study, [(given.item, given.dimension)], wait=WAIT)
    else:
        number = rulings.rule(store, study, [given], guideline=version_now(service.config), wait=WAIT)
    service.woken.set()
    return number


def _form_routes(
    routes: APIRouter, service: Service, access: Access, disagreements: Disagreements, pages: Pages
) -> None:
    """What the forms of the page send."""

    @routes.post("/disagreements/rule", include_in_schema=False)
    async def from_page(request: Request) -> Response:
        given = await form(request)
        if not same(given.get("proof", ""), access.proof(request.state.cookie)):
            raise HTTPException(403, "this did not come from a page of this service")
        item, dimension = _key(given.get("item")), _key(given.get("dimension"))
        back = given.get("back", "")
        if not back.startswith("/disagreements?") or not back.isprintable():
            back = "/disagreements"
        wanted: rulings.Given | RulingGone = RulingGone.model_construct(item=item, dimension=dimension)
        if not given.get("clear"):
            told = (given.get(k, "") for k in ("value", "cause", "reason", "by"))
            wanted = rulings.Given(item, dimension, *(text.strip() for text in told))
        try:
            await run_in_threadpool(_write, service, wanted)
        except (ValueError, Busy) as error:
            return refused(request, item, dimension, back, given, error)
        return RedirectResponse(back, 303)

    def refused(
        request: Request, item: str, dimension: str, back: str, given: dict[str, str], error: Exception
    ) -> Response:
        """The form again with all that was typed, and what is wrong with it."""
        state = state_of(service)
        scale = next((d.scale for d in state.study.dimensions if d.name == dimension), None)
        if scale is None:
            raise HTTPException(404, "there is no such dimension")
        page = pages.written(
            "ruling_page.html.j2",
            "Not ruled",
            "/disagreements",
            state,
            stamp="",
            message=str(error),
            item=item,
            dimension=dimension,
            ruling=disagreements.rulings(state).get((item, dimension)),
            back=back,
            given=given,
            CAUSES=CAUSES,
            **ruling_forms(request, access, scale),
        )
        return HTMLResponse(page, 503 if isinstance(error, Busy) else 400)


def _key(text: str | None) -> str:
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, str):
        raise HTTPException(400, "the form does not say which item it is about")
    return found


__all__ = ["router"]
