"""``calibrate-plugin split``: train, dev and test among the items with gold, and examples for the judge from train only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, stored

if TYPE_CHECKING:
    import polars as pl

    from calibrate_plugin.config import Config
    from calibrate_plugin.connector import Content, Example
    from calibrate_plugin.ratings.rules import Ratings
    from calibrate_plugin.report.calibrated import GoldAnswer
    from calibrate_plugin.splitting import Splits
    from calibrate_plugin.store import Store
    from calibrate_plugin.store.labelling import Use


@click.group(invoke_without_command=True)
@config_option
@click.option("--dimension", metavar="D", help="Whose gold answers are the classes. Default: the only dimension.")
@click.option(
    "--group", metavar="FACT", help="Keep items together that have the same value of this fact (a conversation)."
)
@click.option(
    "--least",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="How many of each class dev and test should have.",
)
@click.option("--dry-run", is_flag=True, help="Show it and write nothing.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
@click.pass_context
def split(
    context: click.Context, config: Path, dimension: str | None, group: str | None, least: int, dry_run: bool, form: str
) -> None:
    """Assign the items with gold to train (15 %), dev (42.5 %) and test (42.5 %), within each class, once and for all.

    Dev is for improving the judge and choosing its threshold, test for one last measurement: `run --only split=test` and
    `gate --only split=test` count how often they looked.

    \b
    calibrate-plugin split --group session
    calibrate-plugin split examples -n 8 --output examples.jsonl
    """
    if context.invoked_subcommand is not None:
        context.obj = config
        return
    from calibrate_plugin import splitting
    from calibrate_plugin.store.labelling import uses_of_test

    with _gold(config, dimension) as (settings, store, name, gold, facts, _):
        facts = _grouped(settings, store, group, gold, facts)
        try:
            found = splitting.split(gold, facts, group=group, least=least, seed=settings.study.seed)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        if not dry_run:
            splitting.keep(store, found)
        uses = [u for u in uses_of_test(store) if u.dimension == name]
    if form == "json":
        click.echo(json.dumps(_plain(name, found, uses, dry_run), indent=2, ensure_ascii=True))
    else:
        _show(name, found, uses, least, dry_run)


def _plain(name: str, found: Splits, uses: Sequence[Use], dry_run: bool) -> dict[str, Any]:
    return {
        "dimension": name,
        "counts": {s: dict(counts) for s, counts in found.counts.items()},
        "new": len(found.new),
        "kept": len(found.split) - len(found.new),
        "without_gold": found.elsewhere,
        "written": not dry_run and bool(found.new),
        "short": [{"split": s.split, "class": s.label, "items": s.items, "least": s.least} for s in found.short],
        "test_split_uses": len(uses),
    }


def _show(name: str, found: Splits, uses: Sequence[Use], least: int, dry_run: bool) -> None:
    from calibrate_plugin.report.display import plural, visible

    if not found.split:
        click.echo(
            visible(f"{name}: no item has a gold answer yet; label items with two people, or rule on disagreements")
        )
        return
    click.echo(visible(f"{name}: {len(found.split):,} items with gold"))
    for where, counts in found.counts.items():
        told = ", ".join(f"{n:,} {visible(label)}" for label, n in counts.items())
        click.echo(f"  {where:<6} {sum(counts.values()):>6,}  ({told})")
    would = "would be" if dry_run else "were"
    click.echo(
        f"  {plural(len(found.new), 'item')} {would} assigned now; {len(found.split) - len(found.new):,} stay where they are"
    )
    if found.elsewhere:
        click.echo(f"  {plural(found.elsewhere, 'item')} more are assigned and have no gold answer here")
    for one in found.short:
        click.echo(visible(f"  too few: {one.split} has {one.items:,} {one.label}, {least:,} are wanted"))
    if uses:
        versions = len({(u.evaluator, u.version) for u in uses})
        click.echo(
            f"  the test split was looked at {plural(len(uses), 'time')}, for {plural(versions, 'judge version')}"
        )


@split.command("examples")
@config_option
@click.option("--dimension", metavar="D", help="Default: the only dimension.")
@click.option("--most", "-n", type=click.IntRange(1, 500), default=8, show_default=True, help="How many at most.")
@click.option("--format", "form", type=click.Choice(["jsonl", "langfuse"]), default="jsonl", show_default=True)
@click.option(
    "--dataset", metavar="NAME", help="Make them items of this Langfuse dataset (of the study's source) as well."
)
@click.option(
    "--contents/--no-contents", default=True, show_default=True, help="Ask the platform for input and output."
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Default: standard output.")
@click.pass_context
def examples(
    context: click.Context,
    config: Path,
    dimension: str | None,
    most: int,
    form: str,
    dataset: str | None,
    contents: bool,
    output: Path | None,
) -> None:
    """Write examples for the judge's prompt, with people's reasons, from the train split only: dev and test stay unseen.

    Of each class in turn, those first on which everybody agreed.

    \b
    calibrate-plugin split examples --dimension Safety -n 8 --dataset safety-examples
    """
    from calibrate_plugin import splitting

    path = context.obj if context.obj is not None and config == Path("calibrate.toml") else config
    with _gold(path, dimension) as (settings, store, name, gold, facts, ratings):
        if "train" not in splitting.kept(facts).values():
            raise click.UsageError("no item is in the train split yet; `calibrate-plugin split` assigns them")
        chosen = splitting.examples(gold, facts, most, settings.study.seed)
        shown = _contents(settings, store, [c.item for c in chosen]) if contents and chosen else {}
        made = [_example(store, name, one, ratings, facts, shown.get(one.item)) for one in chosen]
    lines = [_line(one, name, dataset or f"{name} examples", form) for one in made]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    if dataset is not None:
        _push(settings, dataset, made)
    if output is not None:
        out.replace(output, text)
        click.echo(f"wrote {output}: {len(made)} examples", err=True)
    elif dataset is None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _line(one: Example, dimension: str, dataset: str, form: str) -> dict[str, Any]:
    if form == "langfuse":
        return {
            "datasetName": dataset,
            "id": one.id,
            "input": one.input,
            "expectedOutput": {"answer": one.answer, "reason": one.reason},
            "metadata": {**one.facts, "item": one.item, "output": one.output},
        }
    told = {"item": one.item, "dimension": dimension, "input": one.input, "output": one.output}
    return told | {"answer": one.answer, "reason": one.reason, "facts": dict(one.facts)}


def _example(
    store: Store, dimension: str, one: GoldAnswer, ratings: Ratings, facts: pl.DataFrame, content: Content | None
) -> Example:
    import hashlib

    import polars as pl

    from calibrate_plugin.connector import Example
    from calibrate_plugin.sampling import ASIDE, PASSED, SAMPLE

    told = facts.filter(
        (pl.col("item") == one.item)
        & ~pl.col("fact").is_in([SAMPLE, PASSED, ASIDE])  # among them is what the judge said
        & ~pl.col("fact").str.contains(r"^(split|stratum|probability|cause\.|blind)")
    )
    own = dict(told.select("fact", "value").drop_nulls().iter_rows())
    key = hashlib.sha256(f"{dimension}\x1f{one.item}".encode("utf-8", "replace")).hexdigest()[:24]
    return Example(
        id=f"calibrate-{key}",
        item=one.item,
        input=(content.input if content else None) or own.pop("input", None),
        output=(content.output if content else None) or own.pop("output", None),
        answer=one.value,
        reason=_reason(dimension, one, ratings),
        facts=own,
    )


def _reason(dimension: str, one: GoldAnswer, ratings: Ratings) -> str | None:
    """Why the gold answer is right: the ruling's reason, else those of the people who said so."""
    import polars as pl

    answers = ratings.answers[dimension]
    scale = answers.dimension.scale
    rows = answers.frame.filter(pl.col("cause").is_null())
    about = ratings.labels[rows["row"].to_numpy()].select("item", "reason")
    rows = pl.concat([rows.drop("item"), about], how="horizontal").filter(pl.col("item") == one.item)
    said: dict[str, list[str]] = {}
    for rater, level, number_, reason in rows.select("rater", "level", "number", "reason").iter_rows():
        who = answers.raters[rater]
        value = scale.names[level] if scale.levels is not None else f"{number_:g}"
        if who.kind != "evaluator" and value == one.value and reason:
            said.setdefault(who.kind, []).append(reason)
    return "\n".join(said.get("gold") or said.get("annotator") or []) or None


def _grouped(
    settings: Config, store: Store, group: str | None, gold: Sequence[GoldAnswer], facts: pl.DataFrame
) -> pl.DataFrame:
    """The facts, with the session or user of each item: those the platform tells when it is asked, and no fact does."""
    import polars as pl

    from calibrate_plugin import blind, splitting
    from calibrate_plugin.connector import SettingsError
    from calibrate_plugin.model import ITEMS, frame

    if group not in ("session", "user") or (facts["fact"] == group).any():
        return facts
    items = sorted({a.item for a in gold} | set(splitting.kept(facts)))
    try:
        _, source = blind.contents_of(opened(settings), blind.speak_of(store, items))
        told = dict(source.groups(items, group))
    except SettingsError:  # of a source that knows no such groups: then it can only be a fact
        return facts
    rows = {"item": list(told), "fact": [group] * len(told), "value": list(told.values())}
    return pl.concat([facts, frame(ITEMS, rows)], how="diagonal")


def _contents(settings: Config, store: Store, items: Sequence[str]) -> Mapping[str, Content]:
    """What the items are, as far as a source can show it."""
    from calibrate_plugin import blind
    from calibrate_plugin.connector import ConnectorError, SettingsError

    sources = opened(settings)
    try:
        _, source = blind.contents_of(sources, blind.speak_of(store, items))
    except SettingsError:
        return {}
    try:
        return {c.item: c for c in source.contents(items) if not c.problem}
    except ConnectorError as error:
        click.echo(f"without input and output: {error}", err=True)
        return {}


def _push(settings: Config, dataset: str, made: Sequence[Example]) -> None:
    from calibrate_plugin.cli.study import say_pushed
    from calibrate_plugin.connector import Examples

    for name, source in opened(settings).items():
        if isinstance(source, Examples):
            with out.failures():
                pushed = source.add_examples(dataset, made)
            say_pushed({name: pushed})
            if any(w.outcome == "refused" for w in pushed.writes):
                raise click.exceptions.Exit(1)
            return
    raise click.UsageError(
        "--dataset: no source of the study keeps datasets; write the examples with --format langfuse"
    )


@contextmanager
def _gold(
    config: Path, dimension: str | None
) -> Iterator[tuple[Config, Store, str, list[GoldAnswer], pl.DataFrame, Ratings]]:
    """The gold answers of a dimension as the calibration takes them, and what is known beside."""
    from calibrate_plugin import cycle
    from calibrate_plugin.report.build import only
    from calibrate_plugin.report.calibrated import gold_answers

    settings = loaded(config)
    names = [d.name for d in settings.study.dimensions]
    if dimension is None and len(names) > 1:
        raise click.UsageError(f"there are several dimensions ({', '.join(names)}); say which with --dimension")
    name = dimension or names[0]
    try:
        study = only(settings.study, [name])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with out.failures(), stored(settings) as store:
        if not store.latest():
            raise click.UsageError("nothing was pulled yet; `calibrate-plugin run` pulls")
        facts, study = cycle.pulled(store), cycle.keyed(store, study)
        with out.progress("computing"):
            report, ratings = out.built(study, facts, (), None)
            gold = gold_answers(study, ratings, report.dimensions[0], facts.items)
        yield settings, store, name, gold, facts.items, ratings


__all__ = ["split"]
