"""Samples that follow one another: exact totals, floors, and probabilities with which weighted numbers are unbiased."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calibrate_plugin.planning.rounds import by_strata, either, evenly, possible_floor, unit_strata


def strata(**sizes: int) -> dict[str, str]:
    return {f"{name} {i}": name for name, size in sizes.items() for i in range(size)}


AWKWARD = {
    "three of ten": (strata(a=10, b=10, c=10), 10, [3, 3, 4]),
    "two of a hundred": (strata(a=100, b=100), 5, [2, 3]),
    "eight of ten": (strata(**{f"s{i}": 10 for i in range(8)}), 20, [2, 2, 2, 2, 3, 3, 3, 3]),
    "five alone and a thousand": (strata(**{f"one{i}": 1 for i in range(5)}, big=1000), 10, [1, 1, 1, 1, 1, 5]),
    "one in a hundred": (strata(good=990, bad=10), 200, [10, 190]),
}


@pytest.mark.parametrize("case", AWKWARD)
def test_totals_are_exact_and_no_stratum_is_left_out(case: str) -> None:
    items, total, parts = AWKWARD[case]
    least = possible_floor(Counter(items.values()), total, 10)
    draw = by_strata(items, total, least=least)
    assert len(draw.units) == len(set(draw.units)) == total
    assert sorted(draw.allocated.values()) == parts
    sizes = Counter(items.values())
    assert draw.chance == {name: count / sizes[name] for name, count in draw.allocated.items()}


def test_fewer_items_than_strata_are_refused() -> None:
    with pytest.raises(ValueError, match="3 cannot cover 5 strata"):
        possible_floor(dict.fromkeys("abcde", 10), 3, 10)


def test_the_order_shows_no_stratum() -> None:
    items, total, _ = AWKWARD["one in a hundred"]
    places = [[items[u] for u in by_strata(items, total, least=10, seed=s).units].index("bad") for s in range(40)]
    assert min(places) < 10 < max(places)


@pytest.mark.parametrize("case", AWKWARD)
def test_weighted_rates_are_unbiased_over_draws(case: str) -> None:
    """Horvitz and Thompson (1952): the mean over many draws is the truth, within three standard errors."""
    items, total, _ = AWKWARD[case]
    rng = np.random.default_rng(3)
    # what people would say depends on the stratum, and differs inside it
    rate = {name: rng.random() for name in sorted(set(items.values()))}
    truth = {item: float(rng.random() < rate[stratum]) for item, stratum in items.items()}
    least = possible_floor(Counter(items.values()), total, 10)
    found = []
    for seed in range(400):
        draw = by_strata(items, total, least=least, seed=seed)
        found.append(sum(truth[u] / draw.chance[items[u]] for u in draw.units) / len(items))
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - np.mean(list(truth.values()))) <= 3 * error + 1e-12


def two_rounds(seed: int) -> tuple[dict[str, float], dict[str, str]]:
    """300 items, 30 of them drawn; then 200 more, of another mixture, and 40 more drawn. Item -> probability of the union."""
    first = strata(good=280, bad=20)
    one = by_strata(first, 30, least=5, seed=seed, number=1)
    later = first | strata(good=0) | {f"new {i}": "bad" if i % 4 == 0 else "good" for i in range(200)}
    left = {u: s for u, s in later.items() if u not in set(one.units)}
    two = by_strata(left, 40, least=5, seed=seed, number=2)
    chosen = {}
    for unit in (*one.units, *two.units):
        stratum = later[unit]
        chosen[unit] = either(one.chance[stratum] if unit in first else 0.0, two.chance[stratum])
    return chosen, later


def test_two_samples_together_are_unbiased_although_items_came_in_between() -> None:
    later = two_rounds(0)[1]
    # what came later is judged otherwise: a probability that ignored when an item came would bend the rate
    truth = {u: float((hash_of(u) % 100) < (70 if u.startswith("new") else 20)) for u in later}
    found, naive = [], []
    for seed in range(1500):
        chosen, _ = two_rounds(seed)
        found.append(sum(truth[u] / p for u, p in chosen.items()) / len(later))
        naive.append(np.mean([truth[u] for u in chosen]))
    right = np.mean(list(truth.values()))
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - right) <= 3 * error
    assert abs(np.mean(naive) - right) > 6 * error, "the simulation cannot tell right from wrong"


def test_each_items_share_of_draws_is_its_probability() -> None:
    hits: Counter[str] = Counter()
    stated: dict[str, float] = {}
    runs = 1500
    for seed in range(runs):
        chosen, _ = two_rounds(seed)
        hits.update(chosen.keys())
        stated |= chosen
    z = [(hits[u] - runs * p) / (runs * p * (1 - p)) ** 0.5 for u, p in stated.items() if p < 1]
    assert len(stated) == 500, "some item was never chosen"
    assert max(map(abs, z)) < 4.5
    assert abs(float(np.mean(z))) < 0.3


def hash_of(text: str) -> int:
    return sum((i + 7) * ord(c) for i, c in enumerate(text)) * 2654435761 >> 3


def test_random_samples_stay_of_one_chance_for_all() -> None:
    hits: Counter[str] = Counter()
    runs = 2000
    for seed in range(runs):
        one = evenly({f"old {i}": 0.0 for i in range(30)}, 7, seed=seed, number=1)
        before = one.chance["new"]
        left = {f"old {i}": before for i in range(30) if f"old {i}" not in one.units} | {
            f"new {i}": 0.0 for i in range(13)
        }
        two = evenly(left, 8, seed=seed, number=2)
        assert len(two.units) == 8
        hits.update((*one.units, *two.units))
    chance = 15 / 43
    z = [(hits[u] - runs * chance) / (runs * chance * (1 - chance)) ** 0.5 for u in hits]
    assert len(hits) == 43
    assert max(map(abs, z)) < 4.5


def test_too_few_to_catch_up_with_what_came_since_are_refused() -> None:
    with pytest.raises(ValueError, match="alone need 50; ask for that many"):
        evenly({"a": 0.5, "b": 0.5} | {f"n{i}": 0.0 for i in range(100)}, 10, number=2)


def test_a_group_is_of_the_rarest_label_in_it() -> None:
    labels = {"a": "pass", "b": "fail", "c": "pass", "d": "pass"}
    assert unit_strata(labels, {"a": "x", "b": "x", "c": "y", "d": "y"}) == {"x": "fail", "y": "pass"}


def test_groups_that_stay_together_leave_weighted_rates_unbiased() -> None:
    rng = np.random.default_rng(5)
    units = {f"i{n}": f"g{n // size}" for size in (1, 4) for n in range(0 if size == 1 else 200, 200 * size)}
    labels = {item: "bad" if rng.random() < 0.1 else "good" for item in units}
    truth = {item: float(rng.random() < (0.8 if labels[item] == "bad" else 0.1)) for item in units}
    members: dict[str, list[str]] = {}
    for item, unit in units.items():
        members.setdefault(unit, []).append(item)
    of_units = unit_strata(labels, units)
    found = []
    for seed in range(500):
        draw = by_strata(of_units, 60, least=10, seed=seed)
        total = sum(truth[i] / draw.chance[of_units[u]] for u in draw.units for i in members[u])
        found.append(total / len(units))
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - np.mean(list(truth.values()))) <= 3 * error
