"""Writing what a source says: staged out of sight in small transactions, then published by a single row.

Everything that is staged carries the number that its publication will have. Nobody sees it before that row is there, and
what a dead process left behind is removed before the next worker stages anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
import polars as pl
import sqlalchemy as sa

from calibrate_plugin.connector import ConnectorError, Covered, Held, Page, Scope
from calibrate_plugin.model import ASIDE, ITEMS, KINDS, LABELS, RETIRED, STATES, frame
from calibrate_plugin.store import reading, schema
from calibrate_plugin.store.database import Database
from calibrate_plugin.store.digests import PAIR, Seen, array, canonical, digest, digests, keys
from calibrate_plugin.store.worker import Worker

CHUNK = 5_000  # labels worked on at once
ROWS = 250  # rows in one transaction, and
BYTES = 256_000  # bytes of text: a webhook waits for no more than this
INDEXED = 100_000  # labels, about 20 MB, whose identities are written in one go and in order
SHARE = 5  # a publication that would end more than one in so many labels of its scope is held,
RECORDS = 5  # unless they belong to fewer records than this: one person tidying up

CONTEXT = tuple(reading.CONTEXT)
PLACE = tuple(reading.PLACE)
CONTENT = ("record", "seq", "value", "placed", "confidence", "execution", "reason")

#: What makes it another answer. Anything else (where it lies, who moved it) is recorded too, but moves no time.
ANSWER = ("value", "state", "reason", "confidence", "rater", "version", "run", "execution", "sample", "order")

#: What tells the labels of a source without record ids apart; several that agree in all of it are numbered.
#: They hold all that a scope can ask for, so no scope splits them.
WITHOUT_RECORD = (
    *("item", "field", "rater", "kind", "version", "job", "run", "task", "placed", "sample", "order", "execution"),
)
STORED = (
    *("id", "number", "identity", "context", "place", "record", "seq", "value", "at", "said_at", "placed"),
    *("confidence", "execution", "seconds"),
)


@dataclass(slots=True)
class Tally:
    """What a pull brought. ``seen`` labels were listed, ``duplicates`` of them a second time."""

    seen: int = 0
    added: int = 0
    changed: int = 0
    retired: int = 0
    duplicates: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """What a pull ended: ``labels``, of about so many ``records``."""

    labels: int = 0
    records: int = 0


#: How a source is pulled: all of it, what changed since the last time, or what changed in some of its jobs.
Mode = Literal["full", "incremental", "focused"]


class Recording:
    """One pull of one source, on its way into the store. Only the holder of the worker's lock may make one."""

    def __init__(
        self, database: Database, worker: Worker, *, source: str, identity: str | None, at: int, mode: Mode
    ) -> None:
        self._database = database
        self._worker = worker
        self._source = source
        self._at = at
        with database.read() as connection:
            row = connection.execute(sa.select(schema.sources).where(schema.sources.c.source == source)).one_or_none()
            self.cursor: str | None = row.cursor if row else None
            self.mode: Mode = "full" if self.cursor is None and mode == "incremental" else mode
            self._identity = identity if identity is not None or row is None else row.identity
            self._live: int = row.live if row else 0
            self._number = reading.latest(connection) + 1
            self._last_label = reading.last_label(connection, self._number)
            self._contexts = Dictionary(connection, schema.contexts, CONTEXT)
            self._places = Dictionary(connection, schema.places, PLACE)
            query = sa.select(schema.contexts.c.id).where(schema.contexts.c.source == source).limit(1)
            self._known_source = connection.execute(query).first() is not None
            self._names = reading.names_as_of(connection, self._number).get(source, {})
            self._forgotten = set(connection.execute(sa.select(schema.forgotten.c.identity)).scalars())
            query = sa.select(schema.aside.c.digest, schema.aside.c.id).where(
                schema.aside.c.source == source, schema.aside.c.gone.is_(None)
            )
            self._aside: dict[bytes, int] = {row.digest: row.id for row in connection.execute(query)}
        with database.write() as connection:
            worker.fence(connection)
            if row is None:
                connection.execute(sa.insert(schema.sources), {"source": source, "live": 0})
            self._sync = inserted(
                connection,
                schema.syncs,
                {
                    "source": source,
                    "mode": self.mode,
                    "cursor": self.cursor,
                    "identity": identity,
                    "started": at,
                    "outcome": "running",
                },
            )

        self.tally = Tally()
        self.published: int | None = None  # the newest number that this pull gave
        self._lost: dict[Scope, Lost] = {}
        self._seen = Seen()  # in this pull: the first sight of a record wins
        self._window = Seen()  # since the last Covered
        self._repeats: dict[bytes, int] = {}
        self._facts_seen = Seen()
        self._aside_seen: set[bytes] = set()
        self._staged = Tally()
        self._dirty = False  # something is staged
        self._unindexed: list[tuple[bytes, int, bytes]] = []

    # --- pages

    def add(self, page: Page) -> None:
        """Stage a page. Raises ConnectorError where it is not what a page must be."""
        try:
            labels, items, aside = frame(LABELS, page.labels), frame(ITEMS, page.items), frame(ASIDE, page.aside)
        except (ValueError, pl.exceptions.PolarsError) as error:
            raise ConnectorError(f"{self._source}: a page of this source has the wrong form: {error}") from None
        self._check(labels)
        for chunk in labels.iter_slices(CHUNK):
            self._add_labels(self._stored(chunk))
        for chunk in items.drop_nulls(["item", "fact"]).iter_slices(CHUNK):
            self._add_facts(self._stored(chunk))
        for chunk in aside.iter_slices(CHUNK):
            self._add_aside(self._stored(chunk))
        if page.names:
            self._add_names(page.names)

    def _stored(self, chunk: pl.DataFrame) -> pl.DataFrame:
        return chunk if self._database.sqlite else reading.storable(chunk)

    def _check(self, labels: pl.DataFrame) -> None:
        for column, allowed, optional in (("kind", KINDS, False), ("state", STATES, False), ("retired", RETIRED, True)):
            wrong = labels.filter(~pl.col(column).is_in(list(allowed)).fill_null(optional))
            if wrong.height:
                raise ConnectorError(
                    f"{self._source}: record {wrong['record'][0]!r} has {column} {wrong[column][0]!r}; "
                    f"it must be one of {', '.join(allowed)}"
                )
        if labels["field"].null_count():
            record = labels.filter(pl.col("field").is_null())["record"][0]
            raise ConnectorError(f"{self._source}: record {record!r} has a label without a field")

    def _add_labels(self, given: pl.DataFrame) -> None:
        self.tally.seen += given.height
        coded = given.with_columns(
            pl.lit(self._source).alias("source"),
            pl.col("at", "placed", "blind").cast(pl.Int64),
            # SQLite keeps no NaN; minus zero is zero
            pl.when(pl.col("confidence") == 0)
            .then(0.0)
            .otherwise(pl.col("confidence").fill_nan(None))
            .alias("confidence"),
        )
        identities = self._identities(coded)
        marks = array(identities)
        first = np.zeros(len(marks), dtype=bool)
        first[np.unique(marks, return_index=True)[1]] = True
        fresh_here = first & ~self._window.contains(marks)
        self._window.add(marks[fresh_here])
        fresh = first & ~self._seen.contains(marks)
        self._seen.add(marks[fresh])
        self.tally.duplicates += int((~fresh).sum())
        if not fresh.any():
            return
        self._compare(coded.filter(fresh), [i for i, keep in zip(identities, fresh, strict=True) if keep])

    def _identities(self, coded: pl.DataFrame) -> list[bytes]:
        with_record = digests("r" + t for t in canonical(coded, ("source", "record", "field")))
        if not coded["record"].null_count():
            return with_record
        bare = digests("n" + t for t in canonical(coded, ("source", *WITHOUT_RECORD)))
        seen = self._seen.contains(array(bare))
        here: set[bytes] = set()
        for i, (lacks, base) in enumerate(zip(coded["record"].is_null(), bare, strict=True)):
            if not lacks:
                continue
            with_record[i] = base
            if seen[i] or base in here:
                self._repeats[base] = n = self._repeats.get(base, 0) + 1
                with_record[i] = digest(f"{base.hex()}#{n}")
            here.add(base)
        return with_record

    def _compare(self, coded: pl.DataFrame, identities: list[bytes]) -> None:
        """Stage what differs from what is known."""
        contexts, places = Entries(coded, CONTEXT), Entries(coded, PLACE, leading="item")
        lacks_record = coded["record"].is_null().to_list()
        contents = digests(
            f"{c}{p}{content}{at if lacks else ''}"
            for c, p, content, at, lacks in zip(
                contexts.per_row(), places.per_row(), canonical(coded, CONTENT), coded["at"], lacks_record, strict=True
            )
        )
        earlier = self._earlier(identities)
        news: list[int] = []  # rows of `coded`
        ends: dict[int, str] = {}  # of which these replace an earlier label, and why that ends
        for i, (identity, content) in enumerate(zip(identities, contents, strict=True)):
            old = earlier.get(identity)
            if old is None or old.ended:
                news.append(i)
                self._staged.added += 1
                if old is not None:
                    ends[i] = "returned"
            elif old.digest != content:
                news.append(i)
                self._staged.changed += 1
                ends[i] = "changed"
        if not news:
            return
        context_ids, place_ids = self._intern(self._contexts, contexts, news), self._intern(self._places, places, news)
        picked = coded[news]
        if self._forgotten:
            raters = digests(canonical(picked, ("source", "rater")))
            keep = pl.Series([r not in self._forgotten for r in raters], dtype=pl.Boolean)
            picked = picked.with_columns(pl.when(keep).then("reason").alias("reason"))
        self._write(
            picked.with_columns(
                id=pl.int_range(self._last_label + 1, self._last_label + 1 + len(news), dtype=pl.Int64),
                number=pl.lit(self._number),
                said_at=pl.lit(None, dtype=pl.Int64),
                identity=pl.Series([identities[i] for i in news], dtype=pl.Binary),
                context=pl.Series(context_ids, dtype=pl.Int64),
                place=pl.Series(place_ids, dtype=pl.Int64),
            ),
            [contents[i] for i in news],
            {n: (earlier[identities[i]], ends[i]) for n, i in enumerate(news) if i in ends},
        )

    def _write(self, rows: pl.DataFrame, contents: list[bytes], replaced: Mapping[int, tuple[Earlier, str]]) -> None:
        """Stage rows of the table of labels with their reasons; ``replaced``: which earlier label ends with which, and why."""
        self._last_label += rows.height
        at, said_at = rows["at"].to_list(), rows["said_at"].to_list()
        edited = [n for n, (_, why) in replaced.items() if why == "changed" and rows["record"][n] is not None]
        before = self._before([replaced[n][0].label for n in edited])
        for n, answer in zip(edited, rows[edited].select(ANSWER).iter_rows(), strict=True):
            old_answer, old_at, old_said = before[replaced[n][0].label]
            if answer == old_answer:
                at[n], said_at[n] = old_at, old_said
            elif at[n] is not None and at[n] == (old_at if old_said is None else old_said):
                at[n], said_at[n] = max(self._at, old_at or 0), at[n]  # edited, and the source does not say when
        rows = rows.with_columns(at=pl.Series(at, dtype=pl.Int64), said_at=pl.Series(said_at, dtype=pl.Int64))
        tuples = rows.select(STORED).rows()
        ids, reasons = rows["id"].to_list(), rows["reason"].to_list()
        for start, stop in spans(sizes(rows, ("record", "value", "execution", "reason"))):
            span = range(start, stop)
            self._insert(
                (schema.labels, STORED, tuples[start:stop]),
                (schema.reasons, ("label", "text"), [(ids[n], reasons[n]) for n in span if reasons[n] is not None]),
                (
                    schema.retirements,
                    ("label", "number", "cause"),
                    [(replaced[n][0].label, self._number, replaced[n][1]) for n in span if n in replaced],
                ),
            )
        self._unindexed += zip(rows["identity"].to_list(), ids, contents, strict=True)
        if len(self._unindexed) >= INDEXED:
            self._index()

    def _index(self) -> None:
        """Let what was staged be found by its identity."""
        rows = sorted(self._unindexed)
        self._unindexed = []
        for some in reading.pieces(rows, 2 * ROWS):
            self._insert((schema.identities, ("identity", "label", "digest"), some))

    def _earlier(self, identities: list[bytes]) -> dict[bytes, Earlier]:
        """The newest stored row of each record."""
        found: dict[bytes, Earlier] = {}
        if not self._known_source:
            return found
        t, r = schema.identities, schema.retirements
        with self._database.read() as connection:
            for some in reading.pieces(identities):
                query = sa.select(t.c.identity, t.c.label, t.c.digest).where(t.c.identity.in_(some))
                for identity, label, content in reading.tuples(connection, query):
                    if identity not in found or found[identity].label < label:
                        found[identity] = Earlier(label, content)
            by_label = {earlier.label: earlier for earlier in found.values()}
            for some_labels in reading.pieces(list(by_label)):
                for (label,) in reading.tuples(connection, sa.select(r.c.label).where(r.c.label.in_(some_labels))):
                    by_label[label].ended = True
        return found

    def _before(self, ids: list[int]) -> dict[int, tuple[tuple[Any, ...], int | None, int | None]]:
        """Of stored labels: the answer, its time, and the time that the source said, where that is another one."""
        found: dict[int, tuple[tuple[Any, ...], int | None, int | None]] = {}
        t = schema.labels
        with self._database.read() as connection:
            for some in reading.pieces(ids):
                answers = self._stored(reading.by_id(connection, some)).select("label", *ANSWER)
                times = connection.execute(sa.select(t.c.id, t.c.at, t.c.said_at).where(t.c.id.in_(some)))
                by_id = {row.id: (row.at, row.said_at) for row in times}
                found |= {label: (tuple(answer), *by_id[label]) for label, *answer in answers.iter_rows()}
        return found

    def _intern(self, dictionary: Dictionary, entries: Entries, rows: list[int]) -> list[int]:
        """The ids of the entries of ``rows``; new entries are written at once."""
        wanted = list(dict.fromkeys(entries.at[i] for i in rows))
        codes = [entries.codes[n] for n in wanted]
        with self._database.read() as connection:
            new = dictionary.look_up(connection, codes)
        if new:
            texts = entries.unique[[n for n, code in zip(wanted, codes, strict=True) if code in new]]
            self._stage(
                dictionary.table,
                texts.with_columns(
                    id=pl.Series(list(new.values()), dtype=pl.Int64),
                    key=pl.Series([key for key, _ in new], dtype=pl.Int64),
                    rest=pl.Series([rest for _, rest in new], dtype=pl.Int64),
                ),
            )
            dictionary.written(new)
        ids = dict(zip(wanted, dictionary.ids(codes), strict=True))
        return [ids[entries.at[i]] for i in rows]

    def _stage(self, table: sa.Table, rows: pl.DataFrame) -> None:
        columns = tuple(rows.columns)
        tuples = rows.rows()
        for start, stop in spans(sizes(rows, [c for c, dtype in rows.schema.items() if dtype == pl.String])):
            self._insert((table, columns, tuples[start:stop]))

    def _insert(self, *tables: tuple[sa.Table, tuple[str, ...], Sequence[tuple[Any, ...]]]) -> None:
        self._dirty = True
        with self._database.write() as connection:
            self._worker.fence(connection)
            for table, columns, rows in tables:
                if rows:
                    self._database.insert(connection, table, columns, rows)
        self._database.give_way()

    def _add_facts(self, given: pl.DataFrame) -> None:
        coded = given.with_columns(pl.lit(self._source).alias("source")).unique(
            ["item", "fact"], keep="first", maintain_order=True
        )
        identities = digests(canonical(coded, ("source", "item", "fact")))
        marks = array(identities)
        fresh = ~self._facts_seen.contains(marks)
        self._facts_seen.add(marks[fresh])
        codes = reading.item_keys(coded["item"].to_list())
        t = schema.item_facts
        columns = {"id": pl.Int64, "key": pl.Int64, "source": pl.String, **ITEMS}
        stored: dict[tuple[str, ...], str | None] = {}
        with self._database.read() as connection:
            for some in reading.pieces(codes):
                query = sa.select(*(t.c[c] for c in columns)).where(t.c.key.in_(some), t.c.source == self._source)
                rows = self._stored(reading.fetch(connection, query, columns)).sort("id")  # the newest stays
                stored |= {(item, fact): value for item, fact, value in rows.select(list(ITEMS)).iter_rows()}
        keep = [
            bool(new) and ((item, fact) not in stored or stored[item, fact] != value)
            for new, (item, fact, value) in zip(fresh, coded.select(list(ITEMS)).iter_rows(), strict=True)
        ]
        rows = coded.with_columns(key=pl.Series(codes, dtype=pl.Int64), number=pl.lit(self._number))
        self._stage(t, rows.filter(pl.Series(keep, dtype=pl.Boolean)))

    def _add_aside(self, given: pl.DataFrame) -> None:
        codes = digests(canonical(given, tuple(ASIDE)))
        keep = []
        for code in codes:
            keep.append(code not in self._aside_seen and code not in self._aside)
            self.tally.quarantined += code not in self._aside_seen
            self._aside_seen.add(code)
        rows = given.with_columns(
            number=pl.lit(self._number),
            sync=pl.lit(self._sync),
            source=pl.lit(self._source),
            digest=pl.Series(codes, dtype=pl.Binary),
        )
        self._stage(schema.aside, rows.filter(pl.Series(keep, dtype=pl.Boolean)))

    def _add_names(self, names: Mapping[str, str]) -> None:
        clean = {text(rater): text(name) for rater, name in names.items()}
        rows = self._stored(
            pl.DataFrame(
                {"source": self._source, "rater": list(clean), "name": list(clean.values())},
                schema={"source": pl.String, "rater": pl.String, "name": pl.String},
            )
        )
        identities = digests(canonical(rows, ("source", "rater")))
        keep = [
            self._names.get(rater) != name and identity not in self._forgotten
            for identity, (rater, name) in zip(identities, clean.items(), strict=True)
        ]
        rows = rows.with_columns(identity=pl.Series(identities, dtype=pl.Binary), number=pl.lit(self._number))
        self._stage(schema.names, rows.filter(pl.Series(keep, dtype=pl.Boolean)))
        self._names |= {rater: name for (rater, name), kept in zip(clean.items(), keep, strict=True) if kept}

    # --- publishing

    def publish(self, covered: Covered | None, *, accept_deletions: bool = False) -> None:
        """Make everything staged visible at once, with the end of what ``covered`` says is gone.

        ``None``: the pull is at its end; what no scope covered is recorded and nothing of it ends.
        Raises Held, and stages nothing more, where too much would end.
        """
        missing: list[int] = []
        if covered is not None:
            if covered.cause not in RETIRED:
                raise ConnectorError(
                    f"{self._source}: labels cannot end by {covered.cause!r}; it must be one of {', '.join(RETIRED)}"
                )
            # what a platform's own retention dropped still counts, so none of it is lost
            missing = self._missing(covered.scope, accept_deletions or covered.cause == "expired")
            self._stage(
                schema.retirements,
                pl.DataFrame({"label": missing}, schema={"label": pl.Int64}).with_columns(
                    number=pl.lit(self._number), cause=pl.lit(covered.cause)
                ),
            )
        if (covered is None and self.mode == "full") or (covered is not None and covered.scope == Scope()):
            self._end_aside()
        self._index()
        self._staged.retired = len(missing)
        cursor = self.cursor if covered is None or covered.cursor is None else covered.cursor
        live = self._live + self._staged.added - len(missing)
        with self._database.write() as connection:
            self._worker.fence(connection)
            if self._dirty:
                connection.execute(
                    sa.insert(schema.publications),
                    {
                        "number": self._number,
                        "sync": self._sync,
                        "source": self._source,
                        "scope": text(describe(covered.scope)) if covered else "the rest",
                        "at": self._at,
                        "last_label": self._last_label,
                        "added": self._staged.added,
                        "changed": self._staged.changed,
                        "retired": self._staged.retired,
                    },
                )
            connection.execute(
                sa.update(schema.sources)
                .where(schema.sources.c.source == self._source)
                .values(identity=self._identity, cursor=cursor, live=live)
            )
        self.cursor, self._live = cursor, live
        if self._dirty:
            self.published = self._number
            self._number += 1
            for name in ("added", "changed", "retired"):
                setattr(self.tally, name, getattr(self.tally, name) + getattr(self._staged, name))
        self._staged = Tally()
        self._dirty = False
        self._window = Seen()

    def _missing(self, scope: Scope, accept: bool) -> list[int]:
        """The live labels of a scope that were not listed since the last Covered. Raises Held where they are too many."""
        missing: list[int] = []
        there = 0
        with self._database.read() as connection:
            for some in grouped(reading.live_labels(connection, self._source, scope)):
                there += len(some)
                keep = self._window.contains(array([identity for _, identity in some]))
                missing += [label for (label, _), seen in zip(some, keep, strict=True) if not seen]
            if not missing:
                return missing
            # A list of tasks may be made because they are gone; what matters is how much of the whole that is.
            whole = replace(scope, tasks=None)
            records = self._records(connection, missing)
            lost = {part: Lost(was.labels + len(missing), was.records + records) for part, was in self._losses(whole)}
            if not accept and lost[whole].records >= RECORDS and scope.tasks is not None:
                there = reading.count_live(connection, self._source, whole)
        for part, now in lost.items():
            of = (there if part == whole else self._live) + now.labels - len(missing)
            if not accept and now.records >= RECORDS and now.labels * SHARE > of:
                raise Held(
                    f"{self._source}: {now.labels:,} of {of:,} labels are no longer there ({describe(part)}). They stay as "
                    "they were. If they were really deleted, accept it with --accept-deletions; if not, look at the key's "
                    "permissions and at the platform"
                )
        if not accept:
            self._lost |= lost
        return missing

    def _losses(self, whole: Scope) -> list[tuple[Scope, Lost]]:
        """What this pull ended so far in a scope and in the source."""
        return [(part, self._lost.get(part, Lost())) for part in dict.fromkeys((whole, Scope()))]

    def _records(self, connection: sa.Connection, ids: list[int]) -> int:
        """How many records labels belong to, counted no further than needed; without record ids each is one."""
        found: set[str | int] = set()
        for some in reading.pieces(ids):
            query = sa.select(schema.labels.c.id, schema.labels.c.record).where(schema.labels.c.id.in_(some))
            found |= {label if record is None else record for label, record in connection.execute(query)}
            if len(found) >= RECORDS:
                break
        return len(found)

    def _end_aside(self) -> None:
        gone = [i for code, i in self._aside.items() if code not in self._aside_seen]
        for some in reading.pieces(gone, ROWS):
            self._dirty = True
            with self._database.write() as connection:
                self._worker.fence(connection)
                connection.execute(sa.update(schema.aside).where(schema.aside.c.id.in_(some)).values(gone=self._number))
        self._aside = {code: i for code, i in self._aside.items() if code in self._aside_seen}

    def finish(self, outcome: str, message: str, *, at: datetime, server: str | None, requests: int | None) -> None:
        """Drop what is staged and not published, and write down how the pull ended."""
        if self._dirty:
            discard(self._database)
        with self._database.write() as connection:
            connection.execute(
                sa.update(schema.syncs)
                .where(schema.syncs.c.id == self._sync)
                .values(
                    finished=reading.microseconds(at),
                    outcome=outcome,
                    message=text(message),
                    server=server,
                    requests=requests,
                    **{name: getattr(self.tally, name) for name in Tally.__slots__},
                )
            )


@dataclass(slots=True)
class Earlier:
    """A record's newest stored label, and the digest of what it says."""

    label: int
    digest: bytes
    ended: bool = False


class Entries:
    """What the rows of a frame share in some columns: ``unique`` entries, their ``codes``, and ``at`` which each row has."""

    def __init__(self, coded: pl.DataFrame, columns: Sequence[str], leading: str | None = None) -> None:
        whole = coded.select(columns)
        self.unique = whole.unique(maintain_order=True)
        numbered = self.unique.with_row_index("entry")
        joined = whole.join(numbered, on=list(columns), how="left", nulls_equal=True, maintain_order="left")
        self.at: list[int] = joined["entry"].to_list()
        self.codes = keys(self.unique, columns, leading)

    def per_row(self) -> Iterator[str]:
        texts = [PAIR.pack(*code).hex() for code in self.codes]
        return (texts[n] for n in self.at)


class Dictionary:
    """A table of texts that many labels share, and the ids of those met lately."""

    LIMIT = 50_000

    def __init__(self, connection: sa.Connection, table: sa.Table, columns: Sequence[str]) -> None:
        self.table = table
        self.columns = tuple(columns)
        self._ids: dict[tuple[int, int], int] = {}
        self._next: int = (connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0) + 1

    def look_up(self, connection: sa.Connection, codes: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Find what is stored; returns the new ids of what is not."""
        if len(self._ids) > self.LIMIT:
            self._ids.clear()
        wanted = [c for c in codes if c not in self._ids]
        for some in reading.pieces(wanted):
            t = self.table.c
            query = sa.select(t.key, t.rest, t.id).where(t.key.in_({key for key, _ in some}))
            self._ids.update(((key, rest), i) for key, rest, i in reading.tuples(connection, query))
        new = [c for c in wanted if c not in self._ids]
        return {code: self._next + n for n, code in enumerate(new)}

    def written(self, new: Mapping[tuple[int, int], int]) -> None:
        self._next += len(new)
        self._ids.update(new)

    def ids(self, codes: Sequence[tuple[int, int]]) -> list[int]:
        return [self._ids[c] for c in codes]


def discard(database: Database) -> None:
    """Remove what was staged and never published."""
    with database.read() as connection:
        number = reading.latest(connection)
        first = reading.last_label(connection, number) + 1
        last = connection.execute(sa.select(sa.func.max(schema.labels.c.id))).scalar() or 0
    t = schema.identities
    for start in range(first, last + 1, ROWS):
        with database.read() as connection:
            column = schema.labels.c.id
            query = sa.select(schema.labels.c.identity).where(column >= start, column < start + ROWS)
            dead = connection.execute(query).scalars().all()
        with database.write() as connection:
            # first, for only the labels tell where they are
            connection.execute(sa.delete(t).where(t.c.identity.in_(dead), t.c.label >= first))
            for column in (schema.labels.c.id, schema.reasons.c.label):
                connection.execute(sa.delete(column.table).where(column >= start, column < start + ROWS))
        database.give_way()
    for table, key in (
        (schema.retirements, schema.retirements.c.label),
        (schema.item_facts, schema.item_facts.c.id),
        (schema.names, schema.names.c.identity),
        (schema.aside, schema.aside.c.id),
    ):
        with database.read() as connection:
            dead = connection.execute(sa.select(key).where(table.c.number > number)).scalars().all()
        for some in reading.pieces(dead, ROWS):
            with database.write() as connection:
                connection.execute(sa.delete(table).where(table.c.number > number, key.in_(some)))
    with database.read() as connection:
        dead = connection.execute(sa.select(schema.aside.c.id).where(schema.aside.c.gone > number)).scalars().all()
    for some in reading.pieces(dead, ROWS):
        with database.write() as connection:
            connection.execute(sa.update(schema.aside).where(schema.aside.c.id.in_(some)).values(gone=None))


def recover(database: Database) -> None:
    """After a worker died in the middle: remove its traces and say so."""
    running = schema.syncs.c.outcome == "running"
    with database.read() as connection:
        if connection.execute(sa.select(schema.syncs.c.id).where(running).limit(1)).first() is None:
            return
    discard(database)
    with database.write() as connection:
        connection.execute(
            sa.update(schema.syncs)
            .where(running)
            .values(
                outcome="failed", message="interrupted; what it had published stays, the next pull goes on from there"
            )
        )


def sizes(rows: pl.DataFrame, columns: Sequence[str]) -> list[int]:
    """The bytes of text in each row."""
    if not columns:
        return [0] * rows.height
    return rows.select(pl.sum_horizontal(pl.col(c).str.len_bytes().fill_null(0) for c in columns)).to_series().to_list()


def spans(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rows of such lengths in pieces short enough for one transaction: from, up to."""
    start = size = 0
    for n, length in enumerate(lengths):
        if n > start and (n - start >= ROWS or size + length > BYTES):
            yield start, n
            start, size = n, 0
        size += length
    if lengths:
        yield start, len(lengths)


def grouped(rows: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    group: list[tuple[int, bytes]] = []
    for row in rows:
        group.append(row)
        if len(group) >= reading.FETCH:
            yield group
            group = []
    if group:
        yield group


def describe(scope: Scope) -> str:
    """A scope as a message names it."""
    parts = []
    for word, values in (("job", scope.jobs), ("task", scope.tasks), ("field", scope.fields)):
        if values is not None:
            shown = ", ".join(v[:40] for v in values[:3])
            parts.append(f"{word} {shown}" + (f" and {len(values) - 3:,} more" if len(values) > 3 else ""))
    if scope.start is not None:
        parts.append(f"from {scope.start:%Y-%m-%d %H:%M}")
    if scope.end is not None:
        parts.append(f"before {scope.end:%Y-%m-%d %H:%M}")
    return ", ".join(parts) or "everything in the source"


def inserted(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> int:
    """Insert one row; its id."""
    key = connection.execute(sa.insert(table), values).inserted_primary_key
    assert key is not None
    return int(key[0])


def text(value: str) -> str:
    """Any string as a database takes it: lone surrogates as ``?``, no NUL."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "�")
