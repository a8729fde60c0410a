"""Webhooks in: proven, written down, answered; everything else happens elsewhere.

The answer waits for one small write and for nothing that reads, computes or draws, so it comes within the second that Label
Studio gives.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from calibrate_plugin.connector import Forged, Incoming, Listener, Repeated, Unknown
from calibrate_plugin.server.service import WHOLE, Service
from calibrate_plugin.store import StoreError

log = logging.getLogger(__name__)

MOST = 32_000_000  # bytes of any webhook: an import of 5,000 tasks may say them all
MOST_PROOF = 1_000_000  # bytes of a body that is part of the proof
PATIENCE = 10.0  # seconds for such a body to come
WRITERS = 4  # threads that do nothing else than write hints down


def router(service: Service) -> APIRouter:
    """``POST /webhooks/{source}``, with the secret in a header or as a further part of the path."""
    routes = APIRouter()
    writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="hints")

    @routes.post("/webhooks/{source}", include_in_schema=False)
    @routes.post("/webhooks/{source}/{secret}", include_in_schema=False)
    async def webhook(source: str, request: Request, secret: str = "") -> Response:
        known = source if source in service.config.sources else ""
        try:
            status = await _taken(service, writers, source, request, secret)
        except TimeoutError:
            status = 408
        except StoreError:
            log.exception("a hint of %s could not be written down", known)
            status = 503
        outcome = {202: "accepted", 200: "repeated", 401: "forged", 413: "too_large", 422: "unknown"}.get(
            status, "failed"
        )
        service.meters.webhooks.labels(known, outcome).inc()
        answer = JSONResponse({"outcome": outcome}, status)
        if status >= 400:
            answer.headers["connection"] = "close"  # whatever is still to come is not read
        return answer

    return routes


async def _taken(service: Service, writers: ThreadPoolExecutor, source: str, request: Request, secret: str) -> int:
    listener = service.sources.get(source)
    if not isinstance(listener, Listener):
        return 422
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST:
        return 413
    body = b""
    if listener.wants_body:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_PROOF:
                    return 413
    incoming = Incoming(dict(request.headers), dict(request.query_params), secret, body, service.store.now())
    try:
        look = listener.accepts(incoming)
    except Repeated:
        return 200
    except Forged as error:
        log.warning("%s", error)
        return 401
    except Unknown as error:
        log.warning("%s", error)
        return 422
    job = f"{WHOLE}{look.job or ''}" if look.whole else look.job
    await asyncio.get_running_loop().run_in_executor(writers, service.store.hint, source, job)
    service.wake()
    return 202
