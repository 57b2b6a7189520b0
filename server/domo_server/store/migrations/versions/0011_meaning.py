"""What the data of a silo mean, as it has said at its enrolment.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("enrolments", sa.Column("meaning", sa.Text()))


def downgrade() -> None:
    """Undo. SQLite before 3.35 (RHEL 9) drops no column: there the table is made anew."""
    with op.batch_alter_table("enrolments") as batch_op:
        batch_op.drop_column("meaning")
