"""Everybody's answers on the items of one dimension, side by side: what all of calibration reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibrate_plugin.agreement.estimate import wilson
from calibrate_plugin.model import Measure, Scale
from calibrate_plugin.ratings.rules import Answers

Array = NDArray[Any]
Given = Sequence[int | float | None] | Array

#: What became of an item that an evaluator was asked about, from the best to the worst; 0 is "not asked".
STATES = ("not_asked", "answered", "abstained", "tied", "flipped", "failed")
_STATE = {name: i for i, name in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class Panel:
    """The answers of one dimension to N items, by rater (an index).

    ``own``: rater -> (N,) index into ``places``, -1 where there is no answer. ``places`` (q,) are the numeric places of the
    scale's levels; on a rating without a step they are the values that were given. ``states``: evaluator -> (N,) index
    into ``STATES``. ``golds`` are the sources of adjudicated answers, which stand in ``own`` like any rater.
    """

    scale: Scale
    places: Array
    own: Mapping[int, Array]
    annotators: tuple[int, ...]
    evaluators: tuple[int, ...]
    golds: tuple[int, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    states: Mapping[int, Array] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(next(iter(self.own.values()))) if self.own else 0

    @property
    def levels(self) -> int:
        return len(self.places)

    def name(self, rater: int) -> str:
        return self.names.get(rater, str(rater))

    def humans(self) -> Array:
        """(N,) how many annotators answered each item."""
        total: Array = np.zeros(self.n, dtype=np.int32)
        for a in self.annotators:
            total += self.own[a] >= 0
        return total

    def unanswered(self, judge: int) -> Array:
        """(N,) whether the evaluator was asked about the item and gave no answer that counts."""
        if judge not in self.states:
            return np.zeros(self.n, dtype=bool)
        state = self.states[judge]
        gone: Array = (state != _STATE["not_asked"]) & (state != _STATE["answered"])
        return gone

    def limited(self, keep: Array) -> Panel:
        """The panel on the items where ``keep`` (N,) holds."""
        return Panel(
            self.scale,
            self.places,
            {r: own[keep] for r, own in self.own.items()},
            self.annotators,
            self.evaluators,
            self.golds,
            self.names,
            {r: state[keep] for r, state in self.states.items()},
        )


def panel_of(answers: Answers) -> Panel:
    """The panel of one dimension's ``answers``; an item's place in it is its code there."""
    scale, rows = answers.dimension.scale, answers.frame
    n = int(rows["item"].max()) + 1 if rows.height else 0  # type: ignore[arg-type]
    counted = rows.filter(pl.col("cause").is_null() & (pl.col("rater") >= 0))
    item, rater = counted["item"].to_numpy(), counted["rater"].to_numpy()
    places, code = _coded(scale, counted)
    order = np.argsort(rater, kind="stable")
    present, starts = np.unique(rater[order], return_index=True)
    ends = [*starts[1:], len(order)][: len(present)]
    own: dict[int, Array] = {}
    for who, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        at = order[start:end]
        own[who] = np.full(n, -1, dtype=np.int32)
        own[who][item[at]] = code[at]
    kinds = {i: r.kind for i, r in enumerate(answers.raters)}
    states = _states(rows, [i for i, k in kinds.items() if k == "evaluator"], n)
    for judge in states:
        own.setdefault(judge, np.full(n, -1, dtype=np.int32))
    by_kind = {kind: tuple(r for r in sorted(own) if kinds[r] == kind) for kind in ("annotator", "evaluator", "gold")}
    names = {i: r.label if r.kind == "evaluator" else r.name for i, r in enumerate(answers.raters)}
    return Panel(scale, places, own, by_kind["annotator"], by_kind["evaluator"], by_kind["gold"], names, states)


def panel(
    scale: Scale,
    annotators: Mapping[str, Given],
    evaluators: Mapping[str, Given] | None = None,
    gold: Mapping[str, Given] | None = None,
    unanswered: Mapping[str, Sequence[str | None]] | None = None,
) -> Panel:
    """A panel from lists of levels (numbers, on a rating without a step), one per item; None: no answer.

    ``unanswered`` gives, per evaluator, why an item that it was asked about has no answer (one of ``STATES``).

    >>> two = panel(Scale("binary", ("pass", "fail")), {"Asha": [0, 0, 1], "Ben": [0, None, 1]})
    >>> two.humans().tolist()
    [2, 1, 2]
    """
    groups: tuple[Mapping[str, Given], ...] = (annotators, evaluators or {}, gold or {})
    given = [
        np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        for group in groups
        for values in group.values()
    ]
    if scale.levels is None:
        told = np.concatenate(given) if given else np.empty(0)
        places: Array = np.unique(told[~np.isnan(told)])
        codes = [np.where(np.isnan(v), -1, np.searchsorted(places, np.nan_to_num(v))) for v in given]
    else:
        places = np.array([float(p) for p in scale.positions])
        codes = [np.where(np.isnan(v), -1, np.nan_to_num(v)) for v in given]
    names = [name for group in groups for name in group]
    own = {i: c.astype(np.int32) for i, c in enumerate(codes)}
    a, e = len(annotators), len(groups[1])
    states = {}
    for i in range(a, a + e):
        states[i] = np.where(own[i] >= 0, _STATE["answered"], 0).astype(np.int8)
        for at, why in enumerate((unanswered or {}).get(names[i], ())):
            if why is not None:
                states[i][at] = _STATE[why]
    return Panel(
        scale,
        places,
        own,
        tuple(range(a)),
        tuple(range(a, a + e)),
        tuple(range(a + e, len(names))),
        dict(enumerate(names)),
        states,
    )


@dataclass(frozen=True, slots=True)
class JudgeCoverage:
    """What became of the items that an evaluator was asked about; ``share`` is the answered part of them."""

    judge: str
    asked: int
    answered: int
    abstained: int
    tied: int
    flipped: int
    failed: int
    share: Measure


def coverage(panel: Panel, judge: int, level: float = 0.95) -> JudgeCoverage:
    """How much of what it was asked the evaluator answered: it stands apart from how well."""
    state = panel.states.get(judge)
    if state is None:
        state = np.where(panel.own[judge] >= 0, _STATE["answered"], 0)
    counts = np.bincount(state, minlength=len(STATES))
    asked = int(counts[1:].sum())
    answered, abstained, tied, flipped, failed = (int(c) for c in counts[1:])
    share = share_of(answered, asked, level) if asked else Measure(None, "no_labels", 0)
    return JudgeCoverage(panel.name(judge), asked, answered, abstained, tied, flipped, failed, share)


def share_of(successes: int, n: int, level: float = 0.95) -> Measure:
    """A share of n independent items with Wilson's interval; no interval under 10 items."""
    from calibrate_plugin.agreement.estimate import FEWEST_ITEMS

    details = {"successes": successes}
    if n < FEWEST_ITEMS:
        return Measure(successes / n, None, n, None, None, "too_few_items", details)
    return Measure(successes / n, None, n, None, wilson(successes, n, level), None, details)


def _coded(scale: Scale, counted: pl.DataFrame) -> tuple[Array, Array]:
    if scale.levels is None:
        places, code = np.unique(counted["number"].to_numpy(), return_inverse=True)
        return places, code.reshape(-1).astype(np.int32)
    return np.array([float(p) for p in scale.positions]), counted["level"].to_numpy().astype(np.int32)


def _states(rows: pl.DataFrame, judges: Sequence[int], n: int) -> dict[int, Array]:
    """Per evaluator that has any standing label, what became of each item: the best of its labels decides."""
    rank = {"abstained": 2, "tied": 3, "flipped": 4, "failed": 5}
    best = (
        pl.when(pl.col("cause").is_null())
        .then(_STATE["answered"])
        .otherwise(pl.col("cause").replace_strict(rank, default=None, return_dtype=pl.Int32))
    )
    about = (
        rows.lazy()
        .filter(pl.col("rater").is_in(list(judges)))
        .select("item", "rater", best.alias("state"))
        .filter(pl.col("state").is_not_null())
        .collect()
    )
    rater, item, state = (about[c].to_numpy() for c in ("rater", "item", "state"))
    found: dict[int, Array] = {}
    for judge in np.unique(rater).tolist():
        at = rater == judge
        column = np.full(n, len(STATES), dtype=np.int8)
        np.minimum.at(column, item[at], state[at].astype(np.int8))
        column[column == len(STATES)] = 0
        found[judge] = column
    return found


__all__ = ["STATES", "JudgeCoverage", "Panel", "coverage", "panel", "panel_of", "share_of"]
