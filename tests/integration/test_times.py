"""Where the time of rounds goes, who closed them, and what is left of a run."""

import csv
import io
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, opened, play

A, B, C, D = SILOS
PROCEED = {"on_missing": "proceed", "min_silos": 3}


def scene(folder: Path, act: Callable[[Lab], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def go() -> None:
        async with opened(folder, **settings) as lab:
            await act(lab)

    play(go())


async def closed_by(lab: Lab) -> tuple[str | None, str | None]:
    """Of the first round, once the second is open."""
    await lab.round_open(1)
    (record, *_) = await lab.rounds()
    return record.closed_by, record.closed_by_silo


async def the_last_silo(lab: Lab) -> None:
    await lab.send_all(A, D, C, B)


async def the_grace(lab: Lab) -> None:
    await lab.send_all(A, B, C)
    lab.pass_time(10)


async def the_deadline(lab: Lab) -> None:
    lab.pass_time(25)
    await lab.send_all(A, B, C)
    lab.pass_time(6)


async def nothing_would_come(lab: Lab) -> None:
    await lab.send_all(A, B, C)
    lab.run.receiver.note_failure(D, 0, "RuntimeError: no")


async def who_was_waited_for_is_left_out(lab: Lab) -> None:
    await lab.send_all(A, B, C)
    await lab.view.drop(D)


async def all_are_in_and_the_run_is_resumed(lab: Lab) -> None:
    await lab.view.pause(RUN_ID)
    await lab.until(lambda: lab.run.state.phase == "PAUSED")
    await lab.send_all(*SILOS)
    await lab.view.resume(RUN_ID)


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (the_last_silo, ("silo", B)),
        (the_grace, ("grace", None)),
        (the_deadline, ("deadline", None)),
        (nothing_would_come, ("lost", None)),
        (who_was_waited_for_is_left_out, ("admin", D)),
        (all_are_in_and_the_run_is_resumed, ("admin", None)),
    ],
)
def test_who_closed_a_round(
    what: Callable[[Lab], Coroutine[Any, Any, None]], wanted: Any, tmp_path: Path
) -> None:
    async def act(lab: Lab) -> None:
        await what(lab)
        assert await closed_by(lab) == wanted

    scene(tmp_path, act, grace_s=10, round_deadline_s=30, **PROCEED)


def test_a_pause_is_in_no_duration_and_shown_as_one(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        lab.pass_time(5)
        await lab.view.pause(RUN_ID)
        await lab.until(lambda: lab.run.state.phase == "PAUSED")
        lab.pass_time(3600)
        run = await lab.view.run(RUN_ID)
        assert run is not None
        assert run.training_s == 5
        await lab.view.resume(RUN_ID)
        await lab.until(lambda: lab.run.state.phase == "OPEN")
        lab.pass_time(2)
        await lab.send_all(*SILOS)
        await lab.round_open(1)
        await lab.until(lambda: lab.store.run(RUN_ID).rounds_done == 1)  # type: ignore[union-attr]
        (record,) = await lab.rounds()
        assert record.duration_s == 7
        assert record.times is not None
        assert (record.times.span_s, record.times.paused_s) == (3607, 3600)
        assert record.times.pauses == [(5, 3605)]
        run = await lab.view.run(RUN_ID)
        assert run is not None
        assert (run.training_s, run.remaining_s) == (7, 7)
        assert run.waiting_s is not None

    scene(tmp_path, act)


def test_what_is_left_stands_still_while_nothing_moves(tmp_path: Path) -> None:
    async def left(lab: Lab) -> float | None:
        lab.watch.look()
        run = await lab.view.run(RUN_ID)
        assert run is not None
        return run.remaining_s

    async def act(lab: Lab) -> None:
        assert await left(lab) is None
        for r in range(3):
            lab.pass_time(10)
            await lab.send_all(*SILOS)
            await lab.round_open(r + 1)
        await lab.until(lambda: lab.store.run(RUN_ID).rounds_done == 3)  # type: ignore[union-attr]
        assert await left(lab) == 20
        lab.pass_time(4)
        assert await left(lab) == 16
        lab.run.receiver.note_failure(D, 3, "RuntimeError: no")
        assert await left(lab) == 16
        for _ in range(100):
            lab.pass_time(60)
            assert await left(lab) == 16
        await lab.send_all(*SILOS)
        await lab.round_open(4)
        await lab.until(lambda: lab.store.run(RUN_ID).rounds_done == 4)  # type: ignore[union-attr]
        assert await left(lab) == 10
        record = (await lab.rounds())[3]
        assert (record.duration_s, record.times.stalled_s) == (6004, 6000)  # type: ignore[union-attr]

    scene(tmp_path, act, num_rounds=5)


def test_what_was_before_a_kill_is_not_made_up(tmp_path: Path) -> None:
    """An update of the first life is in, the others come after; how long they took, nobody saw."""

    async def before() -> None:
        async with opened(tmp_path, num_rounds=1) as lab:
            lab.pass_time(50)
            await lab.send_all(A)

    async def after() -> None:
        async with life(tmp_path, num_rounds=1) as lab:
            row = lab.store.run(RUN_ID)
            assert row is not None
            began_at = row.began_at
            lab.pass_time(3)
            for name in SILOS:
                await lab.join(name)
            await lab.send_all(B, C, D)
            await lab.ended()
            (record,) = await lab.rounds()
            times = record.times
            assert times is not None
            assert times.interrupted
            assert (record.opened_at, record.duration_s) == (began_at, 3)
            assert (record.closed_by, record.closed_by_silo) == ("silo", D)
            assert times.silos[A].wait_s == 3
            unknown = times.silos[B].model_dump(exclude_defaults=True)
            assert unknown == {"upload_s": 0, "wait_s": 0}

    play(before())
    play(after())


def test_a_paused_round_that_was_full_before_a_kill_is_closed_by_the_admin(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path, num_rounds=1) as lab:
            await lab.view.pause(RUN_ID)
            await lab.until(lambda: lab.run.state.phase == "PAUSED")
            await lab.send_all(*SILOS)

    async def after() -> None:
        async with life(tmp_path, num_rounds=1) as lab:
            lab.run.want_pause(False)
            await lab.ended()
            (record,) = await lab.rounds()
            assert (record.closed_by, record.closed_by_silo) == ("admin", None)

    play(before())
    play(after())


def test_trainers_and_an_evaluator_over_the_wire(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 3, "num_silos": 2, "local_epochs": 1.0}
    run |= {"evaluators": ["judge"]}
    roles = ["trainer", "trainer", "evaluator"]

    def opts(i: int) -> Any:
        return options(None, "digits", shard=(i, 3), role=roles[i])

    with (
        coordinator(tmp_path, run) as server,
        agents(server.address, ["a", "b", "judge"], tmp_path, opts),
    ):
        ended = server.ended()
        rounds = server.rounds()
        silo = server.get("/silos/judge")
        url = f"{server.url}/api/v1/runs/{server.run_ids[0]}/history.csv"
        with urllib.request.urlopen(url, timeout=30) as answer:
            table = list(csv.DictReader(io.StringIO(answer.read().decode())))
    assert ended["training_s"] == pytest.approx(sum(r["duration_s"] for r in rounds), abs=0.11)
    assert ended["waiting_s"] >= 0
    for record in rounds:
        times = record["times"]
        assert record["closed_by"] == "silo"
        assert record["closed_by_silo"] in ("a", "b")
        assert times["interrupted"] is False
        assert 0 < times["collect_s"] + times["fold_s"] <= times["span_s"] + 0.002
        for name in ("a", "b"):
            mine = times["silos"][name]
            parts = [mine[f"{work}_s"] for work in ("fetch", "test", "train", "upload", "wait")]
            assert None not in parts, (name, mine)
            assert sum(parts) == pytest.approx(times["span_s"], abs=0.01)
            assert (mine["unfinished"], mine["tries"]) == (None, {})
            assert mine["train_s"] > 0
    seen = [record["times"]["silos"].get("judge") for record in rounds]
    assert any(seen), "the evaluator tests"
    for mine in filter(None, seen):
        assert (mine["train_s"], mine["upload_s"]) == (None, None)
    own = [r["times"] for r in silo["rounds"] if r["times"]]
    assert own == [mine for mine in seen if mine]
    row = next(r for r in table if r["silo_id"] == "b" and r["model_index"] == "2")
    assert float(row["train_s"]) == rounds[1]["times"]["silos"]["b"]["train_s"]
    assert row["closed_by"] == "silo"
    judged = [r for r in table if r["silo_id"] == "judge" and r["fetch_s"]]
    assert [r["took_part"] for r in judged] == ["no"] * len(own)
