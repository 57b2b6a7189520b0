"""Checkpoints: (x_{r+1}, x_r, m_{r+1}, mbar_{r+1}, buffers) of a run, one file for each round.

A checkpoint counts once the database names its digest; a file without a row is a crash's leftover
and is deleted at start. Frozen parameters lie in x0.safetensors only.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from domo.errors import StateError
from domo.model_file import save_model, write_safetensors
from domo.vector import Layout, Section, digest_all

KEEP = 2
"""Checkpoints kept for each run: the newest and the one before."""


@dataclass(slots=True)
class ServerState:
    """What the coordinator owns after r rounds. Vectors have shape (n,), float32.

    Attributes:
        round_index: r.
        x: x_r.
        m: m_r, gradient units.
        x_prev: x_{r-1}; None in round 0.
        mbar: Mean local momentum, where the method averages it; None in round 0.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
        buffers: Float (float32) and integer (uint8) buffers.
    """

    round_index: int
    x: Tensor
    m: Tensor
    x_prev: Tensor | None = None
    mbar: Tensor | None = None
    inference_scale: float | None = None
    buffers: dict[Section, Tensor] = field(default_factory=dict)


def initial_state(vectors: dict[Section, Tensor]) -> ServerState:
    """State before round 0: m_0 = 0."""
    x = vectors[Section.TRAINABLE]
    buffers = {s: vectors[s] for s in (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER)}
    return ServerState(0, x, torch.zeros_like(x), buffers=buffers)


def _path(folder: Path, round_index: int) -> Path:
    return folder / f"x{round_index:06d}.safetensors"


def save_checkpoint(folder: Path, state: ServerState) -> tuple[str, str]:
    """Write a state durably.

    Returns:
        File name and digest of all vectors, for the database.
    """
    tensors = {"x": state.x, "m": state.m} | {s.value: v for s, v in state.buffers.items()}
    if state.x_prev is not None:
        tensors["x_prev"] = state.x_prev
    if state.mbar is not None:
        tensors["mbar"] = state.mbar
    path = _path(folder, state.round_index)
    write_safetensors(path, tensors, {"round_index": str(state.round_index)})
    return path.name, digest_all(tensors)


def load_checkpoint(
    folder: Path, name: str, expected: str, round_index: int, scale: float | None
) -> ServerState:
    """Read the checkpoint that the database names.

    Args:
        folder: The run's checkpoint folder.
        name: File name from the database.
        expected: Its digest, from the database.
        round_index: r, from the database.
        scale: Inference scale, from the database.

    Raises:
        StateError: The file is missing, damaged or not the one that was committed.
    """
    path = folder / name
    try:
        tensors = load_file(path)
        x, m = tensors["x"], tensors["m"]
    except (SafetensorError, OSError, KeyError) as error:
        raise StateError(f"the committed checkpoint {path} cannot be read: {error}") from error
    if digest_all(tensors) != expected:
        raise StateError(f"the checkpoint {path} is not the one that the database names")
    buffers = {s: tensors[s.value] for s in (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER)}
    return ServerState(
        round_index, x, m, tensors.get("x_prev"), tensors.get("mbar"), scale, buffers
    )


def prune_checkpoints(folder: Path, current: str) -> None:
    """Delete all but the newest `KEEP` up to the committed one, and leftovers beyond it."""
    files = sorted(folder.glob("x*.safetensors"))
    good = [f for f in files if f.name <= current]
    for path in [*good[:-KEEP], *(f for f in files if f.name > current)]:
        path.unlink(missing_ok=True)
    for path in folder.glob("*.tmp"):
        path.unlink(missing_ok=True)


def export_model(
    path: Path, layout: Layout, state: ServerState, frozen: Tensor, about: dict[str, str]
) -> None:
    """Write x_r as a complete model: all sections, tied names included."""
    vectors = {Section.TRAINABLE: state.x, Section.FROZEN: frozen, **state.buffers}
    save_model(path, layout, vectors, about)
