"""What a run leaves behind in the agent's process: put back, and given back to the system."""

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from domo.tasks.named import forget_data
from domo.training.loading.travel import end_helper


@contextmanager
def process_as_it_was() -> Iterator[None]:
    """Around a run: the next one begins in the same folder and with the same defaults of torch."""
    folder, dtype, device = Path.cwd(), torch.get_default_dtype(), torch.get_default_device()
    grad = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(device)
        with suppress(OSError):  # it may be gone
            os.chdir(folder)


def give_back() -> None:
    """Hand to the system what nobody holds any more: datasets, loaders, a GPU's memory, blocks.

    It is of the whole process, and takes 0.2 s: for a process that is an agent's own.
    """
    forget_data()
    end_helper()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps it otherwise
    if trim is not None:
        trim(0)
