"""Models at rest: one safetensors file with every tensor by name, and the layout beside them.

Any tool that reads safetensors can load the file; domo finds the sections again from the metadata.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
import xxhash
from torch import Tensor

from domo.errors import StateError
from domo.fold import blocks
from domo.model.card import ModelCard, card_in
from domo.model.flat import as_bytes, byte_view, combine
from domo.model.layout import Entry, Layout, Section
from domo.model.tensor_file import Spec, TensorFile
from domo.names import GARBLED
from domo.storage import files

FORMAT_VERSION = "1"
DIGEST = "content_digest"
"""Key of the digest over all tensors in a file's metadata: hex xxh3-128, see `combine`."""
FLOAT_SECTIONS = (Section.TRAINABLE, Section.FLOAT_BUFFER)
Vectors = Mapping[Section, Tensor]
ReadSection = Callable[[Section, int, int], Tensor]


def save_model(
    path: Path, layout: Layout, vectors: Vectors, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a complete model (tied names included) with its layout, durably."""
    write_model(path, layout, lambda section, lo, hi: vectors[section][lo:hi], metadata)


def write_model(
    path: Path, layout: Layout, read: ReadSection, metadata: Mapping[str, str] | None = None
) -> None:
    """`save_model` of vectors that are read block by block.

    Args:
        path: The file.
        layout: Where each tensor lies in them.
        read: Entries lo..hi of a section: float32, or bytes for integer and frozen.
        metadata: Texts for the file's header.

    Raises:
        OSError: A full disk, for one; nothing is left then, and an older file stays as it was.
    """
    entries = {e.name: e for e in layout.entries}
    named = entries | {alias: entries[name] for alias, name in layout.aliases.items()}
    places = {e.name: at for section in Section for e, at in _places(layout, section)}

    def values(e: Entry) -> Iterator[Tensor]:
        is_float = e.section in FLOAT_SECTIONS
        unit, start = 1 if is_float else e.torch_dtype.itemsize, places[e.name]
        for lo, hi in blocks(e.numel):
            block = read(e.section, start + lo * unit, start + hi * unit)
            yield block.to(e.torch_dtype) if is_float else block

    specs = [Spec(name, e.torch_dtype, e.shape) for name, e in named.items()]
    about = {
        **(metadata or {}),
        "domo_layout": layout.to_json(),
        "format_version": FORMAT_VERSION,
        DIGEST: combine({name: _digest(values(e)) for name, e in named.items()}),
    }
    files.make_folder(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    try:
        file = TensorFile.create(temporary, specs, about)
        for name, e in named.items():
            at = 0
            for block in values(e):
                file.write(name, at, block)
                at += block.numel() * block.element_size()
        file.sync()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    files.replace(temporary, path)


def _digest(values: Iterator[Tensor]) -> str:
    whole = xxhash.xxh3_128()
    for block in values:
        whole.update(byte_view(block))
    return whole.hexdigest()


def _places(layout: Layout, section: Section) -> Iterator[tuple[Entry, int]]:
    """Each entry of a section, and where it begins in the section's vector."""
    at = 0
    for e in layout.section(section):
        yield e, at
        at += e.numel if section in FLOAT_SECTIONS else e.numel * e.torch_dtype.itemsize


def open_model(path: Path) -> tuple[Layout, TensorFile]:
    """The layout of a file of `save_model`, and the file.

    Raises:
        StateError: No such file, not a safetensors file, or one without a layout.
    """
    file = TensorFile.open(path)
    if "domo_layout" not in file.metadata:
        raise StateError(
            f"{path} holds tensors but not which of them are trained. Make an initial "
            f"model from it with: domo init TASK --weights {path.name} --out x0.safetensors"
        )
    try:
        layout = Layout.from_json(file.metadata["domo_layout"])
        wanted = {e.name: (e.torch_dtype, e.shape) for e in layout.entries}
    except GARBLED as error:
        raise StateError(f"cannot read the model file {path}: {error!r}") from error
    held = {s.name: (s.dtype, tuple(s.shape)) for s in file.specs}
    if any(held.get(name) != like for name, like in wanted.items()):
        raise StateError(f"the tensors of {path} are not those of its layout")
    return layout, file


def check_content(file: TensorFile) -> bool:
    """Compare a model's file with the digest in it; False if it has none, as older files.

    Raises:
        StateError: Its tensors are not those that were written.
    """
    if DIGEST not in file.metadata:
        return False
    found = combine({s.name: file.digest(s.name) for s in file.specs})
    if found != file.metadata[DIGEST]:
        raise StateError(
            f"{file.path} is damaged: its tensors have the digest {found}, and the file says "
            f"{file.metadata[DIGEST]}. Fetch it again, or take another copy"
        )
    return True


def section_blocks(layout: Layout, file: TensorFile, section: Section) -> Iterator[Tensor]:
    """The vector of a section, block by block: float32, or bytes for integer and frozen."""
    for e in layout.section(section):
        read = file.reader(e.name)
        for lo, hi in blocks(e.numel):
            block = read(lo, hi)
            yield block.float() if section in FLOAT_SECTIONS else block.view(torch.uint8)


def load_model(path: Path) -> tuple[Layout, dict[Section, Tensor], dict[str, str]]:
    """Read a file of `save_model`: layout, vectors of all sections, metadata.

    Raises:
        StateError: As `open_model`.
    """
    layout, file = open_model(path)
    vectors = pack(layout, {e.name: file.read(e.name) for e in layout.entries})
    return layout, vectors, dict(file.metadata)


def load_weights(path: Path | str) -> dict[str, Tensor]:
    """The model of a file as it goes into `load_state_dict`, compared with the digest in the file.

    Raises:
        StateError: No such file, not a safetensors file, or a damaged one.
    """
    file = TensorFile.open(Path(path))
    check_content(file)
    return {spec.name: file.read(spec.name) for spec in file.specs}


def load_card(path: Path | str) -> ModelCard | None:
    """What a model's file says of itself; None where it has no card.

    Raises:
        StateError: No such file, or not a safetensors file.
    """
    return card_in(TensorFile.open(Path(path)).metadata)


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
