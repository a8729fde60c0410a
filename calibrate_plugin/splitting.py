"""Train, dev and test as they are kept: assigned once among the items with gold, and never moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import polars as pl

from calibrate_plugin import ledger
from calibrate_plugin.model import ITEMS, frame
from calibrate_plugin.planning.hashing import place
from calibrate_plugin.planning.splits import SPLITS, Item, Shortage, Split, assign
from calibrate_plugin.report.calibrated import SPLIT, GoldAnswer
from calibrate_plugin.store import Store


@dataclass(frozen=True, slots=True)
class Splits:
    """Which split each item with gold is in, and how many of each answer each split has. ``new`` were assigned now;
    ``elsewhere`` are assigned and have no gold here (any more)."""

    split: Mapping[str, Split]
    counts: Mapping[Split, Mapping[str, int]]
    new: tuple[str, ...]
    elsewhere: int
    short: tuple[Shortage, ...]


def kept(facts: pl.DataFrame) -> dict[str, Split]:
    """The assignments that were made before, by whoever made them."""
    told = facts.filter((pl.col("fact") == SPLIT) & pl.col("value").is_in(list(SPLITS)))
    told = told.unique("item", keep="first", maintain_order=True)
    return {item: cast(Split, value) for item, value in told.select("item", "value").iter_rows()}


def split(
    gold: Sequence[GoldAnswer], facts: pl.DataFrame, *, group: str | None = None, least: int = 30, seed: int = 0
) -> Splits:
    """The split of every item with gold. ``facts`` are those of items (columns of ITEMS); items with the same value of the fact
    ``group`` are never parted, and follow what was assigned before.

    Raises ValueError where a group lies in two splits already, and for a fact that no item has.
    """
    known = kept(facts)
    groups = _groups(facts, group)
    of_group: dict[str, Split] = {}
    for item, where in sorted(known.items()):
        if (name := groups.get(item)) is not None and of_group.setdefault(name, where) != where:
            raise ValueError(
                f"the {group} {name!r} lies in {of_group[name]} and {where}; assignments never move, so it cannot be kept "
                "together: split without --group, or take it out of one of them in its source"
            )
    before = dict(known)
    for answer in gold:
        name = groups.get(answer.item)
        if answer.item not in before and name is not None and name in of_group:
            before[answer.item] = of_group[name]
    listed = [Item(a.item, a.value, groups.get(a.item)) for a in gold]
    made = assign(listed, before, least=least, seed=seed)
    counts: dict[Split, Counter[str]] = {s: Counter() for s in SPLITS}
    for answer in gold:
        counts[made.split[answer.item]][answer.value] += 1
    classes = sorted({a.value for a in gold})
    here = {a.item for a in gold}
    return Splits(
        made.split,
        {s: {c: counts[s][c] for c in classes} for s in SPLITS},
        tuple(sorted(item for item in made.split if item not in known)),
        sum(item not in here for item in known),
        made.short,
    )


def keep(store: Store, found: Splits) -> int | None:
    """Write the new assignments down. Returns the sync number, None where there were none."""
    if not found.new:
        return None
    rows = [(item, SPLIT, found.split[item]) for item in found.new]
    return ledger.record(store, items=pl.DataFrame(rows, schema=dict(frame(ITEMS).schema), orient="row"))


def _groups(facts: pl.DataFrame, group: str | None) -> dict[str, str]:
    if group is None:
        return {}
    told = facts.filter(pl.col("fact") == group).drop_nulls("value")
    if told.is_empty():
        known = ", ".join(sorted(facts["fact"].unique().to_list())) or "none"
        raise ValueError(f"no item has the fact {group!r}; there are: {known}")
    return dict(told.unique("item", keep="first", maintain_order=True).select("item", "value").iter_rows())


def examples(gold: Sequence[GoldAnswer], facts: pl.DataFrame, n: int, seed: int = 0) -> list[GoldAnswer]:
    """At most ``n`` items of the train split for the judge's prompt: of each answer in turn, those on which all agreed first,
    else as their hash falls. Items of dev and test are never among them."""
    known = kept(facts)
    by: dict[str, list[GoldAnswer]] = {}
    for answer in sorted(gold, key=lambda a: (not a.unanimous, place(seed, "example", a.item), a.item)):
        if known.get(answer.item) == "train":
            by.setdefault(answer.value, []).append(answer)
    found: list[GoldAnswer] = []
    while len(found) < n and any(by.values()):
        for value in sorted(by):
            if by[value] and len(found) < n:
                found.append(by[value].pop(0))
    return found


__all__ = ["Splits", "examples", "keep", "kept", "split"]
