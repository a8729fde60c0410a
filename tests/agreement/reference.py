"""Every number again, by brute force over labels with exact fractions, written from the definitions and not from the code.

``items`` is a list of items, each a list of one answer per rater, None where there is none. Distances are between positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

Item = Sequence[Fraction | None]
Items = Sequence[Item]
Weight = Callable[[Fraction, Fraction], Fraction]


def identity() -> Weight:
    return lambda a, b: Fraction(int(a == b))


def linear(span: Fraction) -> Weight:
    return lambda a, b: 1 - abs(a - b) / span


def quadratic(span: Fraction) -> Weight:
    return lambda a, b: 1 - (abs(a - b) / span) ** 2


def given(item: Item) -> list[Fraction]:
    return [v for v in item if v is not None]


def mean(values: Sequence[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None


def within(items: Items) -> list[tuple[int, Fraction, Fraction]]:
    """All pairs of answers to one item, with the item."""
    return [(i, a, b) for i, item in enumerate(items) for a, b in combinations(given(item), 2)]


def across(items: Items, one: int, others: Sequence[int]) -> list[tuple[int, Fraction, Fraction]]:
    """All pairs of one rater's answer with one of the others'."""
    found = []
    for i, item in enumerate(items):
        mine = item[one]
        if mine is not None:
            found += [(i, mine, theirs) for o in others if (theirs := item[o]) is not None]
    return found


def reason(pairs: Sequence[tuple[int, Fraction, Fraction]], constant_is_defined: bool = False) -> str | None:
    if not pairs:
        return "nothing_to_compare"
    if len({i for i, _, _ in pairs}) == 1:
        return "single_item"
    same = len({v for _, a, b in pairs for v in (a, b)}) == 1
    return "same_answer" if same and not constant_is_defined else None


def agreement(pairs: Sequence[tuple[int, Fraction, Fraction]], w: Weight) -> Fraction | None:
    return mean([w(a, b) for _, a, b in pairs])


def cohen_chance(pairs: Sequence[tuple[int, Fraction, Fraction]], w: Weight) -> Fraction:
    left, right = [a for _, a, _ in pairs], [b for _, _, b in pairs]
    return sum((w(a, b) for a in left for b in right), Fraction(0)) / (len(left) * len(right))


def fleiss_chance(items: Items, w: Weight) -> Fraction:
    listed = [v for item in items if len(given(item)) > 1 for v in given(item)]
    return sum((w(a, b) for a in listed for b in listed), Fraction(0)) / len(listed) ** 2


def corrected(observed: Fraction, chance: Fraction) -> Fraction:
    return (observed - chance) / (1 - chance)


def by_items(items: Items, w: Weight) -> Fraction | None:
    """Gwet's agreement: each item's mean over its pairs, then the mean over items."""
    each = [mean([w(a, b) for a, b in combinations(given(item), 2)]) for item in items if len(given(item)) > 1]
    return mean([e for e in each if e is not None])


def shares(items: Items, categories: Sequence[Fraction]) -> dict[Fraction, Fraction]:
    """Gwet's: each item's shares, then their mean over items with an answer."""
    rated = [given(item) for item in items if given(item)]
    return {
        k: sum((Fraction(answers.count(k), len(answers)) for answers in rated), Fraction(0)) / len(rated)
        for k in categories
    }


def fleiss_items_chance(items: Items, categories: Sequence[Fraction], w: Weight) -> Fraction:
    p = shares(items, categories)
    return sum((p[k] * p[m] * w(k, m) for k in categories for m in categories), Fraction(0))


def gwet_chance(items: Items, categories: Sequence[Fraction], w: Weight) -> Fraction:
    q = len(categories)
    p = shares(items, categories)
    total = sum((w(k, m) for k in categories for m in categories), Fraction(0))
    return total / (q * (q - 1)) * sum((p[k] * (1 - p[k]) for k in categories), Fraction(0))


def uniform_chance(categories: Sequence[Fraction], w: Weight) -> Fraction:
    return sum((w(k, m) for k in categories for m in categories), Fraction(0)) / len(categories) ** 2


def specific(pairs: Sequence[tuple[int, Fraction, Fraction]], level: Fraction) -> Fraction | None:
    """Of the answers in pairs that are ``level``, the share whose other answer is it too."""
    met = [int(b == level) for _, a, b in pairs if a == level] + [int(a == level) for _, a, b in pairs if b == level]
    return Fraction(sum(met), len(met)) if met else None


def alpha(items: Items, metric: str, categories: Sequence[Fraction]) -> Fraction | None:
    """1 - D_o / D_e over pairable values (Krippendorff 2004, chapter 11); None where the expected disagreement is 0."""
    units = [given(item) for item in items if len(given(item)) > 1]
    listed = [v for unit in units for v in unit]
    n = len(listed)

    def apart(a: Fraction, b: Fraction) -> Fraction:
        if metric == "nominal":
            return Fraction(int(a != b))
        if metric == "interval":
            return (a - b) ** 2
        if metric == "ratio":
            return Fraction(0) if a == b else ((a - b) / (a + b)) ** 2
        low, high = sorted((a, b))
        between = sum(listed.count(g) for g in categories if low <= g <= high)
        return (between - Fraction(listed.count(low) + listed.count(high), 2)) ** 2 if low != high else Fraction(0)

    observed = sum(
        (Fraction(2, len(unit) - 1) * apart(a, b) for unit in units for a, b in combinations(unit, 2)), Fraction(0)
    )
    expected = sum((2 * apart(a, b) for a, b in combinations(listed, 2)), Fraction(0))
    return 1 - (n - 1) * observed / expected if expected else None


def jackknife(items: Items, number: Callable[[Items], Fraction | None]) -> tuple[list[float], int]:
    """The number without each item in turn, of those where it is defined, and how many items there are."""
    left = [number([*items[:i], *items[i + 1 :]]) for i in range(len(items))]
    return [float(v) for v in left if v is not None], len(items)


def spread(left: Sequence[float], n: int) -> float:
    """Tukey's standard error."""
    centre = sum(left) / len(left)
    return float(((n - 1) / n * sum((v - centre) ** 2 for v in left)) ** 0.5)


def or_none(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ZeroDivisionError:
        return None
