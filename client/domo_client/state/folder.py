"""What a silo remembers on disk: who it is, vectors by digest, and an update not yet accepted.

instance-id           random; the silo is this folder, whatever machine it is mounted on
coordinators.json     who it is to each coordinator (`domo_client.state.identity`)
name                  the name that it was used under last: what is below is of that silo
work-of               who it is to the coordinator that it joined last: and of that one's runs
vectors/<digest>      x_r, x_{r-1}, ... as received; never written to again
vectors/<digest>.part the beginning of one, and .part.held how far it goes: a download goes on there
pending.json, .bin    the newest update, until another is made or its run is over
kept-*.json, .bin     what the newest updates have left (`domo_client.state.kept`)
own-model.safetensors the silo's own model of the newest run that has some (`loop.own_model`)
"""

import json
import logging
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash
from torch import Tensor

from domo.errors import ChecksumError
from domo.model.flat import byte_view
from domo.names import GARBLED
from domo.storage import part_file
from domo.storage.files import digest_of, read_at
from domo.storage.state_folder import lock_folder
from domo_client.state.download import Part
from domo_client.state.files import replace, write_over
from domo_client.state.identity import Identities, authority_of
from domo_client.state.kept import KeptVectors

log = logging.getLogger(__name__)

FORMAT_VERSION = 2
DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """An update on disk.

    Attributes:
        run_id: Its run.
        round_index: Its round.
        basis: What it was computed from: digests of the run's configuration and of x_r. Run ids
            begin anew where a coordinator's state was deleted.
        digest: xxh3-128 of all its bytes, hex.
        vectors: (vector id, bytes), in file order.
        num_steps: P_k.
        metrics: What the loop logged.
    """

    run_id: str
    round_index: int
    basis: str
    digest: str
    vectors: Sequence[tuple[int, int]]
    num_steps: int
    metrics: Mapping[str, float]


class SiloState:
    """A silo's state folder, locked against other processes.

    Args:
        folder: Where; made if need be.

    Raises:
        StateError: In use, or not writable.
    """

    def __init__(self, folder: Path):
        self._lock = lock_folder(folder, "domo-client")
        self.folder = folder
        self._vectors = folder / "vectors"
        self._vectors.mkdir(exist_ok=True, mode=0o700)
        for leftover in (*self._vectors.glob("*.tmp"), *folder.glob("*.tmp")):
            leftover.unlink()
        identity = folder / "instance-id"
        if not identity.exists():
            replace(identity, secrets.token_hex(16).encode(), durable=True)
        self.instance_id = identity.read_text(encoding="ascii").strip()
        self.kept = KeptVectors(folder)

    def identity(self, address: str, ca: Path | None, moved_from: str = "") -> str:
        """Who this silo is to a coordinator: see `domo_client.state.identity`."""
        try:
            joined = (self.folder / "joined").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            joined = ""
        known = Identities(self.folder, self.instance_id, joined)
        return known.of(address, authority_of(ca), moved_from)

    def use_as(self, silo_id: str) -> None:
        """Be the folder of this silo: an update that another one has left unsent is not its own.

        So a machine that was copied and got a name of its own sends nothing of the first one's.
        """
        path = self.folder / "name"
        known = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if known == silo_id:
            return
        if known:
            log.warning("%s was the folder of %r: its unsent work is deleted", self.folder, known)
            self._delete_work()
        with suppress(OSError):  # a full disk; a silo with nothing to send can wait for room
            replace(path, silo_id.encode())

    def close(self) -> None:
        """Let another process use the folder."""
        self._lock.close()

    def knows(self, address: str) -> bool:
        """Whether this silo has joined a coordinator at this address, when it last joined one."""
        try:
            return (self.folder / "joined").read_text(encoding="utf-8").strip() == address
        except (OSError, ValueError):
            return False

    def note_joined(self, address: str, instance_id: str) -> None:
        """Remember the coordinator that this silo has joined; what is another one's work goes.

        Models, updates and what those left are found again by digests, which the other one has
        told: a coordinator that named them would be given what was made for somebody else.

        Args:
            address: Where it is.
            instance_id: Who this silo is to it.

        Raises:
            OSError: What is another one's cannot be deleted.
        """
        path, known = self.folder / "work-of", self.knows(address)
        owner = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if owner != instance_id:
            # an older version has noted the address alone, or nothing; it had one id for all
            if owner or not (known or instance_id == self.instance_id):
                self._delete_work()
            with suppress(OSError):  # a full disk is found out where it matters
                replace(path, instance_id.encode())
        if not known:
            with suppress(OSError):
                replace(self.folder / "joined", address.encode())

    def _delete_work(self) -> None:
        """Delete all that was made with a coordinator."""
        self.delete_pending()
        self.kept.keep_only("")
        self.keep_only(())

    # vectors

    def held(self) -> list[str]:
        """Digests of the vectors that are here."""
        return [p.name for p in self._vectors.iterdir() if DIGEST.fullmatch(p.name)]

    def parts(self) -> dict[str, int]:
        """Digests of vectors of which the beginning is here, and how many bytes."""
        paths = (p for p in self._vectors.glob("*.part") if DIGEST.fullmatch(p.stem))
        held = {p.stem: part_file.held_bytes(p) for p in paths}
        return {digest: n for digest, n in held.items() if n}

    def part(self, digest: str, needed: Collection[str] = ()) -> Part:
        """A vector that arrives; one that is none of the `needed` digests goes."""
        old = next((d for d in self.held() if d not in needed), None) if needed else None
        if old is not None:
            (self._vectors / old).unlink(missing_ok=True)
        return Part(self._vectors / digest)

    def get(self, digest: str, into: Tensor) -> Tensor:
        """A kept vector, read into one of its size.

        Raises:
            ChecksumError: It is missing or damaged; it is deleted, so the next fetch brings it.
        """
        path, view = self._vectors / digest, byte_view(into)
        try:
            with path.open("rb", buffering=0) as f:
                whole = path.stat().st_size == len(view) and read_at(f.fileno(), 0, view)
        except OSError as error:
            path.unlink(missing_ok=True)
            text = f"cannot read the cached {path}: {error.strerror}; it is fetched again"
            raise ChecksumError(text) from None
        if not whole or xxhash.xxh3_128_hexdigest(view) != digest:
            path.unlink()
            raise ChecksumError(f"the cached vector {path} was damaged and is deleted")
        return into

    def keep_only(self, digests: Iterable[str]) -> None:
        """Delete all other vectors."""
        keep = set(digests)
        for path in self._vectors.iterdir():
            if path.name not in keep:
                path.unlink()

    # the pending update

    def save_pending(
        self,
        run_id: str,
        round_index: int,
        basis: str,
        vectors: Sequence[tuple[int, memoryview]],
        num_steps: int,
        metrics: Mapping[str, float],
        keep_beside: Callable[[str], None] = lambda digest: None,
    ) -> PendingUpdate:
        """Keep an update before it is sent: it survives the death of this process.

        What the loss of power takes is found out by its digest, and made again. `keep_beside` is
        given the update's digest and keeps what is of no use without it, before the update counts
        as here.
        """
        (self.folder / "pending.json").unlink(missing_ok=True)  # nothing names the bytes now
        digest = write_over(self.pending_path, (data for _, data in vectors))
        keep_beside(digest)
        sizes = [(v, len(data)) for v, data in vectors]
        update = PendingUpdate(run_id, round_index, basis, digest, sizes, num_steps, dict(metrics))
        body = {"format_version": FORMAT_VERSION, **asdict(update)}
        replace(self.folder / "pending.json", json.dumps(body).encode())
        return update

    def pending(self, run_id: str, round_index: int, basis: str) -> PendingUpdate | None:
        """The update of this round, if it is here and whole; any other is dropped."""
        try:
            body: dict[str, Any] = json.loads((self.folder / "pending.json").read_text())
            if body.pop("format_version") != FORMAT_VERSION:
                return None
            body["vectors"] = [(int(v), int(n)) for v, n in body["vectors"]]
            update = PendingUpdate(**body)
        except OSError:
            return None
        except GARBLED:
            log.warning("%s is damaged; its update is made again", self.folder / "pending.json")
            return None
        if (update.run_id, update.round_index, update.basis) != (run_id, round_index, basis):
            self.drop_pending()
            return None
        if digest_of(self.pending_path) != update.digest:
            log.warning("the unsent update in %s is damaged; it is made again", self.pending_path)
            self.drop_pending()
            return None
        return update

    def newest_round(self, run_id: str, config_digest: str) -> int:
        """The round of the newest update of a run that is known here; -1: none is."""
        try:
            body = json.loads((self.folder / "pending.json").read_text())
            ours = body["run_id"] == run_id and body["basis"].startswith(f"{config_digest}/")
            return int(body["round_index"]) if ours else -1
        except (OSError, *GARBLED):
            return -1

    @property
    def pending_path(self) -> Path:
        """The bytes of the pending update."""
        return self.folder / "pending.bin"

    def drop_pending(self) -> None:
        """Forget the pending update: its round is over. Its bytes are written over by the next."""
        (self.folder / "pending.json").unlink(missing_ok=True)

    def delete_pending(self) -> None:
        """Delete the pending update with its bytes: its run is over."""
        self.drop_pending()
        self.pending_path.unlink(missing_ok=True)
