"""Files of scores: shapes, streams, and what is wrong with them said with file and line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calibrate_langfuse import exports, open_source

from calibrate_plugin.connector import ConnectorError, Covered, Page, Scope, SettingsError, SourceSettings
from calibrate_plugin.model import ASIDE, LABELS, frame

ROW = {
    "id": "s1",
    "projectId": "p",
    "name": "safety",
    "source": "EVAL",
    "timestamp": "2026-11-21T04:30:00.000Z",
    "environment": "default",
    "comment": None,
    "metadata": {},
    "authorUserId": None,
    "queueId": None,
    "subject": {"kind": "trace", "id": "t1"},
    "dataType": "NUMERIC",
    "value": 1,
}

# The columns of the web app's export, by an export of a server of autumn 2026.
UI = (
    "id,traceId,sessionId,datasetRunId,timestamp,source,name,dataType,value,stringValue,comment,metadata,observationId,"
    "traceName,userId,traceTags,environment,authorUserName"
)


def settings(path: Path, **options: Any) -> SourceSettings:
    return SourceSettings("judges", "langfuse", file=path, options=options)


def read(path: Path, **options: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    pages: list[Page] = []
    covered: list[Covered] = []
    for part in open_source(settings(path, **options)).pull():
        if isinstance(part, Covered):
            covered.append(part)
        else:
            assert not covered
            pages.append(part)
    assert covered == [Covered(Scope())]
    labels = pl.concat([frame(LABELS), *(page.labels for page in pages)])
    return labels, pl.concat([frame(ASIDE), *(page.aside for page in pages)])


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def error(path: Path) -> str:
    with pytest.raises(ConnectorError) as raised:
        read(path)
    return str(raised.value)


FORMS = {
    "a.jsonl": lambda rows: "\n".join(map(json.dumps, rows)) + "\n",
    "b.ndjson": lambda rows: "\n\n".join(map(json.dumps, rows)),
    "c.json": json.dumps,
    "d.json": lambda rows: json.dumps(rows, indent=2),
    "e.json": lambda rows: json.dumps({"data": rows, "meta": {"limit": 50}}),
    "f.json": lambda rows: json.dumps({"data": rows, "meta": {"limit": 50}}, indent=1),
    "g.json": lambda rows: "\n".join(map(json.dumps, rows)),
    "h.jsonl": lambda rows: "\n".join(json.dumps({"data": [row], "meta": {}}) for row in rows),
    "i.json": lambda rows: " \n [ " + " ,\n".join(map(json.dumps, rows)) + "]\n",
}


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_json_form_of_the_same_scores_gives_the_same_labels(
    tmp_path: Path, name: str, zipped: bool, mark: bytes
) -> None:
    rows = [ROW | {"id": f"s{i}", "value": i, "comment": "Größe, \U0001f468\u200d\U0001f469"} for i in range(5)]
    content = mark + FORMS[name](rows).encode()
    path = written(tmp_path, name + (".gz" if zipped else ""), gzip.compress(content) if zipped else content)
    labels, aside = read(path)
    assert aside.is_empty()
    assert labels.select("record", "value", "reason").rows() == [
        (f"s{i}", str(i), "Größe, \U0001f468\u200d\U0001f469") for i in range(5)
    ]


def test_the_web_apps_csv_is_read_by_its_header(tmp_path: Path) -> None:
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(UI.split(","))
    # id, trace, session, run, time, source, name, type, value, text, comment, metadata, observation, ...
    time = "2026-11-21T04:30:00.000Z"
    meta = '{"evaluator_version_id":"ev-2","job_execution_id":"j1"}'
    rest = ["", "chat", "user-0", '["a","b"]', "production"]
    out.writerow(["s1", "t1", "", "", time, "EVAL", "tone", "CATEGORICAL", "0", "good", 'fine,\n"ok"', meta, *rest, ""])
    out.writerow(["s2", "t1", "", "", time, "ANNOTATION", "tone", "BOOLEAN", "1", "True", "", "{}", *rest, "Ann Bee"])
    out.writerow(["s3", "t1", "", "", time, "API", "q", "NUMERIC", "0.25", "", "", "", *rest, ""])
    out.writerow(["s4", "t1", "", "", time, "ANNOTATION", "tone", "BOOLEAN", "1", "True", "", "{}", *rest, ""])
    labels, aside = read(written(tmp_path, "scores.csv", text.getvalue()))
    by = {row["record"]: row for row in labels.to_dicts()}
    assert by["s1"]["value"] == '"good"'
    assert (by["s1"]["version"], by["s1"]["execution"], by["s1"]["reason"]) == ("ev-2", "j1", 'fine,\n"ok"')
    assert (by["s2"]["value"], by["s2"]["rater"], by["s2"]["kind"]) == ("true", "Ann Bee", "annotator")
    assert (by["s3"]["value"], by["s3"]["reason"]) == ("0.25", None)
    assert aside["cause"].to_list() == ["prefilled"]
    assert "scores.csv:6" in aside["record"].item()


def test_an_older_export_with_fewer_columns_in_another_order_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "old.csv",
        "Name,Value,Trace ID,Timestamp,Extra\nsafety,Pass,t1,2025-01-01T00:00:00Z,x\nempathy,4,t1,,\n",
    )
    labels, _ = read(path)
    assert labels.select("field", "value", "item", "record").rows() == [
        ("safety", '"Pass"', "t1", None),
        ("empathy", "4", "t1", None),
    ]


def test_the_blob_storage_export_in_snake_case_is_read(tmp_path: Path) -> None:
    row = {
        "id": "s1",
        "timestamp": "2026-11-21 04:30:00.000000",
        "project_id": "p",
        "environment": "default",
        "trace_id": "t1",
        "observation_id": None,
        "session_id": None,
        "dataset_run_id": None,
        "name": "tone",
        "value": 0,
        "source": "EVAL",
        "comment": "c",
        "data_type": "CATEGORICAL",
        "string_value": "good",
    }
    human = row | {"id": "s2", "source": "ANNOTATION"}
    labels, aside = read(written(tmp_path, "blob.jsonl", f"{json.dumps(row)}\n{json.dumps(human)}\n"))
    assert labels.select("item", "value").rows() == [("t1", '"good"')]
    assert "no author column" in aside["message"].item()


def test_a_label_set_split_over_the_file_is_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_ROWS", 2)
    shared = {"dataType": "CATEGORICAL", "metadata": {"job_execution_id": "j"}}
    rows = [ROW | {"id": f"s{i}"} for i in range(6)]
    rows.insert(0, ROW | shared | {"id": "c1", "value": "rude"})
    rows.append(ROW | shared | {"id": "c2", "value": "harmful"})
    labels, _ = read(written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert len(labels) == 7
    assert labels.filter(pl.col("execution") == "j")["value"].item() == '["harmful","rude"]'


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "\n\n", "a.csv is empty"),
        ("a.csv", "name,value,traceId\n", "a.csv holds no scores"),
        ("a.jsonl", "", "a.jsonl holds no scores"),
        ("a.json", "[]", "a.json holds no scores"),
        ("a.csv", "name,trace\nx,y\n", "a.csv:1: no score export: needs the columns name and value, has 'name, trace'"),
        ("a.csv", "name,value,Name\n", "a.csv:1: the columns 'name' and 'Name' have one name"),
        ("a.csv", "name,value,extra,extra\n", "a.csv:1: the columns 'extra' and 'extra' have one name"),
        ("a.csv", 'name,value,traceId\nx,"1,t\n', "a.csv:2: broken CSV: unexpected end of data"),
        ("a.csv", 'name,value,traceId\nx,"1"2,t\n', "a.csv:2: broken CSV"),
        ("a.jsonl", json.dumps(ROW) + '\n{"id": "s2", "name"}\n', "a.jsonl:2: broken JSON: Expecting ':' delimiter"),
        ("a.jsonl", '{"id": \n', "a.jsonl:1: broken JSON"),
        ("a.jsonl", "hello\n", "a.jsonl:1: broken JSON"),
        ("a.json", '[\n{"id": 1},\n{"id": 2\n', "a.json:3: broken JSON: the list does not end"),
        ("a.json", '[{"id": 1}\n{"id": 2}]', "a.json:2: broken JSON: a comma is missing before"),
        ("a.json", '[{"id": 1}, nope, ' + "1," * 40 + "2]", "a.json:1: broken JSON: Expecting value"),
        ("a.json", '[{"id": 1}]\n]', "a.json:2: ']' stands after the end of the list"),
        ("a.json", '{\n"data": [\n}', "a.json:3: broken JSON"),
        ("a.csv", b"name,value,traceId\nx,1,t\nx,\xe9,t\n", "a.csv:3: not UTF-8 (byte 0xe9"),
        ("a.jsonl", b'{"id": 1}\n{"id": "\xff"}\n', "a.jsonl:2: not UTF-8 (byte 0xff"),
        ("a.json", b'[{"id": 1},\n{"id": "\xff"}]', "a.json:2: not UTF-8 (byte 0xff"),
        ("a.csv", "name,value\nx,1\n".encode("utf-16"), "a.csv is UTF-16; save it as UTF-8"),
        ("a.jsonl", '{"a": ' + "1" * 5000 + "}\n", "a.jsonl:1: broken JSON"),
        ("a.jsonl", "[" * 100_000, "a.jsonl:1: broken JSON"),
        ("a.jsonl", '{"a": ' * 100_000, "a.jsonl:1: broken JSON: nested too deeply"),
        ("a.csv.gz", gzip.compress(b"name,value,traceId\nx,1,t\n" * 99)[:-20], "a.csv.gz is not a whole gzip file"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, name: str, content: Any, words: str) -> None:
    assert words in error(written(tmp_path, name, content))


@pytest.mark.parametrize(
    ("name", "head", "part"),
    [
        ("a.jsonl", b'{"id": "', b"x"),
        ("a.json", b'[{"id": "', b"x"),
        ("a.csv", b'name,value\n"', b"x\n"),
        ("a.csv", b"", b"x"),
    ],
)
def test_an_endless_line_or_record_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, part: bytes
) -> None:
    monkeypatch.setattr(exports, "LONGEST", 10_000)
    before = csv.field_size_limit(10_000)
    try:
        said = error(written(tmp_path, name, head + part * 3_000_000))
    finally:
        csv.field_size_limit(before)
    assert "longer than" in said or "larger than" in said
    assert said.startswith(f"{name}:")


def test_rows_that_are_no_scores_are_set_aside_with_their_line_and_the_rest_counts(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "name,value,traceId\nx,1,t\nx,1\nx,2,u\n,3,u\n")
    labels, aside = read(path)
    assert labels["value"].to_list() == ["1", "2"]
    assert aside["message"].to_list() == ["a.csv:3: 2 cells under 3 columns", "a.csv:5: a score without a name"]
    path = written(tmp_path, "a.jsonl", f"17\n{json.dumps(ROW)}\nnull\n[1]\n")
    labels, aside = read(path)
    assert len(labels) == 1
    assert aside["record"].to_list() == ["a.jsonl:1", "a.jsonl:3", "a.jsonl:4"]


def test_a_file_that_is_not_there_is_a_matter_of_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"sources.judges.file names .*none.csv, which cannot be read"):
        read(tmp_path / "none.csv")


def test_markup_formulas_and_control_characters_come_through_unchanged(tmp_path: Path) -> None:
    hostile = ["[/]", "<script>", "=1+1", "\x1b[31m", "\x07", "\u202e", "a" * 1_000_000]
    rows = [ROW | {"id": str(i), "dataType": "TEXT", "value": text, "comment": text} for i, text in enumerate(hostile)]
    labels, _ = read(written(tmp_path, "a.json", json.dumps(rows)))
    assert [json.loads(v) for v in labels["value"]] == hostile
    assert labels["reason"].to_list() == hostile


def scores(reply: Any) -> Iterator[dict[str, Any]]:
    """Every score record within a recorded reply."""
    if isinstance(reply, dict):
        if {"id", "name", "source", "timestamp"} <= set(reply):
            yield reply
        for value in reply.values():
            yield from scores(value)
    elif isinstance(reply, list):
        for value in reply:
            yield from scores(value)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "pattern"),
    [(f, p) for f in ("v3_225_4", "v4_16_dual") for p in ("score*_v1_*", "score*_v2_*", "scores_v3_*")]
    + [("v4_16_cloud_region", "score*"), ("v4_16_events_only", "*"), ("v4_16_dual", "missing_legacy_traces/*")],
)
def test_every_recorded_shape_is_read_without_loss(shared: Path, tmp_path: Path, folder: str, pattern: str) -> None:
    rows: dict[str, dict[str, Any]] = {}
    for file in sorted((shared / "recordings" / "langfuse" / folder).glob(f"{pattern}.json")):
        reply = json.loads(file.read_text())
        for row in scores(reply.get("response", {}).get("body") if isinstance(reply, dict) else reply):
            rows.setdefault(row["id"], row)
    assert rows
    path = written(tmp_path, "rows.jsonl", "\n".join(map(json.dumps, rows.values())))
    taken = 0
    for level in ("trace", "observation", "session", "experiment"):
        labels, aside = read(path, item=level)
        assert len(labels) + len(aside) == len(rows)
        assert set(aside["cause"]) <= {"other_level", "prefilled", "unknown_kind", "no_item"}
        assert labels.filter(pl.col("state") != "answered").is_empty()
        for label in labels.to_dicts():
            row = rows[label["record"]]
            value = json.loads(label["value"])
            if row["dataType"] == "BOOLEAN":
                assert value is (row["value"] in (True, 1))
            elif row["dataType"] == "NUMERIC":
                assert value == row["value"]
            else:
                assert value == (row.get("stringValue") or row["value"])
        taken += len(labels)
    not_labels = [
        row
        for row in rows.values()
        if row["dataType"] == "CORRECTION"
        or (row["source"] == "ANNOTATION" and not row.get("authorUserId"))
        or not ({"subject", "traceId", "sessionId", "datasetRunId"} & set(row))
    ]
    assert taken == len(rows) - len(not_labels)
