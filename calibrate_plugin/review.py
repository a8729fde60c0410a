"""Disagreements sent to a third person: blind tasks in a job of its own, whose answers are gold.

An answer that is asked for because people disagreed is gold, else agreement would fall although nothing changed. So the job
is named in ``[review]`` before it gets its first task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate_plugin import blind, guideline, sampling
from calibrate_plugin.config import Config, edit, load
from calibrate_plugin.connector import Form, Labelling
from calibrate_plugin.planning.guideline import shown
from calibrate_plugin.planning.hashing import place
from calibrate_plugin.store import Store
from calibrate_plugin.store.pseudonyms import key_of

MARK = "review"


@dataclass(frozen=True, slots=True)
class Sent:
    """``there`` items were in the job already, ``added`` were put in now, ``aside`` cannot be judged by anybody."""

    job: str
    link: str
    there: int
    added: int
    aside: dict[str, str]


def send(
    store: Store,
    config: Config,
    sources: dict[str, Any],
    items: Sequence[str],
    *,
    into: str | None = None,
    said: Callable[[int], None] = lambda count: None,
) -> Sent:
    """A task for each of ``items`` that has none yet, in an order that tells nothing; where a sample's keys tell nothing, those
    of these tasks do not either. Raises ConnectorError where it stops; the same again goes on from there."""
    name, labelling = blind.labelling_of(config, sources, into)
    _, contents = blind.contents_of(sources, blind.speak_of(store, items))
    now = guideline.keep(store, config)
    text = "" if now is None else shown(now.text)
    opaque = any(sample.asked.opaque for sample in sampling.Kept(store).samples)
    ordered = sorted(items, key=lambda item: (place(config.study.seed, MARK, item), item))
    with store.work(wait=60):
        form = _form(store, config, name, text)
        job = labelling.find_job(form) or _made(store, config.path, name, labelling, text)
        edit(config.path, lambda document: add_review(document, job) | blind.add_project(document, name, job))
        version = now.version if now is not None else ""
        keys = sampling.keep_keys(store, ordered) if opaque else {}
        sent = blind.send(
            job,
            form,
            ordered,
            labelling,
            contents,
            version=version,
            key=lambda item: keys.get(item, item),
            said=said,
        )
    return Sent(job, labelling.job_link(job), sent.there, sent.added, dict(sent.aside))


def _made(store: Store, path: Path, name: str, labelling: Labelling, text: str) -> str:
    """A new job; people may say in it that they are unsure."""
    missing = blind.without_unsure(load(path))
    edit(path, lambda document: blind.add_unsure(document, missing))
    return labelling.make_job(_form(store, load(path), name, text))


def _form(store: Store, config: Config, source: str, text: str) -> Form:
    return blind.form(
        config,
        source,
        mark=blind.mark(key_of(store), MARK),
        title=f"{config.study.name}: review"[:50],
        people=1,
        guideline=text,
    )


def add_review(document: Any, job: str) -> bool:
    """Name a job among those whose answers are gold."""
    import tomlkit

    table = document.setdefault("review", tomlkit.table())
    return blind.add_job(table, "jobs", job)


__all__ = ["Sent", "add_review", "send"]
