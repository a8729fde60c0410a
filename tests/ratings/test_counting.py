"""Counted tables: whatever way they are made, equal data gives equal bytes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate_plugin.ratings.counting import Patterns, canonical, item_table, of_pair, rater_pairs, shares_items

RATERS = 4
#: Per item, each rater's level or no answer.
ITEMS = st.lists(st.lists(st.none() | st.integers(0, 3), min_size=RATERS, max_size=RATERS), max_size=12)


def frame(items: list[list[int | None]], levels: int = 4) -> pl.DataFrame:
    rows = [(i, r, v) for i, answers in enumerate(items) for r, v in enumerate(answers) if v is not None]
    return pl.DataFrame(rows, schema={"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32}, orient="row")


def table(
    items: list[list[int | None]], annotators: tuple[int, ...] = (0, 1, 2), evaluators: tuple[int, ...] = (3,)
) -> Any:
    return item_table(frame(items), 4, annotators, evaluators)


def as_bytes(patterns: Patterns) -> tuple[Any, ...]:
    own = None if patterns.own is None else (patterns.own.dtype, patterns.own.tobytes())
    return patterns.answers.dtype, patterns.answers.tobytes(), patterns.items.dtype, patterns.items.tobytes(), own


def counts(patterns: Patterns) -> Counter[tuple[Any, ...]]:
    own = [None] * len(patterns) if patterns.own is None else patterns.own.tolist()
    keys = [(o, *row) for o, row in zip(own, patterns.answers.tolist(), strict=True)]
    assert len(set(keys)) == len(keys)
    return Counter(dict(zip(keys, patterns.items.tolist(), strict=True)))


@given(ITEMS)
def test_patterns_count_the_items_that_show_them(items: list[list[int | None]]) -> None:
    found = table(items)
    humans = [Counter(v for v in answers[:3] if v is not None) for answers in items]
    wanted = Counter((None, *(c[k] for k in range(4))) for c in humans if c)
    assert counts(found.annotated()) == wanted
    beside = Counter((a[3], *(c[k] for k in range(4))) for a, c in zip(items, humans, strict=True) if a[3] is not None)
    assert counts(found.against(3)) == beside


@given(ITEMS)
def test_an_annotators_own_answer_is_not_among_the_others(items: list[list[int | None]]) -> None:
    wanted = Counter(
        (a[1], *(Counter(v for v in (a[0], a[2]) if v is not None)[k] for k in range(4)))
        for a in items
        if a[1] is not None
    )
    assert counts(table(items).against(1)) == wanted


@given(ITEMS, st.integers(0, 12), st.randoms())
def test_tables_of_parts_add_up_to_the_same_bytes(
    items: list[list[int | None]], at: int, chance: random.Random
) -> None:
    shuffled = list(items)
    chance.shuffle(shuffled)
    for make in (lambda t: t.annotated(), lambda t: t.against(3), lambda t: t.against(0)):
        whole = make(table(items))
        parts = make(table(shuffled[:at])) + make(table(shuffled[at:]))
        assert as_bytes(parts) == as_bytes(whole)


@given(ITEMS, st.lists(st.none() | st.integers(0, 3), min_size=RATERS, max_size=RATERS))
def test_one_changed_item_changes_two_counts(items: list[list[int | None]], changed: list[int | None]) -> None:
    if not items:
        return
    for make in (lambda t: t.annotated(), lambda t: t.against(3)):
        before, after = counts(make(table(items))), counts(make(table([changed, *items[1:]])))
        difference = {k: after[k] - before[k] for k in before | after if after[k] != before[k]}
        assert len(difference) <= 2
        assert all(abs(n) == 1 for n in difference.values())


@given(ITEMS)
def test_an_item_more_and_less_is_a_pattern_more_and_less(items: list[list[int | None]]) -> None:
    if not items:
        return
    whole, one, rest = (table(part).annotated() for part in (items, items[:1], items[1:]))
    less = canonical(np.concatenate([whole.answers, one.answers]), np.concatenate([whole.items, -one.items]))
    assert as_bytes(less) == as_bytes(rest)


@given(ITEMS)
def test_pairs_of_raters_count_their_common_items(items: list[list[int | None]]) -> None:
    found = rater_pairs(table(items), [0, 1, 2, 3])
    for a in range(4):
        for b in range(a + 1, 4):
            wanted = Counter((i[a], i[b]) for i in items if i[a] is not None and i[b] is not None)
            cells = found.get((a, b))
            assert (cells is None) == (not wanted)
            if cells is not None:
                assert (
                    Counter({(int(k), int(m)): int(cells[k, m]) for k, m in zip(*np.nonzero(cells), strict=True)})
                    == wanted
                )
                assert counts(of_pair(cells)) == Counter(
                    {(k, *(int(m == j) for j in range(4))): n for (k, m), n in wanted.items()}
                )


@given(ITEMS)
def test_annotators_count_who_share_an_item_with_another_one(items: list[list[int | None]]) -> None:
    wanted = {r for r in range(3) for i in items if i[r] is not None and sum(v is not None for v in i[:3]) > 1}
    assert set(shares_items(table(items))) == wanted


@pytest.mark.parametrize("raters", [1, 2, 7, 8, 70])
def test_many_raters_and_many_levels_do_not_run_into_each_other(raters: int) -> None:
    chance = random.Random(raters)
    levels = 130
    rows = [(i, r, chance.randrange(levels) if i else 129) for i in range(40) for r in range(raters)]
    answers = pl.DataFrame(rows, schema={"item": pl.UInt32, "rater": pl.Int32, "level": pl.Int32}, orient="row")
    found = item_table(answers, levels, range(raters), ()).annotated()
    wanted = Counter(tuple(sorted(Counter(level for i, _, level in rows if i == item).items())) for item in range(40))
    given_ = Counter(
        {
            tuple((int(k), int(row[k])) for k in np.flatnonzero(row)): int(n)
            for row, n in zip(found.answers, found.items, strict=True)
        }
    )
    assert given_ == wanted


def test_tables_that_count_different_things_are_not_added() -> None:
    one = table([[0, 1, None, 2]])
    with pytest.raises(ValueError, match="do not count the same thing"):
        one.annotated() + one.against(3)
    fewer = item_table(frame([[0, 1, 0, 1]]), 2, (0, 1, 2), (3,))
    with pytest.raises(ValueError, match="other levels"):
        one.annotated() + fewer.annotated()


def test_nothing_can_be_counted() -> None:
    nothing = table([])
    assert len(nothing.annotated()) == len(nothing.against(3)) == 0
    assert as_bytes(nothing.annotated() + nothing.annotated()) == as_bytes(nothing.annotated())
    assert rater_pairs(nothing, [0, 1]) == {}
    assert shares_items(nothing) == ()
