"""Alerts on their way out, and the key of pseudonyms."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "alert_states",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("raised", sa.BigInteger()),
        sa.Column("clear", sa.BigInteger(), nullable=False),
        sa.Column("told", sa.BigInteger()),
        sa.Column("told_raised", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", Id, nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("due", sa.BigInteger()),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "pseudonym_key",
        sa.Column("id", Id, autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
