"""initial tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "enrolments",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("silo_id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("num_samples", sa.Integer(), nullable=False),
        sa.Column("num_eval_samples", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "silo_id"),
    )
    op.create_table(
        "evaluations",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("model_index", sa.Integer(), nullable=False),
        sa.Column("silo_id", sa.String(length=64), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("total", sa.Float(), nullable=False),
        sa.Column("num", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "model_index", "silo_id", "metric"),
    )
    op.create_table(
        "events",
        sa.Column("event_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(length=128), nullable=True),
        sa.Column("silo_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("event_id"),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_run_id", ["run_id"], unique=False)

    op.create_table(
        "rounds",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("round_index", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("opened_at", sa.String(length=32), nullable=True),
        sa.Column("closed_at", sa.String(length=32), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("local_lr", sa.Float(), nullable=False),
        sa.Column("reference_steps", sa.Float(), nullable=False),
        sa.Column("participants", sa.JSON(), nullable=False),
        sa.Column("left_out", sa.JSON(), nullable=False),
        sa.Column("train_loss", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "round_index"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_digest", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("started_at", sa.String(length=32), nullable=True),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.Column("roster", sa.JSON(), nullable=True),
        sa.Column("rounds_done", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("checkpoint", sa.String(length=256), nullable=True),
        sa.Column("checkpoint_digest", sa.String(length=32), nullable=True),
        sa.Column("inference_scale", sa.Float(), nullable=True),
        sa.Column("num_params", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("number"),
    )
    op.create_table(
        "silos",
        sa.Column("silo_id", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("software_version", sa.String(length=64), nullable=False),
        sa.Column("first_seen", sa.String(length=32), nullable=False),
        sa.Column("last_seen", sa.String(length=32), nullable=False),
        sa.Column("readmitted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("silo_id"),
    )
    op.create_table(
        "updates",
        sa.Column("run_id", sa.String(length=128), nullable=False),
        sa.Column("round_index", sa.Integer(), nullable=False),
        sa.Column("silo_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("vectors", sa.JSON(), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("update_norm", sa.Float(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("accepted_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "round_index", "silo_id"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("updates")
    op.drop_table("silos")
    op.drop_table("runs")
    op.drop_table("rounds")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("ix_events_run_id")

    op.drop_table("events")
    op.drop_table("evaluations")
    op.drop_table("enrolments")
