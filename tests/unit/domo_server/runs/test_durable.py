import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import domo_server.runs.durable
from domo_server.runs.durable import Durable, to_its_end
from domo_server.runs.run import COMMIT, QUEUE
from tests.support.played.lab import SILOS, life, play


def test_work_is_waited_for_however_often_its_caller_is_cancelled() -> None:
    go_on, done = threading.Event(), []

    def work() -> None:
        go_on.wait(30)
        done.append(True)

    async def main() -> None:
        caller = asyncio.create_task(to_its_end(asyncio.to_thread(work)))
        for _ in range(3):
            await asyncio.sleep(0.01)
            caller.cancel()
        await asyncio.sleep(0.01)
        assert not caller.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert done

    asyncio.run(main())


def test_what_it_returns_or_raises_is_passed_on() -> None:
    async def main() -> None:
        assert await to_its_end(asyncio.to_thread(int, "7")) == 7
        with pytest.raises(ValueError, match="invalid literal"):
            await to_its_end(asyncio.to_thread(int, "x"))

    asyncio.run(main())


def test_who_gets_on_again_takes_back_no_reason_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.runs.durable, "DISK_S", 0.01)
    room, tries = threading.Event(), []

    def write(there_is_room: Callable[[], bool], path: str) -> None:
        tries.append(path)
        if not there_is_room():
            raise OSError(28, "No space left on device", path)

    async def go() -> None:
        async with life(tmp_path, roster=SILOS) as lab:
            run, writing = lab.run, asyncio.Lock()
            commit = Durable(run, writing, COMMIT)(write, room.is_set, "the checkpoint")
            committing = asyncio.create_task(commit)
            await lab.until(lambda: run.stuck)
            await Durable(run, writing)(write, lambda: "a set" in tries[:-1], "a set")
            assert tries.count("a set") == 2
            assert "No space left on device (the checkpoint)" in (run.stuck or "")
            assert run.stuck == run.unsaved
            run.hold_up(QUEUE, "another one")
            room.set()
            await committing
            assert run.stuck == "another one"
            assert run.unsaved is None
            run.hold_up(QUEUE, None)
            assert run.stuck is None

    play(go())
