"""Runs that are to stop, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("stop_text", sa.Text()))


def downgrade() -> None:
    """Undo."""
    op.drop_column("runs", "stop_text")
