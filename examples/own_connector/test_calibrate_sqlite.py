"""The connector keeps the contract: the suite is part of calibrate-plugin, the driver plays the platform."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from calibrate_sqlite import open_source

from calibrate_plugin.connector import Source, SourceSettings
from calibrate_plugin.testing import ConnectorContract, Driver


class SqliteDriver(Driver):
    cannot: ClassVar[Mapping[str, str]] = {
        "double": "a primary key is there once",
        "skew": "the database does not date anything by itself",
        "fail": "there is no network on the way",
        "push": "this connector only reads",
    }

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = sqlite3.connect(path)
        self._do(
            "CREATE TABLE answers (id INTEGER PRIMARY KEY, item TEXT, question TEXT, person TEXT, answer TEXT, given_at TEXT)"
        )

    def source(self) -> Source:
        return open_source(SourceSettings("contract", "sqlite", self.path))

    def answer(self, item: str, rater: str, value: str) -> int:
        return self._do(
            "INSERT INTO answers (item, question, person, answer, given_at) VALUES (?, ?, ?, ?, ?)",
            (item, self.field, rater, value, datetime.now(UTC).isoformat()),
        )

    def edit(self, answer: int, value: str) -> None:
        self._do("UPDATE answers SET answer = ? WHERE id = ?", (value, answer))

    def clear(self, answer: int) -> None:
        self._do("UPDATE answers SET answer = NULL WHERE id = ?", (answer,))

    def delete(self, answer: int) -> None:
        self._do("DELETE FROM answers WHERE id = ?", (answer,))

    def delete_item(self, item: str) -> None:
        self._do("DELETE FROM answers WHERE item = ?", (item,))

    def delete_rater(self, rater: str) -> None:
        self._do("DELETE FROM answers WHERE person = ?", (rater,))

    def delete_job(self) -> None:
        self._do("DROP TABLE answers")

    def _do(self, statement: str, values: tuple[object, ...] = ()) -> int:
        with self.database:
            return self.database.execute(statement, values).lastrowid or 0


class TestSqlite(ConnectorContract):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return SqliteDriver(tmp_path / "answers.db")
