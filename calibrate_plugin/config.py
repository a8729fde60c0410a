"""``calibrate.toml`` as typed settings. Every message names the file, the key, the value and the way out."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from calibrate_plugin import scales
from calibrate_plugin.connector import SettingsError, SourceSettings
from calibrate_plugin.model import OWN, Dimension, Kind, Sampling, Study

T = TypeVar("T")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StudyTable(_Table):
    """``[study]``"""

    name: str
    seed: int = 0
    resamples: int = Field(5000, ge=200, le=100_000)
    level: float = Field(0.95, gt=0.5, lt=1)
    margin: float = Field(0.10, gt=0, lt=1)
    bands: Literal["landis-koch", "mchugh", "krippendorff"] = "landis-koch"
    count_not_blind: bool = False
    fast_seconds: float = Field(3.0, ge=0, le=3600)
    leave_out_fast: bool = False
    pseudonyms: bool = False
    gold: str | None = None
    guideline: str | None = None
    store: str | None = None


class TargetTable(_Table):
    """``[target.NAME]``: what a dimension's labels are to reach, written down before anybody labels.

    ``items`` that ``people`` annotators answer each; kappa between them (``kappa`` at ``pass_rate``) to within ``half_width``
    at each side; ``gold`` items of each class, so that a judge that is right on ``observed`` of them has a lower bound of
    ``bound``.
    """

    items: int | None = Field(None, ge=1)
    people: int = Field(2, ge=2, le=1000)
    half_width: float | None = Field(None, gt=0, lt=1)
    kappa: float | None = Field(None, gt=-1, lt=1)
    pass_rate: float | None = Field(None, gt=0, lt=1)
    gold: int | None = Field(None, ge=1)
    observed: float | None = Field(None, gt=0, le=1)
    bound: float | None = Field(None, gt=0, lt=1)


class DesignTable(_Table):
    """``[design]``: how the items that people labelled were chosen."""

    kind: Literal["random", "stratified", "balanced"]
    dimension: str | None = None
    judge: str | None = None
    stratum: str = "stratum"
    probability: str = "probability"
    period: Literal["day", "week"] = "week"


class IgnoreTable(_Table):
    """``[ignore]``: what was deleted where no platform says so."""

    annotators: list[str] = []
    jobs: list[str | int] = []
    runs: list[str | int] = []


class ReviewTable(_Table):
    """``[review]``: jobs in which people answer because others disagreed. Their answers are gold."""

    jobs: list[str | int] = []


class DimensionTable(_Table):
    """``[dimensions.NAME]``"""

    scale: Literal["binary", "nominal", "ordinal", "rating", "preference", "choices"]
    values: list[str | int | float | bool] = []
    min: int | float | None = None
    max: int | float | None = None
    step: int | float | Literal["any"] | None = None
    map: dict[str, str] = {}
    abstain: Names = []
    pass_if: dict[str, str] | str = {}
    fixed: bool = True
    whole_set: bool = False
    flipped: Literal["no_answer", "tie"] = "no_answer"
    positive: str | int | float | bool | None = None


class SourceTable(BaseModel):
    """``[sources.NAME]``; keys beside these are the connector's own."""

    model_config = ConfigDict(extra="allow", strict=True)

    connector: str
    file: str | None = None
    labels: dict[str, Names] = {}
    live: dict[str, str | dict[str, str]] = {}
    since: date | None = None
    env: str | None = None


class GateTable(_Table):
    """``[gate]``: what must hold. The rules' own grammar is read by ``gate``."""

    rules: list[str] = []


class AlertsTable(_Table):
    """``[alerts]``: whom to tell, and when. Urls and secrets come from the environment variables that are named here."""

    slack: str | None = None
    webhook: str | None = None
    secret: str | None = None
    on: list[Literal["gate", "disagreements", "version", "sync"]] = ["gate", "disagreements", "version", "sync"]
    disagreement_rate: float = Field(default=0.3, gt=0, le=1)
    quiet_minutes: int = Field(default=60, ge=0, le=10_080)
    clear_after: int = Field(default=2, ge=1, le=100)
    link: str | None = None


class Document(_Table):
    """The whole file."""

    study: StudyTable
    dimensions: dict[str, DimensionTable]
    sources: dict[str, SourceTable]
    people: dict[str, Names] = {}
    kinds: dict[str, Kind] = {}
    ignore: IgnoreTable = IgnoreTable()
    push: dict[str, dict[str, Any]] = {}
    gate: GateTable = GateTable()
    alerts: AlertsTable = AlertsTable()
    design: DesignTable | None = None
    target: dict[str, TargetTable] = {}
    review: ReviewTable = ReviewTable()


@dataclass(frozen=True, slots=True)
class Config:
    """A study with its sources. ``document`` is the file as read, for keeping and comparing settings states."""

    study: Study
    sources: Mapping[str, SourceSettings]
    store: str
    path: Path
    document: Mapping[str, Any] = field(default_factory=dict)
    gate: GateTable = field(default_factory=GateTable)
    alerts: AlertsTable = field(default_factory=AlertsTable)
    guideline: Path | None = None
    target: Mapping[str, TargetTable] = field(default_factory=dict)


def load(path: Path) -> Config:
    """The settings in the file ``path``; relative paths in it count from its folder. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such file; `calibrate-plugin init` writes one") from None
    except IsADirectoryError:
        raise SettingsError(f"{path} is a folder; name the file, e.g. {path / 'calibrate.toml'}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply to be settings") from None
    return read(document, path)


def edit(path: Path, change: Callable[[Any], bool]) -> bool:
    """Change a settings file and keep its comments; ``change`` gets the document (of tomlkit) and says whether it changed
    anything. Raises SettingsError, and writes nothing, where the file cannot be written or the new settings cannot work."""
    import tomlkit

    document = tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    if not change(document):
        return False
    text = tomlkit.dumps(document)
    read(tomllib.loads(text), path)
    whole = path.resolve()  # a link stays one
    part = whole.with_name(whole.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        shutil.copymode(whole, part)
        part.replace(whole)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
    return True


def read(document: Mapping[str, Any], path: Path) -> Config:
    """The settings in an already parsed document."""
    try:
        parsed = Document.model_validate(document)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {said}" for said in _all_said(error)[:10])) from None
    if not parsed.dimensions:
        raise SettingsError(f"{path}: dimensions is empty; declare one, e.g. [dimensions.Safety]")
    dimensions: list[Dimension] = []
    parts: dict[str, tuple[str, ...]] = {}
    for name, table in parsed.dimensions.items():
        made = _keyed(path, f"dimensions.{name}", lambda name=name, table=table: _dimensions(name, table))  # type: ignore[misc]
        for one in made:
            if not one.name.strip():
                raise SettingsError(f'{path}: dimensions."" has no name; give it one, e.g. [dimensions.Safety]')
            if one.name in {d.name for d in dimensions}:
                raise SettingsError(f'{path}: dimensions."{one.name}" is declared twice; give one of them another name')
            dimensions.append(one)
        parts[name] = tuple(d.name for d in made)
    sources = {n: _source(n, t, parsed, path) for n, t in parsed.sources.items()}
    if not sources:
        raise SettingsError(f"{path}: sources is empty; declare one, e.g. [sources.people]")
    if OWN in sources:
        raise SettingsError(
            f"{path}: sources.{OWN} is where the study itself speaks (samples, splits, rulings); name the source otherwise"
        )
    for name in parsed.push:
        if name not in sources:
            raise SettingsError(f"{path}: push.{name} names no source; there are: {', '.join(sources)}")
    study = Study(
        name=parsed.study.name,
        dimensions=tuple(dimensions),
        fields=_fields(sources, parts),
        people=_people(parsed, path),
        kinds=parsed.kinds,
        live=_live(parsed, parts, path),
        ignore={
            "annotators": tuple(parsed.ignore.annotators),
            "jobs": tuple(map(str, parsed.ignore.jobs)),
            "runs": tuple(map(str, parsed.ignore.runs)),
        },
        review=tuple(map(str, parsed.review.jobs)),
        namespaces=_namespaces(sources),
        count_not_blind=parsed.study.count_not_blind,
        fast_seconds=parsed.study.fast_seconds,
        leave_out_fast=parsed.study.leave_out_fast,
        seed=parsed.study.seed,
        resamples=parsed.study.resamples,
        level=parsed.study.level,
        margin=parsed.study.margin,
        bands=parsed.study.bands,
        pseudonyms=parsed.study.pseudonyms,
        gold=parsed.study.gold,
        design=_design(parsed, parts, path),
    )
    _check_alerts(parsed.alerts, path)
    store = parsed.study.store or "calibrate.db"
    if "://" not in store:
        store = str(path.parent / store)
    guideline = parsed.study.guideline
    return Config(
        study,
        sources,
        store,
        path,
        document,
        parsed.gate,
        parsed.alerts,
        None if guideline is None else path.parent / guideline,
        _target(parsed, parts, path),
    )


def _target(document: Document, parts: Mapping[str, tuple[str, ...]], path: Path) -> dict[str, TargetTable]:
    """What each dimension is to reach; several choices of one question have one target."""
    found: dict[str, TargetTable] = {}
    for name, table in document.target.items():
        if name not in parts:
            raise SettingsError(f"{path}: target.{name} is no dimension; there are: {', '.join(parts)}")
        if table.items is None and table.half_width is None and table.gold is None:
            raise SettingsError(
                f"{path}: target.{name} asks for nothing; give items, half_width or gold, or let `calibrate-plugin plan "
                "--write` write it"
            )
        found |= dict.fromkeys(parts[name], table)
    return found


def _design(document: Document, parts: Mapping[str, tuple[str, ...]], path: Path) -> Sampling | None:
    table = document.design
    if table is None:
        return None
    names = [part for of_one in parts.values() for part in of_one]
    dimension = table.dimension
    if table.kind == "random":
        for key in ("dimension", "judge", "stratum", "probability"):
            if key in table.model_fields_set:
                raise SettingsError(f"{path}: design.{key} means nothing where items are chosen at random; take it out")
    elif dimension is None and len(names) == 1:
        dimension = names[0]
    elif dimension not in names:
        told = "is missing" if dimension is None else f"is {dimension!r}"
        raise SettingsError(
            f"{path}: design.dimension {told}; name the one whose labels the items were chosen by: {', '.join(names)}"
        )
    if table.kind == "stratified" and table.judge is None:
        raise SettingsError(f"{path}: design.judge is missing; name the evaluator whose labels made the strata")
    if table.kind == "balanced" and table.judge is not None:
        raise SettingsError(
            f"{path}: design.judge means nothing where items are balanced by the human label; take it out, or write "
            'kind = "stratified"'
        )
    return Sampling(table.kind, dimension, table.judge, table.stratum, table.probability, table.period)


def _check_alerts(table: AlertsTable, path: Path) -> None:
    for key, example in (("slack", "SLACK_WEBHOOK_URL"), ("webhook", "ALERT_URL"), ("secret", "ALERT_SECRET")):
        value = getattr(table, key)
        if value is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value):
            # What stands there may be the secret itself, so it is not shown.
            raise SettingsError(
                f'{path}: alerts.{key} does not name an environment variable; put the value there and write {key} = "{example}"'
            )
    if table.webhook is not None and table.secret is None:
        raise SettingsError(
            f'{path}: alerts.secret is missing; name the environment variable with the secret that signs, e.g. secret = "ALERT_SECRET"'
        )


def _dimensions(name: str, table: DimensionTable) -> list[Dimension]:
    given = table.model_dump(exclude_none=True, exclude_unset=True)
    if isinstance(table.pass_if, str):
        given["pass_if"] = {"*": table.pass_if}
    if table.scale != "choices":
        return [scales.dimension(name, given)]
    if len(table.values) < 1:
        raise ValueError('values is empty; list the choices, e.g. values = ["tone", "format"]')
    for key in ("min", "max", "step", "pass_if", "fixed", "flipped", "whole_set"):
        if key in given:
            raise ValueError(f"{key} means nothing where choices are ticked; take it out")
    choices = [str(choice) for choice in table.values]
    if len({c.strip().casefold() for c in choices}) < len(choices):
        raise ValueError(f"values are {choices}; one is named more than once (capitals and spaces do not tell apart)")
    # Several may be ticked: each declared choice is a question of its own.
    binary = given | {"scale": "binary", "values": ["yes", "no"], "choices": choices}
    return [scales.dimension(f"{name}: {choice}", binary | {"choice": choice}) for choice in choices]


def _source(name: str, table: SourceTable, document: Document, path: Path) -> SourceSettings:
    unknown = [d for d in table.labels if d not in document.dimensions]
    if unknown:
        raise SettingsError(
            f"{path}: sources.{name}.labels.{unknown[0]} is no dimension; there are: {', '.join(document.dimensions)}"
        )
    labels = {d: tuple(table.labels.get(d, [d])) for d in document.dimensions}
    file = None if table.file is None else path.parent / table.file
    push = document.push.get(name)
    options = dict(table.model_extra or {})
    if isinstance(facts := options.get("facts"), str):
        options["facts"] = str(path.parent / facts)
    return SourceSettings(name, table.connector, file, labels, table.since, table.env, push, options)


def _fields(
    sources: Mapping[str, SourceSettings], parts: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    fields: dict[tuple[str, str], tuple[str, ...]] = {}
    for name, source in sources.items():
        for dimension, answered in source.labels.items():
            for f in answered:
                fields[name, f] = (*fields.get((name, f), ()), *parts[dimension])
    return fields


def _people(document: Document, path: Path) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for person, ids in document.people.items():
        for one in ids:
            source, colon, rater = one.partition(":")
            if not colon or source not in document.sources:
                raise SettingsError(
                    f'{path}: people."{person}" has {one!r}; write SOURCE:ID with a source among '
                    f"{', '.join(document.sources)}"
                )
            if (source, rater) in found and found[source, rater] != person:
                raise SettingsError(
                    f"{path}: people names {one!r} twice, as {found[source, rater]!r} and as {person!r}"
                )
            found[source, rater] = person
    return found


def _live(document: Document, parts: Mapping[str, tuple[str, ...]], path: Path) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for name, source in document.sources.items():
        for key, value in source.live.items():
            if isinstance(value, str):
                found["", key] = value
                continue
            if key not in parts:
                raise SettingsError(f"{path}: sources.{name}.live.{key} is no dimension; there are: {', '.join(parts)}")
            for evaluator, version in value.items():
                for part in parts[key]:
                    found[part, evaluator] = version
    return found


def _namespaces(sources: Mapping[str, SourceSettings]) -> dict[str, str]:
    """Ids of one server are one person's in every source; the same id on another server is somebody else."""
    servers: dict[str, dict[str | None, str]] = {}
    found: dict[str, str] = {}
    for name, source in sources.items():
        if source.connector == "files":
            continue
        first = servers.setdefault(source.connector, {}).setdefault(source.env, name)
        if len(servers[source.connector]) > 1:
            found[name] = f"{first}:"
    return found


def _keyed(path: Path, key: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise SettingsError(f"{path}: {key}.{error}") from None


#: How pydantic names the branch of a union that an error is of; a key is never meant by it.
BRANCH = re.compile(r"(str|int|float|bool|date|literal\[.*|dict\[.*|list\[.*|function-.*)$")
UNIONS = {"values", "min", "max", "step", "pass_if", "live", "jobs", "runs"}


def _all_said(error: ValidationError) -> list[str]:
    """Each wrong key once, with all that its value may be."""
    said: dict[str, list[str]] = {}
    for one in error.errors():
        start, message = _said(one)
        said.setdefault(start, []).append(message)
    return [start + _joined(messages) for start, messages in said.items()]


def _said(error: Any) -> tuple[str, str]:
    parts: list[str] = []
    for part in error["loc"]:
        if not (UNIONS & set(parts) and isinstance(part, str) and BRANCH.match(part)):
            parts.append(str(part))
    key = ".".join(parts)
    kind, value = error["type"], error.get("input")
    if kind == "extra_forbidden":
        return f"{key} is not a key of this table; ", "check its spelling"
    if kind == "missing":
        return f"{key} is missing; ", f"add a table [{key}]" if len(parts) == 1 else "add it"
    if isinstance(value, datetime):
        value = value.isoformat()
    if kind in ("date_type", "date_from_datetime_inexact"):
        return f"{key} is {str(value)!r}: ", "write a day without quotes, e.g. 2026-10-01"
    shown = f" {value!r}" if isinstance(value, str | int | float | bool) else ""
    return f"{key} is{shown}: ", f"{error['msg'][:1].lower()}{error['msg'][1:]}"


def _joined(messages: list[str]) -> str:
    first, *more = messages
    return " or ".join([first, *(m.removeprefix("input should be ") for m in more)])
