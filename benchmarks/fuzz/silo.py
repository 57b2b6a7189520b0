"""What a silo reads of its coordinator: offers, layouts, headers, frames, errors, meanings."""

import contextlib
import itertools
import json
import logging
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
from torch import nn

from benchmarks.fuzz.wild import damaged, fill, text, wild_json
from benchmarks.fuzz.wire import reseal
from domo.errors import DomoError
from domo.meaning.value import Meaning
from domo.model.flat import FlatModel, byte_view
from domo.run_config import RunConfig
from domo_client.loop.header import Agreed
from domo_client.rpc.control import MOST_WANTED, _layout
from domo_client.rpc.offer import Offer, offer_in
from domo_client.rpc.vectors import Vectors
from domo_client.state.folder import SiloState
from domo_client.telemetry.counts import Counts
from domo_proto.assignment import SECTIONS, Action, Announced, Assignment, read_header, sizes_of
from domo_proto.codec import VectorId, encode, parse
from domo_proto.errors import CODE_KEY, ERROR_KEY, from_rpc
from domo_proto.texts import with_lines
from domo_proto.v1 import federation_pb2 as pb

CONFIG = {"task": "own:Loop", "method": "DOMO", "num_rounds": 3, "num_silos": 2, "local_steps": 4}


class WildError(grpc.RpcError):
    """A status that a coordinator, or somebody in between, answers with."""

    def __init__(self, rng: random.Random):
        super().__init__()
        self._code = rng.choice(list(grpc.StatusCode))
        self._text = text(rng)
        self._told = ((ERROR_KEY, text(rng)), (CODE_KEY, text(rng)))[: rng.randrange(3)]

    def code(self) -> grpc.StatusCode:
        """The status."""
        return self._code

    def details(self) -> str:
        """Its text."""
        return self._text

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with it."""
        return self._told


class Silo:
    """A silo in the middle of a run, without a network.

    Args:
        folder: Its state.
    """

    def __init__(self, folder: Path):
        self.state = SiloState(folder)
        model = FlatModel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
        self.layout, self.config = model.layout, RunConfig.model_validate(CONFIG)
        self.session: Any = SimpleNamespace(counts=Counts(), advanced=0)
        self.bytes = {v: bytes(byte_view(model.read(s))) for v, s in SECTIONS.items()}
        self.offer = pb.RunOffer(
            run_id="1-r",
            title="r",
            task=self.config.task,
            config_json=self.config.model_dump_json(),
            config_digest=self.config.digest,
            layout_digest=bytes.fromhex(self.layout.digest),
        )
        self.known: dict[str, list[Any]] = {
            "run_id": ["1-r"],
            "num_rounds": [3],
            "num_steps": [4],
            "local_lr": [self.config.local_lr],
            "action": [pb.TRAIN, pb.EVALUATE, pb.END],
            "round_index": [0, 1, 2],
            "num_bytes": [len(b) for b in self.bytes.values()],
            "config_digest": [self.config.digest],
            "config_json": [self.offer.config_json],
        }

    def header(self, rng: random.Random) -> tuple[Any, list[bytes]]:
        """A right header of round 0, and its frames."""
        there = [VectorId.X, VectorId.FLOAT_BUFFERS, VectorId.INTEGER_BUFFERS]
        import xxhash

        vectors = {
            v: Announced(len(self.bytes[v]), xxhash.xxh3_128_digest(self.bytes[v])) for v in there
        }
        told: Assignment[Announced] = Assignment(
            Action.TRAIN, "1-r", 0, 3, 4, self.config.lr_at(0), None, vectors=vectors
        )
        frames = [bytes(m) for v in there for m in encode(v, memoryview(self.bytes[v]))]
        return told.header(dict.fromkeys(there, 0)), frames

    def fetch(self, header: bytes, frames: Iterator[bytes]) -> None:
        """What `Data.fetch_round` does with an answer."""
        vectors = Vectors(self.session, self.state)
        vectors.expect(self.layout)
        told = read_header(parse(pb.RoundHeader, header), sizes_of(self.layout))
        offer = Offer("1-r", "r", "own:Loop", self.config)
        Agreed(offer, "site-a", "trainer", 100, 10).check(told)
        watch: Any = SimpleNamespace(feed=lambda seconds: None)
        vectors.receive(told, frames, watch, ())


def one(silo: Silo, rng: random.Random) -> None:
    """One answer of a hostile coordinator; raises what is no DomoError."""
    kind = rng.randrange(7)
    if kind == 0:
        message = pb.RunOffer()
        message.CopyFrom(silo.offer)
        if rng.random() < 0.6:
            message.config_json = wild_json(rng, json.loads(silo.offer.config_json))
        else:
            fill(rng, message, silo.known, 0.3)
        offer_in(with_lines(message))
    elif kind == 1:
        _layout(wild_json(rng, json.loads(silo.layout.to_json()))).check_same(silo.layout)
    elif kind == 2:
        header = fill(rng, pb.RoundHeader(), silo.known)
        silo.fetch(header.SerializeToString(), iter(()))
    elif kind == 3:
        header, frames = silo.header(rng)
        for info in header.vectors:
            fill(rng, info, silo.known, 0.1)
        silo.fetch(fill(rng, header, silo.known, 0.1).SerializeToString(), iter(frames))
    elif kind == 4:
        header, frames = silo.header(rng)
        at = rng.randrange(len(frames))
        wild = damaged(rng, frames[at])
        frames[at] = reseal(bytearray(wild)) if len(wild) >= 32 and rng.random() < 0.8 else wild
        silo.fetch(header.SerializeToString(), itertools.chain(frames, frames))
    elif kind == 5:
        raise from_rpc(WildError(rng), "127.0.0.1:1")
    else:
        good = {"classes": ["a", "b"], "task_code": "x", "inputs": {"mean": [0.5]}}
        Meaning.from_json(wild_json(rng, good), MOST_WANTED)


def run(cases: int, seed: int) -> int:
    """So many cases; how many were made."""
    rng = random.Random(seed)
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        silo = Silo(Path(folder) / "silo")
        header, frames = silo.header(rng)
        silo.fetch(header.SerializeToString(), iter(frames))
        for _ in range(cases):
            with contextlib.suppress(DomoError):
                one(silo, rng)
        silo.fetch(header.SerializeToString(), iter(frames))
        silo.state.close()
    logging.disable(logging.NOTSET)
    return cases
