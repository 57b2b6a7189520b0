"""What silos hold open while their run is loaded again goes on with it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
import xxhash

import domo_server.coordinator.queue
from domo.model.flat import byte_view
from domo_proto.codec import VectorId, encode
from domo_proto.v1 import federation_pb2 as pb
from domo_server.rpc.data import DataServicer
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, play

A, B = SILOS[:2]


class Call:
    """A call without certificates; what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def auth_context(self) -> dict[str, Any]:
        return {}

    async def write(self, message: bytes) -> None:
        self.written.append(message)


def token(lab: Lab, name: str) -> str:
    session = lab.c.sessions.of(name)
    assert session is not None
    return session.token


async def load_again(lab: Lab) -> None:
    before = lab.run
    before.note_damage(OSError(5, "Input/output error"))
    await lab.until(lambda: lab.run is not before and lab.run.ready)


def scene(folder: Path, monkeypatch: pytest.MonkeyPatch, act: Any, **settings: Any) -> None:
    """Round 0 of A and B is open."""
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.05)

    async def go() -> None:
        async with life(folder, roster=[A, B], num_rounds=3, **settings) as lab:
            for name in (A, B):
                await lab.enroll(name)
            await lab.round_open(0)
            await act(lab)

    play(go())


def test_a_silo_that_waits_is_told_of_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A)
        call = Call()
        request = pb.FetchRequest(session=token(lab, A), run_id=RUN_ID, evaluated_index=-1)
        servicer = DataServicer(lab.c)
        asked = asyncio.create_task(servicer.FetchRound(request.SerializeToString(), call))
        await asyncio.sleep(0)
        await load_again(lab)
        assert not asked.done()
        await lab.send_all(B)
        await asyncio.wait_for(asked, lab.c.long_poll_s / 2)
        header = pb.RoundHeader.FromString(call.written[0])
        assert (header.action, header.round_index) == (pb.TRAIN, 1)

    scene(tmp_path, monkeypatch, act)


def test_a_pause_and_its_end_come_though_they_were_not_reached_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(lab: Lab) -> None:
        lab.run.note_damage(OSError(5, "Input/output error"))
        await lab.view.pause(RUN_ID)
        await lab.until(lambda: lab.run.state.phase == "PAUSED")
        lab.run.note_damage(OSError(5, "Input/output error"))
        await lab.view.resume(RUN_ID)
        await lab.until(lambda: lab.run.state.phase == "OPEN")

    scene(tmp_path, monkeypatch, act)


def test_a_silo_may_decline_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(lab: Lab) -> None:
        before, session = lab.run, lab.c.sessions.of(A)
        assert session is not None
        before.note_damage(OSError(5, "Input/output error"))
        await lab.until(lambda: lab.run is not before)
        assert not lab.run.ready
        await lab.c.registry.decline(session, RUN_ID, "no data")
        await lab.until(lambda: lab.run.ready)
        assert not lab.run.offers_to(session)
        assert lab.run.participants.why_not(A) == "declined: no data"

    scene(tmp_path, monkeypatch, act)


def test_an_update_that_is_on_its_way_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(lab: Lab) -> None:
        assert lab.run.model.current is not None
        d = torch.ones(lab.run.model.current.num_entries("x"))
        header = pb.UpdateHeader(
            session=token(lab, A),
            run_id=RUN_ID,
            vectors=[pb.VectorInfo(id=pb.UPDATE, num_bytes=4 * len(d))],
            digest=xxhash.xxh3_128_digest(byte_view(d)),
            num_steps=2,
        )
        begun, rest = asyncio.Event(), asyncio.Event()

        async def messages() -> AsyncIterator[bytes]:
            yield header.SerializeToString()
            begun.set()
            await rest.wait()
            for message in encode(VectorId.UPDATE, byte_view(d)):
                yield message

        sent = asyncio.create_task(DataServicer(lab.c).SubmitUpdate(messages(), Call()))
        await begun.wait()
        await load_again(lab)
        rest.set()
        assert pb.SubmitResponse.FromString(await sent).state == pb.ACCEPTED
        assert list(lab.run.participants.accepted) == [A]
        await lab.send_all(B)
        await lab.round_open(1)

    scene(tmp_path, monkeypatch, act)
