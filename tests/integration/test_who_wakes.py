"""Every kind of change wakes those whom it concerns, and nobody else."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from domo.run_config import RunConfig
from domo_proto.v1 import federation_pb2 as pb
from domo_server.dashboard.silo_page import silo_detail
from domo_server.dashboard.stream import StreamHub
from domo_server.events.notifier import Notifier
from domo_server.rpc.control import FederationServicer
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, living, play

A, B, C = SILOS[:3]
LOOPS, PAGE = "loops", "page"
SETTINGS = {"roster": [A, B], "num_rounds": 3}
ALL = {A, B, C, LOOPS, PAGE}
MOVED = {LOOPS, PAGE}
QUEUED = RunConfig(task="digits", num_rounds=1, num_silos=1)


class NoTls:
    """What a handler asks of a call without certificates."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def auth_context(self) -> dict[str, Any]:
        return {}


@contextlib.asynccontextmanager
async def begun(folder: Path) -> AsyncIterator[Lab]:
    """Round 0 of A and B is open; C is connected, and has no place in the run."""
    async with life(folder, **SETTINGS) as lab:
        await lab.join(C)
        for name in (A, B):
            await lab.enroll(name, num_tests=8)
        await lab.round_open(0)
        await lab.c.events.flush()
        yield lab


async def woken_by(lab: Lab, change: Callable[[], Awaitable[Any]], wanted: set[str]) -> set[str]:
    """Who is woken by a change; those who should be are waited for."""
    changes, woken = lab.c.changes, set[str]()

    async def wait(notifier: Notifier, name: str, who: str = "") -> None:
        await notifier.changed(None, who)
        woken.add(name)

    tasks = {name: asyncio.create_task(wait(changes.silos, name, name)) for name in (A, B, C)}
    tasks[LOOPS] = asyncio.create_task(wait(changes.loops, LOOPS))
    tasks[PAGE] = asyncio.create_task(wait(changes.page, PAGE))
    await asyncio.sleep(0)
    try:
        await change()
        await asyncio.wait([tasks[name] for name in wanted], timeout=30)
        await lab.c.events.flush()
        for _ in range(10):
            await asyncio.sleep(0)
        return woken
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values())


def rpc(lab: Lab, name: str, request: Any, silo_id: str) -> Callable[[], Awaitable[Any]]:
    """A call of a silo."""
    session = lab.c.sessions.of(silo_id)
    assert session is not None
    request.session = session.token
    return lambda: getattr(FederationServicer(lab.c), name)(request, NoTls())


async def submit(lab: Lab) -> None:
    values = {**lab.run.config.model_dump(), "name": "next"}
    await lab.c.submissions.submit(values)


def taken_back(lab: Lab, silo_id: str) -> Callable[[], Awaitable[Any]]:
    lab.c.registry.dropped[silo_id] = "on holiday"
    return lambda: lab.view.undrop(silo_id)


async def damage(lab: Lab) -> None:
    lab.run.note_damage(OSError(5, "Input/output error"))


async def silence(lab: Lab) -> None:
    lab.alive.discard(B)
    lab.clock.now += 6


KINDS: dict[str, tuple[Callable[[Lab], Callable[[], Awaitable[Any]]], set[str]]] = {
    "a heartbeat": (
        lambda lab: rpc(lab, "Report", pb.ReportRequest(phase=pb.TRAINING, run_id=RUN_ID), A),
        {PAGE},
    ),
    "a failure": (
        lambda lab: rpc(lab, "Report", pb.ReportRequest(run_id=RUN_ID, failure="no"), A),
        MOVED,
    ),
    "a decline": (
        lambda lab: rpc(lab, "Decline", pb.DeclineRequest(run_id=RUN_ID, reason="no"), A),
        MOVED,
    ),
    "a silo that is not ready": (
        lambda lab: rpc(
            lab,
            "Report",
            pb.ReportRequest(run_id=RUN_ID, not_ready=pb.NotReady(reason="no", looks_again_s=2)),
            A,
        ),
        MOVED,
    ),
    "numbers": (
        lambda lab: rpc(lab, "ReportEvaluation", pb.ReportEvaluationRequest(run_id=RUN_ID), A),
        MOVED,
    ),
    "a goodbye": (lambda lab: rpc(lab, "Leave", pb.LeaveRequest(), C), {C, *MOVED}),
    "a new session": (lambda lab: lambda: lab.join(C), {C, *MOVED}),
    "an enrolment": (lambda lab: lambda: lab.enroll(A, num_tests=8), MOVED),
    "an update": (lambda lab: lambda: lab.send(A), MOVED),
    "the last update": (lambda lab: lambda: lab.send_all(A, B), ALL),
    "a silo is left out": (lambda lab: lambda: lab.view.drop(A, "no"), {A, *MOVED}),
    "a run is submitted": (lambda lab: lambda: submit(lab), MOVED),
    "a pause": (lambda lab: lambda: lab.view.pause(RUN_ID), ALL),
    "a stop": (lambda lab: lambda: lab.view.stop(RUN_ID), ALL),
    "a file that cannot be read": (lambda lab: lambda: damage(lab), ALL),
    "a silo that is silent": (lambda lab: lambda: silence(lab), MOVED),
    "a silo is taken back": (lambda lab: taken_back(lab, C), {C, *MOVED}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_wakes_whom_it_concerns(kind: str, tmp_path: Path) -> None:
    make, wanted = KINDS[kind]

    async def go() -> None:
        async with begun(tmp_path) as lab:
            assert await woken_by(lab, make(lab), wanted) == wanted

    play(go())


def test_an_update_that_is_refused_later_wakes_its_silo(tmp_path: Path) -> None:
    """The norms are known once all updates are here; the silo waits for the next round by then."""

    async def go() -> None:
        names = SILOS[:4]
        settings = {"roster": names, "num_rounds": 2, "norm_check": "reject", "norm_factor": 10.0}
        async with life(tmp_path, **settings) as lab:
            for name in names:
                await lab.enroll(name)
            await lab.round_open(0)
            asked = asyncio.create_task(
                lab.c.changes.silos.until(
                    lambda: lab.assignment(A) if lab.run.participants.failed else None, 60.0, A
                )
            )
            assert await lab.send(A, 1e6)
            await lab.send_all(*names[1:])
            assignment = await asyncio.wait_for(asked, 10)
            assert assignment is not None
            assert assignment.action == "TRAIN"

    play(go())


def test_what_the_page_shows_between_runs_is_read_without_all_of_them(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        async with living(Lab(tmp_path)) as lab:
            for name in ("first", "second"):
                await lab.c.submissions.submit_once(QUEUED, name)
            await lab.join(A)
            hub = StreamHub(lab.view)
            with statements() as said:
                async with contextlib.aclosing(hub.messages()) as messages:
                    texts = [await anext(messages) for _ in range(2)]
                detail = await silo_detail(lab.view, await lab.silo(A))
            assert '"run_id":"2-second"' in texts[1]
            assert detail.rounds_run_id == "2-second"
            return said

    said = asyncio.run(scene())
    of_runs = [text for text in said if re.search(r"\bFROM runs\b", text)]
    assert of_runs
    assert [s for s in of_runs if not re.search("WHERE|LIMIT|GROUP BY", s)] == []


@contextlib.contextmanager
def statements() -> Iterator[list[str]]:
    """What databases are asked meanwhile."""
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(Engine, "before_cursor_execute", note)
