"""The metadata in a real PostgreSQL, which the test starts where it is installed."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from safetensors.torch import load_file

from domo.errors import CoordinatorUnavailableError, ProtocolError, StateError
from domo.meaning.value import Meaning
from domo.names import MOST_SAID, one_line
from domo_server import wiring
from domo_server.app import serve
from domo_server.config import ServerConfig
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Notifier
from domo_server.store import lock as locking
from domo_server.store.database import open_database
from domo_server.store.lock import sole_use
from domo_server.store.rows import Enrolment, EventRow
from domo_server.store.store import Store
from domo_server.store.tables import metadata
from tests.support.hostile import ALPHABETS, hostile
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import agents, options
from tests.support.older_database import take_back
from tests.support.played.names import METRICS, NAMES, fill, orders

psycopg = pytest.importorskip("psycopg", reason="no psycopg here")

RUN = {"name": "r", "task": "digits", "method": "DOMO", "num_silos": 2, "local_steps": 2}
INITDB = shutil.which("initdb") or max(
    map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None
)


class Server(NamedTuple):
    folder: str
    restart: Callable[[], None]

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://domo@/{database}?host={self.folder}"

    def sql(self, text: str, database: str = "postgres") -> Any:
        with psycopg.connect(f"host={self.folder} user=domo dbname={database}") as c:
            c.autocommit = True
            return c.execute(text)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """It listens at a socket in its own folder only."""
    if INITDB is None:
        pytest.skip("no PostgreSQL here")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="domo-postgres-") as folder:
        if user:
            shutil.chown(folder, user)
        data, pg_ctl = f"{folder}/data", str(Path(INITDB).with_name("pg_ctl"))

        def do(*command: str) -> None:
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        do(INITDB, "-D", data, "-A", "trust", "-U", "domo", "--no-sync")
        flags = f"-h '' -k {folder} -F"
        up = ("-D", data, "-w", "-l", f"{folder}/log", "-o", flags)
        do(pg_ctl, *up, "start")
        try:
            yield Server(folder, lambda: do(pg_ctl, *up, "-m", "fast", "restart"))
        finally:
            do(pg_ctl, "-D", data, "-m", "immediate", "stop")


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> str:
    """The URL of an empty one."""
    name = request.node.name[:60]
    server.sql(f"CREATE DATABASE {name}")
    return server.url(name)


def take_part(
    server: Coordinator, folder: Path, good: Callable[[Any], bool], moved_from: str = ""
) -> None:
    """Two silos take part until the run is as wanted."""

    def shard(i: int) -> Any:
        return options(shard=(i, 2))

    names = ["site-a", "site-b"]
    with agents(server.address, names, folder, shard, moved_from=moved_from):
        server.until(f"/runs/{server.run_ids[0]}", good)


def test_a_run_over_a_restart_makes_the_bytes_that_it_makes_with_sqlite(
    server: Server, database: str, tmp_path: Path
) -> None:
    """Over one of the coordinator, and one of the database below it."""
    ends = []
    for name, settings in (("sqlite", {}), ("postgres", {"database": database})):
        folder = tmp_path / name
        folder.mkdir()
        run = {**RUN, "num_rounds": 4}
        with coordinator(folder, run, **settings) as up:
            take_part(up, folder, lambda run: run["rounds_done"] >= 2)
            (said,) = [e["text"] for e in up.get("/events") if e["kind"] == "started"]
            before = up.address
        with coordinator(folder, run, **settings) as up:
            if settings:
                server.restart()
            take_part(up, folder, lambda run: run["state"] == "FINISHED", before)
            ends.append((said, [r["state"] for r in up.rounds()], up.run()["metrics"]))
            checkpoints = folder / "coordinator" / "runs" / "1-r" / "checkpoints"
            ends[-1] += (load_file(max(checkpoints.glob("x*.safetensors")))["x"].tolist(),)
    assert ends[0] == ends[1]
    assert ends[0][1] == ["COMMITTED"] * 4


def test_a_second_coordinator_is_refused(database: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    text = "another domo-server uses the database postgresql"
    with coordinator(first, database=database), pytest.raises(StateError, match=text):
        Coordinator(second, database=database)
    Coordinator(second, database=database).close()


def test_what_peers_may_say_has_room(database: str) -> None:
    engine = open_database(database)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    store, most = Store(engine), 10**12
    store.create_run("r", {}, "")
    store.update_run("1-r", num_params=most, detail="a\0b")
    assert (store.run("1-r").num_params, store.run("1-r").detail) == (most, "ab")
    store.enroll("1-r", "a", Enrolment("trainer", most, most))
    store.add_event("note", "\0said")
    values = {"instance_id": "i", "role": "trainer", "software_version": "1\0"}
    store.save_silo("a", device="c\0pu", **values)
    assert (store.silo("a").device, store.events_after(0, 1)[0].text) == ("cpu", "said")
    store.close()


def test_texts_that_lead_astray_are_kept_and_come_back_as_lines(
    server: Server, database: str, tmp_path: Path
) -> None:
    """What a silo writes, by way of the gates and past them; half characters and zeros too."""
    rng = random.Random(5)
    texts = [hostile(rng, name) for name in ALPHABETS for _ in range(20)]
    texts += ["a\0b", "\ud800", "\udfff\ud800 x", "\U0010ffff", "\0" * 400, "\ud83d\ude00"]
    for url in (f"sqlite:///{tmp_path / 'texts.db'}", database):
        store = Store(open_database(url))
        kept = asyncio.run(_said(store, texts))
        assert [event.text for event in kept] == [one_line(text, MOST_SAID) for text in texts]
        for number, text in enumerate(texts):
            store.add_event("note", text, silo_id=f"s-{number}")
            store.save_silo(f"s-{number}", "i", "trainer", text[:128], text[:64])
            with suppress(ProtocolError):  # JSON can write what the wire cannot
                meaning = Meaning.from_json(json.dumps({"version": text}))
                store.enroll("1-r", f"s-{number}", Enrolment("trainer", 1, 1, meaning))
        assert len(store.all_silos()) == len(store.events_after(len(texts), 1000)) == len(texts)
        store.close()


async def _said(store: Store, texts: list[str]) -> list[EventRow]:
    log = EventLog(store, Notifier(), Counters())
    for text in texts:
        log.say(kinds.SILO_FAILED, text)
    await log.close()
    return store.events_after(0, len(texts))


def test_silos_are_ordered_byte_by_byte_whatever_the_locale(server: Server) -> None:
    how = "TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    server.sql(f"CREATE DATABASE of_a_locale {how}")
    rows = server.sql("SELECT unnest(ARRAY['Z', 'a', '_', '-']) AS n ORDER BY n", "of_a_locale")
    assert [name for (name,) in rows] != ["-", "Z", "_", "a"], "it orders by its locale"
    store = Store(open_database(server.url("of_a_locale")))
    fill(store)
    assert orders(store) == [*[NAMES] * 4, METRICS]
    store.close()


def test_what_an_older_version_has_stored_stays(database: str) -> None:
    store = Store(open_database(database))
    fill(store)
    store.create_run("r", {"task": "digits"}, "d")
    before = orders(store), store.all_runs(), store.all_silos(), store.enrolled("1-r")
    store.close()
    take_back(database, "0004")
    engine = open_database(database)
    store = Store(engine)
    assert (orders(store), store.all_runs(), store.all_silos(), store.enrolled("1-r")) == before
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    store.close()


def test_the_lock_outlives_a_restart_of_the_database(server: Server, database: str) -> None:
    with sole_use(database) as lock:
        assert lock is not None
        store = Store(engine := open_database(database))
        lock.guard(engine)
        server.restart()
        assert store.all_runs() == []
        with pytest.raises(StateError, match="another domo-server uses"), sole_use(database):
            pass
        server.restart()
        with sole_use(database):
            for _ in range(2):
                with pytest.raises(CoordinatorUnavailableError, match="lost, and another"):
                    store.create_run("r", {}, "")
        with pytest.raises(StateError, match="the lock in the database was lost, and another"):
            lock.keep()  # for good: the other one may have gone on with the runs
        store.close()


def test_a_lost_session_that_the_server_still_holds_is_ended(database: str) -> None:
    with sole_use(database) as lock:
        assert lock is not None
        assert lock._connection is not None
        fd = lock._connection.connection.driver_connection.fileno()
        other_end, null = os.dup(fd), os.open(os.devnull, os.O_RDWR)
        os.dup2(null, fd)  # here it is gone; the server sees it open
        lock.keep()
        lock.keep()
        os.close(other_end)
        os.close(null)


def test_a_coordinator_that_lost_its_database_to_another_stops(
    server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "KEEP_S", 0.1)
    free = {"listen": "127.0.0.1:0", "dashboard": "127.0.0.1:0"}
    config = ServerConfig(state_dir=tmp_path, database=database, **free)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    take = f"SELECT pg_advisory_lock({locking.ADVISORY_LOCK})"

    async def main() -> None:
        up = asyncio.Event()
        serving = asyncio.create_task(
            serve(config, [], on_started=lambda where: up.set(), stop=asyncio.Event())
        )
        await up.wait()
        dsn = database.replace("+psycopg", "")
        async with await psycopg.AsyncConnection.connect(dsn) as other:
            await other.execute(f"{kill}; {take}")
            await serving

    with pytest.raises(StateError, match="lost, and another domo-server uses the database"):
        asyncio.run(main())
