"""An explanation as JSON."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from calibrate_plugin.why import Number


def plain(value: Any) -> Any:
    """An explanation as JSON holds it; an exact number also as a fraction."""
    if isinstance(value, Number):
        exact = str(value.value) if isinstance(value.value, Fraction) else None
        return {"value": plain(value.value), "exact": exact, "reason": value.reason, "kind": value.kind}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
