"""``calibrate-plugin run``: pull, compute, report, push, by the settings of a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, said_by_connectors, say_pushed, say_synced, stored
from calibrate_plugin.connector import SettingsError

if TYPE_CHECKING:
    from calibrate_plugin.config import Config


@click.command()
@config_option
@click.option("--full", is_flag=True, help="Ask the platforms for everything again, not only for what changed.")
@click.option(
    "--accept-deletions", is_flag=True, help="Let go of labels that are gone, even where more than a fifth of them is."
)
@click.option("--no-push", is_flag=True, help="Write nothing back, whatever the settings say.")
@out.report_options
def run(
    config: Path,
    full: bool,
    accept_deletions: bool,
    no_push: bool,
    dimensions: Sequence[str],
    by: Sequence[str],
    limits: Sequence[str],
    of_run: str | None,
    form: str,
    output: Path | None,
) -> None:
    """Pull from every source of the study, compute, report, and push the results back where [push] says so.

    What was pulled is kept in the study's store (calibrate.db beside the settings), so the next run asks only for what
    changed.

    \b
    calibrate-plugin run --config calibrate.toml --format html --output report.html
    """
    from calibrate_plugin import cycle
    from calibrate_plugin.report.build import only

    settings = loaded(config)
    only_these, of_run = out.limits_of(limits, of_run)
    try:
        study = only(settings.study, dimensions)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with out.failures(), stored(settings) as store:
        sources = opened(settings)
        with said_by_connectors(), out.progress("pulling, computing, pushing"):
            done = cycle.turn(
                store, settings, sources, full=full, accept_deletions=accept_deletions, pushing=not no_push
            )
        say_synced(done.outcomes)
        _say_guideline(settings)
        report, ratings = done.report, done.ratings
        if dimensions or by or of_run or only_these:
            with out.progress("computing"):
                limited, facts = cycle.keyed(store, study), cycle.pulled(store)
                report, ratings = out.built(limited, facts, by, of_run, only_these)
                report = cycle.finished(store, settings, report, limited, ratings, facts, "report")
        out.write(report, ratings, form, output)
        say_pushed(done.pushed)
        if settings.alerts.slack or settings.alerts.webhook:
            from calibrate_plugin import alerts
            from calibrate_plugin.cli.alerts import say_waiting

            say_waiting(alerts.after(store, settings, done))
    if not done.sound:
        raise click.exceptions.Exit(1)


def _say_guideline(settings: Config) -> None:
    """A guideline that cannot be read stops no run, and is told."""
    from calibrate_plugin import guideline

    try:
        found = guideline.current(settings)
    except SettingsError as error:
        click.echo(str(error), err=True)
        return
    if found is not None and not found.version:
        click.echo(f"{settings.guideline}: the version is missing, so no text is kept; see `guideline check`", err=True)
