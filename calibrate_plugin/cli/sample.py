"""``calibrate-plugin sample``: which judged items people label next, and blind tasks for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, said_by_connectors, stored
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.report.display import clip, plural, visible, visible_lines

if TYPE_CHECKING:
    from calibrate_plugin.asking import Done, Plan

PARTS = ("input", "output", "context")


@click.command()
@config_option
@click.option("--n", "n", type=click.IntRange(min=1), required=True, help="How many items.")
@click.option(
    "--by",
    type=click.Choice(["judge", "random"]),
    default="judge",
    show_default=True,
    help="In strata of the judge's label, or all alike.",
)
@click.option("--judge", help="The judge whose answers are drawn from, if there are several.")
@click.option("--dimension", "-d", help="The dimension to draw by, if there are several.")
@click.option(
    "--floor", type=click.IntRange(min=1), help="At least so many of each label. [default: 10, or as many as fit]"
)
@click.option("--group", help="What stays together: session, user, or a fact of the items.")
@click.option("--people", type=click.IntRange(min=1), default=2, show_default=True, help="How many label each item.")
@click.option("--seed", type=int, help="Another seed than the study's.")
@click.option("--into", metavar="SOURCE", help="The source to label in, if there are several.")
@click.option("--project", help="A project that is there already; left out, one is made.")
@click.option("--title", help="The title of the project that is made.")
@click.option(
    "--show",
    "shows",
    multiple=True,
    metavar="KEY=PART",
    help="What a key of a --project's form shows: input, output or context.",
)
@click.option("--answered", is_flag=True, help="The --project may hold answers already.")
@click.option("--guideline", metavar="VERSION", help="The version of the guideline to label by. [default: the newest]")
@click.option("--opaque", is_flag=True, help="Tasks name their items by keys that tell nothing.")
@click.option("--more", is_flag=True, help="Draw another sample, beside those that are there.")
@click.option("--dry-run", is_flag=True, help="Show what would be drawn, and change nothing.")
def sample(
    config: Path,
    n: int,
    by: str,
    judge: str | None,
    dimension: str | None,
    floor: int | None,
    group: str | None,
    people: int,
    seed: int | None,
    into: str | None,
    project: str | None,
    title: str | None,
    shows: Sequence[str],
    answered: bool,
    guideline: str | None,
    opaque: bool,
    more: bool,
    dry_run: bool,
) -> None:
    """Draw items that a judge answered, and make a blind task of each for people to label.

    What was drawn, and with which chance, is kept in the study's store, so that the numbers made from these labels are
    weighted back to all judged items. The same command again fills up what is missing; --more draws another sample.

    \b
    calibrate-plugin run                         # the judge's answers must be in the store
    calibrate-plugin sample --n 200 --people 3 --dry-run
    calibrate-plugin sample --n 200 --people 3
    """
    from calibrate_plugin import asking
    from calibrate_plugin.sampling import Asked

    for option, given in (("--show", bool(shows)), ("--answered", answered)):
        if given and project is None:
            raise click.UsageError(f"{option} is about a project that is there already; name it with --project")
    settings = loaded(config)
    asked = Asked(n, by, dimension, judge, floor, group, people, settings.study.seed if seed is None else seed, opaque)
    wish = asking.Wish(into, project, title, guideline, _shows(shows), answered, more)
    with out.failures(), stored(settings) as store:
        sources = opened(settings)
        try:
            with said_by_connectors(), out.progress("drawing"):
                planned = asking.plan(store, settings, sources, asked, wish)
            _say_plan(planned)
            if dry_run:
                click.echo("nothing was changed (--dry-run)")
                return
            with said_by_connectors(), out.progress("making tasks"):
                done = asking.carry_out(store, settings, planned)
        except SettingsError as error:
            raise click.UsageError(str(error)) from None
        _say_done(done)


def _shows(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, part = one.partition("=")
        if not equals or part not in PARTS:
            raise click.UsageError(f"--show {one}: write KEY=PART with a part among {', '.join(PARTS)}")
        found[key.lstrip("$")] = part
    return found


def _say_plan(planned: Plan) -> None:
    drawn, sample = planned.drawn, planned.sample
    if drawn is None:
        click.echo(f"sample {sample.number} is there already; what is missing is filled up")
    else:
        together = f" in {plural(drawn.groups, 'group')} that stay together" if drawn.groups is not None else ""
        click.echo(
            f"sample {sample.number}: {len(drawn.items)} of {drawn.population} items{together}, drawn"
            f" {'at random' if sample.asked.by == 'random' else f'by what {visible(sample.judge or str())} said'}"
        )
        if sample.asked.by == "judge":
            for name, (part, size) in drawn.strata.items():
                click.echo(f"  {visible(clip(name, 40))}: {part} of {size}, each stands for {size / max(part, 1):.3g}")
        if drawn.labelled:
            click.echo(
                f"  {plural(drawn.labelled, 'judged item')} that people labelled already: left out, and outside of every"
                " weighted number"
            )
    for finding in planned.findings:
        mark = "✗" if finding.level == "problem" else "!"
        if finding.level != "ok":
            click.echo(visible_lines(f" {mark} {finding.subject}: {finding.message}\n     {finding.fix}"))


def _say_done(done: Done) -> None:
    sent = done.sent
    for line in done.wrote:
        click.echo(visible_lines(f"wrote to the settings: {line}"))
    for reason in sorted(set(sent.aside.values())):
        items = sorted(item for item, why in sent.aside.items() if why == reason)
        some = ", ".join(visible(clip(i, 40)) for i in items[:3])
        more = f" and {len(items) - 3} more" if len(items) > 3 else ""
        click.echo(f"set aside: {plural(len(items), 'item')} ({some}{more}): {visible(clip(reason, 200))}")
    if sent.aside:
        click.echo("  they are not replaced, so that the others keep their chances; --more --n draws others")
    there = f", {sent.there} were there" if sent.there else ""
    people = done.sample.asked.people
    each = "one person labels each" if people == 1 else f"{people} people label each"
    click.echo(f"{plural(sent.added, 'task')} made{there}; {each}")
    click.echo(f"label at {visible(done.link)}")
