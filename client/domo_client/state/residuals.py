"""What rounding has left of this silo's updates (ADR 16), each kept beside the update's name.

residual-0.bin, -1, -2    e_k' of three updates, float32; written over in turn
residual-0.json, -1, -2   of which update each is, and xxh3-128 of its bytes

The coordinator names the newest update of this silo that a closed round was summed with. What that
update left is e_k; one that did not count has left nothing. Of the three, one is being made, one is
its e_k, and one is the e_k of the round before: after a loss of power the coordinator may go back
to that round.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
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

FORMAT_VERSION = 1
NUM_FILES = 3


class Residual(NamedTuple):
    """What an update has left.

    Attributes:
        run_id: The update's run.
        round_index: Its round.
        digest: Its digest.
        content: xxh3-128 of the residual's bytes, hex.
    """

    run_id: str
    round_index: int
    digest: str
    content: str

    def is_of(self, run_id: str, update: Counted | None) -> bool:
        """Whether this update of this run has left it."""
        return update is not None and self[:3] == (run_id, *update)


class Residuals:
    """The residuals in a state folder.

    Args:
        folder: The state folder.
    """

    def __init__(self, folder: Path):
        self._bytes = [folder / f"residual-{i}.bin" for i in range(NUM_FILES)]
        self._notes = [path.with_suffix(".json") for path in self._bytes]

    def has(self, run_id: str, update: Counted) -> bool:
        """Whether what this update has left is here and whole."""
        return self._find(run_id, update) is not None

    @contextmanager
    def reading(self, run_id: str, counted: Counted | None) -> Iterator[ReadBlock | None]:
        """e_k, read block by block; None: zeros.

        Args:
            run_id: The run.
            counted: The newest update that counts; None: none does.
        """
        path = self._find(run_id, counted)
        if path is None:
            yield None
            return
        with path.open("rb", buffering=0) as f:

            def read(lo: int, hi: int) -> Tensor:
                block = torch.empty(hi - lo)
                if not read_at(f.fileno(), 4 * lo, byte_view(block)):
                    raise OSError(f"{path} is shorter than it was")
                return block

            yield read

    def save(self, run_id: str, update: Counted, counted: Counted | None, left: Tensor) -> None:
        """Keep what an update has left, over one that no round can need any more.

        Args:
            run_id: The run.
            update: The update, which may never count.
            counted: The newest update that counts.
            left: e_k', shape (n,), float32.

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
        content = write_over(self._bytes[slot], [byte_view(left)])
        body = Residual(run_id, *update, content)._asdict()
        text = json.dumps({"format_version": FORMAT_VERSION, **body})
        replace(self._notes[slot], text.encode())

    def keep_only(self, run_id: str) -> None:
        """Delete those of other runs."""
        for path, notes in zip(self._bytes, self._notes, strict=True):
            residual = self._read(notes)
            if residual is None or residual.run_id != run_id:
                notes.unlink(missing_ok=True)
                path.unlink(missing_ok=True)

    def _find(self, run_id: str, update: Counted | None) -> Path | None:
        for path, notes in zip(self._bytes, self._notes, strict=True):
            residual = self._read(notes)
            if residual is not None and residual.is_of(run_id, update):
                if digest_of(path) == residual.content:
                    return path
                log.warning("%s is damaged", path)
        return None

    @staticmethod
    def _read(path: Path) -> Residual | None:
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            if body.pop("format_version") != FORMAT_VERSION:
                return None
            return Residual(**body)
        except OSError:
            return None
        except GARBLED:
            log.warning("%s is damaged", path)
            return None
