"""A disk of a few megabytes: a tmpfs of a test's own, mounted without another program."""

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DETACH = 2
"""MNT_DETACH: what is open on it ends with its last user."""


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """Mount it, and yield where; skips the test where that is not allowed.

    It is not in a folder of pytest's: a run that is killed leaves it mounted, and every later run
    would try to clear that up.

    Args:
        size: As mount takes it, such as "4m".
    """
    if os.geteuid():
        pytest.skip("mounting a small tmpfs needs root")
    folder = Path(tempfile.mkdtemp(prefix="domo-disk-"))
    libc, path = ctypes.CDLL(None, use_errno=True), os.fsencode(folder)
    if libc.mount(b"tmpfs", path, b"tmpfs", 0, f"size={size}".encode()):
        folder.rmdir()
        pytest.skip(f"a small tmpfs cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        assert libc.umount2(path, DETACH) == 0, os.strerror(ctypes.get_errno())
        folder.rmdir()
