"""Why two raters can agree often and have a low kappa: the margins of their table, told in numbers.

An explanation beside a kappa, never a gate. Two raters, two categories: rows are one rater, columns the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Paradox:
    """``prevalence_index`` (a - d) / n, ``bias_index`` (b - c) / n, ``kappa_max`` the highest kappa that these margins allow,
    ``mcc`` Matthews' correlation; None where it is undefined. ``standard_error`` is kappa's large-sample one (Fleiss, Cohen
    and Everitt 1969). ``paradox``: a high agreement (above .8) and a low kappa (below .4) under a prevalence index beyond
    .6."""

    prevalence_index: float
    bias_index: float
    kappa_max: float | None
    mcc: float | None
    standard_error: float | None
    paradox: bool


def explain(table: Array) -> Paradox | None:
    """``table`` (2, 2) counts: both pass, only the first, only the second, both fail. None without counts.

    >>> found = explain(np.array([[90, 4], [4, 2]]))
    >>> round(found.prevalence_index, 2), found.bias_index, found.kappa_max, round(found.standard_error, 4), found.paradox
    (0.88, 0.0, 1.0, 0.1826, True)
    """
    if table.shape != (2, 2):
        raise ValueError(f"a table of {table.shape} has no prevalence index; it is for two raters and two categories")
    n = int(table.sum())
    if not n:
        return None
    (a, b), (c, d) = ((int(x) for x in row) for row in table)
    rows, columns = (a + b, c + d), (a + c, b + d)
    chance = rows[0] * columns[0] + rows[1] * columns[1]  # times n squared
    agreed = a + d
    prevalence, bias = (a - d) / n, (b - c) / n
    product = rows[0] * rows[1] * columns[0] * columns[1]
    if chance == n * n:
        return Paradox(prevalence, bias, None, None, None, False)
    kappa = (agreed * n - chance) / (n * n - chance)
    most = min(rows[0], columns[0]) + min(rows[1], columns[1])
    return Paradox(
        prevalence_index=prevalence,
        bias_index=bias,
        kappa_max=(most * n - chance) / (n * n - chance),
        mcc=(a * d - b * c) / sqrt(product) if product else None,
        standard_error=kappa_standard_error(table / n) / sqrt(n),
        paradox=abs(prevalence) > 0.6 and kappa < 0.4 and agreed / n > 0.8,
    )


def kappa_standard_error(shares: Array) -> float:
    """Of Cohen's unweighted kappa for one item: divide by the root of the number of items. ``shares`` (q, q) sum to 1.

    >>> round(kappa_standard_error(np.array([[.2, .05], [.1, .15]]) / .5) / sqrt(50), 4)
    0.127
    """
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    agreed, chance = float(np.trace(shares)), float(rows @ columns)
    kappa = (agreed - chance) / (1 - chance)
    own = np.diag(shares) @ (1 - (rows + columns) * (1 - kappa)) ** 2
    others = shares * (columns[:, None] + rows[None, :]) ** 2
    cross = (1 - kappa) ** 2 * (others.sum() - np.trace(others))
    variance = own + cross - (kappa - chance * (1 - kappa)) ** 2
    return sqrt(max(0.0, float(variance))) / (1 - chance)


__all__ = ["Paradox", "explain", "kappa_standard_error"]
