"""How far the updates of a round lie apart."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Apply."""
    op.add_column("rounds", sa.Column("drift", sa.Float()))


def downgrade() -> None:
    """Undo."""
    op.drop_column("rounds", "drift")
