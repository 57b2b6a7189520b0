"""People: named tokens, log-in codes, sessions; digests of their secrets only.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "people_tokens",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("made_at", sa.String(length=32), nullable=False),
        sa.Column("ends_at", sa.String(length=32), nullable=True),
        sa.Column("used_at", sa.String(length=32), nullable=True),
        sa.Column("revoked_at", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("digest", name="uq_people_tokens_digest"),
    )
    op.create_table(
        "login_codes",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("ends_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "people_sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("origin", sa.String(length=32), nullable=False),
        sa.Column("made_at", sa.String(length=32), nullable=False),
        sa.Column("seen_at", sa.String(length=32), nullable=False),
        sa.Column("ends_at", sa.String(length=32), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )


def downgrade() -> None:
    """Undo: nobody is logged in any more, and named tokens are gone."""
    for table in ("people_sessions", "login_codes", "people_tokens"):
        op.drop_table(table)
