"""When a round closes, and with whom: policies on a clock that only the test moves."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from domo.errors import ConfigError
from domo.metrics import Sum
from domo_server.silos.sessions import RETURN_S
from domo_server.store.rows import Enrolment
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, opened, play

A, B, C, D = SILOS
PROCEED = {"on_missing": "proceed", "min_silos": 3}
WAITS_FOR_D = "waiting for 1 more of 4 silos: site-d"


def scene(folder: Path, act: Callable[[Lab], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def go() -> None:
        async with opened(folder, **settings) as lab:
            await act(lab)

    play(go())


def test_of_four_silos_three_are_enough_and_the_dead_one_costs_one_grace(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        lab.alive.discard(D)
        await lab.advance(30)
        await lab.send_all(A, B, C)
        await lab.look()
        assert lab.run.detail == (f"{WAITS_FOR_D}, 20 s of grace left; site-d last seen 30 s ago")
        await lab.advance(19)
        assert lab.run.state.round_index == 0
        lab.pass_time(1)
        await lab.round_open(1)

        # the dead silo costs the second round nothing: no time passes at all
        before = lab.clock.now
        await lab.send_all(A, B, C)
        await lab.round_open(2)
        assert lab.clock.now == before

        # it comes back in the middle of the third, and is in it
        await lab.send_all(A, B)
        await lab.join(D)
        assignment = lab.assignment(D)
        assert assignment is not None
        assert (assignment.action, assignment.round_index) == ("TRAIN", 2)
        await lab.send_all(C)
        await lab.look()
        assert lab.run.detail == f"{WAITS_FOR_D}, 20 s of grace left"
        await lab.send_all(D)
        result = await lab.ended()
        assert (result.state, result.complete) == ("FINISHED", False)
        assert await lab.who() == [[A, B, C], [A, B, C], SILOS]
        reasons = [r.left_out for r in await lab.rounds()]
        assert reasons == [{D: "not connected"}, {D: "not connected"}, {}]

    scene(tmp_path, act, num_rounds=3, grace_s=20, **PROCEED)


def test_a_healthy_silo_seven_seconds_late_is_within_the_grace(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        for _ in range(2):
            r = lab.run.state.round_index
            await lab.send_all(A, B, C)
            await lab.advance(7)
            assert lab.run.detail == f"{WAITS_FOR_D}, 3 s of grace left"
            await lab.send_all(D)
            await lab.until(lambda r=r: lab.run.state.round_index > r)
        result = await lab.ended()
        assert (result.state, result.complete) == ("FINISHED", True)
        assert await lab.who() == [SILOS, SILOS]

    scene(tmp_path, act, grace_s=10, **PROCEED)


def test_a_silo_after_the_grace_is_left_out_told_so_and_in_the_next_round(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        assert not lab.run.should_abandon(D, 0)
        lab.pass_time(10)
        await lab.round_open(1)
        assert lab.run.should_abandon(D, 0)
        assert not await lab.send(D, r=0)
        assignment = lab.assignment(D)
        assert assignment is not None
        assert (assignment.action, assignment.round_index) == ("TRAIN", 1)
        await lab.send_all(*SILOS)
        assert (await lab.ended()).complete is False
        assert [r.left_out for r in await lab.rounds()] == [{D: "no update in time"}, {}]

    scene(tmp_path, act, grace_s=10, **PROCEED)


def test_a_silo_cut_off_in_mid_round_gets_its_grace_all_the_same(tmp_path: Path) -> None:
    """It was there when the round began: it may be training behind a cut connection."""

    async def act(lab: Lab) -> None:
        lab.alive.discard(D)
        await lab.send_all(A, B, C)
        await lab.advance(15)
        assert lab.run.detail.startswith(f"{WAITS_FOR_D}, 5 s of grace left; site-d last seen")
        await lab.join(D)
        await lab.send_all(D)
        await lab.round_open(1)
        assert await lab.who() == [SILOS]

    scene(tmp_path, act, grace_s=20, **PROCEED)


def test_the_deadline_cuts_a_long_grace_short(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        await lab.advance(29)
        assert lab.run.detail == f"{WAITS_FOR_D}, 1 s of grace left"
        lab.pass_time(1)
        await lab.round_open(1)
        assert lab.assignment(A) is not None
        assert lab.run.participants.opened_at == lab.clock(), "the deadline begins anew"

    scene(tmp_path, act, grace_s=600, round_deadline_s=30, **PROCEED)


def test_after_the_deadline_a_round_closes_with_its_quorum_and_not_before(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B)
        await lab.advance(100)
        assert lab.run.state.round_index == 0
        assert lab.run.detail == (
            "waiting for 2 more of 4 silos: site-c, site-d; it needs 1 of them"
        )
        await lab.send_all(C)
        await lab.round_open(1)
        assert await lab.who() == [[A, B, C]]

    scene(tmp_path, act, grace_s=600, round_deadline_s=30, **PROCEED)


def test_wait_waits_whatever_the_time_and_says_for_whom(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, C)
        lab.alive.discard(B)
        await lab.advance(4 * 60)
        text = "waiting for 1 more of 3 silos: site-b; site-b last seen 4 min ago"
        assert lab.run.detail == text
        seen = await lab.view.run("1-r")
        assert seen is not None
        assert (seen.state, seen.detail, seen.waiting_for) == ("OPEN", text, [B])
        assert lab.run.waits("site-a") == "round 1 has updates of 2 of its 3 silos", (
            "it names nobody"
        )
        await lab.advance(24 * 3600)
        assert lab.run.state.round_index == 0
        assert lab.run.detail.endswith("site-b last seen 24 h ago")
        await lab.join(B)
        await lab.send_all(B)
        await lab.round_open(1)
        await lab.send_all(A, B, C)
        assert (await lab.ended()).complete is True

    scene(tmp_path, act, roster=[A, B, C], round_deadline_s=30, grace_s=5)


def test_fail_ends_the_run_at_the_deadline_and_names_who_was_missing(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(*SILOS)
        await lab.round_open(1)
        await lab.send_all(A, C, D)
        await lab.advance(29)
        assert lab.run.state.round_index == 1
        lab.pass_time(1)
        result = await lab.ended()
        assert (result.state, result.detail) == ("FAILED", "no update in 30 s from site-b")
        assert (result.rounds_done, result.complete) == (1, True)
        model = await lab.view.model_file("1-r")
        assert model is not None
        assert model.name == "model.safetensors"

    scene(tmp_path, act, on_missing="fail", round_deadline_s=30)


FAILURES = {name: f"out of memory: {40 + i} GiB" for i, name in enumerate(SILOS)}


def fail(lab: Lab, *names: str) -> None:
    for name in names:
        lab.run.receiver.note_failure(name, lab.run.state.round_index, FAILURES[name])


@pytest.mark.parametrize("policy", [{"round_deadline_s": 30}, PROCEED], ids=["wait", "proceed"])
def test_all_silos_failing_is_said_and_waited_out(policy: Any, tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        fail(lab, *SILOS)
        await lab.advance(3600)
        assert lab.run.state.round_index == 0
        assert lab.run.detail.startswith("waiting for 4 more of 4 silos: site-a, site-b, site-c, ")
        for name, why in FAILURES.items():
            assert f"; {name} failed: {why}" in lab.run.detail
        assert len(await lab.events("silo-failed")) == 4
        lab.run.participants.failed.clear()  # they fetch the round again
        await lab.send_all(*SILOS)
        await lab.round_open(1)
        await lab.send_all(*SILOS)
        assert (await lab.ended()).complete is True

    scene(tmp_path, act, grace_s=5, **policy)


def test_all_silos_failing_under_fail_ends_at_the_deadline(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        fail(lab, *SILOS)
        await lab.advance(29)
        lab.pass_time(1)
        result = await lab.ended()
        assert result.state == "FAILED"
        assert result.detail == "no update in 30 s from site-a, site-b, site-c, site-d"

    scene(tmp_path, act, on_missing="fail", round_deadline_s=30)


def test_a_failed_silo_is_not_given_grace_and_its_reason_is_recorded(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        fail(lab, D)
        await lab.round_open(1)
        (record,) = await lab.rounds()
        assert record.left_out == {D: FAILURES[D]}
        fail(lab, A)
        await lab.send_all(B, C)
        await lab.look()
        assert lab.run.detail.endswith("; it needs 1 of them; site-a failed: out of memory: 40 GiB")
        lab.run.participants.failed.pop(A)  # it tries again
        await lab.send_all(A)
        await lab.look()
        assert lab.run.detail == f"{WAITS_FOR_D}, 600 s of grace left"
        fail(lab, D)
        await lab.ended()
        assert (await lab.rounds())[1].left_out == {D: FAILURES[D]}

    scene(tmp_path, act, grace_s=600, **PROCEED)


def test_a_silo_that_still_tries_when_its_round_closes_is_left_out_for_its_failure(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B)
        fail(lab, D)
        lab.run.participants.failed.pop(D)  # it tries again, and is too slow
        await lab.send_all(C)
        lab.pass_time(5)
        await lab.round_open(1)
        (record,) = await lab.rounds()
        assert record.left_out == {D: FAILURES[D]}

    scene(tmp_path, act, grace_s=5, **PROCEED)


def test_why_a_silo_was_left_out_is_what_held_when_the_round_closed(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        await lab.look()
        async with lab.c.queue._writing:  # the set cannot be recorded yet
            lab.pass_time(5)
            await lab.until(lambda: lab.run.state.phase == "CLOSING")
            await lab.c.registry.drop(D, "it came too late to count")
        await lab.round_open(1)
        await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
        assert [r.left_out for r in await lab.rounds()] == [{D: "no update in time"}]

    scene(tmp_path, act, grace_s=5, **PROCEED)


@pytest.mark.parametrize("on_missing", ["wait", "proceed", "fail"])
def test_a_required_silo_is_missing(on_missing: str, tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        await lab.advance(29)
        if on_missing == "fail":
            lab.pass_time(1)
            result = await lab.ended()
            assert (result.state, result.detail) == ("FAILED", "no update in 30 s from site-d")
            return
        await lab.advance(3600)
        assert lab.run.state.round_index == 0
        tail = "; it does not close without site-d" if on_missing == "proceed" else ""
        assert lab.run.detail == WAITS_FOR_D + tail
        await lab.send_all(D)
        await lab.round_open(1)

        # without one that is not required
        await lab.send_all(A, B, D)
        await lab.look()
        lab.pass_time(5)
        if on_missing == "proceed":
            result = await lab.ended()
            assert (result.state, result.complete) == ("FINISHED", False)
            assert await lab.who() == [SILOS, [A, B, D]]
        else:
            await lab.look()
            assert lab.run.detail == "waiting for 1 more of 4 silos: site-c"

    settings = {"on_missing": on_missing, "round_deadline_s": 30, "grace_s": 5}
    if on_missing == "proceed":
        settings["min_silos"] = 2
    scene(tmp_path, act, required_silos=[D], **settings)


def test_a_silo_that_declines_in_mid_run_is_said_and_not_waited_for(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        session = await lab.join(D)  # it was restarted, and its data are gone
        await lab.c.registry.decline(session, "1-r", "the data folder is empty")
        await lab.send_all(A, B)
        await lab.look()
        assert lab.run.detail == (
            "waiting for 2 more of 4 silos: site-c, site-d; it needs 1 of them; "
            "site-d declined: the data folder is empty"
        )
        await lab.send_all(C)
        await lab.round_open(1)
        (record,) = await lab.rounds()
        assert record.left_out == {D: "declined: the data folder is empty"}
        assert (await lab.silo(D)).error == "the data folder is empty"
        session = await lab.join(D)  # mended and started again
        assert lab.run.offers_to(session)
        await lab.enroll(D)
        await lab.send_all(*SILOS)
        assert (await lab.ended()).state == "FINISHED"
        assert await lab.who() == [[A, B, C], SILOS]

    scene(tmp_path, act, grace_s=600, **PROCEED)


def test_who_has_declined_is_said_before_the_start(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A)
            await lab.c.registry.decline(await lab.join(B), "1-r", "no data was given")
            text = "waiting for 1 more of 2 silos to enrol; site-b declined: no data was given"
            await lab.until(lambda: lab.run.detail == text, text)

    play(go())


def test_a_required_silo_has_a_place_on_the_roster_whenever_it_comes(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2, required_silos=[D], min_silos=1) as lab:
            for name in (A, B, C):
                await lab.enroll(name)
            text = "waiting for site-d to enrol"
            await lab.until(lambda: lab.run.detail == text, text)
            await lab.enroll(D)
            await lab.round_open(0)
            assert lab.run.roster.frozen == [A, D]

    play(go())


def test_after_a_restart_silos_have_time_to_come_back(tmp_path: Path) -> None:
    """The new coordinator has heard of nobody; that does not make them dead."""
    settings: dict[str, Any] = {"grace_s": 20, "num_rounds": 3, **PROCEED}

    async def before() -> None:
        async with opened(tmp_path, **settings) as lab:
            await lab.send_all(A, B)

    async def after() -> None:
        async with life(tmp_path, **settings) as lab:
            await lab.round_open(0)
            assert list(lab.run.participants.accepted) == [A, B]
            await lab.join(C)
            await lab.send_all(C)
            await lab.look()
            assert lab.run.detail == (f"{WAITS_FOR_D}, 20 s of grace left; site-d is not connected")
            lab.pass_time(20)
            await lab.round_open(1)

            # one that never came back costs nothing once it had its time
            for name in (A, B):
                await lab.join(name)
            lab.pass_time(RETURN_S)
            await lab.send_all(A, B, C)
            await lab.look()
            lab.pass_time(20)
            await lab.round_open(2)
            await lab.send_all(A, B, C)
            await lab.ended()
            assert [r.left_out for r in await lab.rounds()] == 3 * [{D: "not connected"}]

    play(before())
    play(after())


def test_a_long_poll_ends_when_there_is_something_to_do(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A)
        asked = asyncio.create_task(lab.c.changes.silos.until(lambda: lab.assignment(A), 60.0, A))
        await lab.send_all(B, C, D)
        assignment = await asked
        assert assignment is not None
        assert (assignment.action, assignment.round_index) == ("TRAIN", 1)

    scene(tmp_path, act)


def test_a_silo_that_a_later_round_lacks_is_said_before_the_first(tmp_path: Path) -> None:
    async def go() -> None:
        settings = {"num_silos": 2, "participants": [[A, B], [A, "site-typo"]]}
        async with life(tmp_path, **settings) as lab:
            for name in (A, B):
                await lab.enroll(name)
            result = await lab.ended()
            assert result.state == "FAILED"
            assert result.detail == "participants[1] names site-typo, not on the roster"
            assert await lab.rounds() == []

    play(go())


def test_with_a_roster_the_tables_are_checked_at_submission(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, weights={A: 1.0}):
            pass

    with pytest.raises(ConfigError, match="weights has no entry for site-b"):
        play(go())


def test_numbers_of_a_model_that_was_discarded_are_left_out(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        now, other = lab.run.evaluations.model_digests[0], "0" * 32
        assert now != other
        sums = {"loss": Sum(1.0, 2.0)}
        for name in (A, B):
            lab.run.roster.enrolled[name] = Enrolment("trainer", 8, 2)
        await lab.run.evaluations.add(A, 0, sums, other)
        assert (lab.store.evaluations_of(RUN_ID), lab.run.evaluations.reported) == ([], {})
        await lab.run.evaluations.add(A, 0, sums, now)
        await lab.run.evaluations.add(B, 0, sums)  # an older version's silo
        kept = [(e.silo_id, e.model_digest) for e in lab.store.evaluations_of(RUN_ID)]
        assert kept == [(A, now), (B, None)]

    scene(tmp_path, act)


def test_who_has_tested_a_model_that_was_discarded_is_asked_to_test_the_new_one(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        evaluations = lab.run.evaluations
        now = evaluations.model_digests[0]
        lab.run.roster.enrolled[A] = Enrolment("trainer", 8, 3)

        def is_asked(tested: str) -> bool:
            assignment = lab.run.assignment_for(A, 0, tested)
            assert assignment is not None
            return assignment.evaluate

        assert [is_asked(tested) for tested in ("0" * 32, now, "")] == [True, False, False]
        evaluations.note_tested(A, 0, "0" * 32)
        assert evaluations.reported == {}
        evaluations.note_tested(A, 0, now)
        assert evaluations.reported == {0: {A}}

    scene(tmp_path, act, evaluate_every=1)


def test_what_silos_say_of_runs_and_models_that_are_not_is_not_kept(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        session = await lab.join(D)
        await lab.c.registry.decline(session, "2-other", "no such data")
        assert (session.declined, session.error) == ({}, None)
        for _ in range(3):
            await lab.c.registry.decline(session, "1-r", "no data")
        assert session.declined == {"1-r": "no data"}
        assert await lab.events("declined") == ["site-d declined 1-r: no data"]
        for index in (-1, 1, 2**40):
            lab.run.evaluations.note_tested(A, index)
        lab.run.evaluations.note_tested("site-x", 0)
        assert lab.run.evaluations.reported == {}
        lab.run.roster.enrolled[A] = Enrolment("trainer", 8, 3)
        assignments = [
            lab.run.assignment_for(A, i) for i in (-1, 0, 5)
        ]  # 5: its own state is a later one
        assert [assignment.evaluate for assignment in assignments if assignment] == [
            True,
            False,
            True,
        ]
        lab.run.evaluations.note_tested(A, 0)
        assert lab.run.evaluations.reported == {0: {A}}

    scene(tmp_path, act, evaluate_every=1)
