"""What a connector is.

A connector is a small package that offers an entry point in the group ``calibrate_plugin.connectors``: its name is what
``connector = "..."`` in ``calibrate.toml`` says, its value a function ``open(settings: SourceSettings) -> Source``.
A connector implements the protocols that it can; what it does not implement it simply does not have.
It reports what the platform says and never decides which labels count.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import polars as pl

from calibrate_plugin.model import ASIDE, ITEMS, LABELS, Dimension, Report, frame

GROUP = "calibrate_plugin.connectors"
#: How a key begins that hides which item a task is of; the study's own facts tell which (fact ``STANDS_FOR``).
BLIND_KEY, STANDS_FOR = "blind-", "stands_for"
#: The key of a task's data that says by which version of the guideline it is labelled; a label's ``version`` tells it.
GUIDELINE_VERSION = "guideline_version"


class ConnectorError(Exception):
    """The source cannot be read or written as asked. The message names the thing, the value and the way out."""


class SettingsError(ConnectorError):
    """What the study says about a source cannot work; mend ``calibrate.toml`` or the command line."""


class Held(ConnectorError):
    """Going on could lose labels by accident; nothing was changed. The message says what must be accepted first."""


class Unavailable(ConnectorError):
    """The platform did not answer, or not as itself; a later try may work."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """A ``[sources.NAME]`` table, with relative paths resolved and secrets still where they lie.

    ``labels`` maps a dimension to the fields (controls, score names) that answer it; a field that no dimension names is
    left out, except that an empty mapping takes every field under its own name. ``options`` holds the connector's own keys.
    """

    name: str
    connector: str
    file: Path | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: date | None = None
    env: str | None = None
    push: Mapping[str, Any] | None = None  # the table [push.NAME]; None: nothing is written there
    options: Mapping[str, Any] = field(default_factory=dict)

    def secret(self, variable: str) -> str | None:
        """The value of an environment variable, or of the file that ``<variable>_FILE`` names. With ``env = "PROD"``
        ``PROD_<variable>`` is looked up instead."""
        name = f"{self.env}_{variable}" if self.env else variable
        if path := os.environ.get(f"{name}_FILE"):
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise SettingsError(f"{name}_FILE names {path}, which cannot be read: {error.strerror}") from None
        return os.environ.get(name) or None

    @property
    def fields(self) -> frozenset[str] | None:
        """The fields wanted, or None for all of them."""
        return frozenset(f for fields in self.labels.values() for f in fields) if self.labels else None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of what a source holds. ``labels`` has the columns of ``model.LABELS``, ``items`` of ``model.ITEMS``,
    ``aside`` (what could not be read as a label) of ``model.ASIDE``. ``names`` maps rater ids to how people call them."""

    labels: pl.DataFrame
    items: pl.DataFrame = field(default_factory=lambda: frame(ITEMS))
    aside: pl.DataFrame = field(default_factory=lambda: frame(ASIDE))
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a source: the labels for which every given condition holds. ``Scope()`` is the whole source."""

    jobs: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    fields: tuple[str, ...] | None = None
    start: datetime | None = None  # on `placed`, inclusive
    end: datetime | None = None  # on `placed`, exclusive

    def matches(self) -> pl.Expr:
        """True for the rows of a frame of labels that lie in this scope."""
        tests: list[pl.Expr] = [pl.lit(True)]
        if self.jobs is not None:
            tests.append(pl.col("job").is_in(list(self.jobs)))
        if self.tasks is not None:
            tests.append(pl.col("task").is_in(list(self.tasks)))
        if self.fields is not None:
            tests.append(pl.col("field").is_in(list(self.fields)))
        if self.start is not None:
            tests.append(pl.col("placed") >= self.start)
        if self.end is not None:
            tests.append(pl.col("placed") < self.end)
        return pl.all_horizontal(tests).fill_null(False)


@dataclass(frozen=True, slots=True)
class Covered:
    """Everything in ``scope`` was listed since the last ``Covered``: what was known there and not seen again is gone.
    ``cursor`` (opaque) is where a later incremental pull goes on from; it counts only once this is published.
    ``cause`` is why what is missing is gone, one of ``model.RETIRED``. A scope's pages may come in several pieces."""

    scope: Scope
    cursor: str | None = None
    cause: str = "label_deleted"


@dataclass(frozen=True, slots=True)
class Since:
    """What an earlier pull left behind. ``cursor`` is its last one (None: never pulled); ``full`` asks for everything
    again, to find what no cursor shows. ``known(scope)`` gives the labels stored for a scope (columns of LABELS).

    Only a ``Focused`` source is given these: ``jobs`` are the only ones that need a look (the cursor it gives must still find
    later whatever changes in the others); ``gone`` says that something may be gone there, which no list of changes shows."""

    cursor: str | None = None
    full: bool = False
    known: Callable[[Scope], pl.DataFrame] = field(default=lambda scope: frame(LABELS))
    jobs: tuple[str, ...] | None = None
    gone: bool = False


@runtime_checkable
class Source(Protocol):
    """Where labels come from."""

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        """Pages of labels and, after all of a scope was listed, that it is covered. None: read all, keep nothing."""
        ...


@runtime_checkable
class Focused(Protocol):
    """A source that can look at single jobs, and can find what is gone without reading everything; without this a webhook has
    all of it pulled, and read whole after a deletion."""

    @property
    def focuses(self) -> bool: ...


@runtime_checkable
class Identified(Protocol):
    """A source that can prove whose labels it gives."""

    def identity(self) -> str:
        """Server and project, the same words as long as it is the same place. Asked before every pull; when the answer
        differs from the stored one the sync is held and nothing is retired. Raises Unavailable or ConnectorError."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A source that counts what it asks of its platform, and knows what answers."""

    @property
    def requests(self) -> int:
        """The requests sent so far."""
        ...

    @property
    def platform(self) -> str | None:
        """Name and version of the server, as far as it is known: ``Label Studio 1.23.2``."""
        ...


@runtime_checkable
class Sink(Protocol):
    """Where results go."""

    def push(self, results: Results, *, dry_run: bool = False) -> Pushed:
        """Write what differs; the same results again write nothing."""
        ...

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        """Remove everything that was ever written there: what ``written`` names, and what carries our mark."""
        ...


@dataclass(frozen=True, slots=True)
class Results:
    """What there is to write: the report, the reports of single runs, and one row per item and dimension with at least
    one pair (columns item, dimension, agreement (mean over its pairs, 0 to 1), n_pairs, disagree (boolean)).
    ``written`` is what earlier pushes left there, target -> digest; ``known`` the stored labels of this source."""

    report: Report
    items: pl.DataFrame
    runs: Mapping[str, Report] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[Scope], pl.DataFrame] = field(default=lambda scope: frame(LABELS))


@dataclass(frozen=True, slots=True)
class Write:
    """One thing written, or not. ``outcome``: written, unchanged, refused, pending (accepted and not yet visible), planned."""

    target: str
    digest: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Pushed:
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: ``level`` is ok, warning or problem; ``fix`` says what to change."""

    level: str
    subject: str
    message: str
    fix: str = ""


@runtime_checkable
class Checks(Protocol):
    """A connector that can look at its platform before anything is pulled."""

    def check(self) -> list[Finding]:
        """Reachable, authorised, version, what this server can and cannot do, and what to change."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """A dimension that the platform itself declares. ``settings`` is the table ``[dimensions.NAME]`` it would get."""

    name: str
    fields: tuple[str, ...]
    settings: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a platform declares: dimensions, and for each way to name an item (``data.trace_id``) a sample of its values."""

    dimensions: tuple[Proposal, ...]
    links: Mapping[str, tuple[str, ...]]
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@runtime_checkable
class Discovers(Protocol):
    """A connector that can propose a study."""

    def discover(self) -> Discovery: ...


class Forged(ConnectorError):
    """A request says that it is a webhook, and does not prove it."""


class Unknown(ConnectorError):
    """A webhook is about something that the study does not have."""


class Repeated(ConnectorError):
    """A webhook came before; whoever sent it need not send it again."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request that says it is a webhook. Header names are in lower case; ``secret`` is the unguessable part of its path.
    ``body`` is empty for a listener that does not want it."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    secret: str
    body: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class Look:
    """Where to look again: a job (None: the whole source). ``whole``: something may be gone, which no list of changes shows."""

    job: str | None = None
    whole: bool = False


@runtime_checkable
class Listener(Protocol):
    """A source that can be woken. What a webhook says is never data: it only tells where to look again."""

    @property
    def wants_body(self) -> bool:
        """Whether the body is part of the proof."""
        ...

    def accepts(self, incoming: Incoming) -> Look:
        """Where to look again. Raises Forged, Unknown or Repeated; asks nobody."""
        ...


@runtime_checkable
class Webhooks(Protocol):
    """A connector that knows how its platform is made to send webhooks. ``url`` is where this source's webhooks go."""

    def install_webhooks(self, url: str, secret: str) -> list[Finding]: ...

    def webhooks(self, url: str) -> list[Finding]:
        """What is set up there."""
        ...

    def remove_webhooks(self, url: str) -> list[Finding]: ...


@dataclass(frozen=True, slots=True)
class Content:
    """What a person must see of an item to judge it, as the platform's own JSON values; nothing that a judge said of it.

    ``input`` and ``output`` are what went in and came out, ``context`` what the answer was made from (documents, results of
    tools); None where there is none. ``problem`` says why the item cannot be shown; empty where it can. ``link`` leads to a
    page on which judges' scores may stand, so it is never for the person who labels.
    """

    item: str
    input: Any = None
    output: Any = None
    context: Any = None
    link: str | None = None
    problem: str = ""


@runtime_checkable
class Contents(Protocol):
    """A source that can show what an item is."""

    def contents(self, items: Sequence[str]) -> Iterator[Content]:
        """One for each of ``items``, in their order, a few at a time. An item that is not there has a ``problem``."""
        ...

    def groups(self, items: Collection[str], by: str) -> Mapping[str, str]:
        """What each item belongs to: ``by`` is ``session`` or ``user``. Items that belong to nothing are left out.
        Raises SettingsError for a kind of group that the platform does not know."""
        ...


@dataclass(frozen=True, slots=True)
class Example:
    """An item for a judge's prompt: what went in and came out, the right answer on one dimension, and why. ``id`` is the same
    whenever the item is given again."""

    id: str
    item: str
    input: Any
    output: Any
    answer: str
    reason: str | None
    facts: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Examples(Protocol):
    """A platform that keeps datasets of examples."""

    def add_examples(self, dataset: str, examples: Sequence[Example]) -> Pushed:
        """Put examples into a dataset, which is made where it is missing; one that is there is brought up to date."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a labelling form: its control, and the dimensions that the answer goes to (one, or one for each
    choice where several may be ticked)."""

    field: str
    title: str
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A labelling job as it should be. ``mark`` tells it from all others and is kept with it, so that it is found again
    whatever it is called by then. ``guideline`` is Markdown; each item is answered by ``people`` people. ``shows`` says, for a
    job that somebody else made, which part of an item (input, output, context) each of its own keys shows."""

    mark: str
    title: str
    questions: tuple[Question, ...]
    people: int
    guideline: str = ""
    shows: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTask:
    """An item for people to label. ``key`` is how the task names it; ``facts`` are short texts that the people may read."""

    key: str
    content: Content
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """A task that is in a job: its id, how it names its item, and how many answers it has."""

    task: str
    key: str
    answers: int


@runtime_checkable
class Labelling(Protocol):
    """A source in which people can be asked to label. What raises on the way leaves nothing half-made behind."""

    def find_job(self, form: Form) -> str | None:
        """The job that ``make_job`` made of a form with this mark, if it is there."""
        ...

    def make_job(self, form: Form) -> str:
        """A new job that asks the form's questions, shows its guideline and no answer of anybody. Returns its id."""
        ...

    def check_job(self, job: str, form: Form, *, answered: bool = False) -> list[Finding]:
        """Whether blind tasks can go into a job that somebody else made: it asks all questions of the form, shows no
        predictions, gives each task to enough people, and (except where ``answered``) holds no answers yet."""
        ...

    def placed(self, job: str) -> Iterator[Placed]:
        """The tasks of a job that name an item."""
        ...

    def add_tasks(self, job: str, form: Form, tasks: Iterable[NewTask]) -> Iterator[Placed]:
        """Make tasks, in the order given, a batch at a time: what is yielded is there. What a broken connection leaves in
        doubt is found by ``placed``."""
        ...

    def remove_job(self, job: str, form: Form) -> None:
        """Delete a job that ``make_job`` made of this form, where it has no answers. Raises Held where it has."""
        ...

    def job_link(self, job: str) -> str:
        """Where people label."""
        ...


def same(given: str, expected: str | None) -> bool:
    """Whether two secrets are the same, in a time that does not tell how far they are."""
    return bool(expected) and hmac.compare_digest(given.encode("utf-8", "replace"), str(expected).encode())


Open = Callable[[SourceSettings], Source]


def connectors() -> dict[str, Callable[[], Open]]:
    """The installed connectors by name; each is imported only when it is called for."""
    return {entry.name: entry.load for entry in entry_points(group=GROUP)}


def open_source(settings: SourceSettings) -> Source:
    """The source that ``settings`` describe, by the connector they name."""
    found = connectors()
    if settings.connector not in found:
        known = ", ".join(sorted(found)) or "none"
        raise SettingsError(
            f"sources.{settings.name}.connector is {settings.connector!r}, which is not installed; installed: {known}"
        )
    return found[settings.connector]()(settings)
