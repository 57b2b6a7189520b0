"""What this silo keeps of its updates from round to round, each beside the update's name (ADR 37).

kept-0.bin, -1, -2    vectors of three updates, one after another, float32; written over in turn
kept-0.json, -1, -2   of which update each is, names and bytes of its vectors, and xxh3-128 of all

What rounding left (e_k') and what corrects gradients (c_k', h_k') are such vectors. The coordinator
names the newest update of this silo that a closed round was summed with. What that update left is
what the next round begins with; one that did not count has left nothing. Of the three, one is being
made, one is that of the newest that counts, and one is that of the round before: after a loss of
power the coordinator may go back to that round.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from domo.fold import ReadBlock
from domo.model.flat import byte_view
from domo.names import GARBLED
from domo.storage.files import digest_of, read_at
from domo_client.state.files import replace, write_over
from domo_proto.assignment import Counted

log = logging.getLogger(__name__)

FORMAT_VERSION = 2
NUM_FILES = 3


class Left(NamedTuple):
    """What an update has left.

    Attributes:
        run_id: The update's run.
        round_index: Its round.
        digest: Its digest.
        content: xxh3-128 of all bytes, hex.
        vectors: Name and bytes of each vector, in order.
    """

    run_id: str
    round_index: int
    digest: str
    content: str
    vectors: dict[str, int]

    def is_of(self, run_id: str, update: Counted | None) -> bool:
        """Whether this update of this run has left it."""
        return update is not None and self[:3] == (run_id, *update)


class KeptVectors:
    """What updates have left in a state folder.

    Args:
        folder: The state folder.
    """

    def __init__(self, folder: Path):
        self._bytes = [folder / f"kept-{i}.bin" for i in range(NUM_FILES)]
        self._notes = [path.with_suffix(".json") for path in self._bytes]
        for path in (*self._bytes, *self._notes):  # of a version that kept residuals alone
            with suppress(FileNotFoundError):
                path.with_name(path.name.replace("kept", "residual")).rename(path)

    def has(self, run_id: str, update: Counted) -> bool:
        """Whether what this update has left is here and whole."""
        return self._find(run_id, update) is not None

    def newest(self, run_id: str) -> Counted | None:
        """The newest update of a run of which something is here."""
        notes = [self._read(path) for path in self._notes]
        mine = [n for n in notes if n is not None and n.run_id == run_id]
        last = max(mine, key=lambda n: n.round_index, default=None)
        return None if last is None else Counted(last.round_index, last.digest)

    @contextmanager
    def reading(self, run_id: str, counted: Counted | None) -> Iterator[Mapping[str, ReadBlock]]:
        """What a round begins with, by name, each read block by block; empty: zeros.

        Args:
            run_id: The run.
            counted: The newest update that counts; None: none does.
        """
        found = self._find(run_id, counted)
        if found is None:
            yield {}
            return
        path, left = found
        with path.open("rb", buffering=0) as f:

            def read(begin: int, lo: int, hi: int) -> Tensor:
                block = torch.empty(hi - lo)
                if not read_at(f.fileno(), begin + 4 * lo, byte_view(block)):
                    raise OSError(f"{path} is shorter than it was")
                return block

            at, named = 0, {}
            for name, num_bytes in left.vectors.items():
                named[name] = partial(read, at)
                at += num_bytes
            yield named

    def save(
        self, run_id: str, update: Counted, counted: Counted | None, kept: Mapping[str, Tensor]
    ) -> None:
        """Keep what an update has left, over what no round can need any more.

        Args:
            run_id: The run.
            update: The update, which may never count.
            counted: The newest update that counts.
            kept: Vectors of shape (n,), float32, by name.

        Raises:
            OSError: A full disk.
        """
        notes = [self._read(path) for path in self._notes]
        older = [
            (n.round_index, i)
            for i, n in enumerate(notes)
            if n and counted and n.run_id == run_id and n.round_index < counted.round_index
        ]
        needed = [i for i, n in enumerate(notes) if n and n.is_of(run_id, counted)][:1]
        needed += [i for _, i in sorted(older)[-1:]]
        again = [i for i, n in enumerate(notes) if n and n.is_of(run_id, update)]
        slot = next(i for i in (*again, *range(NUM_FILES)) if i not in needed)
        self._notes[slot].unlink(missing_ok=True)  # nothing names the bytes now
        views = {name: byte_view(vector) for name, vector in kept.items()}
        content = write_over(self._bytes[slot], views.values())
        sizes = {name: view.nbytes for name, view in views.items()}
        body = Left(run_id, *update, content, sizes)._asdict()
        text = json.dumps({"format_version": FORMAT_VERSION, **body})
        replace(self._notes[slot], text.encode())

    def keep_only(self, run_id: str) -> None:
        """Delete that of other runs."""
        for path, notes in zip(self._bytes, self._notes, strict=True):
            left = self._read(notes)
            if left is None or left.run_id != run_id:
                notes.unlink(missing_ok=True)
                path.unlink(missing_ok=True)

    def _find(self, run_id: str, update: Counted | None) -> tuple[Path, Left] | None:
        for path, notes in zip(self._bytes, self._notes, strict=True):
            left = self._read(notes)
            if left is not None and left.is_of(run_id, update):
                if digest_of(path) == left.content:
                    return path, left
                log.warning("%s is damaged", path)
        return None

    @staticmethod
    def _read(path: Path) -> Left | None:
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            version = body.pop("format_version")
            if version == 1:
                body["vectors"] = {"residual": path.with_suffix(".bin").stat().st_size}
            elif version != FORMAT_VERSION:
                return None
            left = Left(**body)
            return left if all(isinstance(n, int) for n in left.vectors.values()) else None
        except OSError:
            return None
        except GARBLED:
            log.warning("%s is damaged", path)
            return None
