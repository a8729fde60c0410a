"""What a Langfuse score record says, whichever way it came: v1, v2 and v3 rows of the API and rows of its exports.

A score is one answer about one object (trace, observation, session or experiment run). Records differ by version:
v3 has a typed ``value`` and a ``subject``; v1 and v2 have ``value`` beside ``stringValue`` and one id per kind of object;
exports have the same columns as v2 as text, or in snake case. ``Reader`` takes them all and fills columns, so that a
million scores never become a million objects.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote

import polars as pl

from calibrate_plugin.connector import Page, SettingsError, SourceSettings
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, frame

#: A score record, as JSON has it.
Row = dict[str, Any]

LEVELS = ("trace", "observation", "session", "experiment")

#: The metadata key that every score we write carries; such scores are results, never labels.
MARKER = "calibrate_plugin"
#: Names of scores we write start with this, and report traces lie in this environment.
PREFIX = "calibrate."
ENVIRONMENT = "calibrate"

_OPTIONS = frozenset(
    [
        "item",
        "lift",
        "environments",
        "human",
        "human_rater",
        "version_key",
        "version_suffix",
        "version_comment",
        "order_key",
        "sample_key",
        "confidence_key",
        "url",
        "project",
    ]
)
_LIVE_OPTIONS = frozenset(
    [
        "window_days",
        "workers",
        "runs",
        "models",
        "failed_runs",
        "accept_empty",
        "ca_file",
        "proxy",
        "timeout",
        "context",
    ]
)
_ENCODE: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

# Columns a reader needs beside those of LABELS: which object was scored, and whether its answers can be a set.
_OBJECT = "_object"
_SET = "_set"
_READ = [
    "record",
    "item",
    "field",
    "value",
    "state",
    "rater",
    "kind",
    "version",
    "job",
    "run",
    "task",
    "at",
    "placed",
    "reason",
    "confidence",
    "sample",
    "order",
    "execution",
    "link",
]
_COLUMNS: dict[str, Any] = {
    **{c: pl.Int64 if c in ("at", "placed") else LABELS[c] for c in _READ},
    _OBJECT: pl.String,
    _SET: pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What the study wants of a project's scores, and how their judges, versions and people are named there."""

    level: str = "trace"
    lift: bool = False
    names: frozenset[str] | None = None
    environments: frozenset[str] | None = None
    since: date | None = None
    human: frozenset[str] = frozenset()
    human_rater: str | None = None
    version_key: str | None = None
    version_suffix: bool = False
    version_comment: re.Pattern[str] | None = None
    order_key: str | None = None
    sample_key: str | None = None
    confidence_key: str | None = None
    url: str | None = None
    project: str | None = None

    @classmethod
    def of(cls, settings: SourceSettings) -> Rules:
        """The rules that a ``[sources.NAME]`` table declares. Raises SettingsError naming the key and the way out."""
        where, given = f"sources.{settings.name}", dict(settings.options)
        for key in given:
            if key not in _OPTIONS | _LIVE_OPTIONS:
                known = ", ".join(sorted(_OPTIONS | _LIVE_OPTIONS))
                raise SettingsError(f"{where}.{key} is not a setting of the langfuse connector; it has {known}")
        level = given.get("item", "trace")
        if level not in LEVELS:
            raise SettingsError(f"{where}.item is {level!r}; give one of {', '.join(LEVELS)}")
        lift = _flag(where, given, "lift")
        if lift and level != "trace":
            raise SettingsError(f'{where}.lift counts an observation\'s score for its trace; it needs item = "trace"')
        comment = _text_option(where, given, "version_comment")
        try:
            pattern = re.compile(comment) if comment is not None else None
        except re.error as error:
            raise SettingsError(f"{where}.version_comment is not a regular expression: {error}") from None
        if pattern is not None and "version" not in pattern.groupindex:
            raise SettingsError(
                f"{where}.version_comment needs a group named version, e.g. 'prompt (?P<version>v[0-9]+)'"
            )
        environments = _names_option(where, given, "environments")
        url = _text_option(where, given, "url")
        return cls(
            level=level,
            lift=lift,
            names=settings.fields,
            environments=frozenset(environments) if environments is not None else None,
            since=settings.since,
            human=frozenset(_names_option(where, given, "human") or ()),
            human_rater=_text_option(where, given, "human_rater"),
            version_key=_text_option(where, given, "version_key"),
            version_suffix=_flag(where, given, "version_suffix"),
            version_comment=pattern,
            order_key=_text_option(where, given, "order_key"),
            sample_key=_text_option(where, given, "sample_key"),
            confidence_key=_text_option(where, given, "confidence_key"),
            url=url.rstrip("/") if url else None,
            project=_text_option(where, given, "project"),
        )

    @property
    def digest(self) -> str:
        """The same for the same rules, in every process."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: sorted(v) if isinstance(v, frozenset) else str(v) for k, v in parts.items()}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def _flag(where: str, given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise SettingsError(f"{where}.{key} is {value!r}; give true or false")
    return value


def _text_option(where: str, given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise SettingsError(f"{where}.{key} is {value!r}; give a text")
    return value


def _names_option(where: str, given: Mapping[str, Any], key: str) -> list[str] | None:
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f'{where}.{key} is {value!r}; give a list of texts, e.g. ["production"]')
    return list(value)


@dataclass(slots=True)
class Subject:
    """The object a score was given to."""

    kind: str
    id: str
    trace: str | None


@dataclass(slots=True)
class Reader:
    """Reads score records into columns. The first record of an id wins: one listing can return an id again, old."""

    rules: Rules
    seen: set[str] = field(default_factory=set)
    duplicates: int = 0
    runs: Mapping[str, str] = field(default_factory=dict)  # trace or observation -> the run it is an item of
    names: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, list[Any]] = field(default_factory=lambda: _empty(_COLUMNS))
    _aside: dict[str, list[Any]] = field(default_factory=lambda: _empty(ASIDE))
    _items: dict[str, list[Any]] = field(default_factory=lambda: _empty(ITEMS))
    _told: set[int] = field(default_factory=set)
    _since: int | None = None
    _spelling: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rules.since is not None:
            day = self.rules.since
            self._since = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000

    def __len__(self) -> int:
        return len(self._rows["item"]) + len(self._aside["cause"])

    def add(self, row: Mapping[str, Any], where: str | None = None) -> None:
        """Read one record. ``where`` (a file and line) names it in messages; without it its id does."""
        rules = self.rules
        record = _key(row.get("id"))
        if record is not None:
            if record in self.seen:
                self.duplicates += 1
                return
            self.seen.add(record)
        place = where or record or "a score without an id"
        name = row.get("name")
        if not isinstance(name, str) or not name:
            self._set_aside(place, row, "unreadable", f"{place}: a score without a name")
            return
        base, suffix = name, None
        if rules.version_suffix and not (rules.names is not None and name in rules.names) and "@" in name:
            head, tail = name.rsplit("@", 1)
            if head and tail:
                base, suffix = head, tail
        if rules.names is not None and base not in rules.names:
            return
        environment = row.get("environment")
        metadata = _metadata(row.get("metadata"))
        if MARKER in metadata or (base.startswith(PREFIX) and (environment == ENVIRONMENT or "metadata" not in row)):
            return
        if rules.environments is not None and environment not in rules.environments:
            return
        stamp = row.get("timestamp") or row.get("createdAt")
        at = micros(stamp) if stamp is not None else None
        if stamp is not None and at is None:
            self._set_aside(place, row, "unreadable", f"{place}: timestamp {_short(stamp)} is not a date and time")
            return
        if self._since is not None and at is not None and at < self._since:
            return

        source = row.get("source") or "API"
        type_ = row.get("dataType") or _guessed_type(row)
        if type_ not in ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT"):
            hint = "a corrected output is not an answer" if type_ == "CORRECTION" else "this version does not know it"
            self._set_aside(place, row, "unknown_kind", f"{place}: data type {_short(type_)}: {hint}")
            return
        if source not in ("API", "EVAL", "ANNOTATION"):
            self._set_aside(
                place, row, "unknown_kind", f"{place}: source {_short(source)}: this version does not know it"
            )
            return
        subject = _subject(row)
        if subject is None:
            self._set_aside(
                place,
                row,
                "no_item",
                f"{place}: names no trace, observation, session or run (list it with fields=subject)",
            )
            return
        item: str | None = subject.id
        if subject.kind != rules.level:
            item = subject.trace if rules.lift and subject.kind == "observation" else None
            if item is None:
                fix = (
                    "; lift = true counts it for its trace"
                    if (subject.kind, rules.level) == ("observation", "trace")
                    else ""
                )
                self._set_aside(
                    place, row, "other_level", f"{place}: scores a {subject.kind} where items are {rules.level}s{fix}"
                )
                return

        person = source == "ANNOTATION" or (source == "API" and base in rules.human)
        if source == "ANNOTATION":
            rater = _key(row.get("authorUserId")) or _key(row.get("authorUserName"))
            if not rater:
                listed = "authorUserId" in row or "authorUserName" in row
                why = (
                    "it was written through the API, not by a person" if listed else "the record names no author column"
                )
                self._set_aside(place, row, "prefilled", f"{place}: an annotation without an author: {why}")
                return
            if called := row.get("authorUserName"):
                self.names[rater] = str(called)
        elif person:
            rater = self._respondent(row, metadata)
        else:
            rater = base

        value, good = _value(type_, row)
        execution = _key(metadata.get("job_execution_id"))
        comment = row.get("comment")
        cells = (
            record,
            item,
            base,
            None if value is None else self._json(value),
            "answered" if good else "failed",
            rater,
            "annotator" if person else "evaluator",
            self._version(metadata, suffix, comment, person),
            _key(row.get("queueId")) if person else None,
            self._run(row, subject),
            subject.trace if subject.kind == "observation" else None,
            at,
            at,
            comment if comment.__class__ is str and comment else None,
            self._confidence(metadata) if rules.confidence_key else None,
            _spelled(metadata.get(rules.sample_key)) if rules.sample_key else None,
            _spelled(metadata.get(rules.order_key)) if rules.order_key else None,
            execution,
            self._link(row, subject) if rules.url else None,
            f"{subject.kind}\x1f{subject.trace or ''}\x1f{subject.id}" if execution is not None else None,
            type_ == "CATEGORICAL",
        )
        for column, cell in zip(self._rows.values(), cells, strict=True):
            column.append(cell)
        self._facts(item, row, environment)

    def reject(self, where: str, message: str, value: str | None = None) -> None:
        """Set aside something that is no record at all."""
        self._set_aside(where, {"value": value}, "unreadable", message)

    def take(self) -> tuple[pl.DataFrame, Page]:
        """What was read since the last call: the label rows, still with the reader's own columns, and a page of the rest.

        ``labels_of`` turns the rows into labels; who knows that an answer set is complete calls it.
        """
        rows, aside, items = self._rows, self._aside, self._items
        self._rows, self._aside, self._items = _empty(_COLUMNS), _empty(ASIDE), _empty(ITEMS)
        names, self.names = self.names, {}
        table = _table(rows, _COLUMNS).with_columns(pl.col("at", "placed").cast(pl.Datetime("us", "UTC")))
        return table, Page(
            labels=frame(LABELS),
            items=_table(items, ITEMS),
            aside=_table(aside, ASIDE),
            names={clean(k): clean(v) for k, v in names.items()},
        )

    def _json(self, value: Any) -> str:
        if value.__class__ is not str:
            return _json(value)
        known = self._spelling.get(value)
        if known is None:
            known = _json(value)
            if len(value) < 100 and len(self._spelling) < 10_000:
                self._spelling[value] = known
        return known

    def _respondent(self, row: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
        if self.rules.human_rater and (named := _spelled(metadata.get(self.rules.human_rater))):
            return named
        trace = row.get("trace")
        user = row.get("userId") or (trace.get("userId") if isinstance(trace, dict) else None)
        return _key(row.get("authorUserId")) or _key(user)

    def _version(self, metadata: Mapping[str, Any], suffix: str | None, comment: Any, person: bool) -> str | None:
        # A declared rule goes first where it finds something: whoever declares it knows what a version is, and names the
        # live one in the same words, while Langfuse's own ids are opaque and its job configuration says nothing of versions.
        rules = self.rules
        if rules.version_key and (declared := _spelled(metadata.get(rules.version_key))):
            return declared
        if suffix:
            return suffix
        if (
            rules.version_comment is not None
            and isinstance(comment, str)
            and (found := rules.version_comment.search(comment))
        ):
            return found["version"] or ""
        if person:
            return None
        for key in ("evaluator_version_id", "evaluator_id", "job_configuration_id"):
            if (own := metadata.get(key)) is not None and (spelled := _spelled(own)):
                return spelled
        return ""

    def _confidence(self, metadata: Mapping[str, Any]) -> float | None:
        value = _number(metadata.get(self.rules.confidence_key or ""))
        return float(value) if value is not None and 0 <= value <= 1 else None

    def _run(self, row: Mapping[str, Any], subject: Subject) -> str | None:
        if subject.kind == "experiment":
            return subject.id
        if run := row.get("datasetRunId"):
            return str(run)
        if not self.runs:
            return None
        return self.runs.get(subject.id) or (self.runs.get(subject.trace) if subject.trace else None)

    def _link(self, row: Mapping[str, Any], subject: Subject) -> str | None:
        project = row.get("projectId") or self.rules.project
        if not project:
            return None
        base = f"{self.rules.url}/project/{quote(str(project), safe='', errors='replace')}"
        if subject.kind == "session":
            return f"{base}/sessions/{quote(subject.id, safe='', errors='replace')}"
        if subject.kind == "experiment" or subject.trace is None:
            return None
        link = f"{base}/traces/{quote(subject.trace, safe='', errors='replace')}"
        if subject.kind == "observation":
            return f"{link}?observation={quote(subject.id, safe='', errors='replace')}"
        return link

    def _facts(self, item: str | None, row: Mapping[str, Any], environment: Any) -> None:
        trace = row.get("trace")
        more = trace if isinstance(trace, dict) else row
        facts = (
            ("environment", environment),
            ("traceName", row.get("traceName")),
            ("userId", more.get("userId")),
            ("traceTags", row.get("traceTags") if more is row else more.get("tags")),
        )
        for fact, value in facts:
            if value is None or value in ("", []):
                continue
            key = hash((item, fact))
            if key in self._told:
                continue
            self._told.add(key)
            self._items["item"].append(item)
            self._items["fact"].append(fact)
            self._items["value"].append(_tags(value) if fact == "traceTags" else str(value))

    def _set_aside(self, place: str, row: Mapping[str, Any], cause: str, message: str) -> None:
        subject = _subject(row)
        value = row.get("stringValue") or row.get("value")
        name = row.get("name")
        for column, cell in (
            ("record", place),
            ("item", subject.id if subject else None),
            ("field", name if isinstance(name, str) else None),
            ("rater", _key(row.get("authorUserId")) or _key(row.get("authorUserName"))),
            ("value", None if value is None else _json(value)),
            ("cause", cause),
            ("message", message),
        ):
            self._aside[column].append(cell)


def labels_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Label rows (as ``Reader.take`` gives them, every answer set complete) as labels.

    Scores of one name that one judge execution gave to one object are one answer: identical ones are one score written
    twice, differing categories are a label set (a JSON list). Differing numbers stay apart, as draws of one execution.
    The record, time and reason of a set are those of its first score.
    """
    key = [_OBJECT, "field", "execution"]
    several = pl.col("execution").is_not_null() & pl.struct(key).hash().is_duplicated()
    shared = rows.filter(several)
    if len(shared):
        shared = shared.sort("at", "record", maintain_order=True).unique(
            [*key, "value", "state"], keep="first", maintain_order=True
        )
        is_set = (pl.col(_SET) & (pl.col("state") == "answered")).all().over(key) & (pl.len().over(key) > 1)
        shared = shared.with_columns(is_set.alias(_SET))
        sets = (
            shared.filter(_SET)
            .group_by(key, maintain_order=True)
            .agg(
                pl.concat_str(pl.lit("["), pl.col("value").sort().str.join(","), pl.lit("]")).first().alias("value"),
                pl.exclude("value", *key).first(),
            )
        )
        parts = [rows.filter(~several), shared.filter(~pl.col(_SET)), sets]
        rows = pl.concat([part.select(rows.columns) for part in parts])
    return frame(LABELS, rows.drop(_OBJECT, _SET))


def micros(stamp: Any) -> int | None:
    """Microseconds since 1970 of an ISO time, None where it is none. Langfuse keeps UTC, so a time without a zone is UTC."""
    try:
        at = datetime.fromisoformat(stamp)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return round(at.timestamp() * 1_000_000)
    except (TypeError, ValueError, OverflowError):
        return None


def clean(text: str) -> str:
    """``text`` with lone surrogates, which no UTF-8 can carry, replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _empty(columns: Iterable[str]) -> dict[str, list[Any]]:
    return {column: [] for column in columns}


def _table(columns: Mapping[str, list[Any]], types: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({name: _series(name, cells, types[name]) for name, cells in columns.items()})


def _series(name: str, cells: list[Any], dtype: Any) -> pl.Series:
    try:
        return pl.Series(name, cells, dtype=dtype)
    except UnicodeEncodeError:
        return pl.Series(name, [c if c is None else clean(c) for c in cells], dtype=dtype)


def _json(value: Any) -> str:
    try:
        return _ENCODE(value)
    except ValueError:  # NaN within a list, or a number too long to spell
        return _ENCODE(_short(value))


def _key(value: Any) -> str | None:
    """An id as text: 0 and "" are ids, true and null are not."""
    if value.__class__ is str:
        return value
    if value is None or isinstance(value, bool | dict | list):
        return None
    return str(value)


def _spelled(value: Any) -> str | None:
    """A metadata value as text; Langfuse reads "1.10" back as a number, so numbers are told as people write them."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _metadata(value: Any) -> Mapping[str, Any]:
    if value.__class__ is dict:
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return read if isinstance(read, dict) else {}
    return {}


def _subject(row: Mapping[str, Any]) -> Subject | None:
    given = row.get("subject")
    if isinstance(given, dict):
        id_, kind = _key(given.get("id")), given.get("kind")
        if id_ is None or kind not in LEVELS:
            return None
        return Subject(kind, id_, id_ if kind == "trace" else _key(given.get("traceId")))
    # Where several ids are set, Langfuse itself reads them in this order.
    trace = _key(row.get("traceId"))
    if (id_ := _key(row.get("datasetRunId"))) is not None:
        return Subject("experiment", id_, trace)
    if (id_ := _key(row.get("observationId"))) is not None:
        return Subject("observation", id_, trace)
    if (id_ := _key(row.get("sessionId"))) is not None and trace is None:
        return Subject("session", id_, trace)
    return Subject("trace", trace, trace) if trace is not None else None


def _guessed_type(row: Mapping[str, Any]) -> str:
    """The data type of a record of the time before there were types."""
    text = row.get("stringValue")
    if isinstance(text, str) and text:
        return "CATEGORICAL"
    value = row.get("value")
    if isinstance(value, bool):
        return "BOOLEAN"
    return "CATEGORICAL" if isinstance(value, str) and value and _number(value) is None else "NUMERIC"


def _value(type_: str, row: Mapping[str, Any]) -> tuple[Any, bool]:
    """The answer, and whether it is one. What is none is given as it stands, to be shown."""
    value, text = row.get("value"), row.get("stringValue")
    if type_ == "NUMERIC":
        number = _number(value)
        return (number, True) if number is not None else (_raw(value if value is not None else text), False)
    if type_ == "BOOLEAN":
        # Booleans people gave were once stored without their text, so the number serves as well.
        for said in (text, value):
            if isinstance(said, bool):
                return said, True
            if isinstance(said, str) and said.strip().casefold() in ("true", "false"):
                return said.strip().casefold() == "true", True
            if (number := _number(said)) in (0, 1):
                return number == 1, True
        return _raw(text or value), False
    if isinstance(text, str) and text:
        return text, True
    if isinstance(value, str) and value and "stringValue" not in row:
        return value, True
    # The number beside a category is its code in a config, or 0: it is not the answer.
    return _raw(value), False


def _raw(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> int | float | None:
    if value.__class__ is int:
        return value
    if isinstance(value, str):
        if "_" in value:
            return None
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _tags(value: Any) -> str:
    tags = value
    if isinstance(value, str) and value.startswith("["):
        try:
            tags = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return ", ".join(str(tag) for tag in tags) if isinstance(tags, list) else str(tags)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
