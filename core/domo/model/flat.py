"""A module bound to one vector, and what the bytes of vectors are named by."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import xxhash
from torch import Tensor, nn

from domo.errors import StrayParameterError
from domo.model.layout import BUFFERS, Layout, Section, tensors_of
from domo.model.wrappers import plain, plain_names
from domo.outside.text import task_error


def as_bytes(tensors: list[Tensor]) -> Tensor:
    """Tensors of any dtype as one uint8 vector, little-endian, in order."""
    parts = [_bytes_of(t) for t in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def _bytes_of(tensor: Tensor) -> Tensor:
    """A tensor's bytes as a uint8 vector; a contiguous one on the CPU is not copied."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def byte_view(vector: Tensor) -> memoryview:
    """The bytes of a contiguous CPU vector, without a copy."""
    array: Any = vector.detach().contiguous().view(torch.uint8).numpy()
    return memoryview(array)


def digest(vector: Tensor) -> str:
    """Hex xxh3-128 of a vector's bytes: names content, and finds damage. It is no signature."""
    return xxhash.xxh3_128_hexdigest(byte_view(vector))


def combine(digests: Mapping[str, str]) -> str:
    """Hex xxh3-128 of named digests, in the order of the names."""
    text = "".join(f"{name}:{digests[name]};" for name in sorted(digests))
    return xxhash.xxh3_128_hexdigest(text.encode())


def digest_all(vectors: Mapping[str, Tensor]) -> str:
    """Hex digest of several vectors and their names."""
    return combine({name: digest(v) for name, v in vectors.items()})


class FlatModel:
    """A module whose trainable parameters are views into one flat float32 vector.

    What the module holds is what is read, also where `forward` has put another tensor into the
    place of a buffer (`self.ema = 0.9 * self.ema + ...`); what is loaded is what it holds.

    Attributes:
        module: The module; its parameters were re-bound in place.
        layout: Where each tensor lies.
        vector: The weights, shape (n,), float32, on the module's device.
        params: The trainable parameters in the vector's order.
        own_vector: The private weights likewise, shape (q,); q is 0 where the run has none.
        own_params: The private parameters that are trained, in that one's order.
        first_private: What a silo's private section is at first, as bytes.
    """

    def __init__(self, module: nn.Module, private: Sequence[str] = ()):
        self.module = module
        plainly = Layout.of(module)
        self.layout = plainly.with_private(private)
        self._kinds = {e.name: e.section for e in plainly.entries}
        tensors = tensors_of(module)
        trainable = [tensors[e.name][0] for e in self.layout.section(Section.TRAINABLE)]
        devices = {t.device for t in trainable}
        if len(devices) != 1:
            raise task_error(f"the model is spread over devices {sorted(map(str, devices))}")
        if trainable[0].is_meta:
            raise task_error("the model is on the device meta: its parameters have no values")
        _check_apart(self.layout, {e.name: tensors[e.name][0] for e in self.layout.entries})
        self.params = trainable
        mine = [e.name for e in self.layout.section(Section.PRIVATE)]
        self._mine = [n for n in mine if self._kinds[n] is Section.TRAINABLE]
        self.own_params = [tensors[name][0] for name in self._mine]
        self.vector, self.own_vector = _bind(self.params), _bind(self.own_params)
        self._addresses = [p.data_ptr() for p in (*self.params, *self.own_params)]
        self._own = {e.name: tensors[e.name][0] for e in self.layout.entries}
        for name, kind in self._kinds.items():
            if kind in BUFFERS and not _writable(self._own[name]):
                self._own[name] = torch.clone(
                    self._own[name], memory_format=torch.contiguous_format
                )
                self._put_back(name)
        self.first_private = self.read(Section.PRIVATE)

    @contextmanager
    def testing(self) -> Iterator[None]:
        """Evaluation mode, without gradients; each module's own mode is given back."""
        modes = [(m, m.training) for m in self.module.modules()]
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module, mode in modes:
                module.training = mode

    def check(self) -> None:
        """See that every parameter still lies in the vector.

        Raises:
            StrayParameterError: Names those that were replaced or moved.
        """
        names = [*(e.name for e in self.layout.section(Section.TRAINABLE)), *self._mine]
        current = {name: t for name, (t, _) in tensors_of(self.module).items()}
        every = zip(names, (*self.params, *self.own_params), self._addresses, strict=True)
        stray = [n for n, p, a in every if current.get(n) is not p or p.data_ptr() != a]
        if stray:
            raise StrayParameterError(stray)

    @torch.no_grad()
    def load(self, section: Section, values: Tensor) -> None:
        """Put a section's vector (see `Layout.split`) into the module."""
        if section is Section.TRAINABLE:
            self.vector.copy_(values, non_blocking=self.vector.is_cuda)
            return
        if not self.layout.section(section):
            return
        held = tensors_of(self.module)
        for name, value in self.layout.split(section, values).items():
            own = self._own[name]
            own.copy_(value)
            here = name in held and held[name][0] is own and not own.requires_grad
            if self._kinds[name] in BUFFERS and not here:
                self._own[name] = own.detach() if own.requires_grad else own
                self._put_back(name)

    def _put_back(self, name: str) -> None:
        """Make a buffer the one that it was: another one may be somebody else's memory."""
        module = plain(self.module)
        raw = next((n for n, short in plain_names(module).items() if short == name), name)
        path, _, attribute = raw.rpartition(".")
        setattr(module.get_submodule(path), attribute, self._own[name])

    @torch.no_grad()
    def read(self, section: Section) -> Tensor:
        """A copy of a section's vector on the CPU: float32, or bytes for integer, frozen, private.

        Raises:
            TaskError: The module's tensors are others than they were.
        """
        if section is Section.TRAINABLE:
            return self.vector.detach().cpu().clone()
        tensors = self._held(section)
        if section is Section.FLOAT_BUFFER:
            parts = [t.detach().to(self.vector.device).float().reshape(-1) for t in tensors]
            return torch.cat(parts).cpu() if parts else torch.empty(0)
        return as_bytes(tensors)

    def frozen_digests(self) -> dict[str, str]:
        """Digest of each frozen parameter."""
        names = [e.name for e in self.layout.section(Section.FROZEN)]
        return {name: digest(_bytes_of(self._own[name])) for name in names}

    def frozen_digest(self) -> str:
        """`digest(read(Section.FROZEN))`, without the copy: a frozen base may have gigabytes.

        Raises:
            TaskError: The module's tensors are others than they were.
        """
        found = xxhash.xxh3_128()
        for tensor in self._held(Section.FROZEN):
            found.update(byte_view(_bytes_of(tensor)))
        return str(found.hexdigest())

    def _held(self, section: Section) -> list[Tensor]:
        """The tensors of a section as the module holds them now."""
        held, sections = tensors_of(self.module), self._kinds
        wanted = {name: _kind(self._own[name], section) for name, section in sections.items()}
        now = {}
        for name, (tensor, kind) in held.items():
            later = kind is Section.FROZEN and sections.get(name) is Section.TRAINABLE
            now[name] = _kind(tensor, Section.TRAINABLE if later else kind)
        names = [*wanted, *(name for name in now if name not in wanted)]
        changed = [
            f"{name} was {wanted.get(name, 'not there')} and is {now.get(name, 'not there')}"
            for name in names
            if wanted.get(name) != now.get(name)
        ]
        if changed:
            more = f" (and {len(changed) - 3} more)" if len(changed) > 3 else ""
            raise task_error(
                f"the model has changed since the run began: {'; '.join(changed[:3])}{more}. "
                "Parameters and buffers are made in build_model and keep shape and dtype; what "
                "need not travel is registered with persistent=False"
            )
        return [held[e.name][0] for e in self.layout.section(section)]

    def read_all(self) -> dict[Section, Tensor]:
        """Copies of all sections."""
        return {s: self.read(s) for s in Section}


def _bind(params: Sequence[Tensor]) -> Tensor:
    """A vector in place of the memory of parameters, which are views of it from now on."""
    if not params:
        return torch.empty(0)
    vector = torch.cat([p.detach().reshape(-1) for p in params])
    for p, view in zip(params, torch.split(vector, [p.numel() for p in params]), strict=True):
        p.data = view.view(p.shape)
        p.grad = None
    return vector


def _check_apart(layout: Layout, tensors: Mapping[str, Tensor]) -> None:
    """See that no other tensor has a trainable parameter's memory: it would stay behind there.

    Raises:
        TaskError: Names the two.
    """
    places: dict[int, str] = {}
    for e in layout.entries:  # named_parameters come first
        own = tensors[e.name]
        first = places.setdefault(own.data_ptr(), e.name) if own.numel() else e.name
        if first != e.name and (own.requires_grad or tensors[first].requires_grad):
            raise task_error(
                f"{first} and {e.name} are two tensors in one memory, and would part in training: "
                "make them one (b.weight = a.weight), or give the second memory of its own (clone)"
            )


def _writable(tensor: Tensor) -> bool:
    """Whether values can be copied into it: not into one that was made by `expand`."""
    spread = any(step == 0 < n - 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))
    return not (spread or tensor.is_inference())


def _kind(tensor: Tensor, section: Section) -> str:
    """What a tensor has to remain. A parameter may be frozen later."""
    names = {Section.TRAINABLE: "parameter", Section.FROZEN: "frozen parameter"}
    of = names.get(section, "buffer")
    return f"a {of} {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
