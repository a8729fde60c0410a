"""What every command that ends in a report does: choose what to pull, show progress, render."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import polars as pl

from calibrate_plugin.connector import ConnectorError, Page, SourceSettings, open_source
from calibrate_plugin.model import ASIDE, ITEMS, Report, Study, frame
from calibrate_plugin.ratings.rules import Ratings
from calibrate_plugin.report.build import Pulled, build
from calibrate_plugin.report.slices import Limit, limit

FORMATS = ("terminal", "json", "csv", "html")


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what of a report is wanted and where it goes."""
    options = [
        click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable."),
        click.option(
            "--by",
            multiple=True,
            metavar="FACT",
            help="Split by an item fact, or by job, run or guideline; repeatable.",
        ),
        click.option(
            "--only",
            "limits",
            multiple=True,
            metavar="FACT=VALUE",
            help="Only what has this item fact, job or guideline, e.g. split=dev, job=12, guideline=2; or `undiscussed`: "
            "items that nobody has ruled on. Repeatable.",
        ),
        click.option("--run", "of_run", metavar="RUN", help="Only this evaluation run: its items, scores and version."),
        click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True),
        click.option(
            "--output",
            "-o",
            type=click.Path(path_type=Path),
            help="Where to write: a file, or for csv a folder (numbers.csv and pairs.csv). Default: standard output.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def failures() -> Iterator[None]:
    """Data that cannot be used ends the command with its message and exit code 1, never with a stack trace."""
    try:
        yield
    except ConnectorError as error:
        raise _Failure(str(error)) from None


class _Failure(click.ClickException):
    exit_code = 1

    def show(self, file: Any = None) -> None:
        from calibrate_plugin.report.display import visible_lines

        click.echo(f"Error: {visible_lines(self.message)}", err=True)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say what is going on, on a terminal, for as long as it takes."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def pull_all(sources: Mapping[str, SourceSettings]) -> Pulled:
    """Everything that the sources hold now, kept nowhere."""
    labels: dict[str, pl.DataFrame] = {}
    items: list[pl.DataFrame] = []
    aside: list[pl.DataFrame] = []
    names: dict[str, dict[str, str]] = {}
    for name, settings in sources.items():
        pages = [p for p in open_source(settings).pull(None) if isinstance(p, Page)]
        labels[name] = pl.concat([p.labels for p in pages]) if len(pages) != 1 else pages[0].labels
        items += [p.items for p in pages if p.items.height]
        aside += [p.aside for p in pages if p.aside.height]
        names[name] = {k: v for p in pages for k, v in p.names.items()}
    return Pulled(
        labels,
        pl.concat(items) if items else frame(ITEMS),
        pl.concat(aside) if aside else frame(ASIDE),
        names,
    )


def limits_of(texts: Sequence[str], run: str | None) -> tuple[tuple[Limit, ...], str | None]:
    """What ``--only`` says, and the run it asks for; what cannot be meant is an error of the call."""
    try:
        found = tuple(limit(text) for text in texts)
    except ValueError as error:
        raise click.UsageError(f"--only {error}") from None
    runs = {one.value for one in found if one.fact == "run"} | ({run} if run is not None else set())
    if len(runs) > 1:
        raise click.UsageError(f"--only: a report is of one run, not of {' and '.join(sorted(runs))}")
    return tuple(one for one in found if one.fact != "run"), next(iter(runs), None)


def built(
    study: Study, pulled: Pulled, by: Sequence[str], run: str | None, only: Sequence[Limit] = ()
) -> tuple[Report, Ratings]:
    """The report, with unknown facts and runs as errors of the call."""
    if run is not None:
        judged = [labels.filter(pl.col("kind") == "evaluator")["run"] for labels in pulled.labels.values()]
        there = sorted({name for runs in judged for name in runs.drop_nulls().unique()})
        if run not in there:
            raise click.UsageError(f"--run: there is no run {run!r}; there are: {', '.join(there[:20]) or 'none'}")
    try:
        return build(study, pulled, datetime.now(UTC), by=by, run=run, only=only)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def make(
    study: Study, pulled: Pulled, by: Sequence[str], run: str | None, only: Sequence[Limit] = ()
) -> tuple[Report, Ratings]:
    """The report with its calibration, of what no store keeps."""
    from calibrate_plugin.report.calibrated import calibrated

    report, ratings = built(study, pulled, by, run, only)
    try:
        return calibrated(report, study, ratings, pulled.items), ratings
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def write(report: Report, ratings: Ratings, form: str, output: Path | None) -> None:
    """Render in the format asked for; nothing half written stays behind."""
    if form == "csv":
        if output is None:
            raise click.UsageError("csv writes two files; name a folder for them, e.g. --output report")
        from calibrate_plugin.report import csv
        from calibrate_plugin.report.build import pair_audit

        output.mkdir(parents=True, exist_ok=True)
        for path in csv.write(report, pair_audit(ratings), output):
            click.echo(f"wrote {path}", err=True)
        return
    if form == "terminal" and output is None:
        from calibrate_plugin.report import terminal

        terminal.show(report)
        return
    text = _text(report, form)
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()
        return
    replace(output, text)
    click.echo(f"wrote {output}", err=True)


def _text(report: Report, form: str) -> str:
    if form == "json":
        from calibrate_plugin.report import json

        return json.render(report)
    if form == "html":
        from calibrate_plugin.report import html

        return html.render(report)
    from calibrate_plugin.report import terminal

    return terminal.render(report)


def replace(path: Path, text: str) -> None:
    """Write a file; one that was there is replaced once the new one is whole."""
    if path.is_dir():
        raise click.UsageError(f"{path} is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise _Failure(f"{path}: cannot be written: {error.strerror}") from None
