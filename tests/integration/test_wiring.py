"""Under which names the page answers, and an end that the database hides for a while."""

import asyncio
from pathlib import Path

import httpx

from domo_server.coordinator.coordinator import Coordinator
from domo_server.store.database import open_database
from domo_server.store.store import Store
from domo_server.wiring import _until_stopped
from tests.support.live.coordinator import coordinator


def test_the_page_answers_at_the_url_that_is_printed_and_behind_a_proxy(tmp_path: Path) -> None:
    names = {"dashboard": "127.0.1.1:0", "dashboard_url": "https://domo.example.org"}
    with coordinator(tmp_path, **names) as server:
        at, own = f"{server.url}/api/v1/status", {"Authorization": f"Bearer {server.token}"}
        assert httpx.get(at, headers=own).status_code == 200
        assert httpx.get(at).status_code == 401, "it may come from a proxy on this machine"
        assert httpx.get(at, headers=own | {"Host": "domo.example.org"}).status_code == 200
        assert httpx.get(at, headers={"Host": "evil.example"}).status_code == 400


def test_a_database_that_fails_once_does_not_end_exit_when_done(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'coordinator.db'}")
    store = Store(engine)
    run_id = store.create_run("r", {}, "").run_id

    def rename(old: str, new: str) -> None:
        with engine.begin() as c:
            c.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    async def main() -> None:
        coordinator = Coordinator(store, tmp_path, report_interval_s=0.01)
        never = asyncio.create_task(asyncio.Event().wait())
        rename("runs", "gone")
        waiting = asyncio.create_task(_until_stopped(coordinator, [run_id], asyncio.Event(), never))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        rename("gone", "runs")
        store.update_run(run_id, state="FINISHED")
        coordinator.changes.moved()
        await asyncio.wait_for(waiting, 5)
        await coordinator.events.close()
        never.cancel()

    asyncio.run(main())
    store.close()
