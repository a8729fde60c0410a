"""The files connector keeps the connector contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from calibrate_files import open_source

from calibrate_plugin.connector import Source, SourceSettings
from calibrate_plugin.testing import ConnectorContract, Driver

NO_SERVER = "a file has no server"


class FilesDriver(Driver):
    """A file of JSON lines, one answer a line."""

    cannot: ClassVar[Mapping[str, str]] = {
        "double": "a file is read once from top to bottom; a second line is a later answer",
        "skew": NO_SERVER,
        "fail": NO_SERVER,
        "push": "nothing is written back into a file",
    }

    def __init__(self, folder: Path) -> None:
        self.path = folder / "labels.jsonl"
        self.rows: dict[str, dict[str, Any]] = {}
        self._save()

    def source(self) -> Source:
        return open_source(SourceSettings("contract", "files", self.path))

    def answer(self, item: str, rater: str, value: str) -> str:
        ident = f"a{len(self.rows)}"
        self.rows[ident] = {
            "id": ident,
            "item": item,
            "dimension": self.field,
            "rater": rater,
            "kind": "annotator",
            "value": value,
        }
        self._save()
        return ident

    def edit(self, answer: str, value: str) -> None:
        self.rows[answer]["value"] = value
        self._save()

    def clear(self, answer: str) -> None:
        self.rows[answer]["value"] = None
        self._save()

    def delete(self, answer: str) -> None:
        self._drop(lambda row: row["id"] == answer)

    def delete_item(self, item: str) -> None:
        self._drop(lambda row: row["item"] == item)

    def delete_rater(self, rater: str) -> None:
        self._drop(lambda row: row["rater"] == rater)

    def delete_job(self) -> None:
        self.path.unlink()

    def _drop(self, gone: Any) -> None:
        self.rows = {k: r for k, r in self.rows.items() if not gone(r)}
        self._save()

    def _save(self) -> None:
        lines = [json.dumps(row) for row in self.rows.values()]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class TestFiles(ConnectorContract):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return FilesDriver(tmp_path)
