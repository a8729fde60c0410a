"""Pull every source into the store.

``sync`` is the first step of a run; the report is then made from ``store.as_of()`` and pushed by whoever calls this,
inside the same ``store.work()``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl
import sqlalchemy as sa

from calibrate_plugin.connector import (
    BLIND_KEY,
    STANDS_FOR,
    ConnectorError,
    Covered,
    Held,
    Identified,
    Metered,
    Page,
    Since,
    Source,
    Unavailable,
)
from calibrate_plugin.model import OWN
from calibrate_plugin.store import Busy, Recording, Store, StoreError, Tally, said

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """How the pull of one source ended.

    ``held``: going on could lose labels by accident. ``failed``: it stopped on the way; ``retry`` says that a later try may
    work by itself. In both cases ``message`` says what to do, and what was published before stays.
    ``number`` is the newest sync number that it gave, None where nothing was new.
    """

    source: str
    outcome: Literal["ok", "held", "failed"]
    message: str
    mode: Literal["full", "incremental", "focused"] | None
    number: int | None
    seen: int
    added: int
    changed: int
    retired: int
    duplicates: int
    quarantined: int
    requests: int | None
    seconds: float
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the pull of one source is."""

    source: str
    seen: int
    requests: int | None


def sync(
    store: Store,
    sources: Mapping[str, Source],
    full: bool = False,
    accept_deletions: bool = False,
    progress: Callable[[Progress], None] | None = None,
    *,
    jobs: tuple[str, ...] | None = None,
    gone: bool = False,
) -> list[SyncOutcome]:
    """Pull each source, one after the other, and publish what it covered.

    ``full`` asks for everything again; ``accept_deletions`` lets a scope lose more than a fifth of its labels. ``jobs`` and
    ``gone`` are for sources that are ``Focused``: see ``Since``.
    One source that fails stops none of the others. Raises Busy where another worker holds the study (wait for it with
    ``store.work(wait=...)`` around this).
    """
    with store.work():
        return [
            _pull(store, name, source, Since(full=full, jobs=jobs, gone=gone), accept_deletions, progress)
            for name, source in sources.items()
        ]


def _pull(
    store: Store,
    name: str,
    source: Source,
    asked: Since,
    accept_deletions: bool,
    progress: Callable[[Progress], None] | None,
) -> SyncOutcome:
    started = store.now()
    recording: Recording | None = None
    outcome: Literal["ok", "held", "failed"] = "ok"
    message = ""
    retry = False
    sent = source.requests if isinstance(source, Metered) else 0

    def requests() -> int | None:
        return source.requests - sent if isinstance(source, Metered) else None

    try:
        focused = asked.jobs is not None
        recording = store.record(name, identity=_identity(store, name, source), full=asked.full, focused=focused)
        since = replace(asked, cursor=recording.cursor, known=lambda scope: store.known(name, scope))
        with _closed(source.pull(since)) as pulled:
            for piece in pulled:
                if isinstance(piece, Page):
                    recording.add(named(store, piece))
                else:
                    recording.publish(piece, accept_deletions=accept_deletions)
                if progress is not None:
                    progress(Progress(name, recording.tally.seen, requests()))
        recording.publish(None)
    except Busy:
        raise
    except Held as error:
        outcome, message = "held", str(error)
    except ConnectorError as error:
        outcome, message, retry = "failed", str(error), isinstance(error, Unavailable)
    except StoreError as error:
        outcome, message, retry = "failed", str(error), True
    except sa.exc.DBAPIError as error:
        outcome, retry = "failed", True
        message = (
            f"{store.where} cannot be written: {said(error)}. What was published before stays; "
            "mend it (is the disk full?) and run again"
        )
    except Exception as error:
        # A connector's bug must not keep the other sources from being read. Its words may hold anything, so only the
        # log has them.
        log.exception("the pull of %s stopped unexpectedly", name)
        outcome, message = "failed", f"{name}: the connector stopped unexpectedly ({type(error).__name__}); see the log"
    finished = store.now()
    if recording is not None:
        try:
            recording.finish(
                outcome,
                message,
                at=finished,
                server=source.platform if isinstance(source, Metered) else None,
                requests=requests(),
            )
        except (StoreError, sa.exc.DBAPIError) as error:
            # the next worker removes what is staged, and writes it down
            log.warning("how the pull of %s ended could not be written down: %s", name, said(error))
    tally = recording.tally if recording else Tally()
    return SyncOutcome(
        source=name,
        outcome=outcome,
        message=message,
        mode=recording.mode if recording else None,
        number=recording.published if recording else None,
        seen=tally.seen,
        added=tally.added,
        changed=tally.changed,
        retired=tally.retired,
        duplicates=tally.duplicates,
        quarantined=tally.quarantined,
        requests=requests(),
        seconds=(finished - started).total_seconds(),
        retry=retry,
    )


def named(store: Store, page: Page) -> Page:
    """The page with its items' own names, where tasks were given keys that hide them."""
    told = [frame["item"] for frame in (page.labels, page.items, page.aside)]
    keys = {k for items in told for k in items.filter(items.str.starts_with(BLIND_KEY).fill_null(False)).to_list()}
    if not keys:
        return page
    facts = store.item_facts(items=sorted(keys)).filter((pl.col("source") == OWN) & (pl.col("fact") == STANDS_FOR))
    names = dict(facts.select("item", "value").iter_rows())
    given = pl.col("item").replace(names)
    return replace(
        page,
        labels=page.labels.with_columns(given),
        items=page.items.with_columns(given),
        aside=page.aside.with_columns(given),
    )


@contextmanager
def _closed(pulled: Iterator[Page | Covered]) -> Iterator[Iterator[Page | Covered]]:
    """A generator that is closed at once lets go of its connections."""
    try:
        yield pulled
    finally:
        if isinstance(pulled, Generator):
            pulled.close()


def _identity(store: Store, name: str, source: Source) -> str | None:
    if not isinstance(source, Identified):
        return None
    identity = source.identity()
    stored, _ = store.source(name)
    if stored is not None and stored != identity:
        raise Held(
            f"{name}: until now this source was {stored}, and now it is {identity}. Nothing was changed. "
            f"If that is a mistake, give back the url and key of {stored}; if it is another place, "
            "name it as a source of its own in calibrate.toml"
        )
    return identity
