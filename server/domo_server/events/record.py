"""What the coordinator puts down for good: the lines of its audit chain."""

import hashlib
import logging
from pathlib import Path

from domo.audit.chain import Chain, Head
from domo.model.flat import byte_view
from domo_server.store.checkpoint import Checkpoint

log = logging.getLogger(__name__)

NOT_TOLD = Head()


class Record:
    """The audit chain of a coordinator; threads may share it.

    Every event is a line, so also who logged in, and what admins did; and every update that was
    accepted and every model that was made, with their SHA-256. A full disk costs lines, never the
    run: the log says so.

    Args:
        folder: The state folder.

    Raises:
        StateError: It cannot be written to.
    """

    def __init__(self, folder: Path):
        self._chain = Chain(folder)
        self._keys: dict[str, bytes] = {}  # of silos, as they have told them last

    @property
    def head(self) -> Head:
        """The newest line."""
        return self._chain.head

    @property
    def key(self) -> bytes:
        """The public key that signs."""
        return self._chain.public_key

    def event(self, kind: str, text: str, run_id: str | None, silo_id: str | None) -> None:
        """Something has happened, in words."""
        self._chain.note("event", kind=kind, text=text, run=run_id, silo=silo_id)

    def update(self, run_id: str, round_index: int, silo_id: str, path: Path) -> None:
        """An update is accepted.

        Args:
            run_id: The run.
            round_index: r.
            silo_id: Whose it is.
            path: Its bytes, as they came.
        """
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
        except OSError as error:
            log.warning("an update of %s cannot be put down: %s", silo_id, error.strerror)
            return
        said = {"run": run_id, "round": round_index, "silo": silo_id}
        self._chain.note("update", **said, sha256=digest, bytes=size)

    def model(self, run_id: str, made: Checkpoint) -> None:
        """A server model is made."""
        view = byte_view(made["x"])
        digest = hashlib.sha256(view).hexdigest()
        self._chain.note(
            "model", run=run_id, model=made.round_index, sha256=digest, bytes=len(view)
        )

    def told(self, silo_id: str, head: Head, key: bytes) -> None:
        """A silo has told the head of its own chain."""
        new = {} if self._keys.get(silo_id) == key else {"key": key.hex()}
        self._keys[silo_id] = key
        said = {"n_of": head.n, "hash": head.hash, "signature": head.signature.hex()}
        self._chain.note("head", silo=silo_id, **new, **said)

    def close(self) -> None:
        """Nothing more is put down."""
        self._chain.close()
