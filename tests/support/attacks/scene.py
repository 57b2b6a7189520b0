"""Two honest silos, one of the run that does as it likes, a stranger; mTLS; run after run.

The honest ones wait in their second round until the attack is over. What the run ends with is then
what it ends with where nobody attacks.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import torch
import xxhash
from torch import nn

import domo
import domo_client
from domo.errors import DomoError
from domo.model.model_file import load_weights
from domo.tasks.base import ArrayDataset
from domo_client.loop.silo import Silo
from domo_proto.channel import CLIENT_OPTIONS, TlsFiles
from domo_proto.codec import VectorId, encode_frame
from domo_proto.v1 import federation_pb2 as pb
from tests.support.certificates import Authority, Pair
from tests.support.live.coordinator import Coordinator
from tests.support.played.raw import Raw

HONEST = ("site-a", "site-b")
NUM_ROUNDS = 3
INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))
PATIENCE_S = 200.0


def module() -> nn.Module:
    """With BatchNorm, as its buffers travel too."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def half_right(model: nn.Module, batch: Any) -> Any:
    """An accuracy of one half."""
    return {"accuracy": (0.5 * len(batch[0]), len(batch[0]))}


class Honest:
    """A silo that trains whatever run comes; it waits where the scene says so."""

    def __init__(self, scene: "Scene", name: str, folder: Path):
        self._scene, self._closed = scene, False
        self.silo: Silo = domo_client.connect(
            scene.server.address, name, state_dir=folder / name, tls=scene.files(name)
        )
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def session(self) -> str:
        """What its calls are made with."""
        return self.silo.connection.session.token

    def _run(self) -> None:
        try:
            while True:
                for rnd in self.silo.rounds(module(), samples=4, eval_samples=4):
                    if rnd.round_index == 1:
                        self._scene.arrived.release()
                        assert self._scene.gate.wait(PATIENCE_S)
                    rnd.evaluate(half_right, [(INPUTS, INPUTS)])
                    opt = rnd.optimizer()
                    for inputs, targets in rnd.batches(DATA):
                        (rnd.model(inputs) - targets).square().mean().backward()
                        opt.step()
                        opt.zero_grad()
        except DomoError as error:
            self.error = None if self._closed else error

    def close(self) -> None:
        self._closed = True
        self._scene.gate.set()
        self.silo.close()
        self._thread.join(30)


class Player(Raw):
    """One that says what it is told to, with a certificate."""

    def __init__(self, server: Coordinator, channel: grpc.Channel, name: str):
        super().__init__(server, channel)
        self.name = name

    def join(self, **given: Any) -> Any:
        return super().join(**{"silo_id": self.name, "instance_id": f"i-{self.name}", **given})

    def call(self, method: str, **given: Any) -> Any:
        """A control rpc with this one's session."""
        request = getattr(pb, f"{method}Request")(**{"session": self.session, **given})
        return getattr(self.stub, method)(request, timeout=30)

    def raw_call(self, method: str, data: bytes, **options: Any) -> bytes:
        """The bytes of a control rpc, whatever they are."""
        path = f"/domo_proto.v1.Federation/{method}"
        answer: bytes = self._channel.unary_unary(path)(data, timeout=30, **options)
        return answer


class Scene:
    """The federation.

    Args:
        folder: Where all of it lives.

    Attributes:
        server: The coordinator.
        ca: Of its silos.
        gate: Opens the honest silos' second round.
        arrived: Counts those that wait before it.
        run_id: The run under way.
        member: The silo of the run that attacks.
        stranger: One that is let in, and has no place in the run.
    """

    run_id: str
    member: Player
    stranger: Player

    def __init__(self, folder: Path):
        self.folder, self.ca = folder, Authority(folder / "ca", "ca")
        own = self.ca.sign("coordinator", "localhost", "127.0.0.1")
        self._own = own
        tls = {"cert": own.cert, "key": own.key, "client_ca": self.ca.cert}
        domo.save_initial(module(), folder / "x0.safetensors")
        self._pairs: dict[str, Pair] = {}
        self._number = itertools.count(1)
        self.gate, self.arrived = threading.Event(), threading.Semaphore(0)
        self.server = Coordinator(folder, tls=tls, report_interval_s=1.0)
        self.server.admit("site-x", "site-y")
        self._channels: list[grpc.Channel] = []
        self._honest: list[Honest] = []

    # identities

    def pair(self, name: str) -> Pair:
        """The certificate that a silo has."""
        if name not in self._pairs:
            self._pairs[name] = self.ca.sign(name, name)
        return self._pairs[name]

    def files(self, name: str) -> TlsFiles:
        return TlsFiles(self.ca.cert, self.pair(name).cert, self.pair(name).key)

    def channel(self, pair: Pair | None) -> grpc.Channel:
        """To the coordinator with any certificate, or none."""
        own = (None, None) if pair is None else (pair.key.read_bytes(), pair.cert.read_bytes())
        credentials = grpc.ssl_channel_credentials(self.ca.cert.read_bytes(), *own)
        self._channels.append(grpc.secure_channel(self.server.address, credentials, CLIENT_OPTIONS))
        return self._channels[-1]

    def player(self, name: str, pair: Pair | None = None) -> Player:
        """Somebody with the certificate of this name, or another one."""
        it = Player(self.server, self.channel(pair or self.pair(name)), name)
        it.run_id = getattr(self, "run_id", "")
        return it

    def honest(self, name: str) -> Honest:
        return self._honest[HONEST.index(name)]

    @property
    def own_pair(self) -> Pair:
        """The coordinator's certificate, as a thief would have it."""
        return self._own

    # runs

    def begin(self) -> None:
        """A run like all others, with the honest silos waiting in its second round."""
        name = f"r{next(self._number)}"
        settings = {
            "name": name,
            "task": "own:Loop",
            "method": "DOMO",
            "num_rounds": NUM_ROUNDS,
            "roster": [*HONEST, "site-c"],
            "on_missing": "proceed",
            "min_silos": 2,
            "required_silos": list(HONEST),
            "grace_s": 0.0,
            "local_steps": 2,
            "batch_size": 4,
            "evaluate_every": 1,
            "evaluation_deadline_s": 0.2,
            "initial_model": str(self.folder / "x0.safetensors"),
        }
        self.gate.clear()
        self.run_id = self.server.post("/runs", settings)["run_id"]
        if not self._honest:
            self._honest = [Honest(self, each, self.folder) for each in HONEST]
        self.member, self.stranger = self.player("site-c"), self.player("site-x")
        self.member.join()
        self.stranger.join()
        self._enroll()
        for _ in HONEST:
            assert self.arrived.acquire(timeout=PATIENCE_S), self.server.get("/runs")

    def _enroll(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while True:
            offer = self.member.call("WaitForRun").offer
            if offer.run_id == self.run_id:
                break
            assert time.monotonic() < end, offer
            time.sleep(0.1)
        self.offer = offer
        fits = {"config_digest": offer.config_digest, "layout_digest": offer.layout_digest}
        self.member.call("Enroll", run_id=self.run_id, num_samples=4, num_eval_samples=4, **fits)

    def run(self) -> Any:
        """What REST says of it."""
        return self.server.get(f"/runs/{self.run_id}")

    def end(self) -> bytes:
        """Let the honest silos go on to the end; the bytes of the run's model."""
        self.gate.set()
        path = f"/runs/{self.run_id}"
        ended = self.server.until(path, lambda run: run["state"] in ("FINISHED", "FAILED"))
        assert ended["state"] == "FINISHED", ended
        for it in self._honest:
            assert it.error is None, it.error
        file = self.server.state_dir / "runs" / self.run_id / "model.safetensors"
        weights = load_weights(file)
        return b"".join(weights[name].numpy().tobytes() for name in sorted(weights))

    def update(self, r: int = 1, **sections: np.ndarray[Any, Any]) -> "Update":
        """An update of round r as site-c would send it; sections by name in place of right ones."""
        return Update(self, r, sections)

    def close(self) -> None:
        for it in self._honest:
            it.close()
        for channel in self._channels:
            channel.close()
        self.server.close()


def right_sections() -> dict[str, np.ndarray[Any, Any]]:
    """What a well-behaved update of the model has."""
    num = sum(p.numel() for p in module().parameters())
    return {
        "UPDATE": np.full(num, 0.01, "<f4"),
        "FLOAT_BUFFERS": np.concatenate([np.zeros(3, "<f4"), np.ones(3, "<f4")]),
        "INTEGER_BUFFERS": np.array([4], "<i8"),
    }


class Update:
    """An update; `send` sends it as a member of the run."""

    def __init__(self, scene: Scene, r: int, sections: dict[str, np.ndarray[Any, Any]]):
        self.scene, self.r = scene, r
        self.parts = {k: v.tobytes() for k, v in {**right_sections(), **sections}.items()}

    @property
    def whole(self) -> bytes:
        return b"".join(self.parts.values())

    def frames(self) -> Iterator[bytes]:
        for name, part in self.parts.items():
            yield encode_frame(VectorId[name], 0, memoryview(part))

    def header(self, **given: Any) -> dict[str, Any]:
        vectors = [
            pb.VectorInfo(id=VectorId[name].value, num_bytes=len(part))
            for name, part in self.parts.items()
        ]
        right = {
            "run_id": self.scene.run_id,
            "round_index": self.r,
            "vectors": vectors,
            "digest": xxhash.xxh3_128_digest(self.whole),
            "num_steps": 2,
        }
        return {**right, **given}

    def send(self, frames: Any = None, who: Player | None = None, **given: Any) -> Any:
        who = who or self.scene.member
        return who.submit(self.whole, frames or self.frames(), **self.header(**given))
