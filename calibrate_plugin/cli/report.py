"""``calibrate-plugin report FILE``: the whole report of one file, without settings or a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
import polars as pl

from calibrate_plugin import scales
from calibrate_plugin.cli import output as out
from calibrate_plugin.connector import SourceSettings
from calibrate_plugin.model import Dimension, Study
from calibrate_plugin.report.build import Pulled, only

# Of two values one of which is among these, it is the one proposed as pass.
PASSES = ("good", "pass", "passed", "true", "yes", "y", "ok", "safe", "correct", "1")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--scale",
    "specs",
    multiple=True,
    metavar="NAME=SCALE",
    help=f"A dimension and its scale; repeatable. {scales.SYNTAX}. In binary the first value is pass.",
)
@click.option("--live", multiple=True, metavar="JUDGE=VERSION", help="The version of a judge that counts; repeatable.")
@click.option(
    "--gold", multiple=True, metavar="RATER", help="This rater's answers are gold, not an annotator's; repeatable."
)
@click.option(
    "--positive",
    "classes",
    multiple=True,
    metavar="D=VALUE",
    help="The class of a dimension that precision, recall, TPR and TNR speak of. Default: the first one. Repeatable.",
)
@click.option("--abstain", multiple=True, metavar="VALUE", help='An answer that means "unsure"; repeatable.')
@click.option("--items", type=click.Path(path_type=Path), metavar="FACTS.csv", help="Facts of items, by a column item.")
@click.option("--timezone", metavar="ZONE", help="The zone of times that name none, e.g. Europe/Berlin.")
@click.option("--study", "name", metavar="NAME", help="What to call the study. Default: the file's name.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the intervals' resampling.")
@click.option(
    "--bands", type=click.Choice(["landis-koch", "mchugh", "krippendorff"]), default="landis-koch", show_default=True
)
@out.report_options
def report(
    file: Path,
    specs: Sequence[str],
    live: Sequence[str],
    gold: Sequence[str],
    classes: Sequence[str],
    abstain: Sequence[str],
    items: Path | None,
    timezone: str | None,
    name: str | None,
    seed: int,
    bands: str,
    dimensions: Sequence[str],
    by: Sequence[str],
    limits: Sequence[str],
    of_run: str | None,
    form: str,
    output: Path | None,
) -> None:
    """Report on the labels in FILE: a long CSV, JSONL or Parquet file, one answer a row.

    Columns: item, dimension, rater, kind (annotator, evaluator or gold), value; optionally version, job, run, at, reason,
    confidence, sample, order. Other columns are facts of the items.

    \b
    calibrate-plugin report labels.csv --scale Safety=binary:Pass/Fail --scale Empathy=rating:1..5
    """
    only_these, of_run = out.limits_of(limits, of_run)
    declared = [_scale(spec, abstain) for spec in specs]
    if len({d.name for d in declared}) < len(declared):
        raise click.UsageError("a dimension has more than one --scale")
    declared = _positive(declared, classes)
    options = {k: v for k, v in (("facts", str(items) if items else None), ("timezone", timezone)) if v}
    settings = SourceSettings(file.name, "files", file, options=options)
    with out.failures():
        with out.progress(f"reading {file.name}"):
            pulled = out.pull_all({file.name: settings})
        if not declared:
            raise click.UsageError(_suggestion(pulled))
        study = Study(
            name=name or file.name,
            dimensions=tuple(declared),
            kinds=dict.fromkeys(gold, "gold"),
            live=dict(_named(spec) for spec in live),
            seed=seed,
            bands=bands,
        )
        try:
            study = only(study, dimensions)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        _nothing_asked(study, pulled, file)
        _unknown(pulled, gold, study)
        with out.progress("computing"):
            made, ratings = out.make(study, pulled, by, of_run, only_these)
        out.write(made, ratings, form, output)


def _scale(spec: str, abstain: Sequence[str]) -> Dimension:
    from dataclasses import replace

    try:
        return replace(scales.parse(spec), abstain=tuple(abstain))
    except ValueError as error:
        raise click.UsageError(f"--scale {spec}: {error}") from None


def _positive(declared: Sequence[Dimension], classes: Sequence[str]) -> list[Dimension]:
    from dataclasses import replace

    found = {d.name: d for d in declared}
    for spec in classes:
        name, equals, value = spec.partition("=")
        if not equals or name not in found:
            names = ", ".join(found) or "give them with --scale"
            raise click.UsageError(
                f"--positive {spec}: write D=VALUE with a dimension of the report; there are: {names}"
            )
        try:
            found[name] = replace(found[name], positive=scales.positive_class(found[name].scale, value))
        except ValueError as error:
            raise click.UsageError(f"--positive {spec}: {error}") from None
    return list(found.values())


def _named(spec: str) -> tuple[tuple[str, str], str]:
    judge, equals, version = spec.rpartition("=")
    if not equals or not judge:
        raise click.UsageError(f"--live {spec}: write JUDGE=VERSION, e.g. --live safety-judge=v3")
    return ("", judge), version


def _nothing_asked(study: Study, pulled: Pulled, file: Path) -> None:
    fields = {f for labels in pulled.labels.values() for f in labels["field"].unique().to_list()}
    if not fields & {d.name for d in study.dimensions}:
        raise click.UsageError(
            f"no row of {file.name} is of {', '.join(d.name for d in study.dimensions)}; {_suggestion(pulled)}"
        )


def _unknown(pulled: Pulled, gold: Sequence[str], study: Study) -> None:
    """A misspelt rater would otherwise be a setting without effect."""
    judges = [judge for _, judge in study.live]
    for option, named, kinds in (("--gold", gold, None), ("--live", judges, ["evaluator"])):
        if not named:
            continue
        there: set[str] = set()
        for labels in pulled.labels.values():
            rows = labels if kinds is None else labels.filter(pl.col("kind").is_in(kinds))
            there.update(rows["rater"].drop_nulls().unique().to_list())
        for name in named:
            if name not in there:
                shown = ", ".join(sorted(there)[:20]) or "none"
                what = "rater" if kinds is None else "judge"
                raise click.UsageError(f"{option}: there is no {what} {name!r}; there are: {shown}")


def _suggestion(pulled: Pulled) -> str:
    """The scales that would fit what the file holds, ready to be copied."""
    lines = []
    for labels in pulled.labels.values():
        values = labels.select("field", "value").drop_nulls().unique()
        for field in sorted(values["field"].unique().to_list()):
            seen = values.filter(pl.col("field") == field)["value"].to_list()
            lines.append(f"  --scale {json.dumps(f'{field}={_guess(seen)}', ensure_ascii=False)}")
    head = "say what scale each dimension is on (in binary the first value is pass); from the values seen, perhaps"
    return f"{head}\n" + "\n".join(lines[:20])


def _guess(seen: Sequence[str]) -> str:
    spelt = sorted({v.strip() if isinstance(v := json.loads(raw), str) else json.dumps(v) for raw in seen})
    texts = sorted({t.casefold(): t for t in reversed(spelt)}.values())  # a scale tells capitals and spaces not apart
    try:
        numbers = sorted(float(t) for t in texts)
    except ValueError:
        if len(texts) == 2 and texts[1].strip().casefold() in PASSES:
            texts.reverse()
        shown = "/".join(t.replace("/", "\\/") for t in texts[:8]) + ("/..." if len(texts) > 8 else "")
        return ("binary:" if len(texts) == 2 else "nominal:") + shown
    return f"rating:{numbers[0]:g}..{numbers[-1]:g}"
