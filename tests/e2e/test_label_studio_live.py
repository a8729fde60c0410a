"""A real Label Studio, pulled after everything that people do there: each time as if it were read from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from calibrate_label_studio.live import LiveProjects
from label_studio_kept import Kept
from label_studio_server import LabelStudio, Person, choose, rate, write

from calibrate_plugin.connector import Held, SettingsError, SourceSettings, open_source


@pytest.fixture
def connect(label_studio: LabelStudio, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url + "/")
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)

    def connecting(*projects: int, **options: Any) -> LiveProjects:
        settings = SourceSettings(
            "people", "label-studio", options={"projects": list(projects), "item": "data.trace_id"} | options
        )
        source = open_source(settings)
        assert isinstance(source, LiveProjects)
        return source

    return connecting


@pytest.fixture
def people(label_studio: LabelStudio) -> list[Person]:
    return label_studio.people


def test_labels_follow_everything_that_people_do(label_studio: LabelStudio, people: list[Person], connect: Any) -> None:
    ann, ben, cem = people
    project = label_studio.project("Everything")
    tasks = label_studio.replies(project, 4)
    first = label_studio.annotate(tasks[0], ann, choose("safety", "Pass"), rate("empathy", 4), write("why", "kind"))
    second = label_studio.annotate(tasks[0], ben, choose("safety", "Fail"), choose("issues", "tone", "facts"))
    third = label_studio.annotate(tasks[1], cem, choose("safety", "unsure"))
    kept = Kept(connect(project)).pull().check()
    a, b, c = (str(p.id) for p in people)
    assert kept.answers("safety") == {("trace-0", a): "Pass", ("trace-0", b): "Fail", ("trace-1", c): "unsure"}
    assert kept.answers("issues") == {("trace-0", b): ["facts", "tone"]}
    assert kept.labels.filter(pl.col("rater") == a)["reason"].unique().to_list() == ["kind"]
    assert kept.labels["link"][0] == f"{label_studio.url}/projects/{project}/data?task={tasks[0]}"

    kept.pull()  # what lies within the overlap is read again and is the same
    assert kept.gone == {}
    kept.check()

    label_studio.edit(first, ann, result=[choose("safety", "Fail")])  # an edit, which clears the rating and the reason
    fourth = label_studio.annotate(tasks[2], ben, was_cancelled=True)  # a skip
    label_studio.annotate(tasks[0], ann, choose("safety", "Pass"))  # a second answer of the same person
    kept.pull().check()
    assert kept.gone == {}
    states = dict(kept.labels.filter(pl.col("seq") == first).select("field", "state").rows())
    assert states == {"safety": "answered", "issues": "cleared", "empathy": "cleared"}
    assert set(kept.labels.filter(pl.col("seq") == fourth)["state"]) == {"skipped"}

    label_studio.delete(f"/api/annotations/{second}/")
    kept.pull().check()
    assert set(kept.gone.values()) == {"label_deleted"} and len(kept.gone) == 3

    label_studio.delete(f"/api/tasks/{tasks[1]}/")
    kept.pull().check()
    assert set(kept.gone.values()) == {"item_deleted"}
    assert str(third) in next(iter(kept.gone))[0]

    new = label_studio.replies(project, 1, start=9)[0]  # SQLite gives the id of a deleted task again
    label_studio.annotate(new, cem, choose("safety", "Pass"))
    kept.pull().check()
    assert kept.answers("safety")["trace-9", c] == "Pass"

    label_studio.edit(first, ann, ground_truth=True)
    kept.pull().check()
    assert set(kept.labels.filter(pl.col("seq") == first)["kind"]) == {"gold"}


def test_stars_of_an_import_are_not_gold(label_studio: LabelStudio, people: list[Person], connect: Any) -> None:
    project = label_studio.project("Imported")
    said = {"completed_by": people[0].id, "result": [choose("safety", "Pass")]}
    label_studio.add_tasks(
        project, [{"data": {"reply": "r", "trace_id": "t"}, "annotations": [said, said | {"ground_truth": False}]}]
    )
    kept = Kept(connect(project)).pull().check()
    assert kept.labels["kind"].unique().to_list() == ["annotator"]
    starred = kept.labels.filter(pl.col("field") == "safety")["seq"].min()
    label_studio.edit(int(str(starred)), people[1], ground_truth=True)
    kept.pull().check()
    assert kept.labels.filter(pl.col("kind") == "gold")["seq"].unique().to_list() == [starred]


def test_a_deleted_person_is_retired_and_a_removed_member_counts(label_studio: LabelStudio, connect: Any) -> None:
    gone, removed = label_studio.sign_up("gone@example.com"), label_studio.sign_up("removed@example.com")
    project = label_studio.project("People")
    task = label_studio.replies(project, 1)[0]
    label_studio.annotate(task, gone, choose("safety", "Pass"))
    label_studio.annotate(task, removed, choose("safety", "Fail"))
    kept = Kept(connect(project)).pull().check()
    organization = label_studio.call("GET", "/api/current-user/whoami")["active_organization"]
    label_studio.delete(f"/api/organizations/{organization}/memberships/{removed.id}/")
    kept.pull().check()
    assert kept.answers("safety") == {("trace-0", str(gone.id)): "Pass", ("trace-0", str(removed.id)): "Fail"}
    label_studio.delete(f"/api/users/{gone.id}/")  # moves no clock of a task
    kept.pull().check()
    assert kept.answers("safety") == {("trace-0", str(removed.id)): "Fail"}
    assert kept.labels.filter(pl.col("retired") == "annotator_deleted")["value"].drop_nulls().to_list() == ['"Pass"']


def test_annotations_that_the_removal_of_duplicates_moves_stay(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    project = label_studio.project("Duplicates")
    same = {"data": {"reply": "r", "trace_id": "t"}}
    tasks = label_studio.add_tasks(project, [same, same])
    label_studio.annotate(tasks[0], people[0], choose("safety", "Pass"))
    label_studio.annotate(tasks[1], people[1], choose("safety", "Fail"))
    kept = Kept(connect(project)).pull().check()
    body = {"selectedItems": {"all": True, "excluded": []}}
    label_studio.call("POST", f"/api/dm/actions/?id=remove_duplicates&project={project}", body)
    kept.pull().check()
    assert len(kept.answers("safety")) == 2
    assert kept.labels["task"].n_unique() == 1


def test_predictions_are_a_judge_where_the_study_says_so(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    project = label_studio.project("Judged")
    tasks = label_studio.replies(project, 2)
    label_studio.annotate(tasks[0], people[0], choose("safety", "Pass"))
    said = {"task": tasks[0], "model_version": "judge-1", "score": 0.25, "result": [choose("safety", "Fail")]}
    prediction = label_studio.call("POST", "/api/predictions/", said)["id"]
    label_studio.call("POST", "/api/predictions/", said | {"model_version": "other"})
    kept = Kept(connect(project, predictions={"judge": ["judge-1"]})).pull().check()
    judged = kept.labels.filter(pl.col("kind") == "evaluator")
    assert judged.select("rater", "version", "value", "confidence").rows() == [("judge", "judge-1", '"Fail"', 0.25)]
    label_studio.call("PATCH", f"/api/predictions/{prediction}/", {"result": [choose("safety", "Pass")]})
    kept.pull().check()
    label_studio.delete(f"/api/predictions/{prediction}/")
    kept.pull(full=True).check()
    assert kept.labels.filter(pl.col("kind") == "evaluator").is_empty()


def test_a_poisoned_task_keeps_its_labels_and_spoils_no_other(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    ann, ben, _ = people
    project = label_studio.project("Poisoned")
    tasks = label_studio.replies(project, 9)
    for task in tasks:
        label_studio.annotate(task, ann, choose("safety", "Pass"))
    kept = Kept(connect(project)).pull().check()
    poison = '{"result": [{"id": "w", "from_name": "why", "to_name": "reply", "type": "textarea", "value": {"text": ["\\ud83d"]}}]}'
    headers = {"Authorization": f"Token {ben.token}", "Content-Type": "application/json"}
    answer = label_studio.http.post(f"/api/tasks/{tasks[4]}/annotations/", content=poison, headers=headers)
    assert answer.status_code == 500  # and yet it is stored
    label_studio.annotate(tasks[7], ben, choose("safety", "Fail"))
    kept.pull()
    assert [a["record"] for a in kept.aside] == [f"task {tasks[4]}"]
    assert kept.gone == {}
    assert ("trace-4", str(ann.id)) in kept.answers("safety")
    assert kept.answers("safety")["trace-7", str(ben.id)] == "Fail"
    kept.pull(full=True)
    assert [a["record"] for a in kept.aside] == [f"task {tasks[4]}"] and kept.gone == {}
    fresh = Kept(connect(project)).pull()  # no snapshot can be made
    assert len(fresh.answers("safety")) == 9 and [a["record"] for a in fresh.aside] == [f"task {tasks[4]}"]
    assert label_studio.call("GET", f"/api/projects/{project}/exports/") == []
    manifest = label_studio.call("GET", f"/api/tasks/?project={project}&fields=all&include=id,annotations")
    worst = next(t for t in manifest["tasks"] if t["id"] == tasks[4])["annotations"][-1]["id"]
    label_studio.delete(f"/api/annotations/{worst}/")
    fresh.pull().check()
    kept.pull().check()


def test_a_deleted_project_retires_its_labels_once_proven(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    stays, goes = label_studio.project("Stays"), label_studio.project("Goes")
    for project in (stays, goes):
        label_studio.annotate(label_studio.replies(project, 1)[0], people[0], choose("safety", "Pass"))
    kept = Kept(connect(stays, goes)).pull().check()
    assert kept.labels["job"].unique().sort().to_list() == sorted((str(stays), str(goes)))
    label_studio.delete(f"/api/projects/{goes}/")
    kept.pull()
    assert set(kept.gone.values()) == {"job_deleted"} and len(kept.gone) == 3
    assert kept.labels["job"].unique().to_list() == [str(stays)]
    kept.pull()
    assert kept.gone == {} and kept.labels.height == 3
    with pytest.raises(SettingsError, match=rf"shows no project {goes}; with this key it shows .*{stays} \(Stays\)"):
        Kept(connect(goes)).pull()


def test_a_lost_membership_holds_and_nothing_is_retired(
    label_studio: LabelStudio, people: list[Person], connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = label_studio.sign_up("reader@example.com")
    project = label_studio.project("Held")
    label_studio.annotate(label_studio.replies(project, 1)[0], people[0], choose("safety", "Pass"))
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", reader.token)
    kept = Kept(connect(project)).pull()
    same = kept.source.identity()
    organization = label_studio.call("GET", "/api/current-user/whoami")["active_organization"]
    label_studio.delete(f"/api/organizations/{organization}/memberships/{reader.id}/")
    for full in (False, True):
        with pytest.raises(Held, match="member of no organization"):
            kept.pull(full)
    assert kept.labels.height == 3
    with pytest.raises(Held):
        kept.source.identity()
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
    assert connect(project).identity() == same  # another key of the same place


def test_a_restored_backup_holds_and_nothing_is_retired(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    project = label_studio.project("Restored")
    task = label_studio.replies(project, 1)[0]
    label_studio.annotate(task, people[0], choose("safety", "Pass"))
    kept = Kept(connect(project)).pull()
    later = pl.col("at").dt.offset_by("1d")
    lost = kept.labels.with_columns(later, pl.lit("99@2026-12-09T00:00:00Z").alias("record"))
    edited = kept.labels.with_columns(later)
    for labels in (pl.concat([kept.labels, lost]), edited):  # what the backup does not have, and has in an older form
        kept.labels = labels
        with pytest.raises(Held, match="gone back in time"):
            kept.pull(full=True)
        assert kept.labels.equals(labels)


def test_a_new_control_and_a_new_study_are_read_from_the_start(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    from label_studio_server import CONFIG

    project = label_studio.project("Reconfigured")
    label_studio.annotate(label_studio.replies(project, 1)[0], people[0], choose("safety", "Pass"))
    kept = Kept(connect(project)).pull()
    assert sorted(kept.labels["field"]) == ["empathy", "issues", "safety"]
    wider = CONFIG.replace("</View>", '<Number name="effort" toName="reply" min="0" max="10"/></View>')
    label_studio.call("PATCH", f"/api/projects/{project}/", {"label_config": wider})
    kept.pull().check()
    assert sorted(kept.labels["field"]) == ["effort", "empathy", "issues", "safety"]
    kept.source = connect(project, item="id")
    kept.pull().check()
    assert set(kept.labels["item"]) == set(kept.labels["task"])


def test_an_empty_project_is_read(label_studio: LabelStudio, connect: Any) -> None:
    kept = Kept(connect(label_studio.project("Empty"))).pull()
    assert kept.labels.is_empty()
    kept.pull(full=True)


def test_a_personal_access_token_reads_as_a_legacy_token_does(
    label_studio: LabelStudio, people: list[Person], connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = label_studio.project("Tokens")
    label_studio.annotate(label_studio.replies(project, 1)[0], people[0], choose("safety", "Pass"))
    legacy = Kept(connect(project)).pull()
    token = label_studio.call("POST", "/api/token/", by=people[2])["token"]
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", token)
    personal = Kept(connect(project)).pull()
    assert personal.labels.equals(legacy.labels)
    assert token not in repr(personal.source.server.__dict__)


def test_an_incremental_pull_costs_what_changed(label_studio: LabelStudio, people: list[Person], connect: Any) -> None:
    project = label_studio.project("Cheap")
    said = {"completed_by": people[0].id, "result": [choose("safety", "Pass")], "ground_truth": False}
    tasks = label_studio.add_tasks(
        project, [{"data": {"reply": "r", "trace_id": f"t{n}"}, "annotations": [said]} for n in range(600)]
    )
    kept = Kept(connect(project)).pull()
    assert kept.labels.height == 1800
    # version, people, project, newest, old snapshots, new snapshot, its bytes, its removal
    assert kept.requests == 8
    for task in tasks[:3]:
        label_studio.annotate(task, people[1], choose("safety", "Fail"))
    kept.pull()
    assert kept.requests == 6  # people, project, newest, what changed, what was there before, the changed tasks
    assert kept.rows == 3 * 6
    kept.check()
    kept.pull()
    assert (kept.requests, kept.rows) == (5, 0)


def test_two_pulls_at_once_do_not_disturb_each_other(
    label_studio: LabelStudio, people: list[Person], connect: Any
) -> None:
    project = label_studio.project("Twice")
    for task in label_studio.replies(project, 3):
        label_studio.annotate(task, people[0], choose("safety", "Pass"))
    one, two = Kept(connect(project)), Kept(connect(project))
    pieces: list[Iterator[Any]] = [iter(k.source.pull()) for k in (one, two)]
    first, second = next(pieces[0]), next(pieces[1])
    assert first.labels.equals(second.labels)
    assert [len(list(p)) for p in pieces] == [3, 3]
