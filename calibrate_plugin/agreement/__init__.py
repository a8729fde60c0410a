"""Scores, agreement, kappa, alpha and their intervals: pure functions of counted tables.

The functions for a table of answers are here too: ``from calibrate_plugin.agreement import cohen_kappa``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrate_plugin.agreement.estimate import Resampling, wilson
    from calibrate_plugin.agreement.functions import (
        brennan_prediger,
        cohen_kappa,
        fleiss_kappa,
        gwet_ac,
        krippendorff_alpha,
        negative_agreement,
        pabak,
        percent_agreement,
        pooled_agreement,
        pooled_kappa,
        positive_agreement,
    )

__all__ = [
    "Resampling",
    "brennan_prediger",
    "cohen_kappa",
    "fleiss_kappa",
    "gwet_ac",
    "krippendorff_alpha",
    "negative_agreement",
    "pabak",
    "percent_agreement",
    "pooled_agreement",
    "pooled_kappa",
    "positive_agreement",
    "wilson",
]


def __getattr__(name: str) -> Any:
    # A report needs none of them, so they are imported when they are asked for.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from calibrate_plugin.agreement import estimate, functions

    return getattr(estimate if name in ("Resampling", "wilson") else functions, name)


def __dir__() -> list[str]:
    return __all__
