"""Items into a labelling job, and nothing of a judge's with them. A sample goes this way, and so does an item sent to one
person more.

A task holds what went into an item and what came out, a key of the item, and the version of the guideline; it says neither
what a judge answered nor why the item was chosen, and the order of tasks shows nothing either.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from calibrate_plugin.config import Config
from calibrate_plugin.connector import (
    BLIND_KEY,
    GUIDELINE_VERSION,
    Content,
    Contents,
    Form,
    Labelling,
    NewTask,
    Question,
    SettingsError,
    Source,
)
from calibrate_plugin.model import OWN
from calibrate_plugin.store import Store

#: What "unsure" is called where the study has no word for it.
UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the items of a job: those that had a task already, those that got one, and why others got none."""

    there: int = 0
    added: int = 0
    aside: Mapping[str, str] = field(default_factory=dict)


def labelling_of(config: Config, sources: Mapping[str, Source], wanted: str | None = None) -> tuple[str, Labelling]:
    """The source in which people label: ``wanted``, or the only one. Raises SettingsError."""
    found = {name: source for name, source in sources.items() if isinstance(source, Labelling)}
    if wanted is not None:
        if wanted not in found:
            raise SettingsError(
                f"{wanted!r} is no source in which people can be asked to label; there are: {_or_none(found)}"
            )
        return wanted, found[wanted]
    if len(found) != 1:
        what = "no source" if not found else "more than one source"
        raise SettingsError(
            f"{config.path}: there is {what} in which people can be asked to label ({_or_none(found)}); "
            + ("name one with --into" if found else 'add one with connector = "label-studio" and projects = []')
        )
    return next(iter(found.items()))


def contents_of(sources: Mapping[str, Source], judges: Sequence[str]) -> tuple[str, Contents]:
    """The source that shows the items: one of ``judges`` (those that gave their answers), or else any that can. Raises
    SettingsError."""
    for name in (*judges, *sources):
        source = sources.get(name)
        if isinstance(source, Contents):
            return name, source
    raise SettingsError(
        "no source of the study can show what an item is; the connectors langfuse (of a running server) and files (with"
        " columns input and output) can"
    )


def speak_of(store: Store, items: Sequence[str]) -> list[str]:
    """The sources that said something of ``items``, those with judges' answers first: one of them can show what they are, and
    another source that shows items knows nothing of these."""
    said = store.as_of(items=items, reasons=False).filter(pl.col("source") != OWN)
    counted = said.group_by("source").agg(judged=(pl.col("kind") == "evaluator").sum(), all=pl.len())
    return counted.sort("judged", "all", "source", descending=[True, True, False])["source"].to_list()


def form(
    config: Config,
    source: str,
    *,
    mark: str,
    title: str,
    people: int,
    guideline: str = "",
    shows: Mapping[str, str] | None = None,
) -> Form:
    """The form that asks every dimension of the study in a source, under the names that the source's settings give."""
    by_name = {d.name: d for d in config.study.dimensions}
    questions = []
    for title_, controls in config.sources[source].labels.items():
        names = config.study.fields.get((source, controls[0]), (controls[0],))
        asked = tuple(by_name[n] for n in names if n in by_name and (n == title_ or n.startswith(f"{title_}: ")))
        if asked:
            questions.append(Question(controls[0], title_, asked))
    return Form(mark, title, tuple(questions), people, guideline, shows or {})


def send(
    job: str,
    form: Form,
    items: Sequence[str],
    labelling: Labelling,
    contents: Contents,
    *,
    version: str = "",
    key: Callable[[str], str] = str,
    said: Callable[[int], None] = lambda count: None,
) -> Sent:
    """See that each item has a task in a job, in the order given. Run again it adds only what is missing.

    ``key`` is how a task names its item, ``version`` that of the guideline. Items without anything to judge are told in
    ``aside``, each with its reason. Items are read and sent a few at a time.
    """
    there = {placed.key for placed in labelling.placed(job)}
    missing = [item for item in items if key(item) not in there]
    aside: dict[str, str] = {}
    facts = {GUIDELINE_VERSION: version} if version else {}

    def tasks() -> Iterator[NewTask]:
        for content in contents.contents(missing):
            if problem := cannot_be_judged(content):
                aside[content.item] = problem
            else:
                yield NewTask(key(content.item), content, facts)

    added = 0
    for _ in labelling.add_tasks(job, form, tasks()):
        added += 1
        said(added)
    return Sent(len(items) - len(missing), added, aside)


def cannot_be_judged(content: Content) -> str:
    """Why nobody can judge an item; empty where somebody can."""
    if content.problem:
        return content.problem
    output = content.output
    if output is None or (isinstance(output, str) and not output.strip()) or output in ([], {}):
        return "it has no output"
    return ""


def blind_key(secret: str, item: str) -> str:
    """A key that tells nothing about an item to who does not have the store; pulls turn it back.

    >>> blind_key("secret", "trace-1")
    'blind-9658099d1e0008895e93'
    """
    digest = hmac.new(secret.encode(), item.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return BLIND_KEY + digest[:20]


def mark(secret: str, what: str) -> str:
    """What tells a job of this study from every other, for ever."""
    return hmac.new(secret.encode(), f"job {what}".encode(), hashlib.sha256).hexdigest()[:16]


# --- what the study's settings must say


def without_unsure(config: Config) -> list[str]:
    """The dimensions on whose form nobody could say that they are unsure, and for which a word for it can be declared."""
    found = []
    for name, table in config.document.get("dimensions", {}).items():
        known = {str(v).strip().casefold() for v in table.get("values", ())}
        if not table.get("abstain") and UNSURE not in known and table.get("scale") != "preference":
            found.append(str(name))
    return found


def add_unsure(document: Any, names: Sequence[str]) -> bool:
    for name in names:
        document["dimensions"][name]["abstain"] = [UNSURE]
    return bool(names)


def add_project(document: Any, source: str, job: str) -> bool:
    """Name a new job among the projects of its source."""
    return add_job(document["sources"][source], "projects", job)


def add_job(table: Any, key: str, job: str) -> bool:
    """Name a job in a list of a table of the settings; False where it stands there already."""
    told = table.get(key, ())
    listed = [str(told)] if isinstance(told, int) else [str(one) for one in told]
    if job in listed:
        return False
    table[key] = [int(one) if re.fullmatch(r"\d+", one) else one for one in (*listed, job)]
    return True


def _or_none(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
