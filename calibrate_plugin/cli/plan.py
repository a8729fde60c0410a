"""``calibrate-plugin plan``: how many items, how many people, how much gold; and a target to hold the report to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored

if TYPE_CHECKING:
    from calibrate_plugin.config import Config

#: What is often advised per class (practice: 30 to 50 passes and fails), and cannot carry a bound of 80 % at 90 % observed.
ADVISED = 50


@dataclass(frozen=True, slots=True)
class Wish:
    """What is planned for. ``level`` is that of every interval."""

    kappa: float
    pass_rate: float | None
    half_width: float
    share: float | None
    observed: float
    bound: float
    one_sided: bool
    reliability: float
    level: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How many. None: not asked for, or not to be told without a pass rate; ``told`` says what to mind."""

    items_for_kappa: int | None
    items_for_share: int | None
    gold_per_class: int
    people: int
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A verdict of a judge as the labels stand, and how many more items would decide it."""

    dimension: str
    evaluator: str
    version: str
    word: str | None
    reason: str | None
    difference: float | None
    items: int
    more_items: int | None


@click.command()
@config_option
@click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable.")
@click.option("--pass-rate", type=float, metavar="P", help="How many pass, 0 to 1. Default: what people said so far.")
@click.option("--kappa", type=float, default=0.6, show_default=True, help="The kappa that you expect between people.")
@click.option(
    "--half-width", type=float, default=0.1, show_default=True, help="How far its interval may reach to each side."
)
@click.option(
    "--share", type=float, help="Also: items for a share (an accuracy, a rate) of this size, as sure as that."
)
@click.option("--observed", type=float, default=0.9, show_default=True, help="How often the judge is right on a class.")
@click.option("--bound", type=float, default=0.8, show_default=True, help="What that is to be at least, surely.")
@click.option("--one-sided", is_flag=True, help="The bound is one-sided, which takes fewer items.")
@click.option("--reliability", type=float, default=0.8, show_default=True, help="Of the people's answers together.")
@click.option(
    "--people", type=click.IntRange(2), help="How many are to answer each item. Default: as reliability asks."
)
@click.option("--margin", type=float, help="With --write: how far below the people still counts as like them.")
@click.option("--write", is_flag=True, help="Write the target into the settings, before anybody labels.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def plan(
    config: Path,
    dimensions: Sequence[str],
    pass_rate: float | None,
    kappa: float,
    half_width: float,
    share: float | None,
    observed: float,
    bound: float,
    one_sided: bool,
    reliability: float,
    people: int | None,
    margin: float | None,
    write: bool,
    form: str,
) -> None:
    """Say how many items, people and gold answers it takes, and how many more would decide each judge's verdict.

    Works without settings too: then --pass-rate must be given, since skewed answers take many more items.

    \b
    calibrate-plugin plan --pass-rate 0.8 --half-width 0.1
    calibrate-plugin plan --dimension Safety --pass-rate 0.8 --write
    """
    settings = loaded(config) if config.exists() or write else None
    names = _names(settings, dimensions)
    rates, waiting = _labelled(settings, names) if settings is not None else ({}, [])
    level = settings.study.level if settings is not None else 0.95
    plans: dict[str, tuple[Wish, Plan]] = {}
    for name in names or [""]:
        rate = pass_rate if pass_rate is not None else rates.get(name)
        wish = Wish(kappa, rate, half_width, share, observed, bound, one_sided, reliability, level)
        try:
            plans[name] = wish, _plan(wish)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if write:
        assert settings is not None
        _write(config, settings, plans, people, margin)
    if form == "json":
        told = {name: {"asked": asdict(wish), **asdict(made)} for name, (wish, made) in plans.items()}
        shown = {"plan": told.pop("") if list(told) == [""] else told, "verdicts": [asdict(w) for w in waiting]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=True, allow_nan=False))
        return
    for name, (wish, made) in plans.items():
        _show(name, wish, made)
    _show_waiting(waiting)


def _plan(wish: Wish) -> Plan:
    """Raises ValueError for what cannot be."""
    from calibrate_plugin.planning.size import gold_per_class, items_for_kappa, items_for_share, people_for

    told = []
    items = None
    if wish.pass_rate is None:
        told.append("how many items depends on how many pass; give --pass-rate, e.g. --pass-rate 0.8")
    else:
        items = items_for_kappa(wish.kappa, wish.pass_rate, wish.half_width, wish.level)
    share = None if wish.share is None else items_for_share(wish.share, wish.half_width, wish.level)
    gold = gold_per_class(wish.observed, wish.bound, one_sided=wish.one_sided, level=wish.level)
    if gold > ADVISED:
        told.append(
            f"30 to {ADVISED} of each class, as is often advised, are too few to say that a judge which is right on "
            f"{wish.observed:.0%} is surely right on {wish.bound:.0%}"
        )
    if wish.pass_rate is not None and items is not None:
        rare = min(wish.pass_rate, 1 - wish.pass_rate)
        if rare * items < gold:
            told.append(
                f"a random sample of {items:,} items holds about {rare * items:.0f} of the rarer class; for {gold:,} take about "
                f"{-(-gold // rare):,.0f}, or let `sample` draw more of what the judge fails"
            )
    people = people_for(wish.kappa, wish.reliability)
    if people < 3:
        told.append("the alternative annotator test needs three people")
    return Plan(items, share, gold, people, tuple(told))


def _names(settings: Config | None, dimensions: Sequence[str]) -> list[str]:
    if settings is None:
        if dimensions:
            raise click.UsageError("--dimension: there are no settings to name one in; give --config")
        return []
    there = [d.name for d in settings.study.dimensions]
    for name in dimensions:
        if name not in there:
            raise click.UsageError(f"there is no dimension {name!r}; there are: {', '.join(there)}")
    return list(dimensions) or there


def _labelled(settings: Config, names: Sequence[str]) -> tuple[dict[str, float], list[Waiting]]:
    """How many pass in each binary dimension as people say, and the verdicts as they stand."""
    from calibrate_plugin import cycle
    from calibrate_plugin.connector import SettingsError
    from calibrate_plugin.report import calibrated
    from calibrate_plugin.report.build import only

    with out.failures(), stored(settings) as store:
        if not store.latest():
            return {}, []
        facts = cycle.pulled(store)
        study = cycle.keyed(store, only(settings.study, names))
        with out.progress("computing"):
            report, ratings = out.built(study, facts, (), None)
            try:
                report = calibrated.calibrated(report, study, ratings, facts.items)
            except ValueError as error:
                raise SettingsError(str(error)) from None
    rates, waiting = {}, []
    for dimension in report.dimensions:
        rate = dimension.human_score.value
        if dimension.scale.kind == "binary" and rate is not None and 0 < rate < 1:
            rates[dimension.name] = rate
        found = calibrated.of(dimension)
        for judge in found.judges if found is not None else ():
            if (beside := judge.beside_humans) is not None:
                verdict, difference = beside.verdict, beside.weighted or beside.difference
                waiting.append(
                    Waiting(
                        dimension.name,
                        judge.evaluator,
                        judge.version,
                        verdict.word,
                        verdict.reason,
                        difference.value,
                        difference.n_items,
                        verdict.more_items,
                    )
                )
    return rates, waiting


def _write(
    path: Path, settings: Config, plans: dict[str, tuple[Wish, Plan]], people: int | None, margin: float | None
) -> None:
    """The target into the settings, whose comments stay; and both into the store, with the day."""
    import tomlkit

    from calibrate_plugin import cycle
    from calibrate_plugin.config import edit
    from calibrate_plugin.connector import SettingsError

    def change(document: Any) -> bool:
        targets = document.setdefault("target", tomlkit.table(is_super_table=True))
        declared = list(settings.document["dimensions"])
        for name, (wish, made) in plans.items():
            key = name if name in declared else name.rpartition(": ")[0]
            table = targets.setdefault(key, tomlkit.table())
            told: dict[str, Any] = {"people": people or made.people, "half_width": wish.half_width, "kappa": wish.kappa}
            if made.items_for_kappa is not None:
                told |= {"items": made.items_for_kappa, "pass_rate": round(wish.pass_rate or 0, 4)}
            told |= {"gold": made.gold_per_class, "observed": wish.observed, "bound": wish.bound}
            for k, v in told.items():
                table[k] = v
        if margin is not None:
            document["study"]["margin"] = margin
        return True

    try:
        edit(path, change)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    made_of = loaded(path)
    with out.failures(), stored(made_of) as store:
        cycle.keep_settings(store, made_of)
    click.echo(f"{path}: the target is written down; `calibrate-plugin run` says how far it is", err=True)


def _show(name: str, wish: Wish, made: Plan) -> None:
    from calibrate_plugin.report.display import visible

    if name:
        click.echo(visible(name))
    if made.items_for_kappa is not None:
        click.echo(
            f"  {made.items_for_kappa:>7,}  items, for a kappa of {wish.kappa:g} between two people to within "
            f"{wish.half_width:g}, where {wish.pass_rate:.0%} pass"
        )
    if made.items_for_share is not None:
        click.echo(f"  {made.items_for_share:>7,}  items, for a share of {wish.share:g} to within {wish.half_width:g}")
    sided = "one-sided" if wish.one_sided else "two-sided"
    click.echo(
        f"  {made.gold_per_class:>7,}  gold answers of each class, so that a judge which is right on {wish.observed:.0%} is "
        f"surely right on {wish.bound:.0%} ({sided})"
    )
    click.echo(
        f"  {made.people:>7,}  people to answer each item, for a reliability of {wish.reliability:g} of their answers together"
    )
    for said in made.told:
        click.echo(f"           {said}")


def _show_waiting(waiting: Sequence[Waiting]) -> None:
    from calibrate_plugin.report.display import visible

    if waiting:
        click.echo("Given what is labelled")
    for w in waiting:
        judge = f"{w.evaluator} {w.version}".strip()
        head = f"  {w.dimension}, {judge}: {w.word or 'no verdict'}"
        if w.reason:
            head += f" ({w.reason})"
        if w.more_items:
            head += f"; about {w.more_items:,} more items would decide it ({w.items:,} so far)"
        click.echo(visible(head))


__all__ = ["plan"]
