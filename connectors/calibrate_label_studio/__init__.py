"""Label Studio: its exports, and a running server, as a source of labels."""

from __future__ import annotations

from calibrate_plugin.connector import Source, SourceSettings


def open_source(settings: SourceSettings) -> Source:
    """The source that ``settings`` describe: an export if they name a file, else projects of a running server."""
    from calibrate_label_studio.options import check_keys

    check_keys(settings)
    if settings.file is not None:
        from calibrate_label_studio.file import ExportFile

        return ExportFile(settings)
    from calibrate_label_studio.live import LiveProjects

    return LiveProjects(settings)
