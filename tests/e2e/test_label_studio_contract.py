"""The Label Studio connector keeps the connector contract, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

import httpx
import polars as pl
import pytest
from calibrate_label_studio.live import LiveProjects
from calibrate_label_studio.server import Server
from label_studio_server import LabelStudio, Person

from calibrate_plugin.connector import Covered, Page, Results, Scope, Since, Source, SourceSettings
from calibrate_plugin.model import Dimension, Scale, Study
from calibrate_plugin.report.build import Pulled, build, item_agreement
from calibrate_plugin.testing import ConnectorContract, Driver

CONFIG = """<View><Text name="reply" value="$reply"/><TextArea name="quality" toName="reply"/>
<Choices name="other" toName="reply"><Choice value="a"/><Choice value="b"/></Choices></View>"""


class Failing(httpx.HTTPTransport):
    """The network, of which one request is lost on the way, and every one like it that is sent again."""

    def __init__(self, driver: LabelStudioDriver) -> None:
        super().__init__()
        self.driver = driver

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        driver = self.driver
        if driver.failing is not None:
            driver.sent += 1
            if driver.sent == driver.failing:
                driver.lost = (request.method, str(request.url))
            if driver.lost == (request.method, str(request.url)):
                raise httpx.ConnectError("the connection was lost", request=request)
        request.headers["Connection"] = "close"
        return super().handle_request(request)


class Worded(LiveProjects):
    """The connector as it is, but for the server's numbers of people, which are told as the words of the contract."""

    words: Mapping[str, str]
    numbers: Mapping[str, str]

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        if since is not None:
            since = replace(since, known=partial(self._numbered, since.known))
        for piece in super().pull(since):
            yield piece if isinstance(piece, Covered) else replace(piece, labels=_renamed(piece.labels, self.words))

    def _numbered(self, known: Any, scope: Scope) -> pl.DataFrame:
        return _renamed(known(scope), self.numbers)


def _renamed(labels: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    return labels.with_columns(pl.col("rater").replace(dict(names)))


class LabelStudioDriver(Driver):
    """A project of its own, under the hands of people of the contract's names."""

    cannot: ClassVar[Mapping[str, str]] = {
        "double": "a project lists each annotation once",
        "skew": "the clock of a real server cannot be set here",
    }

    def __init__(self, server: LabelStudio, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.secrets = [server.token]
        monkeypatch.setenv("LABEL_STUDIO_URL", server.url)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", server.token)
        self.project = server.project("Contract", CONFIG)
        self.people: dict[str, Person] = {}
        self.tasks: dict[str, int] = {}
        self.failing: int | None = None
        self.sent = 0
        self.lost: tuple[str, str] | None = None

    def source(self) -> Source:
        settings = SourceSettings(
            "contract",
            "label-studio",
            labels={"quality": ("quality",)},
            push={"reveal": True},
            options={"projects": [self.project], "item": "data.trace_id"},
        )
        connect = partial(Server.of, transport=Failing(self), sleep=lambda seconds: None)
        source = Worded(settings, connect)
        source.words = {str(p.id): word for word, p in self.people.items()}
        source.numbers = {word: str(p.id) for word, p in self.people.items()}
        return source

    def answer(self, item: str, rater: str, value: str) -> int:
        task = self._task([item])[0]
        result = {"id": "q", "from_name": "quality", "to_name": "reply", "type": "textarea", "value": {"text": [value]}}
        return self.server.annotate(task, self._person(rater), result)

    def edit(self, answer: int, value: str) -> None:
        result = {"id": "q", "from_name": "quality", "to_name": "reply", "type": "textarea", "value": {"text": [value]}}
        self.server.call("PATCH", f"/api/annotations/{answer}/", {"result": [result]})

    def clear(self, answer: int) -> None:
        result = {"id": "o", "from_name": "other", "to_name": "reply", "type": "choices", "value": {"choices": ["a"]}}
        self.server.call("PATCH", f"/api/annotations/{answer}/", {"result": [result]})

    def delete(self, answer: int) -> None:
        self.server.delete(f"/api/annotations/{answer}/")

    def delete_item(self, item: str) -> None:
        self.server.delete(f"/api/tasks/{self.tasks.pop(item)}/")

    def delete_rater(self, rater: str) -> None:
        self.server.delete(f"/api/users/{self._person(rater).id}/")

    def delete_job(self) -> None:
        self.server.delete(f"/api/projects/{self.project}/")

    def fail(self, at: int | None) -> None:
        self.failing, self.sent, self.lost = at, 0, None

    def many(self, answers: Any) -> None:
        tasks: dict[str, list[dict[str, Any]]] = {}
        for item, rater, value in answers:
            result = {"id": "q", "from_name": "quality", "to_name": "reply", "type": "textarea"}
            annotation = {"result": [result | {"value": {"text": [value]}}], "completed_by": self._person(rater).id}
            tasks.setdefault(item, []).append(annotation | {"ground_truth": False})
        self.server.add_tasks(
            self.project,
            [{"data": {"reply": item, "trace_id": item}, "annotations": made} for item, made in tasks.items()],
        )

    def results(self, labels: pl.DataFrame) -> Results:
        values = tuple(sorted({v.strip('"') for v in labels["value"]}))
        study = Study("contract", (Dimension(self.field, Scale("nominal", values), values),), resamples=200)
        report, ratings = build(study, Pulled({"contract": labels}), datetime(2026, 11, 30, tzinfo=UTC))
        return Results(report, item_agreement(ratings), known=lambda scope: labels)

    def written(self) -> Any:
        told = self.server.call("GET", f"/api/projects/{self.project}/")
        tabs = self.server.call("GET", f"/api/dm/views/?project={self.project}")
        data = [self.server.call("GET", f"/api/tasks/{t}/")["data"] for t in self.tasks.values()]
        titles = sorted(t["data"]["title"] for t in tabs if t["data"].get("title") != "Default")
        return told["description"], titles, data

    def _person(self, word: str) -> Person:
        if word not in self.people:
            self.people[word] = self.server.sign_up(f"{word}-{self.project}@example.com")
        return self.people[word]

    def _task(self, items: list[str]) -> list[int]:
        new = [i for i in items if i not in self.tasks]
        if new:
            made = self.server.add_tasks(self.project, [{"data": {"reply": i, "trace_id": i}} for i in new])
            self.tasks |= dict(zip(new, made, strict=True))
        return [self.tasks[i] for i in items]


class TestLabelStudio(ConnectorContract):
    @pytest.fixture
    def driver(self, label_studio: LabelStudio, monkeypatch: pytest.MonkeyPatch) -> Driver:
        return LabelStudioDriver(label_studio, monkeypatch)
