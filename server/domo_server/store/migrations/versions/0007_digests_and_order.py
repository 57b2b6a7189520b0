"""Numbers know their model, silos are ordered byte by byte, events are found by silo and kind.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ORDERED = (
    ("enrolments", "silo_id"),
    ("updates", "silo_id"),
    ("evaluations", "silo_id"),
    ("evaluations", "metric"),
    ("silos", "silo_id"),
)


def upgrade() -> None:
    """Apply."""
    op.add_column("evaluations", sa.Column("model_digest", sa.String(32)))
    op.add_column("rounds", sa.Column("model_digest", sa.String(32)))
    op.create_index("ix_events_silo_id", "events", ["silo_id", "event_id"])
    op.create_index("ix_events_kind", "events", ["kind", "event_id"])
    _order(sa.String(64, collation="C"))


def downgrade() -> None:
    """Undo."""
    _order(sa.String(64, collation="default"))
    op.drop_index("ix_events_kind", "events")
    op.drop_index("ix_events_silo_id", "events")
    op.drop_column("rounds", "model_digest")
    op.drop_column("evaluations", "model_digest")


def _order(kind: sa.String) -> None:
    """SQLite goes by bytes anyway."""
    if op.get_bind().dialect.name == "postgresql":
        for table, column in ORDERED:
            op.alter_column(table, column, type_=kind, existing_nullable=False)
