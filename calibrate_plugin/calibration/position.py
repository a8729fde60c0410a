"""Does a pairwise judge stay with its answer when the two responses change places?

Consistent means that the same *response* wins in both orders (or both are ties): answers name responses, never slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import FEWEST_ITEMS, Resampling
from calibrate_plugin.calibration.panel import share_of
from calibrate_plugin.calibration.resampling import draws, ends_of_draws, quotient
from calibrate_plugin.calibration.side_by_side import mcnemar
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.ratings.answers import levels
from calibrate_plugin.ratings.rules import Answers

Array = NDArray[Any]
TIE = 2
NOT_JUDGED, FAILED = -1, -2


@dataclass(frozen=True, slots=True)
class BothOrders:
    """The answers of one judge to pairs of responses: ``first`` (N,) where the first response was shown first, ``second``
    where the other one was; 0 and 1 name the winning response, 2 a tie, NOT_JUDGED or FAILED."""

    first: Array
    second: Array


@dataclass(frozen=True, slots=True)
class Position:
    """How a judge answers when the order changes.

    ``items`` were answered in both orders: ``same_first``, ``same_second``, ``same_tie`` with the same answer, ``to_first``
    (whichever response was shown first won), ``to_second``, and ``tie_changes`` (a tie in one order only).
    ``first_share``: how often the response shown first won, of all answers that name a winner; items resampled.
    ``direction_p``: exact two-sided p value of ``to_first`` against ``to_second``. ``failed`` items lack an answer in an order
    that was asked; ``single_order`` items were asked in one order only.
    """

    items: int
    consistent: Measure
    same_first: int
    same_second: int
    same_tie: int
    to_first: int
    to_second: int
    tie_changes: int
    first_share: Measure
    direction_p: float | None
    failed: int
    single_order: int


def position(both: BothOrders, resampling: Resampling) -> Position:
    """Consistency and direction.

    >>> one = np.array([0] * 6 + [0] * 2 + [1] + [0])   # slot A holds response 0 here,
    >>> two = np.array([0] * 6 + [1] * 2 + [0] + [2])   # and response 1 there
    >>> found = position(BothOrders(one, two), Resampling())
    >>> found.consistent.value, found.to_first, found.to_second, found.tie_changes, round(found.first_share.value, 3)
    (0.6, 2, 1, 1, 0.579)
    """
    a, b = both.first, both.second
    answered = (a >= 0) & (b >= 0)
    x, y = a[answered], b[answered]
    n = len(x)
    same = x == y
    decisive = (x != TIE) & (y != TIE)
    to_first, to_second = int((~same & decisive & (x == 0)).sum()), int((~same & decisive & (x == 1)).sum())
    nothing = Measure(None, "nothing_to_compare", n, None)
    return Position(
        items=n,
        consistent=share_of(int(same.sum()), n, resampling.level) if n else nothing,
        same_first=int((same & (x == 0)).sum()),
        same_second=int((same & (x == 1)).sum()),
        same_tie=int((same & (x == TIE)).sum()),
        to_first=to_first,
        to_second=to_second,
        tie_changes=int((~same & ~decisive).sum()),
        first_share=_first_share(x, y, resampling) if n else nothing,
        direction_p=mcnemar(to_first, to_second) if to_first + to_second else None,
        failed=int(((a == FAILED) | (b == FAILED)).sum()),
        single_order=int((((a >= 0) & (b == NOT_JUDGED)) | ((b >= 0) & (a == NOT_JUDGED))).sum()),
    )


def orders_of(
    answers: Answers, labels: pl.DataFrame, rater: int, n: int, shown_first: Mapping[str, int] | None = None
) -> BothOrders | None:
    """The answers of an evaluator in both orders, by item code; ``labels`` are those of the same ratings.

    ``shown_first`` says for each order, as the source names it, which response (0 or 1) was shown first; without it an
    order that begins with a response's name ("AB", "B first") tells it itself. None where no label names its order, or
    it cannot be told what an order means.
    """
    if "order" not in labels.columns:
        return None
    rows = answers.frame.filter(
        (pl.col("rater") == rater)
        & (pl.col("cause").is_null() | pl.col("cause").is_in(["flipped", "sampled", "tied", "failed"]))
    )
    rows = pl.concat([rows, labels[rows["row"].to_numpy()].select("order", "value")], how="horizontal")
    rows = rows.filter(pl.col("order").is_not_null())
    if rows.is_empty():
        return None
    slots = {o: _slot(o, answers.dimension.scale, shown_first) for o in rows["order"].unique()}
    if any(slot is None for slot in slots.values()):
        return None
    # Collapsing the two orders may have put a tie in place of an answer, so the answers are read from the values again.
    read = levels(answers.dimension, rows["value"].drop_nulls().unique(), evaluator=answers.raters[rater].name)
    given = pl.col("value").replace_strict(
        {v: level for v, (level, _) in read.items()}, default=FAILED, return_dtype=pl.Int32
    )
    answered = (given >= 0) & ~pl.col("cause").is_in(["tied", "failed"]).fill_null(False)
    rows = rows.with_columns(
        pl.when(answered).then(given).otherwise(FAILED).alias("answer"),
        pl.col("order").replace_strict(slots, return_dtype=pl.Int32).alias("slot"),
    )
    # Of several labels in one order the one that stands first among the rules' causes is the answer.
    rank = pl.col("cause").replace_strict({"flipped": 1, "sampled": 2, "tied": 3, "failed": 4}, default=0)
    one = rows.sort(rank, "row").unique(["item", "slot"], keep="first", maintain_order=True)
    found = [np.full(n, NOT_JUDGED, dtype=np.int64), np.full(n, NOT_JUDGED, dtype=np.int64)]
    for slot in (0, 1):
        here = one.filter(pl.col("slot") == slot)
        found[slot][here["item"].to_numpy()] = here["answer"].to_numpy()
    return BothOrders(*found)


def _slot(order: str, scale: Scale, shown_first: Mapping[str, int] | None) -> int | None:
    if shown_first is not None:
        return shown_first.get(order)
    text = order.strip().casefold()
    names = [label.strip().casefold() for label in scale.labels[:2]]
    begins = [i for i, name in enumerate(names) if text.startswith(name)]
    if len(begins) == 2:  # one name begins with the other: the longer one was meant
        return max(begins, key=lambda i: len(names[i]))
    return begins[0] if begins else None


def _first_share(x: Array, y: Array, resampling: Resampling) -> Measure:
    wins = (x == 0).astype(np.int64) + (y == 1)
    decisive = (x != TIE).astype(np.int64) + (y != TIE)
    total = int(decisive.sum())
    n = len(x)
    if not total:
        return Measure(None, "nothing_to_compare", n, 0)
    value = int(wins.sum()) / total
    if resampling.method == "none":
        return Measure(value, None, n, total, None, "not_asked")
    if n < FEWEST_ITEMS:
        return Measure(value, None, n, total, None, "too_few_items")
    patterns, items = np.unique(np.column_stack([wins, decisive]), axis=0, return_counts=True)
    # One pseudo-item each for no preference, the first and the second slot: a judge that never flipped here might yet.
    patterns = np.concatenate([patterns, [[1, 2], [2, 2], [0, 2]]]).astype(np.float64)
    counts = np.concatenate([items, [1, 1, 1]])
    rng = resampling.about("first slot").generator()
    sums = np.concatenate(
        [
            real @ patterns
            for real, _ in draws(counts, np.zeros(len(counts), dtype=np.int64), rng, resampling.resamples, 0.0)
        ]
    )
    ends, why = ends_of_draws(quotient(sums[:, 0], sums[:, 1]), n, resampling)
    return Measure(value, None, n, total, ends, why)


__all__ = ["FAILED", "NOT_JUDGED", "TIE", "BothOrders", "Position", "orders_of", "position"]
