"""Models at rest: one safetensors file with every tensor by name, and the layout beside them.

Any tool that reads safetensors can load the file; domo finds the sections again from the metadata.
"""

import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from domo import disk
from domo.batches import seed_for
from domo.errors import StateError, TaskError
from domo.tasks.base import Task
from domo.vector import FlatModel, Layout, Section, as_bytes

FORMAT_VERSION = "1"
Vectors = Mapping[Section, Tensor]


def write_safetensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a file durably: under a temporary name, fsync, rename, fsync of the folder.

    Raises:
        OSError: A full disk, for one; nothing is left then, and an older file stays as it was.
    """
    disk.make_folder(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    try:
        save_file(tensors, temporary, metadata | {"format_version": FORMAT_VERSION})
        disk.sync_path(temporary)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, SafetensorError):
            found = re.search(r"os error (\d+)|code: (\d+)", str(error))
            code = int(found.group(1) or found.group(2)) if found else errno.EIO
            raise OSError(code, os.strerror(code), str(path)) from error
        raise
    disk.replace(temporary, path)


def save_model(
    path: Path, layout: Layout, vectors: Vectors, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a complete model (tied names included) with its layout."""
    tensors = layout.state_dict(vectors)
    write_safetensors(path, tensors, {**(metadata or {}), "domo_layout": layout.to_json()})


def load_model(path: Path) -> tuple[Layout, dict[Section, Tensor], dict[str, str]]:
    """Read a file of `save_model`: layout, vectors of all sections, metadata.

    Raises:
        StateError: No such file, not a safetensors file, or one without a layout.
    """
    try:
        with safe_open(path, framework="pt") as f:
            metadata = f.metadata() or {}
            if "domo_layout" not in metadata:
                raise StateError(
                    f"{path} holds tensors but not which of them are trained. Make an initial "
                    f"model from it with: domo init TASK --weights {path.name} --out x0.safetensors"
                )
            layout = Layout.from_json(metadata["domo_layout"])
            named = {e.name: f.get_tensor(e.name) for e in layout.entries}
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise StateError(f"cannot read the model file {path}: {error}") from error
    return layout, pack(layout, named), metadata


def pack(layout: Layout, named: Mapping[str, Tensor]) -> dict[Section, Tensor]:
    """Named tensors to section vectors (inverse of `Layout.split`)."""
    out: dict[Section, Tensor] = {}
    for section in Section:
        tensors = [named[e.name] for e in layout.section(section)]
        if section in (Section.TRAINABLE, Section.FLOAT_BUFFER):
            parts = [t.float().reshape(-1) for t in tensors]
            out[section] = torch.cat(parts) if parts else torch.empty(0)
        else:
            out[section] = as_bytes(tensors)
    return out


def build_initial(
    task: Task, seed: int, weights: Mapping[str, Tensor] | None = None
) -> tuple[Layout, dict[Section, Tensor]]:
    """x_0 of a task: its model, built under the seed, or given weights in its layout.

    Raises:
        TaskError: `weights` do not fit the model.
    """
    module = build_model(task, seed)
    if weights is not None:
        try:
            module.load_state_dict(dict(weights))
        except RuntimeError as error:
            raise TaskError(f"the weights do not fit the task's model: {error}") from error
    flat = FlatModel(module)
    return flat.layout, flat.read_all()


def save_initial(module: nn.Module, path: Path) -> None:
    """Write a module as the x_0 of a run, for who has a loop and no task.

    Raises:
        TaskError: The module cannot be trained in a federation.
    """
    flat = FlatModel(module)
    save_model(path, flat.layout, flat.read_all())


def build_model(task: Task, seed: int) -> nn.Module:
    """The task's model, with torch seeded as everywhere in a run of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(seed, "", 0, 0, "initial model"))
        return task.build_model()
