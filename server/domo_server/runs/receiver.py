"""What a run takes from its silos: updates, numbers, failures; and what it had taken before.

Everything here happens on the event loop except disk work, which runs on threads.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from domo.errors import DivergenceError, ProtocolError
from domo.model.layout import Layout, Section
from domo.run_config import RunConfig
from domo.update_format import torch_dtype
from domo_proto.codec import VectorId
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Changes
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.model import ServedModel
from domo_server.runs.participants import Participants, failed_event
from domo_server.runs.roster import Roster
from domo_server.runs.wire_vector import BUFFER_IDS
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.rows import AcceptedUpdate
from domo_server.store.spool import (
    Part,
    Upload,
    forget_others,
    held_bytes,
    is_whole,
    update_path,
)
from domo_server.store.store import Store

log = logging.getLogger(__name__)

MAX_PARTS_SHOWN = 8


class Receiver:
    """The receiving end of a run.

    Args:
        run_id: The run.
        config: Its configuration.
        spool: Folder of its uploads.
        store: Where what is accepted is recorded.
        changes: Told what has come.
        events: What happens, for people.
        roster: Who has enrolled.
        participants: The silos of the open round.
        state: Where the run is now.
        model: The newest model.
    """

    def __init__(
        self,
        run_id: str,
        config: RunConfig,
        spool: Path,
        store: Store,
        changes: Changes,
        events: EventLog,
        roster: Roster,
        participants: Participants,
        state: Callable[[], RoundState],
        model: ServedModel,
    ):
        self._run_id, self._config, self._spool = run_id, config, spool
        self._store, self._changes, self._events = store, changes, events
        self._roster, self._participants, self._state = roster, participants, state
        self._model = model
        self.parts: Sequence[Part] = ()
        self.disk: str | None = None
        self._locks: dict[str, asyncio.Lock] = {}

    def expect(self, layout: Layout) -> None:
        """Know the vectors of an update, in order."""
        dtype = torch_dtype(self._config.update_dtype)
        n = layout.num_bytes(Section.TRAINABLE) // 4 * dtype.itemsize
        parts = [Part(VectorId.UPDATE, n, dtype)]
        if self._config.kernel.average:
            parts.append(Part(VectorId.LOCAL_MOMENTUM, n, dtype))
        for section, vector_id in BUFFER_IDS.items():
            if size := layout.num_bytes(section):
                is_float = section is Section.FLOAT_BUFFER
                parts.append(Part(vector_id, size, torch.float32 if is_float else None))
        self.parts = parts

    # folders

    def folder(self, round_index: int) -> Path:
        """Folder of a round's uploads."""
        return self._spool / f"round-{round_index:06d}"

    # updates

    def collects(self, round_index: int) -> bool:
        """Whether updates of this round are taken; a paused round takes them too."""
        state = self._state()
        return round_index == state.round_index and state.phase in (Phase.OPEN, Phase.PAUSED)

    def wants(self, silo_id: str, round_index: int) -> bool:
        """Whether an update of this round is taken from a silo: it may have been dropped since."""
        known = silo_id in self._participants.sampled and silo_id in self._roster.enrolled
        return known and self.collects(round_index)

    def upload_state(self, silo_id: str, round_index: int, upload_digest: str) -> tuple[str, int]:
        """Whether an upload is absent, partial, accepted or stale; and the bytes held."""
        if not self.collects(round_index):
            return "stale", 0
        accepted = self._participants.accepted.get(silo_id)
        if accepted is not None:
            return ("accepted" if accepted.digest == upload_digest else "stale"), 0
        held = held_bytes(self.folder(round_index), silo_id, upload_digest, self.parts)
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
        why = self._participants.why_refused(silo_id, upload_digest)
        if why is not None:
            raise ProtocolError(f"this update was refused before: {why}")
        expected, r = self.parts, self._state().round_index
        if [(p.vector_id, p.num_bytes) for p in expected] != list(parts):
            right = [(int(p.vector_id), p.num_bytes) for p in expected]
            raise ProtocolError(
                f"an update of this run has vectors {right} (id, bytes); {silo_id} sends "
                f"{list(parts[:MAX_PARTS_SHOWN])}"
            )
        wanted = self._config.steps_at(r, silo_id, self._roster.enrolled[silo_id].num_samples)
        if num_steps != wanted:
            raise ProtocolError(f"{silo_id} made {num_steps} local steps, the run wants {wanted}")
        current, name = self._model.current, Section.FLOAT_BUFFER.value
        held = None if current is None else current.reader(name)
        upload = Upload(self.folder(r), silo_id, upload_digest, expected, offset, held)
        self._participants.times.uploads(silo_id, upload_digest)
        return upload

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
        """Record a whole, checked update; False if its round has closed meanwhile.

        Raises:
            DivergenceError: It is beyond what any training gives.
        """
        if not self.wants(silo_id, round_index):
            return False
        update = AcceptedUpdate(
            silo_id=silo_id,
            digest=upload.digest,
            vectors=[(p.vector_id, p.num_bytes) for p in self.parts],
            num_steps=num_steps,
            update_norm=norm,
            metrics=dict(metrics),
        )
        try:
            momentum = upload.norm_of(VectorId.LOCAL_MOMENTUM)
            await asyncio.to_thread(self._measure, round_index, update, momentum)
        except DivergenceError as error:
            upload.refuse()
            if self.wants(silo_id, round_index):
                self._participants.refuse(update, str(error), absurd=True)
                self._changes.moved()  # nothing comes of a silo for now
            raise
        await asyncio.to_thread(self._store.accept_update, self._run_id, round_index, update)
        if (record := self._events.record) is not None:
            path = update_path(self.folder(round_index), silo_id, upload.digest)
            await asyncio.to_thread(record.update, self._run_id, round_index, silo_id, path)
        with suppress(OSError):  # they go with the round's folder at the latest
            folder = self.folder(round_index)
            await asyncio.to_thread(forget_others, folder, silo_id, upload.digest)
        if not self.wants(silo_id, round_index):
            return False
        now = self._participants
        if (copy := now.yardstick.about_copy(update, round_index, now.accepted)) is not None:
            self._say(kinds.UNUSUAL, copy, silo_id)
        now.take(update)
        if self.disk is not None:
            self.disk = None
            self._say(kinds.DISK, "updates are kept again")
        self._changes.moved()  # an update is in
        return True

    def _measure(
        self,
        round_index: int,
        update: AcceptedUpdate,
        momentum: float | None = None,
        following: Checkpoint | None = None,
    ) -> None:
        """See that an update is not beyond all training; blocks."""
        layout, model = self._model.layout, following or self._model.current
        if layout is None or model is None or model.round_index != round_index:
            return  # its round is over
        path = update_path(self.folder(round_index), update.silo_id, update.digest)
        self._participants.yardstick.measure(layout, model, path, update, momentum)

    def note_disk(self, why: str) -> None:
        """An update could not be kept: said until one can be."""
        if self.disk is None:
            self._say(kinds.DISK, f"updates cannot be kept: {why}")
        self.disk = why
        self._changes.shown()  # why the round waits

    async def find_updates(
        self, round_index: int, following: Checkpoint | None = None
    ) -> dict[str, AcceptedUpdate]:
        """Updates of a round that were accepted before a restart and are still whole, by silo.

        Args:
            round_index: r.
            following: x_r, where the round is not open yet.
        """
        found = {}
        for update in await asyncio.to_thread(self._store.updates_of, self._run_id, round_index):
            silo_id, digest = update.silo_id, update.digest
            path = update_path(self.folder(round_index), silo_id, digest)
            if await asyncio.to_thread(is_whole, path, digest):
                try:
                    await asyncio.to_thread(self._measure, round_index, update, None, following)
                    found[silo_id] = update
                except DivergenceError as error:  # a version before this one took it
                    self._say(kinds.REFUSED, f"refused an update of {silo_id}: {error}", silo_id)
            else:
                text = f"the update of {silo_id} was not wholly on disk; it is asked for again"
                self._say(kinds.TORN, text, silo_id)
        return found

    def restore(self, found: Mapping[str, AcceptedUpdate]) -> None:
        """Count such updates in the open round."""
        for silo_id, update in found.items():
            if silo_id in self._participants.sampled:
                self._participants.take(update, before_restart=True)

    # failures

    def note_failure(
        self, silo_id: str, round_index: int, text: str, times: int = 0, lasts: bool = False
    ) -> None:
        """A silo says that its round, or its test of the last model, failed.

        The same fault again, `times` running, is an event once it `lasts`.
        """
        state, now = self._state(), self._participants
        here = silo_id in now.sampled or state.phase is Phase.EVALUATING
        known = round_index == state.round_index and here
        if not known or now.fail(silo_id, text, times, lasts):
            told = failed_event(silo_id, round_index, text, times, lasts)
            self._say(kinds.SILO_FAILED, told, silo_id)
        self._changes.moved()  # a silo is lost for the round

    def _say(self, kind: EventKind, text: str, silo_id: str | None = None) -> None:
        self._events.say(kind, text, self._run_id, silo_id)
