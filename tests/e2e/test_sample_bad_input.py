"""What goes wrong on the way to blind tasks: said clearly, and nothing half-made is left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from calibrate_label_studio.server import Server
from label_studio_server import LabelStudio
from langfuse_standin import LangfuseStandin
from test_sample_round import SETTINGS, World, answer, call, judge_fails, ran

from calibrate_plugin.store import Store

EVIL = '<img src=x onerror="window.__run=1"><script>window.__run=2</script>'
CONFIG = """<View><Text name="q" value="$input"/><Paragraphs name="item_output" value="$output" nameKey="who" textKey="what"/>
<Choices name="safety" toName="q"><Choice value="Pass"/><Choice value="Fail"/><Choice value="unsure"/></Choices>
<TextArea name="reason" toName="q"/></View>"""


@pytest.fixture
def world(label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "calibrate.toml").write_text(SETTINGS.replace('guideline = "guideline.md"\n', ""))
    with LangfuseStandin() as langfuse:
        for name, value in {
            "LABEL_STUDIO_URL": label_studio.url,
            "LABEL_STUDIO_API_KEY": label_studio.token,
            "LANGFUSE_BASE_URL": langfuse.url,
            "LANGFUSE_PUBLIC_KEY": langfuse.public_key,
            "LANGFUSE_SECRET_KEY": langfuse.secret_key,
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        yield World(label_studio, langfuse, tmp_path)


def add(langfuse: LangfuseStandin, number: int, **io: Any) -> None:
    trace = f"trace-{number}"
    given = {"input": f"question {number}", "output": f"answer {number}", **io}
    langfuse.add_observation(f"obs-{number}", trace, sessionId=f"s-{number // 3}", **given)
    value = "Fail" if judge_fails(number) else "Pass"
    langfuse.add_score(id=f"sc-{number}", name="safety-judge", value=value, traceId=trace, source="EVAL")


def projects(world: World) -> set[int]:
    return {p["id"] for p in world.label_studio.call("GET", "/api/projects/?page_size=1000")["results"]}


def test_what_cannot_be_judged_is_set_aside_and_the_rest_is_shown_whole(world: World) -> None:
    odd: dict[int, dict[str, Any]] = {
        0: {"output": None},
        1: {"output": "   "},
        2: {"output": "x" * 5_000_000},
        3: {"input": EVIL, "output": json.dumps({"answer": EVIL})},
        4: {"input": json.dumps([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://gone.example/a.png"}}]}])},
        5: {"input": "@@@langfuseMedia:type=image/png|id=m1|source=bytes@@@", "output": "a\x00b"},
        6: {"input": None},
    }  # fmt: skip
    for n in range(20):
        add(world.langfuse, n, **odd.get(n, {}))
    world.langfuse.add_score(id="lost", name="safety-judge", value="Pass", traceId="trace-lost", source="EVAL")
    ran("run", "--no-push")
    made = ran("sample", "--n", "21", "--people", "1")
    assert "set aside: 2 items (trace-0, trace-1): it has no output" in made.output
    assert "set aside: 1 item (trace-lost): Langfuse has no such trace" in made.output
    assert "they are not replaced" in made.output and "18 tasks made" in made.output
    data = {t["data"]["trace_id"]: t["data"] for t in world.tasks(world.project())}
    assert len(data) == 18
    assert len(json.dumps(data["trace-2"])) < 300_000
    assert "200,000 of 5,000,000 characters are shown" in data["trace-2"]["output"][-1]["text"]
    assert data["trace-3"]["output"] == [{"author": "answer", "text": EVIL}]
    assert data["trace-4"]["pictures"] == [{"url": "https://gone.example/a.png"}]
    assert "kept in Langfuse" in data["trace-5"]["input"][0]["text"] and data["trace-5"]["output"][0]["text"] == "a␀b"
    assert data["trace-6"]["input"] == [{"author": "", "text": "(nothing was recorded)"}]
    again = ran("sample", "--n", "21", "--people", "1")
    assert "0 tasks made, 18 were there" in again.output and "set aside: 2 items" in again.output

    from playwright.sync_api import sync_playwright

    task = next(t["id"] for t in world.tasks(world.project()) if t["data"]["trace_id"] == "trace-3")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{world.label_studio.url}/user/login")
        page.fill("input[name=email]", world.label_studio.people[1].email)
        page.fill("input[name=password]", "owner-password-123")
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/login" not in url)
        page.goto(f"{world.label_studio.url}/projects/{world.project()}/data?task={task}")
        page.get_by_text("window.__run=2").last.wait_for()
        assert page.get_by_text(EVIL).count() >= 2, "the text is not shown as it is"
        assert page.evaluate("window.__run") is None, "what stands in a trace was run"
        browser.close()


def test_a_project_that_does_not_fit_is_refused_before_anything_is_done(world: World) -> None:
    for n in range(12):
        add(world.langfuse, n)
    ran("run", "--no-push")
    before = Path("calibrate.toml").read_text()
    lacking = world.label_studio.project(
        "lacks it", '<View><Text name="t" value="$text"/><Choices name="other" toName="t"><Choice value="a"/></Choices></View>', maximum_annotations=1
    )  # fmt: skip
    refused = call("sample", "--n", "6", "--project", str(lacking))
    assert refused.exit_code == 2
    for said in (
        "does not ask Safety; it has other",
        "no textarea for the written reason",
        "--show text=input",
        "gives each task to 1 person, and 2 are wanted",
        "Nothing was changed",
    ):
        assert said in " ".join(refused.output.split()), refused.output
    shown = call("sample", "--n", "6", "--project", "999999")
    assert shown.exit_code == 2 and "project 999999" in shown.output
    assert Path("calibrate.toml").read_text() == before
    with Store("calibrate.db") as store:
        assert "sample" not in store.item_facts()["fact"].to_list()


def test_a_project_with_labels_or_predictions_needs_to_be_told(world: World) -> None:
    for n in range(12):
        add(world.langfuse, n)
    ran("run", "--no-push")
    project = world.label_studio.project("holds labels", CONFIG)
    (task,) = world.label_studio.add_tasks(project, [{"data": {"input": "old", "output": [], "trace_id": "old-1"}}])
    answer(world, task, world.label_studio.people[0], True)
    world.label_studio.call(
        "POST", "/api/predictions/", {"task": task, "result": [], "score": 0.5, "model_version": "judge"}
    )
    refused = call("sample", "--n", "6", "--project", str(project))
    said = " ".join(refused.output.split())
    assert refused.exit_code == 2
    assert "already holds 1 answers" in said and "shows 1 predictions to people who label" in said
    hidden = {"show_collab_predictions": False, "model_version": ""}
    world.label_studio.call("PATCH", f"/api/projects/{project}/", hidden)
    taken = ran("sample", "--n", "6", "--project", str(project), "--answered")
    assert "6 tasks made" in taken.output
    made = [t["data"] for t in world.tasks(project) if t["data"]["trace_id"] != "old-1"]
    assert all(set(d) == {"input", "output", "trace_id"} for d in made)
    assert all(d["input"].startswith("question ") and set(d["output"][0]) == {"who", "what"} for d in made)
    assert re.search(rf"projects = \[{project}\]", Path("calibrate.toml").read_text())


def test_a_stop_on_the_way_leaves_nothing_half_made_and_can_be_gone_on_from(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(150):
        add(world.langfuse, n)
    ran("run", "--no-push")
    before = projects(world)
    write = Server.write
    wrong = {"show_collab_predictions": True}

    def shows_all(self: Server, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        if method == "POST" and path == "/api/projects/":
            body = {**body, **wrong}
        return write(self, method, path, body, params)

    monkeypatch.setattr(Server, "write", shows_all)
    failed = call("sample", "--n", "120", "--people", "2")
    assert failed.exit_code == 1 and "keeps show_collab_predictions as True; it was deleted again" in failed.output
    assert projects(world) == before

    imports = 0

    def cuts(self: Server, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        nonlocal imports
        done = write(self, method, path, body, params)
        if path.endswith("/import"):
            imports += 1
            if imports == 1:  # the server took it, and its answer was lost
                raise httpx.ReadError("cut")
        return done

    def cut_as_a_connector_says(self: Server, *arguments: Any, **more: Any) -> Any:
        from calibrate_plugin.connector import Unavailable

        try:
            return cuts(self, *arguments, **more)
        except httpx.ReadError as error:
            raise Unavailable(f"does not answer: {error}") from None

    monkeypatch.setattr(Server, "write", cut_as_a_connector_says)
    stopped = call("sample", "--n", "120", "--people", "2")
    assert stopped.exit_code == 1 and "does not answer" in stopped.output
    (project,) = projects(world) - before
    assert len(world.tasks(project)) == 100
    monkeypatch.setattr(Server, "write", write)
    done = ran("sample", "--n", "120", "--people", "2")
    assert "20 tasks made, 100 were there" in done.output
    assert projects(world) - before == {project}
    assert len({t["data"]["trace_id"] for t in world.tasks(project)}) == 120


def test_other_wishes_for_the_same_sample_are_refused(world: World) -> None:
    for n in range(40):
        add(world.langfuse, n)
    ran("run", "--no-push")
    ran("sample", "--n", "10")
    for wish, said in (
        (("--n", "12"), "sample 1 was asked for with --n 10, and now it is 12; say --more"),
        (("--n", "10", "--people", "5"), "--people 2, and now it is 5"),
        (("--n", "10", "--more", "--by", "random"), "sample 1 was drawn with --by judge"),
        (("--n", "10", "--more", "--group", "session"), "have no common probabilities"),
        (("--n", "35", "--more"), "only 30 items left"),
    ):
        refused = call("sample", *wish)
        assert refused.exit_code == 2
        assert said in " ".join(refused.output.replace("│", " ").split()), refused.output
    text = Path("calibrate.toml").read_text()
    Path("calibrate.toml").write_text(text.replace('kind = "stratified"', 'kind = "stratified" # mine').replace('judge = "safety-judge"', 'judge = "another"'))  # fmt: skip
    refused = call("sample", "--n", "5", "--more")
    assert refused.exit_code == 2 and "design.judge is 'another'" in refused.output


def test_keys_that_tell_nothing_are_turned_back_by_the_pull(world: World) -> None:
    for n in range(30):
        add(world.langfuse, n)
    ran("run", "--no-push")
    ran("sample", "--n", "10", "--people", "1", "--opaque", "--group", "session")
    tasks = world.tasks(world.project())
    assert all(re.fullmatch("blind-[0-9a-f]{20}", t["data"]["trace_id"]) for t in tasks)
    assert "trace-" not in json.dumps([t["data"] for t in tasks])
    asked = {int(t["data"]["input"][0]["text"].split()[1]) for t in tasks}
    assert all({n // 3 * 3 + k for k in range(3)} <= asked for n in asked), "a session was torn apart"
    for task in tasks:
        answer(world, task["id"], world.label_studio.people[0], True)
    report = json.loads(ran("run", "--no-push", "--format", "json").stdout)
    assert report["coverage"]["with_both"] == len(tasks)
    again = ran("sample", "--n", "10", "--people", "1", "--opaque", "--group", "session")
    assert f"0 tasks made, {len(tasks)} were there" in again.output
