"""The service beside a real Label Studio: whatever happens there, the open page and the pushed results follow."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from json import loads
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from label_studio_server import LabelStudio, choose, rate

from calibrate_plugin.cli import main
from calibrate_plugin.config import load
from calibrate_plugin.cycle import open_all, pulled
from calibrate_plugin.report import json
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.store import Store
from calibrate_plugin.sync import sync

STUDY = """
[study]
name = "support"
resamples = 200

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]

[dimensions.Empathy]
scale = "rating"
min = 1
max = 5

[sources.people]
connector = "label-studio"
projects = [{project}]
item = "data.trace_id"
labels = {{ Safety = "safety", Empathy = "empathy" }}

[push.people]
"""
SECRET = "the secret of the webhooks"


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def numbers_of(body: bytes) -> Any:
    """What a report (JSON) says, but for what only somebody can know who was there before: labels that are gone by now."""
    report = loads(body)
    del report["generated_at"], report["coverage"]["labels"]
    for dimension in report["dimensions"]:
        dimension["set_aside"].pop("retired", None)
    return report


class Serving:
    """``calibrate-plugin serve`` as a process."""

    def __init__(self, folder: Path, project: int, label_studio: LabelStudio) -> None:
        self.config, self.label_studio, self.project = folder / "calibrate.toml", label_studio, project
        self.config.write_text(STUDY.format(project=project))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-c", "from calibrate_plugin.cli import main; main()", "serve"]
        command += ["--config", str(self.config), "--port", str(self.port), "--debounce", "0.1", *arguments]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        until(self.ready, 60)

    def ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-2000:]
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.HTTPError:
            return False

    def stop(self) -> int:
        """End as an operator does; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def report(self) -> bytes:
        return httpx.get(f"{self.url}/api/v1/report", timeout=30).content

    def expected(self) -> Any:
        """The numbers as a study that has never looked before would find them."""
        config = load(self.config)
        fresh = self.config.with_name("fresh.db")
        fresh.unlink(missing_ok=True)
        with Store(str(fresh)) as store:
            (outcome,) = sync(store, open_all(config))
            assert outcome.outcome == "ok", outcome.message
            facts = pulled(store)
            report, _ = build(config.study, Pulled(facts.labels, facts.items, facts.aside, facts.names), store.now())
            return numbers_of(json.render(report).encode())

    def follows(self) -> None:
        expected = self.expected()
        until(lambda: numbers_of(self.report()) == expected)


@pytest.fixture
def serving(label_studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setenv("LABEL_STUDIO_URL", label_studio.url)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", label_studio.token)
    monkeypatch.setenv("CALIBRATE_WEBHOOK_SECRET", SECRET)
    project = label_studio.project("served", description="What the team wrote.")
    made = Serving(tmp_path, project, label_studio)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def webhooks(serving: Serving, command: str, code: int = 0) -> str:
    arguments = ["webhooks", command, "--config", str(serving.config), "--url", serving.url]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert SECRET not in result.output and serving.label_studio.token not in result.output
    return result.output


def hooks(serving: Serving) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = serving.label_studio.call("GET", f"/api/webhooks/?project={serving.project}")
    return found


def test_webhooks_are_installed_mended_and_removed(serving: Serving) -> None:
    other = {"url": "http://127.0.0.1:9/other?project=1", "send_for_all_actions": True, "project": serving.project}
    serving.label_studio.call("POST", "/api/webhooks/", other)
    assert "no webhook" in webhooks(serving, "status")
    assert "SSRF_PROTECTION_ENABLED=false" in webhooks(serving, "install")
    assert "were there already" in webhooks(serving, "install")
    _, ours, gone = sorted(hooks(serving), key=lambda hook: hook["id"])
    assert ours["url"] == f"{serving.url}/webhooks/people?project={serving.project}"
    assert gone["url"] == f"{ours['url']}&deleted=1"
    assert set(gone["actions"]) == {"ANNOTATIONS_DELETED", "TASKS_DELETED"}
    assert not ours["send_payload"] and not ours["send_for_all_actions"] and "PROJECT_UPDATED" not in ours["actions"]
    assert ours["headers"] == {"X-Calibrate-Secret": SECRET}
    serving.label_studio.call("PATCH", f"/api/webhooks/{ours['id']}/", {"is_active": False, "url": ours["url"]})
    assert "is_active" in webhooks(serving, "status")
    assert "were set right" in webhooks(serving, "install")
    _, mended, _ = sorted(hooks(serving), key=lambda hook: hook["id"])
    assert mended["is_active"] and set(mended["actions"]) == set(ours["actions"])
    assert "were removed" in webhooks(serving, "remove")
    assert [hook["url"] for hook in hooks(serving)] == [other["url"]]


def test_whatever_happens_in_label_studio_the_numbers_follow(serving: Serving) -> None:
    studio, (ann, ben, cat) = serving.label_studio, serving.label_studio.people
    tasks = studio.replies(serving.project, 6)
    for n, task in enumerate(tasks):
        studio.annotate(task, ann, choose("safety", "Pass" if n % 2 else "Fail"), rate("empathy", 1 + n % 5))
    serving.start()
    webhooks(serving, "install")
    serving.follows()

    given = [studio.annotate(task, ben, choose("safety", "Pass"), rate("empathy", 3)) for task in tasks]
    serving.follows()
    studio.edit(given[0], ben, result=[choose("safety", "Fail"), rate("empathy", 5)])
    serving.follows()
    studio.annotate(tasks[0], cat, was_cancelled=True)
    serving.follows()
    studio.delete(f"/api/annotations/{given[1]}/")
    serving.follows()
    answers = [{"result": [choose("safety", "Pass"), rate("empathy", 4)], "completed_by": p.id} for p in (ann, ben)]
    imported = [{"data": {"reply": "r", "trace_id": f"imported-{n}"}, "annotations": answers} for n in range(3)]
    studio.add_tasks(serving.project, imported)
    serving.follows()
    studio.delete(f"/api/tasks/{tasks[2]}/")
    serving.follows()

    line = re.search(r"Safety: people (\d+) %", studio.call("GET", f"/api/projects/{serving.project}/")["description"])
    assert line is not None
    reports = httpx.get(f"{serving.url}/api/v1/history?dimension=Safety&statistic=agreement").json()
    assert len(reports) >= 6
    until(lambda: httpx.get(f"{serving.url}/api/v1/health").json()["open_hints"] == 0)
    settled = httpx.get(f"{serving.url}/api/v1/studies").json()[0]["sync_number"]
    time.sleep(1.5)
    assert httpx.get(f"{serving.url}/api/v1/studies").json()[0]["sync_number"] == settled, "our own push woke us"
    assert serving.stop() == 0
    text = serving.log.read_text()
    assert SECRET not in text and studio.token not in text and "Traceback" not in text


def test_one_project_is_looked_at_alone_and_the_cursor_stays_right_for_the_other(
    serving: Serving, tmp_path: Path
) -> None:
    studio, (ann, ben, _) = serving.label_studio, serving.label_studio.people
    first, second = serving.project, studio.project("the other one")
    serving.config.write_text(STUDY.format(project=f"{first}, {second}"))
    of_first, of_second = studio.replies(first, 3), studio.replies(second, 3)
    given = [studio.annotate(task, ann, choose("safety", "Pass")) for task in (*of_first, *of_second)]
    source = open_all(load(serving.config))
    with Store(str(tmp_path / "calibrate.db")) as store:

        def answers() -> list[int]:
            """How many there are in each project."""
            found = store.as_of()
            found = found.filter(found["retired"].is_null() & (found["field"] == "safety"))
            return [found.filter(found["job"] == str(project)).height for project in (first, second)]

        def pull(project: int | None = None, *, gone: bool = False) -> Any:
            jobs = None if project is None else (str(project),)
            (outcome,) = sync(store, source, jobs=jobs, gone=gone)
            assert outcome.outcome == "ok", outcome.message
            return outcome

        pull()
        studio.annotate(of_first[0], ben, choose("safety", "Fail"))
        studio.annotate(of_second[0], ben, choose("safety", "Fail"))
        narrow = pull(first)
        assert narrow.mode == "focused" and narrow.added == 2  # an answer on each dimension
        assert answers() == [4, 3]
        assert pull().added == 2
        assert answers() == [4, 4]
        studio.delete(f"/api/annotations/{given[1]}/")
        studio.delete(f"/api/tasks/{of_first[2]}/")
        studio.delete(f"/api/tasks/{of_second[2]}/")
        assert pull(first, gone=True).retired == 4
        assert answers() == [2, 4]
        assert pull(second, gone=True).mode == "focused"
        assert answers() == [2, 3]
        assert pull(first).requests < pull().requests


def test_labels_given_while_the_service_is_down_are_found_when_it_starts(serving: Serving) -> None:
    studio, (ann, ben, _) = serving.label_studio, serving.label_studio.people
    tasks = studio.replies(serving.project, 50)
    serving.start("--no-push")
    serving.follows()
    assert serving.stop() == 0
    for n, task in enumerate(tasks):
        studio.annotate(task, ann, choose("safety", "Pass" if n % 3 else "Fail"))
        studio.annotate(task, ben, choose("safety", "Pass" if n % 2 else "Fail"))
    serving.start("--no-push", "--poll", "1")
    serving.follows()


def test_a_deleted_project_is_found_by_the_schedule(serving: Serving) -> None:
    studio, (ann, ben, _) = serving.label_studio, serving.label_studio.people
    for task in studio.replies(serving.project, 3):
        for person in (ann, ben):
            studio.annotate(task, person, choose("safety", "Pass"))
    serving.start("--no-push", "--poll", "1")
    serving.follows()
    studio.delete(f"/api/projects/{serving.project}/")
    held = until(
        lambda: [t for t in httpx.get(f"{serving.url}/api/v1/health").json()["troubles"] if t["what"] == "people"]
    )
    assert held[0]["parked"], "a whole project that is gone waits until somebody accepts it"
    result = CliRunner().invoke(
        main, ["run", "--config", str(serving.config), "--no-push", "--accept-deletions", "--format", "json"]
    )
    assert result.exit_code == 0, result.output
    until(lambda: b'"with_humans": 0' in serving.report())


CHROMIUM = Path("/usr/bin/chromium")


def test_a_label_changes_the_number_on_an_open_page(serving: Serving, tmp_path: Path) -> None:
    if not CHROMIUM.exists():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{CHROMIUM} is missing; the page must be opened in it")
        pytest.skip(f"{CHROMIUM} is missing")
    from playwright.sync_api import expect, sync_playwright

    studio, (ann, ben, _) = serving.label_studio, serving.label_studio.people
    tasks = studio.replies(serving.project, 4)
    for task in tasks:
        studio.annotate(task, ann, choose("safety", "Pass"))
    studio.annotate(tasks[0], ben, choose("safety", "Pass"))
    studio.annotate(tasks[1], ben, choose("safety", "Pass"))
    serving.start()
    webhooks(serving, "install")
    serving.follows()
    with sync_playwright() as playwright:
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{serving.url}/dimensions/Safety")
        expect(page.locator("#live")).to_have_text("Live")
        agreement = page.locator(".card.human dd").nth(1)
        expect(agreement).to_contain_text("100 %")
        studio.annotate(tasks[2], ben, choose("safety", "Fail"))
        expect(agreement).to_contain_text("67 %", timeout=20_000)
        assert said == [], "the policy of the page was broken, or its script failed"
        browser.close()
    until(lambda: "people 67 %" in studio.call("GET", f"/api/projects/{serving.project}/")["description"])
