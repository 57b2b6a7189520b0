"""The database: connecting, its tables up to date, and one coordinator at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import SQLAlchemyError

from domo.errors import StateError
from domo.state_dir import lock_file

LOCKED_MS = 1500
"""How long a start waits for a SQLite file that another process holds."""
BUSY_MS = 5000
"""And how long everything after it; the driver's own default."""
ADVISORY_LOCK = 0x646F6D6F
"""What a coordinator locks in a PostgreSQL database."""
TAKEN = (
    "another domo-server{who} uses the database {where}; stop it, or give this one a `database` of "
    "its own"
)


def open_database(url: str) -> Engine:
    """Connect, and bring the tables up to date.

    Raises:
        StateError: The database cannot be reached or migrated, or is a newer version's.
    """
    try:
        engine = create_engine(url, connect_args=_in_time(url))
    except (SQLAlchemyError, ImportError) as error:  # no URL, or its driver is not installed
        raise StateError(f"cannot open the database: {error}") from error
    try:
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _sqlite_pragmas)
        config = Config()
        scripts = str(Path(__file__).parent / "migrations").replace("%", "%%")
        config.set_main_option("script_location", scripts)
        with engine.connect() as connection:
            sqlite = engine.dialect.name == "sqlite"
            if sqlite:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {LOCKED_MS}")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            if sqlite:  # can it be written, and does nobody hold it?
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                connection.rollback()
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_MS}")
    except (SQLAlchemyError, CommandError) as error:
        engine.dispose()
        hint = "; was it made by a newer domo?" if isinstance(error, CommandError) else ""
        where = engine.url.render_as_string()  # without the password
        why = str(getattr(error, "orig", error)).strip()
        raise StateError(f"cannot open the database {where}: {why}{hint}") from error
    return engine


def _in_time(url: str) -> dict[str, Any]:
    """What the driver needs to be told so that a start fails within seconds."""
    parsed = make_url(url)
    servers = ("postgresql", "mysql", "mariadb")
    asked = "connect_timeout" in parsed.query
    return {} if parsed.get_backend_name() not in servers or asked else {"connect_timeout": 4}


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


@contextmanager
def sole_use(engine: Engine) -> Iterator[None]:
    """Keep other coordinators out, whatever their state folder is; SQLite and PostgreSQL.

    Raises:
        StateError: Another one uses it.
    """
    where = engine.url.render_as_string()  # without the password
    if engine.dialect.name == "sqlite" and engine.url.database:
        file = Path(engine.url.database)
        with lock_file(file.with_name(file.name + "-lock"), _taken(where, " (process {pid})")):
            yield
    elif engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if not connection.scalar(select(func.pg_try_advisory_lock(ADVISORY_LOCK))):
                raise StateError(_taken(where))
            yield
    else:
        yield


def _taken(where: str, who: str = "") -> str:
    return TAKEN.format(who=who, where=where)
