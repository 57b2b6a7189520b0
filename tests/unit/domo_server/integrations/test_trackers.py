"""Runs in TensorBoard and MLflow, read back with their own readers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from domo.api.measured import MetricPoint
from domo.api.schema import (
    Participant,
    RoundRecord,
    RunDetail,
)
from domo.errors import ConfigError
from domo_server.config import TrackersConfig
from domo_server.integrations.trackers import Follower, follow, make_writers
from domo_server.integrations.trackers.points import Point, points_of
from domo_server.integrations.trackers.to_mlflow import MlflowWriter
from domo_server.integrations.trackers.to_tensorboard import TensorBoardWriter
from tests.support.played.made_up import Federation


def record(r: int, **fields: Any) -> RoundRecord:
    values = {
        "round_index": r,
        "state": "COMMITTED",
        "closed_at": f"2026-01-05T09:00:{10 * r:02}Z",
        "duration_s": 2.0,
        "local_lr": 0.05,
        "reference_steps": 4,
        "participants": [
            Participant(silo_id="site-a", weight=1, num_steps=4, update_norm=3.0 + r, cosine=0.5)
        ],
        "train_loss": 1.0 / (r + 1),
    }
    return RoundRecord.model_validate(values | fields)


def state(num_rounds: int, **fields: Any) -> tuple[RunDetail, list[RoundRecord]]:
    """A run after so many rounds, each of whose models is tested."""
    run = (
        Federation()
        .run_list[0]
        .model_copy(
            update={
                "state": "OPEN",
                "rounds_done": num_rounds,
                "config": {"task": "digits", "method": "DOMO", "num_rounds": 3, "num_silos": 1},
                "metrics": [
                    MetricPoint(
                        model_index=i, metrics={"acc uracy!": i / 10}, num_silos=1, num_samples=9
                    )
                    for i in range(num_rounds + 1)
                ],
                **fields,
            }
        )
    )
    return run, [record(r) for r in range(num_rounds)]


def test_points_are_those_that_will_not_change() -> None:
    run, rounds = state(2)
    rounds += [record(2, state="CLOSING")]
    rounds[0] = record(0, train_loss=float("nan"), duration_s=None)
    points = {(p.name, p.step): p for p in points_of(run, rounds)}
    assert [step for name, step in points if name.startswith("test/")] == [0, 1]
    assert {name for name, step in points if step == 1} == {
        "round/local_lr",
        "round/silos",
        "silo/site-a/cosine",
        "silo/site-a/update_norm",
        "test/acc uracy!",
    }
    assert points["silo/site-a/update_norm", 2].value == 4.0
    assert points["round/train_loss", 2].at_s - points["round/silos", 1].at_s == 10
    assert max(step for _, step in points) == 2
    ended = run.model_copy(update={"state": "STOPPED"})
    assert sum(p.name.startswith("test/") for p in points_of(ended, rounds)) == 3


def read_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    (one,) = folder.iterdir()
    events = EventAccumulator(str(one), size_guidance={"scalars": 0}).Reload()
    found = {
        name: sorted((e.step, round(e.value, 4)) for e in events.Scalars(name))
        for name in events.Tags()["scalars"]
    }
    assert "_hparams_/experiment" in events.summary_metadata
    return found


def test_tensorboard_has_each_point_once_after_restarts_and_a_torn_write(tmp_path: Path) -> None:
    writer = TensorBoardWriter(tmp_path)
    for n in (1, 2):
        writer.write(state(n)[0], points_of(*state(n)))
    writer.write(state(2)[0], points_of(*state(2)))
    (file,) = tmp_path.glob("*/events*")
    with file.open("r+b") as f:
        f.truncate(file.stat().st_size - 5)  # killed while it wrote
    for run in (state(3), state(3, state="FINISHED"), state(3, state="FINISHED")):
        TensorBoardWriter(tmp_path).write(run[0], points_of(*run))
    found = read_tensorboard(tmp_path)
    assert found["silo/site-a/update_norm"] == [(1, 3.0), (2, 4.0), (3, 5.0)]
    assert found["test/acc uracy!"] == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)]
    num_files = len(list(tmp_path.glob("*/events*")))
    TensorBoardWriter(tmp_path).write(run[0], points_of(*run))
    assert len(list(tmp_path.glob("*/events*"))) == num_files


def test_mlflow_has_one_run_with_each_point_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "ml").as_uri()
    for n, how in ((1, "OPEN"), (2, "OPEN"), (3, "OPEN"), (3, "STOPPED"), (3, "STOPPED")):
        run = state(n, state=how)
        MlflowWriter(uri, "mine").write(run[0], points_of(*run))
    again = state(1, created_at="2027-01-05T09:00:00Z")  # another coordinator, with the same id
    writer = MlflowWriter(uri, "mine")
    writer.write(again[0], points_of(*again))
    writer.write(again[0], points_of(*again))
    client = MlflowClient(uri)
    place = client.get_experiment_by_name("mine")
    assert place is not None
    other, one = client.search_runs([place.experiment_id], order_by=["start_time DESC"])
    assert (one.info.status, other.info.status) == ("KILLED", "RUNNING")
    assert one.data.params["method"] == "DOMO"
    assert one.data.params["fusion_coef"] == "0.9"
    history = client.get_metric_history(one.info.run_id, "silo/site-a/update_norm")
    assert [(m.step, m.value) for m in history] == [(1, 3.0), (2, 4.0), (3, 5.0)]
    tests = client.get_metric_history(one.info.run_id, "test/acc uracy_")
    assert [m.step for m in tests] == [0, 1, 2, 3]
    assert len(client.get_metric_history(other.info.run_id, "round/silos")) == 1


def test_what_a_tracker_refuses_is_said_once_and_comes_with_the_next_round(tmp_path: Path) -> None:
    folder = tmp_path / "tb"
    folder.write_text("a file is in the way")
    federation, said = Federation(), []
    federation.run_list[0], federation.round_list = state(1)
    follower = Follower(federation, TensorBoardWriter(folder), lambda *what: said.append(what))

    async def scene() -> None:
        await follower.look()
        federation.run_list[0], federation.round_list = state(2)
        await follower.look()
        folder.unlink()
        await follower.look()  # nothing is new, and it is not time yet
        assert not folder.exists()
        federation.run_list[0], federation.round_list = state(3)
        await follower.look()
        await follower.look()

    asyncio.run(scene())
    (text, run_id), (good, none) = said
    assert text.startswith("TensorBoard: ")
    assert text.endswith("; it is tried again with the next round")
    assert (run_id, none) == ("1-fedavg", None)
    assert good == "TensorBoard: it has everything again"
    assert len(read_tensorboard(folder)["round/silos"]) == 3


class Log:
    """A writer that refuses when it is told to."""

    name, uri = "log", ""

    def __init__(self) -> None:
        self.points: list[list[Point]] = []
        self.refuses = False

    def prepare(self) -> None:
        pass

    def write(self, _run: RunDetail, points: Sequence[Point]) -> None:
        if self.refuses:
            raise OSError("no")
        self.points.append(list(points))


def test_rounds_are_read_once_unless_the_tracker_failed() -> None:
    federation, writer = Federation(), Log()
    follower = Follower(federation, writer, lambda *_: None)

    async def rounds_after(num_rounds: int, how: str = "OPEN", *, good: bool = True) -> list[int]:
        federation.run_list[0], federation.round_list = state(num_rounds, state=how)
        writer.points, writer.refuses = [[]], not good
        await follower.look()
        return [p.step for p in writer.points[-1] if p.name == "round/silos"]

    async def scene() -> None:
        assert await rounds_after(2) == [1, 2]
        assert await rounds_after(3) == [3]
        (test,) = (p for p in writer.points[-1] if (p.name, p.step) == ("test/acc uracy!", 2))
        assert test.at_s == points_of(*state(2))[-1].at_s, "of a round that is not read again"
        assert await rounds_after(4, good=False) == []
        assert await rounds_after(5) == [1, 2, 3, 4, 5]
        assert await rounds_after(6, "FINISHED") == [6]
        assert follower._written == {}

    asyncio.run(scene())


def test_a_run_that_ends_between_two_reads_is_written_to_its_end(tmp_path: Path) -> None:
    federation, writer = Federation(), Log()
    federation.run_list[0], federation.round_list = state(3, state="FINISHED")
    ended = list(federation.run_list)
    follower = Follower(federation, writer, lambda *_: None)

    async def ended_already() -> list[Any]:
        return ended

    async def scene() -> None:
        federation.runs = ended_already  # type: ignore[method-assign]
        federation.run_list[0], federation.round_list = state(2)
        await follower.look()
        federation.run_list[0], federation.round_list = state(3, state="FINISHED")
        await follower.look()

    asyncio.run(scene())
    assert [[p.step for p in ps if p.name == "round/silos"] for ps in writer.points] == [
        [1, 2],
        [3],
    ]


def test_a_run_that_ends_after_its_last_point_is_closed(tmp_path: Path) -> None:
    federation = Federation()
    follower = Follower(federation, TensorBoardWriter(tmp_path / "tb"), lambda *_: None)

    async def scene() -> None:
        for how in ("OPEN", "CLOSING", "FINISHED"):
            federation.run_list[0], federation.round_list = state(3, state=how, metrics=[])
            await follower.look()

    asyncio.run(scene())
    (folder,) = (tmp_path / "tb").iterdir()
    assert (folder / "domo-complete").exists()
    assert len(read_tensorboard(tmp_path / "tb")["round/silos"]) == 3


def test_a_reason_has_no_password_and_one_line() -> None:
    text = follow._reason(OSError("cannot reach http://me:secret@host/a\n  now"))
    assert text == "cannot reach http://host/a now"


def test_a_tracker_that_is_not_installed_is_a_fault_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert make_writers(None) == make_writers(TrackersConfig()) == []
    both = TrackersConfig(tensorboard_dir=Path("tb"), mlflow_uri="http://host")
    assert [w.name for w in make_writers(both)] == ["TensorBoard", "MLflow"]
    monkeypatch.setattr("domo_server.integrations.trackers.find_spec", lambda name: None)
    for config, extra in (
        ({"tensorboard_dir": "x"}, "tensorboard"),
        ({"mlflow_uri": "x"}, "mlflow"),
    ):
        with pytest.raises(ConfigError, match=rf"'domo-federated\[{extra}\]'"):
            make_writers(TrackersConfig.model_validate(config))
