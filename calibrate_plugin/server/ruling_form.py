"""What a form for a ruling needs to know of who is looking."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from calibrate_plugin.model import Scale
from calibrate_plugin.server.access import Access

MOST_LEVELS = 50  # a longer list is no choice


def ruling_forms(request: Request, access: Access, scale: Scale) -> dict[str, Any]:
    """Whether there are forms at all, what proves that they are ours, the answers to choose from, and who is signed in as
    far as a proxy says so."""
    writes = request.state.level == "write"
    levels = scale.names if scale.levels is not None and scale.levels <= MOST_LEVELS else ()
    signed = request.headers.get(access.proxy_header, "") if access.proxy_header else ""
    return {
        "writes": writes,
        "proof": access.proof(request.state.cookie) if writes else "",
        "levels": levels,
        "by": signed[:200] if writes else "",
    }
