"""A disk that loses what was not synced, and a process that dies at a chosen instant.

`Crashes` counts the instants before and after every sync, rename, write of a safetensors file and
database transaction. At the chosen one it copies the folder as it is (the death of the process) or
as it would be after the loss of power, and ends the run. Every fsync of domo goes through
`domo.storage.files.sync`.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import domo
from domo.model.tensor_file import TensorFile
from domo.storage import files
from domo_server.store.store import Store

MODES = ("kill", "drop", "entries")
"""kill: everything written is there. drop: only what was synced, names of files too.
entries: names are there, bytes only if they were synced."""
TRANSACTIONS = (
    "create_run", "update_run", "enroll", "accept_update", "begin_close", "add_evaluation", "judge",
)  # fmt: skip
TRIES = 20
ROOT = Path(domo.__file__).parents[2]


class Crash(BaseException):
    """The process is gone."""


class Disk:
    """What survives: bytes by inode, and entries by folder, as of their last sync."""

    def __init__(self, root: Path):
        self.root = root
        self.adopt()

    def adopt(self) -> None:
        """Take everything that is there as synced."""
        self.bytes: dict[int, bytes] = {}
        self._held: list[BinaryIO] = []  # open files keep their inode, so none is used again
        self.entries: dict[Path, dict[str, int | None]] = {}
        for folder, _, names in os.walk(self.root):
            self.sync(Path(folder))
            for name in names:
                self.sync(Path(folder) / name)

    def sync(self, path: Path) -> None:
        if path.is_dir():
            self.entries[path] = self._list(path)
        else:
            file = path.open("rb")
            self._held.append(file)
            self.bytes[os.fstat(file.fileno()).st_ino] = file.read()

    def close(self) -> None:
        for file in self._held:
            file.close()

    @staticmethod
    def _list(path: Path) -> dict[str, int | None]:
        return {e.name: None if e.is_dir() else e.inode() for e in os.scandir(path)}

    def survivors(self, into: Path, mode: str) -> None:
        """Write what a restart would find; once more if a folder is being deleted meanwhile."""
        for left in reversed(range(TRIES)):
            try:
                if mode == "kill":
                    shutil.copytree(self.root, into)
                else:
                    self._rebuild(self.root, into, mode)
            except OSError:  # shutil.Error is one
                if not left:
                    raise
                shutil.rmtree(into)
            else:
                return

    def _rebuild(self, folder: Path, into: Path, mode: str) -> None:
        into.mkdir()
        entries = self.entries.get(folder, {})
        if mode == "entries" and folder.is_dir():
            entries = self._list(folder)
        for name, inode in entries.items():
            if inode is None:
                self._rebuild(folder / name, into / name, mode)
            else:
                (into / name).write_bytes(self.bytes.get(inode, b""))


def site() -> str:
    """Which line of domo asks for a sync: the functions above those of `files`, innermost last."""
    names, frame = [], sys._getframe(2)
    while frame is not None and len(names) < 4:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and "tests" not in path.parts:
            names.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(names)


class Crashes:
    """Patches the instants of one life of a coordinator.

    Args:
        monkeypatch: Undone by the caller.
        root: Folder with everything durable but the database.
        at: Number of the instant to die at; None: never.
        save: Called at that instant, to keep what survives.
        without: Site whose syncs are left out, as if the line were missing.

    Attributes:
        left_out: How many instants had passed at each of these.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        root: Path,
        at: int | None,
        save: Callable[[Disk], None],
        without: str | None = None,
    ):
        self.disk, self.count, self.sites = Disk(root), 0, set[str]()
        self.at, self._save, self.dead, self._without = at, save, False, without
        self.left_out: list[int] = []
        self._moving = threading.RLock()
        real_sync = files.sync

        def sync(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not path.is_relative_to(root):
                real_sync(handle)
                return
            where = site()
            self.sites.add(where)
            if where == self._without:
                self.left_out.append(self.count)
                return
            self.instant()
            self.disk.sync(path)
            self.instant()

        monkeypatch.setattr(files, "sync", sync)
        self._around(monkeypatch, TensorFile, "create")
        self._around(monkeypatch, Path, "replace")
        self._around(monkeypatch, Path, "rename")
        self._around(monkeypatch, Path, "unlink")
        for name in (*TRANSACTIONS, "commit_round"):
            self._around(monkeypatch, Store, name)

    def _around(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            self.instant()
            with self._moving:  # nothing is renamed while what survives is copied
                result = real(*args, **options)
            self.instant()
            return result

        monkeypatch.setattr(owner, name, wrapped)

    def instant(self) -> None:
        """One point in time at which the process may die; a dead one does nothing more."""
        if self.dead:
            raise Crash
        self.count += 1
        if self.count - 1 == self.at:
            self.dead = True
            with self._moving:
                self._save(self.disk)
            raise Crash
