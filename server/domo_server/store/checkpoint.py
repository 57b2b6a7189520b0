"""Checkpoints: x_r, m_r, mbar_r and buffers of a run, one safetensors file for each round.

A checkpoint counts once the database names its digest; a file without a row is a crash's leftover
and is deleted at start. x_{r-1} is in the file before; frozen parameters have a file of their own.
The coordinator holds none of this in memory: it reads and writes blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from domo.errors import StateError
from domo.fold import ReadBlock
from domo.model.flat import combine
from domo.model.layout import BUFFERS, Layout, Section
from domo.model.model_file import open_model, section_blocks, write_model
from domo.model.tensor_file import Spec, TensorFile
from domo.storage import files

KEEP = 2
"""Checkpoints that a run needs: the newest and the one before. While it runs there is one more."""
FROZEN_FILE = "frozen.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the coordinator owns after r rounds, in an open file.

    Attributes:
        round_index: r.
        file: x (x_r, shape (n,), float32), m (m_r, gradient units), mbar (mean local momentum,
            where the method averages it, from round 1 on), v (second moment of an adaptive server,
            from round 1 on), c (control of SCAFFOLD where it travels, from round 1 on), buffers by
            section.
        digests: Of each of them, hex xxh3-128.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
        x_prev_digest: Of x_{r-1}; None in round 0.
    """

    round_index: int
    file: TensorFile
    digests: Mapping[str, str]
    inference_scale: float | None = None
    x_prev_digest: str | None = None

    def __getitem__(self, name: str) -> Tensor:
        """A whole vector."""
        return self.file.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self.file

    def reader(self, name: str) -> ReadBlock:
        """Reads blocks of a vector."""
        return self.file.reader(name)

    def num_entries(self, name: str) -> int:
        """Length of a float32 vector."""
        return self.file.num_bytes(name) // 4

    @property
    def digest(self) -> str:
        """Hex digest of all of it, and of what it follows."""
        before = {} if self.x_prev_digest is None else {"x_prev": self.x_prev_digest}
        return combine({**self.digests, **before})


def checkpoint_name(round_index: int) -> str:
    """Name of the file of x_r."""
    return f"x{round_index:06d}.safetensors"


def create_file(
    folder: Path, round_index: int, sizes: Mapping[str, int], x_prev_digest: str | None
) -> TensorFile:
    """The file of a checkpoint to be, under a temporary name; one that is not needed any more goes.

    Who still reads that one, such as a slow download, may end.

    Args:
        folder: The run's checkpoint folder.
        round_index: r.
        sizes: Bytes of each vector.
        x_prev_digest: Of x_{r-1}.
    """
    files.make_folder(folder)
    specs = [
        Spec(name, torch.uint8, (size,))
        if name == Section.INTEGER_BUFFER.value
        else Spec(name, torch.float32, (size // 4,))
        for name, size in sizes.items()
    ]
    about = {"round_index": str(round_index), "x_prev_digest": x_prev_digest or ""}
    (folder / checkpoint_name(round_index - 1 - KEEP)).unlink(missing_ok=True)
    path = folder / f"{checkpoint_name(round_index)}.tmp"
    return TensorFile.create(path, specs, about)


def save_checkpoint(folder: Path, made: Checkpoint) -> str:
    """Make the file of a checkpoint durable, under its own name.

    Returns:
        The name, for the database.
    """
    path = folder / checkpoint_name(made.round_index)
    temporary = path.with_name(path.name + ".tmp")
    made.file.sync()
    if temporary.exists():  # else an earlier attempt failed after this
        temporary.replace(path)
    made.file.path = path
    files.sync_path(folder)
    return path.name


def load_checkpoint(
    folder: Path, name: str, expected: str, round_index: int, scale: float | None
) -> Checkpoint:
    """Open the checkpoint that the database names.

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
        found = _open(path, round_index, scale)
    except (StateError, KeyError) as error:
        raise StateError(f"the committed checkpoint {path} cannot be read: {error}") from error
    if found.digest != expected:
        raise StateError(f"the checkpoint {path} is not the one that the database names")
    return found


def load_previous(folder: Path, current: Checkpoint, x0: Path) -> Checkpoint | None:
    """The checkpoint of x_{r-1}; None in round 0.

    Args:
        folder: The run's checkpoint folder.
        current: That of x_r.
        x0: The initial model; that of round 0 can be made from it again.

    Raises:
        StateError: The file is missing or damaged.
    """
    if current.x_prev_digest is None:
        return None
    r = current.round_index - 1
    path = folder / checkpoint_name(r)
    found = _open(path, r, None) if r else first_checkpoint(folder, x0)
    if found.digests.get("x") != current.x_prev_digest:
        raise StateError(f"the checkpoint {path} is not the one that {current.file.path} follows")
    return found


def _open(path: Path, round_index: int, scale: float | None) -> Checkpoint:
    file = TensorFile.open(path)
    digests = {s.name: file.digest(s.name) for s in file.specs}
    return Checkpoint(round_index, file, digests, scale, file.metadata.get("x_prev_digest") or None)


def first_checkpoint(folder: Path, x0: Path) -> Checkpoint:
    """State before round 0, made anew from the initial model: m_0 = 0. Not durable.

    Raises:
        StateError: x0 cannot be read.
    """
    layout, model = open_model(x0)
    sections = {"x": Section.TRAINABLE, **{s.value: s for s in BUFFERS}}
    path = folder / checkpoint_name(0)
    if not _is_first(path, layout, model, sections):
        sizes = {name: layout.num_bytes(section) for name, section in sections.items()}
        file = create_file(folder, 0, sizes | {"m": sizes["x"]}, None)
        try:
            for name, section in sections.items():
                _copy_section(layout, model, section, file, name)
        except OSError:
            file.path.unlink()
            raise
        file.path.replace(path)
    return _open(path, 0, None)


def _is_first(
    path: Path, layout: Layout, model: TensorFile, sections: Mapping[str, Section]
) -> bool:
    """Whether the file of round 0 is whole from an earlier start."""
    try:
        file = TensorFile.open(path)
        for name, section in sections.items():
            at, held = 0, file.num_bytes(name)
            for block in section_blocks(layout, model, section):
                size = block.numel()
                if not torch.equal(file.reader(name)(at, at + size), block):
                    return False
                at += size
            if at * (1 if section is Section.INTEGER_BUFFER else 4) != held:
                return False
        return not any(bool(piece.any()) for piece in file.pieces("m"))
    except (StateError, KeyError):
        return False


def _copy_section(
    layout: Layout, model: TensorFile, section: Section, file: TensorFile, name: str
) -> None:
    """Write the vector of a section into a tensor of another file."""
    at = 0
    for block in section_blocks(layout, model, section):
        file.write(name, at, block)
        at += block.numel() * block.element_size()


def frozen_file(folder: Path, x0: Path) -> TensorFile | None:
    """The frozen parameters of a run, if any, as one vector of bytes, made anew from x_0.

    Raises:
        StateError: x0 cannot be read.
    """
    layout, model = open_model(x0)
    size = layout.num_bytes(Section.FROZEN)
    if not size:
        return None
    name = Section.FROZEN.value
    path = folder / FROZEN_FILE
    temporary = path.with_name(path.name + ".tmp")
    file = TensorFile.create(temporary, [Spec(name, torch.uint8, (size,))], {})
    try:
        _copy_section(layout, model, Section.FROZEN, file, name)
    except OSError:
        temporary.unlink()
        raise
    temporary.replace(path)
    return file


def prune_checkpoints(folder: Path, current: str) -> None:
    """Delete all but the newest `KEEP` up to the committed one, and leftovers beyond it."""
    found = sorted(folder.glob("x*.safetensors"))
    good = [f for f in found if f.name <= current]
    for path in [*good[:-KEEP], *(f for f in found if f.name > current)]:
        path.unlink(missing_ok=True)
    for path in folder.glob("*.tmp"):
        path.unlink(missing_ok=True)


def private_section(x0: Path) -> Tensor | None:
    """What is private at the silos, as x_0 has it, as bytes; None: nothing is.

    Raises:
        StateError: x0 cannot be read.
    """
    layout, model = open_model(x0)
    blocks = list(section_blocks(layout, model, Section.PRIVATE))
    return torch.cat(blocks) if blocks else None


def export_model(
    path: Path,
    layout: Layout,
    state: Checkpoint,
    frozen: TensorFile | None,
    about: dict[str, str],
    private: Tensor | None = None,
) -> None:
    """Write x_r as a complete model, durably: all sections, tied names included.

    What is private at the silos is as in x_0 (`private_section`): there are no other values here.
    """
    read = {Section.TRAINABLE: state.reader("x")}
    read |= {s: state.reader(s.value) for s in BUFFERS}
    if frozen is not None:
        read[Section.FROZEN] = frozen.reader(Section.FROZEN.value)
    if private is not None:
        read[Section.PRIVATE] = lambda lo, hi: private[lo:hi]
    write_model(path, layout, lambda section, lo, hi: read[section](lo, hi), about)
