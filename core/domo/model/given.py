"""Weights that another program wrote, put into a module: whatever names and ties they come with.

What is understood: names behind a wrapper's or a trainer's prefix (`_orig_mod.`, `module.`,
`model.`), one name of two tied ones, buffers that the module makes itself. All else that differs is
named; nothing is left at random.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from domo.model.wrappers import plain, plain_names, unwrapped

SHOWN = 3


def load_given(module: nn.Module, weights: Mapping[str, Tensor]) -> str:
    """Put named tensors into a module.

    Args:
        module: Of any wrapping; it is of no use any more where they do not fit.
        weights: By name, of any dtype that goes into the module's.

    Returns:
        What is missing, unexpected or of another kind, by name; empty: they fit.
    """
    times = Counter(map(unwrapped, weights))
    if twice := [name for name, n in times.items() if n > 1]:
        return "; ".join(_listed("with and without a wrapper's name: ", twice))
    module = plain(module)
    held = module.state_dict(keep_vars=True)
    short = plain_names(module)
    raw = {short.get(name, name): name for name in held}  # what the module itself calls them
    tied = list(_tied({name: held[own] for name, own in raw.items()}))
    named = _named_alike(weights, raw)
    apart = [
        f"{first} and {other} are one in the model, and differ in the file"
        for first, *others in tied
        for other in others
        if first in named and other in named and not _equal(named[first], named[other])
    ]
    kinds = [
        f"{name} is {_kind(value)}, the model's {_kind(held[raw[name]])}"
        for name, value in named.items()
        if name in raw and isinstance(held[raw[name]], Tensor)
        if not _goes_into(value, held[raw[name]])
    ]
    for names in tied:
        value = next((named[n] for n in names if n in named), None)
        if value is not None:
            named |= dict.fromkeys(names, value)
    own = {short.get(n, n) for n, _ in module.named_buffers()} - raw.keys()  # not persistent
    state = {raw.get(name, name): value for name, value in named.items() if name not in own}
    missing: Sequence[str] = ()
    unexpected: Sequence[str] = ()
    if not kinds and not apart:
        try:
            missing, unexpected = module.load_state_dict(state, strict=False)
        except Exception as error:  # torch's of many lines, or of the module's own code
            kinds = [" ".join(f"{type(error).__name__}: {error}".split())]
    told = [*_listed("missing: ", [short.get(n, n) for n in missing])]
    told += [*_listed("not the model's: ", list(unexpected)), *_listed("", kinds + apart)]
    return "; ".join(told)


def _listed(what: str, found: Sequence[str]) -> Iterator[str]:
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield f"{what}{', '.join(found[:SHOWN])}{more}"


def _tied(held: Mapping[str, Tensor]) -> Iterator[list[str]]:
    """Names of one and the same tensor."""
    groups: dict[int, list[str]] = {}
    for name, tensor in held.items():
        groups.setdefault(id(tensor), []).append(name)
    return (names for names in groups.values() if len(names) > 1)


def _named_alike(weights: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """The weights with or without a prefix: whatever gives most of the wanted names."""
    named = {unwrapped(name): value for name, value in weights.items()}
    tries = list(_without_prefixes(named))
    heads = {_head(name) for name in wanted}
    if len(heads) == 1:
        (head,) = heads
        tries.append({head + name: value for name, value in named.items()})
    return max(tries, key=lambda known: len(known.keys() & set(wanted)))


def _without_prefixes(named: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """As they are; without each first part of a name; and again, where all have the same one."""
    yield dict(named)
    heads = {_head(name) for name in named} - {""}
    for head in sorted(heads):
        rest = {name.removeprefix(head): value for name, value in named.items()}
        if len(rest) < len(named) or "" in rest:
            continue
        if len(heads) == 1:
            yield from _without_prefixes(rest)
        else:
            yield rest


def _head(name: str) -> str:
    """The first part of a name with its point; empty: it has one part."""
    first, point, _ = name.partition(".")
    return first + point if point else ""


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.float().nan_to_num(), b.float().nan_to_num())


def _goes_into(value: Tensor, own: Tensor) -> bool:
    """Whether a value is of a tensor's shape and kind; of any precision."""
    if is_lazy(own):
        return True
    alike = value.is_floating_point() == own.is_floating_point()
    alike = alike and value.is_complex() == own.is_complex() and value.layout == own.layout
    old_scalar = own.dim() == 0 and value.dim() == 1  # as very old files have them
    return alike and not value.is_quantized and (value.shape == own.shape or old_scalar)


def _kind(tensor: Tensor) -> str:
    dtype, layout = (str(x).removeprefix("torch.") for x in (tensor.dtype, tensor.layout))
    return f"{dtype}{list(tensor.shape)}{'' if layout == 'strided' else f' {layout}'}"
