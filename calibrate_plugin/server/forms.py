"""What a form of a page sends."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import HTTPException, Request

MOST_FIELDS = 20


async def form(request: Request) -> dict[str, str]:
    """The fields of a form, the first of each name. Raises HTTPException where there are more than any form of ours has."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, f"a form of this service has at most {MOST_FIELDS} fields") from None
    return {name: values[0] for name, values in found.items()}


__all__ = ["form"]
