"""Samples that follow one another, with each item's chance of being in any of them.

The second sample is drawn from what the first one left and from what has come since. An item that could have been in the
first (with chance ``p``) and can be in the second (``q`` if it was left over) is in one of them with ``p + (1 - p) q``; one
that came in between with ``q``. With these probabilities the weighted numbers of all samples together are unbiased, whatever
came in between, as long as an item's stratum never changes once it has been in a draw and each draw is by chance of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from calibrate_plugin.planning.hashing import place
from calibrate_plugin.planning.sample import stratified


@dataclass(frozen=True, slots=True)
class Draw:
    """What was drawn: the units (items, or groups that stay together) in an order that shows no stratum first, and for each
    stratum the chance that any unit of it had in this draw alone."""

    units: tuple[str, ...]
    chance: Mapping[str, float]
    allocated: Mapping[str, int] = field(default_factory=dict)


def either(before: float, now: float, group: float | None = None) -> float:
    """The chance of being in an earlier sample or, if not, in this one. ``group``: the chance that an item's group has had,
    where the item came to it later and could not be drawn with it before.

    >>> either(0.1, 0.5), either(0.0, 0.5, group=0.1)
    (0.55, 0.45)
    """
    return before + (1 - (before if group is None else group)) * now


def possible_floor(sizes: Mapping[str, int], total: int, wanted: int) -> int:
    """The most units, up to ``wanted``, that every stratum can have at least (or all of it, where it is smaller).

    Raises ValueError where not even one of each is possible: a stratum without any would have no chance at all.

    >>> possible_floor({"a": 1, "b": 1, "c": 1000}, 10, 10)
    8
    """
    known = [size for size in sizes.values() if size]
    if total < len(known):
        raise ValueError(
            f"{total} cannot cover {len(known)} strata, and what has no chance of being chosen nobody can speak for; "
            f"ask for {len(known)} or more"
        )
    least = wanted
    while least > 1 and sum(min(least, size) for size in known) > total:
        least -= 1
    return max(1, least)


def by_strata(strata: Mapping[str, str], total: int, *, least: int = 1, seed: int = 0, number: int = 1) -> Draw:
    """The draw of sample ``number`` from units in strata: exactly ``total``, at least ``least`` of each stratum. Raises
    ValueError where that cannot be.

    >>> sorted(by_strata({"a": "fail", "b": "pass", "c": "pass"}, 2).chance.items())
    [('fail', 1.0), ('pass', 0.5)]
    """
    # Each sample has an order of its own: in the order of the first, what came since would go before what was left over.
    chosen = stratified(strata, total, floor=least, seed=place(seed, "sample", str(number)))
    return Draw(
        tuple(c.item for c in chosen),
        {c.stratum: c.probability for c in chosen},
        Counter(c.stratum for c in chosen),
    )


def evenly(left: Mapping[str, float], total: int, *, seed: int = 0, number: int = 1) -> Draw:
    """The draw of sample ``number`` so that all units have the same chance of being in any sample so far.

    ``left``: each unit that is in none yet, with the chance that it had (0: it has come since). Strata of the result are
    ``old`` and ``new``. Where the parts are no whole numbers, one of the two next ones is drawn with the chance that makes
    them right on average. Raises ValueError where so few are asked for that those that came since would be behind.

    >>> draw = evenly({"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}, 2)
    >>> {name: round(chance, 3) for name, chance in draw.chance.items()}
    {'old': 0.333, 'new': 0.667}
    """
    old, new = [u for u in sorted(left) if left[u]], [u for u in sorted(left) if not left[u]]
    had = {left[u] for u in old}
    if max(had, default=0.0) - min(had, default=0.0) > 1e-9:
        raise ValueError("earlier samples were not drawn with one chance for all")
    if not 1 <= total <= len(left):
        raise ValueError(f"total is {total}, but there are {len(left)} to choose from")
    p = Fraction(max(had, default=0.0)).limit_denominator(10**9)
    q = (total - p * len(new)) / (len(old) + (1 - p) * len(new))
    if q < 0:
        raise ValueError(
            f"{len(new)} have come since the last sample, and to be as likely chosen as the others they alone need "
            f"{ceil(p * len(new))}; ask for that many or more"
        )
    exact = q * len(old)
    n_old = floor(exact) + (Fraction(place(seed, f"parts {number}", ""), 2**64) < exact - floor(exact))
    n_old = max(total - len(new), min(n_old, len(old), total))
    chosen = []
    for units, count in ((old, n_old), (new, total - n_old)):
        units.sort(key=lambda unit: (place(seed, f"sample {number}", unit), unit))
        chosen += units[:count]
    chosen.sort(key=lambda unit: (place(seed, f"order {number}", unit), unit))
    return Draw(
        tuple(chosen),
        {"old": float(q), "new": float(p + (1 - p) * q)},
        {"old": n_old, "new": total - n_old},
    )


def unit_strata(labels: Mapping[str, str], units: Mapping[str, str]) -> dict[str, str]:
    """The stratum of each unit whose items stay together: the label among them that is rarest of all.

    >>> unit_strata({"a": "pass", "b": "pass", "c": "fail"}, {"a": "x", "b": "y", "c": "y"})
    {'x': 'pass', 'y': 'fail'}
    """
    counts = Counter(labels.values())
    found: dict[str, str] = {}
    for item, label in labels.items():
        unit = units[item]
        if unit not in found or (counts[label], label) < (counts[found[unit]], found[unit]):
            found[unit] = label
    return found


__all__ = ["Draw", "by_strata", "either", "evenly", "possible_floor", "unit_strata"]
