"""What the store knows, as frames: at any sync number, or now."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import polars as pl
import sqlalchemy as sa

from calibrate_plugin.connector import Scope
from calibrate_plugin.model import ASIDE, ITEMS, LABELS, RETIRED, UTC
from calibrate_plugin.store.digests import keys
from calibrate_plugin.store.schema import (
    aside,
    contexts,
    item_facts,
    labels,
    names,
    places,
    publications,
    reasons,
    retirements,
)

FETCH = 20_000  # rows that a cursor hands over at once: as Python objects they are 20 times the size of a frame's
RANGE = 100_000  # label ids read by one statement: PostgreSQL's client keeps a whole result in memory
LIST = 5_000  # values in one IN list: SQLite takes 32,766, PostgreSQL 65,535

#: What ``as_of`` gives: the columns of LABELS after the store's own id of the row (the same id is the same row, unchanged)
#: and the source that said it.
HISTORY: dict[str, Any] = {"label": pl.Int64, "source": pl.String, **LABELS}

CONTEXT: dict[str, Any] = {
    "source": pl.String,
    **{
        c: LABELS[c] for c in ("field", "state", "retired", "rater", "kind", "version", "job", "run", "sample", "order")
    },
    "blind": pl.Int64,
}
PLACE: dict[str, Any] = {c: LABELS[c] for c in ("item", "task", "link")}
ROW: dict[str, Any] = {
    "id": pl.Int64,
    "context": pl.Int64,
    "place": pl.Int64,
    "record": pl.String,
    "seq": pl.Int64,
    "value": pl.String,
    "at": pl.Int64,
    "placed": pl.Int64,
    "confidence": pl.Float64,
    "execution": pl.String,
    "seconds": pl.Float64,
}

T = TypeVar("T")


def latest(connection: sa.Connection) -> int:
    """The newest sync number; 0 before anything was published."""
    return connection.execute(sa.select(sa.func.max(publications.c.number))).scalar() or 0


def last_label(connection: sa.Connection, number: int) -> int:
    query = (
        sa.select(publications.c.last_label)
        .where(publications.c.number <= number)
        .order_by(publications.c.number.desc())
        .limit(1)
    )
    return connection.execute(query).scalar() or 0


def pieces(values: Sequence[T], size: int = LIST) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def tuples(connection: sa.Connection, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
    """The rows of a query as the driver gives them."""
    cursor: Any = connection.execute(query).cursor
    with _collector_paused():
        return cast(list[tuple[Any, ...]], cursor.fetchall())


def fetch(connection: sa.Connection, query: sa.Select[Any], schema: Mapping[str, Any]) -> pl.DataFrame:
    """The rows of ``query`` in the columns of ``schema``, straight from the driver's cursor: no object per row survives."""
    cursor: Any = connection.execute(query).cursor
    parts = [pl.DataFrame(schema=dict(schema))]
    with _collector_paused():
        while rows := cursor.fetchmany(FETCH):
            columns = zip(*rows, strict=True)
            parts.append(
                pl.DataFrame([pl.Series(n, v, dtype=d) for (n, d), v in zip(schema.items(), columns, strict=True)])
            )
    frame = pl.concat(parts)
    return frame if connection.dialect.name == "sqlite" else readable(frame)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Rows are tuples without cycles, yet looking for some among them takes as long as reading them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def storable(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts as PostgreSQL takes them: it knows no NUL, so NUL is written as SUB 0 and SUB as SUB s."""
    return _replaced(frame, "\x1a", "\x1as", "\x00", "\x1a0")


def readable(frame: pl.DataFrame) -> pl.DataFrame:
    return _replaced(frame, "\x1a0", "\x00", "\x1as", "\x1a")


def _replaced(frame: pl.DataFrame, *pairs: str) -> pl.DataFrame:
    texts = [c for c, dtype in frame.schema.items() if dtype == pl.String]
    if (
        not texts
        or not frame.select(
            pl.any_horizontal(
                pl.col(c).str.contains(wanted, literal=True).any(ignore_nulls=True)
                for c in texts
                for wanted in pairs[::2]
            )
        ).item()
    ):
        return frame
    first, then, second, last = pairs
    return frame.with_columns(
        pl.col(texts).str.replace_all(first, then, literal=True).str.replace_all(second, last, literal=True)
    )


def as_of(
    connection: sa.Connection,
    number: int,
    *,
    sources: Sequence[str] | None = None,
    fields: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    with_reasons: bool = True,
) -> pl.DataFrame:
    """The labels at a sync number (HISTORY): see ``Store.as_of``."""
    replaced = sa.exists().where(
        retirements.c.label == labels.c.id, retirements.c.number <= number, retirements.c.cause.not_in(RETIRED)
    )
    tests = [labels.c.number <= number, sa.not_(replaced)]
    if sources is not None or fields is not None:
        tests.append(labels.c.context.in_(_contexts(connection, sources, fields=fields)))
    spans = None if sources is None or items is not None else _spans(connection, sources, number)
    if spans is not None:
        told = [pl.DataFrame(schema=ROW)], [pl.DataFrame(schema=HISTORY)]
        for some in pieces(spans, 100):
            inside = sa.or_(*(sa.and_(labels.c.id > a, labels.c.id <= b) for a, b in some))
            for whole, part in zip(told, _rows(connection, [*tests, inside], with_reasons=with_reasons), strict=True):
                whole.append(part)
        rows, found = map(pl.concat, told)
    else:
        until = last_label(connection, number)
        rows, found = _rows(connection, tests, items=items, with_reasons=with_reasons, until=until)
    if rows.is_empty():
        return found
    query = sa.select(retirements.c.label, retirements.c.cause).where(
        retirements.c.number <= number, retirements.c.cause.in_(RETIRED)
    )
    if items is not None or spans is not None:
        gone = _listed(
            connection, query, retirements.c.label, rows["id"].to_list(), {"label": pl.Int64, "cause": pl.String}
        )
    else:
        gone = fetch(connection, query, {"label": pl.Int64, "cause": pl.String})
    if gone.is_empty():
        return found
    # the source's own word goes first: what it said of a failed run stays true when the run expires later
    return (
        found.join(gone.unique("label"), on="label", how="left", maintain_order="left")
        .with_columns(retired=pl.coalesce("retired", "cause"))
        .drop("cause")
    )


def _spans(connection: sa.Connection, sources: Sequence[str], number: int) -> list[tuple[int, int]] | None:
    """Where the labels of some sources lie, as ranges of ids (the first one excluded, the last included): each publication is
    of one source and comes after the one before. None where that is much of the table."""
    t, earlier = publications, publications.alias()
    before = (
        sa.select(earlier.c.last_label)
        .where(earlier.c.number < t.c.number)
        .order_by(earlier.c.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = (
        sa.select(sa.func.coalesce(before, 0), t.c.last_label)
        .where(t.c.number <= number, t.c.source.in_(stored(connection, sources)))
        .order_by(t.c.number)
    )
    found = [(a, b) for a, b in tuples(connection, query) if b > a]
    return found if 4 * sum(b - a for a, b in found) < last_label(connection, number) else None


def known(connection: sa.Connection, source: str, scope: Scope) -> pl.DataFrame:
    """The live labels of a source in a scope (columns of LABELS), with the times that the source itself says."""
    parts = [_rows(connection, tests, said=True)[1] for tests in live(connection, source, scope)]
    return pl.concat([pl.DataFrame(schema=HISTORY), *parts]).select(list(LABELS))


def live_labels(connection: sa.Connection, source: str, scope: Scope) -> Iterator[tuple[int, bytes]]:
    """The id and identity of every live label of a source in a scope."""
    for tests in live(connection, source, scope):
        cursor: Any = connection.execute(sa.select(labels.c.id, labels.c.identity).where(*tests)).cursor
        while rows := cursor.fetchmany(FETCH):
            yield from rows


def count_live(connection: sa.Connection, source: str, scope: Scope) -> int:
    """How many labels of a source are live in a scope."""
    queries = (
        sa.select(sa.func.count()).select_from(labels).where(*tests) for tests in live(connection, source, scope)
    )
    return sum(connection.execute(query).scalar_one() for query in queries)


def live(connection: sa.Connection, source: str, scope: Scope) -> Iterator[list[sa.ColumnElement[bool]]]:
    """The conditions of the live labels of a source in a scope, in pieces that lie side by side."""
    number = latest(connection)
    tests = [
        labels.c.number <= number,
        sa.not_(sa.exists().where(retirements.c.label == labels.c.id, retirements.c.number <= number)),
        labels.c.context.in_(_contexts(connection, [source], jobs=scope.jobs, fields=scope.fields)),
    ]
    if scope.start is not None:
        tests.append(labels.c.placed >= microseconds(scope.start))
    if scope.end is not None:
        tests.append(labels.c.placed < microseconds(scope.end))
    if scope.tasks is None:
        yield tests
        return
    for some in pieces(stored(connection, scope.tasks)):
        yield [*tests, labels.c.place.in_(sa.select(places.c.id).where(places.c.task.in_(some)))]


def by_id(connection: sa.Connection, ids: Sequence[int]) -> pl.DataFrame:
    """Single labels (HISTORY), by the store's own ids."""
    parts = [_rows(connection, [labels.c.id.in_(some)])[1] for some in pieces(ids)]
    return pl.concat([pl.DataFrame(schema=HISTORY), *parts])


def item_facts_as_of(connection: sa.Connection, number: int, items: Sequence[str] | None = None) -> pl.DataFrame:
    """The facts about items at a sync number: ``source`` and the columns of ITEMS."""
    shape = {"id": pl.Int64, "source": pl.String, **ITEMS}
    query = sa.select(*(item_facts.c[c] for c in shape)).where(item_facts.c.number <= number)
    if items is None:
        frame = fetch(connection, query, shape)
    else:
        wanted = stored(connection, items)
        frame = _listed(connection, query, item_facts.c.key, item_keys(wanted), shape)
        frame = frame.filter(pl.col("item").is_in(list(items)))  # another item may have the same key
    newest = frame.sort("id").unique(["source", "item", "fact"], keep="last")
    return newest.drop("id").sort("source", "item", "fact")


def recent_facts(connection: sa.Connection, source: str, fact: str, number: int, most: int) -> list[str]:
    """The values of a fact in its last ``most`` rows up to a sync number, whichever items they are of; the newest first."""
    t = item_facts
    query = (
        sa.select(t.c.value)
        .where(t.c.number <= number, t.c.source == source, t.c.fact == fact, t.c.value.is_not(None))
        .order_by(t.c.id.desc())
        .limit(most)
    )
    return list(dict.fromkeys(fetch(connection, query, {"value": pl.String})["value"]))


def new_facts(connection: sa.Connection, prefix: str, after: int) -> pl.DataFrame:
    """Which values facts whose names begin with ``prefix`` got after a sync number, whichever items they are of: source,
    fact, value."""
    t = item_facts
    columns = {"source": pl.String, "fact": pl.String, "value": pl.String}
    query = (
        sa.select(*(t.c[c] for c in columns))
        .where(t.c.number > after, t.c.fact.startswith(prefix, autoescape=True), t.c.value.is_not(None))
        .distinct()
    )
    return fetch(connection, query, columns).sort("source", "fact", "value")


def names_as_of(connection: sa.Connection, number: int) -> dict[str, dict[str, str]]:
    """How people were called at a sync number: per source, rater id to name."""
    query = (
        sa.select(names.c.source, names.c.rater, names.c.name).where(names.c.number <= number).order_by(names.c.number)
    )
    frame = fetch(connection, query, {"source": pl.String, "rater": pl.String, "name": pl.String})
    found: dict[str, dict[str, str]] = {}
    for source, rater, name in frame.iter_rows():
        found.setdefault(source, {})[rater] = name
    return found


def aside_as_of(connection: sa.Connection, number: int) -> pl.DataFrame:
    """What could not be read as a label at a sync number: ``source`` and the columns of ASIDE."""
    query = (
        sa.select(aside.c.source, *(aside.c[c] for c in ASIDE))
        .where(aside.c.number <= number, sa.or_(aside.c.gone.is_(None), aside.c.gone > number))
        .order_by(aside.c.id)
    )
    return fetch(connection, query, {"source": pl.String, **ASIDE})


def changed_items(connection: sa.Connection, after: int, until: int) -> list[str]:
    """The items of which anything differs between two sync numbers."""
    new = sa.select(labels.c.place).where(
        labels.c.id > last_label(connection, after), labels.c.id <= last_label(connection, until)
    )
    ended = (
        sa.select(labels.c.place)
        .join(retirements, retirements.c.label == labels.c.id)
        .where(retirements.c.number > after, retirements.c.number <= until)
    )
    of_labels = sa.select(places.c.item).where(places.c.id.in_(new.union(ended)), places.c.item.is_not(None))
    of_facts = sa.select(item_facts.c.item).where(item_facts.c.number > after, item_facts.c.number <= until)
    found = [fetch(connection, query.distinct(), {"item": pl.String}) for query in (of_labels, of_facts)]
    return pl.concat(found)["item"].unique().sort().to_list()


def itemless_changed(connection: sa.Connection, after: int, until: int) -> bool:
    """Whether a label without an item was added, changed or retired between two sync numbers."""
    new = sa.select(labels.c.place).where(
        labels.c.id > last_label(connection, after), labels.c.id <= last_label(connection, until)
    )
    ended = (
        sa.select(labels.c.place)
        .join(retirements, retirements.c.label == labels.c.id)
        .where(retirements.c.number > after, retirements.c.number <= until)
    )
    query = sa.select(places.c.id).where(places.c.id.in_(new.union(ended)), places.c.item.is_(None)).limit(1)
    return connection.execute(query).first() is not None


def stored(connection: sa.Connection, texts: Iterable[str]) -> list[str]:
    """Texts as they lie in the tables, to look them up."""
    listed = sorted(set(texts))
    return listed if connection.dialect.name == "sqlite" else storable(pl.DataFrame({"t": listed}))["t"].to_list()


def item_keys(items: Sequence[str]) -> list[int]:
    """The keys of items, as they are stored, in places and item_facts."""
    frame = pl.DataFrame({"item": items}, schema={"item": pl.String})
    return [key for key, _ in keys(frame, ("item",))]


def microseconds(time: Any) -> int:
    return int(pl.Series([time], dtype=UTC).cast(pl.Int64).item())


def _contexts(
    connection: sa.Connection,
    sources: Sequence[str] | None,
    *,
    jobs: Sequence[str] | None = None,
    fields: Sequence[str] | None = None,
) -> sa.Select[Any]:
    query = sa.select(contexts.c.id)
    for column, wanted in ((contexts.c.source, sources), (contexts.c.job, jobs), (contexts.c.field, fields)):
        if wanted is not None:
            query = query.where(column.in_(stored(connection, wanted)))
    return query


def _rows(
    connection: sa.Connection,
    tests: Sequence[sa.ColumnElement[bool]],
    *,
    items: Sequence[str] | None = None,
    with_reasons: bool = True,
    until: int | None = None,
    said: bool = False,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The labels for which ``tests`` hold: the bare rows, and the same with everything joined (HISTORY). ``said``: the
    time is the source's own, also where an edit was seen that it gives no time for.

    ``until``: the highest id there can be; then the table is read from one end to the other, else through its indexes.
    """
    at = sa.func.coalesce(labels.c.said_at, labels.c.at).label("at")
    query = sa.select(*(at if said and c == "at" else labels.c[c] for c in ROW)).where(*tests)
    if items is not None:
        wanted = stored(connection, items)
        shape = {"id": pl.Int64, "item": pl.String}
        query_places = sa.select(places.c.id, places.c.item)
        found = _listed(connection, query_places, places.c.key, item_keys(wanted), shape)
        ids = found.filter(pl.col("item").is_in(list(items)))["id"].to_list()  # another item may have the same key
        rows = _listed(connection, query, labels.c.place, ids, ROW)
    elif until is not None:
        ranges = range(0, until, RANGE)
        rows = pl.concat(
            [pl.DataFrame(schema=ROW)]
            + [fetch(connection, query.where(labels.c.id > a, labels.c.id <= a + RANGE), ROW) for a in ranges]
        )
    else:
        rows = fetch(connection, query, ROW)
    rows = rows.sort("id")
    whole = items is None and until is not None
    context = _dictionary(connection, contexts, {"id": pl.Int64, **CONTEXT}, None if whole else rows["context"])
    place = _dictionary(connection, places, {"id": pl.Int64, **PLACE}, None if whole else rows["place"])
    found = rows.join(context, left_on="context", right_on="id", how="left", maintain_order="left").join(
        place, left_on="place", right_on="id", how="left", maintain_order="left"
    )
    if with_reasons:
        query = sa.select(reasons.c.label, reasons.c.text)
        texts = {"id": pl.Int64, "reason": pl.String}
        if whole:
            ranges = range(0, until or 0, RANGE)
            parts = [
                fetch(connection, query.where(reasons.c.label > a, reasons.c.label <= a + RANGE), texts) for a in ranges
            ]
            reason = pl.concat([pl.DataFrame(schema=texts), *parts])
        else:
            reason = _listed(connection, query, reasons.c.label, rows["id"].to_list(), texts)
        found = found.join(reason, on="id", how="left", maintain_order="left")
    else:
        found = found.with_columns(reason=pl.lit(None, dtype=pl.String))
    return rows, found.rename({"id": "label"}).select(
        pl.col(name).cast(dtype) if name in ("at", "placed", "blind") else pl.col(name)
        for name, dtype in HISTORY.items()
    )


def _dictionary(
    connection: sa.Connection, table: sa.Table, shape: Mapping[str, Any], ids: pl.Series | None
) -> pl.DataFrame:
    query = sa.select(*(table.c[c] for c in shape))
    if ids is None:
        return fetch(connection, query, shape)
    return _listed(connection, query, table.c.id, ids.unique().to_list(), shape)


def _listed(
    connection: sa.Connection,
    query: sa.Select[Any],
    column: sa.Column[Any],
    values: Sequence[Any],
    shape: Mapping[str, Any],
) -> pl.DataFrame:
    parts = [fetch(connection, query.where(column.in_(some)), shape) for some in pieces(values)]
    return pl.concat([pl.DataFrame(schema=dict(shape)), *parts])
