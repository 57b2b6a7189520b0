"""Alembic migrations of the coordinator's database."""
