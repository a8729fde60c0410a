"""Pulls from a Label Studio that has a bad day: after it, the labels are what they would have been without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from calibrate_label_studio import live
from calibrate_label_studio.live import LiveProjects
from calibrate_label_studio.server import Server
from fake_label_studio import Fake
from label_studio_kept import Kept

from calibrate_plugin.connector import ConnectorError, Held, SettingsError, SourceSettings, Unavailable


def source_of(fake: Fake, *projects: int, key: str = "legacy-token", **options: Any) -> LiveProjects:
    def connect(settings: SourceSettings) -> Server:
        return Server("https://ls.example.com/ls", key, transport=httpx.MockTransport(fake), sleep=lambda seconds: None)

    chosen = {"projects": list(projects or (7,)), "item": "data.trace_id"} | options
    return LiveProjects(SourceSettings("people", "label-studio", options=chosen), connect)


@pytest.fixture
def fake() -> Fake:
    made = Fake()
    made.project()
    for _ in range(6):
        task = made.task()
        made.annotate(task, 3, "x")
        made.annotate(task, 4, "y")
    return made


def days(fake: Fake) -> Iterator[None]:
    """Some days of work: what people do between pulls."""
    tasks = list(fake.tasks)
    yield
    fake.edit(tasks[0], fake.tasks[tasks[0]]["annotations"][0]["id"], "y")
    fake.annotate(fake.task(), 3, "x")
    yield
    fake.tasks[tasks[1]]["annotations"].pop()
    fake.tasks[tasks[1]]["updated_at"] = fake.tick()
    del fake.tasks[tasks[2]]
    yield
    del fake.users[4]
    for task in fake.tasks.values():
        for annotation in task["annotations"]:
            if annotation["completed_by"] == 4:
                annotation["completed_by"] = None
    yield
    fake.tasks[tasks[3]]["annotations"] += fake.tasks[tasks[4]]["annotations"]  # as the removal of duplicates does
    del fake.tasks[tasks[4]]
    yield


@pytest.mark.parametrize("full", [False, True])
def test_each_day_gives_what_a_first_load_gives(fake: Fake, full: bool) -> None:
    kept = Kept(source_of(fake))
    for _ in days(fake):
        kept.pull(full).check()
    causes = set(kept.gone.values())
    assert causes <= {"item_deleted"}
    assert fake.snapshots == {}


@pytest.mark.parametrize(
    "fault", [httpx.ReadError("cut"), httpx.Response(500, html="<html>"), httpx.Response(200, html="<html>")]
)
def test_a_failure_at_any_request_loses_nothing_and_the_next_pull_mends_it(fake: Fake, fault: Any) -> None:
    reached, number = True, 0
    while reached:
        number += 1
        reached = False
        again = Fake()
        again.__dict__ |= {k: v for k, v in fake.__dict__.items() if k not in ("tasks", "users")}
        again.tasks = {k: {**v, "annotations": [*v["annotations"]]} for k, v in fake.tasks.items()}
        again.users = dict(fake.users)
        source = source_of(again)
        kept = Kept(source)
        count = 0

        def failing(request: httpx.Request, number: int = number) -> Any:
            nonlocal count, reached
            count += 1
            # from the n-th request on until the pull gives up
            reached = reached or count >= number
            return fault if count >= number else None

        for _ in days(again):
            before = kept.labels
            again.fault, count = failing, 0
            try:
                kept.pull(full=number % 2 == 0)
            except ConnectorError:
                assert set(kept.gone.values()) <= {"item_deleted", "label_deleted"}
                assert before.height - kept.labels.height <= 4
            again.fault = lambda request: None
            kept.pull().check()
    assert number > 8


def test_one_lost_answer_is_not_even_noticed(fake: Fake) -> None:
    dice = random.Random(7)
    kept = Kept(source_of(fake))
    for _ in days(fake):
        fake.fault = lambda request: httpx.ReadError("cut") if request.method == "GET" and dice.random() < 0.2 else None
        kept.pull()
        fake.fault = lambda request: None
        kept.check()


def test_a_page_size_that_the_server_caps_loses_nothing(fake: Fake) -> None:
    fake.page_cap = 2
    fake.fault = lambda request: httpx.Response(404, html="x") if request.url.path.endswith("/exports/") else None
    kept = Kept(source_of(fake)).pull()
    assert kept.labels.height == 12
    kept.pull(full=True)
    assert kept.gone == {}


def test_poisoned_tasks_are_found_by_halves_and_keep_their_labels(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    tasks = list(fake.tasks)
    fake.poisoned = {tasks[1], tasks[4]}
    for task in tasks:
        fake.annotate(task, 3, "y")
    kept.pull()
    assert sorted(a["record"] for a in kept.aside) == sorted(f"task {t}" for t in fake.poisoned)
    assert kept.gone == {} and kept.labels.height == 12 + 4
    kept.pull(full=True)
    assert len(kept.aside) == 2 and kept.gone == {}
    kept.source = source_of(fake, ground_truth="all")  # read anew, and no snapshot can be made
    kept.pull()
    assert kept.gone == {} and kept.labels.height == 12 + 4
    fake.poisoned = set()
    kept.pull().check()
    assert kept.aside == [] and kept.labels.height == 18


def test_half_a_snapshot_is_not_taken_for_the_whole(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    kept.source = source_of(fake, ground_truth="all")
    for half in (b"[]", fake.list_tasks(httpx.QueryParams({"project": 7, "page_size": 3, "query": '{"filters": {"items": []}, "ordering": ["tasks:id"]}'})).content):  # fmt: skip
        fake.fault = lambda request, half=half: httpx.Response(200, content=half, headers={"content-type": "application/json"}) if request.url.path.endswith("/download") else None  # fmt: skip
        with pytest.raises(Unavailable, match="only part of the snapshot came"):
            kept.pull()
        assert kept.labels.height == 12 and kept.gone == {} and fake.snapshots == {}


def test_a_snapshot_with_too_few_tasks_is_not_taken_for_the_whole(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Fake.export

    def short(self: Fake, *args: Any) -> httpx.Response:
        there, self.tasks = self.tasks, dict(list(self.tasks.items())[:4])
        try:
            return right(self, *args)
        finally:
            self.tasks = there

    monkeypatch.setattr(Fake, "export", short)
    kept = Kept(source_of(fake))
    with pytest.raises(Unavailable, match="4 of 6 tasks came; nothing was changed"):
        kept.pull()
    assert kept.cursor is None


@pytest.mark.parametrize(
    "lie",
    [
        {"total": 5, "tasks": []},
        {"tasks": []},
        [],
        {"total": 1, "tasks": [{"id": "x"}]},
        {"total": 1, "tasks": ["x"]},
    ],
)
def test_a_listing_that_makes_no_sense_changes_nothing(fake: Fake, lie: Any) -> None:
    kept = Kept(source_of(fake)).pull()
    fake.annotate(next(iter(fake.tasks)), 3, "y")
    fake.fault = lambda request: httpx.Response(200, json=lie) if request.url.path.endswith("/api/tasks/") else None
    for full in (False, True):
        with pytest.raises(Unavailable):
            kept.pull(full)
    assert kept.labels.height == 12 and kept.gone == {}


def test_a_listing_that_repeats_itself_ends(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    page = {
        "total": 99,
        "tasks": [{"id": t, "updated_at": fake.tick(), "annotations": []} for t in list(fake.tasks)[:2]],
    }
    fake.fault = lambda request: httpx.Response(200, json=page) if request.url.path.endswith("/api/tasks/") else None
    with pytest.raises(Unavailable, match="repeats tasks"):
        kept.pull(full=True)


@pytest.mark.parametrize("how", ["everything is asked for", "somebody left"])
def test_a_task_missing_from_one_list_only_is_not_deleted(fake: Fake, how: str) -> None:
    kept = Kept(source_of(fake)).pull()
    hidden = next(iter(fake.tasks))
    lists = 0

    def flicker(request: httpx.Request) -> httpx.Response | None:
        nonlocal lists
        wanted = "id" if how == "everything is asked for" else "id,updated_at,created_at,completed_by,annotations"
        if lists or request.url.params.get("include") != wanted:
            return None
        lists += 1
        there = fake.tasks.pop(hidden)
        try:
            return fake.list_tasks(request.url.params)
        finally:
            fake.tasks = {hidden: there} | fake.tasks

    del fake.users[1]
    fake.fault = flicker
    kept.pull(full=how == "everything is asked for")
    assert lists == 1 and kept.gone == {}


def asked(fake: Fake, pull: Kept) -> list[str]:
    """The addresses that a pull asks, what it includes of tasks beside them."""
    fake.seen = []
    pull.pull()
    return [f"{r.url.path.removeprefix('/ls/api')} {r.url.params.get('include', '')}".strip() for r in fake.seen]


def test_a_pull_asks_for_what_changed_and_no_more(fake: Fake) -> None:
    quiet = ["/users/", "/projects/7/", "/tasks/ id,updated_at", "/tasks/ id,updated_at,created_at"]
    kept = Kept(source_of(fake)).pull()
    assert asked(fake, kept) == quiet and kept.rows == 0
    task = fake.task()
    fake.annotate(task, 3, "x")
    assert asked(fake, kept) == [*quiet, "/tasks/"] and kept.rows == 1, "a new task is no reason to look at all"
    assert asked(fake, kept) == quiet, "what lies in the overlap and was read is not read again"
    fake.now -= 9.5  # two changes within one overlap
    fake.annotate(task, 4, "x")
    assert asked(fake, kept) == [*quiet, "/tasks/"] and kept.rows == 2
    kept.check()


def test_after_an_import_what_was_read_is_counted_and_not_listed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MANY_SEEN", 3)
    monkeypatch.setattr(live, "OVERLAP", timedelta(seconds=100))
    quiet = ["/users/", "/projects/7/", "/tasks/ id,updated_at", "/tasks/ id,updated_at,created_at", "/tasks/ id"]
    kept = Kept(source_of(fake)).pull()
    first, second = list(fake.tasks)[:2]
    assert asked(fake, kept) == quiet and kept.rows == 0
    last = list(fake.tasks)[-1]
    fake.annotate(last, 3, "x")
    assert asked(fake, kept) == [*quiet, "/tasks/"] and kept.rows == 3
    kept.check()
    # one of them changes with a stamp that lies before the last pull, as when it was stored late
    there = fake.now
    fake.now -= 25
    fake.annotate(second, 3, "y")
    fake.now = there
    assert asked(fake, kept)[-2:] == ["/tasks/ id,updated_at,created_at", "/tasks/"] and kept.rows == 3
    kept.check()
    del fake.tasks[first]
    kept.pull().check()


def test_a_change_that_was_stamped_before_a_pull_and_stored_after_it_is_found(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    late, other = list(fake.tasks)[:2]
    fake.annotate(late, 3, "y")
    slow = fake.tasks[late]
    fake.tasks[late] = {
        **slow,
        "annotations": slow["annotations"][:-1],
        "updated_at": slow["created_at"],
    }  # not stored yet
    fake.annotate(other, 3, "y")
    kept.pull()
    fake.tasks[late] = slow
    kept.pull().check()
    assert kept.labels.height == 14


def test_a_stamp_from_the_future_hides_no_later_change(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    first, second = list(fake.tasks)[:2]
    fake.tasks[first]["updated_at"] = "2999-01-01T00:00:00.000000Z"
    dated = {"date": "Thu, 01 Jan 2026 00:10:00 GMT"}

    def by_the_clock(request: httpx.Request) -> httpx.Response:
        fake.fault = lambda request: None
        answer = fake(request)
        fake.fault = by_the_clock
        answer.headers.update(dated)
        return answer

    fake.fault = by_the_clock
    kept.pull()
    fake.now = 11 * 60
    fake.annotate(second, 3, "y")
    kept.pull()
    assert kept.labels.height == 13


def test_a_vanished_project_is_deleted_only_if_that_is_proven(fake: Fake) -> None:
    fake.project(8)
    kept = Kept(source_of(fake, 7, 8)).pull()
    gone = fake.projects.pop(7)

    fake.organization = None
    with pytest.raises(Held, match="member of no organization"):
        kept.pull()
    fake.organization, fake.edition = 1, "Enterprise"
    with pytest.raises(Held, match="does not tell a lost permission from a deletion"):
        kept.pull()
    fake.edition = "Community"
    listing = {"count": 2, "next": None, "results": [{"id": 7}, {"id": 8}]}
    fake.fault = lambda request: (
        httpx.Response(200, json=listing) if request.url.path.endswith("/api/projects/") else None
    )
    with pytest.raises(Held, match="although it is listed"):
        kept.pull()
    listing["results"] = [{"id": 8}]
    with pytest.raises(Unavailable, match="1 of 2 projects"):
        kept.pull()
    fake.fault = lambda request: httpx.Response(401, json={"detail": "x"}) if "whoami" in request.url.path else None
    with pytest.raises(ConnectorError, match="does not accept the key"):
        kept.pull()
    assert kept.labels.height == 12 and kept.gone == {}

    fake.fault = lambda request: None
    kept.pull()
    assert set(kept.gone.values()) == {"job_deleted"} and kept.labels.is_empty()
    kept.pull()
    fake.projects[7] = gone
    kept.pull().check()
    assert kept.labels.height == 12


def test_a_project_that_never_was_is_a_mistake_in_the_settings(fake: Fake) -> None:
    with pytest.raises(SettingsError, match=r"shows no project 70; with this key it shows 7 \(Project 7\)"):
        Kept(source_of(fake, 70)).pull()


def test_a_list_of_people_that_lost_its_people_retires_nobody(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    fake.fault = lambda request: httpx.Response(200, json=[]) if request.url.path.endswith("/api/users/") else None
    kept.pull()
    assert kept.gone == {} and kept.labels["retired"].null_count() == 12


def test_a_token_that_expires_midway_is_renewed(fake: Fake) -> None:
    calls = 0

    def tokens(request: httpx.Request) -> httpx.Response | None:
        nonlocal calls
        if request.url.path.endswith("/api/token/refresh/"):
            calls += 1
            fake.key = f"access-{calls}"
            return httpx.Response(200, json={"access": fake.key})
        if len(fake.seen) % 4 == 0:
            fake.key = "expired"
        return None

    fake.fault = tokens
    kept = Kept(source_of(fake, key="a.b.c")).pull()
    assert kept.labels.height == 12 and calls >= 2


def test_an_unreadable_cursor_means_a_first_load(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    for cursor in ("", "x", "[]", '{"form": 9}', '{"form": 1, "wanted": "x", "projects": {"7": 3}}'):
        kept.cursor = cursor
        kept.pull().check()
        assert kept.labels.height == 12 and kept.gone == {}


def test_another_project_in_the_study_leaves_the_first_in_peace(fake: Fake) -> None:
    kept = Kept(source_of(fake)).pull()
    fake.project(8)
    fake.annotate(fake.task(8), 3, "x")
    kept.source = source_of(fake, 7, 8)
    kept.pull()
    assert sum(r.method == "POST" for r in fake.seen) == 2  # one snapshot each
    kept.check()


def test_large_tasks_are_asked_for_in_small_pages(fake: Fake) -> None:
    for task in fake.tasks.values():
        task["data"]["t"] = "x" * (1 << 21)
    fake.page_cap = 2
    fake.fault = lambda request: httpx.Response(404, html="x") if request.url.path.endswith("/exports/") else None
    Kept(source_of(fake)).pull()
    sizes = [int(r.url.params["page_size"]) for r in fake.seen if r.url.params.get("fields") == "all"]
    assert sizes[0] == 500 and set(sizes[1:]) == {7}  # 16 MB of 2 MB and a little


def test_what_a_snapshot_left_behind_is_removed(fake: Fake) -> None:
    old = {"id": 55, "title": live.SNAPSHOT, "status": "completed", "created_at": "2020-01-01T00:00:00Z"}
    listed = [old, old | {"id": 56, "title": "somebody's own"}, old | {"id": 57, "created_at": "2099-01-01T00:00:00Z"}]
    fake.snapshots = {55: b"", 56: b"", 57: b""}
    fake.fault = lambda r: (
        httpx.Response(200, json=listed) if r.method == "GET" and r.url.path.endswith("/exports/") else None
    )
    Kept(source_of(fake)).pull()
    assert set(fake.snapshots) == {56, 57}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"projects": None}, "give the projects"),
        ({"projects": ["x"]}, "'x' is no project id"),
        ({"projects": [True]}, "True is no project id"),
        ({"closed": "all"}, "closed is 'all'"),
    ],
)
def test_settings_that_cannot_work_say_so(fake: Fake, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        source_of(fake, **options)
