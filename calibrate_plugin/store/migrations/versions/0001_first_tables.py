"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "aside",
        sa.Column("id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("gone", Id),
        sa.Column("sync", Id, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("record", sa.Text()),
        sa.Column("item", sa.Text()),
        sa.Column("field", sa.Text()),
        sa.Column("rater", sa.Text()),
        sa.Column("value", sa.Text()),
        sa.Column("cause", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "contexts",
        sa.Column("id", Id, autoincrement=False, nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("rest", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("retired", sa.Text()),
        sa.Column("rater", sa.Text()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.Text()),
        sa.Column("job", sa.Text()),
        sa.Column("run", sa.Text()),
        sa.Column("sample", sa.Text()),
        sa.Column("order", sa.Text()),
        sa.Column("blind", sa.SmallInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_contexts_key", "contexts", ["key", "rest"], unique=True)
    op.create_table(
        "forgotten",
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("identity"),
    )
    op.create_table(
        "hints",
        sa.Column("id", Id, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("job", sa.Text()),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_hints_open", "hints", ["id"], sqlite_where=sa.text("done IS NULL"), postgresql_where=sa.text("done IS NULL")
    )
    op.create_table(
        "identities",
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("label", Id, autoincrement=False, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("identity", "label"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "item_facts",
        sa.Column("id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("fact", sa.Text(), nullable=False),
        sa.Column("value", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_item_facts_key", "item_facts", ["key"])
    op.create_index("ix_item_facts_number", "item_facts", ["number"])
    op.create_table(
        "labels",
        sa.Column("id", Id, autoincrement=False, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("context", Id, nullable=False),
        sa.Column("place", Id, nullable=False),
        sa.Column("record", sa.Text()),
        sa.Column("seq", sa.BigInteger()),
        sa.Column("value", sa.Text()),
        sa.Column("at", sa.BigInteger()),
        sa.Column("said_at", sa.BigInteger()),
        sa.Column("placed", sa.BigInteger()),
        sa.Column("confidence", sa.Double()),
        sa.Column("execution", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_labels_place", "labels", ["place"])
    op.create_index(
        "ix_labels_placed",
        "labels",
        ["placed"],
        sqlite_where=sa.text("placed IS NOT NULL"),
        postgresql_where=sa.text("placed IS NOT NULL"),
    )
    op.create_table(
        "names",
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("number", Id, autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("identity", "number"),
    )
    op.create_table(
        "places",
        sa.Column("id", Id, autoincrement=False, nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("rest", sa.BigInteger(), nullable=False),
        sa.Column("item", sa.Text()),
        sa.Column("task", sa.Text()),
        sa.Column("link", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_places_key", "places", ["key", "rest"], unique=True)
    op.create_index(
        "ix_places_task",
        "places",
        ["task"],
        sqlite_where=sa.text("task IS NOT NULL"),
        postgresql_where=sa.text("task IS NOT NULL"),
        postgresql_using="hash",
    )
    op.create_table(
        "publications",
        sa.Column("number", Id, autoincrement=False, nullable=False),
        sa.Column("sync", Id, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("last_label", Id, nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("retired", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "pushes",
        sa.Column("id", Id, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_pushes_target", "pushes", ["source", "target"])
    op.create_table(
        "reasons",
        sa.Column("label", Id, autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("label"),
    )
    op.create_table(
        "reports",
        sa.Column("id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("settings", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "retirements",
        sa.Column("label", Id, autoincrement=False, nullable=False),
        sa.Column("number", Id, autoincrement=False, nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("label", "number"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_retirements_number", "retirements", ["number"])
    op.create_table(
        "settings",
        sa.Column("id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "sources",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text()),
        sa.Column("cursor", sa.Text()),
        sa.Column("live", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )
    op.create_table(
        "syncs",
        sa.Column("id", Id, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("cursor", sa.Text()),
        sa.Column("identity", sa.Text()),
        sa.Column("server", sa.Text()),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.BigInteger()),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("retired", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger()),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "worker",
        sa.Column("id", Id, autoincrement=False, nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
