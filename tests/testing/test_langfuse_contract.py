"""The Langfuse connector keeps the connector contract, on each dialect of the stand-in that it reads differently."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "connectors" / "langfuse"))
from calibrate_langfuse.client import Clock
from langfuse_standin import LangfuseStandin
from live_langfuse import settings, source_of

from calibrate_plugin.connector import Results, Source
from calibrate_plugin.model import Dimension, Scale, Study
from calibrate_plugin.report.build import Pulled, build, item_agreement
from calibrate_plugin.testing import ConnectorContract, Driver


class LangfuseDriver(Driver):
    """People's labels in the web app of a stand-in server."""

    cannot: ClassVar[Mapping[str, str]] = {
        "clear": "a score has no empty state: taking it back deletes it",
        "delete_rater": "Langfuse keeps the labels of deleted accounts as they are",
        "delete_job": "scores belong to no job that can be deleted",
    }

    def __init__(self, server: LangfuseStandin) -> None:
        self.server = server
        self.secrets = [server.secret_key]
        self.ahead = 0.0
        self.count = 0
        self.ids: dict[str, list[str]] = {}

    def source(self) -> Source:
        source = source_of(self.server, settings(push={}))
        ours = source.server.clock
        source.server.clock = Clock(lambda: ours.now() - timedelta(seconds=self.ahead), ours.sleep)
        return source

    def answer(self, item: str, rater: str, value: str) -> str:
        self.count += 1
        ident = f"score-{self.count}"
        self.server.add_score(
            id=ident,
            name=self.field,
            value=value,
            dataType="CATEGORICAL",
            traceId=item,
            source="ANNOTATION",
            authorUserId=rater,
            configId="config-1",
        )
        self.server.clock.advance(1)
        self.ids.setdefault(item, []).append(ident)
        return ident

    def edit(self, answer: str, value: str) -> None:
        self.server.edit_annotation(answer, value=value)

    def delete(self, answer: str) -> None:
        self.server.delete_annotation(answer)

    def delete_item(self, item: str) -> None:
        for ident in self.ids.pop(item):
            self.server.delete_annotation(ident)

    def double(self, answer: str, old: str) -> None:
        """The same id was written on an earlier day, with the old value: both rows are listed, the old one later."""
        item = next(i for i, ids in self.ids.items() if answer in ids)
        self.server.add_score(
            id=answer,
            name=self.field,
            value=old,
            dataType="CATEGORICAL",
            traceId=item,
            source="ANNOTATION",
            authorUserId="ann",
            timestamp=self.server.clock.now() - timedelta(days=2),
        )

    def skew(self, seconds: float) -> None:
        self.ahead = seconds

    def fail(self, at: int | None) -> None:
        self.server.faults.clear()
        if at is not None:
            self.server.faults.server_error(400, after=at - 1, times=1)

    def settle(self) -> None:
        # Writes show after seconds; deletions run one every two minutes.
        for _ in range(30):
            self.server.clock.advance(125)
            self.server.settle()

    def results(self, labels: pl.DataFrame) -> Results:
        values = tuple(sorted({v.strip('"') for v in labels["value"]}))
        study = Study("contract", (Dimension(self.field, Scale("nominal", values), values),), resamples=200)
        report, ratings = build(study, Pulled({"contract": labels}), datetime(2026, 11, 30, tzinfo=UTC))
        return Results(report, item_agreement(ratings))

    def written(self) -> Any:
        self.server.settle()
        table = self.server.project.state.table
        ours = (row for row in table if row.name.startswith("calibrate.") and not row.gone)
        return sorted((row.id, row.name, str(row.trace_id), str(row.number), str(row.text)) for row in ours)


@pytest.fixture(params=["4.16-events-only", "3.225", "4.59"])
def server(request: pytest.FixtureRequest) -> Iterator[LangfuseStandin]:
    with LangfuseStandin(dialect=request.param) as server:
        server.add_config("quality", "CATEGORICAL", id="config-1", categories=[])
        yield server


class TestLangfuse(ConnectorContract):
    @pytest.fixture
    def driver(self, server: LangfuseStandin) -> Driver:
        return LangfuseDriver(server)
