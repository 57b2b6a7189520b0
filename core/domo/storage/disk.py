"""What reaches the disk for good.

Every fsync of domo goes through `sync`, so a test can lose everything that was not synced, the
entries of folders too.
"""

import os
from pathlib import Path


def sync(handle: int) -> None:
    """Make a file's bytes, or a folder's entries, survive the loss of power."""
    os.fsync(handle)


def sync_path(path: Path) -> None:
    """`sync` of a file or a folder by name."""
    handle = os.open(path, os.O_RDONLY)
    try:
        sync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, durably."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_path(path.parent)


def replace(temporary: Path, path: Path) -> None:
    """Give a synced file its name, durably."""
    temporary.replace(path)
    sync_path(path.parent)
