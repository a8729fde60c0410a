"""The two CSV files."""

from __future__ import annotations

import csv as stdlib_csv
import io
from dataclasses import replace

import polars as pl
import pytest
from sample_reports import HOSTILE, hostile, number, other_scales, report, seed, undefined_numbers

from calibrate_plugin.report import csv, display


def _rows(made) -> list[dict[str, str]]:
    file = io.BytesIO()
    csv.write_numbers(made, file)
    return list(stdlib_csv.DictReader(io.StringIO(file.getvalue().decode(), newline="")))


def _one(rows, **wanted):
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]


def test_there_is_one_row_per_dimension_slice_subject_and_statistic():
    rows = _rows(other_scales())
    assert list(rows[0]) == list(csv.COLUMNS)
    keys = [
        tuple(
            row[c]
            for c in ("dimension", "fact", "slice", "subject", "rater_a", "rater_b", "version", "statistic", "kind")
        )
        for row in rows
    ]
    assert len(keys) == len(set(keys))
    assert {row["slice"] for row in rows if row["fact"] == "language"} == {"de", "fr"}
    assert {row["subject"] for row in rows} == {
        "annotators",
        "annotator",
        "annotator_pair",
        "evaluator",
        "evaluator_annotator",
        "evaluator_pair",
        "all_raters",
    }


def test_the_numbers_of_the_worked_example_are_unrounded():
    rows = _rows(seed())
    score = _one(rows, dimension="Safety", subject="annotators", statistic="score")
    assert (score["value"], score["n_items"], score["n_pairs"]) == ("0.625", "4", "")
    kappa = _one(rows, dimension="Safety", subject="annotators", statistic="kappa")
    assert (kappa["value"], kappa["kind"], kappa["n_pairs"], kappa["interval_reason"]) == (
        "0.5",
        "cohen",
        "4",
        "too_few_items",
    )
    judge = _one(rows, dimension="Empathy", subject="evaluator", statistic="kappa")
    assert (judge["rater_a"], judge["version"], judge["value"]) == ("empathy-judge", "v3", "0.2")
    assert _one(rows, dimension="Empathy", subject="annotators", statistic="alpha")["kind"] == "interval"


def test_an_undefined_number_is_an_empty_value_with_a_reason():
    row = _one(_rows(undefined_numbers()), dimension="Same answer", subject="annotators", statistic="kappa")
    assert (row["value"], row["reason"], row["n_pairs"]) == ("", "same_answer", "12")


def test_an_interval_has_its_own_columns():
    row = _one(_rows(other_scales()), dimension="Helpfulness", subject="annotators", statistic="agreement")
    assert (row["low"], row["high"], row["level"], row["method"]) == ("0.7", "0.78", "0.95", "item-bootstrap+3")


def test_a_number_that_is_not_finite_is_refused():
    broken = replace(seed().dimensions[0], human_score=number(float("nan")))
    with pytest.raises(ValueError, match="cannot hold"):
        csv.numbers(report(broken))


def test_hostile_names_come_out_harmless_and_whole():
    rows = _rows(hostile())
    names = {row["rater_a"] for row in rows if row["subject"] == "annotator_pair" and not row["fact"]}
    assert names == {display.cell(name) for name in HOSTILE[:-1]}
    assert "'=HYPERLINK(1)" in names
    for row in rows:
        for value in row.values():
            assert not value.startswith(("=", "@", "+", "\t", "\r"))


def _pairs(n: int, **columns) -> pl.DataFrame:
    base = {
        "dimension": "Safety",
        "item": "tr-1",
        "rater_a": "Asha",
        "kind_a": "annotator",
        "version_a": "",
        "value_a": "Pass",
        "reason_a": 'says why, and "quotes"',
        "link_a": "https://label-studio.example/tasks/1",
        "rater_b": "judge",
        "kind_b": "evaluator",
        "version_b": "v3",
        "value_b": "Fail",
        "reason_b": None,
        "link_b": "https://langfuse.example/trace/1",
        "agreement": 0.0,
        "counted": True,
        "cause": None,
    }
    frame = pl.DataFrame({"row": range(n)}).select(
        *(pl.lit(v, dtype=pl.String if v is None else None).alias(k) for k, v in base.items() if k not in columns),
        *(pl.Series(k, v) for k, v in columns.items()),
    )
    return frame.select(*base)


def test_pairs_are_written_cell_by_cell_as_the_single_neutraliser_would():
    texts = [text for text in HOSTILE if "\ud800" not in text] + ["-1.5", "+1", "-1+1", "\r\n=1", "＋1", "a\r\nb", None]
    file = io.BytesIO()
    csv.write_pairs(_pairs(len(texts), reason_a=texts, item=texts), file)
    rows = list(stdlib_csv.DictReader(io.StringIO(file.getvalue().decode(), newline="")))
    assert [row["reason_a"] for row in rows] == ["" if text is None else display.cell(text) for text in texts]
    assert [row["item"] for row in rows] == [row["reason_a"] for row in rows]
    assert {row["value_a"] for row in rows} == {"Pass"}


def test_a_missing_text_and_an_empty_one_stay_apart():
    file = io.BytesIO()
    csv.write_pairs(_pairs(2, value_a=["", None]), file)
    first, second = file.getvalue().decode().splitlines()[1:]
    assert '"annotator","","","says' in first
    assert '"annotator","",,"says' in second


def test_an_audit_without_rows_still_has_its_header():
    file = io.BytesIO()
    csv.write_pairs(_pairs(1).clear(), file)
    assert file.getvalue().decode().startswith('"dimension","item","rater_a"')


def test_both_files_are_written_into_one_folder_and_nothing_half_written_stays(tmp_path):
    written = csv.write(seed(), _pairs(3), tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["numbers.csv", "pairs.csv"]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["numbers.csv", "pairs.csv"]
