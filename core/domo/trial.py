"""A federation in this process, in one call: what `domo.simulate` is."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from domo import simulation
from domo.batched.how import How, Mode, Precision
from domo.errors import ConfigError
from domo.meaning.measure import of_task
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulated import SimulationResult, facts_of
from domo.simulating.state import ModelRecord
from domo.simulating.visit import SimulatedSilo
from domo.tasks import check_images, name_of
from domo.tasks.base import Shard, Task
from domo.training.batches import torch_as_it_was
from domo.training.initial import task_of
from domo.training.looking.ready import load_tests, load_train, loader

log = logging.getLogger(__name__)

DEFAULTS = {"task": "digits", "num_rounds": 15, "num_silos": 4}
"""The demo: about a second of training on embedded data."""
SAME = ({"local_epochs", "local_steps", "local_steps_list"}, {"num_silos", "roster"})
"""Settings that say one thing in several ways."""
PREFIX = "silo-"
Data = Mapping[str, Dataset[Any] | tuple[Dataset[Any], Dataset[Any] | None]]
"""A silo's name to its training data, or to its training and test data."""


def simulate(
    what: RunConfig | Task | str | None = None,
    data: Data | Path | str = "data",
    *,
    task: Task | str | None = None,
    config: RunConfig | None = None,
    device: str | torch.device = "cpu",
    on_model: Callable[[ModelRecord], None] | None = None,
    processes: int | None = 1,
    mode: Mode = "exact",
    precision: Precision = "float32",
    **settings: Any,
) -> SimulationResult:
    """Run a federation in this process, with the bytes that a deployed one ends with.

        result = domo.simulate("digits", method="DOMO", num_rounds=10)
        result = domo.simulate(MyTask(), {"a": (train_a, test_a), "b": (train_b, test_b)})
        result = domo.simulate(domo.RunConfig(task="digits", num_rounds=5), seed=1)
        result.plot()
        model.load_state_dict(result.state_dict)

    Args:
        what: The run as a `RunConfig`, or its task; the same as `config`, or `task`.
        data: The datasets of each silo by name; or the task's folder, of which each silo gets a
            shard.
        task: A named task, `module:Class`, or an object of one's own; that of `config` by default,
            or else digits.
        config: The run; its settings are the defaults of those that follow.
        device: Where silos compute.
        on_model: Called with the record of each server model, once it is tested.
        processes: Among how many processes the silos are shared out, with the same bytes; None: as
            many as pay. A script that asks for several begins with `if __name__ == "__main__":`,
            and its task is defined in a module.
        mode: `batched` computes the layers of all silos in one call: for small models several times
            as fast, and the same within float tolerance, not the same bytes. `exact` has the bytes
            of a deployed run; `auto` takes what is quicker here.
        precision: bf16 for lower precision inside the forward pass, in mode `batched`.
        settings: Fields of `RunConfig`; by default 4 silos and 15 rounds.

    Returns:
        The model, and the history of the run: tables, a plot, what a notebook shows.

    Raises:
        ConfigError: A setting is wrong; names it.
        TaskError: The task or its data cannot be used.
        DivergenceError: Non-finite numbers; names the round and the silo.
    """
    task, config = _told_apart(what, task, config)
    base = DEFAULTS if config is None else config.model_dump(exclude_unset=True)
    if task is not None:
        settings["task"] = task if isinstance(task, str) else name_of(task)
    if isinstance(data, Mapping):
        base = laid_over(base, {"roster": sorted(data, key=str.encode)})
    config = validate(RunConfig, laid_over(base, settings), "domo.simulate")
    if task is None or isinstance(task, str):
        made = task_of(config)
    else:
        check_images(name_of(task), config.images)
        made = task
    if isinstance(data, Mapping):
        silos = [_silo(made, name, held) for name, held in data.items()]
    else:
        names = silo_names(config)
        silos = shard_silos(made, Path(data), names, config.similarity, config.seed)
    with torch_as_it_was(torch.device(device)):
        result = simulation.simulate(
            config,
            made,
            silos,
            device=device,
            on_model=on_model,
            processes=processes,
            how=How(mode, precision),
        )
    if result.untested:
        log.warning("%s", result.untested)
    return replace(result, facts=facts_of(config, result.mode))


def _told_apart(
    what: RunConfig | Task | str | None, task: Task | str | None, config: RunConfig | None
) -> tuple[Task | str | None, RunConfig | None]:
    """The task and the run, where one of them may have come first.

    Raises:
        ConfigError: One of them came twice, or is neither.
    """
    if isinstance(what, RunConfig):
        if config is not None:
            raise ConfigError("domo.simulate: two configurations: the first argument and config=")
        config, what = what, None
    elif isinstance(what, type):
        raise ConfigError(
            f"domo.simulate: {what.__name__} is a class; give an object: {what.__name__}()"
        )
    elif what is not None and not isinstance(what, str) and not hasattr(what, "build_model"):
        hint = "; settings are given by name, as **settings" if isinstance(what, Mapping) else ""
        raise ConfigError(
            "domo.simulate: the first argument is a domo.RunConfig, a task's name, or an object "
            f"with build_model() and the other methods of a task, not {type(what).__name__}{hint}"
        )
    if what is not None and task is not None:
        raise ConfigError("domo.simulate: two tasks: the first argument and task=")
    return (task if what is None else what), config


def laid_over(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others as defaults, but for those that say otherwise what is given."""
    said = {key for group in SAME if group & given.keys() for key in group}
    return {k: v for k, v in base.items() if k not in said} | dict(given)


def _silo(task: Task, name: str, held: Any) -> SimulatedSilo:
    given, test = held if isinstance(held, tuple) else (held, None)
    train = loader(f"the training data of {name}", given)
    if not len(train):
        raise ConfigError(f"the training data of {name} are empty")
    tests = loader(f"the test data of {name}", test) if test is not None else None
    return SimulatedSilo(name, train, tests, of_task(task, Path(), None, train.dataset))


def silo_names(config: RunConfig, prefix: str = PREFIX) -> tuple[str, ...]:
    """The run's roster, or `silo-0`, `silo-1`, ...; the i-th holds shard i."""
    return config.roster or tuple(f"{prefix}{i}" for i in range(config.expected_silos))


def load_silo(task: Task, name: str, root: Path, shard: Shard | None) -> SimulatedSilo:
    """A silo with its data; without a shard, all that lies in `root` is its own."""
    train, tests = load_train(task, root, shard), load_tests(task, root, shard)
    if not len(train):
        raise ConfigError(f"the training data of {name} are empty")
    evaluation = tests if tests is not None and len(tests) else None
    return SimulatedSilo(name, train, evaluation, of_task(task, root, shard, train.dataset))


def shard_silos(
    task: Task, root: Path, names: Sequence[str], similarity: float, seed: int
) -> list[SimulatedSilo]:
    """Silos of these names; the i-th holds `Shard(i, len(names), similarity, seed)`."""
    return [
        load_silo(task, name, root, Shard(i, len(names), similarity, seed))
        for i, name in enumerate(names)
    ]
