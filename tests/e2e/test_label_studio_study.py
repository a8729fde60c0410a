"""A study on a real Label Studio through the commands: check, run, push, push again, unpush."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from label_studio_server import LabelStudio, choose, rate

from calibrate_plugin.cli import main
from calibrate_plugin.connector import Discovers, SourceSettings, open_source

STUDY = """
[study]
name = "support"
resamples = 200

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
abstain = ["unsure"]

[dimensions."Empathy, 1 to 5"]
scale = "rating"
min = 1
max = 5

[sources.people]
connector = "label-studio"
projects = [{projects}]
item = "data.trace_id"
predictions = {{ judge = ["judge-1"] }}
closed = [{closed}]
labels = {{ Safety = "safety", "Empathy, 1 to 5" = "empathy" }}

[push.people]
"""
ANSWERS = {  # item -> (ann, ben, judge) on Safety, (ann, ben) on Empathy: the page of numbers that SEMANTICS shows
    0: (("Pass", "Pass", "Pass"), (4, 4)),
    1: (("Pass", "Fail", "Fail"), (5, 4)),
    2: (("Fail", "Fail", "Pass"), (2, 2)),
    3: (("Fail", "Fail", "Fail"), (3, 2)),
}
Command = Callable[..., Result]


@pytest.fixture
def command(label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)

    def running(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*arguments, "--config", str(tmp_path / "calibrate.toml")])
        assert result.exit_code == code, (result.output, result.exception)
        assert label_studio.token not in result.output
        return result

    return running


def labelled(label_studio: LabelStudio, title: str) -> tuple[int, list[int]]:
    ann, ben, _ = label_studio.people
    project = label_studio.project(
        title, description="What the team wrote.\nTwo lines of it.", show_collab_predictions=False
    )
    tasks = label_studio.replies(project, 5)
    for number, (safety, empathy) in ANSWERS.items():
        for person, verdict, stars in zip((ann, ben), safety, empathy, strict=False):
            label_studio.annotate(tasks[number], person, choose("safety", verdict), rate("empathy", stars))
        said = {"task": tasks[number], "model_version": "judge-1", "result": [choose("safety", safety[2])]}
        label_studio.call("POST", "/api/predictions/", said)
    return project, tasks


def state(label_studio: LabelStudio, project: int) -> dict[str, Any]:
    listed = label_studio.call(
        "GET", f"/api/tasks/?project={project}&fields=all&page_size=100&include=id,data,updated_at"
    )
    return {
        "description": label_studio.call("GET", f"/api/projects/{project}/")["description"],
        "views": label_studio.call("GET", f"/api/dm/views/?project={project}"),
        "data": {task["id"]: task["data"] for task in listed["tasks"]},
        "times": {task["id"]: task["updated_at"] for task in listed["tasks"]},
    }


def test_results_go_back_once_and_come_away_whole(label_studio: LabelStudio, command: Command, tmp_path: Path) -> None:
    closed, tasks = labelled(label_studio, "Labelling is over")
    going_on, _ = labelled(label_studio, "Labelling goes on")
    before = {p: state(label_studio, p) for p in (closed, going_on)}
    (tmp_path / "calibrate.toml").write_text(STUDY.format(projects=f"{closed}, {going_on}", closed=closed))

    command("run", "--no-push", "--format", "json", "--output", str(tmp_path / "report.json"))
    safety, empathy = json.loads((tmp_path / "report.json").read_text())["dimensions"]
    assert [safety["annotators"][k]["value"] for k in ("agreement", "kappa")] == [0.75, 0.5]
    assert [empathy["annotators"][k]["value"] for k in ("agreement", "kappa")] == [0.875, pytest.approx(0.6)]
    (judge,) = safety["evaluators"]
    assert (judge["evaluator"], judge["version"]) == ("judge", "judge-1")
    assert [judge[k]["value"] for k in ("agreement", "kappa")] == [0.625, 0.25]

    planned = command("push", "--dry-run").output
    assert f"project/{closed}/tab" in planned and "planned" in planned
    assert {p: state(label_studio, p) for p in (closed, going_on)} == before

    command("push")
    line = (
        "[calibrate-plugin] Safety: people 75 %, kappa 0.50, 4 items; judge judge-1 with people 63 %, kappa 0.25, 4 items"
        " | Empathy, 1 to 5: people 88 %, kappa 0.60, 4 items"
    )
    after = {p: state(label_studio, p) for p in (closed, going_on)}
    for project in (closed, going_on):
        assert after[project]["description"] == f"{before[project]['description']}\n\n{line}"
    assert {k: v for k, v in after[going_on].items() if k != "description"} == {
        k: v for k, v in before[going_on].items() if k != "description"
    }, "people who still label must not see who disagrees"
    assert after[closed]["times"] == before[closed]["times"], "our own columns must not look like changes"
    ours = {
        number: {k: v for k, v in after[closed]["data"][task].items() if k.startswith("calibrate_")}
        for number, task in enumerate(tasks)
    }
    columns = ("calibrate_disagreements", "calibrate_Safety", "calibrate_Empathy_1_to_5")
    assert ours == {
        0: dict(zip(columns, (0, 1, 1), strict=True)),
        1: dict(zip(columns, (2, 0.33, 0.75), strict=True)),
        2: dict(zip(columns, (1, 0.33, 1), strict=True)),
        3: dict(zip(columns, (1, 1, 0.75), strict=True)),
        4: {},
    }
    assert [v["data"]["title"] for v in after[closed]["views"]] == ["Default", "Disagreements"]
    view = after[closed]["views"][1]
    assert set(view["data"]["hiddenColumns"]["labeling"]) >= {f"tasks:data.{c}" for c in columns}
    shown = label_studio.call("GET", f"/api/tasks/?view={view['id']}&include=id")["tasks"]
    assert [task["id"] for task in shown] == [tasks[1], *[t["id"] for t in shown[1:]]]
    assert {task["id"] for task in shown} == set(tasks[1:4])

    assert "written" not in command("push").output, "the same results again write nothing"
    assert {p: state(label_studio, p) for p in (closed, going_on)} == after
    again = command("run", "--format", "json", "--output", str(tmp_path / "again.json")).output
    assert "0 added, 0 changed, 0 retired" in again

    # one more answer changes two numbers of one item, and the line
    label_studio.annotate(tasks[3], label_studio.people[2], choose("safety", "Pass"))
    command("run", "--format", "json", "--output", str(tmp_path / "again.json"))
    later = state(label_studio, closed)
    assert later["data"][tasks[3]]["calibrate_Safety"] == 0.5
    assert {t: d for t, d in later["data"].items() if t != tasks[3]} == {
        t: d for t, d in after[closed]["data"].items() if t != tasks[3]
    }
    assert (
        later["description"].count("[calibrate-plugin]") == 1 and later["description"] != after[closed]["description"]
    )

    command("unpush", "--yes")
    cleaned = {p: state(label_studio, p) for p in (closed, going_on)}
    for project in (closed, going_on):
        for what in ("description", "views", "data"):
            assert cleaned[project][what] == before[project][what], what
    names = {c["id"] for c in label_studio.call("GET", f"/api/dm/columns?project={closed}")["columns"]}
    assert not any(name.startswith("calibrate_") for name in names)


def test_columns_go_when_a_project_opens_again(label_studio: LabelStudio, command: Command, tmp_path: Path) -> None:
    project, _ = labelled(label_studio, "Opens again")
    own = {"title": "Disagreements", "filters": {"conjunction": "and", "items": []}}
    label_studio.call("POST", "/api/dm/views/", {"project": project, "data": own})
    before = state(label_studio, project)
    study = tmp_path / "calibrate.toml"
    study.write_text(STUDY.format(projects=project, closed="") + "reveal = true\n")
    command("run")
    titles = [v["data"]["title"] for v in state(label_studio, project)["views"]]
    assert titles == ["Disagreements", "Disagreements (calibrate)"], "the team's own tab of that name is left alone"
    study.write_text(STUDY.format(projects=project, closed=""))
    command("run")
    after = state(label_studio, project)
    assert (after["data"], after["views"]) == (before["data"], before["views"])
    command("run")
    assert state(label_studio, project) == after


def test_a_server_without_the_action_gets_its_columns_task_by_task(
    label_studio: LabelStudio, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrate_label_studio.server import Server

    project, tasks = labelled(label_studio, "No such action")
    (tmp_path / "calibrate.toml").write_text(STUDY.format(projects=project, closed=project))
    right = Server.write

    def without(self: Server, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        if params and params.get("id") == "add_data_field":
            params = params | {"id": "no_such_action"}
        return right(self, method, path, body, params)

    monkeypatch.setattr(Server, "write", without)
    command("run")
    data = state(label_studio, project)["data"][tasks[1]]
    assert data == {
        "reply": "reply 1", "trace_id": "trace-1", "system": "B",
        "calibrate_Safety": 0.33, "calibrate_Empathy_1_to_5": 0.75, "calibrate_disagreements": 2,
    }  # fmt: skip


def test_check_says_what_stands_in_the_way(label_studio: LabelStudio, command: Command, tmp_path: Path) -> None:
    good, _ = labelled(label_studio, "Good")
    bad = label_studio.project("Bad", maximum_annotations=1)
    label_studio.add_tasks(
        bad, [{"data": {"reply": "r"}, "predictions": [{"model_version": "m", "result": [choose("safety", "Pass")]}]}]
    )
    label_studio.call(
        "POST",
        "/api/webhooks/",
        {
            "project": bad,
            "url": "http://localhost:1/x",
            "actions": [],
            "is_active": True,
            "send_for_all_actions": False,
        },
    )
    study = tmp_path / "calibrate.toml"
    study.write_text(STUDY.format(projects=f"{good}, {bad}, 99999", closed="").replace('"empathy"', '"warmth"'))
    said = command("check", code=1).output
    for expected in (
        f"ok people, Label Studio: {label_studio.url} answers to the key of owner@example.com",
        "ok people, version: Label Studio 1.23.2 Community",
        f"ok people, project {good}: 5 tasks, up to 3 annotators each",
        f"✗ people, project {bad}: gives each task to one annotator only (maximum_annotations is 1)",
        'with {"maximum_annotations": 2}',
        f"! people, project {bad}: has predictions and fills the form with those of 'm'",
        f"! people, project {bad}, webhooks: webhook",
        f"✗ people, project {bad}: 1 of the first 1 tasks have no data.trace_id",
        "✗ people, project 99999:",
        "sources.people.labels.Empathy, 1 to 5: no project has a control 'warmth'",
        "no dimension takes the control issues, empathy",
    ):
        assert expected in said, expected
    assert "clock" not in said


def test_check_of_a_wrong_key_is_one_plain_finding(
    label_studio: LabelStudio, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "wrong-key-wrong-key")
    (tmp_path / "calibrate.toml").write_text(STUDY.format(projects="1", closed=""))
    said = command("check", code=1).output
    assert "does not accept the key (Invalid token.); give a valid one in LABEL_STUDIO_API_KEY" in said
    assert "wrong-key" not in said


def test_a_project_proposes_its_dimensions_and_links(label_studio: LabelStudio, command: Command) -> None:
    project, _ = labelled(label_studio, "Proposes")
    source = open_source(SourceSettings("people", "label-studio", options={"projects": [project]}))
    assert isinstance(source, Discovers)
    found = source.discover()
    assert {p.name: p.settings for p in found.dimensions} == {
        "safety": {"scale": "binary", "values": ["Pass", "Fail"], "abstain": ["unsure"]},
        "issues": {"scale": "choices", "values": ["tone", "facts"]},
        "empathy": {"scale": "rating", "min": 1, "max": 5},
    }
    assert found.links["data.trace_id"][:2] == ("trace-0", "trace-1")
    assert "data.system" not in found.links
    assert found.versions == {"prediction": ("judge-1",)}
    assert (project, "Proposes") in source.projects()  # type: ignore[attr-defined]


def test_the_official_client_reads_the_same_annotations(label_studio: LabelStudio, command: Command) -> None:
    sdk = pytest.importorskip("label_studio_sdk")
    from calibrate_label_studio.live import LiveProjects

    from calibrate_plugin.connector import Page

    project, _ = labelled(label_studio, "Two clients")
    source = LiveProjects(SourceSettings("people", "label-studio", options={"projects": [project]}))
    ours = {(s, t) for p in source.pull() if isinstance(p, Page) for s, t in p.labels.select("seq", "task").rows()}
    client = sdk.LabelStudio(
        base_url=label_studio.url, api_key=label_studio.token, httpx_client=source.server.http, max_retries=0
    )
    theirs = {
        (a["id"], str(t.id)) for t in client.tasks.list(project=project, fields="all") for a in t.annotations or ()
    }
    assert ours == theirs and len(theirs) == 8
