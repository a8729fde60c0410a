"""``calibrate-plugin disagreements``: the items on which answers differ, what is decided about them, and why they did."""

from __future__ import annotations

import csv
import getpass
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored
from calibrate_plugin.ratings.rulings import CAUSES

if TYPE_CHECKING:
    from calibrate_plugin.config import Config
    from calibrate_plugin.model import Disagreement, Study
    from calibrate_plugin.rulings import Given
    from calibrate_plugin.server.disagreements import Disagreements
    from calibrate_plugin.server.numbers import State
    from calibrate_plugin.store import Store

#: The columns of a file of rulings, in the order in which it is written; ``export`` adds what was answered.
COLUMNS = ("item", "dimension", "value", "cause", "reason", "by")
MOST_SAID = 20  # rows of a file that are told to be wrong
PAGE = 500

by_option = click.option(
    "--by",
    metavar="NAME",
    envvar="CALIBRATE_BY",
    help="Who rules. Default: $CALIBRATE_BY, else the name that you are signed in with.",
)


@click.group()
def disagreements() -> None:
    """List the items on which answers differ, rule on them, and count why they did.

    A ruling is a gold answer with a cause and a reason. What the guideline left open becomes a case of its next version.

    \b
    calibrate-plugin disagreements list --dimension Safety
    calibrate-plugin disagreements rule trace-17 --dimension Safety --value Fail --cause ambiguous --reason "..."
    calibrate-plugin disagreements causes
    """


@disagreements.command("list")
@config_option
@click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable.")
@click.option(
    "--between", type=click.Choice(["humans", "judges"]), help="Annotators, or an evaluator and an annotator."
)
@click.option(
    "--ruling", type=click.Choice(["open", "ruled", *CAUSES]), help="Those not ruled on, those ruled on, or by cause."
)
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="How many items of each dimension.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def list_(
    config: Path, dimensions: Sequence[str], between: str | None, ruling: str | None, most: int, form: str
) -> None:
    """List them with every answer and its reason, the widest difference first."""
    settings = loaded(config)
    with _looked_at(settings, dimensions) as (state, found, names):
        pages = {name: _page(found, state, name, between, ruling, most) for name in names}
    if form == "json":
        shown = {
            name: {"total": total, "items": [plain(one) for one in items]} for name, (total, items) in pages.items()
        }
        click.echo(json.dumps(shown, indent=2, ensure_ascii=True, allow_nan=False))
        return
    for name, (total, items) in pages.items():
        _show(name, total, items)


@disagreements.command()
@config_option
@click.argument("item")
@click.option("--dimension", metavar="D", help="Default: the only one.")
@click.option("--value", required=True, metavar="ANSWER", help="The right answer.")
@click.option("--cause", required=True, type=click.Choice(list(CAUSES)), help="Why the answers differ.")
@click.option("--reason", required=True, help="Why this is the right answer.")
@by_option
def rule(config: Path, item: str, dimension: str | None, value: str, cause: str, reason: str, by: str | None) -> None:
    """Decide what the right answer on ITEM is, and why the answers differ. An earlier ruling is replaced."""
    from calibrate_plugin import guideline, rulings

    settings = loaded(config)
    given = rulings.Given(item, _dimension(settings.study, dimension), value, cause, reason, by or _me())
    with out.failures(), stored(settings) as store, _meant():
        number = rulings.rule(store, settings.study, [given], guideline=guideline.version_now(settings))
    click.echo(f"ruled: {value} ({CAUSES[cause]}), by {given.by}" if number else "that was the ruling already")


@disagreements.command()
@config_option
@click.argument("item")
@click.option("--dimension", metavar="D", help="Default: the only one.")
def clear(config: Path, item: str, dimension: str | None) -> None:
    """Take the ruling on ITEM back."""
    from calibrate_plugin import rulings

    settings = loaded(config)
    name = _dimension(settings.study, dimension)
    with out.failures(), stored(settings) as store, _meant():
        rulings.clear(store, settings.study, [(item, name)])
    click.echo("taken back")


@disagreements.command()
@config_option
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def causes(config: Path, form: str) -> None:
    """Count the rulings by cause, per dimension, and the items that wait for one."""
    settings = loaded(config)
    with _looked_at(settings, ()) as (state, found, names):
        counts = Counter((r.dimension, r.cause) for r in found.rulings(state).values())
        waiting = {name: _page(found, state, name, None, "open", 1)[0] for name in names}
    table = {n: {**{c: counts[n, c] for c in CAUSES}, "not_ruled_on": waiting[n]} for n in names}
    if form == "json":
        click.echo(json.dumps(table, indent=2, ensure_ascii=True))
        return
    from calibrate_plugin.report.display import visible

    for name, row in table.items():
        click.echo(visible(name))
        for cause, text in CAUSES.items():
            click.echo(f"  {row[cause]:>6,}  {text}")
        click.echo(f"  {row['not_ruled_on']:>6,}  answers differ, and nobody has ruled yet")


@disagreements.command("export")
@config_option
@click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable.")
@click.option(
    "--between", type=click.Choice(["humans", "judges"]), help="Annotators, or an evaluator and an annotator."
)
@click.option("--ruling", type=click.Choice(["open", "ruled", *CAUSES]), help="As for list.")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Default: standard output.")
def export(
    config: Path,
    dimensions: Sequence[str],
    between: str | None,
    ruling: str | None,
    form: str,
    output: Path | None,
) -> None:
    """Write one row per item, with what was answered, and with room for a ruling: fill it in and `import` it."""
    settings = loaded(config)
    with _looked_at(settings, dimensions) as (state, found, names):
        rows = [row for name in names for one in _all(found, state, name, between, ruling) for row in [_row(name, one)]]
    text = _csv(rows) if form == "csv" else "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        out.replace(output, text)
        click.echo(f"wrote {output}: {len(rows):,} items", err=True)


@disagreements.command("import")
@config_option
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@by_option
def import_(config: Path, file: Path, by: str | None) -> None:
    """Read rulings from FILE (CSV or JSONL): item, dimension, value, cause, reason, by. Rows without a value are no rulings;
    rows that cannot be meant are set aside and told."""
    from calibrate_plugin import guideline, rulings

    settings = loaded(config)
    given: list[Given] = []
    wrong: list[str] = []
    left = 0
    with out.failures(), stored(settings) as store:
        there = rulings.items(store)
        for line, row in _read(file):
            if isinstance(row, str):
                wrong.append(f"line {line}: {row}")
            elif not row.get("value", "").strip():
                left += 1
            else:
                one = rulings.Given(
                    row.get("item", ""),
                    row.get("dimension", "").strip() or _only(settings.study),
                    row["value"].strip(),
                    row.get("cause", "").strip(),
                    row.get("reason", ""),
                    row.get("by", "").strip() or by or _me(),
                )
                try:
                    rulings.checked(settings.study, one)
                    if one.item not in there:
                        raise ValueError(f"no label is of the item {one.item!r}")
                except ValueError as error:
                    wrong.append(f"line {line}: {error}")
                else:
                    given.append(one)
        if given:
            rulings.rule(store, settings.study, given, guideline=guideline.version_now(settings))
    from calibrate_plugin.report.display import visible

    for said in wrong[:MOST_SAID]:
        click.echo(visible(f"{file.name}: {said}"), err=True)
    if len(wrong) > MOST_SAID:
        click.echo(f"and {len(wrong) - MOST_SAID:,} more", err=True)
    click.echo(f"{len(given):,} rulings written, {left:,} rows without a value, {len(wrong):,} set aside")
    if wrong:
        raise click.exceptions.Exit(1)


@disagreements.command("send")
@config_option
@click.option("--dimension", "dimensions", multiple=True, metavar="D", help="Only this dimension; repeatable.")
@click.option(
    "--between",
    type=click.Choice(["humans", "judges"]),
    default="humans",
    show_default=True,
    help="Annotators, or an evaluator and an annotator.",
)
@click.option(
    "--most", type=click.IntRange(1), default=100, show_default=True, help="How many items of each dimension."
)
@click.option("--into", metavar="SOURCE", help="The source in which people label. Default: the only one.")
@click.option("--dry-run", is_flag=True, help="Say how many and change nothing.")
def send(config: Path, dimensions: Sequence[str], between: str, most: int, into: str | None, dry_run: bool) -> None:
    """Send items that nobody has ruled on to a third person: blind tasks in a job of its own, whose answers are gold.

    The same command again adds what came since. Let somebody else than the two who disagreed do it: Label Studio's community
    edition cannot keep them out.
    """
    from calibrate_plugin import review
    from calibrate_plugin.cli.study import opened, said_by_connectors

    settings = loaded(config)
    with _looked_at(settings, dimensions) as (state, found, names):
        items = list(
            dict.fromkeys(one.item for name in names for one in _page(found, state, name, between, "open", most)[1])
        )
        if dry_run or not items:
            click.echo(f"{len(items):,} items to send" + (" (--dry-run: nothing was changed)" if dry_run else ""))
            return
        with _meant_settings(), said_by_connectors(), out.progress("making tasks"):
            done = review.send(found.store, settings, opened(settings), items, into=into)
    from calibrate_plugin.report.display import visible

    click.echo(f"{done.added:,} tasks made, {done.there:,} were there already; their answers are gold")
    for item, why in list(done.aside.items())[:MOST_SAID]:
        click.echo(visible(f"  {item}: {why}"))
    click.echo(visible(f"label at {done.link}"))


@contextmanager
def _meant_settings() -> Iterator[None]:
    from calibrate_plugin.connector import SettingsError

    try:
        yield
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


# --- what they share


@contextmanager
def _looked_at(settings: Config, dimensions: Sequence[str]) -> Iterator[tuple[State, Disagreements, list[str]]]:
    """The numbers of the store, its disagreements, and the names of the dimensions that are asked for."""
    from calibrate_plugin.server.disagreements import Disagreements
    from calibrate_plugin.server.numbers import Numbers

    there = [d.name for d in settings.study.dimensions]
    for name in dimensions:
        if name not in there:
            raise click.UsageError(f"there is no dimension {name!r}; there are: {', '.join(there)}")
    with out.failures(), stored(settings) as store:
        _pulled(store)
        with out.progress("computing"):
            numbers = Numbers(store, settings.study)
            numbers.follow(store.now())
        assert numbers.state is not None
        yield numbers.state, Disagreements(store), list(dimensions) or there


def _pulled(store: Store) -> None:
    if not store.latest():
        raise click.UsageError("nothing was pulled yet; `calibrate-plugin run` pulls")


@contextmanager
def _meant() -> Iterator[None]:
    """What cannot be meant is an error of the call."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _page(
    found: Disagreements, state: State, name: str, between: str | None, ruling: str | None, size: int, page: int = 1
) -> tuple[int, tuple[Disagreement, ...]]:
    from calibrate_plugin.server.disagreements import Wanted

    wanted = Wanted(name, kind=between or "", ruling=ruling or "")  # type: ignore[arg-type]
    given = found.page(state, wanted, page, size)
    return given.total, given.items


def _all(
    found: Disagreements, state: State, name: str, between: str | None, ruling: str | None
) -> Iterator[Disagreement]:
    total, _ = _page(found, state, name, between, ruling, 1)
    for page in range(1, -(-total // PAGE) + 1):
        yield from _page(found, state, name, between, ruling, PAGE, page)[1]


def plain(one: Disagreement) -> dict[str, Any]:
    """A disagreement as JSON holds it."""
    ruling = one.ruling
    return {
        "item": one.item,
        "distance": one.distance,
        "among_humans": one.among_humans,
        "with_judge": one.with_judge,
        "answers": [
            {
                "rater": a.rater,
                "kind": a.kind,
                "version": a.version,
                "value": a.value,
                "reason": a.reason,
                "at": a.at.isoformat() if a.at else None,
                "link": a.link,
                "after_ruling": a.after_ruling,
            }
            for a in one.answers
        ],
        "ruling": ruling
        and {
            "value": ruling.value,
            "cause": ruling.cause,
            "reason": ruling.reason,
            "by": ruling.by,
            "at": ruling.at.isoformat() if ruling.at else None,
        },
    }


def _row(dimension: str, one: Disagreement) -> dict[str, str]:
    r = one.ruling
    ruled = (r.value, r.cause or "", r.reason or "", r.by) if r else ("", "", "", "")
    answers = (f"{a.rater}: {a.value}" + (f" ({a.reason})" if a.reason else "") for a in one.answers)
    return dict(zip(COLUMNS, (one.item, dimension, *ruled), strict=True)) | {"answers": "\n".join(answers)}


def _csv(rows: Sequence[Mapping[str, str]]) -> str:
    from calibrate_plugin.report.display import cell

    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\r\n")
    writer.writerow((*COLUMNS, "answers"))
    for row in rows:
        # The key must come back as it was; what people and platforms wrote must not run.
        writer.writerow([cell(row[c]) for c in (*COLUMNS, "answers")])
    return made.getvalue()


def _read(file: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The rows of a file of rulings with their lines; text where a row is none."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if text.lstrip().startswith("{"):
        for line, part in enumerate(text.split("\n"), 1):
            if not part.strip():
                continue
            try:
                row = json.loads(part)
            except (ValueError, RecursionError):
                yield line, "not JSON"
                continue
            if not isinstance(row, dict):
                yield line, "not an object"
            else:
                yield (
                    line,
                    {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in row.items() if v is not None},
                )
        return
    # Other ends of lines than these three (U+2028, a form feed) may stand within a cell, where nothing quotes them.
    reader = csv.DictReader(io.StringIO(text, newline=""))
    csv.field_size_limit(
        max(len(text), csv.field_size_limit())
    )  # the answers of one item are one cell, whatever was written
    known = [c.strip() for c in reader.fieldnames or ()]
    if missing := [c for c in ("item", "value", "cause", "reason") if c not in known]:
        raise click.UsageError(f"{file}: there is no column {missing[0]}; it needs {', '.join(COLUMNS)}")
    for row in reader:
        named = {str(k).strip(): _uncelled(v) for k, v in row.items() if isinstance(v, str)}
        yield reader.line_num, named


def _uncelled(text: str) -> str:
    """A cell as it was before it was kept from running as a formula."""
    return text[1:] if len(text) > 1 and text[0] == "'" and text[1] in "=+-@\t\r" else text


def _dimension(study: Study, name: str | None) -> str:
    if name is None and not (name := _only(study)):
        names = ", ".join(d.name for d in study.dimensions)
        raise click.UsageError(f"there are several dimensions ({names}); say which with --dimension")
    return name


def _only(study: Study) -> str:
    return study.dimensions[0].name if len(study.dimensions) == 1 else ""


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise click.UsageError("nobody is named who rules; say who with --by") from None


def _show(name: str, total: int, items: Sequence[Disagreement]) -> None:
    from rich.console import Console
    from rich.text import Text

    from calibrate_plugin.report.display import clip, visible

    console = Console(width=100)
    more = f", the first {len(items)} of them" if total > len(items) else ""
    console.print(Text(f"{visible(name)}: answers differ on {total:,} items{more}", "bold"))
    for one in items:
        console.print(Text(f"\n{clip(visible(one.item), 80)}", "bold"))
        for a in one.answers:
            version = f" {a.version}" if a.version and a.kind == "evaluator" else ""
            line = Text.assemble(f"  {clip(visible(a.rater + version), 40)}: ", (clip(visible(a.value), 40), "bold"))
            if a.after_ruling:
                line.append(" (after the ruling)", "yellow")
            if a.reason:
                line.append(f"  {clip(visible(a.reason), 300)}", "dim")
            console.print(line)
        if (r := one.ruling) is not None:
            cause = CAUSES.get(r.cause or "", "no cause given")
            console.print(
                Text.assemble(
                    "  ruled ",
                    (clip(visible(r.value), 40), "bold"),
                    f" by {clip(visible(r.by), 40)}: {cause}; {clip(visible(r.reason or ''), 300)}",
                )
            )


__all__ = ["disagreements", "plain"]
