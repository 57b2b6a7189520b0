"""Safetensors files that are read and written piece by piece, never held or mapped as a whole.

The coordinator's vectors live in such files: what it holds of a model in memory is a few blocks,
and the page cache of the system does the rest. Any tool that reads safetensors can load them.
"""

import json
import os
import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import torch
import xxhash
from torch import Tensor

from domo.errors import StateError
from domo.fold import ReadBlock
from domo.model.flat import byte_view
from domo.names import GARBLED
from domo.storage import files
from domo.storage.files import read_at, write_at

PIECE = 1 << 22
"""Bytes that are read at a time where a whole vector passes through."""
MAX_HEADER = 100_000_000
"""As in the format's reference implementation."""
LENGTH = struct.Struct("<Q")
DTYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
NAMES = {name: dtype for dtype, name in DTYPES.items()}


class Spec(NamedTuple):
    """One tensor of a file to be."""

    name: str
    dtype: torch.dtype
    shape: Sequence[int]

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize


class Place(NamedTuple):
    """Where a tensor lies in its file."""

    spec: Spec
    start: int


class TensorFile:
    """An open file; closed when nobody refers to it any more, so it outlives its own deletion.

    Attributes:
        path: Where it was opened.
        metadata: The texts in its header.
    """

    def __init__(
        self, path: Path, handle: int, places: Mapping[str, Place], metadata: Mapping[str, str]
    ):
        self.path, self.metadata = path, metadata
        self._handle, self._places, self._doubtful = handle, places, False
        weakref.finalize(self, os.close, handle)

    @classmethod
    def create(
        cls,
        path: Path,
        specs: Sequence[Spec],
        metadata: Mapping[str, str],
    ) -> Self:
        """A new file for these tensors, all zero until they are written.

        Args:
            path: Its name.
            specs: The tensors.
            metadata: Texts for its header.

        Raises:
            OSError: It cannot be made.
        """
        header: dict[str, object] = {"__metadata__": dict(metadata)}
        ordered = sorted(specs, key=lambda s: (-s.dtype.itemsize, s.name))
        at = 0
        for s in ordered:
            header[s.name] = {
                "dtype": DTYPES[s.dtype],
                "shape": list(s.shape),
                "data_offsets": [at, at + s.num_bytes],
            }
            at += s.num_bytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        places, start = {}, LENGTH.size + len(text)
        for s in ordered:
            places[s.name] = Place(s, start)
            start += s.num_bytes
        path.unlink(missing_ok=True)  # not truncated: that would flush it when it is closed
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        file = cls(path, handle, places, metadata)
        file._write(0, memoryview(LENGTH.pack(len(text)) + text))
        if os.fstat(handle).st_size != start:
            os.ftruncate(handle, start)
        return file

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing file, for reading.

        Raises:
            StateError: It is missing, or no safetensors file.
        """
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StateError(f"cannot read the model file {path}: {error.strerror}") from error
        try:
            places, metadata = _header(handle)
        except GARBLED as error:
            os.close(handle)
            raise StateError(f"cannot read the model file {path}: {error}") from error
        return cls(path, handle, places, metadata)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @property
    def specs(self) -> list[Spec]:
        """The tensors."""
        return [p.spec for p in self._places.values()]

    def num_bytes(self, name: str) -> int:
        """Size of a tensor."""
        return self._places[name].spec.num_bytes

    def read_into(self, name: str, at: int, buffer: memoryview, flags: int = 0) -> int:
        """Read bytes of a tensor from `at` on into a buffer; how many (all, without flags).

        Args:
            name: Which tensor.
            at: First byte.
            buffer: Where to; not longer than what is left of the tensor.
            flags: Of preadv, such as `os.RWF_NOWAIT`; may then be fewer.

        Raises:
            StateError: The file is shorter than its header says.
        """
        start = self._places[name].start + at
        if flags:
            return os.preadv(self._handle, [buffer], start, flags)
        if not read_at(self._handle, start, buffer):
            raise StateError(f"{self.path} is shorter than it says")
        return len(buffer)

    def read(self, name: str) -> Tensor:
        """A whole tensor."""
        spec = self._places[name].spec
        out = torch.empty(tuple(spec.shape), dtype=spec.dtype)
        if out.numel():
            self.read_into(name, 0, byte_view(out.view(-1)))
        return out

    def reader(self, name: str) -> ReadBlock:
        """Reads blocks of entries of a tensor."""
        dtype = self._places[name].spec.dtype

        def read(lo: int, hi: int) -> Tensor:
            block = torch.empty(hi - lo, dtype=dtype)
            self.read_into(name, lo * dtype.itemsize, byte_view(block))
            return block

        return read

    def pieces(self, name: str) -> Iterator[Tensor]:
        """A tensor's bytes (uint8), piece by piece; each piece is overwritten by the next."""
        size = self.num_bytes(name)
        buffer = torch.empty(min(size, PIECE), dtype=torch.uint8)
        for lo in range(0, size, PIECE):
            piece = buffer[: min(PIECE, size - lo)]
            self.read_into(name, lo, byte_view(piece))
            yield piece

    def digest(self, name: str) -> str:
        """Hex xxh3-128 of a tensor's bytes."""
        whole = xxhash.xxh3_128()
        for piece in self.pieces(name):
            whole.update(byte_view(piece))
        return whole.hexdigest()

    def write(self, name: str, at: int, values: Tensor) -> None:
        """Write a contiguous tensor's bytes into this one's, from byte `at` on.

        Raises:
            OSError: A full disk.
        """
        if values.numel():
            self._write(self._places[name].start + at, byte_view(values.view(-1)))

    def _write(self, at: int, data: memoryview) -> None:
        write_at(self._handle, at, data)

    def sync(self) -> None:
        """Make its bytes durable; after a failure it may be tried again.

        Raises:
            OSError: They are not.
        """
        if self._doubtful:  # the system may take for written what it could not write
            for name in self._places:
                for at, piece in enumerate(self.pieces(name)):
                    self.write(name, at * PIECE, piece)
        self._doubtful = True
        files.sync(self._handle)
        self._doubtful = False


def _header(handle: int) -> tuple[dict[str, Place], dict[str, str]]:
    size = os.fstat(handle).st_size
    (length,) = LENGTH.unpack(os.pread(handle, LENGTH.size, 0).ljust(LENGTH.size, b"\xff"))
    if length > min(MAX_HEADER, size):
        raise ValueError("its header is longer than the file")
    header = json.loads(os.pread(handle, length, LENGTH.size))
    if not isinstance(header, dict):
        raise ValueError("its header is no table of tensors")
    metadata = {str(k): str(v) for k, v in header.pop("__metadata__", {}).items()}
    places, begin = {}, LENGTH.size + length
    for name, entry in header.items():
        spec = Spec(name, NAMES[entry["dtype"]], tuple(int(d) for d in entry["shape"]))
        lo, hi = (int(o) for o in entry["data_offsets"])
        if min(spec.shape, default=0) < 0 or hi - lo != spec.num_bytes or lo < 0:
            raise ValueError(f"{name} has another size than its shape says")
        if begin + hi > size:
            raise ValueError("it is shorter than it says")
        places[name] = Place(spec, begin + lo)
    return places, metadata
