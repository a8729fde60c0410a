"""The tables of a store.

Every fact carries the ``number`` of the publication that brings it. A number above the last row of ``publications`` is
not published yet, so nobody sees it: publishing any number of rows is inserting one row. Times are microseconds since
1970 in UTC.
"""

from __future__ import annotations

import sqlalchemy as sa

#: The newest migration; a store that says anything else is migrated or refused.
HEAD = "0004"
VERSION_TABLE = "calibrate_version"

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

metadata = sa.MetaData()

#: What a source left behind: where a later pull goes on from, and whose labels it gave.
sources = sa.Table(
    "sources",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("identity", sa.Text),
    sa.Column("cursor", sa.Text),
    sa.Column("live", sa.BigInteger, nullable=False),  # its labels that are not retired
)

#: One row is one pull of one source. ``outcome``: running, ok, held, failed.
syncs = sa.Table(
    "syncs",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),  # full, incremental, focused
    sa.Column("cursor", sa.Text),  # where it went on from
    sa.Column("identity", sa.Text),
    sa.Column("server", sa.Text),  # the platform's version
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("finished", sa.BigInteger),
    sa.Column("seen", sa.BigInteger, nullable=False, default=0),
    sa.Column("added", sa.BigInteger, nullable=False, default=0),
    sa.Column("changed", sa.BigInteger, nullable=False, default=0),
    sa.Column("retired", sa.BigInteger, nullable=False, default=0),
    sa.Column("duplicates", sa.BigInteger, nullable=False, default=0),
    sa.Column("quarantined", sa.BigInteger, nullable=False, default=0),
    sa.Column("requests", sa.BigInteger),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False, default=""),
)

#: The states of the facts. ``number`` is what the rest of the package calls the sync number.
publications = sa.Table(
    "publications",
    metadata,
    sa.Column("number", Id, primary_key=True, autoincrement=False),
    sa.Column("sync", Id, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("last_label", Id, nullable=False),  # the highest label id then: what is above it came later
    sa.Column("added", sa.BigInteger, nullable=False),
    sa.Column("changed", sa.BigInteger, nullable=False),
    sa.Column("retired", sa.BigInteger, nullable=False),
)

#: What many labels share: a small dictionary. ``key`` and ``rest`` are the two halves of an entry's digest.
contexts = sa.Table(
    "contexts",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("key", sa.BigInteger, nullable=False),
    sa.Column("rest", sa.BigInteger, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("field", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("retired", sa.Text),
    sa.Column("rater", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("version", sa.Text),
    sa.Column("job", sa.Text),
    sa.Column("run", sa.Text),
    sa.Column("sample", sa.Text),
    sa.Column("order", sa.Text),
    sa.Column("blind", sa.SmallInteger),
    sa.Index("ix_contexts_key", "key", "rest", unique=True),
)

#: Where the labels of one item lie: shared by its raters and fields. ``key`` is the digest of the item alone, so that one
#: index finds an entry and the entries of an item.
places = sa.Table(
    "places",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("key", sa.BigInteger, nullable=False),
    sa.Column("rest", sa.BigInteger, nullable=False),
    sa.Column("item", sa.Text),
    sa.Column("task", sa.Text),
    sa.Column("link", sa.Text),
    sa.Index("ix_places_key", "key", "rest", unique=True),
    # a hash index takes a text of any length
    sa.Index(
        "ix_places_task",
        "task",
        sqlite_where=sa.text("task IS NOT NULL"),
        postgresql_where=sa.text("task IS NOT NULL"),
        postgresql_using="hash",
    ),
)

labels = sa.Table(
    "labels",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("number", Id, nullable=False),
    sa.Column("identity", sa.LargeBinary, nullable=False),  # digest of source, record and field
    sa.Column("context", Id, nullable=False),
    sa.Column("place", Id, nullable=False, index=True),
    sa.Column("record", sa.Text),
    sa.Column("seq", sa.BigInteger),
    sa.Column("value", sa.Text),
    sa.Column("at", sa.BigInteger),
    sa.Column("said_at", sa.BigInteger),  # the source's own time, where it is not `at`
    sa.Column("placed", sa.BigInteger),
    sa.Column("confidence", sa.Double),
    sa.Column("execution", sa.Text),
    sa.Column("seconds", sa.Double),
    sa.Index(
        "ix_labels_placed",
        "placed",
        sqlite_where=sa.text("placed IS NOT NULL"),
        postgresql_where=sa.text("placed IS NOT NULL"),
    ),
)

#: Where a record's labels are, and the digest of all that each says but its time. It is filled in the order of ``identity``,
#: a hundred thousand at a time: one by one each would touch a page of its own.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("identity", sa.LargeBinary, primary_key=True),
    sa.Column("label", Id, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

#: A label's end. ``cause``: one of model.RETIRED, or ``changed`` or ``returned``: a newer row of the same record follows.
retirements = sa.Table(
    "retirements",
    metadata,
    sa.Column("label", Id, primary_key=True, autoincrement=False),
    sa.Column("number", Id, primary_key=True, autoincrement=False, index=True),
    sa.Column("cause", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

#: Written reasons, apart from the facts, so that a person can be forgotten.
reasons = sa.Table(
    "reasons",
    metadata,
    sa.Column("label", Id, primary_key=True, autoincrement=False),
    sa.Column("text", sa.Text, nullable=False),
)

#: How people are called; the same reason.
names = sa.Table(
    "names",
    metadata,
    sa.Column("identity", sa.LargeBinary, primary_key=True),  # digest of source and rater
    sa.Column("number", Id, primary_key=True, autoincrement=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
)

#: Whose names and reasons are not to be kept again.
forgotten = sa.Table(
    "forgotten",
    metadata,
    sa.Column("identity", sa.LargeBinary, primary_key=True),  # digest of source and rater
    sa.Column("at", sa.BigInteger, nullable=False),
)

#: What sources say of items; the newest row of a source, item and fact holds. ``key``: as in places.
item_facts = sa.Table(
    "item_facts",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("number", Id, nullable=False, index=True),
    sa.Column("key", sa.BigInteger, nullable=False, index=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("fact", sa.Text, nullable=False),
    sa.Column("value", sa.Text),
)

#: What could not be read as a label, from ``number`` on and up to ``gone``.
aside = sa.Table(
    "aside",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("number", Id, nullable=False),
    sa.Column("gone", Id),
    sa.Column("sync", Id, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("record", sa.Text),
    sa.Column("item", sa.Text),
    sa.Column("field", sa.Text),
    sa.Column("rater", sa.Text),
    sa.Column("value", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("message", sa.Text),
)

#: Every state of the study's settings and the number from which it held.
settings = sa.Table(
    "settings",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("number", Id, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # canonical JSON
)

#: What was written to a platform. ``outcome``: written, pending, refused, removed.
pushes = sa.Table(
    "pushes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("verified", sa.BigInteger),  # when it was read back
    sa.Index("ix_pushes_target", "source", "target"),
)

reports = sa.Table(
    "reports",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("number", Id, nullable=False),
    sa.Column("settings", Id, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # JSON, compressed
)

#: Where to look again, as webhooks say.
hints = sa.Table(
    "hints",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("job", sa.Text),
    sa.Column("received", sa.BigInteger, nullable=False),
    sa.Column("done", sa.BigInteger),
    sa.Index("ix_hints_open", "id", sqlite_where=sa.text("done IS NULL"), postgresql_where=sa.text("done IS NULL")),
)

#: Who may write facts: one row. A writer whose token is no longer here has been replaced.
worker = sa.Table(
    "worker",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("since", sa.BigInteger, nullable=False),
)

#: What stands or not, so that an alert is told once: ``raised`` is when it began to stand, ``clear`` how often in a row it was
#: found well since, ``told`` when it was last told.
alert_states = sa.Table(
    "alert_states",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("raised", sa.BigInteger),
    sa.Column("clear", sa.BigInteger, nullable=False),
    sa.Column("told", sa.BigInteger),
    sa.Column("told_raised", sa.SmallInteger, nullable=False),
)

#: Messages on their way out. ``due``: when to try next; null once it was delivered.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("message", sa.Text, nullable=False),  # the same for every channel and every try
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),  # JSON
    sa.Column("due", sa.BigInteger),
    sa.Column("tries", sa.BigInteger, nullable=False),
    sa.Column("delivered", sa.BigInteger),
    sa.Column("error", sa.Text, nullable=False),
)

#: What makes this store's pseudonyms its own: one row.
pseudonym_key = sa.Table(
    "pseudonym_key",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
)

#: Every text of the guideline that was seen: people's labels say under which version they were given.
guidelines = sa.Table(
    "guidelines",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("number", Id, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

#: Every look at numbers of the test split. ``digest`` names the numbers: the same ones seen again are no further use.
test_uses = sa.Table(
    "test_uses",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("number", Id, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("dimension", sa.Text, nullable=False),
    sa.Column("evaluator", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),  # report, threshold, gate
    sa.Column("digest", sa.Text, nullable=False),
)
