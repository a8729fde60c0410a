"""Files that are broken as a whole are refused with file, line and a way out; one broken record is set aside alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import calibrate_files.text
import polars as pl
import pytest
from files_cases import HEADER, ROWS, as_csv, as_json_lines, as_parquet, csv_text, json_lines, read, source, written
from polars.testing import assert_frame_equal

from calibrate_plugin.connector import ConnectorError, SettingsError

GOOD = csv_text(ROWS)


def refused(file: Path, words: str, kind: type[ConnectorError] = ConnectorError, **options: Any) -> None:
    with pytest.raises(kind, match=words):
        read(file, **options)


# The file itself


def test_a_missing_file_a_folder_and_no_file_at_all(tmp_path: Path) -> None:
    refused(tmp_path / "no.csv", r"no\.csv: there is no such file", SettingsError)
    (tmp_path / "d.csv").mkdir()
    refused(tmp_path / "d.csv", r"d\.csv is a folder", SettingsError)
    with pytest.raises(SettingsError, match=r"sources\.people\.file is missing"):
        source(None)  # type: ignore[arg-type]


def test_an_unknown_ending_names_those_that_are_known(tmp_path: Path) -> None:
    refused(written(tmp_path / "x.xlsx", "x"), r"x\.xlsx: .*\.csv, .*\.jsonl, .*\.parquet", SettingsError)
    refused(written(tmp_path / "labels", "x"), r"\.csv", SettingsError)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file(tmp_path: Path, name: str, content: bytes) -> None:
    refused(written(tmp_path / name, content), "empty|not a Parquet")


def test_columns_without_rows(tmp_path: Path) -> None:
    for content in (HEADER, HEADER + "\n", HEADER + "\r\n\r\n"):
        refused(written(tmp_path / "x.csv", content), r"x\.csv: there are columns but no rows")
    pl.DataFrame(ROWS).clear().write_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "no rows")


@pytest.mark.parametrize("write", [as_csv, as_json_lines, as_parquet])
def test_a_missing_column_names_what_was_found_and_the_nearest_spelling(tmp_path: Path, write: Any) -> None:
    file = write(tmp_path, [{("Valeu" if k == "value" else k): v for k, v in r.items()} for r in ROWS])
    refused(file, r"no column 'value' \(the answer\); found: 'item', .*'Valeu'; did you mean 'Valeu'\?", SettingsError)
    file = write(tmp_path, [{k: v for k, v in r.items() if k != "kind"} for r in ROWS])
    refused(file, r"no column 'kind' \(annotator or human, evaluator or judge, or gold\)", SettingsError)


def test_a_renamed_column_that_is_missing_is_named_as_the_study_names_it(tmp_path: Path) -> None:
    file = as_csv(tmp_path, ROWS)
    refused(file, r"labels\.csv:1: there is no column 'trace_id'", SettingsError, columns={"item": "trace_id"})
    refused(file, r"sources\.people\.columns\.itme is no column of ours", SettingsError, columns={"itme": "x"})
    refused(file, r"sources\.people\.columns\.item is 3", SettingsError, columns={"item": 3})
    refused(file, r"sources\.people\.colums is no setting", SettingsError, colums={})
    refused(file, r"sources\.people\.timezone is 'Mars/Base'.*Europe/Berlin", SettingsError, timezone="Mars/Base")
    refused(file, r"facts\.csv: there is no such file", SettingsError, facts=str(tmp_path / "facts.csv"))


def test_a_kind_that_is_empty_in_every_row_says_what_it_may_be(tmp_path: Path) -> None:
    for write in (as_csv, as_json_lines, as_parquet):
        refused(write(tmp_path, [r | {"kind": None} for r in ROWS]), r"kind is missing; it may be annotator .*gold")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (f"{HEADER},value", r"x\.csv:1: the columns 'value', 'value' \(number 5 and 6\)"),
        (f"{HEADER}, VALUE", "'value', 'VALUE'"),
        (f"{HEADER},rater_kind", "'kind', 'rater_kind'.* both say the kind.*columns = "),
        (f"{HEADER},topic,topic", "columns 6 and 7 are both called 'topic'"),
    ],
)
def test_duplicate_headers(tmp_path: Path, header: str, words: str) -> None:
    refused(written(tmp_path / "x.csv", header + "\n1,S,a,human,4,5,6\n"), words)


def test_duplicate_keys_of_json_lines_over_the_whole_file(tmp_path: Path) -> None:
    file = written(tmp_path / "x.jsonl", json_lines([ROWS[0], ROWS[1] | {"Item": "1"}]))
    refused(file, r"x\.jsonl:2: the columns 'item', 'Item'")


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    page = read(written(tmp_path / "x.csv", f",{HEADER},\n0,1,S,a,human,4,\n1,1,S,b,human,5,\n"))
    assert page.labels["value"].to_list() == ['"4"', '"5"']
    assert page.items.height == 0


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_utf_16_is_named(tmp_path: Path, encoding: str, name: str) -> None:
    refused(written(tmp_path / name, GOOD.encode(encoding)), f"{name}: the file looks like UTF-(16|32) text")


def test_latin_1_is_named_with_its_line_and_how_it_reads(tmp_path: Path) -> None:
    text = GOOD + "1,Safety,José,human,Pass\n"
    words = r"x\.csv:5: the file is not UTF-8; byte 0xe9 looks like 'é'"
    refused(written(tmp_path / "x.csv", text.encode("latin-1")), words)
    file = written(tmp_path / "x.csv.gz", gzip.compress(text.encode("latin-1")))
    refused(file, words.replace("csv", r"csv\.gz"))


def test_the_line_of_a_bad_byte_is_right_beyond_the_first_piece_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate_files.text, "CHUNK", 16)
    for tail, bad in ((b"\xff", "0xff"), (b"\xc3", "0xc3"), (b"\xc3\n", "0xc3")):
        content = GOOD.encode() + "1,Safety,ä€😀".encode() + tail
        refused(written(tmp_path / "x.csv", content), rf"x\.csv:5: .*byte {bad}")


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    for name, text in (("x.csv", GOOD), ("x.jsonl", json_lines(ROWS))):
        page = read(written(tmp_path / name, b"\xef\xbb\xbf" + text.encode()))
        assert page.labels["item"].to_list() == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PAR1xxxxPAR1", "a Parquet file"),
        (b"PK\x03\x04xxxxx", "a zip or Excel file"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
    ],
)
def test_other_kinds_of_file_under_the_ending_csv(tmp_path: Path, content: bytes, words: str) -> None:
    refused(written(tmp_path / "x.csv", content), f"x.csv: the file looks like {words}")


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.csv.gz", "x.jsonl.gz"])
def test_an_endless_line_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate_files.text, "LONGEST_LINE", 2**12)
    monkeypatch.setattr(calibrate_files.text, "CHUNK", 2**10)
    start = GOOD if "csv" in name else json_lines(ROWS)
    for end in ("", "\n", "\nmore\n"):
        content = (start + "x" * (2**12 + 1) + end).encode()
        file = written(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content)
        refused(file, rf"{name}:{start.count(chr(10)) + 1}: the line is longer than")


def test_a_cell_of_five_megabytes_is_read(tmp_path: Path) -> None:
    reason = 'long "text", ' * 400_000
    for write in (as_csv, as_json_lines, as_parquet):
        assert read(write(tmp_path, [ROWS[0] | {"reason": reason}])).labels["reason"][0] == reason


def test_damaged_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD.encode() * 100)
    refused(written(tmp_path / "x.csv.gz", packed[:-20]), r"x\.csv\.gz: the gzip file is damaged or cut off")
    refused(written(tmp_path / "x.csv.gz", packed[:20] + b"\0" * 40 + packed[60:]), "damaged")


# CSV


def test_a_ragged_row_is_set_aside_alone(tmp_path: Path) -> None:
    lines = GOOD.splitlines()
    text = "\n".join([*lines[:2], "9,Safety,asha", *lines[2:3], "9,Safety,asha,human,Pass,extra", "", *lines[3:], '""'])
    page = read(written(tmp_path / "x.csv", text + "\n"))
    assert page.aside.select("record", "cause", "message").rows() == [
        ("x.csv:3", "unreadable", "the row has 3 cells and the header has 5"),
        ("x.csv:5", "unreadable", "the row has 6 cells and the header has 5"),
        ("x.csv:8", "unreadable", "the row has 1 cells and the header has 5"),
    ]
    assert_frame_equal(page.labels.drop("seq"), read(written(tmp_path / "y.csv", GOOD)).labels.drop("seq"))


def test_rows_that_are_all_ragged_are_an_error(tmp_path: Path) -> None:
    refused(written(tmp_path / "x.csv", f"{HEADER}\n1,S,a\n2,S\n"), r"x\.csv:2: the row has 3 cells .* no other row")


@pytest.mark.parametrize("filler", ["", '1,S,b,"a ""quoted"", cell\n', "1,S,b,human,5\n"])
def test_a_quote_that_is_never_closed_is_an_error_at_the_line_where_it_opens(tmp_path: Path, filler: str) -> None:
    text = (
        f'{HEADER}\n1,S,a,human,"two\nlines"\n1,S,b,"human,4\n{filler if "quoted" not in filler else ""}1,S,c,human,4\n'
    )
    refused(written(tmp_path / "x.csv", text), r"x\.csv:4: a cell begins with a quote that is never closed")


def test_text_after_a_closing_quote_is_an_error_at_its_line(tmp_path: Path) -> None:
    text = f'{HEADER}\n1,S,a,human,4\n1,S,b,human,"4" or 5\n1,S,c,human,4\n'
    refused(written(tmp_path / "x.csv", text), r"x\.csv:3: a quoted cell goes on after its closing quote")
    text = f'{HEADER},reason\n1,S,a,human,4,"open\n1,S,b,human,5,"well quoted"\n'
    refused(written(tmp_path / "x.csv", text), r"x\.csv:2: a quoted cell goes on after its closing quote")


def test_a_quote_inside_a_plain_cell_is_a_quote(tmp_path: Path) -> None:
    page = read(written(tmp_path / "x.csv", f'{HEADER},reason\n1,S,a,human,4,5" screen\n1,S,b,human,5,"a, b"\n'))
    assert page.labels["reason"].to_list() == ['5" screen', "a, b"]


def test_line_numbers_count_the_lines_inside_cells(tmp_path: Path) -> None:
    text = f'\n"item",{HEADER[5:]},reason\n1,S,a,human,4,"two\nlines"\n,S,b,human,5,"one\n\r\ntwo"\n,S,c,human,5,\n'
    page = read(written(tmp_path / "x.csv", text))
    assert page.aside["record"].to_list() == ["x.csv:5", "x.csv:8"]
    irregular = text + '2,S,d,human,5" x,\n,S,d,human,5,\n'
    page = read(written(tmp_path / "x.csv", irregular))
    assert page.aside["record"].to_list() == ["x.csv:5", "x.csv:8", "x.csv:10"]


def test_line_ends_of_every_system(tmp_path: Path) -> None:
    expected = read(written(tmp_path / "y.csv", GOOD)).labels
    for end in ("\r\n", "\r"):
        assert_frame_equal(read(written(tmp_path / "x.csv", GOOD.replace("\n", end))).labels, expected)


@pytest.mark.parametrize("write", [as_csv, as_json_lines, as_parquet])
def test_nul_in_what_identifies_sets_the_row_aside_and_is_replaced_in_what_informs(tmp_path: Path, write: Any) -> None:
    rows = [ROWS[0] | {"item": "a\0b", "reason": "r", "topic": "t"}, ROWS[1] | {"reason": "x\0y", "topic": "u\0"}]
    page = read(write(tmp_path, rows))
    assert page.aside.select("cause", "message").rows() == [("unreadable", "the item holds the character NUL")]
    assert page.labels["reason"].to_list() == ["x\ufffdy"]
    assert page.items.rows() == [("1", "topic", "u\ufffd")]


@pytest.mark.parametrize("write", [as_csv, as_json_lines, as_parquet])
@pytest.mark.parametrize(
    "text", ["=HYPERLINK(1)", "[/]", "<script>", "\x1b[31m", "\x07\x7f\u2028", "{}", "NaN", "null"]
)
def test_markup_formulas_and_control_characters_stay_what_they_are(tmp_path: Path, write: Any, text: str) -> None:
    page = read(write(tmp_path, [dict.fromkeys(ROWS[0], text) | {"kind": "human", "reason": text, text: text}]))
    row = page.labels.row(0, named=True)
    assert [row[c] for c in ("item", "field", "rater", "reason")] == [text] * 4
    assert json.loads(row["value"]) == text
    assert page.items.rows() == ([(text, text.strip(), text)])


# JSONL


def test_a_broken_line_is_set_aside_with_its_number(tmp_path: Path) -> None:
    good = json_lines(ROWS).splitlines()
    bad = ['{"item": 1,', "[1]", "3", '"x"', "null", "{'item': 1}", "[" * 100_000, '{"item": ' + "9" * 5000 + "}"]
    page = read(written(tmp_path / "x.jsonl", "\n".join([good[0], "", *bad, *good[1:]]) + "\n"))
    assert page.aside["record"].to_list() == [f"x.jsonl:{i}" for i in range(3, 11)]
    assert set(page.aside["cause"]) == {"unreadable"}
    assert "not JSON" in page.aside["message"][0] and "array" in page.aside["message"][1]
    assert_frame_equal(page.labels.drop("seq"), read(as_json_lines(tmp_path, ROWS)).labels.drop("seq"))


def test_a_last_line_that_breaks_off_is_told_as_such(tmp_path: Path) -> None:
    page = read(written(tmp_path / "x.jsonl", json_lines(ROWS)[:-20]))
    assert page.labels.height == 2
    assert page.aside["message"][0].endswith("the file may be cut off")


def test_a_file_of_json_lines_that_has_none_is_an_error(tmp_path: Path) -> None:
    refused(written(tmp_path / "x.jsonl", json.dumps(ROWS)), r"x\.jsonl:1: the file holds one JSON array")
    refused(written(tmp_path / "x.jsonl", json.dumps(ROWS[0], indent=1)), r"x\.jsonl:1: the line is not JSON")
    refused(written(tmp_path / "x.jsonl", GOOD), r"x\.jsonl:1: the line is not JSON")


def test_half_a_surrogate_pair_sets_an_id_aside_and_is_replaced_in_other_text(tmp_path: Path) -> None:
    rows = [
        ROWS[0] | {"item": "\ud800"},
        ROWS[1] | {"reason": "a\udfffb", "value": "\ud83d", "topic\ud800": ["\ud800"]},
        ROWS[2] | {"reason": "\ud83d\ude00", "value": ["\ud800", {"\ud800": 1}]},
    ]
    page = read(as_json_lines(tmp_path, rows))
    assert page.aside.select("record", "cause").rows() == [("labels.jsonl:1", "unreadable")]
    assert page.labels["reason"].to_list() == ["a\ufffdb", "😀"]
    assert page.labels["value"].to_list() == ['"\ufffd"', '["\ufffd",{"\ufffd":1}]']
    assert page.items.rows() == [("1", "topic\ufffd", '["\ufffd"]')]


def test_ids_must_be_plain(tmp_path: Path) -> None:
    page = read(as_json_lines(tmp_path, [ROWS[0], ROWS[1] | {"item": ["1"]}, ROWS[2] | {"rater": {"id": 1}}]))
    assert page.aside["message"].to_list() == [
        "item is a JSON array; it must be text or a number",
        "rater is a JSON object; it must be text or a number",
    ]
    assert page.labels.height == 1


def test_more_keys_than_any_table_has_are_refused(tmp_path: Path) -> None:
    refused(as_json_lines(tmp_path, [ROWS[0] | {f"k{i}": 1} for i in range(1001)]), "more than 1000 different columns")


# Parquet


def test_what_is_no_parquet_file_says_what_it_begins_with(tmp_path: Path) -> None:
    refused(written(tmp_path / "x.parquet", GOOD), r"x\.parquet: this is not a Parquet file; it begins with b'item'")
    refused(written(tmp_path / "x.parquet", gzip.compress(b"x")), "gzip")


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    whole = as_parquet(tmp_path, ROWS).read_bytes()
    refused(written(tmp_path / "x.parquet", whole[:-30]), "cut off")
    refused(written(tmp_path / "x.parquet", b"PAR1" + b"\xff" * 40 + b"PAR1"), "cannot be read|damaged")
    refused(written(tmp_path / "x.parquet", whole[: len(whole) // 2] + whole[-8:]), "cannot be read|damaged")


def test_a_parquet_column_that_cannot_be_an_id_or_a_time_is_named(tmp_path: Path) -> None:
    refused(as_parquet(tmp_path, [ROWS[0] | {"item": ["1"]}]), "the column 'item' holds List", SettingsError)
    refused(as_parquet(tmp_path, [ROWS[0] | {"at": 1714550400}]), "the column 'at' holds Int64", SettingsError)


def test_a_file_name_is_never_a_pattern(tmp_path: Path) -> None:
    for write in (as_csv, as_json_lines, as_parquet):
        made = write(tmp_path, ROWS)
        file = made.rename(tmp_path / f"[x]{{}}*{made.suffix}")
        page = read(file)
        assert page.labels.height == 3
        bad = write(tmp_path, [*ROWS, ROWS[0] | {"item": None}])
        page = read(bad.rename(file))
        assert page.aside["record"][0].startswith(f"[x]{{}}*{made.suffix}:")
