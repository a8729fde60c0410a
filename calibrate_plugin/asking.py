"""From a sample to a job that people can open, in an order in which every stop on the way can be gone on from.

First the settings, then the sample in the store, then the job, then its tasks. Each step is found done when the command is
run again; a job that could not be made whole is deleted by whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrate_plugin import blind, guideline, sampling
from calibrate_plugin.config import Config, edit, load
from calibrate_plugin.connector import Contents, Finding, Form, Labelling, SettingsError, Source
from calibrate_plugin.cycle import keyed, pulled
from calibrate_plugin.planning.guideline import check, shown
from calibrate_plugin.report.build import build
from calibrate_plugin.sampling import Asked, Drawn, Kept, Sample
from calibrate_plugin.store import Store
from calibrate_plugin.store.pseudonyms import key_of


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for beside the sample itself: the source to label in, a job that is there or the title of a new one, the
    version of the guideline, which part of an item the job's own keys show, whether answers may be there already, and
    whether another sample is wanted although there is one."""

    into: str | None = None
    job: str | None = None
    title: str | None = None
    guideline: str | None = None
    shows: Mapping[str, str] | None = None
    answered: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done. ``drawn`` is None where a sample that is there is only filled up."""

    sample: Sample
    drawn: Drawn | None
    form: Form
    labelling: Labelling
    contents: Contents
    design: Mapping[str, str]
    judge_names: tuple[str, ...]
    unsure: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> list[Finding]:
        return [f for f in self.findings if f.level == "problem"]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done. ``wrote`` says what was added to the settings, ``link`` where people label."""

    sample: Sample
    sent: blind.Sent
    link: str
    wrote: tuple[str, ...]


def plan(store: Store, config: Config, sources: Mapping[str, Source], asked: Asked, wish: Wish) -> Plan:
    """Everything that can be known before anything is changed. Raises SettingsError."""
    if asked.people < 1:
        raise SettingsError(f"--people is {asked.people}; at least one person must label each item")
    kept = Kept(store)
    _, ratings = build(keyed(store, config.study), pulled(store), store.now())
    last = kept.samples[-1] if kept.samples else None
    if last is not None and not wish.more:
        return _again(store, config, sources, last, kept, asked, wish)
    into, labelling = blind.labelling_of(config, sources, wish.into)
    dimension, judge = sampling.judged(ratings, asked)
    _, contents = blind.contents_of(sources, judge.sources)
    number = last.number + 1 if last is not None else 1
    asked = replace(asked, dimension=dimension)
    drawn = sampling.draw(config, kept, ratings, number, asked, dimension, judge, contents)
    version, text = _guideline(store, config, wish.guideline)
    title = wish.title or f"{config.study.name}: sample {number}"[:50]
    sample = Sample(number, asked, judge.name, into, title, version, wish.job, wish.job is None, dict(wish.shows or {}))
    design = sampling.design_of(asked, dimension, judge.name)
    names = (judge.rater.name, judge.rater.label)
    sampling.add_design(dict(config.document), design, config.path, names)  # where it cannot be, nothing else is begun
    return _planned(store, config, sample, drawn, labelling, contents, design, names, text, wish.answered)


def _again(
    store: Store, config: Config, sources: Mapping[str, Source], sample: Sample, kept: Kept, asked: Asked, wish: Wish
) -> Plan:
    """The newest sample once more: to be filled up where something is missing."""
    was = sample.asked
    for key, before, now in (
        ("n", was.n, asked.n),
        ("by", was.by, asked.by),
        ("people", was.people, asked.people),
        ("opaque", was.opaque, asked.opaque),
        *(
            (key, before, before if now is None else now)
            for key, before, now in (
                ("floor", was.floor, asked.floor),
                ("group", was.group, asked.group),
                ("dimension", was.dimension, asked.dimension),
                ("judge", was.judge or sample.judge, asked.judge),
                ("into", sample.into, wish.into),
            )
        ),
        ("project", sample.job, wish.job if wish.job is not None else sample.job),
        ("guideline", sample.guideline, wish.guideline if wish.guideline is not None else sample.guideline),
    ):
        if before != now:
            raise SettingsError(
                f"sample {sample.number} was asked for with --{key} {before}, and now it is {now}; say --more to draw another"
                " sample, or the same again to fill this one up"
            )
    _, labelling = blind.labelling_of(config, sources, sample.into)
    _, contents = blind.contents_of(sources, blind.speak_of(store, kept.of(sample.number)))
    _, text = _guideline(store, config, sample.guideline)
    design = sampling.design_of(was, was.dimension or "", sample.judge or "")
    return _planned(store, config, sample, None, labelling, contents, design, (), text, True)


def _planned(
    store: Store,
    config: Config,
    sample: Sample,
    drawn: Drawn | None,
    labelling: Labelling,
    contents: Contents,
    design: Mapping[str, str],
    names: tuple[str, ...],
    text: str,
    answered: bool,
) -> Plan:
    unsure = tuple(blind.without_unsure(config)) if sample.ours else ()
    form = _form(store, config, sample, text)
    findings = list(_about_guideline(config, sample.guideline))
    if not sample.ours and sample.job is not None:
        findings += labelling.check_job(sample.job, form, answered=answered)
    return Plan(sample, drawn, form, labelling, contents, design, names, unsure, tuple(findings))


def _form(store: Store, config: Config, sample: Sample, text: str) -> Form:
    return blind.form(
        config,
        sample.into,
        mark=blind.mark(key_of(store), sample.item),
        title=sample.title,
        people=sample.asked.people,
        guideline=text,
        shows=sample.shows,
    )


def _guideline(store: Store, config: Config, version: str | None) -> tuple[str, str]:
    """The version and text of the guideline: the named one, or the one that holds now; nothing where there is none."""
    now = guideline.keep(store, config)
    kept = guideline.known(store)
    if version is None:
        version = now.version if now is not None else next(reversed(kept), "")
    if not version:
        return "", ""
    if version not in kept:
        raise SettingsError(f"--guideline {version}: no such version is kept; there are: {', '.join(kept) or 'none'}")
    return version, shown(kept[version].text)


def _about_guideline(config: Config, version: str) -> Iterator[Finding]:
    if not version:
        yield Finding(
            "warning",
            "guideline",
            "people will label without one, each by their own idea",
            "calibrate-plugin guideline init",
        )
        return
    found = guideline.current(config)
    if found is not None and found.version == version and (missing := check(found, config.study.dimensions)):
        said = f"{missing[0].message}" + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
        yield Finding("warning", "guideline", said, "calibrate-plugin guideline check lists what is missing")


def carry_out(store: Store, config: Config, planned: Plan, said: Callable[[int], None] = lambda count: None) -> Done:
    """Do what was planned. Raises ConnectorError where it stops; the same command goes on from there."""
    if planned.problems:
        problem = planned.problems[0]
        raise SettingsError(f"{problem.subject}: {problem.message}. {problem.fix}. Nothing was changed")
    sample, labelling = planned.sample, planned.labelling
    with store.work(wait=60):
        if planned.drawn is not None and any(s.number >= sample.number for s in Kept(store).samples):
            raise SettingsError(
                f"sample {sample.number} was drawn by somebody else meanwhile; look at it, and run again"
            )
        wrote = _settings(config, planned)
        config = load(config.path)
        form = replace(planned.form, questions=_form(store, config, sample, "").questions)
        if planned.drawn is not None:
            sampling.keep(store, sample, planned.drawn.facts)
        kept = Kept(store)
        items, aside = sampling.ordered(kept, sample), kept.aside
        if sample.ours:
            job = labelling.find_job(form) or labelling.make_job(form)
        else:
            assert sample.job is not None
            job = sample.job
        if sample.job != job:
            sample = replace(sample, job=job)
            sampling.keep(store, sample)
        if edit(config.path, lambda document: blind.add_project(document, sample.into, job)):
            wrote.append(f"sources.{sample.into}.projects: {job}")
        keys = sampling.keep_keys(store, items) if sample.asked.opaque else {}
        sent = blind.send(
            job,
            form,
            [i for i in items if i not in aside],
            labelling,
            planned.contents,
            version=sample.guideline,
            key=lambda item: keys.get(item, item),
            said=said,
        )
        if sent.there or sent.added:  # where nothing at all can be shown it is for a reason that can be mended
            sampling.keep_aside(store, sent.aside)
    before = {i: aside[i] for i in items if i in aside}
    return Done(sample, replace(sent, aside={**before, **sent.aside}), labelling.job_link(job), tuple(wrote))


def _settings(config: Config, planned: Plan) -> list[str]:
    """What a sample needs of the settings is written there, once."""
    wrote: list[str] = []

    def change(document: Any) -> bool:
        if sampling.add_design(
            document, planned.design, config.path, (*planned.judge_names, planned.sample.judge or "")
        ):
            wrote.append("design: " + ", ".join(f"{k} = {v!r}" for k, v in planned.design.items()))
        if blind.add_unsure(document, planned.unsure):
            wrote.extend(f'dimensions.{name}.abstain: ["{blind.UNSURE}"]' for name in planned.unsure)
        return bool(wrote)

    edit(config.path, change)
    return wrote


__all__ = ["Done", "Plan", "Wish", "carry_out", "plan"]
