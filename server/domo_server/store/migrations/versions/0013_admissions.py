"""Who is let in, and the codes that let in; silos that have joined before are.

Revision ID: 0013
Revises: 0012
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def _silo_id() -> sa.Column[str]:
    kind = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
    return sa.Column("silo_id", kind, nullable=False)


def upgrade() -> None:
    """Apply."""
    admissions = op.create_table(
        "admissions",
        _silo_id(),
        sa.Column("key", sa.String(length=64), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("days", sa.Float(), nullable=True),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("by_whom", sa.String(length=128), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("silo_id"),
    )
    op.create_table(
        "codes",
        sa.Column("nonce", sa.String(length=64), nullable=False),
        _silo_id(),
        sa.Column("until", sa.Float(), nullable=False),
        sa.Column("days", sa.Float(), nullable=False),
        sa.Column("made_at", sa.String(length=32), nullable=False),
        sa.Column("by_whom", sa.String(length=128), nullable=False),
        sa.Column("used_at", sa.String(length=32), nullable=True),
        sa.Column("key", sa.String(length=64), nullable=True),
        sa.Column("certificate", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("nonce"),
    )
    known = op.get_bind().execute(sa.text("SELECT silo_id FROM silos")).scalars().all()
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    rows = [
        {
            "silo_id": silo_id,
            "state": "active",
            "at": now,
            "by_whom": "an older domo, which has no list of silos",
            "version": 1,
        }
        for silo_id in known
    ]
    if rows:
        op.bulk_insert(admissions, rows)


def downgrade() -> None:
    """Undo; an older version lets in whoever has a certificate of the CA."""
    op.drop_table("codes")
    op.drop_table("admissions")
