"""A served study without a platform: its sources are told what to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient
from told import Told, Woken, label, till_done

from calibrate_plugin.server.access import Access
from calibrate_plugin.server.app import application, guarded
from calibrate_plugin.server.background import Background
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.worker import Worker

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
connector = "files"
file = "people.csv"

[sources.judges]
connector = "files"
file = "judges.csv"

[push.people]
"""
SECRET = "the secret of the webhooks"


def rows(n: int = 12) -> list[dict[str, Any]]:
    people = [
        label(f"{rater}{i}", f"i{i}", rater, '"Pass"' if (i + at) % 3 else '"Fail"', reason=f"{rater} said so")
        for i in range(n)
        for at, rater in enumerate(("ann", "ben"))
    ]
    stars = [
        label(f"{rater}{i}", f"i{i}", rater, str(1 + (i + at) % 5), field="Empathy")
        for i in range(n)
        for at, rater in enumerate(("ann", "ben"))
    ]
    return people + stars


def scores(n: int = 12) -> list[dict[str, Any]]:
    return [
        label(
            f"{version}{i}",
            f"i{i}",
            "judge",
            '"Pass"' if i % 2 else '"Fail"',
            kind="evaluator",
            version=version,
            run=f"run {version}",
            link=f"https://langfuse.example.com/trace/{i}",
        )
        for i in range(n)
        for version in ("v1", "v2")
    ]


@dataclass
class Served:
    """A service whose clock and worker the test moves."""

    service: Service
    people: Woken
    judges: Told
    worker: Worker
    background: Background
    app: FastAPI

    def client(self, access: Access | None = None, **more: Any) -> TestClient:
        guard = access or Access()
        app = application(self.service, guard, working=False)
        return TestClient(guarded(app, guard), base_url="http://localhost", follow_redirects=False, **more)

    def turns(self, holds: Callable[[], Any]) -> Any:
        """Let the worker and what follows it work until something holds."""
        return till_done(self, holds)

    def step(self) -> None:
        self.worker.step()
        self.background.step()
