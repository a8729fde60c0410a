"""``/api/v1``: all that the pages show, for programs. Reports are the JSON of the report contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field

from calibrate_plugin.model import Disagreement
from calibrate_plugin.report import json
from calibrate_plugin.report.display import web_link
from calibrate_plugin.server.disagreements import Disagreements, Wanted
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service

Text = Annotated[str, Query(max_length=500)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=200)]
NOT_READY: dict[int | str, dict[str, Any]] = {503: {"description": "The first computation is not done yet."}}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"description": "There is no such thing."}}
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


class DisagreementInfo(BaseModel):
    item: str
    distance: float = Field(description="1 - agreement of the worst pair.")
    among_humans: bool
    with_judge: bool
    answers: list[AnswerInfo]


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
            )
            for a in found.answers
        ],
    )


def router(service: Service, disagreements: Disagreements) -> APIRouter:
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
        page: PageNumber = 1,
        size: PageSize = 50,
    ) -> DisagreementPage:
        """The items of a dimension on which answers differ, the widest difference first."""
        state = state_of(service)
        of_dimension(state, dimension)
        found = disagreements.page(state, Wanted(dimension, evaluator, version, annotator, kind), page, size)
        return DisagreementPage(total=found.total, page=page, size=size, items=[told(one) for one in found.items])

    @routes.get("/disagreements.csv", responses={**NOT_READY, **NOT_FOUND}, response_class=PlainTextResponse)
    def differing_csv(
        dimension: Text,
        evaluator: Text = "",
        version: Text = "",
        annotator: Text = "",
        kind: Literal["", "humans", "judges"] = "",
    ) -> Response:
        """The same as a table, an answer a row; at most 5,000 items."""
        state = state_of(service)
        of_dimension(state, dimension)
        table = disagreements.csv(state, Wanted(dimension, evaluator, version, annotator, kind))
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
