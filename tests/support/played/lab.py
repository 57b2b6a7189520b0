"""A coordinator in the test's own event loop, on a clock that only the test moves.

Silos are played by the test: they join, enrol, send and fall silent when it says so.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import torch
import xxhash

from domo.api.schema import RoundRecord, RunDetail, SiloStatus
from domo.meaning.value import NOTHING, Meaning
from domo.model.flat import byte_view
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.training.initial import save_initial
from domo_proto.assignment import Assignment
from domo_proto.codec import VectorId, decode_frame, encode
from domo_server.coordinator.coordinator import Coordinator
from domo_server.monitor.monitor import STALL_AFTER_S, Watch
from domo_server.runs.run import Run
from domo_server.runs.wire_vector import WireVector
from domo_server.silos.session import Session
from domo_server.store.database import open_database
from domo_server.store.rows import Enrolment
from domo_server.store.store import Store
from domo_server.view.view import CoordinatorView
from tests.support.played.clock import Clock

PATIENCE_S = 200.0
RUN_ID = "1-r"
SILOS = ["site-a", "site-b", "site-c", "site-d"]


class Lab:
    """One life of a coordinator, with the run `r`."""

    def __init__(self, folder: Path, clock: Clock | None = None):
        self.folder, self.clock = folder, clock or Clock()
        self.store = Store(open_database(f"sqlite:///{folder / 'coordinator.db'}"))
        self.c = Coordinator(self.store, folder / "state", clock=self.clock)
        self.watch = Watch(self.c, STALL_AFTER_S)
        self.view = CoordinatorView(self.c, self.watch, "here", False)
        self.alive: set[str] = set()
        self.decided = 0

    @property
    def run(self) -> Run:
        run = self.c.queue.find(RUN_ID)
        assert run is not None
        return run

    async def until(self, good: Callable[[], Any], what: str = "") -> None:
        end = time.monotonic() + PATIENCE_S
        while not good():
            task = self.c.queue._task
            assert task is None or not task.done(), "the coordinator's loop has ended"
            assert time.monotonic() < end, f"{what}: {self.run.state}, {self.run.detail}"
            await asyncio.sleep(0.001)

    # silos

    async def join(self, name: str, instance: str = "") -> Session:
        who = {"silo_id": name, "instance_id": instance or name, "role": "trainer"}
        self.alive.add(name)
        return await self.c.registry.join({**who, "device": "", "software_version": ""})

    async def enroll(
        self, name: str, num_samples: int = 8, num_tests: int = 0, meaning: Meaning = NOTHING
    ) -> Session:
        session = self.c.sessions.of(name) or await self.join(name)
        assert self.run.model.layout is not None
        place = Enrolment(session.role, num_samples, num_tests, meaning)
        await self.run.enroll(session, bytes.fromhex(self.run.model.layout.digest), place)
        return session

    def assignment(self, name: str) -> Assignment[WireVector] | None:
        return self.run.assignment_for(name, -1)

    async def send(self, name: str, scale: float = 1.0, r: int | None = None) -> bool:
        """A whole update of the open round; whether it counts."""
        run, receiver = self.run, self.run.receiver
        r = run.state.round_index if r is None else r
        await self.until(lambda: run.model.current is not None)
        assert run.model.current is not None
        d = torch.full((run.model.current.num_entries("x"),), scale * (1.0 + SILOS.index(name)))
        digest = xxhash.xxh3_128_hexdigest(byte_view(d))
        if not receiver.wants(name, r) or receiver.upload_state(name, r, digest)[0] != "absent":
            return False
        steps = run.config.steps_at(r, name, run.roster.enrolled[name].num_samples)
        upload = receiver.begin_upload(name, [(VectorId.UPDATE, 4 * len(d))], digest, 0, steps)
        try:
            for message in encode(VectorId.UPDATE, byte_view(d)):
                upload.write(decode_frame(message))
            norm = upload.finish()
        finally:
            upload.close()
        return await receiver.accept(name, r, upload, norm, steps, {"loss": 1.0})

    async def send_all(self, *names: str) -> None:
        for name in names:
            assert await self.send(name), name

    # time

    async def look(self) -> None:
        """Let the run decide its round again."""
        before = self.decided
        self.c.changes.moved()
        await self.until(lambda: self.decided > before, "decided")

    def pass_time(self, seconds: float) -> None:
        """Time passes; silos that are alive send their heartbeats."""
        self.clock.now += seconds
        for name in self.alive:
            session = self.c.sessions.of(name)
            if session is not None:
                self.c.sessions.get(session.token)
        self.c.changes.moved()

    async def advance(self, seconds: float) -> None:
        self.pass_time(seconds)
        await self.look()

    # what is seen

    async def round_open(self, r: int) -> None:
        await self.until(
            lambda: self.run.state.round_index == r and self.run.state.phase == "OPEN",
            f"round {r} is open",
        )
        self._count_decisions()

    async def ended(self) -> RunDetail:
        await self.until(lambda: self.run.state.ended, "the end")
        for _ in range(1000):
            detail = await self.view.run(RUN_ID)
            assert detail is not None
            if detail.finished_at is not None:
                return detail
            await asyncio.sleep(0.002)
        raise AssertionError("the end was not recorded")

    async def rounds(self) -> list[RoundRecord]:
        return list(await self.view.rounds(RUN_ID) or [])

    async def who(self) -> list[list[str]]:
        return [[p.silo_id for p in r.participants] for r in await self.rounds()]

    async def silo(self, name: str) -> SiloStatus:
        return next(s for s in await self.view.silos() if s.silo_id == name)

    async def events(self, kind: str) -> list[str]:
        await asyncio.to_thread(self.c.events._thread.submit(int).result)  # all are recorded now
        return [e.text for e in await self.view.events(limit=1000) if e.kind == kind]

    def _count_decisions(self) -> None:
        participants = self.run.participants
        if "decide" in vars(participants):
            return
        real = participants.decide

        def decide() -> Any:
            self.decided += 1
            return real()

        participants.decide = decide  # type: ignore[method-assign]


@contextlib.asynccontextmanager
async def living(lab: Lab) -> AsyncIterator[Lab]:
    """A coordinator that ends with the block."""
    looking = asyncio.create_task(lab.watch.forever())
    try:
        yield lab
    finally:
        looking.cancel()
        await lab.c.shutdown()
        await lab.c.events.close()
        lab.store.close()


@contextlib.asynccontextmanager
async def life(
    folder: Path,
    clock: Clock | None = None,
    module: torch.nn.Module | None = None,
    **settings: Any,
) -> AsyncIterator[Lab]:
    """A coordinator with the run `r`: begun, or gone on with after an earlier life."""
    x0 = folder / "x0.safetensors"
    if not x0.exists():
        torch.manual_seed(1)
        save_initial(torch.nn.Linear(3, 2) if module is None else module, x0)
    values = {
        "name": "r",
        "task": "own:Loop",
        "method": "DOMO",
        "num_rounds": 2,
        **({} if "local_epochs" in settings else {"local_steps": 2}),
        "initial_model": str(x0),
        "evaluate_every": 0,
        **({} if "num_silos" in settings else {"roster": SILOS}),
        **settings,
    }
    async with living(Lab(folder, clock)) as lab:
        await lab.c.submissions.submit_once(validate(RunConfig, values, "the test"), "r")
        lab.c.start()
        await lab.until(lambda: lab.c.queue.find(RUN_ID) is not None and lab.run.ready)
        yield lab


@contextlib.asynccontextmanager
async def opened(folder: Path, num_tests: int = 0, **settings: Any) -> AsyncIterator[Lab]:
    """A federation with all of its silos enrolled, and round 0 open."""
    async with life(folder, **settings) as lab:
        roster = settings.get("roster", SILOS)
        for name in roster:
            await lab.enroll(name, num_tests=num_tests)
        await lab.round_open(0)
        yield lab


def play(scene: Coroutine[Any, Any, None]) -> None:
    """Run a scene, bounded."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S + 30):
            await scene

    asyncio.run(bounded())
