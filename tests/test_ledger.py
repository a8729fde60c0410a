"""What the study itself says is kept like what a source says: numbered, replaced, never lost."""

from __future__ import annotations

import polars as pl
from stored_facts import EVERYTHING, Given, label, labels, page

from calibrate_plugin import ledger
from calibrate_plugin.model import ITEMS, OWN, frame
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync


def facts(**values: str | None) -> pl.DataFrame:
    return frame(ITEMS, {"item": ["a"] * len(values), "fact": list(values), "value": list(values.values())})


def test_rulings_and_facts_have_numbers_of_their_own_and_earlier_ones_can_be_seen(store: Store) -> None:
    ruling = label("ruling a", item="a", kind="gold", rater="ruling")
    first = ledger.record(store, labels=labels([ruling]), items=facts(split="dev", stratum="fail"))
    second = ledger.record(store, labels=labels([{**ruling, "value": '"Fail"'}]), items=facts(split="test"))
    assert first is not None and second is not None and second > first
    assert store.as_of(first)["value"].to_list() == ['"Pass"']
    assert store.as_of()["value"].to_list() == ['"Fail"']
    assert store.as_of()["source"].to_list() == [OWN]
    then = dict(store.item_facts(first).select("fact", "value").iter_rows())
    now = dict(store.item_facts().select("fact", "value").iter_rows())
    assert then == {"split": "dev", "stratum": "fail"}
    assert now == {"split": "test", "stratum": "fail"}


def test_the_same_again_is_nothing_new(store: Store) -> None:
    assert ledger.record(store, items=facts(split="dev")) is not None
    assert ledger.record(store, items=facts(split="dev")) is None


def test_a_pull_of_a_source_ends_nothing_that_the_study_says(store: Store) -> None:
    ledger.record(store, labels=labels([label("ruling a", item="a", kind="gold")]))
    sync(store, {"people": Given(page(label("1")), EVERYTHING)}, full=True)
    sync(store, {"people": Given(page(label("1")), EVERYTHING)}, full=True)
    assert store.as_of().filter(pl.col("source") == OWN)["retired"].to_list() == [None]
