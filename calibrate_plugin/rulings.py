"""Rulings written down: each is a gold answer of the study itself and the item's cause, with a sync number of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from calibrate_plugin import ledger
from calibrate_plugin.model import ITEMS, LABELS, OWN, Ruling, Study, frame
from calibrate_plugin.ratings.rulings import CAUSES, cause_fact, rulings_in, value_of
from calibrate_plugin.store import Store

#: A reason longer than this is no reason but a document.
LONGEST = 10_000


@dataclass(frozen=True, slots=True)
class Given:
    """A ruling as somebody gives it. ``value`` is an answer as people write it, ``by`` who rules."""

    item: str
    dimension: str
    value: str
    cause: str
    reason: str
    by: str


def read(
    store: Store,
    study: Study,
    number: int | None = None,
    called: Mapping[tuple[str, str], str] | None = None,
) -> dict[tuple[str, str], Ruling]:
    """Every ruling that stood at a sync number (now: None), by item and dimension."""
    labels = store.as_of(number, sources=[OWN])
    items = labels["item"].drop_nulls().unique().to_list()
    facts = store.item_facts(number, items=items).filter(pl.col("source") == OWN) if items else frame(ITEMS)
    return rulings_in(study, labels, facts, called)


def checked(study: Study, given: Given) -> str:
    """The answer of a ruling as a label holds it (JSON text). Raises ValueError naming what is wrong and what may stand."""
    dimension = next((d for d in study.dimensions if d.name == given.dimension), None)
    if dimension is None:
        names = ", ".join(d.name for d in study.dimensions)
        raise ValueError(f"there is no dimension {given.dimension!r}; there are: {names}")
    if given.cause not in CAUSES:
        raise ValueError(f"{given.cause!r} is no cause; there are: {', '.join(CAUSES)}")
    if not given.by.strip():
        raise ValueError("nobody is named who rules; say who")
    if not given.reason.strip():
        raise ValueError("the reason is missing; a ruling without one settles a single item and teaches nothing")
    if len(given.reason) > LONGEST:
        raise ValueError(f"the reason has {len(given.reason):,} characters, more than {LONGEST:,}; say it shorter")
    return value_of(dimension, given.value)


def rule(
    store: Store, study: Study, given: Sequence[Given], *, guideline: str | None = None, wait: float = 60
) -> int | None:
    """Write rulings, each in place of an earlier one on the same item and dimension, whose time it keeps: that is when
    people had talked. ``guideline`` is the version of the guideline that they are read with. Returns the sync number, None
    where nothing was new.

    Raises ValueError for the first that cannot be meant, and then writes nothing; Busy where somebody else works on the store.
    """
    values = [checked(study, one) for one in given]
    unknown = _unknown(store, [one.item for one in given])
    if unknown:
        raise ValueError(f"no label is of the item {unknown[0]!r}; `calibrate-plugin disagreements list` shows them")
    before = read(store, _plain(study))
    now = store.now()
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one, value in zip(given, values, strict=True):
        known = before.get((one.item, one.dimension))
        first = known.at if known is not None and known.at is not None else now
        rows[one.item, one.dimension] = {
            **_label(one.item, one.dimension, "answered"),
            "value": value,
            "rater": one.by.strip(),
            "version": guideline,
            "at": now,
            "placed": first,
            "reason": one.reason.strip(),
            "cause": one.cause,
        }
    return _written(store, rows, wait)


def clear(store: Store, study: Study, items: Sequence[tuple[str, str]], *, wait: float = 60) -> int | None:
    """Take rulings back: (item, dimension) each. Raises ValueError for one that there is not."""
    there = read(store, _plain(study))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for item, dimension in items:
        if (item, dimension) not in there:
            raise ValueError(f"there is no ruling on the item {item!r} in {dimension}")
        rows[item, dimension] = {
            **_label(item, dimension, "cleared"),
            "rater": there[item, dimension].by,
            "at": store.now(),
            "cause": None,
        }
    return _written(store, rows, wait)


def _plain(study: Study) -> Study:
    """The study that calls people as their sources do."""
    return replace(study, pseudonyms=False)


def _label(item: str, dimension: str, state: str) -> dict[str, Any]:
    named = {"record": f"ruling {item}", "item": item, "field": dimension, "state": state, "kind": "gold"}
    return {**dict.fromkeys(LABELS), **named}


def _written(store: Store, rows: Mapping[tuple[str, str], dict[str, Any]], wait: float) -> int | None:
    facts = [(item, cause_fact(dimension), row.pop("cause")) for (item, dimension), row in rows.items()]
    labels = frame(LABELS, {c: [row[c] for row in rows.values()] for c in LABELS})
    return ledger.record(store, labels=labels, items=pl.DataFrame(facts, schema=ITEMS, orient="row"), wait=wait)


def items(store: Store) -> set[str]:
    """Every item that a source speaks of."""
    return set(store.as_of(reasons=False).filter(pl.col("source") != OWN)["item"].drop_nulls())


def _unknown(store: Store, items: Sequence[str]) -> list[str]:
    """The items that no source speaks of."""
    wanted = list(dict.fromkeys(items))
    there = store.as_of(items=wanted, reasons=False) if wanted else frame(LABELS)
    known = set(there.filter(pl.col("source") != OWN)["item"]) if wanted else set()
    return [item for item in wanted if item not in known]


__all__ = ["LONGEST", "Given", "checked", "clear", "items", "read", "rule"]
