"""Runs on executors that lose them, break, or answer in another order."""

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from domo.commands.compare import compare, to_json
from domo.errors import ConfigError, DivergenceError, TransportError
from domo.run_config import RunConfig
from domo.sweeps import cells
from domo.sweeps.cells import Setting, run_cells
from domo.sweeps.engines import elsewhere

CONFIG = RunConfig(task="digits", num_rounds=1, num_silos=2, local_steps=2)
TODO = [Setting(CONFIG.model_copy(update={"seed": s}), Path("nowhere")) for s in range(4)]


class Faulty(Executor):
    """Runs each call at once, but for those that it is told to lose.

    Args:
        lose: Given how often it was asked; what is raised in place of a result.
    """

    def __init__(self, lose: Callable[[int], Exception | None]):
        self.num, self._lose, self.futures = 0, lose, list[Future[Any]]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.num += 1
        error = self._lose(self.num)
        if isinstance(error, BrokenExecutor):
            raise error
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(fn(*args, **kwargs))
        self.futures.append(future)
        return future


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "run_one", lambda setting: [setting.config.seed])


def on(executor: Executor, at_once: int | None = None) -> Iterator[tuple[int, Any]]:
    return run_cells(TODO, partial(nullcontext, executor), at_once)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("at_once", [None, 1, 2])
def test_a_run_that_is_lost_is_done_again(at_once: int | None) -> None:
    executor = Faulty(lambda n: OSError("gone") if n in (1, 3) else None)
    assert dict(on(executor, at_once)) == {i: [i] for i in range(4)}
    assert executor.num == 6


@pytest.mark.usefixtures("_quick")
def test_but_not_without_end() -> None:
    executor = Faulty(lambda n: OSError("gone"))
    with pytest.raises(TransportError, match=r"DOMO, seed 0: its worker was lost 3 times.*gone"):
        dict(on(executor, 1))
    assert executor.num == 3 * 4 - 3


@pytest.mark.usefixtures("_quick")
def test_a_pool_that_breaks_is_made_anew_and_one_that_never_works_is_told() -> None:
    made: list[Faulty] = []

    def begin() -> Any:
        first = not made
        made.append(Faulty(lambda n: BrokenExecutor("all") if first and n == 3 else None))
        return nullcontext(made[-1])

    assert dict(run_cells(TODO, begin, 2)) == {i: [i] for i in range(4)}
    assert [m.num for m in made] == [3, 2]
    with pytest.raises(ConfigError, match="takes no work: all"):
        dict(on(Faulty(lambda n: BrokenExecutor("all"))))


def test_what_a_run_raises_is_raised_once_and_the_others_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def diverges(setting: Setting) -> Any:
        calls.append(setting)
        raise DivergenceError("not finite", 3)

    monkeypatch.setattr(cells, "run_one", diverges)
    with pytest.raises(DivergenceError, match="not finite"):
        dict(on(Faulty(lambda n: None), 1))
    assert len(calls) == 1
    monkeypatch.setattr(cells, "run_one", lambda s: 1 / 0)
    with pytest.raises(RuntimeError, match=r"(?s)DOMO, seed \d: .*ZeroDivisionError"):
        dict(on(Faulty(lambda n: None)))


def test_threads_of_one_process_have_the_numbers_of_one_run_after_another(tmp_path: Path) -> None:
    setting, told = Setting(CONFIG, tmp_path), []
    one = compare(setting, ("DOMO", "FedAvg"), (0, 1))
    with ThreadPoolExecutor(3) as threads:
        keep: Any = lambda m, s, _: told.append((m, s))  # noqa: E731
        several = compare(setting, ("DOMO", "FedAvg"), (0, 1), executor=threads, on_run=keep)
    assert to_json(several) == to_json(one)
    assert sorted(told) == [(m, s) for m in ("DOMO", "FedAvg") for s in (0, 1)]


def test_places_that_there_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # there may be a Slurm here
    with pytest.raises(ConfigError, match="give dask://host:port"):
        elsewhere("ray", tmp_path, 1)
    with (
        pytest.raises(ConfigError, match="this machine is no part of a Slurm"),
        elsewhere("slurm", tmp_path, 1),
    ):
        pass
