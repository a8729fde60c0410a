"""Guideline texts and uses of the test split; and that a store of an earlier package gets the tables for them."""

from __future__ import annotations

import pytest
from alembic import command
from stored_facts import EVERYTHING, label, ok, page

from calibrate_plugin.store import Store, recording, schema
from calibrate_plugin.store.labelling import Use, guidelines, keep_guideline, use_test, uses_of_test


def test_a_text_of_the_guideline_is_kept_once_with_the_number_it_was_seen_at(store: Store) -> None:
    assert keep_guideline(store, "1", "pass: kind\x00\ud800")
    ok(store, page(label("1")), EVERYTHING)
    assert not keep_guideline(store, "1", "pass: kind\x00\ud800")
    assert keep_guideline(store, "2", "pass: kind and right")
    assert [(g.version, g.number, g.text) for g in guidelines(store)] == [
        ("1", 0, "pass: kind�?"),
        ("2", 1, "pass: kind and right"),
    ]


def test_a_text_that_changed_without_a_new_version_is_kept_too(store: Store) -> None:
    for text in ("a", "b", "a"):
        assert keep_guideline(store, "1", text)
    assert [g.text for g in guidelines(store)] == ["a", "b", "a"]


def test_the_same_numbers_of_the_test_split_seen_again_are_no_further_use(store: Store) -> None:
    use_test(store, [Use("Safety", "judge", "v1", "report", "x"), Use("Safety", "judge", "v1", "threshold", "x")])
    use_test(store, [Use("Safety", "judge", "v1", "report", "x")])
    use_test(store, [Use("Safety", "judge", "v2", "gate", "x"), Use("Safety", "judge", "v1", "report", "y")])
    use_test(store, [])
    assert [(u.version, u.digest) for u in uses_of_test(store)] == [("v1", "x"), ("v2", "x"), ("v1", "y")]


@pytest.mark.parametrize("before", ["0001", "0002", "0003"])
def test_a_store_of_an_earlier_package_keeps_what_it_knows_and_gets_the_new_tables(
    empty: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = command.upgrade
    monkeypatch.setattr(command, "upgrade", lambda config, _: upgrade(config, before))
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "HEAD", before)
        # what no package before wrote: how long an answer took
        earlier.setattr(recording, "STORED", tuple(c for c in recording.STORED if c != "seconds"))
        with Store(empty) as old:
            ok(old, page(label("1"), label("2"), facts=[("item 1", "split", "dev")]), EVERYTHING)
    monkeypatch.undo()
    with Store(empty) as store:
        known = store.as_of()
        assert known.select("record", "value", "retired").rows() == [("1", '"Pass"', None), ("2", '"Pass"', None)]
        assert store.item_facts().rows() == [("people", "item 1", "split", "dev")]
        again = ok(store, page(label("1", seconds=4.0), label("2"), label("3", seconds=2.5)), EVERYTHING)
        assert (again.added, again.changed) == (1, 0), "what was there already is not another answer now"
        assert store.as_of()["seconds"].to_list() == [None, None, 2.5]
        assert keep_guideline(store, "1", "text")
        use_test(store, [Use("Safety", "judge", "v1", "report", "x")])
        assert len(uses_of_test(store)) == 1
