"""Modules that hold another one: what they hold, and its names without theirs.

A name is that of the module that was written: so a silo that compiles its model, or spreads it over
GPUs, has the layout of one that does not, and what is exported loads into the plain module.
"""

from collections.abc import Mapping

from torch import nn

WRAPPED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""Attributes under which `torch.compile`, activation checkpointing and FSDP hold a module."""
PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
"""Classes that hold one as `module`, a name that others have too."""


def plain(module: nn.Module) -> nn.Module:
    """The module itself, whatever holds it."""
    while True:
        names = ("module",) if isinstance(module, PARALLEL) else WRAPPED
        held = (getattr(module, name, None) for name in names)
        inner = next((m for m in held if isinstance(m, nn.Module)), None)
        if inner is None:
            return module
        module = inner


def unwrapped(name: str) -> str:
    """A tensor's name without the attributes of wrappers, but for those of `PARALLEL`."""
    return ".".join(part for part in name.split(".") if part not in WRAPPED)


def plain_names(module: nn.Module) -> Mapping[str, str]:
    """Of each tensor of a plain module, by its name there: without those of wrappers within."""
    inner = [f"{n}.module." for n, m in module.named_modules() if n and isinstance(m, PARALLEL)]
    inner.sort(key=len, reverse=True)  # those within others first
    out = {}
    tensors = [module.named_parameters(remove_duplicate=False)]
    tensors += [module.named_buffers(remove_duplicate=False)]  # type: ignore[list-item]
    for name in (n for named in tensors for n, _ in named):
        short = name
        for prefix in inner:
            if name.startswith(prefix):
                short = prefix.removesuffix("module.") + short[len(prefix) :]
        out[name] = unwrapped(short)
    return out
