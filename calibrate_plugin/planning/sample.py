"""Which items to label: so many from each stratum, exactly as many as asked for, each with its inclusion probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from calibrate_plugin.planning.hashing import place


@dataclass(frozen=True, slots=True)
class Chosen:
    """An item of the sample. It stands for 1 / ``probability`` items of its stratum."""

    item: str
    stratum: str
    probability: float


def allocate(sizes: Mapping[str, int], total: int, floor: int = 1) -> dict[str, int]:
    """How many of ``total`` items come from each stratum: in proportion to ``sizes``, by largest remainder, at least
    ``floor`` of each (or all of it, where it is smaller). The parts always add up to ``total``.

    Raises ValueError where that cannot be.

    >>> allocate({"a": 10, "b": 10, "c": 10}, 10)
    {'a': 4, 'b': 3, 'c': 3}
    >>> list(allocate({f"s{i}": 10 for i in range(8)}, 20).values())
    [3, 3, 3, 3, 2, 2, 2, 2]
    """
    if any(size < 0 for size in sizes.values()):
        raise ValueError("a stratum has a negative size")
    known = {name: size for name, size in sizes.items() if size}
    population = sum(known.values())
    if total < 1:
        raise ValueError(f"total is {total}; ask for one item or more")
    if total > population:
        raise ValueError(f"total is {total}, but there are only {population} items to choose from; ask for fewer")
    least = {name: min(floor, size) for name, size in known.items()}
    if sum(least.values()) > total:
        raise ValueError(
            f"{floor} of each of {len(known)} strata is {sum(least.values())} items, more than the {total} asked for; "
            f"ask for more, or lower the floor to {total // len(known)}"
        )
    parts = dict(least)
    open_ = dict(known)
    # Strata whose share lies under their floor, or over their size, are settled; the rest is shared out again.
    while True:
        left = total - sum(parts[name] for name in known if name not in open_)
        whole = sum(open_.values())
        share = {name: Fraction(left * size, whole) for name, size in open_.items()}
        under = {name for name in open_ if share[name] < least[name]}
        if not under:
            break
        for name in under:
            parts[name] = least[name]
            del open_[name]
    for name, exact in share.items():
        parts[name] = exact.numerator // exact.denominator
    missing = total - sum(parts.values())
    order = sorted(open_, key=lambda name: (-(share[name] - parts[name]), list(known).index(name)))
    for name in order[:missing]:
        parts[name] += 1
    return {name: parts.get(name, 0) for name in sizes}


def stratified(items: Mapping[str, str], total: int, *, floor: int = 1, seed: int = 0) -> tuple[Chosen, ...]:
    """A sample of ``items`` (item -> stratum) of exactly ``total``, in an order that shows no stratum first.

    The same seed and items give the same sample, whatever order they come in.

    >>> chosen = stratified({"a": "fail", "b": "pass", "c": "pass", "d": "pass"}, 2)
    >>> sorted((c.stratum, round(c.probability, 3)) for c in chosen)
    [('fail', 1.0), ('pass', 0.333)]
    """
    strata: dict[str, list[str]] = {}
    for item in sorted(items):
        strata.setdefault(items[item], []).append(item)
    sizes = {name: len(strata[name]) for name in sorted(strata)}
    parts = allocate(sizes, total, floor)
    chosen = []
    for name, members in strata.items():
        members.sort(key=lambda item: (place(seed, "sample", item), item))
        chosen += [Chosen(item, name, parts[name] / sizes[name]) for item in members[: parts[name]]]
    return tuple(sorted(chosen, key=lambda c: (place(seed, "order", c.item), c.item)))


def simple_random(items: Sequence[str], total: int, *, seed: int = 0) -> tuple[Chosen, ...]:
    """A simple random sample: one stratum.

    >>> len(simple_random(["a", "b", "c"], 2))
    2
    """
    return stratified(dict.fromkeys(items, ""), total, seed=seed)


__all__ = ["Chosen", "allocate", "simple_random", "stratified"]
