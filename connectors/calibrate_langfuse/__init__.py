"""The Langfuse connector of calibrate-plugin: scores in, from a file or a running Langfuse; results out."""

from __future__ import annotations

from calibrate_langfuse.records import Rules
from calibrate_plugin.connector import Source, SourceSettings


def open_source(settings: SourceSettings) -> Source:
    """The scores that ``settings`` describe: those of ``file``, or else of the Langfuse that the environment names."""
    rules = Rules.of(settings)
    if settings.file is not None:
        from calibrate_langfuse.exports import ExportedScores

        return ExportedScores(settings, rules)
    from calibrate_langfuse.live import LiveScores

    return LiveScores(settings, rules)
