"""``calibrate-plugin run``: pull, compute, report, by the settings of a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from calibrate_plugin.cli import output as out


@click.command()
@click.option(
    "--config",
    "-c",
    type=click.Path(path_type=Path),
    default=Path("calibrate.toml"),
    show_default=True,
    help="The study's settings.",
)
@out.report_options
def run(
    config: Path, dimensions: Sequence[str], by: Sequence[str], of_run: str | None, form: str, output: Path | None
) -> None:
    """Pull from every source of the study, compute, and report.

    \b
    calibrate-plugin run --config calibrate.toml --format html --output report.html
    """
    from calibrate_plugin.config import load
    from calibrate_plugin.connector import SettingsError
    from calibrate_plugin.report.build import only

    try:
        settings = load(config)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    try:
        study = only(settings.study, dimensions)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with out.failures():
        with out.progress("reading the sources"):
            pulled = out.pull_all(settings.sources)
        with out.progress("computing"):
            made, ratings = out.make(study, pulled, by, of_run)
        out.write(made, ratings, form, output)
