"""What a later version of a file is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from files_cases import ROWS, as_csv, as_json_lines, pulled, source, written
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrate_plugin.connector import Since

KNOWN = ["item", "field", "rater", "value", "seq"]


def records(file: Path) -> dict[tuple[str, str], Any]:
    labels = pulled(file, Since())[0].labels
    found = {(r["field"], r["record"]): r for r in labels.rows(named=True)}
    assert len(found) == labels.height, "field and record together must name one label"
    return found


def test_a_report_alone_needs_no_records(tmp_path: Path) -> None:
    file = as_csv(tmp_path, [r | {"id": str(i)} for i, r in enumerate(ROWS)])
    assert pulled(file)[0].labels["record"].null_count() == 3


def test_the_id_column_is_the_record(tmp_path: Path) -> None:
    file = as_csv(tmp_path, [r | {"id": f"r{i}"} for i, r in enumerate(ROWS)])
    assert [record for _, record in records(file)] == ["r0", "r1", "r2"]


def test_a_row_added_in_the_middle_changes_no_other_label(tmp_path: Path) -> None:
    rows = [r | {"item": i} for i in ("1", "2", "3") for r in ROWS]
    before = records(as_csv(tmp_path, rows))
    after = records(as_csv(tmp_path, [*rows[:4], ROWS[0] | {"item": "0"}, *rows[4:]]))
    assert {k: after.get(k) for k in before} == before
    assert len(after) == len(before) + 1


def test_a_changed_answer_keeps_its_record(tmp_path: Path) -> None:
    before = records(as_csv(tmp_path, ROWS))
    after = records(as_csv(tmp_path, [ROWS[0] | {"value": "Fail"}, *ROWS[1:]]))
    assert after.keys() == before.keys()


def test_a_column_that_comes_later_changes_no_record(tmp_path: Path) -> None:
    before = records(as_csv(tmp_path, ROWS))
    after = records(as_csv(tmp_path, [r | {"version": "", "at": "2026-01-01T00:00:00Z", "topic": "x"} for r in ROWS]))
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    "column", ["version", "job", "run", "sample", "order", "execution", "rater", "item", "dimension"]
)
def test_what_tells_answers_apart_tells_records_apart(tmp_path: Path, column: str) -> None:
    assert len(records(as_csv(tmp_path, [ROWS[0] | {column: "a"}, ROWS[0] | {column: "b"}]))) == 2


def test_a_repeat_is_numbered_in_file_order(tmp_path: Path) -> None:
    found = records(as_csv(tmp_path, [ROWS[0], ROWS[0] | {"value": "Fail"}]))
    assert [(r, row["value"]) for (_, r), row in found.items()] == [
        ("1|Safety|asha", '"Pass"'),
        ("1|Safety|asha (2)", '"Fail"'),
    ]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["a", "a (2)", "a (2) (2)", "", None]), min_size=1, max_size=8))
def test_records_are_unique_whatever_the_ids(tmp_path_factory: pytest.TempPathFactory, ids: list[str | None]) -> None:
    rows: list[Mapping[str, Any]] = [ROWS[0] | {"id": i} for i in ids]
    assert len(records(as_json_lines(tmp_path_factory.mktemp("ids"), rows))) == len(ids)


def test_an_unchanged_file_is_not_read_again_unless_all_is_asked_for(tmp_path: Path) -> None:
    file = as_csv(tmp_path, ROWS)
    _, covered = pulled(file, Since())
    assert covered.cursor
    assert list(source(file).pull(Since(cursor=covered.cursor))) == []
    assert len(list(source(file).pull(Since(cursor=covered.cursor, full=True)))) == 2
    assert len(list(source(file, timezone="UTC").pull(Since(cursor=covered.cursor)))) == 2
    written(file, file.read_text().replace("Fail", "Pass"))
    assert len(list(source(file).pull(Since(cursor=covered.cursor)))) == 2


def test_a_changed_file_of_facts_is_a_change(tmp_path: Path) -> None:
    file = as_csv(tmp_path, ROWS)
    written(tmp_path / "facts.csv", "item,system\n1,a\n")
    _, covered = pulled(file, Since(), facts=str(tmp_path / "facts.csv"))
    assert list(source(file, facts=str(tmp_path / "facts.csv")).pull(Since(cursor=covered.cursor))) == []
    written(tmp_path / "facts.csv", "item,system\n1,b\n")
    assert len(list(source(file, facts=str(tmp_path / "facts.csv")).pull(Since(cursor=covered.cursor)))) == 2
