"""``calibrate-plugin versions``: which versions of each evaluator there are, and which one counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import polars as pl

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import asked_dimension, config_option, loaded, stored


@click.command()
@config_option
@click.option("--set", "chosen", multiple=True, metavar="JUDGE=VERSION", help="Make this version live; repeatable.")
@click.option("--dimension", metavar="D", help="With --set: in this dimension only.")
def versions(config: Path, chosen: Sequence[str], dimension: str | None) -> None:
    """List the versions of every evaluator with their counts, and set the live one.

    \b
    calibrate-plugin versions
    calibrate-plugin versions --set safety-judge=v3
    """
    from calibrate_plugin import cycle
    from calibrate_plugin.ratings.rules import apply

    settings = loaded(config)
    with out.failures(), stored(settings) as store:
        pulled = cycle.pulled(store) if store.latest() else out.pull_all(settings.sources)
        rows = _rows(apply(settings.study, pulled.labels, pulled.names))
    if chosen:
        _set(config, settings, rows, chosen, dimension)
        return
    if not rows:
        click.echo("no evaluator has answered; run `calibrate-plugin run` first")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from calibrate_plugin.report.display import visible

    table = Table("Dimension", "Evaluator", "Version", "Live", "Labels", "Items", "First", "Last", box=None)
    for row in rows:
        live = "yes" if row["live"] else "not named" if row["live"] is None else ""
        shown = [row["dimension"], row["evaluator"], row["version"] or "(none)", live]
        counts = [str(row["labels"]), str(row["items"])]
        days = [f"{t:%Y-%m-%d}" if t else "" for t in (row["first"], row["last"])]
        table.add_row(*(Text(visible(t)) for t in [*shown, *counts, *days]))
    Console(width=100).print(table)


def _rows(ratings: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, answers in ratings.answers.items():
        judged = [i for i, r in enumerate(answers.raters) if r.kind == "evaluator"]
        frame = answers.frame.filter(pl.col("rater").is_in(judged))
        frame = frame.with_columns(ratings.labels["at"].gather(frame["row"]).alias("at"))
        per = frame.group_by("rater").agg(
            pl.len().alias("labels"),
            pl.col("item").n_unique().alias("items"),
            pl.col("at").min().alias("first"),
            pl.col("at").max().alias("last"),
        )
        for row in per.sort("rater").to_dicts():
            rater = answers.raters[row.pop("rater")]
            live = answers.live.get(rater.name)
            rows.append(
                {
                    "dimension": name,
                    "evaluator": rater.name,
                    "version": rater.version,
                    "live": None if live is None else live == rater.version,
                    **row,
                }
            )
    return rows


def _set(path: Path, settings: Any, rows: list[dict[str, Any]], chosen: Sequence[str], dimension: str | None) -> None:
    import tomlkit

    from calibrate_plugin.config import edit

    said: list[str] = []

    def change(document: Any) -> bool:
        for spec in chosen:
            judge, equals, version = spec.rpartition("=")
            known = {r["version"] for r in rows if r["evaluator"] == judge}
            if not equals or not known:
                judges = ", ".join(sorted({r["evaluator"] for r in rows})) or "none"
                raise click.UsageError(f"--set {spec}: write JUDGE=VERSION with a judge among {judges}")
            if version not in known:
                raise click.UsageError(f"--set {spec}: {judge} has the versions {', '.join(sorted(known))}")
            asked_dimension(settings, dimension)
            live = document["sources"][_source_of(settings, rows, judge)].setdefault("live", tomlkit.inline_table())
            if dimension is None:
                live[judge] = version
            else:
                live.setdefault(dimension, tomlkit.inline_table())[judge] = version
            said.append(f"{judge}: {version} is live" + (f" in {dimension}" if dimension else ""))
        return True

    edit(path, change)
    for line in said:
        click.echo(line)


def _source_of(settings: Any, rows: list[dict[str, Any]], judge: str) -> str:
    """The source that gives a judge's scores: the one that already names its version, or asks for its field."""
    dimensions = {r["dimension"] for r in rows if r["evaluator"] == judge}
    for name, source in settings.sources.items():
        if judge in {f for fields in source.labels.values() for f in fields}:
            return str(name)
    for name, source in settings.sources.items():
        if source.connector != "label-studio" and dimensions & set(source.labels):
            return str(name)
    return str(next(iter(settings.sources)))
