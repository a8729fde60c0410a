"""``calibrate-plugin check``: what stands between the settings and numbers that can be trusted, each with its fix."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import polars as pl

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, stored
from calibrate_plugin.connector import Checks, ConnectorError, Finding, Source
from calibrate_plugin.report.display import clip, plural, visible, visible_lines

MARKS = {"ok": "ok", "warning": "!", "problem": "✗"}


@click.command()
@config_option
def check(config: Path) -> None:
    """Look at every source of the study and at what it gives: reachable, authorised, set up for agreement, joined.

    Exit code 1 where anything is a problem.
    """
    settings = loaded(config)
    findings: list[Finding] = [Finding("ok", str(config), plural(len(settings.study.dimensions), "dimension"))]
    with out.failures():
        sources = opened(settings)
        with out.progress("looking at the sources"):
            for name, source in sources.items():
                findings += _of_source(name, source)
        with out.progress("reading labels"), stored(settings) as store:
            try:
                findings += _of_labels(settings, store)
            except ConnectorError as error:
                findings.append(Finding("problem", "labels", str(error)))
    for finding in findings:
        click.echo(visible_lines(f"{MARKS.get(finding.level, '?'):>2} {finding.subject}: {finding.message}"))
        if finding.fix and finding.level != "ok":
            click.echo(visible_lines(f"     {finding.fix}"))
    problems = sum(f.level == "problem" for f in findings)
    warnings = sum(f.level == "warning" for f in findings)
    click.echo(f"{plural(problems, 'problem')}, {plural(warnings, 'warning')}")
    if problems:
        raise click.exceptions.Exit(1)


def _of_source(name: str, source: Source) -> Iterable[Finding]:
    if not isinstance(source, Checks):
        return
    try:
        for found in source.check():
            subject = found.subject if found.subject.startswith(name) else f"{name}, {found.subject}"
            yield Finding(found.level, subject, found.message, found.fix)
    except ConnectorError as error:
        yield Finding("problem", name, str(error))


def _of_labels(settings: Any, store: Any) -> Iterable[Finding]:
    """What the labels themselves show, from the store, or read now where nothing was stored yet."""
    from calibrate_plugin import cycle
    from calibrate_plugin.ratings.rules import apply

    pulled = cycle.pulled(store) if store.latest() else out.pull_all(settings.sources)
    ratings = apply(settings.study, pulled.labels, pulled.names)
    if not ratings.labels.height:
        yield Finding(
            "problem", "labels", "no source gives any label", "see above, or wait until somebody has labelled"
        )
        return
    if unread := pulled.aside.height:
        causes = ", ".join(f"{n} {c}" for c, n in pulled.aside.group_by("cause").len().sort("cause").rows())
        yield Finding(
            "warning", "labels", f"{unread} records could not be read ({causes})", "the HTML report lists them"
        )
    for name, answers in ratings.answers.items():
        yield from _of_dimension(name, answers, ratings)
        yield from _of_care(settings.study, name, answers, ratings)


def _of_dimension(name: str, answers: Any, ratings: Any) -> Iterable[Finding]:
    if not answers.frame.height:
        yield Finding("problem", name, "no label answers it", "look at labels in the sources' tables")
        return
    raters = answers.raters
    outside = answers.frame.filter((pl.col("level") == -2) | (pl.col("cause") == "rejected"))
    if outside.height:
        values = ratings.labels["value"].gather(outside["row"])
        seen = values.value_counts(sort=True).head(5).rows()
        shown = ", ".join(f"{clip(visible(str(v)), 40)} ({n})" for v, n in seen)
        fix = f'say what they mean, e.g. map = {{ "..." = "{answers.dimension.scale.names[0]}" }} or abstain, in [dimensions.{name}]'
        if answers.dimension.scale.kind == "rating" and answers.dimension.scale.levels is None:
            fix = f"look at min and max in [dimensions.{name}]"
        yield Finding("warning", name, f"{plural(outside.height, 'answer')} outside the scale: {shown}", fix)
    counted = answers.counted
    human = [i for i, r in enumerate(raters) if r.kind == "annotator"]
    people = counted.filter(pl.col("rater").is_in(human))
    machines = counted.filter(~pl.col("rater").is_in(human))
    per_item = people.group_by("item").len()
    shared = per_item.filter(pl.col("len") > 1).height
    joined = per_item.join(machines.select("item").unique(), on="item").height
    if not shared:
        yield Finding(
            "warning",
            name,
            "no item was answered by two annotators, so there is no agreement between people and no human ceiling",
            "let a second person label the same items; in Label Studio maximum_annotations must be 2 or more",
        )
    if not joined:
        ours, theirs = (_sample(part, ratings) for part in (people, machines))
        yield Finding(
            "problem" if people.height and machines.height else "warning",
            name,
            f"no item has both an annotator's and an evaluator's answer; people name items like {ours}, "
            f"evaluators like {theirs}",
            "set item in the sources' tables so that both name an item alike",
        )
    else:
        total = machines["item"].n_unique()
        yield Finding(
            "ok",
            name,
            f"{joined} of {per_item.height} labelled items were also scored by an evaluator (of {total} scored)",
        )
    for evaluator, live in answers.live.items():
        if live is None:
            yield Finding(
                "warning",
                name,
                f"{evaluator} has answered in several versions and none is named as live",
                f"calibrate-plugin versions --set '{evaluator}=VERSION'",
            )


def _of_care(study: Any, name: str, answers: Any, ratings: Any) -> Iterable[Finding]:
    """Who answered faster than anybody reads, and who keeps whatever a judge's answer had filled in."""
    from calibrate_plugin.ratings.care import care

    people = care(study, answers, ratings)
    hurried = [p for p in people if p.fast]
    if hurried:
        who = ", ".join(f"{clip(visible(p.rater), 40)} {p.fast} of {p.timed}" for p in hurried)
        told = (
            "they are left out"
            if study.leave_out_fast
            else "they count; leave_out_fast = true in [study] leaves them out"
        )
        yield Finding(
            "warning",
            name,
            f"answers that took less than {study.fast_seconds:g} s, which is no time to read: {who}",
            f"ask them; {told}",
        )
    for person in people:
        if not person.seen:
            continue
        told = "they count" if study.count_not_blind else "they are left out"
        habit = (
            f"; on all {person.compared} items that a judge answered they say what it says"
            if person.always_agrees
            else f"; {person.kept} of {person.compared} say what a judge says"
        )
        yield Finding(
            "warning",
            name,
            f"{clip(visible(person.rater), 40)} gave {plural(person.seen, 'answer')} after seeing a judge's{habit} ({told})",
            "label blind: calibrate-plugin sample makes tasks without predictions"
            + (", and let somebody else label these again" if person.always_agrees else ""),
        )


def _sample(part: pl.DataFrame, ratings: Any) -> str:
    names = ratings.labels["item"].gather(part["row"].head(2)).to_list()
    return " and ".join(repr(clip(visible(str(n)), 40)) for n in names) or "none"
