"""Tables of the coordinator's metadata. Vectors are files; see `checkpoint` and `spool`.

A change here needs a migration in `migrations/versions`; a test compares the two.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData()

Count = BigInteger().with_variant(Integer, "sqlite")
"""Of parameters, samples and steps; SQLite's integers have 64 bits anyway."""


def _silo_id(**options: Any) -> Column[str]:
    """A silo's name, which is ordered byte by byte: PostgreSQL would go by its locale."""
    kind = String(64).with_variant(String(64, collation="C"), "postgresql")
    return Column("silo_id", kind, **options)


class Said(TypeDecorator[str]):
    """Text that peers or people give. PostgreSQL keeps no NUL, and nobody half a character."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """Leave NULs out on the way in; half a character, which no UTF-8 has, becomes `?`."""
        return None if value is None else value.replace("\0", "").encode(errors="replace").decode()


class SaidLong(Said):
    """The same, of any length."""

    impl = Text
    cache_ok = True


runs = Table(
    "runs",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("config", JSON, nullable=False),
    Column("config_digest", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("detail", SaidLong, nullable=False, default=""),
    Column("created_at", String(32), nullable=False),
    Column("started_at", String(32)),
    Column("finished_at", String(32)),
    Column("began_at", String(32)),
    Column("roster", JSON),
    Column("rounds_done", Integer, nullable=False, default=0),
    Column("checkpoint", String(256)),
    Column("checkpoint_digest", String(32)),
    Column("inference_scale", Float),
    Column("num_params", Count),
    Column("stop_text", Text),
    Column("tags", JSON),
    Column("notes", SaidLong),
    Column("archived", Boolean, nullable=False, default=False),
    Column("best_index", Integer),
    Column("best_metric", Said(64)),
    Column("best_value", Float),
    Column("best_checkpoint", String(256)),
    Column("best_digest", String(32)),
)

enrolments = Table(
    "enrolments",
    metadata,
    Column("run_id", String(128), primary_key=True),
    _silo_id(primary_key=True),
    Column("role", String(16), nullable=False),
    Column("num_samples", Count, nullable=False),
    Column("num_eval_samples", Count, nullable=False),
    Column("meaning", Text),
)

rounds = Table(
    "rounds",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("round_index", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("opened_at", String(32)),
    Column("closed_at", String(32)),
    Column("duration_s", Float),
    Column("local_lr", Float, nullable=False),
    Column("reference_steps", Float, nullable=False),
    Column("participants", JSON, nullable=False),
    Column("left_out", JSON, nullable=False),
    Column("train_loss", Float),
    Column("drift", Float),
    Column("model_digest", String(32)),
    Column("closed_by", String(16)),
    Column("closed_by_silo", String(64)),
    Column("times", JSON(none_as_null=True)),
)

updates = Table(
    "updates",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("round_index", Integer, primary_key=True),
    _silo_id(primary_key=True),
    Column("digest", String(32), nullable=False),
    Column("vectors", JSON, nullable=False),
    Column("num_steps", Count, nullable=False),
    Column("update_norm", Float, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("accepted_at", String(32), nullable=False),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("model_index", Integer, primary_key=True),
    _silo_id(primary_key=True),
    Column("metric", Said(64), primary_key=True),
    Column("total", Float, nullable=False),
    Column("num", Float, nullable=False),
    Column("model_digest", String(32)),
)

evaluation_tables = Table(
    "evaluation_tables",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("model_index", Integer, primary_key=True),
    _silo_id(primary_key=True),
    Column("metric", Said(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("labels", JSON, nullable=False),
    Column("shape", JSON, nullable=False),
    Column("num", Float, nullable=False),
    Column("numbers", JSON, nullable=False),
    Column("cells", LargeBinary),
)

judgements = Table(
    "judgements",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("model_index", Integer, primary_key=True, autoincrement=False),
    Column("metric", Said(64)),
    Column("value", Float),
    Column("num_silos", Integer, nullable=False),
    Column("numbers", JSON, nullable=False),
)

silos = Table(
    "silos",
    metadata,
    _silo_id(primary_key=True),
    Column("instance_id", Said(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("device", Said(128), nullable=False),
    Column("software_version", Said(64), nullable=False),
    Column("first_seen", String(32), nullable=False),
    Column("last_seen", String(32), nullable=False),
    Column("readmitted", Boolean, nullable=False, default=False),
    Column("dropped", SaidLong),
)

admissions = Table(
    "admissions",
    metadata,
    _silo_id(primary_key=True),
    Column("key", String(64)),
    Column("state", String(16), nullable=False),
    Column("until", Float),
    Column("days", Float),
    Column("at", String(32), nullable=False),
    Column("by_whom", Said(128), nullable=False),
    Column("version", Integer, nullable=False),
)

codes = Table(
    "codes",
    metadata,
    Column("nonce", String(64), primary_key=True),
    _silo_id(nullable=False),
    Column("until", Float, nullable=False),
    Column("days", Float, nullable=False),
    Column("made_at", String(32), nullable=False),
    Column("by_whom", Said(128), nullable=False),
    Column("used_at", String(32)),
    Column("key", String(64)),
    Column("certificate", Text),
)

events = Table(
    "events",
    metadata,
    Column("event_id", Integer, primary_key=True, autoincrement=True),
    Column("at", String(32), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("text", SaidLong, nullable=False),
    Column("run_id", String(128)),
    Column("silo_id", String(64)),
)
Index("ix_events_run_id", events.c.run_id)
Index("ix_events_silo_id", events.c.silo_id, events.c.event_id)
Index("ix_events_kind", events.c.kind, events.c.event_id)

webhooks = Table(
    "webhooks",
    metadata,
    Column("hook", String(64), primary_key=True),
    Column("event_id", Integer, nullable=False),
)

people_tokens = Table(
    "people_tokens",
    metadata,
    Column("name", Said(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("made_at", String(32), nullable=False),
    Column("ends_at", String(32)),
    Column("used_at", String(32)),
    Column("revoked_at", String(32)),
    UniqueConstraint("digest", name="uq_people_tokens_digest"),
)

login_codes = Table(
    "login_codes",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("name", Said(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("ends_at", String(32), nullable=False),
)

people_sessions = Table(
    "people_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("name", Said(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("origin", String(32), nullable=False),
    Column("made_at", String(32), nullable=False),
    Column("seen_at", String(32), nullable=False),
    Column("ends_at", String(32), nullable=False),
    Column("token", Said(64)),
)
