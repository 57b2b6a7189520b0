"""Numbers of parameters, samples and steps beyond 2**31; SQLite has room for them already."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

COLUMNS = (
    ("runs", "num_params"),
    ("enrolments", "num_samples"),
    ("enrolments", "num_eval_samples"),
    ("updates", "num_steps"),
)


def upgrade() -> None:
    """Apply."""
    _change(sa.Integer(), sa.BigInteger())


def downgrade() -> None:
    """Undo."""
    _change(sa.BigInteger(), sa.Integer())


def _change(old: sa.types.TypeEngine[int], new: sa.types.TypeEngine[int]) -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    for table, column in COLUMNS:
        nullable = column == "num_params"
        op.alter_column(table, column, existing_type=old, type_=new, existing_nullable=nullable)
