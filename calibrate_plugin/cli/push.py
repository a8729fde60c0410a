"""``calibrate-plugin push`` and ``unpush``: results back to the platforms, and away again."""

from __future__ import annotations

from pathlib import Path

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, say_pushed, stored


@click.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Show exactly what would be written, and write nothing.")
def push(config: Path, dry_run: bool) -> None:
    """Write the results of what the store knows back to the sources that [push] names.

    The same results again write nothing.
    """
    from calibrate_plugin import cycle

    settings = loaded(config)
    if not cycle.wants_push(settings):
        raise click.UsageError(f"{config}: no source is to be written to; add a table, e.g. [push.judges]")
    with out.failures(), stored(settings) as store:
        sources = opened(settings)
        with store.work(wait=60), out.progress("computing and pushing"):
            report, ratings = cycle.report_now(store, settings, store.now())
            done = cycle.push(store, settings, sources, report, ratings, dry_run=dry_run)
        say_pushed(done, each=dry_run)
    if any(isinstance(p, str) or cycle.refused(p) for p in done.values()):
        raise click.exceptions.Exit(1)


@click.command()
@config_option
@click.confirmation_option(prompt="Remove everything that was ever pushed?")
def unpush(config: Path) -> None:
    """Remove everything that calibrate-plugin ever wrote to the platforms: scores, columns, tabs, project lines."""
    from calibrate_plugin import cycle

    settings = loaded(config)
    with out.failures(), stored(settings) as store:
        with out.progress("removing"):
            done = cycle.unpush(store, opened(settings))
        say_pushed(done)
        if not done:
            click.echo("nothing was ever pushed, so there is nothing to remove", err=True)
    if any(isinstance(p, str) or cycle.refused(p) for p in done.values()):
        raise click.exceptions.Exit(1)
