"""How long an answer took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("labels", sa.Column("seconds", sa.Double(), nullable=True))
