"""A store in miniature, for tests of pulls."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from calibrate_plugin.connector import Covered, Page, Scope, Since
from calibrate_plugin.model import LABELS, frame

KEY = ["record", "field"]


class Kept:
    """What a store keeps of one source: labels by record and field, and why those that went are gone."""

    def __init__(self, source: Any) -> None:
        self.source, self.cursor = source, None
        self.labels = frame(LABELS)
        self.gone: dict[tuple[str, str], str] = {}
        self.aside: list[dict[str, Any]] = []
        self.pages = self.rows = self.requests = 0

    def known(self, scope: Scope) -> pl.DataFrame:
        return self.labels.filter(scope.matches())

    def pull(self, full: bool = False) -> Kept:
        self.pages = self.rows = 0
        self.aside = []
        self.gone = {}
        seen = frame(LABELS)
        before = self.source.server.requests
        for piece in self.source.pull(Since(self.cursor, full, self.known)):
            if isinstance(piece, Page):
                assert not piece.labels.select(KEY).is_duplicated().any()
                self.pages += 1
                self.rows += piece.labels.height
                self.aside += piece.aside.to_dicts()
                seen = pl.concat([seen, piece.labels])
                self.labels = pl.concat([self.labels.join(piece.labels, on=KEY, how="anti"), piece.labels])
            else:
                assert isinstance(piece, Covered)
                lost = self.known(piece.scope).join(seen, on=KEY, how="anti")
                self.gone |= dict.fromkeys(lost.select(KEY).rows(), piece.cause)
                self.labels = self.labels.join(lost, on=KEY, how="anti")
                self.cursor = piece.cursor
                seen = frame(LABELS)
        self.requests = self.source.server.requests - before
        return self

    def scratch(self) -> pl.DataFrame:
        return Kept(self.source).pull().labels

    def check(self) -> Kept:
        """The labels are what a first load gives, in any order."""
        order = ["task", "record", "field"]
        assert self.labels.sort(order).to_dicts() == self.scratch().sort(order).to_dicts()
        return self

    def answers(self, field: str) -> dict[tuple[str, str], str]:
        rows = self.labels.filter(pl.col("state") == "answered", pl.col("field") == field, pl.col("retired").is_null())
        return {(item, rater): json.loads(value) for item, rater, value in rows.select("item", "rater", "value").rows()}
