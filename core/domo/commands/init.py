"""What `domo init` does: a complete initial model in one file."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from domo.commands.run_flags import find_run
from domo.errors import ConfigError
from domo.inputs.images import ImageSettings
from domo.model.layout import Section
from domo.model.model_file import save_model
from domo.names import shown
from domo.ops.config_file import validate
from domo.ops.console import say
from domo.run_config import RunConfig
from domo.tasks import load_task
from domo.training.initial import about_initial, build_initial

log = logging.getLogger(__name__)

INDEX = ".index.json"
"""How the list of the parts ends that a large model is written in."""
NEEDED = "it needs tensors by name, as torch.save(model.state_dict(), ...) makes"


def make_initial(
    task_name: str,
    seed: int,
    out: Path,
    weights: Path | None,
    config: Path | None = None,
    run: str | None = None,
) -> None:
    """Build a task's model under a seed, or around given weights, and write it.

    Args:
        task_name: The task.
        seed: Of the weights that are not given.
        out: The file.
        weights: A file of weights by name.
        config: TOML file with the run, for what it says of the inputs.
        run: The run's name in that file.
    """
    images = images_of(task_name, config, run) if config else None
    layout, vectors = build_initial(
        load_task(task_name, images), seed, read_weights(weights) if weights else None
    )
    save_model(out, layout, vectors, about_initial(task_name, seed, images))
    frozen = sum(e.numel for e in layout.section(Section.FROZEN))
    say(
        f"{out}: {layout.num_params:,} trained and {frozen:,} frozen parameters\n"
        f'next: initial_model = "{out}" in a run\'s configuration'
    )


def images_of(task_name: str, path: Path, run: str | None) -> ImageSettings | None:
    """The image settings of a run in a file.

    Raises:
        ConfigError: There is no such run, it is wrong, or it trains another task.
    """
    entry, at = find_run(path, run)
    config = validate(RunConfig, entry, path, at=at)
    if config.task != task_name:
        raise ConfigError(f"{path}: {at} trains {config.task}, not {task_name}")
    return config.images


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors by name: of a safetensors file or the index of several, or a state dict of torch.

    A checkpoint that has one state dict, beside numbers and texts, is taken for that.

    Raises:
        ConfigError: No such file, or none of these.
    """
    try:
        named = _read(path)
    except FileNotFoundError as error:  # safetensors says which in its text
        part = error.filename or str(error).rpartition(": ")[2] or path
        raise ConfigError(f"--weights {part}: no such file") from None
    except OSError as error:
        raise ConfigError(f"--weights {path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # an unpickler can raise anything, and says what is not for a user
        log.debug("%s", path, exc_info=error)
        raise ConfigError(
            f"--weights {path}: holds something else, or is damaged; {NEEDED}"
        ) from None
    if not _named(named):
        inner = [k for k, v in named.items() if _named(v)] if isinstance(named, Mapping) else []
        if len(inner) != 1:
            under = f". {' and '.join(map(shown, inner[:3]))} in it are: save one alone"
            raise ConfigError(f"--weights {path}: {NEEDED}{under if inner else ''}")
        named = named[inner[0]]
    return dict(named)


def _read(path: Path) -> Any:
    if path.name.endswith(INDEX):
        parts = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        found: dict[str, Tensor] = {}
        for part in parts:
            found |= _read(path.with_name(Path(part).name))
        return found
    if path.suffix == ".safetensors":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def _named(value: Any) -> bool:
    """Whether it is tensors by name."""
    return (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())
    )
