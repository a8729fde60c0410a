"""Train, dev and test: by a stable hash within each class, whole conversations together, old assignments kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from calibrate_plugin.planning.hashing import place

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
SHARES: dict[Split, Fraction] = {"train": Fraction(15, 100), "dev": Fraction(425, 1000), "test": Fraction(425, 1000)}


@dataclass(frozen=True, slots=True)
class Item:
    """An item to assign: its gold ``label`` and the ``group`` (a conversation, a prompt) it must not be parted from."""

    name: str
    label: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """A split with fewer items of a class than it should have."""

    split: Split
    label: str
    items: int
    least: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """``split`` of every item, and where dev or test have too few of a class to say anything."""

    split: Mapping[str, Split]
    short: tuple[Shortage, ...]


def sizes(n: int, shares: Mapping[Split, Fraction] = SHARES) -> dict[Split, int]:
    """How many of ``n`` items each split gets; what rounding leaves goes to the test.

    >>> sizes(100), sizes(200)
    ({'train': 15, 'dev': 42, 'test': 43}, {'train': 30, 'dev': 85, 'test': 85})
    """
    if sum(shares.values()) != 1 or any(share < 0 for share in shares.values()):
        raise ValueError(
            f"the shares are {', '.join(f'{k} {float(v):g}' for k, v in shares.items())}; they must add up to 1"
        )
    train, dev = (int(shares[k] * n) for k in ("train", "dev"))
    return {"train": train, "dev": dev, "test": n - train - dev}


def assign(
    items: Iterable[Item],
    kept: Mapping[str, Split] | None = None,
    *,
    shares: Mapping[Split, Fraction] = SHARES,
    least: int = 30,
    seed: int = 0,
) -> Assignment:
    """The split of each item. ``kept`` are assignments made before: they never change, and new items of a group follow it.

    New items fill what each class lacks, in the order of their hash. ``least`` items of each class are wanted in dev and
    in test each. Raises ValueError where a kept group lies in two splits, or an item is named twice.
    """
    known = dict(kept or {})
    listed = sorted(items, key=lambda i: i.name)
    doubles = [name for name, n in Counter(i.name for i in listed).items() if n > 1]
    if doubles:
        raise ValueError(
            f"{doubles[0]!r} is listed {Counter(i.name for i in listed)[doubles[0]]} times; list each item once"
        )
    frequency = Counter(i.label for i in listed)
    groups: dict[str, list[Item]] = {}
    for item in listed:
        groups.setdefault(f"g:{item.group}" if item.group is not None else f"i:{item.name}", []).append(item)
    have: dict[str, Counter[Split]] = {label: Counter() for label in frequency}
    total: Counter[str] = Counter()
    split: dict[str, Split] = {}
    open_: list[tuple[str, str, list[Item]]] = []
    for name, members in groups.items():
        # A conversation belongs to its rarest class: that is the one a split can run short of.
        label = min({m.label for m in members}, key=lambda one: (frequency[one], one))
        total[label] += len(members)
        before = {known[m.name] for m in members if m.name in known}
        if len(before) > 1:
            raise ValueError(
                f"the group of {members[0].name!r} lies in {' and '.join(sorted(before))}; move it to one of them"
            )
        if before:
            where = before.pop()
            have[label][where] += len(members)
            split |= {m.name: where for m in members}
        else:
            open_.append((name, label, members))
    wanted = {label: sizes(n, shares) for label, n in total.items()}
    for _, label, members in sorted(open_, key=lambda g: (place(seed, "split", g[0]), g[0])):
        lack = {s: wanted[label][s] - have[label][s] for s in SPLITS}
        where = max(SPLITS, key=lambda s: (lack[s], SPLITS.index(s)))
        have[label][where] += len(members)
        split |= {m.name: where for m in members}
    held = Counter((split[i.name], i.label) for i in listed)
    watched: tuple[Split, Split] = ("dev", "test")
    short = tuple(
        Shortage(s, label, held[s, label], least)
        for s in watched
        for label in sorted(frequency)
        if held[s, label] < least
    )
    return Assignment(split, short)


__all__ = ["SHARES", "SPLITS", "Assignment", "Item", "Shortage", "Split", "assign", "sizes"]
