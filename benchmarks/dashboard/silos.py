"""Silos at a pace of real life: 4 KB of model, steps and losses reported, tests sent each round.

They are threads of one process, so that neither the coordinator nor a browser shares it.
"""

import contextlib
import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.data_plane import light
from domo.errors import DomoError
from domo.meaning.value import NOTHING
from domo.tasks.base import Sum
from domo_client.rpc.control import Control
from domo_client.rpc.data import Tested
from domo_client.rpc.session import Session
from domo_client.state.folder import PendingUpdate, SiloState
from domo_proto.codec import VectorId, model_digest

NUM_PARAMS = 1024
NUM_STEPS = 100_000
NUM_TESTS = 100
STEPS_A_REPORT = 10


@dataclass(frozen=True)
class Pace:
    """How fast silos are.

    Attributes:
        train_s: Mean length of a round's training; each silo and round differs by up to a third.
        report_s: Between two heartbeats.
        quick_rounds: The first rounds, which take no time.
    """

    train_s: float
    report_s: float
    quick_rounds: int = 0


class Cause(NamedTuple):
    """Something that a silo is about to tell the coordinator; seconds of the wall clock."""

    silo_id: str
    what: str
    at_s: float


def name_of(silo: int) -> str:
    """The name of silo k."""
    return f"silo-{silo:03d}"


def step_words(step: int) -> str:
    """What its card says at a step."""
    return f"step {step} of {NUM_STEPS}"


@contextlib.contextmanager
def silos(
    address: str, folder: Path, num_silos: int, pace: Pace, spare: int = 0
) -> Iterator["Queue[Cause]"]:
    """A process with silos; it ends with the block.

    Args:
        address: The coordinator's.
        folder: For their state folders.
        num_silos: How many take part in the run.
        pace: Of each.
        spare: How many more are connected and idle.
    """
    context = multiprocessing.get_context("spawn")
    causes: Queue[Cause] = context.Queue()
    arguments = (address, folder, num_silos, pace, spare, causes)
    process = context.Process(target=_all, args=arguments, daemon=True)
    process.start()
    try:
        yield causes
    finally:
        process.kill()
        process.join()


def _all(
    address: str, folder: Path, num_silos: int, pace: Pace, spare: int, causes: "Queue[Cause]"
) -> None:
    torch.set_num_threads(1)
    threads = [
        threading.Thread(target=_silo, args=(k, address, folder, pace, causes, k >= num_silos))
        for k in range(num_silos + spare)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _silo(
    k: int, address: str, folder: Path, pace: Pace, causes: "Queue[Cause]", is_spare: bool
) -> None:
    state = SiloState(folder / name_of(k))
    session = Session(address, name_of(k), state.instance_id)
    control, data = Control(session), light.Streaming(session, state)
    session.join()
    while is_spare:
        _report(control, phase="idle")
        time.sleep(pace.report_s)
    layout = light.layout_of(NUM_PARAMS)
    data.vectors.expect(layout)
    data.make_up(NUM_PARAMS, 1, light.value_of(k))
    while (offer := control.wait_for_run()) is None:
        pass
    control.enroll(offer, layout, 1000 + k, NUM_TESTS, NOTHING)
    chance = random.Random(k)
    tested = Tested()
    while True:
        told, _ = data.fetch_round(offer.run_id, tested, list(data.vectors.seen))
        if told.action == "ASK_AGAIN":
            continue
        r = told.round_index
        if r > tested.model_index:
            tested = Tested(r, model_digest(told.digests))
            control.report_evaluation(offer.run_id, r, tested.digest, _sums(r, chance))
        if told.action == "END":
            break
        loss = 2.0 / (1 + 0.02 * r) + chance.random() * 0.1
        if r >= pace.quick_rounds:
            _train(name_of(k), control, offer.run_id, r, loss, pace, chance, causes)
        sizes = [(VectorId.UPDATE, 4 * NUM_PARAMS)]
        update = PendingUpdate(
            offer.run_id, r, "", data.digest, sizes, told.num_steps, {"loss": loss}
        )
        causes.put(Cause(name_of(k), f"update {r}", time.time()))
        data.submit(update)


def _train(
    silo_id: str,
    control: Control,
    run_id: str,
    r: int,
    loss: float,
    pace: Pace,
    chance: random.Random,
    causes: "Queue[Cause]",
) -> None:
    """As long as a round takes, with a heartbeat now and then."""
    end = time.monotonic() + pace.train_s * (2 + 2 * chance.random()) / 3
    step = r * STEPS_A_REPORT
    while time.monotonic() < end:
        step += 1
        causes.put(Cause(silo_id, step_words(step), time.time()))
        _report(
            control, phase="training", run_id=run_id, round_index=r, step=step,
            num_steps=NUM_STEPS, loss=loss,
        )  # fmt: skip
        time.sleep(pace.report_s * (0.8 + 0.4 * chance.random()))


def _report(control: Control, **fields: Any) -> None:
    nothing = {"run_id": "", "round_index": 0, "step": 0, "num_steps": 0}
    with contextlib.suppress(DomoError):  # the next one comes soon
        control.report(**{**nothing, **fields})


def _sums(r: int, chance: random.Random) -> dict[str, Sum]:
    right = NUM_TESTS * (1 - 0.8 / (1 + 0.02 * r)) + chance.random()
    return {
        "accuracy": Sum(right, NUM_TESTS),
        "loss": Sum(NUM_TESTS * 2 / (1 + 0.02 * r), NUM_TESTS),
    }
