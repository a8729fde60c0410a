"""``calibrate-plugin guideline``: the text that people label by, from its first version to the next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored

if TYPE_CHECKING:
    from calibrate_plugin.config import Config
    from calibrate_plugin.model import Measure
    from calibrate_plugin.planning.guideline import Guideline

SHOWN = 50  # items in a terminal
FILE = "guideline.md"

form_option = click.option(
    "--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True
)


@click.group()
def guideline() -> None:
    """Write, check and improve the guideline: the text by which people label.

    Every version that is seen is kept in the study's store, so labels can be read under the text they were given under.

    \b
    calibrate-plugin guideline init
    calibrate-plugin guideline check
    calibrate-plugin guideline next
    calibrate-plugin guideline relabel
    """


@guideline.command()
@config_option
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(config: Path, force: bool) -> None:
    """Write a guideline to fill in, with a section for each dimension, and name it in the settings."""
    from calibrate_plugin.planning.guideline import skeleton

    settings = loaded(config)
    path = settings.guideline or config.parent / FILE
    if path.exists() and not force:
        raise click.UsageError(f"{path} is there already; --force replaces it")
    out.replace(path, skeleton(settings.study.name, settings.study.dimensions, _today()))
    click.echo(f"wrote {path}; fill in what stands in <!-- -->, then `calibrate-plugin guideline check`")
    if settings.guideline is None:
        _name_in_settings(config)


def _name_in_settings(config: Path) -> None:
    from calibrate_plugin.config import edit

    def change(document: Any) -> bool:
        document["study"]["guideline"] = FILE
        return True

    edit(config, change)
    click.echo(f'{config}: study.guideline = "{FILE}"')


@guideline.command()
@config_option
@form_option
def check(config: Path, form: str) -> None:
    """Say what is missing in each section, by line and heading. Exit code 1 where anything is."""
    from calibrate_plugin.planning.guideline import Problem
    from calibrate_plugin.planning.guideline import check as checked
    from calibrate_plugin.report.display import plural, visible
    from calibrate_plugin.store.labelling import guidelines

    settings = loaded(config)
    with out.failures(), stored(settings) as store:
        found = _current(settings)
        problems = checked(found, settings.study.dimensions)
        kept = [g for g in guidelines(store) if g.version == found.version]
        if kept and kept[-1].text != found.text and _used(store, settings).get(found.version):
            there = f"version {found.version} was another text on {kept[-1].at:%Y-%m-%d}"
            fix = "raise the number, or labels of both are taken for labels of one"
            problems.insert(0, Problem(found.version_line or 1, "", f"{there}; {fix}"))
        elif found.version:
            _kept(store, settings)
    path = settings.guideline
    if form == "json":
        click.echo(json.dumps([dataclasses.asdict(p) for p in problems], indent=2, ensure_ascii=True))
    else:
        for p in problems:
            where = f" {p.heading}:" if p.heading else ""
            click.echo(visible(f"{path}:{p.line}:{where} {p.message}"))
        if not problems:
            sections = plural(len(found.sections), "section")
            click.echo(f"{path}: version {found.version} of {found.day}, {sections}, complete")
    if problems:
        raise click.exceptions.Exit(1)


@guideline.command()
@config_option
@click.option("--version", "wanted", metavar="N", help="A version that was kept. Default: the file as it is.")
@click.option(
    "--list", "listed", is_flag=True, help="Which versions were kept, and how many answers were given under each."
)
@form_option
def show(config: Path, wanted: str | None, listed: bool, form: str) -> None:
    """Show the guideline, or an earlier version of it."""
    from calibrate_plugin.planning.guideline import plain_version
    from calibrate_plugin.report.display import visible_lines
    from calibrate_plugin.store.labelling import guidelines

    settings = loaded(config)
    with out.failures(), stored(settings) as store:
        if settings.guideline is not None and settings.guideline.exists():
            _kept(store, settings)
        kept = guidelines(store)
        if listed:
            _list(kept, _used(store, settings), form)
            return
        if wanted is None:
            text = _current(settings).text
        else:
            texts = {plain_version(g.version): g.text for g in kept}
            if plain_version(wanted) not in texts:
                there = ", ".join(texts) or "none"
                raise click.UsageError(f"--version {wanted}: no such version was kept; there are: {there}")
            text = texts[plain_version(wanted)]
    click.echo(
        json.dumps({"text": text}, ensure_ascii=True) if form == "json" else visible_lines(text), nl=form == "json"
    )


def _used(store: Any, settings: Config) -> dict[str, int]:
    """How many answers that count were given under each version."""
    from calibrate_plugin import cycle
    from calibrate_plugin.planning.guideline import plain_version
    from calibrate_plugin.ratings.rules import apply
    from calibrate_plugin.report.texts import versions_used

    used: dict[str, int] = {}
    if store.latest():
        pulled = cycle.pulled(store)
        ratings = apply(cycle.keyed(store, settings.study), pulled.labels, pulled.names)
        for version, n in versions_used(ratings).items():
            used[plain_version(version)] = used.get(plain_version(version), 0) + n
    return used


def _list(kept: Sequence[Any], used: dict[str, int], form: str) -> None:
    from calibrate_plugin.planning.guideline import plain_version
    from calibrate_plugin.report.display import visible

    rows = [
        {
            "version": g.version,
            "seen": g.at.isoformat().replace("+00:00", "Z"),
            "sync_number": g.number,
            "answers": used.get(plain_version(g.version), 0),
        }
        for g in kept
    ]
    texts = {plain_version(g.version) for g in kept}
    rows += [{"version": v, "seen": None, "sync_number": None, "answers": n} for v, n in used.items() if v not in texts]
    if form == "json":
        click.echo(json.dumps(rows, indent=2, ensure_ascii=True))
        return
    for row in rows:
        name = row["version"] or "(no version told)"
        seen = f"seen {row['seen'][:10]}" if row["seen"] else "its text was never seen"
        click.echo(visible(f"{name}: {seen}, {row['answers']:,} answers"))
    if not rows:
        click.echo("no version was kept yet; `calibrate-plugin guideline init` writes the first")


@guideline.command("next")
@config_option
@click.option("--dry-run", is_flag=True, help="Show the new text and write nothing.")
@click.option("--anyway", is_flag=True, help="Raise the version although no ruling waits: the text changes by hand.")
def next_(config: Path, dry_run: bool, anyway: bool) -> None:
    """Write the next version: the number raised, dated today, with every ruling that the guideline was silent or ambiguous
    about as a hard case of its section."""
    from calibrate_plugin import rulings
    from calibrate_plugin.planning.guideline import following, parse
    from calibrate_plugin.ratings.rulings import OF_GUIDELINE
    from calibrate_plugin.report.display import plural, visible, visible_lines
    from calibrate_plugin.store.labelling import keep_guideline

    settings = loaded(config)
    path = _path(settings)
    with out.failures(), stored(settings) as store:
        found = _current(settings)
        asked = [r for r in rulings.read(store, settings.study).values() if r.cause in OF_GUIDELINE]
        try:
            text, added = following(found, asked, _today())
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
        if not added and not anyway:
            raise click.UsageError(
                f"{path}: no ruling waits to become a case of version {parse(text).version}; rule with `calibrate-plugin disagreements"
                " rule`, or raise the version with --anyway and change the text by hand"
            )
        if not dry_run:
            keep_guideline(store, found.version, found.text)
            out.replace(path, text)
            keep_guideline(store, parse(text).version, text)
    if dry_run:
        click.echo(visible_lines(text), nl=False)
        return
    cases = "a hard case" if len(added) == 1 else "hard cases"
    click.echo(f"{path}: version {parse(text).version}, {plural(len(added), 'ruling')} added as {cases}")
    for ruling in added[:SHOWN]:
        click.echo(visible(f"  {ruling.dimension}: {ruling.item} is {ruling.value}"))
    click.echo("write the missing rule where the cases show it, then `calibrate-plugin guideline relabel`")


@guideline.command()
@config_option
@click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable.")
@click.option("--format", "form", type=click.Choice(["terminal", "json", "csv"]), default="terminal", show_default=True)
def relabel(config: Path, dimensions: Sequence[str], form: str) -> None:
    """List the items that the present version asks to label again: their answers were given under a text of their section
    that said something else."""
    from calibrate_plugin import cycle
    from calibrate_plugin import guideline as kept
    from calibrate_plugin.ratings.rules import apply
    from calibrate_plugin.report.build import only
    from calibrate_plugin.report.texts import to_label_again

    settings = loaded(config)
    try:
        study = only(settings.study, dimensions)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with out.failures(), stored(settings) as store:
        found = _current(settings)
        if not found.version:
            raise click.UsageError(
                f'{settings.guideline}: the version is missing; write a line "Version: 1" at the top'
            )
        _kept(store, settings)
        pulled = cycle.pulled(store)
        ratings = apply(cycle.keyed(store, study), pulled.labels, pulled.names)
        again = to_label_again(ratings, found, kept.known(store))
    if form == "json":
        click.echo(json.dumps([dataclasses.asdict(a) for a in again], indent=2, ensure_ascii=True))
    elif form == "csv":
        _csv(again)
    else:
        _terminal(again, found)


def _csv(again: Sequence[Any]) -> None:
    import csv
    import sys

    from calibrate_plugin.report.display import cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["item", "dimension", "raters", "versions"])
    for a in again:
        writer.writerow([cell(a.item), cell(a.dimension), cell(", ".join(a.raters)), cell(", ".join(a.versions))])


def _terminal(again: Sequence[Any], found: Guideline) -> None:
    from calibrate_plugin.report.display import visible

    if not again:
        click.echo(f"every answer that counts was given under what version {found.version} says")
        return
    by: dict[str, int] = {}
    for a in again:
        by[a.dimension] = by.get(a.dimension, 0) + 1
    for name, n in by.items():
        click.echo(visible(f"{name}: {n:,} items to label again under version {found.version}"))
    for a in again[:SHOWN]:
        under = ", ".join(v or "no version told" for v in a.versions)
        click.echo(visible(f"  {a.item} ({a.dimension}): {', '.join(a.raters)}, under {under}"))
    if len(again) > SHOWN:
        click.echo(f"  and {len(again) - SHOWN:,} more; --format csv lists them")


@guideline.command()
@config_option
@click.argument("old")
@click.argument("new")
@form_option
def compare(config: Path, old: str, new: str, form: str) -> None:
    """Show the numbers of answers given under version OLD beside those under NEW, with their intervals."""
    from calibrate_plugin import cycle
    from calibrate_plugin.report.json import measure
    from calibrate_plugin.report.texts import compared

    settings = loaded(config)
    with out.failures(), stored(settings) as store:
        pulled = cycle.pulled(store) if store.latest() else out.pull_all(settings.sources)
        try:
            with out.progress("computing"):
                rows = compared(cycle.keyed(store, settings.study), pulled, old, new, datetime.now(UTC))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if form == "json":
        told = [
            {
                "dimension": r.dimension,
                "subject": r.subject,
                "statistic": r.statistic,
                "old": measure(r.old),
                "new": measure(r.new),
                "difference": measure(r.difference),
            }
            for r in rows
        ]
        click.echo(json.dumps(told, indent=2, ensure_ascii=True, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from calibrate_plugin.report.display import clip, visible

    table = Table("Dimension", "Of", "Number", f"Version {visible(old)}", f"Version {visible(new)}", "Change", box=None)
    for r in rows:
        cells = [clip(visible(r.dimension), 24), clip(visible(r.subject), 24), r.statistic]
        table.add_row(*(Text(c) for c in (*cells, _shown(r.old), _shown(r.new), _shown(r.difference, signed=True))))
    Console(width=120).print(table)


def _shown(found: Measure, *, signed: bool = False) -> str:
    from calibrate_plugin.report.display import reason_name

    if found.value is None:
        return f"— ({reason_name(found.reason)})"
    sign = "+" if signed else ""
    ends = "" if found.interval is None else f" ({found.interval.low:{sign}.2f} to {found.interval.high:{sign}.2f})"
    return f"{found.value:{sign}.2f}{ends}" + ("" if signed else f", {found.n_items:,} items")


# --- what they share


def _path(settings: Config) -> Path:
    if settings.guideline is None:
        raise click.UsageError(
            f"{settings.path}: study.guideline names no file; `calibrate-plugin guideline init` writes one and names it"
        )
    return settings.guideline


def _current(settings: Config) -> Guideline:
    from calibrate_plugin import guideline as kept
    from calibrate_plugin.connector import SettingsError

    _path(settings)
    try:
        found = kept.current(settings)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    assert found is not None
    return found


def _kept(store: Any, settings: Config) -> None:
    from calibrate_plugin import guideline as kept
    from calibrate_plugin.connector import SettingsError

    try:
        kept.keep(store, settings)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


def _today() -> Any:
    return datetime.now().astimezone().date()


__all__ = ["guideline"]
