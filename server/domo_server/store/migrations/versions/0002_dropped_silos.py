"""Silos that an admin leaves out."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Apply."""
    op.add_column("silos", sa.Column("dropped", sa.Text()))


def downgrade() -> None:
    """Undo."""
    op.drop_column("silos", "dropped")
