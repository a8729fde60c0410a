"""One turn of a study: pull into the store, report from it, push the results. The command line and a server both do this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from calibrate_plugin import guideline
from calibrate_plugin.config import Config
from calibrate_plugin.connector import (
    ConnectorError,
    Pushed,
    Results,
    SettingsError,
    Sink,
    Source,
    open_source,
)
from calibrate_plugin.labelling import labelled, looked_at
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, OWN, Report, Study, frame
from calibrate_plugin.ratings.rules import Ratings
from calibrate_plugin.report import json
from calibrate_plugin.report.build import Pulled, build, item_agreement
from calibrate_plugin.report.calibrated import calibrated
from calibrate_plugin.store import SettingsState, Store
from calibrate_plugin.store.pseudonyms import key_of
from calibrate_plugin.sync import Progress, SyncOutcome, sync

#: The tables whose order in the settings file a report shows.
ORDERED = ("dimensions", "sources")


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn did. ``pushed`` has, per source, what was written there, or the message why nothing was."""

    outcomes: Sequence[SyncOutcome]
    report: Report
    ratings: Ratings
    pushed: Mapping[str, Pushed | str]

    @property
    def sound(self) -> bool:
        """Whether every source was read to the end and every push went through."""
        read = all(o.outcome == "ok" for o in self.outcomes)
        return read and not any(isinstance(p, str) or refused(p) for p in self.pushed.values())


def refused(pushed: Pushed) -> int:
    """How many writes the platform did not take."""
    return sum(w.outcome == "refused" for w in pushed.writes)


def open_all(config: Config) -> dict[str, Source]:
    """Every source of the study. Raises SettingsError where one cannot be what the settings say."""
    return {name: open_source(settings) for name, settings in config.sources.items()}


def pulled(store: Store, number: int | None = None, *, reasons: bool = True) -> Pulled:
    """What the store knew at a sync number (now: None), as the rules take it; without ``reasons`` what people wrote is left
    out, which no number needs."""
    labels = store.as_of(number, reasons=reasons)
    items, aside = store.item_facts(number), store.aside(number)
    # Where two sources tell the same fact of an item the first one counts, and what the study itself says comes first.
    items = items.sort(pl.col("source") != OWN, maintain_order=True)
    return Pulled(
        parts_of(labels),
        items.select(list(ITEMS)),
        aside.select(list(ASIDE)),
        store.names(number),
    )


def parts_of(labels: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What ``Store.as_of`` gives, source by source in the order of their names: where labels tie, their place decides."""
    parts = {str(key[0]): part.drop("source") for key, part in labels.partition_by("source", as_dict=True).items()}
    return dict(sorted(parts.items())) or {"": frame(LABELS)}


def report_now(store: Store, config: Config, at: datetime) -> tuple[Report, Ratings]:
    """The study's report from what the store knows now, with its calibration. Its headline numbers are kept in the store with
    the settings that they were made under: they are what any later report is compared with.

    Raises SettingsError where ``study.gold`` names nobody.
    """
    number = store.latest()
    facts = pulled(store, number)
    study = keyed(store, config.study)
    report, ratings = build(study, facts, at)
    keep(store, config, json.render(report).encode("utf-8"), number)
    return finished(store, config, report, study, ratings, facts, "report"), ratings


def finished(
    store: Store, config: Config, report: Report, study: Study, ratings: Ratings, facts: Pulled, purpose: str
) -> Report:
    """A report of the study with its calibration, and with how the labels came to be. That somebody looks at the test split,
    for ``purpose``, is written down.

    Raises SettingsError where ``study.gold`` names nobody.
    """
    try:
        made = calibrated(report, study, ratings, facts.items)
    except ValueError as error:
        raise SettingsError(f"{config.path}: {error}") from None
    looked_at(store, made, purpose)
    return labelled(store, config, made, ratings, facts.items)


def keyed(store: Store, study: Study) -> Study:
    """The study with the key of this store's pseudonyms, where it asks for pseudonyms."""
    return replace(study, pseudonym_key=key_of(store)) if study.pseudonyms else study


def keep(store: Store, config: Config, body: bytes, number: int) -> int:
    """Keep a report (JSON) made from the facts at ``number``, with the settings that it was made under and the text that people
    label by."""
    with suppress(SettingsError):  # a guideline that cannot be read is told by its own commands
        guideline.keep(store, config)
    return store.keep_report(body, keep_settings(store, config).id, number=number)


def keep_settings(store: Store, config: Config) -> SettingsState:
    """Write down the settings that hold from now on."""
    return store.keep_settings(_plain(config.document))


def turn(
    store: Store,
    config: Config,
    sources: Mapping[str, Source],
    *,
    full: bool = False,
    accept_deletions: bool = False,
    pushing: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Turn:
    """Pull, report, push, as the one worker of the store. Nothing is pushed where a source was not read to the end."""
    with store.work(wait=60):
        outcomes = sync(store, sources, full, accept_deletions, progress)
        report, ratings = report_now(store, config, store.now())
        written: dict[str, Pushed | str] = {}
        if pushing and wants_push(config):
            if all(o.outcome == "ok" for o in outcomes):
                written = push(store, config, sources, report, ratings)
            else:
                written = dict.fromkeys(wants_push(config), "not pushed, because a source was not read to the end")
        return Turn(outcomes, report, ratings, written)


def wants_push(config: Config) -> list[str]:
    """The sources to which results go back."""
    return [name for name, settings in config.sources.items() if settings.push is not None]


def push(
    store: Store,
    config: Config,
    sources: Mapping[str, Source],
    report: Report,
    ratings: Ratings,
    *,
    dry_run: bool = False,
) -> dict[str, Pushed | str]:
    """Write the results back to every source that asks for them, and write down what was written."""
    of_runs = {
        run: build(keyed(store, config.study), pulled(store), report.generated_at, run=run)[0] for run in runs(ratings)
    }
    return write_back(store, config, sources, report, item_agreement(ratings), of_runs, dry_run=dry_run)


def write_back(
    store: Store,
    config: Config,
    sources: Mapping[str, Source],
    report: Report,
    items: pl.DataFrame,
    of_runs: Mapping[str, Report],
    *,
    dry_run: bool = False,
) -> dict[str, Pushed | str]:
    """As ``push``, from what is known already: ``items`` as of ``item_agreement``, ``of_runs`` the report of each run."""
    done: dict[str, Pushed | str] = {}
    for name in wants_push(config):
        sink = sources[name]
        if not isinstance(sink, Sink):
            done[name] = f"push.{name}: the connector {config.sources[name].connector} cannot write results back"
            continue
        results = Results(
            report=report,
            items=items,
            runs=of_runs,
            written=store.written(name),
            known=lambda scope, name=name: store.known(name, scope),  # type: ignore[misc]
        )
        try:
            done[name] = pushed = sink.push(results, dry_run=dry_run)
        except ConnectorError as error:
            done[name] = str(error)
            continue
        if not dry_run:
            store.keep_push(name, pushed)
    return done


def unpush(store: Store, sources: Mapping[str, Source]) -> dict[str, Pushed | str]:
    """Remove everything that was ever pushed, wherever it went."""
    done: dict[str, Pushed | str] = {}
    with store.work(wait=60):
        for name, sink in sources.items():
            if not isinstance(sink, Sink):
                continue
            try:
                done[name] = pushed = sink.unpush(store.written(name))
            except SettingsError:
                if not store.written(name):
                    continue  # never written to, and not set up to be
                raise
            except ConnectorError as error:
                done[name] = str(error)
                continue
            store.keep_unpush(name, pushed)
    return done


def runs(ratings: Ratings) -> list[str]:
    """The evaluation runs of which any label still stands."""
    labels = ratings.labels
    if not labels.height or labels["run"].null_count() == labels.height:
        return []
    standing = labels.filter(
        (pl.col("kind") == "evaluator") & pl.col("retired").is_null() & pl.col("run").is_not_null()
    )
    return sorted(standing["run"].unique().to_list())


def _plain(document: Mapping[str, object]) -> dict[str, object]:
    """A settings file as JSON can keep it. Kept JSON is sorted, so ``order`` says how the tables stood in the file."""

    def plain(value: object) -> object:
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        return value if isinstance(value, str | int | float | bool) or value is None else str(value)

    order = {key: list(table) for key in ORDERED if isinstance(table := document.get(key), Mapping)}
    return {k: plain(v) for k, v in document.items()} | {"order": plain(order)}
