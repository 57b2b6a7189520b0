"""What is shown of a run is of one instant: its row and what its coordinator holds."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from domo.api.edit import RunEdit
from tests.support.played.lab import RUN_ID, opened, play


def test_a_run_that_ends_while_its_row_is_read_is_shown_as_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with opened(tmp_path, num_rounds=1, roster=["site-a"]) as lab:
            real, read, go_on = lab.store.run, threading.Event(), threading.Event()

            def slow(run_id: str) -> Any:
                row = real(run_id)
                if not read.is_set():
                    read.set()
                    assert go_on.wait(30)
                return row

            monkeypatch.setattr(lab.store, "run", slow)
            shown = asyncio.create_task(lab.view.run(RUN_ID))
            await lab.until(read.is_set)
            assert await lab.send("site-a")
            await lab.until(lambda: lab.c.queue.current is None, "the end")
            go_on.set()
            detail = await shown
            assert detail is not None
            assert (detail.state, detail.rounds_done) == ("FINISHED", 1)

    play(scene())


def test_what_is_said_of_a_run_outlives_it(tmp_path: Path) -> None:
    async def scene() -> None:
        config = {"roster": ["site-a"], "num_rounds": 1, "notes": "of its config"}
        async with opened(tmp_path, **config) as lab:
            shown = await lab.view.run(RUN_ID)
            assert shown is not None
            assert (shown.tags, shown.notes, shown.archived) == ((), "of its config", False)
            await lab.view.edit(RUN_ID, RunEdit(tags=("a", "b")))
            assert await lab.send("site-a")
            await lab.until(lambda: lab.c.queue.current is None, "the end")
            summary = await lab.view.edit(RUN_ID, RunEdit(notes="", archived=True))
            assert list(summary.tags) == ["a", "b"]
            (summary,) = await lab.view.runs()
            assert (summary.notes, summary.archived) == ("", True)
            (event, _) = await lab.view.events(kinds=["run-edited"])
            assert event.text == f"of {RUN_ID} the admin has changed tags"

    play(scene())


def test_a_change_while_a_reader_is_busy_is_not_missed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with opened(tmp_path, roster=["site-a"]) as lab:
            changes = lab.view.changes()
            await anext(changes)
            lab.c.changes.shown()
            began = asyncio.get_running_loop().time()
            await anext(changes)
            assert asyncio.get_running_loop().time() - began < 2

    play(scene())
