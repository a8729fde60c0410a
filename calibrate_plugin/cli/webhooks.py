"""``calibrate-plugin webhooks``: have the platforms wake a service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened
from calibrate_plugin.connector import Finding, SettingsError, Webhooks
from calibrate_plugin.report.display import visible_lines

url_option = click.option(
    "--url",
    required=True,
    metavar="URL",
    help="Where the service is reached from the platforms, e.g. https://calibrate.example.com",
)


@click.group()
def webhooks() -> None:
    """Have the platforms wake `calibrate-plugin serve` when something changes."""


@webhooks.command()
@config_option
@url_option
def install(config: Path, url: str) -> None:
    """Set up the webhooks of every source: only the events that matter, without content, with the secret of CALIBRATE_WEBHOOK_SECRET."""
    from calibrate_plugin.server.access import secret

    try:
        known = secret("CALIBRATE_WEBHOOK_SECRET")
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    if not known:
        raise click.UsageError(
            "CALIBRATE_WEBHOOK_SECRET is not set: webhooks must prove where they come from; make one, e.g. `openssl rand -hex 32`"
        )
    _each(config, url, lambda source, at: source.install_webhooks(at, known))


@webhooks.command()
@config_option
@url_option
def status(config: Path, url: str) -> None:
    """Say which webhooks are set up, and what is wrong with them."""
    _each(config, url, lambda source, at: source.webhooks(at))


@webhooks.command()
@config_option
@url_option
def remove(config: Path, url: str) -> None:
    """Take our webhooks away from the platforms again."""
    _each(config, url, lambda source, at: source.remove_webhooks(at))


def _each(config: Path, url: str, act: Callable[[Webhooks, str], list[Finding]]) -> None:
    from urllib.parse import quote

    settings = loaded(config)
    problems = False
    with out.failures():
        for name, source in opened(settings).items():
            if not isinstance(source, Webhooks):
                click.echo(f"{name}: {settings.sources[name].connector} sends no webhooks")
                continue
            for finding in act(source, f"{url.rstrip('/')}/webhooks/{quote(name, safe='')}"):
                problems |= finding.level == "problem"
                click.echo(visible_lines(f"{name}: {finding.level}: {finding.subject}: {finding.message}"))
                if finding.fix:
                    click.echo(visible_lines(f"  {finding.fix}"))
    if problems:
        raise click.exceptions.Exit(1)
