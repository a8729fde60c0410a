"""A connector of your own: answers from a table in a SQLite database.

The table ``answers`` has the columns id, item, question, person, answer, given_at (ISO 8601, UTC). That is all a connector
is: it reads what its platform says, in the columns of the common model, and says when it has listed everything.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from calibrate_plugin.connector import ConnectorError, Covered, Page, Scope, SettingsError, Since, SourceSettings
from calibrate_plugin.model import LABELS, frame

BATCH = 10_000


def open_source(settings: SourceSettings) -> SqliteSource:
    """What the entry point names: ``connector = "sqlite"`` in calibrate.toml opens the database that ``file`` names."""
    if settings.file is None:
        raise SettingsError(f'sources.{settings.name}.file is missing; name the database, e.g. file = "answers.db"')
    return SqliteSource(settings.file, settings.fields)


class SqliteSource:
    def __init__(self, path: Path, questions: frozenset[str] | None) -> None:
        self.path = path
        self.questions = questions

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        """Every answer, in batches. A database lists all it has each time, so what is missing from it is gone."""
        try:
            database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        except sqlite3.OperationalError as error:
            raise ConnectorError(f"{self.path}: {error}") from None
        try:
            cursor = database.execute("SELECT id, item, question, person, answer, given_at FROM answers ORDER BY id")
            while rows := cursor.fetchmany(BATCH):
                yield self._page([r for r in rows if self.questions is None or r[2] in self.questions])
        except sqlite3.Error as error:
            raise ConnectorError(f"{self.path}: {error}") from None
        finally:
            database.close()
        yield Covered(Scope())

    def _page(self, rows: list[tuple[int, str, str, str, str | None, str]]) -> Page:
        return Page(
            frame(
                LABELS,
                {
                    "record": [str(r[0]) for r in rows],
                    "seq": [r[0] for r in rows],
                    "item": [r[1] for r in rows],
                    "field": [r[2] for r in rows],
                    "rater": [r[3] for r in rows],
                    "value": [None if r[4] is None else json.dumps(r[4]) for r in rows],
                    "state": ["cleared" if r[4] is None else "answered" for r in rows],
                    "kind": ["annotator"] * len(rows),
                    "at": [datetime.fromisoformat(r[5]) for r in rows],
                },
            )
        )
