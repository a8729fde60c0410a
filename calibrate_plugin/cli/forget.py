"""``calibrate-plugin forget``: erase who somebody was."""

from __future__ import annotations

from pathlib import Path

import click
import polars as pl

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored


@click.command()
@config_option
@click.argument("rater")
@click.option("--source", "chosen", metavar="S", help="Only in this source of the settings. Default: in every one.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(config: Path, rater: str, chosen: str | None, yes: bool) -> None:
    """Erase the names and written reasons of RATER (an id in a source), and keep none of them again.

    The answers stay under the id, so no number changes. Kept reports that show a name are written again with the id in its
    place; everything else in them stays. What was already pushed, exported or sent is not reached.

    \b
    calibrate-plugin forget 17 --source people
    """
    from calibrate_plugin import history
    from calibrate_plugin.report.display import visible

    settings = loaded(config)
    if chosen is not None and chosen not in settings.sources:
        raise click.UsageError(f"--source {chosen}: there is no such source; there are: {', '.join(settings.sources)}")
    with out.failures(), stored(settings) as store:
        known = store.as_of(reasons=False).filter(pl.col("rater") == rater)["source"].unique().to_list()
        sources = [s for s in ([chosen] if chosen else settings.sources) if s in known]
        if not sources:
            raise click.UsageError(f"{rater!r} is no rater of {chosen or 'any source'}; give the id, not the name")
        if not yes:
            click.confirm(
                f"Erase the names and written reasons of {visible(rater)} in {', '.join(sources)} for good?", abort=True
            )
        for source in sources:
            done = history.forget(store, settings, source, rater)
            click.echo(
                f"{source}: {done.reasons} written reasons erased, {done.reports} kept reports written again without the "
                f"name. The answers stay under the id {visible(rater)}: no number changed."
            )
            if done.settings:
                click.echo(
                    f"{done.settings} kept states of the settings name this person, under [people] or elsewhere: they are needed "
                    "to make past reports again and stay."
                )
    if f":{rater}" in config.read_text(encoding="utf-8"):
        click.echo(f"{config} has this id too; take it out of [people] yourself.")
