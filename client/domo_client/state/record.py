"""What a silo puts down of itself: the lines of its audit chain."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from domo.audit.chain import Chain, Head
from domo.metrics.numbers import numbers_of
from domo.metrics.table import Measured


class Record:
    """The audit chain of a silo.

    What leaves is put down before it does; where that cannot be (a full disk), it does not leave.
    What is only worth knowing is put down if it can be.

    Args:
        folder: The silo's state folder.

    Raises:
        StateError: It cannot be written to.
    """

    def __init__(self, folder: Path):
        self._chain = Chain(folder)
        self._to_tell, self._model, self._their_key = False, "", b""

    @property
    def key(self) -> bytes:
        """The public key that signs."""
        return self._chain.public_key

    def update(
        self, run_id: str, round_index: int, steps: int, vectors: Iterable[memoryview]
    ) -> None:
        """An update is made, and may leave from now on.

        Args:
            run_id: The run.
            round_index: r.
            steps: P_k.
            vectors: Its bytes, in the order in which they are sent.

        Raises:
            OSError: A full disk.
        """
        hasher, size = hashlib.sha256(), 0
        for vector in vectors:
            hasher.update(vector)
            size += len(vector)
        digest = hasher.hexdigest()
        said = {"run": run_id, "round": round_index, "steps": steps, "of_model": self._model}
        self._chain.add("update", **said, sha256=digest, bytes=size)
        self._to_tell = True

    def came(self, vector: memoryview) -> None:
        """A server model has come: what is put down next is about it."""
        self._model = hashlib.sha256(vector).hexdigest()

    def test(self, run_id: str, model_index: int, sums: Measured) -> None:
        """Numbers of a model are about to leave."""
        numbers = numbers_of([sums])
        told = ", ".join(f"{name} {value:.6g}" for name, value in sorted(numbers.items()))
        said = {"run": run_id, "model": model_index, "of_model": self._model}
        self.note("test", **said, numbers=told)

    def note(self, what: str, **said: Any) -> None:
        """Put down what is worth knowing, if it can be."""
        self._chain.note(what, **said)

    def head_to_tell(self) -> Head | None:
        """The newest line, where the coordinator has not been told since an update was made."""
        return self._chain.head if self._to_tell else None

    def was_told(self, ours: Head, theirs: Head | None, key: bytes) -> None:
        """The coordinator has heard a head, and has said its own."""
        if self._chain.head == ours:
            self._to_tell = False
        if theirs is not None:
            new = {} if key == self._their_key else {"key": key.hex()}
            self._their_key = key
            said = {"n_of": theirs.n, "hash": theirs.hash, "signature": theirs.signature.hex()}
            self.note("head", **new, **said)

    def close(self) -> None:
        """Nothing more is put down."""
        self._chain.close()
