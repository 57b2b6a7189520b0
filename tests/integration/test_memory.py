"""What a coordinator holds of a run that has ended: nothing of its models."""

import contextlib
import gc
import tracemalloc
from pathlib import Path

import torch

from domo.training.initial import save_initial
from domo_proto.codec import VectorId
from domo_server.runs.wire_vector import WireVector
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, play

A = SILOS[0]
MODEL_BYTES = 8_000_000
SMALL_BYTES = MODEL_BYTES // 4
"""More than what the first use of libraries keeps; less than a part of one model."""


async def fetch(lab: Lab) -> None:
    """A silo fetches all that its assignment has."""
    await lab.until(lambda: lab.assignment(A) is not None)
    assignment = lab.assignment(A)
    assert assignment is not None
    assert VectorId.X in assignment.vectors
    for wire in assignment.vectors.values():
        at = 0
        while at < wire.num_bytes:
            _, at = await wire.frame(at)


def vectors_held() -> int:
    gc.collect()
    return sum(type(o) is WireVector for o in gc.get_objects())  # not `isinstance`: it asks proxies


def files_open(folder: Path) -> list[str]:
    """Those of a folder that this process has open."""
    paths = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            paths.append(str(link.readlink()))
    return [path for path in paths if path.startswith(str(folder))]


def test_memory_after_a_run_is_memory_before_it(tmp_path: Path) -> None:
    async def go() -> None:
        save_initial(torch.nn.Linear(1000, MODEL_BYTES // 4000 - 1), tmp_path / "x0.safetensors")
        vectors = vectors_held()
        async with life(tmp_path, roster=[A], num_rounds=2) as lab:
            await lab.enroll(A)
            before, _ = tracemalloc.get_traced_memory()
            for r in range(2):
                await lab.round_open(r)
                await fetch(lab)
                during, _ = tracemalloc.get_traced_memory()
                assert during - before > MODEL_BYTES, "the frames are kept for the next silo"
                await lab.send_all(A)
            await lab.ended()
            assert lab.c.queue.find(RUN_ID) is lab.run, "silos may still ask about it"
            assert vectors_held() == vectors
            assert files_open(lab.run.folder) == []
            after, _ = tracemalloc.get_traced_memory()
            assert after - before < SMALL_BYTES

    tracemalloc.start()
    try:
        play(go())
    finally:
        tracemalloc.stop()


def test_a_run_that_is_to_be_tried_again_keeps_nothing_of_the_try_before(tmp_path: Path) -> None:
    async def go() -> None:
        vectors = vectors_held()
        async with life(tmp_path, roster=[A]) as lab:
            await lab.enroll(A)
            await lab.round_open(0)
            await fetch(lab)
            assert vectors_held() > vectors
            lab.run.note_damage(OSError("not there for a moment"))
            await lab.until(lambda: lab.run.stuck)
            assert vectors_held() == vectors
            assert lab.assignment(A) is None, "until it is loaded again"

    play(go())
