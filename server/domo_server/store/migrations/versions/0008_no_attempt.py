"""A round has no attempts any more; the column was always 0.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. SQLite before 3.35 (RHEL 9) drops no column: there the table is made anew."""
    with op.batch_alter_table("runs") as batch_op:
        batch_op.drop_column("attempt")


def downgrade() -> None:
    """Undo."""
    op.add_column("runs", sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"))
