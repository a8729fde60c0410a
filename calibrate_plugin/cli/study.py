"""What every command that works on a study does first and last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.connector import GROUP, ConnectorError, Pushed, SettingsError, Source
from calibrate_plugin.report.display import visible_lines

if TYPE_CHECKING:
    from calibrate_plugin.config import Config
    from calibrate_plugin.store import Store
    from calibrate_plugin.sync import SyncOutcome

config_option = click.option(
    "--config",
    "-c",
    type=click.Path(path_type=Path),
    default=Path("calibrate.toml"),
    show_default=True,
    help="The study's settings.",
)


def loaded(path: Path) -> Config:
    """The settings, with what is wrong in them as an error of the call."""
    from calibrate_plugin.config import load

    try:
        return load(path)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


def opened(config: Config) -> dict[str, Source]:
    """The sources, with what is wrong in their settings as an error of the call."""
    from calibrate_plugin.cycle import open_all

    try:
        return open_all(config)
    except SettingsError as error:
        raise click.UsageError(f"{config.path}: {error}") from None


def asked_dimension(config: Config, name: str | None) -> None:
    """That a dimension named in the call is one of the study's."""
    there = [d.name for d in config.study.dimensions]
    if name is not None and name not in there:
        raise click.UsageError(visible_lines(f"there is no dimension {name!r}; there are: {', '.join(there)}"))


@contextmanager
def stored(config: Config) -> Iterator[Store]:
    """The study's store; what is wrong with it ends the command with its message."""
    from calibrate_plugin.store import Busy, Store, StoreError

    try:
        with Store(config.store) as store:
            yield store
    except (Busy, StoreError) as error:
        raise ConnectorError(str(error)) from None


@contextmanager
def said_by_connectors() -> Iterator[None]:
    """What connectors log on their way (how much there is to read, what was tried again) on standard error."""
    import logging

    class Said(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(visible_lines(record.getMessage()), err=True)

    packages = {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}
    handler = Said(logging.INFO)
    loggers = [logging.getLogger(package) for package in sorted(packages)]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def say_synced(outcomes: Sequence[SyncOutcome]) -> None:
    """One line per source on standard error: what was read, and what is wrong."""
    for o in outcomes:
        if o.outcome == "ok":
            asked = "" if o.requests is None else f", {o.requests} requests"
            aside = f", {o.quarantined} records not read" if o.quarantined else ""
            double = f", {o.duplicates} listed twice" if o.duplicates else ""
            click.echo(
                f"{o.source}: {o.seen} labels seen, {o.added} added, {o.changed} changed, {o.retired} retired"
                f"{double}{aside}{asked}, {o.seconds:.1f} s ({o.mode})",
                err=True,
            )
        else:
            click.echo(f"{o.source}: {o.outcome}: {visible_lines(o.message)}", err=True)


def say_pushed(pushed: Mapping[str, Pushed | str], *, each: bool = False) -> None:
    """What was written where, on standard error; with ``each`` every single write on standard output."""
    for name, result in pushed.items():
        if isinstance(result, str):
            click.echo(f"{name}: {visible_lines(result)}", err=True)
            continue
        for write in result.writes:
            if each or write.outcome == "refused":
                click.echo(
                    visible_lines(f"{name}: {write.outcome}: {write.target} {write.detail}".rstrip()),
                    err=write.outcome == "refused",
                )
        counts = Counter(w.outcome for w in result.writes)
        shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) or "nothing to write"
        click.echo(f"{name}: {shown}", err=True)
