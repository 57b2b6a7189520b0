"""What connected silos cost a coordinator that has nothing to do: played silos, real calls.

    python -m benchmarks.idle_silos [--silos 100,300,1000] [--seconds 25] [--repeat 3] [--json FILE]

Each silo has a connection of its own and does what an agent does: it holds `Attend` and
`WaitForRun` or `FetchRound`, and sends heartbeats at the default interval. All are played in this
process; the coordinator is another one, whose database has 500 ended runs.

idle       no run: all silos wait for one
one-left   an open round with the updates of all silos but one, which trains

Printed are medians over `--repeat` windows of `--seconds`:

cpu        the coordinator's share of one core, from /proc/PID/stat
beats/s    heartbeats that were answered: half as many as silos, 200 at most, or silos had to wait
ms/beat    the coordinator's CPU milliseconds for each of them, which other load changes less
reads/s    tables that the coordinator's database was asked for
wakes      how often a held call was woken before its time was over, by heartbeat
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import grpc.aio
import numpy as np
import xxhash

from domo_proto import PROTOCOL_VERSION
from domo_proto.channel import CLIENT_OPTIONS
from domo_proto.codec import FRAME_BYTES, VectorId, encode_frame
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc

T = TypeVar("T")

ENDED_RUNS, MOST_SILOS = 500, 5000
CASES = ("idle", "one-left")
JOINING = 20
"""Silos that join at once."""
SETTLE_S = 5.0
PATIENCE_S = 600.0
PAUSE_S = 1.0
"""After a call that failed: a coordinator that has too much to do loses connections."""
CALL_S = 30.0
NUM_STEPS = 1_000_000
TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)", re.IGNORECASE)
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
RUN = """
[[runs]]
name = "open"
task = "digits"
method = "FedAvg"
num_silos = {num_silos}
num_rounds = 1
local_steps = {num_steps}
evaluate_every = 0
"""
CLONE = """
INSERT INTO runs ({columns}) SELECT {values} FROM runs WHERE number = 1
"""


ENROLLED = """
INSERT INTO enrolments (run_id, silo_id, role, num_samples, num_eval_samples)
VALUES ('2-old', ?, 'trainer', 1, 0)
"""
"""Of silos that were in no run it takes a few only."""
SILOS = """
INSERT INTO silos (silo_id, instance_id, role, device, software_version, first_seen, last_seen,
readmitted) SELECT silo_id, '', role, '', '', '', '2026-01-01T00:00:00.000+00:00', 1
FROM enrolments
"""


def name_of(k: int) -> str:
    return f"silo-{k:04d}"


# the coordinator, in a process of its own


def serve_counted(folder: Path) -> None:
    """Serve until SIGINT; what was counted so far is told for each line of the standard input."""
    from sqlalchemy import Engine, event

    from domo_server.app import serve
    from domo_server.config import load_config
    from domo_server.events.notifier import Notifier

    counts = {"reads": 0, "wakes": 0}

    def read(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        counts["reads"] += len(TABLE.findall(statement)) if statement.startswith("SELECT") else 0

    event.listen(Engine, "before_cursor_execute", read)
    until = Notifier.until

    async def counted(
        self: Notifier, look: Callable[[], T | None], timeout_s: float, *who: str
    ) -> T | None:
        end, asked = time.monotonic() + timeout_s, False

        def again() -> Any:
            nonlocal asked
            counts["wakes"] += asked and time.monotonic() < end
            asked = True
            return look()

        return await until(self, again, timeout_s, *who)

    Notifier.until = counted  # type: ignore[method-assign, assignment]

    def tell() -> None:
        sys.stdin.readline()
        print(json.dumps(counts), flush=True)

    def started(where: Any) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin, tell)
        print(where.grpc_address, flush=True)

    flags = {"state_dir": folder / "state", "listen": "127.0.0.1:0", "dashboard": "127.0.0.1:0"}
    config, runs = load_config(folder / "federation.toml", flags)
    asyncio.run(serve(config, runs, on_started=started))


class Served:
    """A coordinator in a process."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self._process = process
        self.pid, self.address = process.pid, self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the coordinator has ended"
        return line.strip()

    def counts(self) -> dict[str, float]:
        """What was counted, and CPU seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        used = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return {**json.loads(self._line()), "cpu_s": sum(map(int, used)) / TICKS_A_SECOND}


@contextlib.contextmanager
def coordinator(folder: Path, runs: str = "") -> Iterator[Served]:
    """A coordinator on the state in a folder; it ends with the block."""
    (folder / "federation.toml").write_text(runs)
    command = [sys.executable, "-m", "benchmarks.idle_silos", "--serve", str(folder)]
    with (folder / "log").open("a") as log, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:  # fmt: skip
        try:
            yield Served(process)
        finally:
            process.send_signal(signal.SIGINT)


def with_ended_runs(folder: Path) -> None:
    """A state folder whose database has ended runs: one is queued, and copied."""
    with coordinator(folder, RUN.format(num_silos=1, num_steps=1)):
        pass
    with contextlib.closing(sqlite3.connect(folder / "state" / "coordinator.db")) as db, db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        ended = {"state": "'FINISHED'", "run_id": "'{n}-old'", "name": "'old-{n}'", "number": "{n}"}
        for n in range(2, ENDED_RUNS + 2):
            values = ", ".join(ended.get(c, f'"{c}"').format(n=n) for c in columns)
            names = ", ".join(f'"{c}"' for c in columns)
            db.execute(CLONE.format(columns=names, values=values))
        db.execute("DELETE FROM runs WHERE number = 1")
        db.executemany(ENROLLED, [(name_of(k),) for k in range(MOST_SILOS)])
        db.execute(SILOS)


# the silos


class Silo:
    """One played silo.

    Args:
        k: Its number.
        address: The coordinator's.
    """

    answered = 0
    """Heartbeats of all silos."""

    def __init__(self, k: int, address: str):
        self.k = k
        self._channel = grpc.aio.insecure_channel(address, CLIENT_OPTIONS)
        self._stub: Any = pb_grpc.FederationStub(self._channel)  # type: ignore[no-untyped-call]
        name = "/domo_proto.v1.FederationData/"
        self._fetch: Any = self._channel.unary_stream(name + "FetchRound")
        self._submit: Any = self._channel.stream_unary(name + "SubmitUpdate")
        self.session, self.report_s = "", 2.0
        self.run_id, self.sent = "", False
        self.doing: dict[str, Any] = {"phase": pb.IDLE}

    async def join(self) -> None:
        """Open a session."""
        request = pb.JoinRequest(
            protocol_version=PROTOCOL_VERSION,
            software_version="0",
            silo_id=name_of(self.k),
            instance_id=f"instance-{self.k}",
            role=pb.TRAINER,
            device="cpu",
        )
        answer = await self._stub.Join(request)
        self.session, self.report_s = answer.session, answer.report_interval_s

    async def attend(self) -> None:
        """Hold the stream that shows that it is there."""
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for _ in self._stub.Attend(pb.AttendRequest(session=self.session)):
                    pass
            await asyncio.sleep(PAUSE_S)

    async def beat(self) -> None:
        """Send heartbeats, each silo at its own moment."""
        await asyncio.sleep(self.report_s * (self.k * 0.618 % 1))
        due, steps = time.monotonic(), itertools.count(1)
        while True:
            if self.doing["phase"] == pb.TRAINING:
                self.doing |= {"step": next(steps), "num_steps": NUM_STEPS, "loss": 1.0}
            machine = pb.Resources(
                process_memory_bytes=10**9,
                memory_available_bytes=10**10,
                memory_total_bytes=10**11,
                disk_free_bytes=10**12,
            )
            beat = pb.ReportRequest(session=self.session, resources=machine, **self.doing)
            with contextlib.suppress(grpc.aio.AioRpcError):
                answer = await self._stub.Report(beat, timeout=CALL_S)
                self.report_s = getattr(answer, "next_s", 0.0) or self.report_s
                Silo.answered += 1
            due += self.report_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def enroll(self) -> None:
        """Take part in the run, once it is offered."""
        while True:
            offer = (await self._wait()).offer
            if offer.run_id:
                break
        request = pb.EnrollRequest(
            session=self.session,
            run_id=offer.run_id,
            config_digest=offer.config_digest,
            layout_digest=offer.layout_digest,
            num_samples=1,
        )
        assert (await self._stub.Enroll(request)).enrolled
        self.run_id = offer.run_id
        self.doing = {"phase": pb.WAITING, "run_id": self.run_id}

    async def wait_for_run(self) -> None:
        """Hold the question for a run."""
        while True:
            await self._wait()

    async def take_part(self, trains: bool) -> None:
        """Hold the question for a turn; what comes of it is sent at once, or never."""
        while True:
            request = pb.FetchRequest(
                session=self.session, run_id=self.run_id, evaluated_index=-1
            ).SerializeToString()
            try:
                messages = [message async for message in self._fetch(request)]
            except grpc.aio.AioRpcError:
                await asyncio.sleep(PAUSE_S)
                continue
            header = pb.RoundHeader.FromString(messages[0])
            if header.action != pb.TRAIN:
                continue
            if trains:
                self.doing = {"phase": pb.TRAINING, "run_id": self.run_id}
                self.sent = True
                await asyncio.Event().wait()
            n = next(v.num_bytes for v in header.vectors if v.id == pb.X)
            with contextlib.suppress(grpc.aio.AioRpcError):  # it is asked again
                await self._send(np.full(n // 4, 1e-3, np.float32).tobytes(), header)
                self.sent = True

    async def _wait(self) -> Any:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return await self._stub.WaitForRun(pb.WaitForRunRequest(session=self.session))
            await asyncio.sleep(PAUSE_S)

    async def _send(self, update: bytes, header: Any) -> None:
        digest = xxhash.xxh3_128_digest(update)
        first = pb.UpdateHeader(
            session=self.session,
            run_id=self.run_id,
            vectors=[pb.VectorInfo(id=pb.UPDATE, num_bytes=len(update), digest=digest)],
            digest=digest,
            num_steps=header.num_steps,
        ).SerializeToString()
        pieces = range(0, len(update), FRAME_BYTES)
        frames = [encode_frame(VectorId.UPDATE, i, update[i : i + FRAME_BYTES]) for i in pieces]
        answer = pb.SubmitResponse.FromString(await self._submit(iter([first, *frames])))
        assert answer.state == pb.ACCEPTED, answer.text


async def all_of(silos: list[Silo], work: Callable[[Silo], Awaitable[Any]]) -> None:
    """A few at once."""
    few = asyncio.Semaphore(JOINING)

    async def one(silo: Silo) -> None:
        async with few:
            await work(silo)

    await asyncio.gather(*(one(silo) for silo in silos))


async def played(case: str, num_silos: int, served: Served, args: argparse.Namespace) -> Any:
    """Play silos, and measure."""
    silos = [Silo(k, served.address) for k in range(num_silos)]
    await all_of(silos, Silo.join)
    async with asyncio.timeout(PATIENCE_S):
        if case == "one-left":
            await all_of(silos, Silo.enroll)
        tasks = []
        for silo in silos:
            rest = silo.wait_for_run() if case == "idle" else silo.take_part(silo.k == 0)
            tasks += [asyncio.create_task(c) for c in (silo.attend(), silo.beat(), rest)]
        while case == "one-left" and not all(silo.sent for silo in silos):
            await asyncio.sleep(1.0)
            _check(tasks)
    await asyncio.sleep(SETTLE_S)
    windows = []
    for _ in range(args.repeat):
        before, beats, begun = served.counts(), Silo.answered, time.monotonic()
        await asyncio.sleep(args.seconds)
        _check(tasks)
        after, seconds = served.counts(), time.monotonic() - begun
        done = {k: after[k] - before[k] for k in before}
        beats = Silo.answered - beats
        windows.append(
            {
                "cpu": done["cpu_s"] / seconds,
                "beats/s": beats / seconds,
                "ms/beat": 1000 * done["cpu_s"] / max(beats, 1),
                "reads/s": done["reads"] / seconds,
                "wakes": done["wakes"] / max(beats, 1),
            }
        )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return windows


def _check(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


def measure(case: str, num_silos: int, args: argparse.Namespace) -> dict[str, float]:
    """One row."""
    with tempfile.TemporaryDirectory(prefix="domo-bench-") as name:
        folder = Path(name)
        with_ended_runs(folder)
        run = RUN.format(num_silos=num_silos, num_steps=NUM_STEPS) if case == "one-left" else ""
        with coordinator(folder, run) as served:
            windows = asyncio.run(played(case, num_silos, served, args))
    return {k: round(median(w[k] for w in windows), 4) for k in windows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--silos", default="100,300,1000", help="how many, separated by commas")
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--seconds", type=float, default=25.0, help="of a window")
    parser.add_argument("--repeat", type=int, default=3, help="windows")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve_counted(args.serve)
        return
    results: dict[str, Any] = {}
    for case, num_silos in itertools.product(args.only.split(","), args.silos.split(",")):
        key = f"{case}, {num_silos} silos"
        results[key] = measure(case, int(num_silos), args)
        print(key, json.dumps(results[key]), f"load {os.getloadavg()[0]:.1f}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
