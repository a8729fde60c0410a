"""Each rule of reading a score record, on the smallest record that shows it."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest
from calibrate_langfuse.records import Reader, Rules, labels_of, micros

from calibrate_plugin.connector import SettingsError, SourceSettings
from calibrate_plugin.model import LABELS


def v3(**changes: Any) -> dict[str, Any]:
    """A row as GET /api/public/v3/scores of 4.16.0 gave it with all field groups."""
    row = {
        "id": "s1",
        "projectId": "demo-project",
        "name": "safety",
        "source": "EVAL",
        "timestamp": "2026-11-21T04:30:00.000Z",
        "environment": "default",
        "createdAt": "2026-11-30T21:35:50.066Z",
        "updatedAt": "2026-11-30T21:35:50.066Z",
        "comment": "judge says so",
        "configId": None,
        "metadata": {},
        "authorUserId": None,
        "queueId": None,
        "subject": {"kind": "trace", "id": "t1"},
        "dataType": "BOOLEAN",
        "value": False,
    }
    return row | changes


def v2(**changes: Any) -> dict[str, Any]:
    """A row as GET /api/public/v2/scores of 3.225.4 gave it."""
    row = {
        "id": "s1",
        "projectId": "demo-project",
        "environment": "default",
        "name": "safety",
        "value": 0,
        "source": "EVAL",
        "authorUserId": None,
        "comment": "judge says so",
        "metadata": {},
        "configId": None,
        "queueId": None,
        "executionTraceId": None,
        "createdAt": "2026-11-30T21:35:50.066Z",
        "updatedAt": "2026-11-30T21:35:50.066Z",
        "timestamp": "2026-11-21T04:30:00.000Z",
        "traceId": "t1",
        "observationId": None,
        "sessionId": None,
        "datasetRunId": None,
        "stringValue": "False",
        "dataType": "BOOLEAN",
        "trace": None,
    }
    return row | changes


def read(*rows: dict[str, Any], **rules: Any) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Labels, what was set aside, item facts."""
    reader = Reader(Rules(**rules))
    for row in rows:
        reader.add(row)
    table, page = reader.take()
    return labels_of(table), page.aside, page.items


def one(row: dict[str, Any], **rules: Any) -> dict[str, Any]:
    labels, aside, _ = read(row, **rules)
    assert aside.is_empty(), aside.to_dicts()
    assert len(labels) == 1
    return labels.to_dicts()[0]


def cause(row: dict[str, Any], **rules: Any) -> str:
    labels, aside, _ = read(row, **rules)
    assert labels.is_empty()
    return str(aside["cause"].item())


def test_the_v2_and_the_v3_row_of_one_score_are_the_same_label() -> None:
    assert one(v2()) == one(v3())


def test_a_label_has_every_column_of_the_model() -> None:
    labels, _, _ = read(v3())
    assert dict(labels.schema) == {k: v() if isinstance(v, type) else v for k, v in LABELS.items()}
    row = labels.to_dicts()[0]
    assert row["record"] == "s1"
    assert row["item"] == "t1"
    assert row["field"] == row["rater"] == "safety"
    assert (row["kind"], row["value"], row["state"]) == ("evaluator", "false", "answered")
    assert row["at"] == row["placed"] == datetime(2026, 11, 21, 4, 30, tzinfo=UTC)
    assert row["reason"] == "judge says so"
    assert (row["version"], row["seq"], row["run"], row["job"], row["link"]) == ("", None, None, None, None)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("NUMERIC", 4, "4"),
        ("NUMERIC", 4.0, "4"),
        ("NUMERIC", 0, "0"),
        ("NUMERIC", 0.30000000000000004, "0.30000000000000004"),
        ("NUMERIC", 1e308, "1e+308"),
        ("NUMERIC", "0.5", "0.5"),
        ("BOOLEAN", True, "true"),
        ("CATEGORICAL", "good", '"good"'),
        ("CATEGORICAL", "4", '"4"'),
        ("TEXT", "näive \x00 \u202e", '"näive \\u0000 \u202e"'),
    ],
)
def test_a_typed_value_is_kept_as_json(type_: str, value: Any, text: str) -> None:
    row = one(v3(dataType=type_, value=value))
    assert (row["value"], row["state"]) == (text, "answered")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"dataType": "BOOLEAN", "value": 1, "stringValue": "True"}, "true"),
        ({"dataType": "BOOLEAN", "value": 0, "stringValue": "False"}, "false"),
        ({"dataType": "BOOLEAN", "value": 1, "stringValue": None}, "true"),
        ({"dataType": "BOOLEAN", "value": 1.0, "stringValue": ""}, "true"),
        ({"dataType": "CATEGORICAL", "value": 0, "stringValue": "good"}, '"good"'),
        ({"dataType": "TEXT", "stringValue": "a short text"}, '"a short text"'),
        ({"dataType": "NUMERIC", "value": 0.9}, "0.9"),
    ],
)
def test_a_v2_value_is_read_from_the_part_that_means_it(row: dict[str, Any], text: str) -> None:
    assert one(v2(**row))["value"] == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"dataType": "NUMERIC", "value": None}, None),
        ({"dataType": "NUMERIC", "value": float("nan")}, '"nan"'),
        ({"dataType": "NUMERIC", "value": "N/A"}, '"N/A"'),
        ({"dataType": "NUMERIC", "value": float("inf")}, '"inf"'),
        ({"dataType": "BOOLEAN", "value": 0.5, "stringValue": None}, "0.5"),
        ({"dataType": "CATEGORICAL", "value": 2, "stringValue": None}, "2"),
        ({"dataType": "CATEGORICAL", "value": {"a": float("nan")}}, "\"{'a': nan}\""),
    ],
)
def test_a_value_that_is_no_answer_is_a_failed_label_and_keeps_what_was_said(
    row: dict[str, Any], text: str | None
) -> None:
    label = one(v2(**({"stringValue": None} | row)))
    assert (label["state"], label["value"]) == ("failed", text)


def test_a_zero_is_an_answer_and_an_id_of_zero_or_of_nothing_is_an_id() -> None:
    labels, aside, _ = read(
        v3(id=0, subject={"kind": "trace", "id": 0}, dataType="NUMERIC", value=0),
        v3(id="", subject={"kind": "trace", "id": ""}, dataType="NUMERIC", value=1),
    )
    assert aside.is_empty()
    assert labels.select("record", "item", "value").rows() == [("0", "0", "0"), ("", "", "1")]


def test_api_and_eval_scores_are_of_an_evaluator_named_by_the_score() -> None:
    for source in ("API", "EVAL"):
        row = one(v3(source=source))
        assert (row["kind"], row["rater"]) == ("evaluator", "safety")


def test_an_annotation_counts_for_its_author_in_its_queue() -> None:
    row = one(v3(source="ANNOTATION", authorUserId="u1", queueId="q1"))
    assert (row["kind"], row["rater"], row["job"], row["version"]) == ("annotator", "u1", "q1", None)


def test_an_annotation_without_an_author_is_a_prefill() -> None:
    assert cause(v3(source="ANNOTATION", authorUserId=None)) == "prefilled"


def test_an_author_known_by_name_only_is_that_name() -> None:
    row = v2(source="ANNOTATION", authorUserName="Ann")
    del row["authorUserId"]
    assert one(row)["rater"] == "Ann"


def test_the_name_of_an_author_is_told_beside_the_id() -> None:
    reader = Reader(Rules())
    reader.add(v2(source="ANNOTATION", authorUserId="u1", authorUserName="Ann"))
    assert reader.take()[1].names == {"u1": "Ann"}


def test_api_scores_declared_as_human_are_a_persons() -> None:
    row = v3(source="API", metadata={"reviewer": "bea"})
    label = one(row, human=frozenset(["safety"]), human_rater="reviewer")
    assert (label["kind"], label["rater"]) == ("annotator", "bea")
    label = one(v2(source="API", trace={"userId": "user-0"}), human=frozenset(["safety"]))
    assert (label["kind"], label["rater"]) == ("annotator", "user-0")
    assert one(v3(source="EVAL"), human=frozenset(["safety"]))["kind"] == "evaluator"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"dataType": "CORRECTION", "value": "better"}, "unknown_kind"),
        ({"dataType": "VECTOR", "value": [1]}, "unknown_kind"),
        ({"source": "ORACLE"}, "unknown_kind"),
        ({"name": None}, "unreadable"),
        ({"timestamp": "yesterday"}, "unreadable"),
        ({"timestamp": 17}, "unreadable"),
        ({"subject": None}, "no_item"),
        ({"subject": {"kind": "user", "id": "u"}}, "no_item"),
        ({"subject": {"kind": "session", "id": "x"}}, "other_level"),
    ],
)
def test_what_is_no_label_is_set_aside_with_its_cause_and_stops_nothing(row: dict[str, Any], code: str) -> None:
    labels, aside, _ = read(v3(id="bad", **row), v3(id="good"))
    assert labels["record"].to_list() == ["good"]
    assert aside["cause"].to_list() == [code]
    assert "bad" in aside["message"].item()


def test_the_first_record_of_an_id_wins() -> None:
    labels, _, _ = read(v3(value=True), v3(value=False))
    assert labels["value"].to_list() == ["true"]


def test_only_declared_names_environments_and_time_are_read_and_the_rest_is_left_out_silently() -> None:
    rows = [
        v3(id="a"),
        v3(id="b", name="other"),
        v3(id="c", environment="staging"),
        v3(id="d", timestamp="2026-11-20T23:59:59.999Z"),
    ]
    labels, aside, _ = read(
        *rows, names=frozenset(["safety"]), environments=frozenset(["default"]), since=date(2026, 11, 21)
    )
    assert labels["record"].to_list() == ["a"]
    assert aside.is_empty()


def test_our_own_scores_are_never_labels() -> None:
    rows = [
        v3(id="a", name="calibrate.Safety.agreement", metadata={"calibrate_plugin": "1"}),
        v3(id="b", metadata={"calibrate_plugin": {"report": "x"}}),
        v3(id="c", name="calibrate.Safety.kappa", environment="calibrate"),
    ]
    exported = v2(id="d", name="calibrate.Safety.kappa")
    del exported["metadata"]
    labels, aside, _ = read(*rows, exported)
    assert labels.is_empty()
    assert aside.is_empty()
    assert one(v3(name="calibrate.mine"))["field"] == "calibrate.mine"


SUBJECTS = {
    "trace": {"kind": "trace", "id": "t1"},
    "observation": {"kind": "observation", "id": "o1", "traceId": "t1"},
    "session": {"kind": "session", "id": "x1"},
    "experiment": {"kind": "experiment", "id": "r1"},
}


@pytest.mark.parametrize("level", list(SUBJECTS))
def test_items_are_of_the_declared_level_and_scores_of_others_are_counted(level: str) -> None:
    labels, aside, _ = read(*(v3(id=k, subject=s) for k, s in SUBJECTS.items()), level=level)
    assert labels["item"].to_list() == [SUBJECTS[level]["id"]]
    assert aside["cause"].to_list() == ["other_level"] * 3


@pytest.mark.parametrize(
    ("ids", "level", "item"),
    [
        ({"traceId": "t1"}, "trace", "t1"),
        ({"traceId": "t1", "observationId": "o1"}, "observation", "o1"),
        ({"traceId": None, "sessionId": "x1"}, "session", "x1"),
        ({"traceId": None, "datasetRunId": "r1"}, "experiment", "r1"),
    ],
)
def test_a_v2_row_names_its_object_by_one_of_its_ids(ids: dict[str, Any], level: str, item: str) -> None:
    label = one(v2(**ids), level=level)
    assert label["item"] == item
    assert label["run"] == ("r1" if level == "experiment" else None)


def test_a_lifted_score_of_an_observation_counts_for_its_trace() -> None:
    assert one(v3(subject=SUBJECTS["observation"]), lift=True)["item"] == "t1"
    assert cause(v3(subject=SUBJECTS["session"]), lift=True) == "other_level"


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        ({}, ""),
        ({"job_configuration_id": "cfg"}, "cfg"),
        ({"job_configuration_id": "cfg", "evaluator_id": "ev"}, "ev"),
        ({"job_configuration_id": "cfg", "evaluator_id": "ev", "evaluator_version_id": "ev-2"}, "ev-2"),
        ({"evaluator_version_id": 1.1}, "1.1"),
    ],
)
def test_langfuse_itself_tells_the_version_by_evaluator_then_by_job_configuration(metadata: Any, version: str) -> None:
    assert one(v3(metadata=metadata))["version"] == version


def test_declared_rules_tell_the_version_of_scores_that_langfuse_knows_nothing_about() -> None:
    assert one(v3(metadata={"prompt": "v7"}), version_key="prompt")["version"] == "v7"
    assert one(v3(metadata={"prompt": 2.0}), version_key="prompt")["version"] == "2"
    pattern = re.compile(r"\bprompt (?P<version>v\d+)")
    assert one(v3(comment="by prompt v7, fine"), version_comment=pattern)["version"] == "v7"
    assert one(v3(comment="fine"), version_comment=pattern)["version"] == ""
    label = one(v3(name="safety@v3"), version_suffix=True, names=frozenset(["safety"]))
    assert (label["field"], label["rater"], label["version"]) == ("safety", "safety", "v3")
    assert one(v3(name="safety@v3"))["field"] == "safety@v3"


def test_a_declared_rule_that_finds_a_version_goes_before_langfuses_opaque_ids() -> None:
    metadata = {"prompt": "v7", "evaluator_version_id": "clx"}
    assert one(v3(metadata=metadata), version_key="prompt")["version"] == "v7"
    assert one(v3(metadata={"evaluator_version_id": "clx"}), version_key="prompt")["version"] == "clx"


def test_order_sample_and_confidence_come_from_declared_metadata() -> None:
    label = one(v3(metadata={"o": "AB", "k": 3, "p": 0.75}), order_key="o", sample_key="k", confidence_key="p")
    assert (label["order"], label["sample"], label["confidence"]) == ("AB", "3", 0.75)
    assert one(v3(metadata={"p": 75}), confidence_key="p")["confidence"] is None
    assert one(v3(metadata={"p": True}), confidence_key="p")["confidence"] is None


def category(id_: str, value: str, execution: str | None = "job1", **changes: Any) -> dict[str, Any]:
    metadata = {"job_execution_id": execution} if execution else {}
    return v3(id=id_, dataType="CATEGORICAL", value=value, metadata=metadata, **changes)


def test_categories_of_one_execution_are_one_answer_a_label_set() -> None:
    labels, _, _ = read(
        category("s2", "rude"), category("s1", "harmful"), category("s3", "rude", subject=SUBJECTS["trace"])
    )
    assert labels.select("record", "value", "execution").rows() == [("s1", '["harmful","rude"]', "job1")]
    assert json.loads(labels["value"].item()) == ["harmful", "rude"]


def test_categories_of_several_executions_are_repeats() -> None:
    labels, _, _ = read(category("s1", "rude", "job1"), category("s2", "harmful", "job2"), category("s3", "kind", None))
    assert sorted(labels["value"].to_list()) == ['"harmful"', '"kind"', '"rude"']


def test_sets_of_different_objects_or_names_stay_apart() -> None:
    labels, _, _ = read(
        category("s1", "rude"),
        category("s2", "harmful", subject={"kind": "trace", "id": "t2"}),
        category("s3", "harmful", name="tone"),
    )
    assert len(labels) == 3
    lifted, _, _ = read(
        category("s1", "rude", subject=SUBJECTS["observation"]),
        category("s2", "harmful", subject={"kind": "observation", "id": "o2", "traceId": "t1"}),
        lift=True,
    )
    assert lifted["item"].to_list() == ["t1", "t1"]


def test_a_score_that_one_execution_wrote_twice_is_one_answer() -> None:
    # Two identical scores of one judge execution under different ids: reported for servers before 2026-05.
    twice = [v3(id=i, dataType="NUMERIC", value=0.5, metadata={"job_execution_id": "job1"}) for i in ("b", "a")]
    labels, _, _ = read(*twice)
    assert labels.select("record", "value").rows() == [("a", "0.5")]


def test_different_numbers_of_one_execution_stay_apart() -> None:
    rows = [v3(id=str(v), dataType="NUMERIC", value=v, metadata={"job_execution_id": "job1"}) for v in (0.5, 0.6)]
    assert len(read(*rows)[0]) == 2


def test_a_score_of_a_run_or_of_an_item_of_a_run_names_the_run() -> None:
    reader = Reader(Rules(), runs={"t1": "run-9"})
    reader.add(v3())
    assert labels_of(reader.take()[0])["run"].to_list() == ["run-9"]


def test_links_lead_to_the_trace_and_its_observation() -> None:
    rules = {"url": "https://lf.example/base"}
    assert one(v3(subject={"kind": "trace", "id": "a/b c"}), **rules)["link"] == (
        "https://lf.example/base/project/demo-project/traces/a%2Fb%20c"
    )
    assert one(v3(subject=SUBJECTS["observation"]), level="observation", **rules)["link"] == (
        "https://lf.example/base/project/demo-project/traces/t1?observation=o1"
    )
    assert one(v3(projectId=None), **rules)["link"] is None


def test_facts_of_an_item_are_told_once() -> None:
    _, _, items = read(v3(), v3(id="s2"), v2(id="s3", traceName="chat", userId="u", traceTags='["b", "a"]'))
    assert items.rows() == [
        ("t1", "environment", "default"),
        ("t1", "traceName", "chat"),
        ("t1", "userId", "u"),
        ("t1", "traceTags", "b, a"),
    ]


def test_lone_surrogates_are_replaced_and_lose_nothing_else() -> None:
    labels, aside, _ = read(
        v3(id="a\ud800", comment="x\udfff", dataType="CATEGORICAL", value="y\ud800z"),
        v3(id="b", name="n\ud800", dataType="NOPE", value="\ud800"),
        v3(id="c"),
    )
    assert labels.select("record", "reason", "value").rows()[0] == ("a\ufffd", "x\ufffd", '"y\ufffdz"')
    assert labels["record"].to_list()[1] == "c"
    assert aside["field"].to_list() == ["n\ufffd"]


@pytest.mark.parametrize(
    ("stamp", "iso"),
    [
        ("2026-11-30T21:38:42.295Z", "2026-11-30T21:38:42.295000+00:00"),
        ("2026-11-30T23:38:42.295+02:00", "2026-11-30T21:38:42.295000+00:00"),
        ("2026-11-30 21:38:42.295123", "2026-11-30T21:38:42.295123+00:00"),
    ],
)
def test_times_are_utc(stamp: str, iso: str) -> None:
    value = micros(stamp)
    assert value is not None
    assert pl.Series([value]).cast(pl.Datetime("us", "UTC")).item().isoformat() == iso


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"item": "span"}, "sources.judges.item is 'span'; give one of trace, observation, session, experiment"),
        ({"items": "trace"}, "sources.judges.items is not a setting"),
        ({"lift": "yes"}, "give true or false"),
        ({"lift": True, "item": "session"}, 'needs item = "trace"'),
        ({"version_comment": "(v"}, "not a regular expression"),
        ({"version_comment": "v[0-9]"}, "needs a group named version"),
        ({"environments": "production"}, 'give a list of texts, e.g. ["production"]'),
        ({"version_key": 3}, "give a text"),
    ],
)
def test_a_setting_that_cannot_work_is_named_with_its_way_out(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Rules.of(SourceSettings("judges", "langfuse", options=options))
    assert words in str(raised.value)
