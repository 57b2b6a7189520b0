"""A run that makes no progress says so, with the reason; on a clock that the test moves."""

import contextlib
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from domo.metrics import Sum
from domo_proto.v1 import federation_pb2 as pb
from domo_server.monitor.monitor import CALM_S
from domo_server.monitor.stall import BROKEN_S, COMING_S, ENROL_S
from domo_server.runs.run import ROUND
from domo_server.silos.doing import Doing, heard
from domo_server.silos.session import NotReady
from domo_server.silos.sessions import SILENT
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, opened, play

A, B, C, D = SILOS
PROCEED = {"on_missing": "proceed", "min_silos": 2}


def scene(folder: Path, act: Callable[[Lab], Awaitable[None]], **settings: Any) -> None:
    async def go() -> None:
        async with opened(folder, **settings) as lab:
            await act(lab)

    play(go())


async def stalled(lab: Lab) -> str | None:
    """What REST says, after a look."""
    lab.watch.look()
    run = await lab.view.run(RUN_ID)
    assert run is not None
    assert (run.stalled is None) == (run.stalled_s is None)
    return run.stalled


def test_a_silent_silo_that_the_round_needs(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        assert await stalled(lab) is None
        await lab.send_all(A, B, C)
        session = lab.c.sessions.of(D)
        assert session is not None
        session.phase, session.step, session.num_steps = "training", 1, 2
        lab.alive.discard(D)
        lab.pass_time(4.4)
        assert await stalled(lab) is None
        lab.pass_time(0.2)
        text = await stalled(lab)
        assert text is not None
        assert text.startswith("round 1 cannot close without site-d. site-d: no heartbeat")
        assert "(last: training, step 1 of 2)" in text
        silo = await lab.silo(D)
        assert (silo.phase, silo.away) == ("offline", SILENT)
        assert lab.run.sessions.is_online(D), "the round's own rules wait longer"

        lab.alive.add(D)
        lab.pass_time(0.1)
        assert await stalled(lab) is not None, "it may fall silent again"
        lab.pass_time(CALM_S)
        assert await stalled(lab) is None
        assert len(await lab.events("run-stalled")) == 1
        assert await lab.events("run-moves-again") == ["r moves again after 2 s"]
        assert [t.split(":")[0] for t in await lab.events("silo-lost")] == [D]
        assert await lab.events("silo-back") == ["site-d is back"]

    scene(tmp_path, act)


def test_a_coordinator_without_file_descriptors_blames_no_silo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(lab: Lab) -> None:
        assert await lab.events("descriptors") == []
        real = os.open

        def none_is_left(path: Any, *args: Any, **given: Any) -> int:
            if path == os.devnull:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(path, *args, **given)

        monkeypatch.setattr(os, "open", none_is_left)
        lab.alive.discard(D)
        lab.pass_time(10)
        text = await stalled(lab)
        assert text is not None
        assert text.startswith("the coordinator has no file descriptors left, of ")
        assert D not in text
        monkeypatch.setattr(os, "open", real)
        lab.alive.add(D)
        lab.pass_time(0.1)
        assert await stalled(lab) is not None
        lab.pass_time(CALM_S)
        assert await stalled(lab) is None
        again = "the coordinator has file descriptors again"
        assert await lab.events("descriptors") == [text, again]

    scene(tmp_path, act)


def test_a_broken_connection_is_shown_at_once_and_may_come_back(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        session = lab.c.sessions.of(B)
        assert session is not None
        lab.c.sessions.broke(session)
        assert (await lab.silo(B)).phase == "offline"
        assert "broke" in ((await lab.silo(B)).away or "")
        assert await stalled(lab) is None
        lab.alive.discard(B)
        lab.pass_time(BROKEN_S)
        assert "its connection broke" in (await stalled(lab) or "")
        await lab.look()
        assert lab.run.detail.endswith("site-b last seen 3 s ago: its connection broke")
        lab.c.sessions.leave(session, "stopped by its operator")
        assert "site-b: left: stopped by its operator" in (await stalled(lab) or "")

    scene(tmp_path, act)


def test_the_round_gets_further_and_the_stall_is_over_at_once(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        lab.run.receiver.note_failure(A, 0, "RuntimeError: no")
        assert "site-a: failed: RuntimeError: no (it tries again" in (await stalled(lab) or "")
        await lab.send_all(A)
        assert await stalled(lab) is None

    scene(tmp_path, act)


def test_the_same_fault_again_and_again(tmp_path: Path) -> None:
    """Its count is shown with each try; an event comes with the first, and once it lasts."""

    async def act(lab: Lab) -> None:
        for times in range(1, 6):
            lab.run.receiver.note_failure(A, 0, "RuntimeError: no", times, times >= 3)
        text = "site-a: failed 5 times with the same fault: RuntimeError: no (it will not pass by"
        assert text in (await stalled(lab) or "")
        assert len(await lab.events("silo-failed")) == 2
        lab.run.receiver.note_failure(A, 0, "MemoryError: x", 2)
        assert "failed 2 times: MemoryError: x (it tries" in (await stalled(lab) or "")
        assert len(await lab.events("silo-failed")) == 3, "the first one was not heard"
        await lab.send_all(A)
        assert await stalled(lab) is None

    scene(tmp_path, act)


def test_a_failed_silo_whose_process_ended_tries_nothing_by_itself(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        lab.run.receiver.note_failure(A, 0, "RuntimeError: no")
        assert "(it tries again by itself)" in (await stalled(lab) or "")
        session = lab.c.sessions.of(A)
        assert session is not None
        lab.c.sessions.leave(session, "killed")
        told = await stalled(lab) or ""
        assert "site-a: failed: RuntimeError: no (left: killed)" in told
        assert "by itself" not in told

    scene(tmp_path, act)


def test_too_few_for_the_quorum_but_not_one_too_many(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        for name in (A, B):
            lab.run.receiver.note_failure(name, 0, "no")
        assert await stalled(lab) is None, "two are enough"
        lab.run.receiver.note_failure(C, 0, "no")
        assert "cannot close without site-a, site-b, site-c" in (await stalled(lab) or "")

    scene(tmp_path, act, **PROCEED)


def test_a_required_silo_that_declines_and_a_round_with_its_quorum(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        session = lab.c.sessions.of(D)
        assert session is not None
        await lab.c.registry.decline(session, RUN_ID, "its data are gone")
        text = await stalled(lab) or ""
        assert "without site-d. site-d: declined: its data are gone. Start" in text
        await lab.c.registry.drop(D, "no data")
        lab.run.receiver.note_failure(C, 0, "no")
        lab.pass_time(CALM_S)
        await lab.send_all(A, B)
        assert await stalled(lab) is None, "it closes after its grace"

    scene(tmp_path, act, **PROCEED, required_silos=[D], grace_s=20)


def not_ready(lab: Lab, name: str, reason: str) -> None:
    session = lab.c.sessions.of(name)
    assert session is not None
    lab.c.registry.note_ready(session, NotReady(RUN_ID, reason, 60.0), "data")


def test_a_silo_that_came_back_without_its_data(tmp_path: Path) -> None:
    """A round waits for it as for one that is away."""

    async def act(lab: Lab) -> None:
        for free in ("1.5", "1.25"):  # numbers differ each time
            not_ready(lab, D, f"out of memory: {free} GiB are free")
        said = ["site-d is not ready for 1-r: out of memory: 1.5 GiB are free"]
        assert await lab.events("not-ready") == said
        assert (
            "without site-d. site-d: not ready: out of memory: 1.25 GiB are free (it looks again "
            "by itself, within 60 s). Start"
        ) in (await stalled(lab) or "")
        session = lab.c.sessions.of(D)
        assert session is not None
        lab.c.registry.note_ready(session, None, "")
        assert await stalled(lab) is not None, "until it is calm"
        lab.pass_time(CALM_S)
        assert (session.error, await stalled(lab)) == (None, None)
        not_ready(lab, D, "its disk is away")
        lab.c.sessions.leave(session, "stopped")
        assert "site-d: left: stopped" in (await stalled(lab) or "")

    scene(tmp_path, act)


def test_no_grace_is_given_to_a_silo_that_is_not_ready(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        not_ready(lab, D, "its disk is away")
        await lab.send_all(A, B, C)
        await lab.round_open(1)
        (first,) = await lab.rounds()
        assert first.left_out[D].startswith("not ready: its disk is away")

    scene(tmp_path, act, **PROCEED, grace_s=1000)


def test_heartbeats_without_progress(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        session = lab.c.sessions.of(D)
        assert session is not None
        session.phase, session.num_steps = "training", 100
        for step in (0, 40):
            session.step = step
            assert await stalled(lab) is None
            lab.pass_time(2)
        lab.pass_time(1.1)
        text = await stalled(lab) or ""
        assert text.startswith("nothing moves in round 1. site-d: training, step 40 of 100")
        session.step = 41
        lab.pass_time(0.1)
        await stalled(lab)
        lab.pass_time(CALM_S)
        session.step = 42
        assert await stalled(lab) is None

    scene(tmp_path, act)


@pytest.mark.parametrize("how", ["pause", "drop"])
def test_the_admin_holds_it(how: str, tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        lab.alive.clear()
        if how == "pause":
            await lab.c.queue.pause(RUN_ID)
            lab.pass_time(30)
            assert await stalled(lab) is None
        else:
            for name in SILOS:
                await lab.c.registry.drop(name, "no")
            assert "every silo of this round is left out" in (await stalled(lab) or "")

    scene(tmp_path, act)


def test_the_disk_and_a_close_that_hangs(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        text = "the coordinator's disk says: No space left on device"
        lab.run.hold_up(ROUND, text)
        assert await stalled(lab) == text
        lab.run.hold_up(ROUND, None)
        async with lab.c.queue._writing:  # such as a write that does not return
            for name in SILOS:
                await lab.send(name)
            await lab.until(lambda: lab.run.state.phase == "CLOSING")
            assert await stalled(lab) is None
            lab.pass_time(3.1)
            assert "closing round 1 takes unusually long: the disk" in (await stalled(lab) or "")
        await lab.round_open(1)
        assert await stalled(lab) is None

    scene(tmp_path, act)


@contextlib.asynccontextmanager
async def last_test(folder: Path) -> AsyncIterator[Lab]:
    """A run whose last model is to be tested by A and B."""
    async with life(folder, roster=[A, B], num_rounds=1, evaluate_every=1) as lab:
        for name in (A, B):
            await lab.enroll(name, num_tests=5)
        await lab.round_open(0)
        await lab.send_all(A, B)
        await lab.until(lambda: lab.run.state.phase == "EVALUATING")
        await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
        yield lab


def test_a_last_model_that_nobody_tests(tmp_path: Path) -> None:
    async def go() -> None:
        async with last_test(tmp_path) as lab:
            assert await stalled(lab) is None
            lab.run.receiver.note_failure(A, 1, "RuntimeError: no")
            assert await stalled(lab) is None, "the other one may get on"
            await lab.c.registry.decline(await lab.join(B), RUN_ID, "no data")
            assert await stalled(lab) == (
                "the final model is not tested. site-a: failed: RuntimeError: no (it tries again "
                "by itself); site-b: declined: no data. The run ends without their numbers 120 s "
                "after its last round"
            )
            lab.run.participants.try_again(A)
            await lab.run.evaluations.add(A, 1, {"loss": Sum(1.0, 5.0)})
            assert "not tested. site-b" in (await stalled(lab) or "")
            lab.pass_time(120)
            assert (await lab.ended()).state == "FINISHED"

    play(go())


def test_a_last_model_that_takes_unusually_long_to_be_written(tmp_path: Path) -> None:
    async def go() -> None:
        async with last_test(tmp_path) as lab:
            async with lab.c.queue._writing:  # such as a write that does not return
                for name in (A, B):
                    lab.run.evaluations.note_tested(name, 1)
                lab.run.want_pause()  # whatever else may be wanted
                assert await stalled(lab) is None
                lab.pass_time(3.1)
                text = await stalled(lab) or ""
                assert text.startswith("writing the final model takes unusually long: the disk")
            assert (await lab.ended()).state == "FINISHED"

    play(go())


def test_a_pause_hides_no_disk_and_no_close_that_hangs(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        async with lab.c.queue._writing:
            await lab.send_all(*SILOS)
            await lab.until(lambda: lab.run.state.phase == "CLOSING")
            await lab.view.pause(RUN_ID)
            assert await stalled(lab) is None
            lab.pass_time(3.1)
            assert "closing round 1 takes unusually long" in (await stalled(lab) or "")
        await lab.until(lambda: lab.run.state.phase == "PAUSED")

    scene(tmp_path, act)


def test_a_run_that_silos_do_not_enrol_in(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path) as lab:
            await lab.enroll(A)
            assert await stalled(lab) is None
            lab.pass_time(ENROL_S + 1)
            text = await stalled(lab) or ""
            assert text.startswith("waiting for site-b, site-c, site-d to enrol, and none has come")
            not_ready(lab, (await lab.join(C)).silo_id, "its disk is away")
            await lab.until(lambda: "its disk is away" in lab.run.detail)
            text = await stalled(lab) or ""
            assert text.startswith("waiting for site-b, site-c, site-d to enrol; site-c not ready:")
            await lab.c.registry.decline(await lab.join(B), RUN_ID, "no data")
            assert await stalled(lab) == (
                "the run cannot start: site-b: declined: no data. Start them with what they lack"
            )

    play(go())


def test_who_is_not_ready_is_not_to_be_started(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path) as lab:
            for silo_id in (A, B, C):
                await lab.enroll(silo_id)
            assert await stalled(lab) is None
            lab.pass_time(ENROL_S + 1)
            assert (await stalled(lab) or "").endswith("Start their domo-client")
            not_ready(lab, (await lab.join(D)).silo_id, "its disk is away")
            await lab.until(lambda: "its disk is away" in lab.run.detail)
            assert (await stalled(lab) or "").endswith(", and none has come for 60 s")

    play(go())


def test_after_a_restart_silos_have_time_to_come_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path) as lab:
            pass
        async with life(tmp_path) as lab:
            await lab.until(lambda: lab.run.state.phase == "OPEN")
            lab.pass_time(COMING_S - 1)
            assert await stalled(lab) is None
            lab.pass_time(2)
            told = await stalled(lab) or ""
            assert "site-a, site-b, site-c and 1 more: not seen since this coordinator" in told
            run = await lab.view.run(RUN_ID)
            assert run is not None
            (group,) = run.held_up_by
            assert group.silo_ids == ["site-a", "site-b", "site-c", "site-d"]
            assert group.why == "not seen since this coordinator started"
            assert group.help.startswith("Start domo-client there again, or drop it")

    play(go())


def test_a_silo_that_says_that_it_does_not_move_is_one_event_until_it_does(tmp_path: Path) -> None:
    words = "waiting for a batch from its loader processes (nothing is computed or read there)"

    async def act(lab: Lab) -> None:
        session = lab.c.sessions.of(A)
        assert session is not None
        session.now = Doing("workers", 2.0, "", 0)
        assert await stalled(lab) is None
        assert (await lab.silo(A)).doing is None, "it has only begun"
        session.now = Doing("workers", 35.0, "still", 30)
        assert await stalled(lab) is None, "the others get on"
        assert await lab.events("silo-stalled") == [f"{A} has not moved on for over 30 s: {words}"]
        assert (await lab.silo(A)).doing == f"has not moved on for 35 s: {words}"
        await lab.send_all(B, C, D)
        told = await stalled(lab) or ""
        assert told.startswith(f"nothing moves in round 1. {A}: has not moved on for over 30 s: ")
        session.now = None
        lab.pass_time(0.1)
        await stalled(lab)
        lab.pass_time(CALM_S)
        assert await stalled(lab) is None
        assert len(await lab.events("silo-stalled")) == 1
        assert len(await lab.events("run-stalled")) == 1
        (moves,) = await lab.events("silo-moves-again")
        assert moves.startswith(f"{A} moves on again after ")

    scene(tmp_path, act)


def test_what_a_silo_says_of_its_stage_is_a_key_or_nothing() -> None:
    good = pb.Doing(stage="step", for_s=40.0, activity="moves", stuck=True)
    first = heard(good, None)
    assert first == ("step", 40.0, "moves", 40)
    later = pb.Doing(stage="step", for_s=52.0, activity="<b>", stuck=True)
    assert heard(later, first) == ("step", 52.0, "", 40), "the text does not change"
    for bad in ({"stage": "data.py:41"}, {"for_s": float("nan")}, {"for_s": -1.0}):
        message = pb.Doing(stage="step", for_s=1.0)
        message.MergeFrom(pb.Doing(**bad))
        assert heard(message, None) is None
    assert heard(pb.ReportRequest().doing, first) is None
