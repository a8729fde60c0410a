"""A Label Studio export as a source of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from calibrate_label_studio import labelling
from calibrate_label_studio.annotations import Reading, Rows, project_of, seen
from calibrate_label_studio.discovery import SAMPLE, discovery
from calibrate_label_studio.export import open_export, tasks
from calibrate_label_studio.labelling import Controls
from calibrate_label_studio.options import beside, reading
from calibrate_plugin.connector import Covered, Discovery, Page, Scope, Since, SourceSettings

ROWS = 50_000  # of a page


class ExportFile:
    """A JSON export, a snapshot, or a page of ``/api/tasks``, plain or gzip.

    What a project asks is read from ``project_config``, else from all the answers in the file; the file is then read twice,
    so that its size does not matter.
    """

    def __init__(self, settings: SourceSettings) -> None:
        assert settings.file is not None
        self.path: Path = settings.file
        self.reading: Reading = reading(settings)
        self.controls: Controls | None = None
        if (config := settings.options.get("project_config")) is not None:
            self.controls = labelling.read(beside(settings, config, "project_config"))

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        controls = {} if self.controls is not None else self._seen()
        rows = Rows(self.reading, self.path.name)
        with closing(open_export(self.path)) as stream:
            for task in tasks(stream, str(self.path)):
                asked = self.controls if self.controls is not None else controls.get(project_of(task), {})
                rows.task(task, asked)
                if len(rows) >= ROWS:
                    yield rows.page()
        yield rows.page()
        yield Covered(Scope())

    def discover(self) -> Discovery:
        """Dimensions from the labelling configuration if it is given, else from the answers in the file."""
        controls = {"": self.controls} if self.controls is not None else {str(p): c for p, c in self._seen().items()}
        answers: dict[str, set[str]] = {}
        for piece in self.pull():
            if isinstance(piece, Page):
                for name, value in piece.labels.select("field", "value").drop_nulls().unique().iter_rows():
                    answers.setdefault(name, set()).update(_texts(json.loads(value)))
        with closing(open_export(self.path)) as stream:
            sample = [t for t in islice(tasks(stream, str(self.path)), SAMPLE) if isinstance(t, dict)]
        return discovery(controls, sample, seen=answers)

    def _seen(self) -> dict[str | None, Controls]:
        with closing(open_export(self.path)) as stream:
            return seen(tasks(stream, str(self.path)))


def _texts(value: Any) -> Iterator[str]:
    """The texts of an answer; of a path in a taxonomy each part from the top."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, list):
                yield from ("/".join(map(str, part[: end + 1])) for end in range(len(part)))
            elif isinstance(part, str):
                yield part
