"""One coordinator a database: SQLite and PostgreSQL, whatever the state folders are."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, event, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from domo.errors import CoordinatorUnavailableError, StateError
from domo.storage.state_folder import lock_file
from domo_server.store.database import connect, in_words, unusable

ADVISORY_LOCK = 0x646F6D6F
"""What a coordinator locks in a PostgreSQL database."""
KEEP_S, ASK_S = 3.0, 0.1
"""Pauses: between looks whether it is still locked, and while a lost session ends."""
END_S = 3.0
"""How long a lost session of one's own may take to end."""
TAKEN = (
    "another domo-server{who} uses the database {where}; stop it, or give this one a `database` of "
    "its own"
)
END_SESSION = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = :pid AND backend_start = :backend_start"
)
OWN_SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")


@contextmanager
def sole_use(url: str) -> Iterator["AdvisoryLock | None"]:
    """Keep other coordinators out.

    Yields:
        What has to be kept, with PostgreSQL; a lock of a file keeps itself.

    Raises:
        StateError: Another one uses the database, or it cannot be reached.
    """
    engine = connect(url, poolclass=NullPool)
    where = engine.url.render_as_string()  # without the password
    if engine.dialect.name == "sqlite" and engine.url.database:
        file = Path(engine.url.database)
        taken = TAKEN.format(who=" (process {pid})", where=where)
        try:
            handle = lock_file(file.with_name(file.name + "-lock"), taken)
        except OSError as error:
            raise unusable(engine, error) from error
        with handle:
            yield None
    elif engine.dialect.name == "postgresql":
        try:
            lock = AdvisoryLock(engine)
        except SQLAlchemyError as error:
            raise unusable(engine, error) from error
        try:
            yield lock
        finally:
            lock.release()
    else:
        yield None


class AdvisoryLock:
    """A lock in PostgreSQL: it ends with its connection, so it is looked after.

    Every new connection of a guarded engine looks, too. So nothing is written after a restart or a
    failover of the database before the lock is taken again; a connection that is lost alone is
    noticed within `KEEP_S`. All methods block and may be called from any thread.

    Args:
        engine: Makes its connection; without a pool.

    Raises:
        StateError: Another coordinator has it.
        SQLAlchemyError: The database does not answer.
    """

    def __init__(self, engine: Engine):
        self._engine, self._mutex = engine, threading.Lock()
        self._session: dict[str, Any] | None = None
        self._taken = ""
        self._connection: Connection | None = self._take()

    def keep(self) -> None:
        """See that it is held, and take it again where its connection has ended.

        Raises:
            StateError: Another coordinator has it now; nothing is written any more.
            CoordinatorUnavailableError: The database does not answer; it may later.
        """
        with self._mutex:
            if self._taken:
                raise StateError(self._taken)
            try:
                if self._connection is not None:
                    self._connection.scalar(select(1))
                    return
            except SQLAlchemyError:
                self._forget()
            try:
                self._connection = self._take()
            except StateError as error:
                self._taken = f"the lock in the database was lost, and {error}"
                raise StateError(self._taken) from None
            except SQLAlchemyError as error:
                said = f"the coordinator's database says: {in_words(error)}"
                raise CoordinatorUnavailableError(said) from error

    def guard(self, engine: Engine) -> None:
        """From now on, refuse the engine's connections while the lock is not held."""

        def checked(_connection: Any, record: Any, _proxy: Any) -> None:
            if "locked" in record.info and not self._taken:
                return
            try:
                self.keep()
            except StateError as error:  # whoever waits for the database is told to go on waiting
                raise CoordinatorUnavailableError(str(error)) from None
            record.info["locked"] = True

        event.listen(engine, "checkout", checked)

    def release(self) -> None:
        """Give it back, for good: a look that is under way must not take it again."""
        with self._mutex:
            self._taken = "the lock in the database was given back"
            self._forget()

    def _take(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            # the server may not have noticed yet that the session is lost: it would hold the lock
            lost = self._session and connection.execute(END_SESSION, self._session).all()
            end = time.monotonic() + (END_S if lost else 0)
            while not connection.scalar(select(func.pg_try_advisory_lock(ADVISORY_LOCK))):
                if time.monotonic() >= end:
                    where = self._engine.url.render_as_string()
                    raise StateError(TAKEN.format(who="", where=where))
                time.sleep(ASK_S)
            self._session = dict(connection.execute(OWN_SESSION).mappings().one())
        except BaseException:
            connection.close()
            raise
        return connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
