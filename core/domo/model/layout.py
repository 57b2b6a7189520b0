"""A module as vectors: where each tensor lies.

Five sections (DESIGN section 3): *trainable* parameters are the only ones with momentum and the
only ones in an update; *float buffers* (BatchNorm statistics) travel as absolute values and are
averaged, but for values in which all silos agree; *integer buffers* keep their dtype and are taken
from the first participant, or from most; *frozen* parameters are sent once, with the initial model,
where a silo lacks them; *private* tensors, which a run names by patterns, never travel: each silo
has its own. Tied weights count once.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from domo.errors import LayoutMismatchError
from domo.model.wrappers import plain, plain_names
from domo.names import one_line
from domo.outside.text import task_error

EXTRA = "_extra_state"
"""How `state_dict` calls what a module keeps beside its tensors."""


MOST_ENTRIES = 1 << 48
"""Of one tensor: what is beyond is no model's, and its bytes are counted in 64 bits."""


class Section(StrEnum):
    """What kind of tensor an entry is."""

    TRAINABLE = "trainable"
    FLOAT_BUFFER = "float_buffer"
    INTEGER_BUFFER = "integer_buffer"
    FROZEN = "frozen"
    PRIVATE = "private"


BUFFERS = (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER)
"""What travels as absolute values, beside the update."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the module.

    Attributes:
        name: As in `state_dict`.
        shape: Its shape.
        dtype: Name of the torch dtype, such as `float32`.
        section: Which vector it lies in.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    section: Section

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype itself."""
        return getattr(torch, self.dtype)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Layout:
    """All tensors of a module, in `named_parameters` / `named_buffers` order.

    Attributes:
        entries: Every tensor once.
        aliases: Names of tied weights, to the name under which they are kept.
    """

    entries: tuple[Entry, ...]
    aliases: Mapping[str, str]

    @staticmethod
    def of(module: nn.Module) -> "Layout":
        """The layout of a module; of the plain one, where it is wrapped or compiled.

        Raises:
            TaskError: Nothing is trainable, or a tensor cannot travel; names it.
        """
        tensors = tensors_of(module)
        entries = [_entry(name, tensor, section) for name, (tensor, section) in tensors.items()]
        if not any(e.section is Section.TRAINABLE for e in entries):
            none = "the model has no trainable parameter"
            raise task_error(
                f"{none} (requires_grad is off for all)" if tensors else f"{none}: it has no tensor"
            )
        extra = [n for n in plain(module).state_dict() if n.rpartition(".")[2] == EXTRA]
        if extra:
            raise task_error(
                f"{extra[0].rpartition('.')[0] or 'the model'} keeps state of its own "
                "(get_extra_state), which would stay behind: only parameters and buffers travel. "
                "Keep it in a buffer"
            )
        kept = {id(t): name for name, (t, _) in tensors.items()}
        inner = plain(module)
        every = [*inner.named_parameters(remove_duplicate=False)]
        buffers = inner.named_buffers(remove_duplicate=False)
        every += [(n, t) for n, t in buffers if _is_kept(inner, n)]  # type: ignore[misc]
        short = plain_names(inner)
        named = [(short[n], t) for n, t in every]
        aliases = {n: kept[id(t)] for n, t in named if id(t) in kept and n not in tensors}
        return Layout(tuple(entries), aliases)

    def with_private(self, patterns: Sequence[str]) -> "Layout":
        """The same tensors, those whose name fits a pattern (as of a shell) being private.

        Raises:
            TaskError: A pattern fits none, or nothing would be left to be shared.
        """
        if not patterns:
            return self
        for pattern in patterns:
            if not any(fnmatchcase(e.name, pattern) for e in self.entries):
                some = ", ".join(e.name for e in self.entries[:6])
                raise task_error(
                    f"private = {pattern!r} fits no tensor of the model, whose names are such as "
                    f"{some}"
                )
        entries = tuple(
            replace(e, section=Section.PRIVATE)
            if any(fnmatchcase(e.name, pattern) for pattern in patterns)
            else e
            for e in self.entries
        )
        if not any(e.section is Section.TRAINABLE for e in entries):
            raise task_error("private takes all that is trained: nothing is left to be shared")
        return Layout(entries, self.aliases)

    def section(self, section: Section) -> list[Entry]:
        """The entries of one section, in order."""
        return [e for e in self.entries if e.section is section]

    @property
    def num_params(self) -> int:
        """Length n of the trainable vector."""
        return sum(e.numel for e in self.section(Section.TRAINABLE))

    def num_bytes(self, section: Section) -> int:
        """Bytes of a section on the wire: float32 for float sections, own dtypes otherwise."""
        if section in (Section.TRAINABLE, Section.FLOAT_BUFFER):
            return 4 * sum(e.numel for e in self.section(section))
        return sum(e.numel * e.torch_dtype.itemsize for e in self.section(section))

    def to_json(self) -> str:
        """Canonical JSON; equal layouts give equal text."""
        body = {"entries": [asdict(e) for e in self.entries], "aliases": dict(self.aliases)}
        return json.dumps(body, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Layout":
        """Inverse of `to_json`.

        Raises:
            ValueError, TypeError, LookupError, RecursionError: It is no layout's text; one of
                `domo.names.GARBLED` in any case.
        """
        body = json.loads(text)
        entries = tuple(map(_read, body["entries"]))
        aliases = body["aliases"]
        if not isinstance(aliases, dict) or not all(isinstance(n, str) for n in aliases.values()):
            raise ValueError("its aliases are no table of names")
        return Layout(entries, aliases)

    @property
    def digest(self) -> str:
        """Hex digest of names, shapes, dtypes and sections."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def check_same(self, mine: "Layout") -> None:
        """Compare with the layout at a silo.

        Raises:
            LayoutMismatchError: Names the first tensors that differ.
        """
        if self.digest == mine.digest:
            return
        theirs, ours = {e.name: e for e in self.entries}, {e.name: e for e in mine.entries}
        lines = []
        for name in [*theirs, *(n for n in ours if n not in theirs)]:
            a, b = theirs.get(name), ours.get(name)
            if a != b:
                said = [_show(e, of.aliases.get(name)) for e, of in ((a, self), (b, mine))]
                lines.append(one_line(f"{name}: the run has {said[0]}, this silo has {said[1]}"))
        lines = lines or ["the same tensors in another order, or tied in another way"]
        more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
        text = "the silo's model does not match the run's: " + "; ".join(lines[:3]) + more
        raise LayoutMismatchError(text, lines)

    def split(self, section: Section, vector: Tensor) -> dict[str, Tensor]:
        """Cut a section's vector into named tensors: views of float32 for float sections.

        Args:
            section: Which section.
            vector: Its values; float32 for trainable and float buffers, bytes (uint8) otherwise.
        """
        out, at = {}, 0
        for e in self.section(section):
            if vector.dtype == torch.uint8:
                size = e.numel * e.torch_dtype.itemsize
                out[e.name] = vector[at : at + size].clone().view(e.torch_dtype).view(e.shape)
            else:
                size = e.numel
                out[e.name] = vector[at : at + size].view(e.shape)
            at += size
        return out

    def state_dict(self, vectors: Mapping[Section, Tensor]) -> dict[str, Tensor]:
        """A complete state dict (tied names included) from the vectors of all sections."""
        out: dict[str, Tensor] = {}
        for section, vector in vectors.items():
            named = self.split(section, vector)
            out |= {e.name: named[e.name].to(e.torch_dtype) for e in self.section(section)}
        out = {e.name: out[e.name].clone() for e in self.entries}
        return out | {alias: out[name].clone() for alias, name in self.aliases.items()}


def _read(entry: Mapping[str, Any]) -> Entry:
    """One entry of a file or a peer, whose numbers take memory and whose dtype is looked up."""
    name, shape, dtype = entry["name"], tuple(entry["shape"]), entry["dtype"]
    sound = isinstance(name, str) and all(type(d) is int and d >= 0 for d in shape)
    if not sound or math.prod(shape) > MOST_ENTRIES:
        raise ValueError(f"{name!r:.64} has no shape that a tensor can have")
    if not isinstance(dtype, str) or not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ValueError(f"{dtype!r:.64} is no dtype")
    return Entry(name, shape, dtype, Section(entry["section"]))


def _show(entry: Entry | None, tied_to: str | None) -> str:
    if entry is None:
        return f"it tied to {tied_to}" if tied_to else "no such tensor"
    return f"{entry.dtype}{list(entry.shape)} ({entry.section})"


def _entry(name: str, tensor: Tensor, section: Section) -> Entry:
    """The place of a tensor.

    Raises:
        TaskError: It has none: its values could not travel.
    """
    kind = "trainable parameter" if section is Section.TRAINABLE else "tensor"
    if is_lazy(tensor):
        raise task_error(
            f"{kind} {name} has no shape yet (a lazy module): run a batch through the model in "
            "build_model, or give its sizes"
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    if section is Section.TRAINABLE and tensor.dtype != torch.float32:
        raise task_error(
            f"{kind} {name} is {dtype}; domo keeps float32 master weights. "
            "Build the model in float32 and use autocast for lower precision."
        )
    if tensor.is_quantized or tensor.layout != torch.strided:
        what = dtype if tensor.is_quantized else "sparse"
        raise task_error(f"{kind} {name} is {what}, and travels only as a dense tensor")
    if tensor.dtype == torch.float64 and not tensor.is_meta:
        close = tensor.detach().float().double()
        if not torch.equal(close.nan_to_num(), tensor.detach().nan_to_num()):
            raise task_error(
                f"{kind} {name} is float64 with values that float32 cannot hold, and travels as "
                "float32: make it float32, or register it with persistent=False"
            )
    return Entry(name, tuple(tensor.shape), dtype, section)


def _is_kept(module: nn.Module, buffer: str) -> bool:
    """Whether a buffer is in the state dict."""
    path, _, own = buffer.rpartition(".")
    return own not in module.get_submodule(path)._non_persistent_buffers_set


def tensors_of(module: nn.Module) -> dict[str, tuple[Tensor, Section]]:
    """Every tensor that has a place, by the name that it is kept under."""
    module = plain(module)
    short = plain_names(module)
    out: dict[str, tuple[Tensor, Section]] = {}
    for name, p in module.named_parameters():
        out[short[name]] = (p, Section.TRAINABLE if p.requires_grad else Section.FROZEN)
    parameters = {id(tensor) for tensor, _ in out.values()}
    for name, b in module.named_buffers():
        if _is_kept(module, name) and id(b) not in parameters:  # else it is a tied name
            kind = Section.FLOAT_BUFFER if b.is_floating_point() else Section.INTEGER_BUFFER
            out[short[name]] = (b, kind)
    return out
