"""What a run takes from its silos: updates, numbers, failures; and what it had taken before.

Everything here happens on the event loop except disk work, which runs on threads.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from domo.errors import CoordinatorUnavailableError, ProtocolError, StateError
from domo.model.layout import Layout, Section
from domo.run_config import RunConfig
from domo.update_format import torch_dtype
from domo_proto.codec import VectorId
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Broadcast
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.assignment import Counted
from domo_server.runs.participants import Members
from domo_server.runs.wire_vector import WireVector
from domo_server.silos.sessions import Sessions
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.rows import AcceptedUpdate, Enrolment
from domo_server.store.spool import (
    Part,
    Upload,
    forget_others,
    held_bytes,
    is_whole,
    update_path,
)
from domo_server.store.store import Store

BUFFER_IDS = {
    Section.FLOAT_BUFFER: VectorId.FLOAT_BUFFERS,
    Section.INTEGER_BUFFER: VectorId.INTEGER_BUFFERS,
}
MAX_PARTS_SHOWN = 8


def of_its_files(error: OSError | StateError) -> CoordinatorUnavailableError:
    """A file of a run is missing or damaged: silos wait until it is mounted, or restored."""
    return CoordinatorUnavailableError(f"{error}; mount or restore the run's files, or stop it")


class Intake(Members):
    """The receiving half of a `Run`."""

    def __init__(
        self,
        run_id: str,
        config: RunConfig,
        folder: Path,
        store: Store,
        sessions: Sessions,
        broadcast: Broadcast,
        events: EventLog,
        dropped: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(run_id, config, sessions, dropped, clock)
        self.folder, self.kernel = folder, config.kernel
        self.store, self.broadcast, self.events = store, broadcast, events
        self.state = RoundState()
        self.ready = False
        self.detail = ""
        self.layout: Layout | None = None
        self.frozen_wire: WireVector | None = None
        self.server: Checkpoint | None = None
        self.previous: Checkpoint | None = None
        self.saving: asyncio.Task[None] | None = None
        self.wire: dict[VectorId, WireVector] = {}
        self.enrolments: dict[str, Enrolment] = {}
        self.roster: list[str] | None = None
        self.reported: dict[int, set[str]] = {}
        self.counted: dict[str, Counted] = {}
        self.stop_text: str | None = None
        self.pause_wanted = False
        self.revision = 0
        self.damage: CoordinatorUnavailableError | None = None
        self._locks: dict[str, asyncio.Lock] = {}

    def say(self, kind: EventKind, text: str, silo_id: str | None = None) -> None:
        """Log and record an event of this run."""
        self.events.say(kind, text, self.run_id, silo_id)

    def expected_parts(self) -> list[Part]:
        """The vectors of an update of this run, in order."""
        assert self.layout is not None
        dtype = torch_dtype(self.config.update_dtype)
        n = self.layout.num_bytes(Section.TRAINABLE) // 4 * dtype.itemsize
        parts = [Part(VectorId.UPDATE, n, dtype)]
        if self.kernel.average:
            parts.append(Part(VectorId.LOCAL_MOMENTUM, n, dtype))
        for section, vector_id in BUFFER_IDS.items():
            if size := self.layout.num_bytes(section):
                is_float = section is Section.FLOAT_BUFFER
                parts.append(Part(vector_id, size, torch.float32 if is_float else None))
        return parts

    @property
    def spool(self) -> Path:
        """Folder of the open round's uploads."""
        return self.spool_of(self.state.round_index)

    def spool_of(self, round_index: int) -> Path:
        """Folder of a round's uploads."""
        return self.folder / "spool" / f"round-{round_index:06d}"

    @property
    def free(self) -> Path:
        """Folder of the committed round's uploads, to write over."""
        return self.folder / "spool" / "free"

    def collects(self, round_index: int) -> bool:
        """Whether updates of this round are taken; a paused round takes them too."""
        phases = (Phase.OPEN, Phase.PAUSED)
        return round_index == self.state.round_index and self.state.phase in phases

    def wants(self, silo_id: str, round_index: int) -> bool:
        """Whether an update of this round is taken from a silo: it may have been dropped since."""
        known = silo_id in self.sampled and silo_id in self.enrolments
        return known and self.collects(round_index)

    def upload_state(self, silo_id: str, round_index: int, upload_digest: str) -> tuple[str, int]:
        """Whether an upload is absent, partial, accepted or stale; and the bytes held."""
        if not self.collects(round_index):
            return "stale", 0
        if silo_id in self.accepted:
            same = self.accepted[silo_id].digest == upload_digest
            return ("accepted" if same else "stale"), 0
        held = held_bytes(self.spool, silo_id, upload_digest, self.expected_parts())
        return ("partial", held) if held else ("absent", 0)

    def begin_upload(
        self,
        silo_id: str,
        parts: Sequence[tuple[int, int]],
        upload_digest: str,
        offset: int,
        num_steps: int,
    ) -> Upload:
        """Check an update's header and open its part file.

        Raises:
            ProtocolError: Wrong vectors, sizes or number of steps.
        """
        refused, why = self.refused.get(silo_id, ("", ""))
        if refused == upload_digest:
            raise ProtocolError(f"this update was refused before: {why}")
        expected = self.expected_parts()
        if [(p.vector_id, p.num_bytes) for p in expected] != list(parts):
            right = [(int(p.vector_id), p.num_bytes) for p in expected]
            raise ProtocolError(
                f"an update of this run has vectors {right} (id, bytes); {silo_id} sends "
                f"{list(parts[:MAX_PARTS_SHOWN])}"
            )
        wanted = self.config.steps_at(
            self.state.round_index, silo_id, self.enrolments[silo_id].num_samples
        )
        if num_steps != wanted:
            raise ProtocolError(f"{silo_id} made {num_steps} local steps, the run wants {wanted}")
        return Upload(self.spool, silo_id, upload_digest, expected, offset, self.free)

    def lock_of(self, silo_id: str) -> asyncio.Lock:
        """One upload at a time for each silo."""
        return self._locks.setdefault(silo_id, asyncio.Lock())

    async def accept(
        self,
        silo_id: str,
        round_index: int,
        upload: Upload,
        norm: float,
        num_steps: int,
        metrics: Mapping[str, float],
    ) -> bool:
        """Record a whole, checked update; False if its round has closed meanwhile."""
        if not self.wants(silo_id, round_index):
            return False
        update = AcceptedUpdate(
            silo_id=silo_id,
            digest=upload.digest,
            vectors=[(p.vector_id, p.num_bytes) for p in self.expected_parts()],
            num_steps=num_steps,
            update_norm=norm,
            metrics=dict(metrics),
        )
        await asyncio.to_thread(self.store.accept_update, self.run_id, round_index, update)
        with suppress(OSError):  # they go with the round's folder at the latest
            folder = self.spool_of(round_index)
            await asyncio.to_thread(forget_others, folder, silo_id, upload.digest)
        if not self.wants(silo_id, round_index):
            return False
        self.take(update)
        if self.disk is not None:
            self.disk = None
            self.say(kinds.DISK, "updates are kept again")
        self.broadcast.notify()
        return True

    def note_disk(self, why: str) -> None:
        """An update could not be kept: said until one can be."""
        if self.disk is None:
            self.say(kinds.DISK, f"updates cannot be kept: {why}")
        self.disk = why
        self.broadcast.notify()

    def note_damage(self, error: OSError | StateError) -> None:
        """A file that silos fetch cannot be read: the run is loaded again, once that can be."""
        if self.damage is None:
            self.damage = of_its_files(error)
            self.say(kinds.DISK, f"a model cannot be sent: {self.damage}")
            self.broadcast.notify()

    async def add_evaluation(
        self, silo_id: str, model_index: int, sums: Mapping[str, tuple[float, float]]
    ) -> None:
        """Record a silo's sums for x_{model_index}."""
        if not 0 <= model_index <= self.state.round_index:
            raise ProtocolError(f"there is no model x_{model_index} yet")
        await asyncio.to_thread(self.store.add_evaluation, self.run_id, model_index, silo_id, sums)
        self.reported.setdefault(model_index, set()).add(silo_id)
        self.revision += 1
        self.broadcast.notify()

    def note_failure(self, silo_id: str, round_index: int, text: str) -> None:
        """A silo says that its round failed."""
        if round_index == self.state.round_index and silo_id in self.sampled:
            self.fail(silo_id, text)
        self.say(kinds.SILO_FAILED, f"{silo_id} failed in round {round_index + 1}: {text}", silo_id)
        self.broadcast.notify()

    def should_abandon(self, silo_id: str, round_index: int) -> bool:
        """Whether a silo trains for a round that is over."""
        r, phase = self.state.round_index, self.state.phase
        over = round_index != r or phase not in (Phase.OPEN, Phase.PAUSED)
        return over or silo_id not in self.sampled

    async def find_updates(self, round_index: int) -> dict[str, AcceptedUpdate]:
        """Updates of a round that were accepted before a restart and are still whole, by silo."""
        found = {}
        for update in await asyncio.to_thread(self.store.updates_of, self.run_id, round_index):
            silo_id, digest = update.silo_id, update.digest
            path = update_path(self.spool_of(round_index), silo_id, digest)
            if await asyncio.to_thread(is_whole, path, digest):
                found[silo_id] = update
            else:
                text = f"the update of {silo_id} was not wholly on disk; it is asked for again"
                self.say(kinds.TORN, text, silo_id)
        return found

    def restore(self, found: Mapping[str, AcceptedUpdate]) -> None:
        """Count such updates in the open round."""
        for silo_id, update in found.items():
            if silo_id in self.sampled:
                self.take(update)
