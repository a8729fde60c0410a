"""``calibrate-plugin init``: ask the platforms what they hold, and write a study that joins it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.connector import (
    ConnectorError,
    Discovers,
    Discovery,
    Proposal,
    SourceSettings,
    open_source,
)

HEAD = """\
# Who is compared with whom, and on what scale. Every key is explained in the README.
# Urls and keys are not kept here; they come from the environment:
#   LABEL_STUDIO_URL, LABEL_STUDIO_API_KEY
#   LANGFUSE_BASE_URL (or LANGFUSE_HOST), LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY
"""
KEYS = {
    "label-studio": (("LABEL_STUDIO_URL",), ("LABEL_STUDIO_API_KEY",)),
    "langfuse": (("LANGFUSE_BASE_URL", "LANGFUSE_HOST"), ("LANGFUSE_PUBLIC_KEY",), ("LANGFUSE_SECRET_KEY",)),
}


@click.command()
@click.option(
    "--project", "projects", multiple=True, type=int, metavar="ID", help="A Label Studio project; repeatable."
)
@click.option("--label-studio-file", type=click.Path(path_type=Path), metavar="EXPORT", help="Or its JSON export.")
@click.option(
    "--langfuse-file", type=click.Path(path_type=Path), metavar="EXPORT", help="An export of scores from Langfuse."
)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Langfuse scores from this day on.")
@click.option(
    "--environment", "environments", multiple=True, metavar="NAME", help="Langfuse environments; default: all."
)
@click.option("--name", default="study", show_default=True, help="What to call the study.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("calibrate.toml"),
    show_default=True,
    help="Where to write.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(
    projects: Sequence[int],
    label_studio_file: Path | None,
    langfuse_file: Path | None,
    since: Any,
    environments: Sequence[str],
    name: str,
    output: Path,
    force: bool,
) -> None:
    """Propose dimensions, scales, the key that joins both sides and the live versions, and write a commented
    calibrate.toml.

    Urls and keys come from the environment (LABEL_STUDIO_URL, LABEL_STUDIO_API_KEY, LANGFUSE_BASE_URL,
    LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY); what is missing is asked for and not written down.

    \b
    calibrate-plugin init --project 12 --project 13
    calibrate-plugin init --label-studio-file project-12.json --langfuse-file scores.jsonl
    """
    if output.exists() and not force:
        raise click.UsageError(f"{output} is there already; --force replaces it")
    people = _settings(
        "people", "label-studio", label_studio_file, {"projects": list(projects)} if projects else {}, output
    )
    about: dict[str, Any] = {"environments": list(environments)} if environments else {}
    judges = _settings("judges", "langfuse", langfuse_file, about, output)
    if since is not None:
        judges = replace(judges, since=since.date())
    with out.failures():
        if not projects and label_studio_file is None:
            people = replace(people, options={"projects": _projects(people)})
        with out.progress("looking at both platforms"):
            ours, theirs = _discover(people), _discover(judges)
        draft = propose(name, people, ours, judges, theirs)
        output.write_text(draft.text(output), encoding="utf-8")
    click.echo(f"wrote {output}")
    for line in draft.notes:
        click.echo(f"  {line}")
    click.echo(f"look it over, then: calibrate-plugin check --config {output}")


def _settings(name: str, connector: str, file: Path | None, options: dict[str, Any], output: Path) -> SourceSettings:
    if file is None:
        _ask(connector)
    return SourceSettings(name, connector, file, options=options)


def _ask(connector: str) -> None:
    """Make sure that the environment has what a platform needs, asking for what it lacks where somebody can answer."""
    import os
    import sys

    for names in KEYS[connector]:
        if any(os.environ.get(n) or os.environ.get(f"{n}_FILE") for n in names):
            continue
        if not sys.stdin.isatty():
            raise click.UsageError(f"{' or '.join(names)} is not set in the environment")
        secret = "KEY" in names[0]
        os.environ[names[0]] = click.prompt(names[0], hide_input=secret).strip()


def _projects(people: SourceSettings) -> list[int]:
    source = open_source(replace(people, options={"projects": [0]}))
    listed = getattr(source, "projects", None)
    shown = [f"{p} {title}" for p, title in listed()] if callable(listed) else []
    hint = f" Projects there: {'; '.join(shown[:20])}" if shown else ""
    raise click.UsageError(f"name the Label Studio projects, e.g. --project 12.{hint}")


def _discover(settings: SourceSettings) -> Discovery:
    source = open_source(settings)
    if not isinstance(source, Discovers):
        raise ConnectorError(f"{settings.connector} cannot propose anything from {settings.file or 'a server'}")
    return source.discover()


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed study: tables as text, and what to tell the person."""

    study: str
    dimensions: Sequence[tuple[str, Mapping[str, Any], Sequence[str]]]
    sources: Sequence[tuple[str, Mapping[str, Any], Sequence[str]]]
    notes: Sequence[str] = field(default_factory=list)

    def text(self, output: Path) -> str:
        parts = [HEAD, f"[study]\nname = {_toml(self.study)}\n"]
        for name, table, comments in self.dimensions:
            parts.append(_table(f"dimensions.{_key(name)}", table, comments))
        for name, table, comments in self.sources:
            relative = {k: _relative(v, output) if k == "file" else v for k, v in table.items()}
            parts.append(_table(f"sources.{_key(name)}", relative, comments))
        parts.append(
            "# Results go back to the platforms once these lines are uncommented; calibrate-plugin push --dry-run shows what.\n"
            "# [push.judges]\n# [push.people]\n"
        )
        return "\n".join(parts)


def propose(name: str, people: SourceSettings, ours: Discovery, judges: SourceSettings, theirs: Discovery) -> Draft:
    """Join what both platforms declare: dimensions by likeness of names, items by the key whose values meet most."""
    notes: list[str] = []
    matched = {p.name: _alike(p, theirs.dimensions) for p in ours.dimensions}
    dimensions: list[tuple[str, Mapping[str, Any], Sequence[str]]] = []
    labels: dict[str, Any] = {}
    scores: dict[str, Any] = {}
    for proposal in ours.dimensions:
        found = matched[proposal.name]
        comments = [proposal.note] if proposal.note else []
        if not found:
            comments.append("no score name in Langfuse looks like this one; name them under sources.judges.labels")
        settings = dict(proposal.settings)
        for other in found:
            comments += _differences(settings, other)
        dimensions.append((proposal.name, settings, comments))
        labels[proposal.name] = _one(proposal.fields)
        if found:
            scores[proposal.name] = _one([f for other in found for f in other.fields])
    used = {id(o) for found in matched.values() for o in found}
    notes += [
        f"Langfuse has scores named {', '.join(other.fields)}, which no control asks for: left out"
        for other in theirs.dimensions
        if id(other) not in used
    ]
    link, level, met = _link(ours.links, theirs.links)
    notes.append(
        f"items join by {link} = {level}: {met} of {len(set(ours.links[link]))} sampled tasks name an item that was scored"
        if met
        else f"no sampled value of {', '.join(ours.links) or 'any task key'} is an item in Langfuse: set item by hand"
    )
    live, choose = _live(theirs, scores)
    notes += choose
    notes += [*ours.notes, *theirs.notes]
    sources: list[tuple[str, Mapping[str, Any], Sequence[str]]] = [
        (
            "people",
            {"connector": people.connector, **_place(people), "item": link, "labels": labels},
            ["item: where a task names what was judged; labels: dimension = control"],
        ),
        (
            "judges",
            {
                "connector": judges.connector,
                **_place(judges),
                "item": level,
                "labels": scores,
                **({"live": live} if live else {}),
            },
            ["labels: dimension = score name(s), only these are pulled; live: the version of a judge that counts"],
        ),
    ]
    return Draft(name, dimensions, sources, notes)


def _alike(ours: Proposal, theirs: Sequence[Proposal]) -> list[Proposal]:
    """The score names that hold the control's name as words, or are held by it."""
    mine = _words(ours.name) | _words(" ".join(ours.fields))
    exact = [
        o
        for o in theirs
        if any(_words(f) == _words(ours.name) or _words(f) == _words(c) for f in o.fields for c in ours.fields)
    ]
    near = [o for o in theirs if any(mine & _words(f) for f in o.fields)]
    return [*exact, *(o for o in near if o not in exact)]


def _words(text: str) -> set[str]:
    common = {"judge", "score", "eval", "evaluator", "llm", "rating", "label", "human", "the"}
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return {w for w in re.split(r"[^a-z0-9]+", split.casefold()) if w and w not in common}


def _differences(settings: dict[str, Any], other: Proposal) -> list[str]:
    """Score values that are not on the control's scale need a map; say which."""
    mine = {str(v).casefold() for v in settings.get("values", [])}
    theirs = [v for v in other.settings.get("values", []) if str(v).casefold() not in mine]
    if mine and theirs:
        shown = ", ".join(json.dumps(v) for v in theirs[:8])
        return [
            f'{", ".join(other.fields)} answers {shown}: say what that means, e.g. map = {{ {json.dumps(str(theirs[0]))} = "..." }}'
        ]
    return []


def _link(ours: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]) -> tuple[str, str, int]:
    best = (next(iter(ours), "id"), next(iter(theirs), "trace"), 0)
    for key, values in ours.items():
        for level, items in theirs.items():
            met = len(set(values) & set(items))
            if met > best[2]:
                best = (key, level, met)
    return best


def _live(theirs: Discovery, scores: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    asked = {f for fields in scores.values() for f in ([fields] if isinstance(fields, str) else fields)}
    live, notes = {}, []
    for judge, versions in theirs.versions.items():
        if judge in asked and len(versions) > 1:
            live[judge] = versions[-1]
            notes.append(f"{judge} has answered in {len(versions)} versions; the newest, {versions[-1]}, is made live")
    return live, notes


def _place(settings: SourceSettings) -> dict[str, Any]:
    if settings.file is not None:
        return {"file": settings.file}
    found: dict[str, Any] = dict(settings.options)
    if settings.since is not None:
        found["since"] = settings.since
    return found


def _one(values: Sequence[str]) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _relative(path: Any, output: Path) -> str:
    import os

    return Path(os.path.relpath(path, output.parent or ".")).as_posix()


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _table(name: str, table: Mapping[str, Any], comments: Sequence[str]) -> str:
    lines = [*(f"# {' '.join(c.split())}" for c in comments), f"[{name}]"]
    lines += [f"{_key(k)} = {_toml(v)}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    import tomlkit

    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_toml(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return str(tomlkit.item(value).as_string())
