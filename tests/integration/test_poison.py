"""One bad silo among four: what it sends never touches the model, what it suffers stays its own."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from safetensors.torch import load_file
from torch import nn

from domo import errors
from domo.errors import DomoError
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, SimulationResult, simulate
from domo.training.batches import BatchLoader
from domo.training.initial import build_initial
from domo_proto.codec import FRAME_BYTES, encode, encode_frame
from domo_proto.v1 import federation_pb2 as pb
from domo_server.rounds.shares import MAX_SAMPLES
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, opened, play
from tests.support.played.raw import GOOD, Raw, fault
from tests.support.tasks.failing import FailingTask

A, B, C, D = SILOS
HONEST = [A, B, C]
HUGE = 2**62


class Scene:
    """Four silos' data and a run over them; rounds of site-a can be held."""

    def __init__(self, folder: Path, task: str, **settings: Any):
        self.folder, self.task = folder, task
        save_model(folder / "x0.safetensors", *build_initial(FailingTask(), 5))
        for i, name in enumerate(SILOS):
            self.data(name).mkdir()
            (self.data(name) / "samples.txt").write_text(str(20 + 5 * i))
        self.settings = {
            "task": task,
            "num_rounds": 3,
            "roster": SILOS,
            "local_steps": 3,
            "batch_size": 8,
            "initial_model": str(folder / "x0.safetensors"),
            "evaluate_every": 0,
            "seed": 5,
            **settings,
        }

    def data(self, name: str) -> Path:
        return self.folder / name

    def hold(self, r: int) -> None:
        (self.data(A) / f"hold-{r}").touch()

    def release(self, r: int) -> None:
        (self.data(A) / f"hold-{r}").unlink()

    @contextlib.contextmanager
    def agents(self, server: Coordinator, names: list[str]) -> Iterator[None]:
        """Real silos; none is held any more when the block ends."""
        opts = [options(self.data(name), self.task) for name in names]
        with agents(server.address, names, self.folder, opts.__getitem__):
            try:
                yield
            finally:
                for hold in self.data(A).glob("hold-*"):
                    hold.unlink()

    def simulated(self, participants: list[list[str]]) -> SimulationResult:
        """The run of the recorded participants, undisturbed."""
        values = {**self.settings, "participants": participants}
        task = FailingTask()
        silos = [SimulatedSilo(n, BatchLoader(task.train_data(self.data(n), None))) for n in SILOS]
        return simulate(validate(RunConfig, values, "the test"), task, silos)

    def same_bytes(self, server: Coordinator) -> bool:
        who = [[p["silo_id"] for p in r["participants"]] for r in server.rounds()]
        expected = self.simulated(who)
        folder = server.state_dir / "runs" / server.run_ids[0] / "checkpoints"
        final = load_file(max(folder.glob("x*.safetensors")))
        return torch.equal(final["x"], expected.x) and torch.equal(final["m"], expected.m)


class Hostile(Raw):
    """A silo that has learnt the protocol, and not its manners."""

    def begin(self) -> None:
        """Wait for its assignment, and see what an update has."""
        action = pb.ASK_AGAIN
        while action == pb.ASK_AGAIN:  # each answer is held for a second
            header = pb.RoundHeader.FromString(self.fetch()[0])
            action = header.action
        assert action == pb.TRAIN, header
        self.round, self.steps = header.round_index, header.num_steps
        sizes = {v.id: v.num_bytes for v in header.vectors}
        self.parts = [
            (int(pb.UPDATE), sizes[pb.X]),
            (int(pb.FLOAT_BUFFERS), sizes[pb.FLOAT_BUFFERS]),
            (int(pb.INTEGER_BUFFERS), sizes[pb.INTEGER_BUFFERS]),
        ]

    def model(self) -> bytes:
        header = pb.RoundHeader.FromString(self.fetch()[0])
        return next(v.digest for v in header.vectors if v.id == pb.X)

    def offer(
        self,
        values: dict[int, float] | None = None,
        parts: list[tuple[int, int]] | None = None,
        frames: Callable[[list[bytes]], list[bytes]] = lambda frames: frames,
        fill: float = 1e-3,
        **given: Any,
    ) -> Any:
        """An update of equal entries, with some values replaced; and as bad as the test likes."""
        parts = parts or self.parts
        floats = [np.full(n // 4, fill, "<f4") for _, n in self.parts[:2]]
        for at, value in (values or {}).items():
            floats[at >= floats[0].size][at % floats[0].size] = value
        blobs = [f.tobytes() for f in floats] + [bytes(self.parts[2][1])]
        whole = b"".join(blobs)
        sent = [m for (v, _), b in zip(self.parts, blobs, strict=True) for m in encode(v, b)]
        return self.submit(
            whole,
            frames(sent),
            **{
                "round_index": self.round,
                "num_steps": self.steps,
                "vectors": [pb.VectorInfo(id=v, num_bytes=n) for v, n in parts],
                **given,
            },
        )


def endless(frame: bytes) -> Iterator[bytes]:
    while True:
        yield frame


def crimes(raw: Hostile) -> dict[str, tuple[dict[str, Any], type[DomoError], str]]:
    """What it sends; the error that it gets, and a part of the text."""
    (_, n), floats, integers = raw.parts
    protocol, divergence, checksum = (
        errors.ProtocolError,
        errors.DivergenceError,
        errors.ChecksumError,
    )
    part = encode_frame(pb.UPDATE, 0, memoryview(bytes(min(n, FRAME_BYTES))))
    return {
        "nan": ({"values": {3: math.nan}}, divergence, "has 1 non-finite entries"),
        "inf": ({"values": {0: math.inf, 1: -math.inf}}, divergence, "2 non-finite"),
        "nan in a buffer": ({"values": {n // 4: math.nan}}, divergence, "1 non-finite"),
        "short": ({"parts": [(7, n - 4), floats, integers]}, protocol, "has vectors"),
        "long": ({"parts": [(7, n + 4), floats, integers]}, protocol, "has vectors"),
        "float16": ({"parts": [(7, n // 2), floats, integers]}, protocol, "has vectors"),
        "other ids": ({"parts": [(8, n), floats, integers]}, protocol, "has vectors"),
        "no buffers": ({"parts": [(7, n)]}, protocol, "has vectors"),
        "a book of vectors": ({"parts": [(7, n)] * 20_000}, protocol, "has vectors"),
        "steps": ({"num_steps": raw.steps + 1}, protocol, "local steps, the run wants"),
        "huge steps": ({"num_steps": 2**32 - 1}, protocol, "local steps, the run wants"),
        "truncated": ({"frames": lambda f: f[:-1]}, protocol, "the upload ended after"),
        "nothing": ({"frames": lambda f: []}, protocol, "the upload ended after 0 of"),
        "oversized": ({"frames": lambda f: [*f, f[0]]}, protocol, "more bytes than"),
        "endless": ({"frames": lambda f: endless(part)}, protocol, "frames must follow in order"),
        "endlessly empty": (
            {"frames": lambda f: endless(encode_frame(pb.UPDATE, 0, memoryview(b"")))},
            protocol,
            "an empty frame",
        ),
        "out of order": ({"frames": lambda f: f[::-1]}, protocol, "frames must follow in order"),
        "no frames": ({"frames": lambda f: [b"hello"]}, checksum, "a frame has at least"),
        "damaged frame": ({"frames": lambda f: [f[0][:-1] + b"\1"]}, checksum, "was damaged"),
        "damaged digest": ({"digest": bytes(16)}, checksum, "does not fit its digest"),
        "offset": ({"offset": HUGE}, checksum, f"continues at {HUGE}, but"),
        "metrics": (
            {"metrics": {f"m{i}": 1.0 for i in range(30_000)}},
            protocol,
            "at most 64 metrics",
        ),
    }


def refusals(server: Coordinator) -> list[str]:
    return [e["text"] for e in server.get(f"/events?kind=refused&silo_id={D}&limit=1000")]


def refused(server: Coordinator, text: str) -> None:
    """The newest refusal, in the events and at the silo."""
    server.until(
        f"/events?kind=refused&silo_id={D}&limit=1000",
        lambda events: events and text in events[-1]["text"],
    )
    assert text in server.silo(D)["error"]


def test_the_model_is_that_of_the_other_three(tmp_path: Path) -> None:
    scene = Scene(
        *(tmp_path, "tests.support.tasks.failing:FailingTask"),
        on_missing="proceed",
        min_silos=3,
        required_silos=[A],
        norm_check="reject",
    )
    for r in (0, 1):
        scene.hold(r)
    with coordinator(tmp_path, scene.settings) as server, scene.agents(server, HONEST):
        raw = Hostile(server)
        raw.join(silo_id=D, instance_id="evil")
        try_bad_enrolments(raw, server)
        assert raw.enroll(num_samples=35).enrolled

        # round 1: everything that is refused at the door
        raw.begin()
        x0, seen = raw.model(), 0
        for what, (given, cls, text) in crimes(raw).items():
            error = fault(raw.offer, **given)
            assert type(error) is cls, (what, error)
            assert text in str(error), what
            assert len(str(error)) < 2500, what
            refused(server, text)
            assert raw.model() == x0, what
            assert len(refusals(server)) >= (seen := seen + 1)
        assert server.run()["rounds_done"] == 0
        stale = raw.offer(round_index=1)
        assert stale.state == pb.STALE
        refused(server, "round 2 is not open for site-d")
        raw.session, kept = 32 * "0", raw.session
        assert str(fault(raw.offer)) == "this session is over; join again"
        raw.session = kept
        assert raw.status().state == pb.ABSENT
        scene.release(0)
        server.until(f"/runs/{raw.run_id}", lambda run: run["rounds_done"] >= 1)

        # round 2: a duplicate, a second update, and a norm far above the others'
        assert raw.offer(round_index=0).state == pb.STALE
        raw.begin()
        assert raw.round == 1
        n = raw.parts[0][1] // 4
        for at, value, text in (
            (0, 3e38, "the norm of its update, 3e+38, is more than training gives"),
            (n, 3.4e38, "running_mean reaches 3.4e+38, which no training gives"),
            (n + raw.parts[1][1] // 4 - 1, -1.0, "running_var has -1, and is never below 0"),
        ):
            error = fault(raw.offer, values={at: value})
            assert type(error) is errors.DivergenceError
            assert text in str(error)
            refused(server, text)
        assert "refused before: the norm" not in str(error), "the last one is another update"
        assert raw.offer(fill=100.0).state == pb.ACCEPTED
        again = raw.offer(fill=100.0)
        assert (again.state, again.duplicate) == (pb.ACCEPTED, True)
        server.until(
            f"/events?kind=duplicate&silo_id={D}",
            lambda e: [d["text"] for d in e] == ["site-d sent its update again; it counts once"],
        )
        assert raw.offer(fill=2.0).state == pb.STALE
        refused(server, "round 2 has another update of site-d")
        scene.release(1)
        assert server.ended()["state"] == "FINISHED"
        refused(server, "times the median")
        rounds = server.rounds()
        assert [[p["silo_id"] for p in r["participants"]] for r in rounds] == 3 * [HONEST]
        assert "refused" not in rounds[0]["left_out"][D]
        assert "times the median" in rounds[1]["left_out"][D]
        assert server.run()["complete"] is False
        assert scene.same_bytes(server)
        assert "Traceback" not in str(refusals(server))
        raw.close()


def try_bad_enrolments(raw: Hostile, server: Coordinator) -> None:
    assert not raw.enroll(layout_digest=bytes(16)).enrolled
    refused(server, "the silo's model does not match the run's")
    for number in (MAX_SAMPLES + 1, 2**63 - 1, 2**63, 2**64 - 1):
        for what in ("num_samples", "num_eval_samples"):
            error = fault(raw.enroll, **{what: number})
            assert type(error) is errors.ConfigError
            assert str(error).startswith("site-d says that it has ")
            assert f"more than {MAX_SAMPLES} cannot be right" in str(error)
            refused(server, str(number))
    with pytest.raises(ValueError, match="range"):
        raw.enroll(num_samples=-1)
    assert server.run()["state"] == "WAITING"


def test_numbers_of_samples_where_they_count(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), weights="samples", local_epochs=1.0)
    with coordinator(tmp_path, run) as server:
        raw = Raw(server)
        raw.join(silo_id=D)
        error = fault(raw.enroll, num_samples=0)
        assert "this run needs to know how many training samples" in str(error)
        refused(server, "how many training samples")
        error = fault(raw.enroll, num_samples=MAX_SAMPLES)
        assert "would make more than 2147483647 local steps in a round" in str(error)
        refused(server, "local steps in a round")
        assert server.run()["state"] == "WAITING"
        assert raw.enroll(num_samples=4).enrolled
        assert raw.fetch()
        raw.close()


def test_numbers_that_no_page_could_show(tmp_path: Path) -> None:
    """A metric that overflows a sum would take REST down for everybody."""
    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=1, evaluation_deadline_s=0.2)
    with coordinator(tmp_path, run) as server:
        raw = Raw(server)
        raw.join()
        raw.enroll(num_eval_samples=4)
        raw.fetch()
        for total, num in ((1.7e308, 1.0), (-1.7e308, 1.0), (1.0, 1e-320), (1.0, 1.7e308)):
            metrics = {"loss": pb.MetricSum(total=total, num=num)}
            request = pb.ReportEvaluationRequest(
                session=raw.session, run_id=raw.run_id, metrics=metrics
            )
            error = fault(raw.stub.ReportEvaluation, request, timeout=30)
            assert "is not a finite sum over a positive count" in str(error)
        report = pb.ReportRequest(session=raw.session, run_id=10_000 * "r", loss=math.inf)
        raw.stub.Report(report, timeout=30)
        assert len(server.silo("site-a")["run_id"]) == 128
        raw.submit(GOOD, metrics={"loss": 1.7e308, "x": math.nan})
        assert server.ended()["state"] == "FINISHED"
        (record,) = server.rounds()
        assert record["train_loss"] is None
        raw.close()


def test_under_wait_the_run_waits_and_says_why(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "tests.support.tasks.failing:FailingTask", num_rounds=1)
    with coordinator(tmp_path, scene.settings) as server, scene.agents(server, HONEST):
        raw = Hostile(server)
        raw.join(silo_id=D, instance_id="evil")
        raw.enroll(num_samples=35)
        raw.begin()
        path = f"/runs/{raw.run_id}"
        server.until(path, lambda run: run["waiting_for"] == [D])
        fault(raw.offer, {3: math.nan})
        refused(server, "non-finite")
        request = {"run_id": raw.run_id, "failure": "the update was refused: not finite"}
        raw.stub.Report(pb.ReportRequest(session=raw.session, **request), timeout=30)
        text = (
            "waiting for 1 more of 4 silos: site-d; site-d failed: the update was refused: not "
            "finite"
        )
        server.until(path, lambda run: run["detail"] == text)
        assert server.run()["rounds_done"] == 0
        server.post(f"/silos/{D}/drop", {"reason": "it sends nonsense"})
        assert server.ended()["state"] == "FINISHED"
        (record,) = server.rounds()
        assert record["left_out"] == {D: "dropped by the admin: it sends nonsense"}
        raw.close()


# norms, on a clock that only the test moves


def norm_scene(folder: Path, act: Callable[[Lab], Any], **settings: Any) -> None:
    async def go() -> None:
        async with opened(folder, **settings) as lab:
            await act(lab)

    play(go())


def test_a_norm_far_above_is_an_event_under_warn(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        assert await lab.send(D, scale=100)
        await lab.round_open(1)
        assert await lab.who() == [SILOS]
        (text,) = await lab.events("unusual")
        assert text.startswith("site-d: the norm of its update, ")
        assert await lab.events("refused") == []

    norm_scene(tmp_path, act)


def test_a_norm_far_above_is_nothing_under_off(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        assert await lab.send(D, scale=100)
        await lab.round_open(1)
        assert await lab.who() == [SILOS]
        assert await lab.events("unusual") == []

    norm_scene(tmp_path, act, norm_check="off")


def test_a_refused_norm_under_wait_is_waited_for_until_another_update_comes(
    tmp_path: Path,
) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        assert await lab.send(D, scale=1000)
        await lab.look()
        assert lab.run.state.round_index == 0
        assert lab.run.detail.startswith(
            "waiting for 1 more of 4 silos: site-d; site-d failed: the norm of its update, "
        )
        told = await lab.silo(D)
        assert told.error == f"update refused: {lab.run.participants.failed[D]}"
        assert told.error_code == "outlier"
        assignment = lab.assignment(D)
        assert assignment is not None
        assert assignment.action == "TRAIN", "its operator may have mended the data"
        with pytest.raises(errors.ProtocolError, match="was refused before: the norm of its"):
            await lab.send(D, scale=1000)
        await lab.send_all(D)
        await lab.round_open(1)
        assert await lab.who() == [SILOS]
        (text,) = await lab.events("refused")
        assert text.startswith("refused an update of site-d: the norm of its update, ")

    norm_scene(tmp_path, act, norm_check="reject")


def test_of_refused_updates_the_disk_keeps_the_last(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path, norm_check="reject") as lab:
            await lab.send_all(A, B, C)
            for i in range(4):
                assert await lab.send(D, scale=1000 + i)
                await lab.until(lambda: D not in lab.run.participants.accepted)
            names = [
                path.name.partition(".")[0] for path in lab.run.receiver.folder(0).glob("*.update")
            ]
            assert sorted(names) == SILOS
            await lab.send_all(D)
            await lab.until(lambda: lab.run.state.round_index == 1)
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            assert not list((lab.run.folder / "spool").rglob("*.update"))

    play(before())


def test_a_refused_norm_does_not_count_for_the_quorum(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B)
        assert await lab.send(D, scale=100)
        lab.pass_time(5)
        await lab.look()
        assert lab.run.state.round_index == 0
        assert "it needs 1 of them; site-d failed: the norm" in lab.run.detail
        await lab.send_all(C)
        await lab.round_open(1)
        assert await lab.who() == [[A, B, C]]
        (record,) = await lab.rounds()
        assert "times the median" in record.left_out[D]

    settings = {"on_missing": "proceed", "min_silos": 3, "grace_s": 5}
    norm_scene(tmp_path, act, norm_check="reject", **settings)


def test_no_round_closes_without_a_required_silo_whose_norm_was_refused(tmp_path: Path) -> None:
    async def act(lab: Lab) -> None:
        await lab.send_all(A, B, C)
        assert await lab.send(D, scale=1000)
        await lab.look()
        assert lab.run.state.round_index == 0
        assert "it does not close without site-d; site-d failed: the norm" in lab.run.detail

    settings = {"on_missing": "proceed", "min_silos": 2, "required_silos": [D]}
    norm_scene(tmp_path, act, norm_check="reject", grace_s=5, **settings)


def test_a_refused_norm_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path, norm_check="reject") as lab:
            await lab.send_all(A, B, C)
            assert await lab.send(D, scale=1000)
            await lab.look()

    async def after() -> None:
        async with life(tmp_path, norm_check="reject") as lab:
            await lab.until(lambda: "site-d failed: the norm of its update" in lab.run.detail)
            assert lab.run.state.round_index == 0
            assert sorted(lab.run.participants.accepted) == HONEST

    play(before())
    play(after())


def test_a_torn_update_is_said_and_asked_for_again(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path) as lab:
            await lab.send_all(A, B)

    async def after() -> None:
        async with life(tmp_path) as lab:
            await lab.until(lambda: "waiting for 3 more of 4 silos" in lab.run.detail)
            assert await lab.events("torn") == [
                "the update of site-b was not wholly on disk; it is asked for again"
            ]
            assignment = lab.assignment(B)
            assert assignment is not None
            assert assignment.action == "TRAIN"

    play(before())
    (path,) = (tmp_path / "state" / "runs" / RUN_ID / "spool").rglob(f"{B}.*.update")
    path.write_bytes(path.read_bytes()[:-1])
    assert xxhash.xxh3_128_hexdigest(path.read_bytes()) not in path.name
    play(after())


# one site's failure


REASONS = {
    "exception": "RuntimeError",
    "memory": "out of memory",
    "loss": "the training loss is not finite",
    "label": "IndexError",
}
"""How what leaves the silo begins: its kind, and no word of the exception's own text."""
PRIVATE = ("licence", "40.00 GiB", "Target 7")


def test_one_silos_failures_are_its_own(tmp_path: Path) -> None:
    """It fails in every other round; the others close those, and it is in the rest."""
    scene = Scene(
        *(tmp_path, "tests.support.tasks.failing:FailingTask"),
        num_rounds=2 * len(REASONS),
        on_missing="proceed",
        min_silos=3,
        required_silos=[A],
    )
    for r in range(2 * len(REASONS)):
        scene.hold(r)
    fail = scene.data(D) / "fail"
    fail.write_text(next(iter(REASONS)))
    with coordinator(tmp_path, scene.settings) as server, scene.agents(server, SILOS):
        path = f"/runs/{server.run_ids[0]}"
        for i, why in enumerate(REASONS.values()):
            text = f"; site-d failed: {why}"
            server.until(path, lambda run, text=text: text in run["detail"])
            server.until(path, lambda run, r=2 * i: run["rounds_done"] == r)  # committed behind it
            server.until(f"/silos/{D}", lambda silo, why=why: (silo["error"] or "").startswith(why))
            scene.release(2 * i)
            server.until(path, lambda run, r=2 * i: run["rounds_done"] > r)
            fail.unlink()
            server.until(path, lambda run: run["waiting_for"] == [A])
            following = list(REASONS)[i + 1 : i + 2]
            if following:
                fail.write_text(following[0])
            assert server.silo(D)["error"] is None
            scene.release(2 * i + 1)
        assert server.ended()["state"] == "FINISHED"
        rounds = server.rounds()
        for closed, why in zip(rounds[::2], REASONS.values(), strict=True):
            assert list(closed["left_out"]) == [D]
            assert closed["left_out"][D].startswith(why)
        assert [r["left_out"] for r in rounds[1::2]] == [{}] * len(REASONS)
        events = [e["text"] for e in server.get(f"/events?kind=silo-failed&silo_id={D}")]
        for i, why in enumerate(REASONS.values()):
            begins = f"site-d failed in round {2 * i + 1}: {why}"
            assert [e for e in events if e.startswith(begins)]
        assert not [e for e in events for word in PRIVATE if word in e]
        assert not server.get(f"/events?kind=silo-failed&silo_id={B}")
        assert scene.same_bytes(server)


def test_under_wait_a_failed_silo_is_waited_for_and_changes_no_byte(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "tests.support.tasks.failing:FailingTask", num_rounds=2)
    fail = scene.data(D) / "fail"
    fail.write_text("memory")
    with coordinator(tmp_path, scene.settings) as server, scene.agents(server, SILOS):
        path = f"/runs/{server.run_ids[0]}"
        text = f"waiting for 1 more of 4 silos: site-d; site-d failed: {REASONS['memory']}"
        server.until(path, lambda run: run["detail"].startswith(text))
        begun = time.monotonic()
        fail.unlink()
        assert server.ended()["complete"] is True
        assert time.monotonic() - begun < 30
        assert scene.same_bytes(server)
