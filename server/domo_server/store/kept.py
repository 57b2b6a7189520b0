"""The best model's checkpoint, kept beside the newest ones: one of a run, under its own name."""

import os
from pathlib import Path
from shutil import copyfile

from domo.errors import StateError
from domo.storage import files
from domo_server.store.checkpoint import Checkpoint, load_checkpoint
from domo_server.store.rows import RunRow

PATTERN = "best-*.safetensors"


def best_name(round_index: int) -> str:
    """Name of the file of the best model, x_{round_index}."""
    return f"best-{round_index:06d}.safetensors"


def keep_best(folder: Path, made: Checkpoint) -> str:
    """Keep a checkpoint under a second name, durably. Checkpoints are never written over.

    Args:
        folder: The run's checkpoint folder.
        made: The checkpoint.

    Returns:
        The name, for the database.
    """
    path = folder / best_name(made.round_index)
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(made.file.path, temporary)
    except OSError:  # a file system without links
        copyfile(made.file.path, temporary)
    files.sync_path(temporary)
    temporary.replace(path)
    temporary.unlink(missing_ok=True)  # of two names of one file the old one stays
    files.sync_path(folder)
    return path.name


def prune_best(folder: Path, name: str | None) -> None:
    """Delete all that were kept but the one that the database names."""
    for path in folder.glob(PATTERN):
        if path.name != name:
            path.unlink(missing_ok=True)


def best_checkpoint(folder: Path, row: RunRow) -> Checkpoint | None:
    """The checkpoint of a run's best model; None: none was judged.

    Args:
        folder: The run's checkpoint folder.
        row: The run.

    Raises:
        StateError: The file is missing or damaged.
    """
    if row.best_checkpoint is None:
        return None
    if row.best_digest is None or row.best_index is None:
        raise StateError(f"the best model of {row.run_id} is not wholly recorded")
    return load_checkpoint(folder, row.best_checkpoint, row.best_digest, row.best_index, None)
