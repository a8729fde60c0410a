"""Results into Label Studio: only what differs, only where it may be seen, and nothing of the team's is touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import polars as pl
import pytest
from calibrate_label_studio.live import LiveProjects
from calibrate_label_studio.push import COUNT, column, columns, described, line
from calibrate_label_studio.server import Server
from fake_label_studio import Fake
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_kept import Kept

from calibrate_plugin.connector import Pushed, Results, SettingsError, SourceSettings
from calibrate_plugin.model import Dimension, Scale, Study
from calibrate_plugin.report.build import Pulled, build, item_agreement

TEAM = {"t": "text", "image": "s3://bucket/a.png", "deep": {"a": [1, None, "ü"]}}


@pytest.fixture
def fake() -> Fake:
    """Four tasks, labelled by two people who differ on the first two."""
    made = Fake()
    made.project()
    for number in range(4):
        task = made.task()
        made.tasks[task]["data"] |= copy.deepcopy(TEAM)
        made.annotate(task, 3, "x")
        made.annotate(task, 4, "y" if number < 2 else "x")
    return made


class Desk:
    """Pull, compute and push, remembering what was written."""

    def __init__(
        self, fake: Fake, projects: tuple[int, ...] = (7,), closed: tuple[int, ...] = (7,), **push: Any
    ) -> None:
        def connect(settings: SourceSettings) -> Server:
            return Server(
                "https://ls.example.com/ls", fake.key, transport=httpx.MockTransport(fake), sleep=lambda seconds: None
            )

        options = {"projects": list(projects), "item": "data.trace_id", "closed": list(closed)}
        self.fake, self.written = fake, dict[str, str]()
        self.source = LiveProjects(SourceSettings("people", "label-studio", push=push, options=options), connect)
        self.kept = Kept(self.source)

    def results(self, name: str = "q", **more: Any) -> Results:
        labels = self.kept.pull().labels.with_columns(field=pl.lit(name))
        study = Study("s", (Dimension(name, Scale("binary", ("x", "y")), ("x", "y")),), resamples=200)
        report, ratings = build(study, Pulled({"people": labels}), datetime(2026, 1, 1, tzinfo=UTC))
        return Results(report, item_agreement(ratings), written=dict(self.written), known=self.kept.known, **more)

    def push(self, **more: Any) -> dict[str, str]:
        self.fake.seen = []
        pushed = self.source.push(self.results(), **more)
        return self._note(pushed)

    def unpush(self) -> dict[str, str]:
        return self._note(self.source.unpush(dict(self.written)))

    def _note(self, pushed: Pushed) -> dict[str, str]:
        assert len({w.target for w in pushed.writes}) == len(pushed.writes)
        for write in pushed.writes:
            if write.outcome in ("written", "unchanged"):
                self.written[write.target] = write.digest
        return {w.target: w.outcome for w in pushed.writes}

    @property
    def writes(self) -> list[str]:
        return [f"{r.method} {r.url.path}" for r in self.fake.seen if r.method != "GET" and "exports" not in r.url.path]


def task_data(number: int) -> dict[str, Any]:
    return {"trace_id": f"trace-{number}", **TEAM}


def ours(fake: Fake) -> list[dict[str, Any]]:
    return [{k: v for k, v in t["data"].items() if k.startswith("calibrate_")} for t in fake.tasks.values()]


def test_what_differs_is_written_once_and_the_same_again_not_at_all(fake: Fake) -> None:
    desk = Desk(fake)
    times = {t["id"]: t["updated_at"] for t in fake.tasks.values()}
    outcomes = desk.push()
    assert set(outcomes.values()) == {"written"}
    assert ours(fake) == [{COUNT: 1, "calibrate_q": 0}] * 2 + [{COUNT: 0, "calibrate_q": 1}] * 2
    assert {t["id"]: t["updated_at"] for t in fake.tasks.values()} == times
    assert desk.writes.count("POST /ls/api/dm/actions/") == 4, "one call for each column and value"
    state = copy.deepcopy((fake.tasks, fake.views, fake.projects))
    assert set(desk.push().values()) == {"unchanged"}
    assert desk.writes == []
    assert (fake.tasks, fake.views, fake.projects) == state


def test_a_dry_run_writes_nothing_and_shows_everything(fake: Fake) -> None:
    desk, state = Desk(fake), copy.deepcopy((fake.tasks, fake.views, fake.projects))
    pushed = desk.source.push(desk.results(), dry_run=True)
    assert desk.writes == [] and (fake.tasks, fake.views, fake.projects) == state
    assert {w.outcome for w in pushed.writes} == {"planned"}
    assert {w.target for w in pushed.writes} == set(desk.push())
    assert [w.detail for w in pushed.writes if w.target.endswith("task/1")] == [
        '{"calibrate_disagreements":1.0,"calibrate_q":0.0}'
    ]


def test_people_who_still_label_see_no_task_of_theirs_marked(fake: Fake) -> None:
    desk = Desk(fake, closed=())
    before = copy.deepcopy(fake.tasks)
    assert set(desk.push()) == {"project/7/description"}
    assert fake.tasks == before and fake.views == {}
    assert set(Desk(fake, closed=(), reveal=True).push()) > {"project/7/tab"}


def test_nothing_is_ever_written_as_a_prediction(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    desk.unpush()
    assert not any("prediction" in str(r.url) or b"prediction" in r.content for r in fake.seen if r.method != "GET" and "exports" not in r.url.path)  # fmt: skip


def test_a_changed_number_changes_only_its_own_columns(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    fake.edit(1, fake.tasks[1]["annotations"][1]["id"], "x")
    outcomes = desk.push()
    assert {t for t, o in outcomes.items() if o == "written"} == {"project/7/description", "project/7/task/1"}
    assert ours(fake)[0] == {COUNT: 0, "calibrate_q": 1}


def test_an_item_without_pairs_loses_its_columns(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    fake.tasks[1]["annotations"].pop()
    fake.tasks[1]["updated_at"] = fake.tick()
    desk.push()
    assert fake.tasks[1]["data"] == task_data(1)
    assert set(desk.push().values()) == {"unchanged"}


def test_what_the_server_does_not_take_is_refused_and_tried_again_the_next_time(fake: Fake) -> None:
    desk = Desk(fake)

    def full(request: httpx.Request) -> httpx.Response | None:
        wanted = request.url.path.endswith("/dm/actions/") and json.loads(request.content)["value"] == 1
        return httpx.Response(500, json={"detail": "disk full"}) if wanted else None

    fake.fault = full
    outcomes = desk.push()
    assert {t for t, o in outcomes.items() if o == "refused"} == {f"project/7/task/{n}" for n in fake.tasks}
    assert ours(fake)[0] == {"calibrate_q": 0}
    fake.fault = lambda request: None
    assert {o for t, o in desk.push().items() if "/task/" in t} == {"written"}
    assert ours(fake)[0] == {COUNT: 1, "calibrate_q": 0}


def test_what_the_server_takes_and_does_not_keep_is_refused(fake: Fake) -> None:
    desk = Desk(fake)
    fake.fault = lambda r: (
        httpx.Response(200, json={"detail": "Updated 2 tasks"}) if r.url.path.endswith("/dm/actions/") else None
    )
    outcomes = desk.push()
    assert "refused" in {o for t, o in outcomes.items() if "/task/" in t}


def test_a_server_without_the_action_is_written_to_task_by_task(fake: Fake) -> None:
    desk = Desk(fake)
    fake.actions = set()
    assert set(desk.push().values()) == {"written"}
    assert ours(fake) == [{COUNT: 1, "calibrate_q": 0}] * 2 + [{COUNT: 0, "calibrate_q": 1}] * 2
    for task in fake.tasks.values():
        assert {k: v for k, v in task["data"].items() if not k.startswith("calibrate_")} == task_data(task["id"])
    reads = [r for r in fake.seen if r.method == "GET" and "/api/tasks/1/" in r.url.path]
    assert reads and all(r.url.params["resolve_uri"] == "false" for r in reads), "data goes back as it was written"


def test_one_project_that_fails_stops_no_other(fake: Fake) -> None:
    fake.project(8)
    desk = Desk(fake, projects=(8, 7))
    results = desk.results()
    del fake.projects[8]
    outcomes = {w.target: w.outcome for w in desk.source.push(results).writes}
    assert outcomes["project/8"] == "refused" and outcomes["project/7/tab"] == "written"


def test_unpush_leaves_what_the_team_wrote_and_nothing_of_ours(fake: Fake) -> None:
    fake.projects[7]["description"] = "Ours is\nthe team's."
    fake.views[99] = {"id": 99, "project": 7, "data": {"title": "Disagreements", "filters": {"items": []}}}
    before = copy.deepcopy((fake.views, fake.projects, {k: t["data"] for k, t in fake.tasks.items()}))
    desk = Desk(fake)
    desk.push()
    assert [v["data"]["title"] for v in fake.views.values()] == ["Disagreements", "Disagreements (calibrate)"]
    outcomes = desk.unpush()
    assert set(outcomes.values()) == {"written"} and set(outcomes) >= {"project/7/task/1", "project/7/tab"}
    assert (fake.views, fake.projects, {k: t["data"] for k, t in fake.tasks.items()}) == before
    assert set(desk.unpush().values()) <= {"unchanged"}


def test_unpush_finds_by_its_mark_what_nobody_remembers(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    desk.written = {}
    desk.unpush()
    assert ours(fake) == [{}] * 4 and fake.projects[7]["description"] == ""
    assert [v["data"] for v in fake.views.values()] == [{"title": "Default"}], "nobody remembers whose that one is"


def test_unpush_reaches_projects_that_left_the_study_and_forgets_those_that_are_gone(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    fake.project(8)
    later = Desk(fake, projects=(8,), closed=())
    later.written = desk.written | {"project/5/task/9": "{}", "project/5/description": "x"}
    outcomes = later.unpush()
    assert ours(fake) == [{}] * 4
    assert outcomes["project/5/task/9"] == outcomes["project/5/description"] == "unchanged"


def test_a_default_tab_that_the_team_has_changed_since_stays(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    first = next(v for v in fake.views.values() if v["data"]["title"] == "Default")
    first["data"] = {"title": "Default", "ordering": ["tasks:id"]}
    assert desk.unpush()["project/7/default-tab"] == "unchanged"
    assert list(fake.views.values()) == [first]


def test_our_tab_keeps_what_the_team_set_on_it(fake: Fake) -> None:
    desk = Desk(fake)
    desk.push()
    tab = next(v["data"] for v in fake.views.values() if v["data"]["title"] == "Disagreements")
    hidden = ["data.deep", "data.image", "data.trace_id", "inner_id", f"data.{COUNT}", "data.calibrate_q"]
    assert tab["hiddenColumns"] == {"explore": ["tasks:inner_id"], "labeling": [f"tasks:{name}" for name in hidden]}
    tab["columnsWidth"] = {"tasks:id": 90}
    tab["hiddenColumns"]["explore"].append("tasks:data.t")
    tab["ordering"] = ["tasks:id"]
    assert desk.push()["project/7/tab"] == "written"
    assert tab != (now := next(v["data"] for v in fake.views.values() if v["data"]["title"] == "Disagreements"))
    assert now["columnsWidth"] == {"tasks:id": 90} and "tasks:data.t" in now["hiddenColumns"]["explore"]
    assert now["ordering"] == [f"-tasks:data.{COUNT}"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "NEW"),
        ("Team.\n", "Team.\n\nNEW"),
        ("Team.\n\n[calibrate-plugin] old", "Team.\n\nNEW"),
        ("[calibrate-plugin] old\nTeam below.", "NEW\nTeam below."),
        ("A\n[calibrate-plugin] old\nB\n[calibrate-plugin] older\nC", "A\nNEW\nB\n\nC"),
        ("They say [calibrate-plugin] is fine", "They say [calibrate-plugin] is fine\n\nNEW"),
    ],
)
def test_our_line_is_replaced_where_it_stands(before: str, after: str) -> None:
    new = "[calibrate-plugin] new"
    assert described(before, new) == after.replace("NEW", new)
    assert described(described(before, new), new) == described(before, new)


@settings(deadline=None, derandomize=True)
@given(st.text().filter(lambda t: "[calibrate-plugin]" not in t))
def test_the_teams_words_come_back_as_they_were(text: str) -> None:
    gone = described(described(text, "[calibrate-plugin] new"), None)
    assert gone == text.rstrip() and described(text, None) == text


@settings(deadline=None, derandomize=True)
@given(st.lists(st.text(), unique=True, max_size=6))
def test_every_dimension_has_a_column_of_its_own(names: list[str]) -> None:
    found = columns([*names, "disagreements", "Disagreements", "a.b", "a b"])
    assert len(set(found.values())) == len(found) and COUNT not in found.values()
    assert all(c.startswith("calibrate_") and c.isascii() and c.replace("_", "").isalnum() for c in found.values())


def test_columns_are_named_after_their_dimensions() -> None:
    assert [column(n) for n in ("Safety", "Is it safe?", "…")] == [
        "calibrate_Safety",
        "calibrate_Is_it_safe",
        "calibrate_dimension",
    ]


def test_the_line_is_one_line_whatever_a_dimension_is_called(fake: Fake) -> None:
    desk = Desk(fake)
    text = line(desk.results("q\n<b>\x1b[31m[x]\u202e" + "y" * 2000).report.dimensions)
    assert "\n" not in text and "\x1b" not in text and "\u202e" not in text and len(text) == 1000
    assert line(desk.results().report.dimensions) == "[calibrate-plugin] q: people 50 %, kappa 0.00, 4 items"


@pytest.mark.parametrize(
    ("push", "closed", "message"),
    [
        ({"revael": True}, (), r"push\.people\.revael: Label Studio knows no such key"),
        ({"reveal": "yes"}, (), r"push\.people\.reveal is 'yes'"),
        ({}, ("7",), "closed is"),
    ],
)
def test_push_settings_that_cannot_work_say_so(fake: Fake, push: dict[str, Any], closed: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Desk(fake, closed=closed, **push)


@pytest.mark.parametrize("number", range(1, 12))
def test_a_connection_lost_at_any_request_of_a_push_is_mended_by_the_next(fake: Fake, number: int) -> None:
    desk, whole = Desk(fake), copy.deepcopy(fake)
    Desk(whole).push()
    results: Callable[[], Results] = desk.results
    first = results()
    count = 0

    def cut(request: httpx.Request) -> Exception | None:
        nonlocal count
        count += 1
        return httpx.ReadError("cut") if count >= number else None

    fake.fault = cut
    desk._note(desk.source.push(first))
    fake.fault = lambda request: None
    desk.push()
    assert ours(fake) == ours(whole)
    assert fake.projects == whole.projects
    assert sorted(v["data"]["title"] for v in fake.views.values()) == ["Default", "Disagreements"]
