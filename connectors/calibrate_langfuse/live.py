"""The scores of a running Langfuse: pulled newest first, published stretch by stretch, gone only when asked for twice.

Langfuse has no feed of changes: an edit in the web app moves no time at all and a deletion leaves nothing behind. So
every pull lists the last days again, where edits cluster, and a full one lists everything. What was known and is not
listed is asked for by its id, twice, with a pause between, before its stretch is said to be covered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from calibrate_langfuse import webhooks
from calibrate_langfuse.checks import check
from calibrate_langfuse.client import Clock, Langfuse, NotOffered, log
from calibrate_langfuse.contents import Shown, context_of
from calibrate_langfuse.datasets import add_examples
from calibrate_langfuse.discovery import discover
from calibrate_langfuse.listing import LIMIT, Reads, askable, iso, ms_of
from calibrate_langfuse.push import Push, PushOptions
from calibrate_langfuse.records import Reader, Row, Rules, labels_of
from calibrate_langfuse.server import Abilities, Project, Runs, abilities, execution_trace, models, project, runs
from calibrate_plugin.connector import (
    Content,
    Covered,
    Discovery,
    Example,
    Finding,
    Held,
    Incoming,
    Look,
    Page,
    Pushed,
    Results,
    Scope,
    SettingsError,
    Since,
    SourceSettings,
)
from calibrate_plugin.model import ITEMS, LABELS, MODEL_FACT, frame

DAY = 86_400_000
#: Scores come late: their queue takes seconds, their clients' clocks and buffers minutes.
LAG = 15 * 60_000
#: Scores of one judge execution are written together; a set is whole once the list is this far past it.
TOGETHER = 10 * 60_000
#: How long an item of a run still gets its first scores; later ones learn their run from a full pull.
RUN_AGE = 7 * DAY
#: How many scores are published at once.
CHUNK = 20_000
#: How many of the newest scores a proposal is made from.
DISCOVERED = 2_000
#: Seconds between asking twice for what is missing: reads go to replicas, and lists lag behind writes.
PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a pull will take. ``scores`` and ``requests`` are estimated from samples; None where nothing is known."""

    scores: int
    requests: int
    seconds: float

    def __str__(self) -> str:
        return f"about {self.scores:,} scores, {self.requests:,} requests, {_duration(self.seconds)}"


@dataclass(slots=True)
class LiveOptions:
    """The connector's own keys for a running server."""

    window: int = 3 * DAY
    workers: int = 8
    runs: bool = True
    models: bool = True
    failed_runs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    accept_empty: bool = False

    @classmethod
    def of(cls, settings: SourceSettings) -> LiveOptions:
        where, given = f"sources.{settings.name}", settings.options
        days, workers = given.get("window_days", 3), given.get("workers", 8)
        if isinstance(days, bool) or not isinstance(days, int | float) or days <= 0:
            raise SettingsError(f"{where}.window_days is {days!r}; give a number of days above 0")
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 32:
            raise SettingsError(f"{where}.workers is {workers!r}; give a whole number from 1 to 32")
        flags = {}
        for key in ("runs", "models", "accept_empty"):
            value = given.get(key, key != "accept_empty")
            if not isinstance(value, bool):
                raise SettingsError(f"{where}.{key} is {value!r}; give true or false")
            flags[key] = value
        failed = given.get("failed_runs", {})
        if not isinstance(failed, Mapping):
            raise SettingsError(f'{where}.failed_runs is {failed!r}; give a table, e.g. {{ status = "failed" }}')
        words = {k: frozenset(map(str, v)) if isinstance(v, list) else frozenset([str(v)]) for k, v in failed.items()}
        return cls(int(days * DAY), workers, flags["runs"], flags["models"], words, flags["accept_empty"])


@dataclass(slots=True)
class Cursor:
    """Where a pull goes on: all was listed at ``seen`` (milliseconds) but what lies before ``below``, if that is set.

    ``rules`` tells under which settings: with another name, environment or rule the old scores must be read again too.
    """

    seen: int
    rules: str
    below: int | None = None

    def text(self) -> str:
        below = {"below": self.below} if self.below is not None else {}
        return json.dumps({"v": 1, "rules": self.rules, "seen": self.seen, **below})

    @classmethod
    def read(cls, text: str | None, rules: str) -> Cursor | None:
        """None where there is none, or one of another kind: then everything is listed, which is never wrong."""
        try:
            given = json.loads(text or "null")
            if given["v"] == 1 and given["rules"] == rules:
                return cls(int(given["seen"]), rules, given.get("below"))
        except (ValueError, KeyError, TypeError):
            pass
        return None


class LiveScores:
    """A running Langfuse as a source."""

    def __init__(
        self, settings: SourceSettings, rules: Rules, *, server: Langfuse | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self._signed = webhooks.Signed(settings)
        self.options = LiveOptions.of(settings)
        self.server = server or Langfuse.of(settings, **({"clock": clock} if clock else {}))
        self.rules = rules if rules.url else replace(rules, url=self.server.url)
        self.context = context_of(settings)
        self._abilities: Abilities | None = None
        self._project: Project | None = None

    # what it is

    def identity(self) -> str:
        """The server's address and the project's id, asked anew each time."""
        self._project = project(self.server)
        return f"{self.server.url} project {self._project.id}"

    @property
    def abilities(self) -> Abilities:
        if self._abilities is None:
            self._abilities = abilities(self.server)
        return self._abilities

    @property
    def reads(self) -> Reads:
        names = None if self.rules.version_suffix else self.rules.names
        return Reads(self.server, self.abilities.mode, names, self.rules.environments, workers=self.options.workers)

    @property
    def plain_reads(self) -> Reads:
        """Everything in the project, whatever the study asks for."""
        return Reads(self.server, self.abilities.mode, workers=self.options.workers)

    @property
    def project(self) -> Project | None:
        """The project as ``identity`` last saw it."""
        return self._project

    def check(self) -> list[Finding]:
        """See ``connector.Checks``."""
        return list(check(self))

    def discover(self) -> Discovery:
        """What the newest scores and the score configs propose."""
        try:
            configs = list(self.server.pages("/score-configs"))
        except NotOffered:
            configs = []
        reads = Reads(self.server, self.abilities.mode, None, self.rules.environments, workers=2)
        rows: list[Row] = []
        with closing(reads.stream(self._since(), None, floor=self._now() - 90 * DAY)) as stream:
            for page in stream:
                rows += page
                if len(rows) >= DISCOVERED:
                    break
        found = discover(((None, row) for row in rows[:DISCOVERED]), self.rules, configs)
        said = f"from the newest {len(rows[:DISCOVERED]):,} scores and {len(configs)} score configs"
        return replace(found, notes=(said, *found.notes))

    def contents(self, items: Sequence[str]) -> Iterator[Content]:
        """What went into each trace or observation, and what came out."""
        return self._shown().contents(items)

    def groups(self, items: Collection[str], by: str) -> Mapping[str, str]:
        """The session or user of each item."""
        return self._shown().groups(items, by)

    def add_examples(self, dataset: str, examples: Sequence[Example]) -> Pushed:
        """Examples as items of a dataset."""
        return add_examples(self.server, dataset, examples)

    def _shown(self) -> Shown:
        if self._project is None:
            self._project = project(self.server)
        return Shown(self.server, self.rules.level, self.context, self._project.id, self.options.workers)

    def _now(self) -> int:
        """The earlier of our time and the server's, in milliseconds: what a later pull begins from."""
        skew = min(self.server.skew or timedelta(0), timedelta(0))
        return int((self.server.clock.now() + skew).timestamp() * 1000)

    def _since(self) -> int | None:
        day = self.rules.since
        return None if day is None else int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)

    @property
    def requests(self) -> int:
        return self.server.requests

    @property
    def platform(self) -> str | None:
        found = self._abilities
        return f"Langfuse {found.version}".strip() if found else None

    # what it will take

    def expected(self, start: int | None = None) -> Expectation:
        """How many scores and requests a listing from ``start`` (milliseconds; None: the declared ``since``) takes, by
        the density of the list at a handful of times."""
        start = start if start is not None else self._since()
        scores = sum(self._estimate(name, start)[0] for name in self.reads.by_name)
        return self._expectation(scores)

    def _expectation(self, scores: float) -> Expectation:
        requests = max(1, math.ceil(scores / LIMIT))
        limit = self.server.pace.limit
        seconds = requests * 0.15 / self.options.workers
        if limit is not None and requests > limit:
            seconds = requests / max(1, limit - 2) * 60
        return Expectation(round(scores), requests, seconds)

    def _estimate(self, name: str | None, start: int | None) -> tuple[float, int]:
        """About how many scores there are from ``start`` on, and a time before which there are hardly any."""
        now = self._now()
        rows = self.reads.first_page(None, name)
        if not rows:
            return 0.0, now
        newest, last = ms_of(rows[0]) or now, ms_of(rows[-1]) or now
        if len(rows) < LIMIT // 2 or (start is not None and last <= start):
            return float(len(rows)), last if start is None else max(start, last)
        total = self.reads.total(name)
        scores, edge, floor = 0.0, newest, last
        density = len(rows) / max(1, newest - last)
        for days in (1, 7, 30, 120, 480, 1920, 7680):
            probe = now - days * DAY
            if probe >= last:
                continue
            if start is not None and probe <= start:
                return (float(total) if total is not None else scores + density * (edge - start)), start
            older = self.reads.first_page(probe, name)
            if not older:
                floor = probe
                for _ in range(20):  # the list ends somewhere between: look until it is known to about a page
                    if density * (edge - floor) <= LIMIT:
                        break
                    middle = (edge + floor) // 2
                    if self.reads.first_page(middle, name, limit=1):
                        scores, edge = scores + density * (edge - middle), middle
                    else:
                        floor = middle
                scores += density * (edge - floor) / 2
                break
            at, until = ms_of(older[0]) or probe, ms_of(older[-1]) or probe
            here = len(older) / max(1, at - until) if at > until else density
            scores += (density + here) / 2 * (edge - at)
            edge, density, floor = at, here, until
            if len(older) < LIMIT // 2:
                scores += len(older)
                break
        return (float(total) if total is not None else scores), floor

    # pushing

    def push(self, results: Results, *, dry_run: bool = False) -> Pushed:
        """Scores on items and runs and a report trace, as ``[push.NAME]`` asks; nothing without that table."""
        if self.settings.push is None:
            return Pushed(())
        return self._push(PushOptions.of(self.settings)).push(results, dry_run=dry_run)

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        """Delete everything of ours. See ``Push.unpush``."""
        return self._push(PushOptions()).unpush(written)

    def _push(self, options: PushOptions) -> Push:
        def now() -> int:
            return int(self.server.clock.now().timestamp() * 1000)

        return Push(self.server, self.abilities, self.rules.level, options, now)

    # pulling

    wants_body = True

    def accepts(self, incoming: Incoming) -> Look:
        """The whole project, where the signature is Langfuse's, fresh and not seen before."""
        self._signed.check(incoming)
        return Look()

    def install_webhooks(self, url: str, secret: str) -> list[Finding]:
        return webhooks.advice(url)

    def webhooks(self, url: str) -> list[Finding]:
        return webhooks.advice(url)

    def remove_webhooks(self, url: str) -> list[Finding]:
        return webhooks.advice(url)

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        """Pages of labels, and after each stretch of time that it is covered. See ``connector.Source``."""
        asked = since or Since()
        cursor = Cursor.read(asked.cursor, self.rules.digest) if not asked.full else None
        who = self.identity()
        begin, floor = self._since(), None
        now = self._now()
        pull = _Pull(self, asked, who, now)
        if cursor is None:
            estimates = [self._estimate(name, begin) for name in self.reads.by_name]
            floor = min(low for _, low in estimates)
            log.info(
                "%s, Langfuse %s: %s since %s",
                who,
                self.abilities.version or "of unknown version",
                self._expectation(sum(scores for scores, _ in estimates)),
                iso(begin) if begin is not None else "the beginning",
            )
            regions = [_Region(begin, None, floor, backfill=True)]
        else:
            window = cursor.seen - self.options.window - LAG
            window = max(window, begin) if begin is not None else window
            log.info("%s, Langfuse %s: what changed since %s", who, self.abilities.version, iso(window))
            regions = [_Region(window, None, window, backfill=False)]
            if cursor.below is not None and (begin is None or cursor.below > begin):
                low = begin if begin is not None else min(cursor.below, window) - 90 * DAY
                if cursor.below >= window:
                    regions = [_Region(begin, None, low, backfill=True)]
                else:
                    regions.append(_Region(begin, cursor.below, low, backfill=True))
        pull.prepare(regions)
        for region in regions:
            yield from pull.region(region, regions)
        log.info("%s: %d scores seen, %d requests", who, len(pull.reader.seen), self.server.requests)


@dataclass(slots=True)
class _Region:
    """A stretch of time to list; ``floor`` is a time before which little is expected. ``backfill``: what lies before it was
    never listed, so a pull that is broken off goes on below the last border; otherwise it begins again."""

    start: int | None
    end: int | None
    floor: int
    backfill: bool


class _Pull:
    """One pull on its way."""

    def __init__(self, source: LiveScores, since: Since, who: str, now: int) -> None:
        self.source, self.since, self.who, self.now = source, since, who, now
        self.reads, self.server = source.reads, source.server
        self.reader = Reader(source.rules)
        self.held: list[pl.DataFrame] = []  # rows whose set may not be whole yet
        self.runs = Runs()
        self.begin: int | None = None  # of the oldest region, None: the beginning
        self.models: dict[str, str] | None = None  # asked for once an execution of a judge was seen
        self.listed_any = False

    def prepare(self, regions: list[_Region]) -> None:
        """Learn the runs that scores of these regions can belong to."""
        low = min((r.start for r in regions if r.start is not None), default=None)
        self.begin = None if any(r.start is None for r in regions) else low
        if self.source.options.runs:
            start = None if self.begin is None else self.begin - RUN_AGE
            self.runs = runs(self.server, start, self.source.options.failed_runs)
            self.reader.runs = self.runs.of

    def region(self, region: _Region, regions: list[_Region]) -> Iterator[Page | Covered]:
        """List one region of the pull's."""
        start, upper = region.start, region.end
        if upper is not None:
            # An earlier pull has listed what lies above. A score that moved there must not come back as it was before.
            newer = self.since.known(self._scope(upper, None))
            self.reader.seen.update(newer["record"].drop_nulls().to_list())
        low = None if start is None else start - TOGETHER
        expired = self._expiry()
        if expired is not None and not ((start is None or start < expired) and (upper is None or expired < upper)):
            expired = None
        with closing(self.reads.stream(low, upper, floor=region.floor)) as stream:
            for rows in stream:
                self._check(rows)
                for row in rows:
                    self.reader.add(row)
                reached = ms_of(rows[-1])
                border = None if reached is None else reached + TOGETHER
                if border is not None and expired is not None and border <= expired:
                    border, expired = expired, None
                elif len(self.reader) < CHUNK:
                    continue
                if border is None or (upper is not None and border >= upper) or (start is not None and border <= start):
                    yield self._compacted()  # all of it lies within the time of one set
                    continue
                yield from self._publish(border, upper, self._between(region, border), more=True)
                upper = border
        if expired is not None:
            yield from self._publish(expired, upper, self._between(region, expired), more=True)
            upper = expired
        rest = next((r.end for r in regions[regions.index(region) + 1 :]), None)
        yield from self._publish(start, upper, self._cursor(rest), more=False)
        self.held = []

    def _between(self, region: _Region, border: int) -> str | None:
        """The cursor of a pull that may still be broken off."""
        return self._cursor(border) if region.backfill else self.since.cursor

    def _cursor(self, below: int | None) -> str:
        return Cursor(self.now, self.source.rules.digest, below).text()

    def _compacted(self) -> Page:
        table, rest = self.reader.take()
        self.held.append(table)
        return rest

    def _expiry(self) -> int | None:
        """What lies before this is dropped by the project's own retention."""
        days = self.source._project.retention if self.source._project else None
        return None if days is None else self.now - days * DAY

    def _check(self, rows: Iterable[Row]) -> None:
        mine = self.source._project
        for row in rows:
            other = row.get("projectId")
            if other is not None and mine is not None and other != mine.id:
                raise Held(
                    f"{self.who}: the key now shows scores of project {other}; nothing was changed. Give the key of the"
                    f" project {mine.id}, or a source of its own to the other one"
                )
            self.listed_any = True

    def _scope(self, start: int | None, end: int | None) -> Scope:
        names = self.source.rules.names
        return Scope(fields=None if names is None else tuple(sorted(names)), start=_time(start), end=_time(end))

    def _publish(
        self, start: int | None, end: int | None, cursor: str | None, *, more: bool
    ) -> Iterator[Page | Covered]:
        """What was listed from ``start`` to before ``end``. ``more``: older rows follow in this region."""
        table, rest = self.reader.take()
        rows = pl.concat([*self.held, table]) if self.held else table
        whole, self.held = rows, []
        if start is not None:
            # A set lies where its first score does.
            key = ["_object", "field", "execution"]
            first = (
                pl.when(pl.col("execution").is_null())
                .then(pl.col("placed"))
                .otherwise(pl.col("placed").min().over(key))
            )
            inside = (first >= _time(start)).fill_null(True)
            whole = rows.filter(inside)
            if more:
                self.held = [rows.filter(~inside)]
        scope = self._scope(start, end)
        known = self.since.known(scope)
        items = pl.concat([rest.items, self._answered_by(whole)])
        yield Page(self._with_runs(labels_of(whole), known), items, rest.aside, rest.names)
        found, rest = self._asked_again(known, start, more=more)
        if len(found) or len(rest.aside):
            yield Page(self._with_runs(found, known), rest.items, rest.aside, rest.names)
        expired = self._expiry()
        cause = "expired" if expired is not None and end is not None and end <= expired else "label_deleted"
        log.info("%s: %s to %s listed", self.who, scope.start or "the beginning", scope.end or "now")
        yield Covered(scope, cursor, cause)

    def _answered_by(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Which model gave the answers of Langfuse's own judges, as facts about the items: it can change under a version."""
        executed = rows.filter(pl.col("execution").is_not_null() & (pl.col("kind") == "evaluator"))
        if executed.is_empty() or not self.source.options.models:
            return frame(ITEMS)
        if self.models is None:
            self.models = models(self.server, None if self.begin is None else self.begin - DAY)
        told = {
            (item, MODEL_FACT + rater): self.models.get(execution_trace(execution))
            for item, rater, execution in executed.sort("placed").select("item", "rater", "execution").iter_rows()
        }
        facts = [(item, fact, model) for (item, fact), model in told.items() if model is not None]
        return pl.DataFrame(facts, schema=ITEMS, orient="row")

    def _asked_again(self, known: pl.DataFrame, start: int | None, *, more: bool) -> tuple[pl.DataFrame, Page]:
        """Labels of known records that were not listed and are there all the same, and a page of what came with them."""
        records = known["record"].drop_nulls().unique().to_list()
        missing = sorted(id_ for id_ in records if id_ not in self.reader.seen)
        kept = frame(LABELS)
        if not missing:
            return kept, Page(kept)
        if self.source.identity() != self.who:
            raise Held(f"{self.who}: the key now belongs to {self.source.identity()}; nothing was changed")
        there: list[Row] = []
        left = missing
        for attempt in range(2):
            if attempt:
                self.server.clock.sleep(PAUSE)
            rows = self._ask(left, known)
            there += rows
            named = {str(row.get("id")) for row in rows}
            left = [id_ for id_ in left if id_ not in named]
            if not left:
                break
        self._check(there)
        if left and not self.listed_any:
            self._must_not_be_empty(len(left))
        unsayable = [id_ for id_ in left if not self._sayable(id_)]
        if unsayable:
            # No request can name these, so their absence proves nothing.
            kept = frame(LABELS, known.filter(pl.col("record").is_in(unsayable)).select(list(LABELS)))
            log.info("%s: %d scores whose ids hold commas are kept unseen", self.who, len(unsayable))
        below = [row for row in there if more and start is not None and (ms_of(row) or start) < start]
        skipped = {id(row) for row in below}  # they lie in what is listed next
        for row in self._with_siblings([row for row in there if id(row) not in skipped]):
            self.reader.add(row)
        table, rest = self.reader.take()
        log.info(
            "%s: %d scores were not listed, %d of them are gone", self.who, len(missing), len(left) - len(unsayable)
        )
        return pl.concat([labels_of(table), kept]), rest

    def _ask(self, ids: list[str], known: pl.DataFrame) -> list[Row]:
        rows = self.reads.by_id(ids)
        unsayable = {id_ for id_ in ids if not self._sayable(id_)}
        if unsayable and (kind := self._container()) is not None:
            objects = known.filter(pl.col("record").is_in(list(unsayable)))
            column = "task" if kind == "trace" and self.source.rules.level == "observation" else "item"
            for object_id in objects[column].drop_nulls().unique().to_list():
                rows += [row for row in self.reads.of_object(kind, object_id) if row.get("id") in unsayable]
        return rows

    def _sayable(self, id_: str) -> bool:
        return askable(id_) or (self.reads.mode != "v3" and bool(id_))

    def _container(self) -> str | None:
        level = self.source.rules.level
        return "trace" if level == "observation" else level

    def _with_siblings(self, rows: list[Row]) -> list[Row]:
        """The rows, and with a category the others of its set."""
        more: list[Row] = []
        for row in rows:
            metadata, subject = row.get("metadata"), row.get("subject")
            execution = metadata.get("job_execution_id") if isinstance(metadata, dict) else None
            trace = row.get("traceId")
            if isinstance(subject, dict):
                trace = subject.get("traceId") or (subject.get("id") if subject.get("kind") == "trace" else None)
            if row.get("dataType") == "CATEGORICAL" and execution is not None and trace and askable(str(trace)):
                more += [r for r in self.reads.of_object("trace", str(trace)) if r.get("name") == row.get("name")]
        return [*rows, *more]

    def _must_not_be_empty(self, missing: int) -> None:
        """An empty project may be a lost permission: it is believed only when it is said."""
        if self.source.options.accept_empty or self._others():
            return
        raise Held(
            f"{self.who}: Langfuse shows no score at all where {missing} were known; nothing was changed. Check the key; if"
            f" they were really all deleted, sync once with accept_empty = true in [sources.{self.source.settings.name}]"
        )

    def _others(self) -> bool:
        return bool(self.source.plain_reads.first_page(None, None, limit=1))

    def _with_runs(self, labels: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """The run of each label: the listed one, else the one it was known by; runs that failed or are gone retire it."""
        before = known.filter(pl.col("run").is_not_null() & pl.col("record").is_not_null()).select(
            "record", pl.col("run").alias("_run"), pl.col("retired").alias("_retired")
        )
        if len(before):
            # With a retention of its own a project drops runs that nobody deleted.
            known_runs = before["_run"].unique().to_list() if self._expiry() is None else []
            gone = self.runs.deleted(known_runs)
            labels = (
                labels.join(before.unique("record", keep="last"), on="record", how="left", maintain_order="left")
                # A trace may be an item of other runs too; what was scored on an observation was of that run only.
                .with_columns(
                    pl.when(pl.col("task").is_not_null() & pl.col("_run").is_in(sorted(gone)))
                    .then(None)
                    .otherwise("run")
                    .alias("run")
                )
                .with_columns(
                    pl.when(pl.col("run").is_null() & pl.col("_run").is_in(sorted(gone)))
                    .then(pl.lit("run_deleted"))
                    .when((pl.col("_retired") == "run_failed") & ~pl.col("_run").is_in(sorted(self.runs.listed)))
                    .then(pl.lit("run_failed"))  # only recent runs were listed
                    .otherwise(pl.col("retired"))
                    .alias("retired"),
                    pl.coalesce("run", "_run").alias("run"),
                )
                .drop("_run", "_retired")
            )
        if self.runs.failed:
            failed = pl.col("run").is_in(sorted(self.runs.failed))
            labels = labels.with_columns(
                pl.when(failed).then(pl.lit("run_failed")).otherwise(pl.col("retired")).alias("retired")
            )
        return labels


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
