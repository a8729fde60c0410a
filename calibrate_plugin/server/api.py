"""``/api/v1``: all that the pages show, for programs. Reports are the JSON of the report contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field

from calibrate_plugin.model import Disagreement, Ruling
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.report import json
from calibrate_plugin.report.display import web_link
from calibrate_plugin.server.disagreements import Disagreements, Wanted
from calibrate_plugin.server.explaining import Explaining
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service
from calibrate_plugin.why_json import plain

Text = Annotated[str, Query(max_length=500)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=200)]
NOT_READY: dict[int | str, dict[str, Any]] = {503: {"description": "The first computation is not done yet."}}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"description": "There is no such thing."}}
PATIENCE = 20.0  # seconds that a program waits for an explanation
LATER: dict[int | str, dict[str, Any]] = {409: {"description": "The settings of then cannot be read any more."}}
DENIED: dict[int | str, dict[str, Any]] = {
    401: {"description": "A token is needed."},
    403: {"description": "This needs the write token, or a page of this service."},
}


class StudyInfo(BaseModel):
    """A study and where it stands."""

    name: str
    dimensions: list[str]
    sources: list[str]
    runs: list[str]
    sync_number: int
    generated_at: datetime
    stamp: str = Field(description="Names what the report says; the same for the same numbers.")


class AnswerInfo(BaseModel):
    rater: str
    kind: str
    version: str
    value: str
    reason: str | None
    at: datetime | None
    link: str | None
    after_ruling: bool = Field(False, description="Given when the item had been ruled on.")


class RulingInfo(BaseModel):
    """A ruling that stands."""

    item: str
    dimension: str
    value: str
    cause: str | None = Field(description=f"One of {', '.join(CAUSES)}.")
    reason: str | None
    by: str
    at: datetime | None = Field(description="When the item was first ruled on.")


class DisagreementInfo(BaseModel):
    item: str
    distance: float = Field(description="1 - agreement of the worst pair.")
    among_humans: bool
    with_judge: bool
    answers: list[AnswerInfo]
    ruling: RulingInfo | None = None


class DisagreementPage(BaseModel):
    total: int
    page: int
    size: int
    items: list[DisagreementInfo]


class PointInfo(BaseModel):
    report: int
    sync_number: int
    at: datetime
    value: float | None


class SyncInfo(BaseModel):
    id: int
    source: str
    mode: str
    outcome: str
    message: str
    server: str | None
    started: datetime
    finished: datetime | None
    seen: int
    added: int
    changed: int
    retired: int
    requests: int | None


class Retry(BaseModel):
    what: str = Field("", max_length=300, description="A source, or `push: NAME`; empty is everything.")


def state_of(service: Service) -> State:
    """The numbers, or an answer that says that there are none yet."""
    if service.state is None:
        raise HTTPException(503, "the first computation is not done yet")
    return service.state


def told(found: Disagreement) -> DisagreementInfo:
    return DisagreementInfo(
        item=found.item,
        distance=found.distance,
        among_humans=found.among_humans,
        with_judge=found.with_judge,
        answers=[
            AnswerInfo(
                rater=a.rater,
                kind=a.kind,
                version=a.version,
                value=a.value,
                reason=a.reason,
                at=a.at,
                link=web_link(a.link),
                after_ruling=a.after_ruling,
            )
            for a in found.answers
        ],
        ruling=None if found.ruling is None else ruling_info(found.ruling),
    )


def ruling_info(one: Ruling) -> RulingInfo:
    return RulingInfo(**{name: getattr(one, name) for name in RulingInfo.model_fields})


def router(service: Service, disagreements: Disagreements, explaining: Explaining) -> APIRouter:
    """All of ``/api/v1``."""
    routes = APIRouter(prefix="/api/v1", responses=DENIED)

    def of_dimension(state: State, name: str) -> None:
        if name not in state.differing:
            raise HTTPException(404, "there is no such dimension")

    @routes.get("/studies", responses={**NOT_READY})
    def studies() -> list[StudyInfo]:
        """The studies that are served here."""
        state = state_of(service)
        report = state.report
        return [
            StudyInfo(
                name=report.study,
                dimensions=[d.name for d in report.dimensions],
                sources=list(service.config.sources),
                runs=list(state.runs),
                sync_number=state.number,
                generated_at=report.generated_at,
                stamp=state.stamp,
            )
        ]

    @routes.get("/report", responses={**NOT_READY}, response_class=JSONResponse)
    def report() -> Response:
        """The whole report, schema `calibrate-plugin/report/1`."""
        return Response(state_of(service).body, media_type="application/json")

    @routes.get("/dimensions/{name:path}", responses={**NOT_READY, **NOT_FOUND})
    def dimension(name: str) -> dict[str, Any]:
        """One dimension of the report."""
        state = state_of(service)
        of_dimension(state, name)
        whole: list[dict[str, Any]] = json.plain(state.report)["dimensions"]
        at = [d.name for d in state.report.dimensions].index(name)
        return whole[at]

    @routes.get("/calibration", responses={**NOT_READY}, response_class=JSONResponse)
    def calibration() -> Response:
        """The report with the calibration of the judges, in the same schema. It is computed in the background; as long as that
        of the newest numbers is not done, the one before stands there."""
        joined = service.calibrations.joined(state_of(service))
        if joined is None:
            raise HTTPException(503, "the first calibration is not done yet", {"retry-after": "10"})
        return Response(json.render(joined), media_type="application/json")

    @routes.get("/why", responses={**NOT_READY, **NOT_FOUND, **LATER})
    def why(
        dimension: Text,
        since: Annotated[
            str,
            Query(max_length=100, description="A time, a sync number or `#` and a report; none: the report before."),
        ] = "",
    ) -> dict[str, Any] | None:
        """Why the numbers of a dimension changed: causes, the step of each, the labels behind it; the steps add up. Null where
        there is no earlier report."""
        state = state_of(service)
        of_dimension(state, dimension)
        try:
            moment = explaining.since(state, since)
        except ValueError as error:
            raise HTTPException(422, [{"loc": ["query", "since"], "msg": str(error), "type": "value_error"}]) from None
        if moment is None:
            return None
        found = explaining.of(state, dimension, moment, patience=PATIENCE)
        if found is None:
            raise HTTPException(503, "it is being computed; ask again", {"retry-after": "5"})
        if isinstance(found, str):
            raise HTTPException(409, found)
        told: dict[str, Any] = plain(found)
        return told

    @routes.get("/runs/{name:path}", responses={**NOT_READY, **NOT_FOUND}, response_class=JSONResponse)
    def run(name: str) -> Response:
        """The report of one evaluation run."""
        state_of(service)
        try:
            found = service.numbers.run(name)
        except KeyError:
            raise HTTPException(404, "no label of such a run stands") from None
        return Response(json.render(found), media_type="application/json")

    @routes.get("/disagreements", responses={**NOT_READY, **NOT_FOUND})
    def differing(
        dimension: Text,
        evaluator: Text = "",
        version: Text = "",
        annotator: Text = "",
        kind: Literal["", "humans", "judges"] = "",
        ruling: Text = "",
        page: PageNumber = 1,
        size: PageSize = 50,
    ) -> DisagreementPage:
        """The items of a dimension on which answers differ, the widest difference first. ``ruling`` is `open`, `ruled` or the
        cause of one."""
        state = state_of(service)
        of_dimension(state, dimension)
        found = disagreements.page(state, Wanted(dimension, evaluator, version, annotator, kind, ruling), page, size)
        return DisagreementPage(total=found.total, page=page, size=size, items=[told(one) for one in found.items])

    @routes.get("/disagreements.csv", responses={**NOT_READY, **NOT_FOUND}, response_class=PlainTextResponse)
    def differing_csv(
        dimension: Text,
        evaluator: Text = "",
        version: Text = "",
        annotator: Text = "",
        kind: Literal["", "humans", "judges"] = "",
        ruling: Text = "",
    ) -> Response:
        """The same as a table, an answer a row; at most 5,000 items."""
        state = state_of(service)
        of_dimension(state, dimension)
        table = disagreements.csv(state, Wanted(dimension, evaluator, version, annotator, kind, ruling))
        return Response(
            table.encode("utf-8", "replace"),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="disagreements.csv"'},
        )

    @routes.get("/history")
    def history(
        dimension: Text,
        subject: Text = "annotators",
        statistic: Literal["score", "agreement", "kappa", "alpha"] = "kappa",
    ) -> list[PointInfo]:
        """One number in the last reports, oldest first; ``subject`` is `annotators` or an evaluator with its version."""
        key = (dimension, subject, statistic)
        return [
            PointInfo(report=p.report, sync_number=p.number, at=p.at, value=p.values[key])
            for p in service.history.points
            if key in p.values
        ]

    @routes.get("/syncs")
    def syncs(limit: Annotated[int, Query(ge=1, le=500)] = 50) -> list[SyncInfo]:
        """The last pulls, newest first."""
        return [
            SyncInfo.model_validate({f: getattr(s, f) for f in SyncInfo.model_fields})
            for s in service.store.syncs(limit)
        ]

    @routes.get("/health")
    def health() -> dict[str, Any]:
        """Last event, lag, open hints, the last pull of each source, what failed."""
        return service.told()

    @routes.post("/retry", status_code=202, responses={**NOT_FOUND})
    def retry(wanted: Retry, request: Request) -> dict[str, str]:
        """Try again what failed or was parked; with nothing named, pull and push everything now."""
        known = {"", *service.config.sources, *(f"push: {n}" for n in service.config.sources)}
        if wanted.what not in known:
            raise HTTPException(404, "there is no such source or push")
        service.ask(wanted.what)
        return {"asked": wanted.what or "everything"}

    return routes
