"""Pause, resume, stop, drop and take back: what each does to a run in any state."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import domo_server.runs.loop
from domo.errors import ConfigError, CoordinatorUnavailableError, SiloConflictError
from domo.metrics import Sum
from domo.training.initial import save_initial
from domo_proto.codec import VectorId
from domo_server.identity.admitted import Rules
from domo_server.runs.roster import NOBODY
from domo_server.store.checkpoint import save_checkpoint
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options
from tests.support.played.lab import RUN_ID, SILOS, Clock, Lab, life, opened, play
from tests.support.tasks.gated import GatedTask

A, B, C, D = SILOS
PROCEED = {"on_missing": "proceed", "min_silos": 3}


def scene(folder: Path, act: Callable[[Lab], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def go() -> None:
        async with opened(folder, **settings) as lab:
            await act(lab)

    play(go())


async def pause(lab: Lab) -> None:
    await lab.view.pause(RUN_ID)
    await lab.until(lambda: (lab.run.state.phase, lab.run.detail) == ("PAUSED", PAUSED))


async def resume(lab: Lab) -> None:
    await lab.view.resume(RUN_ID)
    await lab.until(lambda: lab.run.state.phase != "PAUSED")


PAUSED = "paused by the admin"


# pause and resume


def test_a_paused_round_takes_updates_and_does_not_close(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A)
        await pause(lab)
        assert lab.assignment(B) is None, "a paused round is not handed out"
        assert not lab.run.should_abandon(B, 0), "silos finish their steps"
        await lab.send_all(B, C, D)
        for _ in range(3):
            lab.pass_time(1000)
            await asyncio.sleep(0.02)
        assert (lab.run.state.phase, lab.run.state.round_index) == ("PAUSED", 0)
        row = lab.store.run(RUN_ID)
        assert row is not None
        assert (row.state, row.rounds_done) == ("PAUSED", 0)
        await resume(lab)
        await lab.round_open(1)
        assert await lab.who() == [SILOS]
        assert await lab.events("paused") == ["paused in round 1 by the admin"]
        assert await lab.events("resumed") == ["goes on in round 1, as the admin wants"]

    scene(tmp_path, act, round_deadline_s=30)


@pytest.mark.parametrize("on_missing", ["proceed", "fail"])
def test_deadline_and_grace_stand_still_while_paused(on_missing: str, tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        await lab.advance(10)
        await pause(lab)
        lab.pass_time(10_000)
        await resume(lab)
        await lab.look()
        await lab.advance(19)
        assert lab.run.state.round_index == 0
        lab.pass_time(1)
        if on_missing == "fail":
            assert (await lab.ended()).detail == "no update in 30 s from site-d"
        else:
            await lab.round_open(1)

    scene(tmp_path, act, round_deadline_s=30, grace_s=100, on_missing=on_missing, min_silos=3)


def test_the_grace_of_a_quorum_reached_in_a_pause_begins_with_its_end(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await pause(lab)
        lab.pass_time(1000)
        await lab.send_all(A, B, C)
        lab.pass_time(1000)
        await resume(lab)
        await lab.look()
        assert lab.run.detail == "waiting for 1 more of 4 silos: site-d, 20 s of grace left"
        lab.pass_time(20)
        await lab.round_open(1)

    scene(tmp_path, act, grace_s=20, **PROCEED)


def test_a_paused_run_is_paused_after_a_restart_and_goes_on_when_told(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path) as lab:
            await lab.send_all(A, B)
            await pause(lab)
            await lab.send_all(C, D)

    async def again() -> None:
        async with life(tmp_path) as lab:
            await lab.until(lambda: lab.run.detail == PAUSED)
            assert (lab.run.state.phase, len(lab.run.participants.accepted)) == ("PAUSED", 4)
            texts = await lab.events("resumed")
            assert texts[-1].endswith("with 4 updates already here; it is still paused")

    async def after() -> None:
        async with life(tmp_path) as lab:
            await resume(lab)
            await lab.round_open(1)
            for name in SILOS:
                await lab.join(name)
            await lab.send_all(*SILOS)
            assert (await lab.ended()).complete is True
            assert await lab.who() == [SILOS, SILOS]

    play(before())
    play(again())
    play(after())


def test_who_did_it_is_said_and_outlives_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path) as lab:
            await lab.view.drop(D, "on holiday", "anna")
            await lab.view.undrop(D, "anna")
            await lab.view.pause(RUN_ID, "anna")
            await lab.until(lambda: lab.run.detail == "paused by anna")
            await lab.until(lambda: lab.run.state.phase == "PAUSED")

    async def after() -> None:
        async with life(tmp_path) as lab:
            await lab.until(lambda: lab.run.detail == "paused by anna")
            await lab.view.resume(RUN_ID, "berta")
            await lab.until(lambda: lab.run.state.phase != "PAUSED")
            await lab.view.stop(RUN_ID, "carla")
            result = await lab.ended()
            assert (result.state, result.detail) == ("STOPPED", "stopped by carla")
            assert await lab.events("dropped") == [f"{D} is left out by anna: on holiday"]
            assert await lab.events("readmitted") == [f"{D} is taken back by anna"]
            assert await lab.events("paused") == ["paused in round 1 by anna"]
            assert (await lab.events("resumed"))[-1] == "goes on in round 1, as berta wants"
            assert "stopped by carla" in (await lab.events("stopped"))[0]

    play(before())
    play(after())


def test_a_paused_run_can_be_stopped(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(*SILOS)
        await lab.round_open(1)
        await pause(lab)
        await lab.view.stop(RUN_ID)
        result = await lab.ended()
        assert (result.state, result.detail) == ("STOPPED", "stopped by the admin")
        assert result.rounds_done == 1
        assignment = lab.assignment(A)
        assert assignment is not None
        assert (assignment.action, assignment.outcome, assignment.round_index) == (
            "END",
            "STOPPED",
            1,
        )
        with pytest.raises(ConfigError, match="is stopped, not in its rounds"):
            await lab.c.queue.pause(RUN_ID)

    scene(tmp_path, act)


def test_only_rounds_can_be_paused(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path) as lab:
            with pytest.raises(ConfigError, match="is waiting, not in its rounds"):
                await lab.view.pause(RUN_ID)
            for name in SILOS:
                await lab.enroll(name)
            await lab.round_open(0)
            with pytest.raises(ConfigError, match="is not paused"):
                await lab.view.resume(RUN_ID)
            with pytest.raises(ConfigError, match="there is no run '9-x'"):
                await lab.view.pause("9-x")

    play(go())


# drop and take back


def test_a_silo_dropped_in_mid_round_counts_no_more_until_the_round_after(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, D)
        status = await lab.view.drop(D, "its data are wrong")
        assert status.dropped == "its data are wrong"
        assert lab.run.should_abandon(D, 0)
        assert not await lab.send(D, scale=2)
        await lab.send_all(B)
        await lab.look()
        assert lab.run.detail == "waiting for 1 more of 3 silos: site-c"
        await lab.view.undrop(D)
        assert lab.assignment(D) is None, "not in the open round"
        await lab.send_all(C)
        await lab.round_open(1)
        assignment = lab.assignment(D)
        assert assignment is not None
        assert (assignment.action, assignment.round_index) == ("TRAIN", 1)
        await lab.send_all(*SILOS)
        assert (await lab.ended()).complete is False
        assert await lab.who() == [[A, B, C], SILOS]
        first, _ = await lab.rounds()
        assert first.left_out == {D: "taken back after this round had begun"}

    scene(tmp_path, act)


def test_why_a_silo_was_dropped_is_in_the_rounds(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.view.drop(D, "")
        with pytest.raises(ConfigError, match="site-d is left out already: no reason given"):
            await lab.view.drop(D, "again")
        await lab.send_all(A, B, C)
        await lab.round_open(1)
        (record,) = await lab.rounds()
        assert record.left_out == {D: "dropped by the admin: no reason given"}

    scene(tmp_path, act)


def test_all_dropped_is_said_and_waited_out(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        for name in SILOS:
            await lab.view.drop(name, "")
        await lab.until(lambda: lab.run.detail == NOBODY, NOBODY)
        lab.pass_time(1e6)
        await lab.view.pause(RUN_ID)
        await lab.until(lambda: lab.run.detail == PAUSED, PAUSED)
        await resume(lab)
        assert lab.run.state.round_index == 0
        await lab.view.undrop(B)
        await lab.look()
        assert lab.run.detail == "waiting for 1 more of 1 silos: site-b"
        await lab.view.undrop(C)
        await lab.send_all(B)
        await lab.round_open(1)
        assert lab.run.participants.sampled == [B, C]

    scene(tmp_path, act)


def test_a_drop_outlives_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path) as lab:
            await lab.send_all(A, D)
            await lab.view.drop(D, "mad")

    async def after() -> None:
        async with life(tmp_path) as lab:
            await lab.round_open(0)
            assert lab.run.participants.sampled == [A, B, C]
            assert list(lab.run.participants.accepted) == [A]
            await lab.join(D)
            assert lab.assignment(D) is None
            await lab.send_all(B, C)
            await lab.round_open(1)
            assert await lab.who() == [[A, B, C]]

    play(before())
    play(after())


def test_a_drop_that_takes_the_quorum_away_takes_its_grace_too(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        await lab.advance(5)
        await lab.view.drop(C, "")
        await lab.look()
        assert lab.run.detail == "waiting for 1 more of 3 silos: site-d"
        lab.pass_time(100)
        await lab.look()
        assert lab.run.state.round_index == 0
        await lab.send_all(D)
        await lab.round_open(1)
        assert await lab.who() == [[A, B, D]]

    scene(tmp_path, act, grace_s=20, **PROCEED)


def test_a_drop_of_a_required_silo_gives_the_others_their_quorum(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B)
        await lab.advance(100)
        await lab.view.drop(D, "")
        await lab.look()
        assert lab.run.detail == "waiting for 1 more of 3 silos: site-c, 20 s of grace left"
        lab.pass_time(20)
        await lab.round_open(1)
        assert await lab.who() == [[A, B]]

    settings = {"on_missing": "proceed", "min_silos": 2, "required_silos": [D]}
    scene(tmp_path, act, grace_s=20, **settings)


def test_an_update_that_was_on_its_way_when_its_silo_was_dropped_does_not_count(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        run = lab.run
        assert run.model.current is not None
        parts = [(VectorId.UPDATE, 4 * len(run.model.current["x"]))]
        upload = run.receiver.begin_upload(D, parts, 16 * "7f", 0, 2)
        await lab.view.drop(D, "")
        upload.close()
        assert not await run.receiver.accept(D, 0, upload, 1.0, 2, {})
        assert run.participants.accepted == {}
        await lab.send_all(A, B)
        await lab.look()
        assert run.state.round_index == 0, "three were not in"

    scene(tmp_path, act, **PROCEED)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_silo_dropped_before_the_start_is_neither_counted_nor_waited_for(
    by_name: bool, tmp_path: Path
) -> None:
    async def go() -> None:
        settings: dict[str, Any] = {"roster": [A, B, C]} if by_name else {"num_silos": 2}
        async with life(tmp_path, **settings) as lab:
            await lab.enroll(A)
            await lab.join(B)
            if not by_name:
                await lab.view.drop(A, "mad")
                await lab.enroll(B)
                text = "waiting for 1 more of 2 silos to enrol"
                await lab.until(lambda: lab.run.detail == text, text)
                await lab.enroll(C)
                await lab.round_open(0)
                assert lab.run.roster.frozen == [B, C]
                return
            await lab.join(C)
            await lab.view.drop(C, "mad")
            session = lab.c.sessions.of(C)
            assert session is not None
            assert not lab.run.offers_to(session)
            text = "waiting for site-b to enrol"
            await lab.until(lambda: lab.run.detail == text, text)
            await lab.enroll(B)
            await lab.round_open(0)
            assert (lab.run.roster.frozen, lab.run.participants.sampled) == ([A, B, C], [A, B])

            # it enrols late, once it is taken back
            await lab.view.undrop(C)
            assert not await lab.send(C)
            assert lab.run.offers_to(session)
            await lab.enroll(C)
            await lab.send_all(A, B)
            await lab.round_open(1)
            await lab.send_all(A, B, C)
            await lab.ended()
            assert await lab.who() == [[A, B], [A, B, C]]

    play(go())


def test_a_dropped_silo_tests_nothing_and_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, evaluate_every=1, num_rounds=1, roster=[A, B]) as lab:
            for name in (A, B):
                await lab.enroll(name, num_tests=5)
            await lab.round_open(0)
            await lab.view.drop(B, "")
            assert lab.assignment(B) is None
            await lab.send_all(A)
            await lab.until(lambda: lab.run.detail == "testing the final model at site-a")
            await lab.run.evaluations.add(A, 1, {"loss": Sum(1.0, 5.0)})
            assert (await lab.ended()).state == "FINISHED"

    play(go())


def test_a_pause_while_a_round_is_closed_holds_the_next_one_and_is_refused_in_the_last(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        async with lab.c.queue._writing:  # the set cannot be recorded yet
            await lab.send_all(*SILOS)
            await lab.until(lambda: lab.run.state.phase == "CLOSING")
            await lab.view.pause(RUN_ID)
        await lab.until(lambda: lab.run.state.phase == "PAUSED")
        assert lab.run.state.round_index == 1
        await resume(lab)
        async with lab.c.queue._writing:
            await lab.send_all(*SILOS)
            await lab.until(lambda: lab.run.state.phase == "CLOSING")
            with pytest.raises(ConfigError, match="closes its last round: no other follows"):
                await lab.view.pause(RUN_ID)
        assert (await lab.ended()).state == "FINISHED"
        assert not lab.run.pause_wanted

    scene(tmp_path, act, num_rounds=2)


def test_one_call_takes_back_a_dropped_silo_that_has_lost_its_folder(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.view.drop(D, "")
        lab.alive.discard(D)
        lab.pass_time(60)
        with pytest.raises(SiloConflictError):
            await lab.join(D, "another-folder")
        await lab.view.undrop(D)
        with pytest.raises(SiloConflictError):  # taken back; its name is bound as before
            await lab.join(D, "another-folder")
        await lab.view.rebind(D)
        await lab.join(D, "another-folder")
        await lab.send_all(A, B, C)
        await lab.round_open(1)
        assert D in lab.run.participants.sampled
        with pytest.raises(SiloConflictError):  # the name was free once
            await lab.join(D, "a-third-folder")

    scene(tmp_path, act)


def test_taking_back_a_dropped_silo_that_is_connected_gives_its_name_to_nobody_else(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        await lab.view.drop(D, "")
        await lab.view.undrop(D)
        for _ in range(2):  # and not by being said twice
            with pytest.raises(ConfigError, match="not left out, so there is nothing"):
                await lab.view.undrop(D)
        with pytest.raises(ConfigError, match="connected now, so its state folder is not lost"):
            await lab.view.rebind(D)
        with pytest.raises(SiloConflictError):
            await lab.join(D, "another-folder")
        lab.alive.discard(D)
        lab.pass_time(60)
        with pytest.raises(ConfigError, match="not left out"):
            await lab.view.undrop(D)
        with pytest.raises(SiloConflictError):
            await lab.join(D, "another-folder")

    scene(tmp_path, act)


def test_a_drop_that_could_not_be_recorded_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(lab: Lab) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise CoordinatorUnavailableError("the coordinator's database says: disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(lab.store, "mark_silo", full)
            with pytest.raises(CoordinatorUnavailableError):
                await lab.view.drop(D, "mad")
        assert (await lab.silo(D)).dropped is None
        assert (await lab.view.drop(D, "mad")).dropped == "mad"
        with monkeypatch.context() as patched:
            patched.setattr(lab.store, "mark_silo", full)
            with pytest.raises(CoordinatorUnavailableError):
                await lab.view.undrop(D)
        assert (await lab.silo(D)).dropped == "mad"

    scene(tmp_path, act)


# a real agent in the middle of its steps


TASK = "tests.support.tasks.gated:GatedTask"


def endless(folder: Path) -> dict[str, Any]:
    save_initial(GatedTask().build_model(), folder / "x0.safetensors")
    for name in (A, B):
        (folder / name).mkdir()
        (folder / name / "samples.txt").write_text("20")
    return {
        "task": TASK,
        "num_rounds": 2,
        "roster": [A, B],
        "local_steps": 10**8,
        "batch_size": 8,
        "local_lr": 1e-6,
        "initial_model": str(folder / "x0.safetensors"),
        "evaluate_every": 0,
    }


def test_drop_and_stop_interrupt_local_training_within_seconds(tmp_path: Path) -> None:
    def trains(silo: dict[str, Any]) -> bool:
        return silo["phase"] == "training" and silo["step"] > 0

    with (
        coordinator(tmp_path, endless(tmp_path)) as server,
        agents(server.address, [A, B], tmp_path, lambda i: options(tmp_path / (A, B)[i], TASK)),
    ):
        path = "/silos/{}".format
        for name in (A, B):
            server.until(path(name), trains)
        server.post(f"/silos/{B}/drop", {"reason": "enough"})
        asked = time.monotonic()
        server.until(path(B), lambda silo: silo["phase"] in ("waiting", "idle"))
        assert time.monotonic() - asked < 20
        assert trains(server.silo(A)), "the other one goes on"

        # taken back where nobody else is left, it begins at once
        server.post(f"/silos/{A}/drop")
        server.post(f"/silos/{B}/undrop")
        server.until(path(B), trains)
        server.post(f"/runs/{server.run_ids[0]}/stop")
        asked = time.monotonic()
        assert server.ended()["state"] == "STOPPED"
        for name in (A, B):
            server.until(path(name), lambda silo: silo["phase"] in ("waiting", "idle"))
        assert time.monotonic() - asked < 20


# SIGTERM


def test_a_shutdown_finishes_what_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(folder: Path, state: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        done.append(save_checkpoint(folder, state))
        return done[-1]

    async def before() -> None:
        async with opened(tmp_path, num_rounds=1) as lab:
            monkeypatch.setattr(domo_server.runs.loop, "save_checkpoint", slow)
            await lab.send_all(*SILOS)
            await lab.until(begun.is_set)
            ending = asyncio.create_task(lab.c.shutdown())
            for _ in range(20):
                await asyncio.sleep(0.005)
                assert not ending.done(), "it did not wait"
            may_end.set()
            await ending
            assert done == ["x000001.safetensors"]
            row = lab.store.run(RUN_ID)
            assert row is not None
            assert (row.state, row.rounds_done) == ("CLOSING", 0)
        assert (tmp_path / "state" / "runs" / RUN_ID / "checkpoints" / done[0]).exists()

    async def after() -> None:
        async with life(tmp_path, Clock(), num_rounds=1) as lab:
            result = await lab.ended()
            assert (result.state, result.rounds_done) == ("FINISHED", 1)
            assert await lab.who() == [SILOS]

    play(before())
    monkeypatch.setattr(domo_server.runs.loop, "save_checkpoint", save_checkpoint)
    play(after())


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("has_sent", [False, True])
def test_a_silo_revoked_in_mid_round_costs_the_run_nothing(
    has_sent: bool, beside: bool, tmp_path: Path
) -> None:
    """With `on_missing = "wait"`, at once; by `domo-server revoke` too, which writes the table."""

    async def act() -> None:
        async with opened(tmp_path, roster=[A, B], num_rounds=2) as lab:
            lab.c.guard.rules = Rules(mutual=True)
            lab.c.guard.admissions.admit(B, "a test")
            if has_sent:
                await lab.send_all(B)
            begun = lab.clock.now
            if beside:
                await asyncio.to_thread(lab.c.guard.admissions.revoke, B, "anna")
                await lab.c.guard.changed()  # its watch does, more than twice a second
            else:
                await lab.c.revoke(B, "anna")
            await lab.send_all(A)
            await lab.round_open(1)
            await lab.c.guard.changed()
            await lab.send_all(A)
            assert (await lab.ended()).state == "FINISHED"
            assert lab.clock.now == begun
            assert await lab.who() == [[A], [A]]
            assert await lab.events("dropped") == [f"{B} is left out by anna: revoked"]
            for record in await lab.rounds():
                assert record.left_out[B] == "dropped by the admin: revoked (by anna)"

    play(act())


def test_one_that_was_revoked_while_the_coordinator_was_down_is_left_out(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path, roster=[A, B], num_rounds=1) as lab:
            lab.c.guard.admissions.admit(B, "a test")
            lab.c.guard.admissions.revoke(B, "anna")
            lab.c.guard.admissions.revoke("site-z", "anna")  # it has never joined

    async def after() -> None:
        async with life(tmp_path, roster=[A, B], num_rounds=1) as lab:
            lab.c.guard.rules = Rules(mutual=True)
            await lab.c.guard.changed()
            await lab.enroll(A)
            await lab.send_all(A)
            assert (await lab.ended()).state == "FINISHED"

    play(before())
    play(after())
