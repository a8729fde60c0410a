"""``calibrate-plugin history``: each number over time, and any earlier report again."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import asked_dimension, config_option, loaded, stored

if TYPE_CHECKING:
    from calibrate_plugin.history import Point

SHOWN = ("human_score", "annotators.kappa", "evaluator.score", "evaluator.kappa")
BARS = "▁▂▃▄▅▆▇█"


@click.command()
@config_option
@click.argument("dimension", required=False)
@click.option("--statistic", "statistics", multiple=True, metavar="NAME", help="Only this number; repeatable.")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many reports to go back.")
@click.option("--as-of", metavar="WHEN", help="Up to a time, a sync number or #REPORT.")
@click.option(
    "--report",
    "again",
    is_flag=True,
    help="With --as-of: make that state's headline numbers again, byte for byte as they were kept.",
)
@click.option("--format", "form", type=click.Choice(["terminal", "json", "csv"]), default="terminal", show_default=True)
def history(
    config: Path,
    dimension: str | None,
    statistics: Sequence[str],
    last: int,
    as_of: str | None,
    again: bool,
    form: str,
) -> None:
    """Show each number over time, with its interval, from the reports that were kept.

    \b
    calibrate-plugin history Safety --statistic evaluator.kappa
    calibrate-plugin history --as-of 2026-10-01 --report --format json
    """
    from calibrate_plugin import history as kept

    settings = loaded(config)
    for name in statistics:
        if name not in kept.STATISTICS:
            raise click.UsageError(f"--statistic {name}: there are {', '.join(kept.STATISTICS)}")
    asked_dimension(settings, dimension)
    with out.failures(), stored(settings) as store:
        try:
            until = None if as_of is None else kept.moment(store, as_of)
        except ValueError as error:
            raise click.UsageError(f"--as-of: {error}") from None
        if again:
            if until is None:
                raise click.UsageError("--report needs --as-of: a time, a sync number or #REPORT")
            if form == "csv":
                raise click.UsageError("--report is for terminal or json")
            report, ratings = kept.report_as_of(store, settings, until, until.at)
            out.write(report, ratings, form, None)
            return
        dated = store.reports()
        points = kept.series(store, dimension=dimension, statistics=statistics, until=until, limit=last)
    if form == "json":
        rows = [{**dataclasses.asdict(p), "at": p.at.isoformat().replace("+00:00", "Z")} for p in points]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=True, allow_nan=False))
    elif form == "csv":
        _csv(points)
    elif not points and until is not None and dated:
        click.echo(f"no report was kept by {as_of}; the first one is of {dated[-1].at:%Y-%m-%d %H:%M}")
    elif not points:
        click.echo("no report was kept yet; `calibrate-plugin run` makes one")
    else:
        _table([p for p in points if statistics or p.statistic in SHOWN])


def _csv(points: Sequence[Point]) -> None:
    import csv

    from calibrate_plugin.report.display import cell

    writer = csv.writer(sys.stdout)
    names = [f.name for f in dataclasses.fields(points[0])] if points else []
    writer.writerow(names)
    for p in points:
        row = [p.at.isoformat() if name == "at" else getattr(p, name) for name in names]
        writer.writerow([cell(v) if isinstance(v, str) else v for v in row])


def _table(points: Sequence[Point]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from calibrate_plugin.report.display import coefficient, reason_name, visible

    console = Console(width=None if sys.stdout.isatty() else 110)
    lines: dict[tuple[str, str, str | None], list[Point]] = {}
    for p in points:
        if p.live is not False:  # what a report shows of a version that is not live has no history of its own
            lines.setdefault((p.dimension, p.statistic, p.evaluator), []).append(p)
    for (dimension, statistic, evaluator), line in lines.items():
        who = f" of {evaluator}" if evaluator else ""
        console.print(
            Text(visible(f"{dimension}: {statistic}{who}  {sparkline([p.value for p in line])}"), style="bold")
        )
        table = Table("Report", "When", "Value", "Interval", "Items", "Pairs", "Changed", box=None)
        before: Point | None = None
        for p in line:
            marks = []
            if before is not None and before.version != p.version:
                marks.append(f"version {before.version or '(none)'} → {p.version or '(none)'}")
            elif before is None and p.version:
                marks.append(f"version {p.version}")
            if before is not None and before.kind != p.kind and before.kind and p.kind:
                marks.append(f"{before.kind.capitalize()} → {p.kind.capitalize()}")
            value = coefficient(p.value) if p.value is not None else f"— ({reason_name(p.reason)})"
            ends = "" if p.low is None or p.high is None else f"{coefficient(p.low)} to {coefficient(p.high)}"
            pairs = "" if p.n_pairs is None else str(p.n_pairs)
            cells = [f"#{p.report}", f"{p.at:%Y-%m-%d %H:%M}", value, ends, str(p.n_items), pairs, "; ".join(marks)]
            table.add_row(*(Text(visible(c)) for c in cells))
            before = p
        console.print(table)


def sparkline(values: Sequence[float | None]) -> str:
    """The course of a number in one line; a gap where it was undefined."""
    known = [v for v in values if v is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    return "".join(" " if v is None else BARS[round((v - low) / span * 7) if span else 3] for v in values)
