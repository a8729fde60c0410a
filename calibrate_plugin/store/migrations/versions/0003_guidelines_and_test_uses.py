"""Guidelines that labels were given under, and each look at the test split."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "guidelines",
        sa.Column("id", Id, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "test_uses",
        sa.Column("id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
