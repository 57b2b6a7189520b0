"""The initial model of a run: a task's module, built under the run's seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.inputs.images import ImageSettings
from domo.model.flat import FlatModel
from domo.model.given import load_given
from domo.model.layout import Layout, Section
from domo.model.model_file import load_model, pack, save_model
from domo.outside.text import task_error
from domo.run_config import RunConfig
from domo.seeds import seed_for
from domo.stages.now import in_stage
from domo.tasks import load_task
from domo.tasks.base import Task
from domo.training.task_errors import kind_of, task_errors

CURE = (
    "All tensors of the model have to be there, with its names and shapes: give other weights, or "
    "load these in build_model, as far as they fit"
)


def task_of(config: RunConfig) -> Task:
    """The task of a run, with what the run says of its inputs.

    Raises:
        TaskError: There is none, or it does not take these settings.
    """
    with in_stage("task"):
        return load_task(config.task, config.images, config.classes)


def initial_of(config: RunConfig, task: Task) -> tuple[Layout, dict[Section, Tensor]]:
    """x_0 of a run: as it was given, or its task's model, built under the run's seed.

    Raises:
        StateError: The file that was given cannot be read.
        TaskError: The model cannot be trained in a federation, or not with these private parts.
    """
    if config.initial_model:
        return given_initial(Path(config.initial_model), config.private)
    return build_initial(task, config.seed, private=config.private)


def given_initial(path: Path, private: Sequence[str]) -> tuple[Layout, dict[Section, Tensor]]:
    """x_0 of a file, with what a run has private.

    Raises:
        StateError: The file cannot be read.
        TaskError: The patterns do not fit it.
    """
    layout, vectors, _ = load_model(path)
    if not private:
        return layout, vectors
    named = {n: t for s, v in vectors.items() for n, t in layout.split(s, v).items()}
    mine = layout.with_private(private)
    return mine, pack(mine, {e.name: named[e.name].to(e.torch_dtype) for e in mine.entries})


def build_initial(
    task: Task,
    seed: int,
    weights: Mapping[str, Tensor] | None = None,
    private: Sequence[str] = (),
) -> tuple[Layout, dict[Section, Tensor]]:
    """x_0 of a task: its model, built under the seed, or given weights in its layout.

    Raises:
        TaskError: `weights` do not fit the model.
    """
    module = build_model(task, seed)
    if weights is not None and (differs := load_given(module, weights)):
        raise task_error(f"the weights do not fit the task's model: {differs}. {CURE}")
    return whole(module, private)


def about_initial(task_name: str, seed: int, images: ImageSettings | None) -> dict[str, str]:
    """Texts for the header of x_0's file: what it was made of."""
    about = {"task": task_name, "seed": str(seed)}
    return about if images is None else about | {"images": images.model_dump_json()}


def save_initial(module: nn.Module, path: Path | str) -> None:
    """Write a module as the x_0 of a run, for who has a loop and no task.

    Raises:
        TaskError: The module cannot be trained in a federation.
    """
    save_model(Path(path), *whole(module))


def whole(module: nn.Module, private: Sequence[str] = ()) -> tuple[Layout, dict[Section, Tensor]]:
    """All of a module, as a run may start from.

    Raises:
        TaskError: The module cannot be trained in a federation.
    """
    flat = FlatModel(module, private)
    named = flat.layout.split(Section.TRAINABLE, flat.vector)
    for name, values in named.items():
        if not torch.isfinite(values).all():
            raise task_error(
                f"parameter {name} has values that are not finite: no run starts there"
            )
    return flat.layout, flat.read_all()


def build_model(task: Task, seed: int) -> nn.Module:
    """The task's model, with torch seeded as everywhere in a run of this seed.

    Raises:
        TaskError: It makes none.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(seed, "", 0, 0, "initial model"))
        with in_stage("model"), task_errors("build_model() fails"):
            model: Any = task.build_model()
    if not isinstance(model, nn.Module):
        raise task_error(f"build_model() must give a torch.nn.Module, and gives {kind_of(model)}")
    return model
