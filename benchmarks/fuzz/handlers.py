"""What the coordinator's handlers read of silos, and that nothing of a run changes by it.

A run of two honest silos and one that sends everything, and strangers with no place, some with its
session, some with none. At the end the run is the undisturbed one's, to the byte.
"""

import asyncio
import contextlib
import json
import logging
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import xxhash

from benchmarks.fuzz.wild import damaged, fill, wild_json
from benchmarks.fuzz.wire import reseal
from domo.model.model_file import load_weights
from domo_proto.codec import VectorId, encode_frame
from domo_proto.v1 import federation_pb2 as pb
from domo_server.rpc import data
from domo_server.rpc.control import FederationServicer
from domo_server.rpc.data import DataServicer
from domo_server.silos import allowed
from tests.support.played.lab import Lab, opened

SILOS = ["site-a", "site-b", "site-c"]
ROUNDS = 3
HARMLESS = ("ReportEvaluation", "Report", "UploadStatus", "FetchRound", "SubmitUpdate", "LookAtRun")
"""What the third silo of the run sends: what it may do does not end its part in the run."""
CONTROL = {
    "Join": pb.JoinRequest,
    "WaitForRun": pb.WaitForRunRequest,
    "LookAtRun": pb.LookAtRunRequest,
    "Enroll": pb.EnrollRequest,
    "Decline": pb.DeclineRequest,
    "UploadStatus": pb.UploadStatusRequest,
    "ReportEvaluation": pb.ReportEvaluationRequest,
    "Report": pb.ReportRequest,
    "Leave": pb.LeaveRequest,
    "Attend": pb.AttendRequest,
    "Certify": pb.CertifyRequest,
}
MEANING = {"classes": ["a", "b"], "inputs": {"mean": [0.5]}}


class Ended(grpc.aio.AbortError):
    """The handler has refused a call."""


class Context:
    """What grpc gives a handler, of a peer without TLS that hangs up at the second message."""

    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None
        self._written = 0

    def peer(self) -> str:
        """Where it calls from."""
        return "ipv4:127.0.0.1:40000"

    def auth_context(self) -> dict[str, Any]:
        """No certificate."""
        return {}

    async def abort(self, code: grpc.StatusCode, details: str = "", metadata: Any = ()) -> None:
        """The status that the peer would get."""
        assert details.isprintable(), details
        self.code = code
        raise Ended

    async def write(self, message: Any) -> None:
        """A message to the peer."""
        self._written += 1
        if self._written > 1:
            raise Ended

    async def send_initial_metadata(self, metadata: Any) -> None:
        """Headers."""


class Faults(logging.Handler):
    """What a handler logs as the coordinator's own fault."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if record.exc_info:
            self.found.append(record)


class Attack:
    """The one that sends.

    Args:
        lab: The coordinator, with `SILOS` enrolled.
        rng: Where the cases come from.
    """

    def __init__(self, lab: Lab, rng: random.Random):
        self.lab, self.rng, self.statuses = lab, rng, dict[str, int]()
        self.control, self.data = FederationServicer(lab.c), DataServicer(lab.c)
        config, layout = lab.run.config, lab.run.model.layout
        assert layout is not None
        self.common: dict[str, list[Any]] = {
            "run_id": [lab.run.run_id],
            "config_digest": [config.digest],
            "layout_digest": [bytes.fromhex(layout.digest)],
            "round_index": [0, 1, 2],
            "model_index": [0, 1, 2, 3],
            "protocol_version": [1],
            "id": [int(VectorId.UPDATE)],
            "num_bytes": [4 * layout.num_params],
            "num_steps": [2],
            "kind": ["confusion", "auc", "calibration"],
            "shape": [2, 2],
            "failure": ["", ""],
            "meaning_json": [json.dumps(MEANING)],
        }

    async def case(self) -> None:
        """One call."""
        rng, inside = self.rng, self.rng.random() < 0.5
        self.lab.clock.now += 0.2
        name = rng.choice(HARMLESS if inside else (*CONTROL, "FetchRound", "SubmitUpdate"))
        who = "site-c" if inside else f"wild-{rng.randrange(20)}"
        session = self.lab.c.sessions.of(who)
        known = {**self.common, "silo_id": [who], "instance_id": ["i"]}
        if session is not None:
            session.allowed = allowed.Allowed()  # what is said, not how often
            known["session"] = [session.token]
        context: Any = Context()
        try:
            if name == "FetchRound":
                request = fill(rng, pb.FetchRequest(), known, 0.9).SerializeToString()
                await self.data.FetchRound(_maybe(rng, request), context)
            elif name == "SubmitUpdate":
                await self.data.SubmitUpdate(self._update(known), context)
            else:
                request = fill(rng, CONTROL[name](), known, 0.9)
                if name == "Enroll" and rng.random() < 0.5:
                    request.meaning_json = wild_json(rng, MEANING)
                await getattr(self.control, name)(request, context)
            said = "answered"
        except Ended:
            said = context.code.name if context.code is not None else "hung up"
        self.statuses[said] = self.statuses.get(said, 0) + 1

    async def _update(self, known: dict[str, list[Any]]) -> AsyncIterator[bytes]:
        """An update that is not quite one: no bytes of it are all right."""
        rng, size = self.rng, self.common["num_bytes"][0]
        header = pb.UpdateHeader(vectors=[pb.VectorInfo(id=pb.UPDATE, num_bytes=size)])
        whole = rng.randbytes(size)
        wrong = known["silo_id"] == ["site-c"] or rng.random() < 0.8  # it may send a right one
        header.digest = rng.randbytes(16) if wrong else xxhash.xxh3_128_digest(whole)
        for name in ("session", "run_id", "round_index", "num_steps"):
            if name in known:
                setattr(header, name, known[name][0])
        if rng.random() < 0.6:
            fill(rng, header, known, 0.3)
        yield _maybe(rng, header.SerializeToString())
        for _ in range(rng.randrange(3)):
            frame = damaged(rng, encode_frame(VectorId.UPDATE, 0, memoryview(whole)))
            yield reseal(bytearray(frame)) if len(frame) >= 32 and rng.random() < 0.7 else frame


def _maybe(rng: random.Random, data: bytes) -> bytes:
    return damaged(rng, data) if rng.random() < 0.3 else data


async def _play(folder: Path, cases: int, seed: int) -> tuple[str, dict[str, int]]:
    """The run; the digest of its last model, and what the attacker was told."""
    statuses: dict[str, int] = {}
    settings = {"num_rounds": ROUNDS, "roster": SILOS, "evaluate_every": 1}
    async with opened(folder, **settings) as lab:
        lab.c.long_poll_s = 0.0
        attack = Attack(lab, random.Random(seed))
        for r in range(ROUNDS):
            await lab.round_open(r)
            await lab.send_all("site-a")
            for i in range(cases // ROUNDS):
                await attack.case()
                if i % 50 == 0:
                    lab.pass_time(0.0)
            await lab.send_all("site-b", "site-c")
            statuses = attack.statuses
        ended = await lab.ended()
        assert ended.state == "FINISHED", ended
        weights = load_weights(lab.c.state_dir / "runs" / lab.run.run_id / "model.safetensors")
        whole = b"".join(weights[name].numpy().tobytes() for name in sorted(weights))
        return xxhash.xxh3_128_hexdigest(whole), statuses


def run(cases: int, seed: int) -> int:
    """So many calls; how many were made."""
    faults = Faults()
    logging.getLogger().addHandler(faults)
    before = allowed.HELD_BACK_S, data.LOST_S
    allowed.HELD_BACK_S = data.LOST_S = 0.0
    try:
        with tempfile.TemporaryDirectory() as calm, tempfile.TemporaryDirectory() as wild:
            wanted, _ = asyncio.run(_play(Path(calm), 0, seed))
            found, statuses = asyncio.run(_play(Path(wild), cases, seed))
    finally:
        logging.getLogger().removeHandler(faults)
        allowed.HELD_BACK_S, data.LOST_S = before
    for record in faults.found[:3]:
        print(logging.Formatter().format(record))
    assert not faults.found, f"{len(faults.found)} faults of the coordinator's own"
    assert found == wanted, "the run ended with another model"
    with contextlib.suppress(BrokenPipeError):
        print("  ", ", ".join(f"{k} {v:,}" for k, v in sorted(statuses.items())))
    return sum(statuses.values())
