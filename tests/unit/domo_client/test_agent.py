from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from domo.errors import ConfigError, TaskError
from domo.run_config import RunConfig
from domo_client.given import check_workers, parse_device, parse_shard
from domo_client.observe.messages import Ui
from domo_client.rpc.offer import Offer
from domo_client.work import MissingDataError, prepare
from tests.support.live.silos import options


def offer(task: str = "digits", **given: Any) -> Offer:
    return Offer("1-r", "r", task, RunConfig(task=task, num_rounds=1, **given))


def arrays(folder: Path, train: int | None = 5, test: int | None = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for name, n in (("train", train), ("test", test)):
        if n is not None:
            images, labels = np.zeros((n, 1, 8, 8), np.float32), np.arange(n) % 10
            np.savez(folder / f"{name}.npz", inputs=images, labels=labels)
    return folder


@pytest.mark.parametrize(("task", "is_public"), [("digits", True), ("imagefolder:10", False)])
def test_a_part_of_a_public_dataset_is_offered_where_there_is_one(
    task: str, is_public: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = offer(task, num_silos=3)
    with pytest.raises(MissingDataError) as caught:
        prepare(wanted, options())
    assert caught.value.is_public == is_public
    ui = Ui(["domo-client", "--name", "a"])
    ui.needs_data(wanted, str(caught.value), caught.value.is_public)
    said = "".join(capsys.readouterr())
    assert "domo-client --name a --data DIR" in said
    assert ("--shard 0/3" in said) == is_public


# what may be trained


def test_without_a_list_the_named_tasks_may(tmp_path: Path) -> None:
    work = prepare(offer(), options(arrays(tmp_path / "d")))
    assert (len(work.train), len(work.evaluation)) == (5, 3)
    assert isinstance(work.model, nn.Module)
    with pytest.raises(TaskError, match=r"not on this silo's list \(digits, .*--task my:Task"):
        prepare(offer("my:Task"), options(tmp_path))


def test_a_named_task_with_a_number_is_a_named_task(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        prepare(offer("imagefolder:3"), options(tmp_path))
    assert "not on this silo's list" not in str(caught.value)
    with pytest.raises(TaskError, match="not on this silo's list"):
        prepare(offer("imagefolder:3"), options(tmp_path, "imagefolder:4"))


def test_with_a_list_only_what_is_on_it_may(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"not on this silo's list \(a:B, c:D\); allow it with"):
        prepare(offer(), options(arrays(tmp_path / "d"), "a:B", "c:D"))
    assert prepare(offer(), options(arrays(tmp_path / "d"), "a:B", "digits")).train is not None


def test_nothing_is_imported_that_is_not_allowed(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="not on this silo's list"):  # a module digits
        prepare(offer("digits:Task"), options(tmp_path))
    with pytest.raises(TaskError, match="not on this silo's list"):
        prepare(offer("no_such_module:Task"), options(tmp_path))
    for task in ("digits:0x1", "digits:Task.other", "os:getcwd", "domo.tasks.named:digits"):
        with pytest.raises(TaskError, match="not on this silo's list"):
            prepare(offer(task), options(tmp_path))
    with pytest.raises(TaskError, match="a task has 10000 classes at most"):
        prepare(offer("imagefolder:99999999999"), options(tmp_path))
    with pytest.raises(TaskError, match="there is no module 'no_such_module'"):
        prepare(offer("no_such_module:Task"), options(tmp_path, "no_such_module:Task"))


# data


def test_no_data_was_given() -> None:
    with pytest.raises(MissingDataError, match=r"train\.npz and test\.npz with inputs"):
        prepare(offer(), options())
    with pytest.raises(MissingDataError, match=r"data of the task tests.support.tasks.bad:Linear"):
        prepare(
            offer("tests.support.tasks.bad:Linear"), options(None, "tests.support.tasks.bad:Linear")
        )


def test_empty_data(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=f"the data folder {tmp_path} is empty"):
        prepare(offer(), options(tmp_path))


class Empty:
    """A task whose dataset has no items."""

    def build_model(self) -> nn.Module:
        return nn.Linear(1, 1)

    def train_data(self, root: Path, shard: Any) -> list[Any]:
        return []

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return model(batch).sum()

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Any]:
        return {}


class Broken(Empty):
    def build_model(self) -> nn.Module:
        raise ZeroDivisionError("width / 0")

    def train_data(self, root: Path, shard: Any) -> list[Any]:
        return [torch.zeros(1)]


class BrokenTests(Broken):
    def eval_data(self, root: Path, shard: Any) -> list[Any]:
        raise FileNotFoundError(2, "No such file", "scans.csv")


class LazyTests(Broken):
    @property
    def eval_data(self) -> Any:
        raise ImportError("no pydicom here")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LazyTests", r"eval_data\(root, shard\) fails: ImportError: no pydicom here"),
        ("Empty", r"training data in .*: there is nothing in it"),
        ("Broken", r"build_model\(\) fails: ZeroDivisionError: width / 0"),
        ("BrokenTests", r"eval_data\(root, shard\) fails: FileNotFoundError: .*scans\.csv"),
    ],
)
def test_what_a_task_of_ones_own_may_do_wrong(name: str, text: str, tmp_path: Path) -> None:
    task = f"{__name__}:{name}"
    with pytest.raises(TaskError, match=text):
        prepare(offer(task), options(tmp_path, task))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TooLarge", "the model cannot be put on cpu: out of memory: CUDA"),
        ("NoModel", r"build_model\(\) must give a torch\.nn\.Module, and gives None"),
        ("Exhausted", r"train_data\(root, shard\) fails: MemoryError"),
        ("Endless", "Data is no map-style dataset: it has to have a length, and items by index"),
        ("NoLength", "list_iterator is no map-style dataset"),
        ("Chatty", r"train_data\(root, shard\) fails: SystemExit: the licence has expired"),
    ],
)
def test_what_cannot_be_made_ready_is_a_reason_to_decline(
    name: str, text: str, tmp_path: Path
) -> None:
    task = f"tests.support.tasks.bad:{name}"
    with pytest.raises(TaskError, match=text):
        prepare(offer(task), options(tmp_path, task))


def test_a_shard_needs_no_folder() -> None:
    work = prepare(offer(similarity=0.5), options(None, shard=(1, 4)))
    assert work.train is not None
    assert work.evaluation is not None
    assert 300 < len(work.train) < 420
    assert len(work.evaluation) == 90


def test_training_data_alone_is_enough(tmp_path: Path) -> None:
    work = prepare(offer(), options(arrays(tmp_path / "d", test=None)))
    assert work.train is not None
    assert work.evaluation is None


def test_an_evaluator_needs_test_data_only(tmp_path: Path) -> None:
    work = prepare(offer(), options(arrays(tmp_path / "a", train=None), role="evaluator"))
    assert work.train is None
    assert work.evaluation is not None
    with pytest.raises(TaskError, match="an evaluator needs test data, and there is none in"):
        prepare(offer(), options(arrays(tmp_path / "b", test=None), role="evaluator"))


def test_the_model_is_the_same_at_every_silo(tmp_path: Path) -> None:
    """Frozen parameters need not be sent, because the seed gives them."""
    data = arrays(tmp_path / "d")
    torch.manual_seed(1)
    first = prepare(offer(seed=4), options(data)).model.state_dict()
    torch.manual_seed(2)
    second = prepare(offer(seed=4), options(data)).model.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)


# flags


def test_devices() -> None:
    assert parse_device("cpu") == torch.device("cpu")
    assert parse_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for text in ("gpu", "cuda:99", "tpu:0"):
        with pytest.raises(ConfigError, match=f"--device {text}: not usable here"):
            parse_device(text)


def test_shards() -> None:
    assert parse_shard(None) is None
    assert parse_shard("0/1") == (0, 1)
    assert parse_shard("3/4") == (3, 4)
    for text in ("4/4", "1", "a/b", "-1/4", "1/0", "", "/", "²/4", "1/4/4", "0.5/1"):
        with pytest.raises(ConfigError, match="--shard must be i/K with 0 <= i < K"):
            parse_shard(text)


def test_loader_processes_without_shared_memory_are_refused_before_joining(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_lock(self: Any) -> None:
        raise OSError(30, "Read-only file system")

    check_workers(2)
    monkeypatch.setattr("multiprocessing.context.BaseContext.Lock", no_lock)
    check_workers(0)
    with pytest.raises(ConfigError, match=r"--workers 2: .*\(/dev/shm: Read-only file system\)"):
        check_workers(2)
