"""Reading Label Studio's JSON from disk: streamed, packed, broken, or something else altogether."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from calibrate_label_studio import export
from calibrate_label_studio.export import tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_cases import Read, Reader, annotation, choice, task

from calibrate_plugin.connector import ConnectorError, SettingsError, SourceSettings, open_source

TASKS = [task(n, annotation(n, 3, choice("q", "x"), choice("überlang", "ü" * n))) for n in range(30)]


def test_gzip_and_plain_give_the_same(read: Reader) -> None:
    packed = read(gzip.compress(json.dumps(TASKS).encode()), name="export.json.gz")
    assert packed.labels.equals(read(TASKS).labels)


def test_a_page_of_the_api_and_an_export_give_the_same(read: Reader) -> None:
    paged = read({"total": 30, "tasks": TASKS, "more": {"tasks": [1]}})
    assert paged.labels.equals(read(TASKS).labels)


def test_a_byte_order_mark_is_no_matter(read: Reader) -> None:
    assert read(b"\xef\xbb\xbf" + json.dumps(TASKS).encode()).labels.height == 60


def test_an_empty_project_has_no_labels(read: Reader) -> None:
    assert read("[]").labels.is_empty()
    assert read('{"total": 0, "tasks": []}').labels.is_empty()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(chunk=st.integers(1, 400), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_where_a_chunk_ends_does_not_matter(chunk: int, indent: int | None, ascii_only: bool) -> None:
    given_tasks: list[Any] = [
        *TASKS[:4],
        {"annotations": [], "n": [1.5e3, -0, True, None, 'a"\\b😀', "", {}]},
    ]
    text = json.dumps(given_tasks, indent=indent, ensure_ascii=ascii_only).replace('"n":', '"n" :')

    class Drips(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(chunk)

    assert list(tasks(Drips(text.encode()), "x")) == given_tasks


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[\n {"annotations": []},\n {"annotations" []}\n]', "line 3, column 17: Expecting ':' delimiter"),
        ('[\n {"annotations": []}', "line 2, column 21: expected ',' or ']', the file ends"),
        ('[\n {"annotations": []} {}]', "line 2, column 22: expected ',' or ']', found '{'"),
        ('[{"annotations": [}]', "line 1, column 19: Expecting value"),
        ('[{"annotations": []}] x', "line 1, column 23: expected the end of the file, found 'x'"),
        ('{"tasks": [{"annotations": []}], total: 3}', "line 1, column 34: expected a name in double quotes"),
        ('{"tasks": [', "line 1, column 12: Expecting value"),
        ('[{"annotations": ["' + "x" * 50, "line 1, column 19: Unterminated string"),
        ("[" * 100_000, "line 1, column 2: nested too deeply"),
        ('[{"annotations": [' + "9" * 5000 + "]}]", "Exceeds the limit"),
    ],
)
def test_broken_json_names_file_line_and_column(read: Reader, text: str, place: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        read(text)
    assert "export.json: broken JSON at" in str(caught.value)
    assert place in str(caught.value)


def test_the_place_of_a_break_is_right_far_into_a_file(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "CHUNK", 64)
    lines = json.dumps(TASKS, indent=1).split("\n")
    lines[700] = lines[700].replace(":", "!", 1)
    with pytest.raises(ConnectorError, match="line 701, column "):
        read("\n".join(lines))


def test_one_endless_value_is_refused(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LARGEST", 1 << 21)
    with pytest.raises(ConnectorError, match="one value of more than 2 MB"):
        read('[{"annotations": [], "x": "' + "x" * (5 << 20) + '"}]')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"[{\"annotations\": [\"\xff\"]}]", "not UTF-8"),
        ("[]".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b broken gzip", "cannot be read"),
        (gzip.compress(json.dumps(TASKS).encode())[:-20], "cannot be read"),
        (b"PK\x03\x04", "zip archive"),
        (b"<!doctype html><html>", "web page"),
        (b"<annotation><folder/></annotation>", "is XML"),
        (b"0 0.5 0.5 0.25 0.25\n", "YOLO"),
        (b"-DOCSTART- -X- O\nword -X- _ O\n", "CONLL2003"),
        (b"hello", "is no JSON"),
        (b'"annotation_id","annotator","id"\n', "CSV export"),
        (b"annotation_id\tannotator\tid\n", "TSV export"),
        (b'{"images": [], "categories": [], "annotations": []}', "COCO export"),
        (b'[{"id": 1, "q": "x", "annotator": 4, "annotation_id": 2}]', "JSON-MIN"),
        (b'[{"id": 1, "completions": []}]', "before 1.0"),
        (b'{"tasks": [{"id": 1, "annotations_results": ""}]}', "fields=all"),
        (b'[{"data": {"text": "x"}}]', "without annotations"),
        (b'[{"id": 1, "result": [], "completed_by": 3}]', "without their tasks"),
        (b'[{"audio_filepath": "x"}]', "ASR"),
        (b"[1]", "holds no tasks"),
        (b"{}", "holds no Label Studio tasks"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_what_it_is(read: Reader, content: bytes, message: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        read(content)
    assert message in str(caught.value)
    assert "export.json" in str(caught.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.json: cannot be read: No such file"):
        list(open_source(SourceSettings("people", "label-studio", file=tmp_path / "nowhere.json")).pull())


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    long = "x" * 20_000
    with path.open("w") as out:
        out.write("[")
        for n in range(3_000):  # 60 MB
            out.write(("," if n else "") + json.dumps(task(n, annotation(n, 3, choice("q", "x")), data={"text": long})))
        out.write("]")
    tracemalloc.start()
    got = Read(list(open_source(SourceSettings("people", "label-studio", file=path)).pull()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.labels.height == 3_000
    assert peak < 30 << 20


# Recorded from Label Studio 1.23.2, and a real export: they lie beside the checkout.


def test_recorded_export_and_snapshots_and_listing_agree(read: Reader, shared: Path) -> None:
    folder = shared / "recordings" / "label_studio"
    columns = (
        "record",
        "seq",
        "item",
        "field",
        "value",
        "state",
        "rater",
        "kind",
        "job",
        "task",
        "at",
        "reason",
        "blind",
    )
    whole = read(folder / "export_json.json").labels.select(columns)
    first_two = whole.filter(whole["task"].is_in(["1", "2"]))
    for name in ("snapshot_download_json.json", "snapshot_download_json_filtered.json"):
        assert read(folder / name).labels.select(columns).equals(first_two)
    listed = read(folder / "tasks_list_fields_all.json").labels.select(columns)
    assert listed.equals(whole.filter(whole["task"].is_in(["1", "2", "3"])))
    one = read(folder / "task_get.json").labels.select(columns)
    assert one.equals(whole.filter(whole["task"] == "1"))


def test_recorded_export_has_every_kind_of_answer(read: Reader, shared: Path) -> None:
    got = read(shared / "recordings" / "label_studio" / "export_json.json", item="data.trace_id")
    first = got.labels.filter(got.labels["seq"] == 1)
    assert first.select("item", "field", "value", "state", "rater").rows() == [
        ("trace-0000", "verdict", '"pass"', "answered", "3"),
        ("trace-0000", "issues", '["format", "tone"]', "answered", "3"),
        ("trace-0000", "likert", '"4 - agree"', "answered", "3"),
        ("trace-0000", "stars", "4", "answered", "3"),
        ("trace-0000", "score", "87.5", "answered", "3"),
        ("trace-0000", "pref", '"left"', "answered", "3"),
        ("trace-0000", "topic", '[["billing", "refund"], ["tech"]]', "answered", "3"),
    ]
    assert set(first["reason"]) == {"Correct but terse — «ünïcode» ✓"}
    states = dict(got.labels.group_by("state").len().iter_rows())
    # 9 annotations x 7 controls: two skips, two full answers, four with only the verdict, one with nothing
    assert states == {"skipped": 14, "answered": 2 * 7 + 4, "cleared": 4 * 6 + 7}


def test_recorded_prefilled_annotation_is_not_blind(read: Reader, shared: Path) -> None:
    got = read(shared / "recordings" / "label_studio" / "export_json_annotation_from_prediction.json")
    assert set(got.labels["blind"]) == {False}


def test_recorded_oddities_are_set_aside_and_deleted_people_retired(read: Reader, shared: Path) -> None:
    got = read(shared / "recordings" / "label_studio" / "tasks_list_deleted_users.json")
    answers = (
        got.labels.filter(got.labels["state"] == "answered").select("seq", "field", "value", "rater", "retired").rows()
    )
    assert answers == [
        (10251, "overall", '"bad"', "3", None),
        (10253, "overall", '"bad"', "1", None),
        (10256, "r", "3.5", "1", None),
        (10257, "r", "0", "1", None),
        (10258, "overall", '"bad"', "6", None),
        (10259, "overall", '"good"', None, "annotator_deleted"),
    ]
    assert sorted(got.aside["cause"]) == ["per_region"] * 4 + ["unreadable"]


def test_recorded_files_that_hold_no_annotated_tasks_say_what_to_export(read: Reader, shared: Path) -> None:
    folder = shared / "recordings" / "label_studio"
    readable = {
        "export_json.json",
        "export_json_annotation_from_prediction.json",
        "snapshot_download_json.json",
        "snapshot_download_json_filtered.json",
        "task_get.json",
        "tasks_list_deleted_users.json",
        "tasks_list_fields_all.json",
        "tasks_manifest_include.json",
    }
    others = [p for p in sorted(folder.iterdir()) if p.is_file() and p.name not in readable]
    assert len(others) >= 20
    for path in others:
        with pytest.raises(SettingsError, match="choose Export > JSON"):
            read(path)


def test_a_manifest_has_no_answers(read: Reader, shared: Path) -> None:
    got = read(shared / "recordings" / "label_studio" / "tasks_manifest_include.json")
    assert got.labels.is_empty()
    assert got.aside["cause"].to_list() == ["unreadable"] * 6


def test_a_real_export_is_read_without_loss(read: Reader, shared: Path) -> None:
    folder = shared / "data" / "ls_exports"
    expected = json.loads((folder / "expected.json").read_text())["leoka_team_1.json"]
    got = read(folder / "leoka_team_1.json", ground_truth="none")
    labels = got.labels
    assert set(labels["field"]) == {"Category"}
    assert labels["task"].n_unique() == expected["tasks"]
    assert labels["rater"].n_unique() == expected["raters"]
    assert set(labels["kind"]) == {"annotator"}
    assert (labels["state"] == "answered").sum() == labels.height == expected["annotations_with_a_category"]
    per_task = labels.group_by("task").len()["len"].value_counts().rows()
    assert {str(n): count for n, count in per_task} == expected["annotations_per_task"]
    top = Counter(path[0] for value in labels["value"] for path in json.loads(value))
    assert top == expected["top_level"]
    assert got.aside.select("field", "cause").unique().rows() == [("label", "per_region")]
    assert got.labels["job"].unique().to_list() == ["58506"]


def test_the_stars_of_a_real_export_were_set_by_people(read: Reader, shared: Path) -> None:
    # one starred annotation per task, each saved by a person
    got = read(shared / "data" / "ls_exports" / "leoka_team_1.json")
    gold = got.labels.filter(got.labels["kind"] == "gold")
    assert gold.height == gold["task"].n_unique() == 51
