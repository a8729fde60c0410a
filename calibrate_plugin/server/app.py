"""The application: webhooks in, pages and API out, and the worker beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sse_starlette.sse import EventSourceResponse

from calibrate_plugin.server import api, pages, receiver, rulings
from calibrate_plugin.server.access import Access, Asgi, Guard
from calibrate_plugin.server.background import Background, Post
from calibrate_plugin.server.disagreements import Disagreements
from calibrate_plugin.server.drawing import Pages
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.worker import Worker
from calibrate_plugin.store.outbox import Outbox

log = logging.getLogger(__name__)

PING = 15  # seconds between signs of life on an open stream


def application(service: Service, access: Access, *, working: bool = True) -> FastAPI:
    """The application of a study. Without ``working`` nobody pulls and pushes (for tests)."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threads = (Worker(service), Background(service), Post(service)) if working else ()
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                await asyncio.get_running_loop().run_in_executor(None, thread.stop)

    app = FastAPI(
        title="calibrate-plugin",
        description="How far annotators agree with each other, and judges with them.",
        version="1",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=lifespan,
    )
    disagreements, made = Disagreements(service.store), Pages(service)
    app.include_router(receiver.router(service))
    app.include_router(api.router(service, disagreements, made.explaining))
    app.include_router(pages.router(service, made, access, disagreements))
    app.include_router(rulings.router(service, made, access, disagreements))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not repeated: it may hold anything, a token among it.
        wrong = [
            {"loc": [str(part)[:100] for part in e["loc"]], "msg": e["msg"], "type": e["type"]} for e in error.errors()
        ]
        return JSONResponse({"detail": wrong}, 422)

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> Response:
        return PlainTextResponse("ok")

    @app.get("/readyz", include_in_schema=False)
    def readyz() -> Response:
        return PlainTextResponse("ready") if service.state else PlainTextResponse("not yet", 503)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        hints = service.store.hints()
        service.meters.queue.set(len(hints))
        waited = (service.store.now() - hints[0].received).total_seconds() if hints else 0.0
        service.meters.waiting.set(waited)
        service.meters.alerts.set(len(Outbox(service.store).listed(delivered=False)))
        return Response(generate_latest(service.meters.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/events", include_in_schema=False)
    async def events(request: Request) -> EventSourceResponse:
        async def told() -> AsyncIterator[dict[str, Any]]:
            with service.events.listen() as queue:
                yield {"event": "report", "data": service.stamp}
                while True:
                    yield {"event": "report", "data": await queue.get()}

        return EventSourceResponse(told(), ping=PING)

    return app


def guarded(app: FastAPI, access: Access) -> Asgi:
    """The application as it is let out: nobody gets to it but through the guard."""
    return Guard(app, access)
