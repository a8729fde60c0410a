"""A Label Studio export as a source of labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from calibrate_label_studio import labelling
from calibrate_label_studio.annotations import Reading, Rows, project_of, seen
from calibrate_label_studio.export import open_export, tasks
from calibrate_label_studio.labelling import Controls
from calibrate_label_studio.options import beside, reading
from calibrate_plugin.connector import Covered, Page, Scope, Since, SourceSettings

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

    def _seen(self) -> dict[str | None, Controls]:
        with closing(open_export(self.path)) as stream:
            return seen(tasks(stream, str(self.path)))
