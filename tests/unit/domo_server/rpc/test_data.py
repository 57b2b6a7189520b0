import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from domo.errors import ProtocolError
from domo_proto.codec import encode_frame
from domo_proto.v1 import federation_pb2 as pb
from domo_server.events.counters import Counters
from domo_server.rpc import data as transfer
from domo_server.rpc.data import DataServicer, _on_thread
from domo_server.rpc.transfers import Transfers
from domo_server.silos.session import Session
from domo_server.store.spool import Part, Upload, held_bytes


def test_a_cancelled_call_ends_after_its_work() -> None:
    """The file that the work writes to is closed next; another file may get its number."""
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert release.wait(60)
        finished.set()

    async def main() -> None:
        task = asyncio.create_task(_on_thread(work))
        await asyncio.to_thread(started.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert finished.is_set()

    asyncio.run(main())


def test_results_and_errors_come_through() -> None:
    async def main() -> None:
        assert await _on_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await _on_thread(divmod, 1, 0)

    asyncio.run(main())


VALUES = bytes(40)
PARTS = [Part(7, 40, torch.float32)]


class OneRun:
    """What `_receive` asks of a run."""

    clock = staticmethod(time.monotonic)

    def __init__(self, folder: Path):
        self.folder, self.events = folder, SimpleNamespace(counters=Counters())
        self.receiver = self

    def begin_upload(self, silo_id, parts, digest, offset, num_steps) -> Upload:
        return Upload(self.folder, silo_id, digest, PARTS, offset)


async def receive(folder: Path, ended: asyncio.Event) -> None:
    """An upload of which the first half comes, and then the stream ends."""

    async def messages():
        yield encode_frame(7, 0, memoryview(VALUES)[:20])
        ended.set()

    header = pb.UpdateHeader(digest=bytes(16), vectors=[pb.VectorInfo(id=pb.UPDATE, num_bytes=40)])
    session = Session("t", "a", "i", "trainer", "", "", 0.0, 2.0)
    servicer = DataServicer.__new__(DataServicer)
    servicer._coordinator = SimpleNamespace(durable_updates=False, counters=Counters())
    async with Transfers().newest("a") as progress:
        await servicer._receive(OneRun(folder), session, header, messages(), progress)


def test_a_lost_connection_may_look_like_the_end_of_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """grpc says that the call is cancelled a moment after it has said that the stream is over."""
    monkeypatch.setattr(transfer, "LOST_S", 60.0)

    async def main() -> None:
        ended = asyncio.Event()
        task = asyncio.create_task(receive(tmp_path, ended))
        await ended.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert held_bytes(tmp_path, "a", 16 * "00", PARTS) == 20


def test_a_stream_that_its_silo_has_ended_early_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "LOST_S", 0.0)
    with pytest.raises(ProtocolError, match="ended after 20 of 40 bytes"):
        asyncio.run(receive(tmp_path, asyncio.Event()))
    assert held_bytes(tmp_path, "a", 16 * "00", PARTS) == 0
