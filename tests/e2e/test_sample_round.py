"""From 2,000 judged traces to labels: a sample, a real Label Studio project, three people (one of them on the page itself),
and a corrected rate. Nobody is shown what the judge said."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from label_studio_server import PASSWORD, LabelStudio, Person
from langfuse_standin import Clock, LangfuseStandin

from calibrate_plugin.cli import main
from calibrate_plugin.store import Store

SETTINGS = """# what is asked, and of whom
[study]
name = "support"   # keep me
seed = 7
resamples = 400
guideline = "guideline.md"

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]

[sources.people]
connector = "label-studio"
projects = []
item = "data.trace_id"
labels = { Safety = "safety" }

[sources.judges]
connector = "langfuse"
item = "trace"
labels = { Safety = "safety-judge" }
"""
SECRET = "zq-verdict"  # in everything that the judge says; it must be nowhere where people label
GUIDELINE = """# Guideline: support

Version: 1
Date: 2026-12-01

## Safety

### Pass

nothing that could harm

### Fail

anything that could

### Examples

- "Take two of them": Fail, since nobody asked what else the user takes

### Hard cases

### When unsure

mark the item as unsure and write why <!-- for the writer only -->
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def ran(*arguments: str) -> Result:
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    return done


@dataclass
class World:
    label_studio: LabelStudio
    langfuse: LangfuseStandin
    folder: Path

    def tasks(self, project: int) -> list[dict[str, Any]]:
        found = self.label_studio.call("GET", f"/api/tasks/?project={project}&page_size=-1&fields=all&page_size=1000")
        return list(found["tasks"])

    def project(self) -> int:
        told = re.search(r"projects = \[(\d+)", (self.folder / "calibrate.toml").read_text())
        assert told is not None
        return int(told[1])


def number_of(task: dict[str, Any]) -> int:
    return int(task["data"]["trace_id"].split("-")[1])


def truth(number: int) -> bool:
    """What a careful person says: 3 % of what the judge passes is bad, 60 % of what it fails."""
    return (number * 7919) % 100 >= 60 if judge_fails(number) else (number * 104729) % 100 >= 3


def judge_fails(number: int) -> bool:
    return number % 20 == 0


def fill(langfuse: LangfuseStandin, count: int) -> None:
    scores = []
    for n in range(count):
        trace = f"trace-{n}"
        langfuse.add_trace(
            trace,
            input=[{"role": "user", "content": f"question {n}"}],
            output=f"answer {n}",
            sessionId=f"session-{n // 4}",
            metadata={"verdict": SECRET},
            tags=[SECRET],
        )
        langfuse.add_observation(
            f"obs-{n}", trace, input=json.dumps([{"role": "user", "content": f"question {n}"}]), output=f"answer {n}", sessionId=f"session-{n // 4}", metadata={"verdict": SECRET}
        )  # fmt: skip
        scores.append(
            {"id": f"s-{n}", "name": "safety-judge", "value": "Fail" if judge_fails(n) else "Pass", "traceId": trace,
             "source": "EVAL", "comment": f"{SECRET} because", "metadata": {"evaluator_version_id": "v1"}}
        )  # fmt: skip
    langfuse.add_scores(scores)


@pytest.fixture
def world(label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "calibrate.toml").write_text(SETTINGS)
    with LangfuseStandin(clock=Clock(speed=60)) as langfuse:
        monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        monkeypatch.chdir(tmp_path)
        yield World(label_studio, langfuse, tmp_path)


def answer(
    world: World, task: int, by: Person, passes: bool, reason: str = "as the guideline says", **more: Any
) -> None:
    choice = {"choices": ["Pass" if passes else "Fail"]}
    results = [
        {"id": "a", "from_name": "safety", "to_name": "item_output", "type": "choices", "value": choice},
        {"id": "b", "from_name": "reason", "to_name": "item_output", "type": "textarea", "value": {"text": [reason]}},
    ]
    world.label_studio.annotate(task, by, *results, lead_time=30.0, **more)


SAMPLE = ("sample", "--n", "60", "--floor", "20", "--people", "3")


def test_a_round_of_blind_labels(world: World) -> None:
    fill(world.langfuse, 2000)
    ran("run", "--no-push")
    Path("guideline.md").write_text(GUIDELINE)
    before = len(world.langfuse.requests)
    planned = ran(*SAMPLE, "--dry-run")
    assert "sample 1: 60 of 2000 items" in planned.output
    assert "Fail: 20 of 100" in planned.output and "Pass: 40 of 1900" in planned.output
    assert "projects = []" in Path("calibrate.toml").read_text()

    made = ran(*SAMPLE)
    assert "60 tasks made" in made.output
    asked = len(world.langfuse.requests) - before
    assert asked < 80, f"{asked} requests for 60 items"
    settings = Path("calibrate.toml").read_text()
    assert "# keep me" in settings and 'judge = "safety-judge"' in settings and 'abstain = ["unsure"]' in settings
    project = world.project()
    tasks = world.tasks(project)
    assert len(tasks) == 60
    assert SECRET not in json.dumps(tasks)
    keys = {"guideline", "input", "context", "output", "pictures", "trace_id", "guideline_version"}
    for task in tasks:
        assert set(task["data"]) == keys
        assert not task["predictions"]
    fails = [i for i, t in enumerate(tasks) if judge_fails(number_of(t))]
    assert len(fails) == 20 and fails[0] < 12 and fails[-1] > 47, "the order of tasks shows the strata"
    told = world.label_studio.call("GET", f"/api/projects/{project}/")
    assert told["maximum_annotations"] == 3 and told["show_collab_predictions"] is False
    assert {t["overlap"] for t in tasks} == {3}

    assert "0 tasks made, 60 were there" in ran(*SAMPLE).output
    for task in tasks[:7]:
        world.label_studio.delete(f"/api/tasks/{task['id']}/")
    assert "7 tasks made, 53 were there" in ran(*SAMPLE).output
    tasks = world.tasks(project)
    assert len({t["data"]["trace_id"] for t in tasks}) == 60

    labelled = label_on_the_page(world, project, world.label_studio.people[0])
    rng = random.Random(1)
    for task in tasks:
        for person in world.label_studio.people:
            if (task["id"], person.id) == (labelled, world.label_studio.people[0].id):
                continue
            answer(world, task["id"], person, truth(number_of(task)) != (rng.random() < 0.03))
    report = json.loads(ran("run", "--no-push", "--format", "json").stdout)
    safety = report["dimensions"][0]
    judge = safety["evaluators"][0]
    rate = judge["corrected_rate"][0]
    right = sum(map(truth, range(2000))) / 2000
    assert rate["method"] == "post-stratification"
    assert rate["rate"]["interval"]["low"] <= right <= rate["rate"]["interval"]["high"]
    # unweighted, a third of the labelled items is what the judge failed, of which few are good
    assert abs(rate["rate"]["value"] - right) < 0.07 < right - safety["human_score"]["value"]
    assert {p["name"] for p in safety["raters"] if p["kind"] == "annotator"} == {
        p.email for p in world.label_studio.people
    }
    with Store("calibrate.db") as store:
        people = store.as_of().filter(pl.col("source") == "people")
        assert people["version"].unique().to_list() == ["1"]
        assert people["reason"].null_count() == 0

    # one disagreement is ruled on, and becomes a case of the guideline's next version
    listed = json.loads(ran("disagreements", "list", "--between", "humans", "--format", "json").stdout)
    item = listed["Safety"]["items"][0]["item"]
    right_answer = "Pass" if truth(int(item.split("-")[1])) else "Fail"
    ran(
        "disagreements", "rule", item, "--value", right_answer, "--cause", "guideline_silent", "--reason", "nobody was asked",
        "--by", "carol",
    )  # fmt: skip
    assert "1  the guideline says nothing about it" in ran("disagreements", "causes").output
    ran("guideline", "next")
    assert f"item `{item}`" in Path("guideline.md").read_text()

    more = ran("sample", "--n", "20", "--floor", "5", "--people", "3", "--more", "--title", "the second round")
    assert "sample 2: 20 of 1940 items" in more.output
    second = int(re.findall(r"projects = \[\d+, (\d+)\]", Path("calibrate.toml").read_text())[0])
    assert not {number_of(t) for t in world.tasks(second)} & {number_of(t) for t in tasks}
    assert {t["data"]["guideline_version"] for t in world.tasks(second)} == {"2"}
    for task in world.tasks(second):
        for person in world.label_studio.people:
            answer(world, task["id"], person, truth(number_of(task)))
    again = json.loads(ran("run", "--no-push", "--format", "json").stdout)["dimensions"][0]
    rate = again["evaluators"][0]["corrected_rate"][0]
    assert rate["n_gold"] == 80
    assert rate["rate"]["interval"]["low"] <= right <= rate["rate"]["interval"]["high"]
    with Store("calibrate.db") as store:
        people = store.as_of().filter(pl.col("source") == "people")
        assert people["version"].value_counts().sort("version").rows() == [("1", 180), ("2", 60)]


def label_on_the_page(world: World, project: int, person: Person) -> int:
    """One person labels a task in a browser, and everything that the page was sent is looked through. Gives the task's id."""
    from playwright.sync_api import Response, sync_playwright

    replies: dict[str, str] = {}
    unread: list[str] = []

    def keep(response: Response) -> None:
        kind = response.headers.get("content-type", "")
        if "json" in kind or "html" in kind or "/api/" in response.url:
            try:
                replies[f"{len(replies)} {response.request.method} {response.url}"] = response.text()
            except Exception as error:
                unread.append(f"{response.url}: {error}")

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1200})
        page.set_default_timeout(60_000)
        page.goto(f"{world.label_studio.url}/user/login")
        page.fill("input[name=email]", person.email)
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/login" not in url)
        page.on("response", keep)
        page.goto(f"{world.label_studio.url}/projects/{project}/data")
        page.get_by_text("Label All Tasks", exact=False).first.wait_for()
        page.wait_for_load_state("networkidle")
        listed = page.content()
        page.goto(f"{world.label_studio.url}/projects/{project}/data?labeling=1")
        page.get_by_text("Labeling Instructions").wait_for()
        # The guideline stands in the dialogue and in the form behind it.
        page.get_by_text("nothing that could harm").locator("visible=true").first.wait_for()
        page.keyboard.press("Escape")
        page.get_by_text("What came out: judge this").wait_for()
        shown = page.content()
        assert "anything that could" in shown, "the form shows no guideline"
        found = re.search(r"answer (\d+)", page.locator(".calibrate-part").last.inner_text())
        assert found is not None
        page.locator(f'input[name="{"Pass" if truth(int(found[1])) else "Fail"}"]').check()
        page.locator("textarea[name=reason]").fill("nothing in it could harm anybody")
        page.get_by_test_id("bottombar-submit-button").click()
        page.get_by_text(f"answer {found[1]}", exact=True).wait_for(state="detached")
        page.wait_for_load_state("networkidle")
        browser.close()
    assert any("/api/tasks" in where or "/next" in where for where in replies)
    for where, text in {**replies, "the list": listed, "the form": shown}.items():
        for hidden in (SECRET, "safety-judge", "stratum", "probability", "passed_over"):
            assert hidden not in text, (hidden, where)
        if "/api/tasks" in where and text.startswith("{"):
            assert not json.loads(text).get("predictions")
    given = [t for t in world.tasks(project) if t["annotations"]]
    assert len(given) == 1
    annotation = given[0]["annotations"][0]
    assert {r["from_name"] for r in annotation["result"]} == {"safety", "reason"}
    assert annotation["lead_time"] is not None
    return int(given[0]["id"])
