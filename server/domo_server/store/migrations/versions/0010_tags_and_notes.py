"""What people say of a run: tags and notes, and whether it is archived.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("tags", sa.JSON()))
    op.add_column("runs", sa.Column("notes", sa.Text()))
    op.add_column(
        "runs", sa.Column("archived", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("runs") as batch_op:
        for column in ("archived", "notes", "tags"):
            batch_op.drop_column(column)
