"""A real Label Studio for tests: installed once into an environment of its own, started on a free port, driven by HTTP.

``LABEL_STUDIO_BIN`` names an installed one. Otherwise it is installed into ``CALIBRATE_LABEL_STUDIO_VENV`` (by default in the
user's cache directory), which takes some minutes and a gigabyte, once; a migrated database is kept beside it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

VERSION = "1.23.2"
OWNER, PASSWORD, TOKEN = "owner@example.com", "owner-password-123", "a" * 40
CI = os.environ.get("CI", "").lower() == "true"

CONFIG = """<View>
  <Text name="reply" value="$reply"/>
  <Choices name="safety" toName="reply" choice="single"><Choice value="Pass"/><Choice value="Fail"/><Choice value="Unsure" alias="unsure"/></Choices>
  <Choices name="issues" toName="reply" choice="multiple"><Choice value="tone"/><Choice value="facts"/></Choices>
  <Rating name="empathy" toName="reply" maxRating="5"/>
  <TextArea name="why" toName="reply"/>
</View>"""


class Missing(Exception):
    """Label Studio is not installed, and nobody asked to install it."""


def _folder() -> Path:
    if given := os.environ.get("CALIBRATE_LABEL_STUDIO_VENV"):
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "calibrate-plugin" / f"label-studio-{VERSION}"


def installed() -> Path:
    """The ``label-studio`` command. Installs it in CI, or where ``CALIBRATE_E2E=1`` asks for it; else raises Missing."""
    if given := os.environ.get("LABEL_STUDIO_BIN"):
        return Path(given)
    folder = _folder()
    command, ready = folder / "bin" / "label-studio", folder / "ready"
    if ready.exists():
        return command
    if not CI and os.environ.get("CALIBRATE_E2E") != "1":
        raise Missing(
            f"no Label Studio in {folder}; set CALIBRATE_E2E=1 to install it there, or LABEL_STUDIO_BIN to one"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"label-studio=={VERSION}"]
            subprocess.run(pip, check=True)
            ready.touch()
    return command


def _environment(data: Path) -> dict[str, str]:
    # a stray USERNAME, HOST or PORT of the shell would become a setting
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    return {k: v for k, v in os.environ.items() if k in kept} | {
        "LABEL_STUDIO_BASE_DATA_DIR": str(data),
        "DJANGO_DB": "sqlite",
        "LABEL_STUDIO_USERNAME": OWNER,
        "LABEL_STUDIO_PASSWORD": PASSWORD,
        "LABEL_STUDIO_USER_TOKEN": TOKEN,
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
        "SSRF_PROTECTION_ENABLED": "false",
    }


@contextmanager
def _started(command: Path, data: Path, log: Path) -> Iterator[str]:
    """The address of a server on ``data``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    arguments = [str(command), "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            arguments,
            env=_environment(data),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, url, log)
        yield url
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 600  # migrations take half a minute, and far longer on a busy machine
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:  # our own token proves that it is our server: a busy port makes Label Studio move on silently
            if httpx.get(
                f"{url}/api/current-user/whoami", headers={"Authorization": f"Token {TOKEN}"}, timeout=5
            ).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.25)
    raise RuntimeError("Label Studio does not start:\n" + log.read_text(errors="replace")[-3000:])


def _template(command: Path) -> Path:
    """A migrated, empty database, made once."""
    folder = _folder().parent / f"label-studio-{VERSION}-template"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = Path(tempfile.mkdtemp(dir=folder.parent))
            try:
                with _started(command, making, making / "server.log"):
                    pass
                making.rename(folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return folder


@dataclass(frozen=True)
class Person:
    id: int
    email: str
    token: str


class LabelStudio:
    """A running server and the hands of its people."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.token, self.log = url, TOKEN, log
        self.http = httpx.Client(base_url=url, timeout=60, headers={"Connection": "close"})
        self.people: list[Person] = []

    def call(self, method: str, path: str, body: Any = None, *, by: Person | None = None, **more: Any) -> Any:
        token = by.token if by else self.token
        answer = self.http.request(method, path, headers={"Authorization": f"Token {token}"}, json=body, **more)
        assert answer.is_success, (method, path, answer.status_code, answer.text[:500])
        return answer.json() if answer.content else None

    def sign_up(self, email: str) -> Person:
        invite = self.call("GET", "/api/invite")["invite_url"]
        with httpx.Client(base_url=self.url, timeout=60) as browser:
            found = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', browser.get(invite).text)
            assert found is not None
            form = {"csrfmiddlewaretoken": found[1], "email": email, "password": PASSWORD, "allow_newsletters": "false"}
            answer = browser.post(invite, data=form, headers={"Referer": self.url + invite})
            assert answer.status_code == 302, answer.text[:300]
            me = browser.get("/api/current-user/whoami").json()
            return Person(me["id"], email, browser.get("/api/current-user/token").json()["token"])

    def project(self, title: str, config: str = CONFIG, **more: Any) -> int:
        made = self.call(
            "POST", "/api/projects/", {"title": title, "label_config": config, "maximum_annotations": 3} | more
        )
        return int(made["id"])

    def add_tasks(self, project: int, tasks: list[dict[str, Any]]) -> list[int]:
        """Import tasks, again if their annotations got lost (seen on SQLite while others write)."""
        wanted = sum(len(t.get("annotations", ())) for t in tasks)
        for _ in range(5):
            made = self.call("POST", f"/api/projects/{project}/import?return_task_ids=true", tasks)
            if made["annotation_count"] == wanted:
                return [int(number) for number in made["task_ids"]]
            for number in made["task_ids"]:
                self.call("DELETE", f"/api/tasks/{number}/")
        raise AssertionError(f"an import lost its annotations five times: {made}")

    def replies(self, project: int, count: int, start: int = 0) -> list[int]:
        data = [
            {"data": {"reply": f"reply {n}", "trace_id": f"trace-{n}", "system": "AB"[n % 2]}}
            for n in range(start, start + count)
        ]
        return self.add_tasks(project, data)

    def annotate(self, task: int, by: Person, *results: dict[str, Any], **more: Any) -> int:
        return int(self.call("POST", f"/api/tasks/{task}/annotations/", {"result": list(results)} | more, by=by)["id"])

    def edit(self, annotation: int, by: Person, **changes: Any) -> None:
        self.call("PATCH", f"/api/annotations/{annotation}/", changes, by=by)

    def delete(self, path: str) -> None:
        self.call("DELETE", path)


def choose(control: str, *choices: str) -> dict[str, Any]:
    return {
        "id": control,
        "from_name": control,
        "to_name": "reply",
        "type": "choices",
        "value": {"choices": list(choices)},
    }


def rate(control: str, rating: float) -> dict[str, Any]:
    return {"id": control, "from_name": control, "to_name": "reply", "type": "rating", "value": {"rating": rating}}


def write(control: str, *texts: str) -> dict[str, Any]:
    return {"id": control, "from_name": control, "to_name": "reply", "type": "textarea", "value": {"text": list(texts)}}


@contextmanager
def running(folder: Path) -> Iterator[LabelStudio]:
    """A fresh Label Studio with three annotators; its data lies in ``folder``."""
    command = installed()
    data, log = folder / "data", folder / "server.log"
    shutil.copytree(_template(command), data)
    with _started(command, data, log) as url:
        server = LabelStudio(url, log)
        server.people = [server.sign_up(f"ann{n}@example.com") for n in (1, 2, 3)]
        yield server
