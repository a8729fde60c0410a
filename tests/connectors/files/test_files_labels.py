"""What the columns of a file mean."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from files_cases import HEADER, ROWS, as_csv, as_json_lines, as_parquet, csv_text, pulled, read, written
from polars.testing import assert_frame_equal

from calibrate_plugin.config import load
from calibrate_plugin.connector import (
    ConnectorError,
    Page,
    Scope,
    SettingsError,
    SourceSettings,
    connectors,
    open_source,
)
from calibrate_plugin.model import ASIDE, ITEMS, LABELS

WRITERS = [as_csv, as_json_lines, as_parquet]


def first(page: Any) -> dict[str, Any]:
    return page.labels.row(0, named=True)


def rows(**changes: Any) -> list[dict[str, Any]]:
    """The three standard rows, the first of them changed."""
    return [ROWS[0] | changes, *ROWS[1:]]


def test_the_connector_is_found_by_its_name(tmp_path: Path) -> None:
    assert "files" in connectors()
    found = open_source(SourceSettings("people", "files", file=as_csv(tmp_path, ROWS)))
    page, covered = found.pull(None)
    assert page.labels.height == 3
    assert covered.scope == Scope()


@pytest.mark.parametrize("write", WRITERS)
def test_a_page_has_the_columns_of_the_model_and_one_row_an_answer(tmp_path: Path, write: Any) -> None:
    page = read(write(tmp_path, ROWS))
    assert dict(page.labels.schema) == LABELS
    assert dict(page.items.schema) == ITEMS
    assert dict(page.aside.schema) == ASIDE
    assert page.labels.select("item", "field", "rater", "kind", "value", "state", "seq").rows() == [
        ("1", "Safety", "asha", "annotator", '"Pass"', "answered", 1),
        ("1", "Safety", "ben", "annotator", '"Fail"', "answered", 2),
        ("1", "Safety", "judge", "evaluator", '"Pass"', "answered", 3),
    ]
    assert page.aside.height == 0


@pytest.mark.parametrize("ending", [".csv", ".CSV", ".csv.gz", ".jsonl", ".ndjson", ".jsonl.gz"])
def test_packed_and_plain_files_of_every_ending_are_read(tmp_path: Path, ending: str) -> None:
    made = as_csv(tmp_path, ROWS) if "csv" in ending.lower() else as_json_lines(tmp_path, ROWS)
    content = made.read_bytes()
    file = written(tmp_path / f"x{ending}", gzip.compress(content) if ending.endswith(".gz") else content)
    assert read(file).labels.equals(read(made).labels)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_tells_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    named = [r | {"reason": 'a, "b"; c\td'} for r in ROWS]
    page = read(written(tmp_path / "x.csv", csv_text(named, delimiter)))
    assert page.labels["reason"].unique().to_list() == ['a, "b"; c\td']
    assert page.labels["value"].to_list() == ['"Pass"', '"Fail"', '"Pass"']


def test_headers_are_matched_after_trim_and_casefold_and_by_their_other_names(tmp_path: Path) -> None:
    text = "\ufeff Item , DIMENSION,Rater,Rater_Kind,Value,Timestamp,Comment\n1,Safety,asha,human,Pass,2026-01-02T03:04:05Z,ok\n"
    row = first(read(written(tmp_path / "x.csv", text)))
    assert row["kind"] == "annotator"
    assert row["at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert row["reason"] == "ok"


def test_the_study_may_name_the_columns(tmp_path: Path) -> None:
    text = "trace_id,metric,who,type,score,item\nt1,Safety,asha,human,Pass,x\n"
    columns = {"item": "trace_id", "dimension": "Metric", "rater": "who", "rater_kind": "type", "value": "score"}
    page = read(written(tmp_path / "x.csv", text), columns=columns)
    assert (first(page)["item"], first(page)["kind"], first(page)["value"]) == ("t1", "annotator", '"Pass"')
    assert page.items.rows() == [("t1", "item", "x")]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("annotator", "annotator"),
        (" Human ", "annotator"),
        ("PERSON", "annotator"),
        ("evaluator", "evaluator"),
        ("judge", "evaluator"),
        ("LLM", "evaluator"),
        ("model", "evaluator"),
        ("Gold", "gold"),
    ],
)
@pytest.mark.parametrize("write", WRITERS)
def test_words_for_the_kind_of_a_rater(tmp_path: Path, write: Any, word: str, kind: str) -> None:
    assert first(read(write(tmp_path, rows(kind=word))))["kind"] == kind


def test_a_csv_cell_is_text_and_other_files_keep_their_types(tmp_path: Path) -> None:
    assert first(read(written(tmp_path / "x.csv", f"{HEADER}\n1,S,a,human,4\n")))["value"] == '"4"'
    values = [4, 4.5, True, "4", ["b", "ä"], [], {"k": None}]
    page = read(as_json_lines(tmp_path, [ROWS[0] | {"value": v} for v in values]))
    assert page.labels["value"].to_list() == ["4", "4.5", "true", '"4"', '["b","ä"]', "[]", '{"k":null}']
    for column, texts in (
        ([4, 5], ["4", "5"]),
        ([4.5, 4.0], ["4.5", "4.0"]),
        ([True, False], ["true", "false"]),
        (["4", 'q"\\\n'], ['"4"', '"q\\"\\\\\\n"']),
        ([["b", "ä"], []], ['["b","ä"]', "[]"]),
    ):
        page = read(as_parquet(tmp_path, [ROWS[0] | {"value": v} for v in column]))
        assert page.labels["value"].to_list() == texts


def test_categories_of_a_parquet_file_are_text(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS).with_columns(
        pl.col("rater", "kind").cast(pl.Categorical), pl.col("value").cast(pl.Enum(["Fail", "Pass"]))
    )
    frame.write_parquet(tmp_path / "c.parquet")
    assert_frame_equal(read(tmp_path / "c.parquet").labels, read(as_parquet(tmp_path, ROWS)).labels)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("nothing", [None, ""])
def test_no_value_is_a_failure_of_an_evaluator_and_a_cleared_answer_of_a_person(
    tmp_path: Path, write: Any, nothing: str | None
) -> None:
    three = [ROWS[0] | {"value": nothing}, ROWS[1], ROWS[2] | {"value": nothing}]
    page = read(write(tmp_path, three))
    assert page.labels.select("value", "state").rows() == [(None, "cleared"), ('"Fail"', "answered"), (None, "failed")]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("write", [as_json_lines, as_parquet])
def test_a_number_that_is_none_fails_for_an_evaluator_and_is_unreadable_from_a_person(
    tmp_path: Path, write: Any, bad: float
) -> None:
    page = read(write(tmp_path, [r | {"value": v} for r, v in zip(ROWS, (bad, 1.0, bad), strict=True)]))
    assert page.labels.select("rater", "state").rows() == [("ben", "answered"), ("judge", "failed")]
    assert page.labels["value"][1].strip('"').casefold() in ("nan", "inf", "-inf")
    assert page.aside["cause"].to_list() == ["unreadable"]
    assert page.aside["rater"].to_list() == ["asha"]


def test_zero_and_the_empty_text_are_ids_and_null_is_none(tmp_path: Path) -> None:
    page = read(as_json_lines(tmp_path, [ROWS[0] | {"item": i} for i in (0, "0", "", None)]))
    assert page.labels["item"].to_list() == ["0", "0", ""]
    assert page.aside.select("record", "cause").rows() == [("labels.jsonl:4", "no_item")]
    page = read(written(tmp_path / "x.csv", f'{HEADER}\n0,S,a,human,4\n"",S,a,human,4\n,S,a,human,4\n'))
    assert page.labels["item"].to_list() == ["0", ""]
    assert page.aside.select("record", "cause").rows() == [("x.csv:4", "no_item")]


def test_ids_that_a_tool_turned_into_decimals_are_the_whole_numbers_they_were(tmp_path: Path) -> None:
    numbers = [1.0, 2.0, 2.5]
    for write in (as_json_lines, as_parquet):
        assert read(write(tmp_path, [ROWS[0] | {"item": i} for i in numbers])).labels["item"].to_list() == [
            "1",
            "2",
            "2.5",
        ]


@pytest.mark.parametrize("write", WRITERS)
def test_each_row_that_is_no_label_is_set_aside_with_its_first_cause_and_the_rest_stays(
    tmp_path: Path, write: Any
) -> None:
    bad = [
        rows()[0] | {"item": None, "rater": None},
        rows()[0] | {"dimension": None},
        rows()[0] | {"rater": None},
        rows()[0] | {"rater": ""},
        rows()[0] | {"kind": "robot"},
        rows()[0] | {"kind": None},
    ]
    page = read(write(tmp_path, [ROWS[0], *bad, *ROWS[1:]]))
    assert page.aside["cause"].to_list() == [
        "no_item",
        "no_dimension",
        "no_rater",
        "no_rater",
        "unknown_kind",
        "unknown_kind",
    ]
    start = 2 if write is as_csv else 1
    assert [r.rsplit(":")[-1] for r in page.aside["record"]] == [str(start + i) for i in range(1, 7)]
    assert "robot" in page.aside["message"][4] and "evaluator" in page.aside["message"][4]
    alone = read(write(tmp_path, ROWS)).labels
    assert_frame_equal(page.labels.drop("seq"), alone.drop("seq"))
    assert page.labels["seq"].to_list() == [1, 8, 9]


def test_blank_version_job_and_run_are_null_in_every_format(tmp_path: Path) -> None:
    for write in WRITERS:
        row = first(read(write(tmp_path, rows(version="", job="j", run=None))))
        assert (row["version"], row["job"], row["run"]) == (None, "j", None)


def test_only_the_wanted_dimensions_are_read_and_covered(tmp_path: Path) -> None:
    file = as_csv(tmp_path, [*ROWS, ROWS[0] | {"dimension": "Empathy", "kind": "robot"}])
    page, covered = pulled(file, labels={"Safe": ("Safety",)})
    assert page.labels["field"].unique().to_list() == ["Safety"]
    assert page.aside.height == 0
    assert covered.scope == Scope(fields=("Safety",))


def test_a_study_that_asks_for_no_dimension_of_the_file_is_told_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"labels\.csv: no row .*\(safety\).* the file has 'Safety'"):
        read(as_csv(tmp_path, ROWS), labels={"Safety": ("safety",)})


# Times


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-05-01T10:00:00Z", datetime(2026, 5, 1, 10, tzinfo=UTC)),
        ("2026-05-01T10:00:00.123456+02:00", datetime(2026, 5, 1, 8, 0, 0, 123456, tzinfo=UTC)),
        ("2026-05-01 10:00:00+0230", datetime(2026, 5, 1, 7, 30, tzinfo=UTC)),
        ("2026-05-01t10:00z", datetime(2026, 5, 1, 10, tzinfo=UTC)),
        ("20260501T100000-02", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        ("2026-05-01T10:00:00,5Z", datetime(2026, 5, 1, 10, 0, 0, 500000, tzinfo=UTC)),
        (" 2026-05-01T10:00:00 +00:00 ", datetime(2026, 5, 1, 10, tzinfo=UTC)),
    ],
)
def test_times_in_iso_8601_with_a_zone_become_utc(tmp_path: Path, text: str, time: datetime) -> None:
    dated = [r | {"at": text} for r in ROWS]
    for write in WRITERS:
        assert read(write(tmp_path, dated)).labels["at"].to_list() == [time] * 3


def test_parquet_timestamps_are_read_in_their_own_zone(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS).with_columns(
        at=pl.lit("2026-05-01T10:00:00.123456789").str.to_datetime(time_unit="ns").dt.replace_time_zone("Asia/Tokyo")
    )
    frame.write_parquet(tmp_path / "t.parquet")
    assert first(read(tmp_path / "t.parquet"))["at"] == datetime(2026, 5, 1, 1, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-05-01T10:00:00", "2026-05-01"])
def test_a_time_without_zone_is_an_error_that_names_line_value_and_way_out(tmp_path: Path, text: str) -> None:
    dated = [ROWS[0] | {"at": "2026-05-01T10:00:00Z"}, ROWS[1] | {"at": text}]
    for write, line in ((as_csv, 3), (as_json_lines, 2), (as_parquet, 2)):
        file = write(tmp_path, dated)
        with pytest.raises(SettingsError, match=rf"{file.name}:{line}: the time '{text}' has no zone.*timezone = "):
            read(file)


def test_a_parquet_timestamp_without_zone_is_the_same_error(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).with_columns(at=datetime(2026, 5, 1, 10)).write_parquet(tmp_path / "t.parquet")  # noqa: DTZ001
    with pytest.raises(SettingsError, match=r"t\.parquet:1: the time '2026-05-01 10:00:00' has no zone"):
        read(tmp_path / "t.parquet")
    page = read(tmp_path / "t.parquet", timezone="Asia/Tokyo")
    assert first(page)["at"] == datetime(2026, 5, 1, 1, tzinfo=UTC)


def test_with_a_timezone_times_without_zone_are_read_there_and_others_keep_theirs(tmp_path: Path) -> None:
    times = ["2026-07-01T10:00:00", "2026-12-01T10:00", "2026-07-01T10:00:00Z"]
    page = read(as_csv(tmp_path, [r | {"at": t} for r, t in zip(ROWS, times, strict=True)]), timezone="Europe/Berlin")
    assert page.labels["at"].dt.hour().to_list() == [8, 9, 10]


def test_an_hour_that_a_zone_skipped_is_no_time(tmp_path: Path) -> None:
    times = ["2026-03-29T02:30:00", "2026-10-25T02:30:00", "2026-07-01T10:00:00"]
    page = read(as_csv(tmp_path, [r | {"at": t} for r, t in zip(ROWS, times, strict=True)]), timezone="Europe/Berlin")
    assert page.labels["at"].dt.strftime("%d %H:%M").to_list() == ["25 00:30", "01 08:00"]
    assert page.aside["cause"].to_list() == ["unreadable"]


def test_one_time_that_is_none_sets_its_row_aside(tmp_path: Path) -> None:
    times = ["2026-05-01T10:00:00Z", "yesterday", "12026-05-01T10:00:00Z"]
    page = read(as_csv(tmp_path, [r | {"at": t} for r, t in zip(ROWS, times, strict=True)]))
    assert page.labels.height == 1
    assert page.aside.select("record", "cause").rows() == [
        ("labels.csv:3", "unreadable"),
        ("labels.csv:4", "unreadable"),
    ]
    assert "'yesterday'" in page.aside["message"][0] or "yesterday" in page.aside["message"][0]


def test_times_that_are_all_none_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"labels\.csv:2: the time is 1/5/2026.*ISO 8601"):
        read(as_csv(tmp_path, [r | {"at": "1/5/2026"} for r in ROWS]))


@pytest.mark.parametrize("missing", [None, ""])
def test_a_file_that_is_dated_only_in_part_is_an_error_naming_the_first_undated_line(
    tmp_path: Path, missing: str | None
) -> None:
    dated = [ROWS[0] | {"at": "2026-05-01T10:00:00Z"}, ROWS[1] | {"at": missing}]
    with pytest.raises(ConnectorError, match=r"labels\.csv:3: this row has no time"):
        read(as_csv(tmp_path, dated))


def test_a_file_without_any_times_counts_in_its_own_order(tmp_path: Path) -> None:
    page = read(as_csv(tmp_path, [r | {"at": ""} for r in ROWS]))
    assert page.labels["at"].null_count() == 3
    assert page.labels["seq"].to_list() == [1, 2, 3]


def test_since_leaves_out_what_is_older(tmp_path: Path) -> None:
    times = ["2026-04-30T23:59:59Z", "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"]
    file = as_csv(tmp_path, [r | {"at": t} for r, t in zip(ROWS, times, strict=True)])
    assert read(file, not_before=date(2026, 5, 1)).labels["rater"].to_list() == ["ben", "judge"]
    with pytest.raises(SettingsError, match="no row has a time"):
        read(as_csv(tmp_path, ROWS), not_before=date(2026, 5, 1))


# The other columns


def test_a_sample_that_never_differs_marks_no_repeats(tmp_path: Path) -> None:
    for write in WRITERS:
        assert read(write(tmp_path, [r | {"sample": "0"} for r in ROWS])).labels["sample"].null_count() == 3
        mixed = [r | {"sample": s} for r, s in zip(ROWS, (None, "0", "0"), strict=True)]
        assert read(write(tmp_path, mixed)).labels["sample"].null_count() == 3
        drawn = [r | {"sample": s} for r, s in zip(ROWS, ("0", "0", "1"), strict=True)]
        assert read(write(tmp_path, drawn)).labels["sample"].to_list() == ["0", "0", "1"]


def test_a_confidence_outside_0_to_1_is_left_out_and_told_once_and_the_label_stays(tmp_path: Path) -> None:
    given = [".9", "90", "sure"]
    page = read(as_csv(tmp_path, [r | {"confidence": c} for r, c in zip(ROWS, given, strict=True)]))
    assert page.labels["confidence"].to_list() == [0.9, None, None]
    assert page.aside.select("record", "value", "cause").rows() == [("labels.csv:3", "90", "confidence_out_of_range")]
    assert page.aside["message"][0].startswith("2 labels ")
    page = read(as_parquet(tmp_path, [r | {"confidence": c} for r, c in zip(ROWS, (0.0, None, 1.5), strict=True)]))
    assert page.labels["confidence"].to_list() == [0.0, None, None]
    assert page.aside["message"][0].startswith("1 labels ")


def test_blind_may_be_true_false_or_unsaid(tmp_path: Path) -> None:
    for write in (as_csv, as_json_lines):
        page = read(write(tmp_path, [r | {"blind": b} for r, b in zip(ROWS, ("False", " yes ", ""), strict=True)]))
        assert page.labels["blind"].to_list() == [False, True, None]
    page = read(as_parquet(tmp_path, [r | {"blind": b} for r, b in zip(ROWS, (False, True, None), strict=True)]))
    assert page.labels["blind"].to_list() == [False, True, None]
    page = read(as_csv(tmp_path, rows(blind="perhaps")))
    assert page.aside["cause"].to_list() == ["unreadable"]


@pytest.mark.parametrize("write", WRITERS)
def test_all_optional_columns_arrive(tmp_path: Path, write: Any) -> None:
    given = {
        "version": "v3",
        "job": "12",
        "run": "r1",
        "reason": "because",
        "order": "AB",
        "execution": "e1",
        "link": "https://example.org/1",
    }
    row = first(read(write(tmp_path, rows(**given))))
    assert {k: row[k] for k in given} == given


# Item facts


@pytest.mark.parametrize("write", WRITERS)
def test_unknown_columns_are_facts_of_the_item_its_first_value_that_is_none_empty(tmp_path: Path, write: Any) -> None:
    page = read(
        write(tmp_path, [r | {"System ": s, "task": "t"} for r, s in zip(ROWS, ("", "gpt", None), strict=True)])
    )
    assert sorted(page.items.rows()) == [("1", "System", "gpt"), ("1", "task", "t")]
    assert page.aside.height == 0


def test_a_fact_that_varies_within_items_keeps_the_first_and_is_told_once_with_its_count(tmp_path: Path) -> None:
    more = [*ROWS, *(r | {"item": "2"} for r in ROWS), ROWS[0] | {"item": "3"}]
    page = read(as_csv(tmp_path, [r | {"tokens": str(i)} for i, r in enumerate(more)]))
    assert page.items.rows() == [("1", "tokens", "0"), ("2", "tokens", "3"), ("3", "tokens", "6")]
    assert page.aside.select("value", "cause").rows() == [("tokens", "fact_varies")]
    assert page.aside["message"][0].startswith("2 items ")
    assert page.labels.height == 7


def test_the_file_of_facts_names_its_item_like_the_labels_or_plainly(tmp_path: Path) -> None:
    labels = written(tmp_path / "x.csv", "trace,dimension,rater,kind,value\n1,S,a,human,4\n")
    columns = {"item": "trace"}
    for header in ("trace", "item", " Item"):
        written(tmp_path / "facts.csv", f"{header},system,kind\n1,b,x\n2,c,\n,d,\n")
        page = read(labels, facts=str(tmp_path / "facts.csv"), columns=columns)
        assert page.items.rows() == [("1", "system", "b"), ("2", "system", "c"), ("1", "kind", "x")]
        assert page.aside.select("record", "cause").rows() == [("facts.csv:4", "no_item")]


def test_facts_of_both_files_are_one(tmp_path: Path) -> None:
    labels = as_csv(tmp_path, [r | {"system": "a"} for r in ROWS])
    written(tmp_path / "facts.jsonl", '{"item": 1, "system": "b", "n": 3}\n{"item": 1, "system": "a"}\n')
    page = read(labels, facts=str(tmp_path / "facts.jsonl"))
    assert page.items.rows() == [("1", "system", "a"), ("1", "n", "3")]
    assert page.aside["cause"].to_list() == ["fact_varies"]


def test_a_file_of_facts_in_the_settings_counts_from_their_folder_like_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study" / "data").mkdir(parents=True)
    as_csv(tmp_path / "study" / "data", ROWS)
    written(tmp_path / "study" / "data" / "facts.csv", "item,system\n1,a\n")
    written(
        tmp_path / "study" / "calibrate.toml",
        '[study]\nname = "s"\n[dimensions.Safety]\nscale = "binary"\nvalues = ["Pass", "Fail"]\n'
        '[sources.people]\nconnector = "files"\nfile = "data/labels.csv"\nfacts = "data/facts.csv"\n',
    )
    monkeypatch.chdir(tmp_path)
    settings = load(Path("study/calibrate.toml")).sources["people"]
    page = next(iter(open_source(settings).pull()))
    assert isinstance(page, Page)
    assert page.items.rows() == [("1", "system", "a")]
