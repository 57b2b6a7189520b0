"""How far each webhook has come in the log of events."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "webhooks",
        sa.Column("hook", sa.String(64), primary_key=True),
        sa.Column("event_id", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("webhooks")
