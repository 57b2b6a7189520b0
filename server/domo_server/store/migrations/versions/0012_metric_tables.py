"""Tables of metrics, what each model was judged by, and the best of a run.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def _silo_id() -> sa.Column[str]:
    kind = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
    return sa.Column("silo_id", kind, nullable=False)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "evaluation_tables",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("model_index", sa.Integer(), nullable=False),
        _silo_id(),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("shape", sa.JSON(), nullable=False),
        sa.Column("num", sa.Float(), nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("cells", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "model_index", "silo_id", "metric"),
    )
    op.create_table(
        "judgements",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("model_index", sa.Integer(), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("num_silos", sa.Integer(), nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "model_index"),
    )
    op.add_column("runs", sa.Column("best_index", sa.Integer(), nullable=True))
    op.add_column("runs", sa.Column("best_metric", sa.String(64), nullable=True))
    op.add_column("runs", sa.Column("best_value", sa.Float(), nullable=True))
    op.add_column("runs", sa.Column("best_checkpoint", sa.String(256), nullable=True))
    op.add_column("runs", sa.Column("best_digest", sa.String(32), nullable=True))


def downgrade() -> None:
    """Undo; models that were kept stay on disk."""
    with op.batch_alter_table("runs") as batch_op:
        for name in ("index", "metric", "value", "checkpoint", "digest"):
            batch_op.drop_column(f"best_{name}")
    op.drop_table("judgements")
    op.drop_table("evaluation_tables")
