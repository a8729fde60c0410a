"""``calibrate-plugin alerts``: what was told, and what still waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored

if TYPE_CHECKING:
    from calibrate_plugin.store.outbox import Waiting


@click.command()
@config_option
@click.option("--test", is_flag=True, help="Queue a test message to every channel of [alerts], and send it.")
@click.option("--last", type=click.IntRange(0), default=10, show_default=True, help="How many delivered ones to show.")
def alerts(config: Path, test: bool, last: int) -> None:
    """Deliver the alerts that wait, and show those and the last ones that were delivered.

    `calibrate-plugin run` tells what it finds by itself; this is for what could not be delivered then. The urls and the secret
    come from the environment variables that [alerts] names.

    Exit codes: 0 nothing waits, 1 something still does.
    """
    from calibrate_plugin import alerts as telling
    from calibrate_plugin.report.display import visible
    from calibrate_plugin.store.outbox import Outbox

    settings = loaded(config)
    if not telling.channels(settings.alerts):
        raise click.UsageError(
            f'{config}: alerts names no channel; write e.g. slack = "SLACK_WEBHOOK_URL" under [alerts], the name of the '
            "environment variable with the url"
        )
    with out.failures(), stored(settings) as store:
        if test:
            now = store.now()
            telling.raise_events(
                store, settings, [telling.Event(f"test\x1f{now}", "test", True, "this is a test")], now
            )
        waiting = telling.deliver(store, settings)
        delivered = Outbox(store).listed(delivered=True, limit=last)
        if not waiting and not delivered and last:
            click.echo("nothing was told yet, and nothing waits; --test sends a message to every channel")
        for one in reversed(delivered):
            click.echo(f"delivered {one.delivered:%Y-%m-%d %H:%M} {one.channel}: {visible(titles(one))}")
    say_waiting(waiting)
    if waiting:
        raise click.exceptions.Exit(1)


def titles(one: Waiting) -> str:
    return "; ".join(event["title"] for event in one.body["data"]["events"])


def say_waiting(waiting: Sequence[Waiting]) -> None:
    """What could not be delivered yet, on standard error."""
    from calibrate_plugin.report.display import visible

    for one in waiting:
        when = f"next try {one.due:%Y-%m-%d %H:%M}" if one.due else ""
        click.echo(
            visible(f"alert waits: {one.channel}: {titles(one)} ({one.error or 'not tried yet'}; {when})"), err=True
        )
