"""The same labels are the same labels in every format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import calibrate_files.delimited as delimited
import polars as pl
import pytest
from calibrate_files.table import Naming
from files_cases import as_csv, as_json_lines, as_parquet, csv_text, read, written
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

steady = settings(deadline=None, max_examples=120, derandomize=os.environ.get("CI", "").lower() == "true")

# any text but the lone surrogates that UTF-8 cannot hold, and NUL, which has rules of its own
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
nasty = st.sampled_from(
    ['"', '""', '","', "a\nb", "\r\n", "\n\n", "\r", ";", "\t", " x ", "=1", "0", "ä", "\ufeff", "NaN"]
)
cell = st.one_of(text, nasty)
maybe = st.one_of(st.none(), cell)
row = st.fixed_dictionaries(
    {
        "item": maybe,
        "dimension": maybe,
        "rater": maybe,
        "kind": st.sampled_from(["human", "judge", "gold", "Annotator ", "robot", None]),
        "value": maybe,
        "version": maybe,
        "reason": maybe,
        "sample": st.sampled_from(["0", "1", None]),
        "confidence": st.sampled_from(["0.5", "1", "2", "", None]),
        "blind": st.sampled_from(["true", "False", "", None]),
        "topic": maybe,
    }
)
good = {"item": "i", "dimension": "d", "rater": "r", "kind": "human", "value": "v", "topic": "t"}


def content(file: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    page = read(file)
    return page.labels, page.items, page.aside.drop("record")


@steady
@given(st.lists(row, max_size=12))
def test_csv_json_lines_and_parquet_of_the_same_labels_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("same")
    rows = [*rows, dict.fromkeys(rows[0] if rows else ()) | good]
    # in a CSV a row of nothing but empty cells is still a row, for it has its delimiters
    expected = content(as_json_lines(folder, rows))
    for write in (as_csv, as_parquet):
        for ours, theirs in zip(content(write(folder, rows)), expected, strict=True):
            assert_frame_equal(ours, theirs)


number = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))


@steady
@given(
    st.one_of(
        st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6),
        st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=6),
        st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=6),
        st.lists(st.one_of(st.none(), st.lists(text, max_size=3)), min_size=1, max_size=6),
    )
)
def test_json_lines_and_parquet_keep_the_same_typed_values(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("typed")
    rows = [{**good, "kind": "judge", "value": v} for v in values]
    a, b = (read(write(folder, rows)).labels for write in (as_json_lines, as_parquet))
    assert_frame_equal(a.drop("value"), b.drop("value"))
    load = [[None if v is None else json.loads(v) for v in labels["value"]] for labels in (a, b)]
    assert [(type(v), v) for v in load[0]] == [(type(v), v) for v in load[1]]


@steady
@given(
    st.lists(st.fixed_dictionaries({"item": maybe, "b": maybe, "c": maybe}), min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_fast_and_the_careful_reader_of_csv_read_the_same(
    rows: list[dict[str, str | None]], delimiter: str, end: str
) -> None:
    body = csv_text(rows, delimiter, end).split(end, 1)[1].rstrip("\r\n")
    columns = list(rows[0])
    fast = delimited._regular(body.encode(), columns, delimiter, 2)
    pieces, lines = delimited._irregular(body, columns, delimiter, "x.csv", 2)
    careful = pl.concat(pieces)
    assert "broken" not in careful.columns
    assert careful.rows() == [tuple(r[c] for c in columns) for r in rows]
    if fast is not None:
        assert_frame_equal(fast[0][0], careful)
        assert lines.to_list() == (list(range(2, 2 + len(rows))) if fast[1] is None else fast[1].to_list())


@steady
@given(st.text(st.sampled_from(list('ab,;"\n\r ')), max_size=40))
def test_the_fast_reader_never_differs_from_the_careful_one_on_any_text(body: str) -> None:
    body = body.rstrip("\r\n")
    fast = delimited._regular(body.encode(), ["a", "b", "c"], ",", 2)
    if fast is not None:
        pieces, lines = delimited._irregular(body, ["a", "b", "c"], ",", "x.csv", 2)
        assert_frame_equal(fast[0][0], pl.concat(pieces))
        assert lines.to_list() == (list(range(2, 2 + len(lines))) if fast[1] is None else fast[1].to_list())


def test_quoted_cells_with_line_ends_are_read_right_where_the_fast_reader_works_in_pieces(tmp_path: Path) -> None:
    rows = [
        {**good, "item": str(i), "reason": ('two\n"lines", ' if i % 3 else "\r\n") * (i % 40)} for i in range(40_000)
    ]
    text = csv_text(rows)
    body = text.split("\n", 1)[1].rstrip("\n")
    columns = [*good, "reason"]
    fast = delimited._regular(body.encode(), columns, ",", 2)
    assert fast is not None
    pieces, lines = delimited._irregular(body, columns, ",", "x.csv", 2)
    assert_frame_equal(fast[0][0], pl.concat(pieces))
    assert fast[1] is not None and fast[1].to_list() == lines.to_list()
    table = delimited.read_delimited(written(tmp_path / "x.csv", text), Naming())
    assert table.frame["item"].to_list() == [str(i) for i in range(40_000)]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "labels", "items", "facts"),
    [("xstest", 11_250, 2_250, 4), ("pandalm", 4_995, 999, 3), ("realmistake_math", None, 300, 4)],
)
def test_real_data_is_read_without_loss(shared: Path, name: str, labels: int | None, items: int, facts: int) -> None:
    folder = shared / "data" / name
    page = read(folder / "labels.csv.gz", facts=str(folder / "items.csv.gz"))
    assert page.labels.height == labels or labels is None
    assert page.aside.height == 0
    assert page.labels["item"].n_unique() == items
    # beside the facts of items.csv.gz the column `dataset` of the labels is one
    assert page.items.height >= items * facts
    assert set(page.items.filter(pl.col("fact") == "dataset")["value"]) == {name}
