"""What a task of Label Studio says, rule by rule."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from calibrate_label_studio.annotations import Reading, Rows, clean, item_of, time_of
from calibrate_label_studio.labelling import Control
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_cases import Reader, annotation, choice, result, task

from calibrate_plugin.connector import SettingsError, SourceSettings, open_source
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, STATES


def test_one_row_per_annotation_and_control(read: Reader) -> None:
    got = read([task(1, annotation(11, 3, choice("safety", "Pass"), result("stars", "rating", rating=4)))])
    assert got.said("record", "seq", "item", "field", "value", "state", "rater", "kind", "job", "task") == [
        ("11@2026-01-01T10:00:00.000000Z", 11, "1", "safety", '"Pass"', "answered", "3", "annotator", "7", "1"),
        ("11@2026-01-01T10:00:00.000000Z", 11, "1", "stars", "4", "answered", "3", "annotator", "7", "1"),
    ]
    assert got.labels["at"].unique().to_list() == [datetime(2026, 1, 1, 10, 0, 0, 20, UTC)]
    assert got.labels.columns == list(LABELS)
    assert len(got.covered) == 1


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("choices", {"choices": ["n/a"]}, '"n/a"'),
        ("choices", {"choices": ["tone", "format"]}, '["format", "tone"]'),
        ("rating", {"rating": 4}, "4"),
        ("rating", {"rating": 0}, "0"),
        ("rating", {"rating": 3.5}, "3.5"),
        ("number", {"number": 87.5}, "87.5"),
        ("pairwise", {"selected": "left"}, '"left"'),
        ("taxonomy", {"taxonomy": [["billing", "refund"], ["tech"]]}, '[["billing", "refund"], ["tech"]]'),
    ],
)
def test_a_value_is_what_the_platform_stores(read: Reader, kind: str, value: dict[str, Any], expected: str) -> None:
    assert read([task(1, annotation(1, 3, result("q", kind, **value)))]).said("value") == [(expected,)]


def test_a_choice_that_was_ever_multiple_is_always_a_list(read: Reader) -> None:
    got = read(
        [task(1, annotation(1, 3, choice("issues", "a"))), task(2, annotation(2, 3, choice("issues", "b", "a")))]
    )
    assert got.said("value") == [('["a"]',), ('["a", "b"]',)]


def test_a_choice_that_the_configuration_calls_multiple_is_a_list(read: Reader, tmp_path: Path) -> None:
    config = tmp_path / "config.xml"
    config.write_text('<View><Choices name="issues" toName="t" choice="multiple"><Choice value="a"/></Choices></View>')
    got = read([task(1, annotation(1, 3, choice("issues", "a")))], project_config="config.xml")
    assert got.said("value") == [('["a"]',)]


def test_two_different_answers_to_one_single_choice_are_both_given(read: Reader) -> None:
    # 1.23.2 accepts them (201); as a list they are outside any single-choice scale, so they count as rejected.
    both = annotation(1, 3, choice("q", "pass"), choice("q", "fail"))
    same = annotation(2, 4, choice("q", "pass"), choice("q", "pass"))
    got = read([task(1, both, same)])
    assert got.said("rater", "value") == [("3", '["fail", "pass"]'), ("4", '"pass"')]


def test_a_missing_control_is_cleared_if_its_own_project_has_it(read: Reader) -> None:
    got = read(
        [
            task(1, annotation(1, 3, choice("a", "x"))),
            task(2, annotation(2, 3, choice("b", "x"))),
            task(3, annotation(3, 3, choice("c", "x")), project=8),
        ]
    )
    assert got.said("record", "field", "state", "value") == [
        ("1@2026-01-01T10:00:00.000000Z", "a", "answered", '"x"'),
        ("1@2026-01-01T10:00:00.000000Z", "b", "cleared", None),
        ("2@2026-01-01T10:00:00.000000Z", "a", "cleared", None),
        ("2@2026-01-01T10:00:00.000000Z", "b", "answered", '"x"'),
        ("3@2026-01-01T10:00:00.000000Z", "c", "answered", '"x"'),
    ]


def test_an_empty_choice_is_cleared(read: Reader) -> None:
    assert read([task(1, annotation(1, 3, choice("q")))]).said("state", "value") == [("cleared", None)]


def test_a_control_of_the_configuration_alone_is_cleared(read: Reader, tmp_path: Path) -> None:
    config = tmp_path / "config.xml"
    config.write_text(
        '<View><Choices name="q" toName="t"><Choice value="x"/></Choices><Rating name="stars" toName="t"/>'
        '<Choices name="part" toName="t" perRegion="true"/><Choices name="n{{idx}}" toName="t"/></View>'
    )
    got = read([task(1, annotation(1, 3, choice("q", "x")))], project_config=str(config))
    assert got.said("field", "state") == [("q", "answered"), ("stars", "cleared")]


def test_an_answer_outside_the_configuration_is_kept(read: Reader, tmp_path: Path) -> None:
    config = tmp_path / "project.json"
    config.write_text(
        json.dumps({"parsed_label_config": {"q": {"type": "Choices", "labels": ["x"], "labels_attrs": {}}}})
    )
    got = read([task(1, annotation(1, 3, choice("old", "x")))], project_config=str(config))
    assert set(got.said("field", "state")) == {("old", "answered"), ("q", "cleared")}


def test_a_skip_is_skipped_for_every_control_whatever_it_carries(read: Reader) -> None:
    got = read(
        [
            task(1, annotation(1, 3, choice("a", "x"), choice("b", "x"))),
            task(
                2,
                annotation(2, 3, choice("a", "y"), was_cancelled=True),
                annotation(3, 4, was_cancelled=True, result=None),
            ),
        ]
    )
    assert got.said("rater", "field", "state", "value")[2:] == [
        ("3", "a", "skipped", None),
        ("3", "b", "skipped", None),
        ("4", "a", "skipped", None),
        ("4", "b", "skipped", None),
    ]


def test_a_draft_is_not_a_label(read: Reader) -> None:
    draft = {"id": 5, "user": "ann", "result": [choice("q", "x")]}
    got = read([task(1, annotation(1, 3, choice("q", "y")), drafts=[draft])])
    assert got.said("value") == [('"y"',)]


def test_a_deleted_person_retires_the_labels(read: Reader) -> None:
    got = read([task(1, annotation(1, None, choice("q", "x")), annotation(2, {"id": None}, choice("q", "y")))])
    assert got.said("rater", "retired", "value") == [
        (None, "annotator_deleted", '"x"'),
        (None, "annotator_deleted", '"y"'),
    ]


def test_a_record_without_a_person_at_all_is_unknown_not_deleted(read: Reader) -> None:
    answer = annotation(1, 3, choice("q", "x"))
    del answer["completed_by"]
    assert read([task(1, answer)]).said("rater", "retired") == [(None, None)]


def test_people_have_ids_and_names(read: Reader) -> None:
    people = [
        {"id": 3, "email": "a@example.com", "first_name": "Ann", "last_name": "Lee"},
        {"id": 4, "email": "b@example.com", "first_name": "", "last_name": ""},
        {"id": 6, "email": "Deleted", "first_name": "Deleted", "last_name": "Deleted"},  # a removed member keeps the id
        {"email": "c@example.com"},
        0,
    ]
    got = read([task(1, *(annotation(n, p, choice("q", "x")) for n, p in enumerate(people)))])
    assert [r for (r,) in got.said("rater")] == ["3", "4", "6", "c@example.com", "0"]
    assert got.names == {"3": "Ann Lee", "4": "b@example.com", "c@example.com": "c@example.com"}
    assert got.labels["retired"].null_count() == 5


def test_a_listing_names_people_beside_their_ids(read: Reader) -> None:
    answers = [
        annotation(1, 3, choice("q", "x"), created_username=" ann1@example.com, 3"),
        annotation(2, 4, choice("q", "x"), created_username="Ben Lee ben@example.com, 4"),
    ]
    assert read({"tasks": [task(1, *answers)]}).names == {"3": "ann1@example.com", "4": "Ben Lee"}


def test_all_answers_of_one_person_are_given_in_their_order(read: Reader) -> None:
    old = annotation(8, 3, choice("q", "x"), updated_at="2026-01-01T10:00:00Z")
    new = annotation(9, 3, choice("q", "y"), updated_at="2026-01-02T10:00:00Z")
    assert [(s, a.day) for s, a in read([task(1, old, new)]).said("seq", "at")] == [(8, 1), (9, 2)]


def test_an_id_that_is_given_out_again_is_another_record(read: Reader) -> None:
    again = annotation(1, 3, choice("q", "y"), created_at="2026-02-01T10:00:00Z")
    got = read([task(1, annotation(1, 3, choice("q", "x"))), task(2, again)])
    assert got.labels["record"].n_unique() == 2


def test_a_record_that_comes_twice_counts_once(read: Reader) -> None:
    got = read([task(1, annotation(1, 3, choice("q", "x"))), task(1, annotation(1, 3, choice("q", "y")))])
    assert got.said("value") == [('"x"',)]
    assert got.aside["cause"].to_list() == ["duplicate"]


@pytest.mark.parametrize(
    ("mark", "blind"),
    [
        ({}, True),
        ({"parent_prediction": 21}, False),
        ({"result": [choice("q", "x") | {"origin": "prediction"}]}, False),
        ({"result": [choice("q", "x") | {"origin": "prediction-changed"}]}, False),
        ({"result": [choice("q", "x") | {"origin": "manual"}]}, True),
    ],
)
def test_a_prefilled_form_is_not_blind(read: Reader, mark: dict[str, Any], blind: bool) -> None:
    assert read([task(1, annotation(1, 3, choice("q", "x")) | mark)]).said("blind") == [(blind,)]


@pytest.mark.parametrize(
    ("mark", "rule", "kind"),
    [
        # an import stores no updated_by and both times at once (observed in 1.23.2); a person's act changes that
        ({"ground_truth": True, "updated_by": None}, "person", "annotator"),
        ({"ground_truth": True, "updated_by": 4}, "person", "gold"),
        ({"ground_truth": True, "updated_by": None, "updated_at": "2026-01-01T11:00:00Z"}, "person", "gold"),
        ({"ground_truth": False, "updated_by": 4}, "person", "annotator"),
        ({"ground_truth": True, "updated_by": None}, "all", "gold"),
        ({"ground_truth": True, "updated_by": 4}, "none", "annotator"),
    ],
)
def test_ground_truth_is_gold_if_a_person_set_it(read: Reader, mark: dict[str, Any], rule: str, kind: str) -> None:
    got = read([task(1, annotation(1, 3, choice("q", "x")) | mark)], ground_truth=rule)
    assert got.said("kind") == [(kind,)]


def test_a_region_is_not_an_answer_about_the_task(read: Reader) -> None:
    span = {
        "id": "s",
        "from_name": "span",
        "to_name": "t",
        "type": "labels",
        "value": {"start": 1, "end": 3, "labels": ["E"]},
    }
    severity = {"id": "s", "from_name": "sev", "to_name": "t", "type": "choices", "value": {"choices": ["major"]}}
    second = {"from_name": "sev", "to_name": "t", "type": "choices", "item_index": 1, "value": {"choices": ["minor"]}}
    link = {"type": "relation", "from_id": "s", "to_id": "s2"}
    got = read([task(1, annotation(1, 3, span, severity, second, link, choice("overall", "bad")))])
    assert got.said("field", "value") == [("overall", '"bad"')]
    assert got.aside.select("field", "cause").rows() == [
        ("span", "per_region"),
        ("sev", "per_region"),
        (None, "per_region"),
    ]
    assert "2 results of sev" in got.aside["message"][1]


def test_regions_that_nobody_asked_for_are_not_mentioned(read: Reader) -> None:
    span = {
        "id": "s",
        "from_name": "span",
        "to_name": "t",
        "type": "labels",
        "value": {"start": 1, "end": 3, "labels": ["E"]},
    }
    got = read([task(1, annotation(1, 3, span, choice("overall", "bad")))], {"Overall": ("overall",)})
    assert got.aside.is_empty()


def test_the_only_textarea_is_the_reason_of_all_others(read: Reader) -> None:
    why = result("why", "textarea", text=["first", "second"])
    got = read([task(1, annotation(1, 3, choice("a", "x"), choice("b", "y"), why))])
    assert got.said("field", "reason") == [("a", "first\nsecond"), ("b", "first\nsecond")]


def test_of_two_textareas_neither_is_a_reason_until_the_study_says_which(read: Reader) -> None:
    answer = annotation(
        1,
        3,
        choice("a", "x"),
        choice("b", "y"),
        result("why", "textarea", text=["W"]),
        result("note", "textarea", text=["N"]),
    )
    assert read([task(1, answer)]).said("field", "reason") == [("a", None), ("b", None)]
    labels = {"Safety": ("a",), "Tone": ("b",)}
    assert read([task(1, answer)], labels, reasons={"Safety": "why"}).said("field", "reason") == [
        ("a", "W"),
        ("b", None),
    ]
    assert read([task(1, answer)], reasons="note").said("field", "reason") == [("a", "N"), ("b", "N")]


def test_a_textarea_is_a_label_where_it_is_asked_for(read: Reader) -> None:
    one, two = result("why", "textarea", text=["W"]), result("why", "textarea", text=["W", "V"])
    got = read([task(1, annotation(1, 3, one), annotation(2, 4, two), annotation(3, 5))], {"Why": ("why",)})
    assert got.said("value", "state", "reason") == [
        ('"W"', "answered", None),
        ('["W", "V"]', "answered", None),
        (None, "cleared", None),
    ]


def test_only_the_controls_wanted_are_read(read: Reader) -> None:
    got = read([task(1, annotation(1, 3, choice("a", "x"), choice("b", "y")))], {"Safety": ("a",)})
    assert got.said("field") == [("a",)]


def prediction(number: int, *results: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "model_version": "judge-1",
        "score": 0.7,
        "result": list(results),
        "created_at": T,
        "updated_at": T,
    } | more


T = "2026-01-01T09:00:00Z"


def test_predictions_are_left_out_until_the_study_wants_them(read: Reader) -> None:
    tasks = [task(1, annotation(1, 3, choice("q", "x")), predictions=[prediction(1, choice("q", "y"))])]
    assert read(tasks).said("kind") == [("annotator",)]
    got = read(tasks, predictions=True)
    assert got.said("record", "kind", "rater", "version", "value", "confidence", "blind", "job")[1:] == [
        ("prediction 1@2026-01-01T09:00:00Z", "evaluator", "prediction", "judge-1", '"y"', 0.7, None, "7")
    ]


def test_predictions_of_named_models_only(read: Reader) -> None:
    given = [
        prediction(1, choice("q", "x")),
        prediction(2, choice("q", "y"), model_version="other"),
        prediction(3, model_version=None),
    ]
    tasks = [task(1, predictions=given)]
    assert read(tasks, predictions=["judge-1"]).said("rater", "version") == [("prediction", "judge-1")]
    got = read(tasks, predictions={"judge": ["judge-1"], "rest": ["other", ""]})
    assert got.said("rater", "version", "state") == [
        ("judge", "judge-1", "answered"),
        ("rest", "other", "answered"),
        ("rest", "", "failed"),
    ]


def test_a_score_outside_0_to_1_is_no_confidence(read: Reader) -> None:
    got = read([task(1, predictions=[prediction(1, choice("q", "x"), score=7.5)])], predictions=True)
    assert got.said("confidence") == [(None,)]


def test_a_judge_is_not_asked_what_it_does_not_answer_and_fails_where_it_cannot_be_read(read: Reader) -> None:
    people = annotation(1, 3, choice("a", "x"), choice("b", "x"))
    bad = {"from_name": "b", "type": "choices"}
    tasks = [
        task(
            1,
            people,
            predictions=[prediction(1, choice("a", "y")), prediction(2, choice("a", "y"), bad), prediction(3)],
        )
    ]
    got = read(tasks, predictions=True)
    assert got.said("seq", "field", "state")[2:] == [
        (1, "a", "answered"),
        (2, "a", "answered"),
        (2, "b", "failed"),
        (3, "a", "failed"),
        (3, "b", "failed"),
    ]


def test_predictions_that_an_export_only_names_are_set_aside(read: Reader) -> None:
    got = read([task(1, annotation(1, 3, choice("q", "x")), predictions=[21])], predictions=True)
    assert got.said("kind") == [("annotator",)]
    assert "snapshot" in got.aside["message"][0]


@pytest.mark.parametrize(
    ("path", "item"),
    [
        ("id", "12"),
        ("data.trace_id", "t-1"),
        ("data.zero", "0"),
        ("data.empty", ""),
        ("data.meta.id", "deep"),
        ("data.dotted.key", "flat"),
        ("meta.run", "1.5"),
        ("data.nothing", None),
        ("data.list", None),
        ("data.trace_id.more", None),
        ("elsewhere", None),
    ],
)
def test_the_item_is_what_the_study_says(path: str, item: str | None) -> None:
    data = {
        "trace_id": "t-1",
        "zero": 0,
        "empty": "",
        "meta": {"id": "deep"},
        "dotted.key": "flat",
        "nothing": None,
        "list": [1],
    }
    assert item_of({"id": 12, "data": data, "meta": {"run": 1.5}}, tuple(path.split("."))) == item


def test_a_task_that_does_not_name_its_item_is_set_aside_and_the_rest_stands(read: Reader) -> None:
    lost = task(1, annotation(1, 3, choice("q", "x"))) | {"data": {}}
    got = read([lost, task(2, annotation(2, 3, choice("q", "x")))], item="data.trace_id")
    assert got.said("item") == [("trace-2",)]
    assert got.aside.select("cause", "rater").rows() == [("no_item", "3")]
    assert got.aside["message"][0] == (
        "export.json: task 1, annotation 1: the task has no data.trace_id; say where it names its item"
    )


def test_short_scalars_of_a_task_are_facts_of_its_item(read: Reader) -> None:
    data = {
        "trace_id": "t-1", "system": "B", "day": 3, "safe": True, "long": "x" * 201, "list": [1], "none": None,
        "calibrate_agreement": 0.5,
    }  # fmt: skip
    got = read([task(1) | {"data": data}], item="data.trace_id")
    assert got.items.rows() == [("t-1", "system", "B"), ("t-1", "day", "3"), ("t-1", "safe", "true")]


def test_links_lead_to_the_task(read: Reader) -> None:
    got = read([task(1, annotation(1, 3, choice("q", "x")))], url="https://ls.example.com/sub/")
    assert got.said("link") == [("https://ls.example.com/sub/projects/7/data?task=1",)]
    assert read([task(1, annotation(1, 3, choice("q", "x")))]).said("link") == [(None,)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (annotation(9, 3) | {"result": "text"}, "task 1, annotation 9: has no list of results"),
        (annotation(9, 3) | {"result": None}, "task 1, annotation 9: has no list of results"),
        ({"id": 9, "updated_at": T}, "task 1, annotation 9: has no list of results"),
        (None, "task 1, annotation without id: is no object: null"),
        (annotation(9, 3, "text"), "task 1, annotation 9: a result is no object: text"),
        (annotation(9, 3, None), "task 1, annotation 9: a result is no object: null"),
        (annotation(9, 3, {"value": {}}), "task 1, annotation 9: a result names no control"),
        (annotation(9, 3, {"from_name": "q", "type": "choices"}), "task 1, annotation 9: the result of q has no value"),
        (
            annotation(9, 3, result("q", "choices", rating=3)),
            'the result of q cannot be read: its value has no "choices"',
        ),
        (annotation(9, 3, result("q", "choices", choices="x")), "its choices are no list of texts"),
        (annotation(9, 3, result("q", "choices", choices=[["x"]])), "its choices are no list of texts"),
        (annotation(9, 3, result("q", "taxonomy", taxonomy=["x"])), "its taxonomy is no list of paths"),
        (annotation(9, 3, result("q", "rating", rating={"x": 1})), 'its "rating" is neither text nor number'),
        (annotation(9, 3, result("q", "ranker", ranker=[1])), "q is a control of type ranker, which is not read"),
    ],
)
def test_a_bad_record_is_set_aside_and_stops_nothing(read: Reader, bad: Any, message: str) -> None:
    got = read([task(1, bad, annotation(10, 4, choice("q", "x")))])
    assert message in got.aside["message"][0]
    assert got.aside["message"][0].startswith("export.json: ")
    assert [row for row in got.said("rater", "value") if row[1] is not None] == [("4", '"x"')]


def test_an_unreadable_answer_is_not_called_cleared(read: Reader) -> None:
    bad = annotation(9, 3, {"from_name": "q", "type": "choices"}, choice("r", "x"))
    assert read([task(1, bad)]).said("field", "state") == [("r", "answered")]


def test_bad_tasks_stop_nothing(read: Reader) -> None:
    got = read([task(1), "text", None, {"id": 2}, task(3, annotation(1, 3, choice("q", "x")))])
    assert got.said("task") == [("3",)]
    assert got.aside["cause"].to_list() == ["unreadable"] * 3


def test_a_result_without_type_is_read_by_its_value(read: Reader) -> None:
    # recorded from Label Studio 1.23.2, which accepts it
    untyped = {"from_name": "overall", "to_name": "t", "value": {"choices": ["bad"]}}
    assert read([task(1, annotation(1, 3, untyped))]).said("field", "value") == [("overall", '"bad"')]


def test_ids_may_be_0_or_empty_and_projects_may_be_missing(read: Reader) -> None:
    no_project = task(0, annotation(0, "", choice("", "")))
    del no_project["project"]
    assert read([no_project]).said("item", "task", "job", "seq", "rater", "field", "value") == [
        ("0", "0", None, 0, "", "", '""')
    ]


def test_half_a_surrogate_pair_is_written_out(read: Reader) -> None:
    text = r'[{"id": 1, "data": {"k\ud83d": "v\ud83d"}, "annotations": [{"id": 1, "completed_by": 3, "result": [{"from_name": "q", "type": "choices", "value": {"choices": ["x\ud83d"]}}]}]}]'
    got = read(text)
    assert json.loads(got.said("value")[0][0]) == r"x\ud83d"
    assert got.items.rows() == [("1", r"k\ud83d", r"v\ud83d")]


def test_numbers_that_are_none_stay_text(read: Reader) -> None:
    text = '[{"id": 1, "annotations": [{"id": 1, "result": [{"from_name": "q", "type": "number", "value": {"number": NaN}}, {"from_name": "r", "type": "number", "value": {"number": 1e999}}]}]}]'
    assert read(text).said("value") == [('"NaN"',), ('"inf"',)]


def test_times_are_utc() -> None:
    noon = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
    assert (
        time_of("2026-01-01T12:00:00Z")
        == time_of("2026-01-01T12:00:00")
        == time_of("2026-01-01T14:00:00+02:00")
        == noon
    )
    assert time_of(noon.timestamp()) == noon
    assert [time_of(v) for v in ("", "yesterday", None, True, 1e300, [])] == [None] * 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"itme": "id"}, "sources.people.itme: Label Studio knows no such key; did you mean item?"),
        ({"item": 3}, "sources.people.item is 3"),
        ({"ground_truth": "yes"}, "sources.people.ground_truth is 'yes'"),
        ({"predictions": "all"}, "sources.people.predictions is 'all'"),
        ({"reasons": ["why"]}, "sources.people.reasons: give the textarea"),
        ({"url": "ls.example.com"}, "sources.people.url is no address"),
        ({"url": "https://me:secret@ls.example.com"}, "sources.people.url holds a user name or password"),
        ({"project_config": "missing.xml"}, "project_config: "),
    ],
)
def test_settings_that_cannot_work_say_so(read: Reader, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read([task(1)], **options)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_first_day_is_refused_rather_than_ignored(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"sources\.people\.since: Label Studio is always read whole"):
        open_source(SourceSettings("people", "label-studio", file=tmp_path / "x.json", since=date(2026, 1, 1)))


@pytest.mark.parametrize(
    "text", ["<View/>", "not xml", "{}", '<!DOCTYPE a [<!ENTITY b "c">]><View/>', '{"q": {"type": "Labels"}}']
)
def test_a_file_that_is_no_labelling_configuration_says_so(read: Reader, tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(SettingsError, match="project_config"):
        read([task(1)], project_config=str(tmp_path / "config"))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "value", "choices", "x", "q"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def hostile(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={key: anything if kind is None else kind | anything for key, kind in fields.items()}
    )


results = hostile(
    {
        "id": None, "from_name": st.text(max_size=3), "origin": None, "item_index": None,
        "type": st.sampled_from(["choices", "rating", "number", "pairwise", "taxonomy", "textarea", "labels", "relation"]),
        "value": hostile({"choices": None, "rating": None, "number": None, "selected": None, "taxonomy": None, "text": None, "start": None}),
    }
)  # fmt: skip
answers = hostile(
    {
        "id": st.integers(), "result": st.lists(results, max_size=3), "completed_by": hostile({"id": None, "email": None, "first_name": None}),
        "was_cancelled": st.booleans(), "ground_truth": st.booleans(), "created_at": None, "updated_at": None, "model_version": None,
        "score": st.floats(), "created_username": None,
    }
)  # fmt: skip
tasks_of_any_kind = hostile(
    {
        "id": None, "project": None, "data": st.dictionaries(st.text(max_size=3), anything, max_size=3),
        "annotations": st.lists(answers, max_size=3), "predictions": st.lists(answers, max_size=2),
    }
)  # fmt: skip


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.lists(tasks_of_any_kind, max_size=3))
def test_whatever_a_server_sends_comes_out_as_labels_and_asides(tasks: list[Any]) -> None:
    rows = Rows(Reading(predictions={"judge": None}, item=("data", "q")), "x.json")
    for one in tasks:
        rows.task(one, {"q": Control("q", "choices")})
    page = rows.page()
    for table, schema in ((page.labels, LABELS), (page.items, ITEMS), (page.aside, ASIDE)):
        assert table.columns == list(schema)
    assert set(page.labels["state"]) <= set(STATES)
    assert page.labels.filter(page.labels["value"].is_null() == (page.labels["state"] == "answered")).is_empty()
    for value in page.labels["value"].drop_nulls():
        json.loads(value, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@settings(deadline=None, derandomize=True)
@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_stored_and_good_text_is_unchanged(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert cleaned == text or any(0xD800 <= ord(c) <= 0xDFFF for c in text)
