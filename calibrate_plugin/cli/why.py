"""``calibrate-plugin why``: what moved each number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import asked_dimension, config_option, loaded, stored

if TYPE_CHECKING:
    from calibrate_plugin.why import Explanation

SHOWN = 5


@click.command()
@config_option
@click.argument("dimension", required=False)
@click.option(
    "--since", metavar="WHEN", help="A time, a sync number or #REPORT. Default: the report before the last change."
)
@click.option("--evaluator", metavar="E", help="Only the numbers of this evaluator.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def why(config: Path, dimension: str | None, since: str | None, evaluator: str | None, form: str) -> None:
    """Say why each number changed: its causes, the step of each, and the labels behind it. The steps add up.

    \b
    calibrate-plugin why Safety --since 2026-10-01
    """
    from calibrate_plugin import history as kept
    from calibrate_plugin.report.display import visible
    from calibrate_plugin.why import explain
    from calibrate_plugin.why_json import plain

    settings = loaded(config)
    asked_dimension(settings, dimension)
    with out.failures(), stored(settings) as store:
        try:
            moment = kept.previous(store) if since is None else kept.moment(store, since)
        except ValueError as error:
            raise click.UsageError(f"--since: {error}") from None
        if moment is None:
            click.echo("there is no earlier report to compare with; `calibrate-plugin run` keeps one each time")
            return
        with out.progress("comparing"):
            found = explain(store, settings, moment, dimension=dimension, evaluator=evaluator)
        if evaluator is not None and not found.numbers:
            known = sorted({p.evaluator for p in kept.series(store) if p.evaluator})
            if evaluator not in known:
                there = ", ".join(known) or "none"
                raise click.UsageError(visible(f"--evaluator: no report has {evaluator!r}; there are: {there}"))
    if form == "json":
        click.echo(json.dumps(plain(found), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        _show(found)


def _show(found: Explanation) -> None:
    from calibrate_plugin.report.display import visible

    click.echo(f"since {found.since.at:%Y-%m-%d %H:%M} (sync {found.since.number}), now sync {found.until.number}")
    if not found.numbers:
        click.echo("no number changed")
    for one in found.numbers:
        change = "" if one.difference is None else f" ({float(one.difference):+.4f})"
        click.echo(f"\n{visible(one.sentence)}{change}")
        for step in one.steps:
            moved = "       " if step.step is None else f"{float(step.step):+.4f}"
            click.echo(f"  {moved}  {visible(step.sentence)}")
            for c in step.changes[:SHOWN]:
                was, now = (v if v is not None else "—" for v in (c.before, c.after))
                link = f"  {c.link}" if c.link else ""
                click.echo(visible(f"           {c.item}: {c.rater} {was} → {now}{link}"))
            if step.n > SHOWN:
                click.echo(f"           and {step.n - SHOWN} more; --format json lists them")
    if found.beside:
        click.echo("\nBeside, moving none of these numbers:")
    for said in found.beside:
        click.echo(visible(f"  {said}"))
    for note in found.notes:
        click.echo(f"\nNot visible here: {note}.")
