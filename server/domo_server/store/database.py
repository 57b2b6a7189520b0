"""The database: connecting, and its tables up to date."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from domo.errors import StateError

LOCKED_MS = 1500
"""How long a start waits for a SQLite file that another process holds."""
BUSY_MS = 5000
"""And how long everything after it; the driver's own default."""
CONNECT_S = 4
"""How long a database server may take to answer a connection."""
IDLE_S, PROBE_S, MAX_PROBES, UNHEARD_MS = 5, 2, 3, 10_000
IN_TIME = {"connect_timeout": CONNECT_S}
NOTICED = {
    "keepalives_idle": IDLE_S,
    "keepalives_interval": PROBE_S,
    "keepalives_count": MAX_PROBES,
    "tcp_user_timeout": UNHEARD_MS,
}
"""For libpq: a server that has gone without a word is noticed within about ten seconds."""
SERVERS = {
    "postgresql+psycopg": IN_TIME | NOTICED,
    "postgresql+psycopg2": IN_TIME | NOTICED,
    "mysql": IN_TIME,
    "mariadb": IN_TIME,
}
"""What drivers are told, by their name or that of their database."""


def connect(url: str | URL, **options: Any) -> Engine:
    """What makes connections; none is made yet.

    Args:
        url: SQLAlchemy's.
        options: Of SQLAlchemy's `create_engine`.

    Raises:
        StateError: It is no URL, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        driver = f"{backend}+{parsed.get_driver_name()}"
        told = SERVERS.get(driver, SERVERS.get(backend, {}))
        told = {key: value for key, value in told.items() if key not in parsed.query}
        pre_ping = backend != "sqlite"  # a server may have been restarted since
        engine = create_engine(parsed, connect_args=told, pool_pre_ping=pre_ping, **options)
    except (SQLAlchemyError, ImportError) as error:
        raise StateError(f"cannot open the database: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_pragmas)
    return engine


def open_database(url: str) -> Engine:
    """Connect, and bring the tables up to date.

    Raises:
        StateError: The database cannot be reached or migrated, or is a newer version's.
    """
    engine = connect(url)
    try:
        with engine.connect() as connection:
            sqlite = engine.dialect.name == "sqlite"
            if sqlite:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {LOCKED_MS}")
                # can it be written, and does nobody hold it? And all migrations count, or none
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            config = _migrations()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            if sqlite:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_MS}")
    except (SQLAlchemyError, CommandError) as error:
        engine.dispose()
        raise unusable(engine, error) from error
    return engine


def open_beside(url: str) -> Engine:
    """Connect to the database of a coordinator that may be running; its tables stay as they are.

    Raises:
        StateError: The database cannot be reached, or is another version's.
    """
    engine = connect(url)
    try:
        with engine.connect() as connection:
            version = MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError as error:
        engine.dispose()
        raise unusable(engine, error) from error
    known = versions()
    if version != known[0]:
        engine.dispose()
        mend = "start the coordinator with this domo once" if version in (None, *known) else ""
        raise StateError(
            f"the database {engine.url.render_as_string()} has version {version or 'none'}, this "
            f"domo uses {known[0]}: "
            + (mend or "it is a newer domo's")
            + ", or use the domo-server that the coordinator runs with"
        )
    return engine


def versions() -> list[str]:
    """The versions of the tables that this domo knows, newest first."""
    scripts = ScriptDirectory.from_config(_migrations())
    return [script.revision for script in scripts.walk_revisions()]


def unusable(engine: Engine, error: Exception) -> StateError:
    """What to say of a database that cannot be opened."""
    hint = "; was it made by a newer domo?" if isinstance(error, CommandError) else ""
    where = engine.url.render_as_string()  # without the password
    return StateError(f"cannot open the database {where}: {in_words(error)}{hint}")


def in_words(error: Exception) -> str:
    """What a database, its driver or the disk says, in one line."""
    said = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
    return " ".join(str(said).split())


def _migrations() -> Config:
    config = Config()
    scripts = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", scripts)
    return config


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
