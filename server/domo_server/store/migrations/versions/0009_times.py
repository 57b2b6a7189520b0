"""Where the time of a round went, what closed it, and when a run had its silos.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. The first round of a run was opened when it had its silos."""
    op.add_column("rounds", sa.Column("closed_by", sa.String(16)))
    op.add_column("rounds", sa.Column("closed_by_silo", sa.String(64)))
    op.add_column("rounds", sa.Column("times", sa.JSON()))
    op.add_column("runs", sa.Column("began_at", sa.String(32)))
    op.execute(
        "UPDATE runs SET began_at = (SELECT opened_at FROM rounds"
        " WHERE rounds.run_id = runs.run_id AND rounds.round_index = 0)"
    )


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("runs") as batch_op:
        batch_op.drop_column("began_at")
    with op.batch_alter_table("rounds") as batch_op:
        for column in ("times", "closed_by_silo", "closed_by"):
            batch_op.drop_column(column)
