"""One run, live: what silos ask of it and what it does with their updates.

Everything here happens on the event loop except tensor and disk work, which runs on threads. The
rules are elsewhere: `round_state` says when a round closes, `domo.algorithm` how.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from domo.errors import ConfigError, LayoutMismatchError, ProtocolError
from domo.run_config import RunConfig, sort_roster
from domo.vector import Layout, Section
from domo.wire_format import torch_dtype
from domo_proto.codec import VectorId
from domo_server.broadcast import Broadcast
from domo_server.checkpoint import Checkpoint
from domo_server.events import EventLog
from domo_server.members import Members
from domo_server.outgoing import WireVector
from domo_server.round_state import Phase, RoundState, Signal, advance
from domo_server.sessions import Session, Sessions
from domo_server.spool import Part, Upload, held_bytes, is_whole, update_path
from domo_server.store import Store
from domo_server.turn import Counted, Enrolment, Turn

DOWN_SECTIONS = {
    Section.FLOAT_BUFFER: VectorId.FLOAT_BUFFERS,
    Section.INTEGER_BUFFER: VectorId.INTEGER_BUFFERS,
}


MAX_SAMPLES = 10**12
"""More samples than this at one silo are a mistake, or a lie."""
MAX_STEPS = 2**31 - 1
"""Local steps that a round can ask for."""
MAX_PARTS_SHOWN = 8
NOBODY = "every silo of this round is left out; re-admit one, or stop the run"


class Run(Members):
    """State and questions of a run; `RunLoop` (in `rounds`) moves it."""

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
        self._locks: dict[str, asyncio.Lock] = {}

    # what silos ask

    def offers_to(self, session: Session) -> bool:
        """Whether this silo should be asked to take part."""
        if not self.ready or self.state.ended or self.run_id in session.declined:
            return False
        if session.role == "evaluator" or session.silo_id in self.enrolments:
            return True
        if session.silo_id in self.dropped:
            return False
        if self.roster is not None:
            return session.silo_id in self.roster
        return self.config.roster is None or session.silo_id in self.config.roster

    async def enroll(
        self, session: Session, layout_digest: bytes, num_samples: int, num_eval_samples: int
    ) -> None:
        """Take a silo in, or confirm its place after a restart.

        Raises:
            LayoutMismatchError: Its model is not the run's.
            ConfigError: It must say how many samples it has, or has another number than before.
        """
        layout, silo_id = self.layout, session.silo_id
        if layout is None or not self.offers_to(session):
            raise ProtocolError(f"{silo_id} has no place in run {self.run_id}")
        if layout_digest.hex() != layout.digest:
            raise LayoutMismatchError("the silo's model does not match the run's")
        trains = session.role == "trainer"
        if trains and not num_samples and self.config.needs_samples:
            raise ConfigError(
                "this run needs to know how many training samples the silo has: pass "
                "samples=len(dataset) to rounds()"
            )
        self._check_samples(silo_id, num_samples, num_eval_samples)
        mine = Enrolment(session.role, num_samples, num_eval_samples)
        old = self.enrolments.get(silo_id)
        if old is not None and self.roster is not None and old != mine:
            raise ConfigError(
                f"{silo_id} enrolled in {self.run_id} with {old.num_samples} training and "
                f"{old.num_eval_samples} test samples and now has {num_samples} and "
                f"{num_eval_samples}; a run needs the same data from start to end"
            )
        if old != mine:
            await asyncio.to_thread(
                self.store.enroll,
                self.run_id,
                silo_id,
                role=mine.role,
                num_samples=num_samples,
                num_eval_samples=num_eval_samples,
            )
            self.enrolments[silo_id] = mine
            self.say("enrolled", f"{silo_id} enrolled with {num_samples} samples", silo_id)
        session.run_id, session.phase = self.run_id, "enrolled"
        session.num_samples, session.num_eval_samples = num_samples, num_eval_samples
        self.broadcast.notify()

    def _check_samples(self, silo_id: str, num_samples: int, num_eval_samples: int) -> None:
        if max(num_samples, num_eval_samples) > MAX_SAMPLES:
            raise ConfigError(
                f"{silo_id} says that it has {num_samples} training and {num_eval_samples} test "
                f"samples; more than {MAX_SAMPLES} cannot be right"
            )
        steps = num_samples and self.config.local_steps_list is None
        if steps and self.config.steps_at(0, silo_id, num_samples) > MAX_STEPS:
            raise ConfigError(
                f"with {num_samples} training samples {silo_id} would make more than {MAX_STEPS} "
                "local steps in a round"
            )

    def freeze_roster(self) -> list[str] | None:
        """The roster, once everybody is there; None while somebody is missing.

        A silo that an admin has left out is neither counted nor waited for.
        """
        config = self.config
        trainers = [
            s for s, e in self.enrolments.items() if e.role == "trainer" and s not in self.dropped
        ]
        missing = [
            s
            for s in config.roster or config.required_silos
            if s not in trainers and s not in self.dropped
        ]
        needed = [s for s in config.required_silos if s in trainers]
        first = [*needed, *(s for s in trainers if s not in needed)][: config.expected_silos]
        short = config.expected_silos - len(first)
        if missing:
            self.detail = f"waiting for {', '.join(missing)} to enrol"
        elif config.roster and not trainers:
            self.detail = NOBODY
        elif config.roster:
            return sort_roster(config.roster)
        elif short:
            self.detail = f"waiting for {short} more of {config.expected_silos} silos to enrol"
        else:
            return sort_roster(first)
        notes = ((s.silo_id, self.declined(s.silo_id)) for s in self.sessions.all())
        self.detail += "".join(f"; {silo_id} {note}" for silo_id, note in notes if note)
        return None

    def note_tested(self, silo_id: str, evaluated_index: int) -> None:
        """A silo says that it is through with testing a model, with or without numbers."""
        reported = self.reported.setdefault(evaluated_index, set())
        if evaluated_index == self.state.round_index and silo_id not in reported:
            reported.add(silo_id)
            self.broadcast.notify()

    def turn_for(self, silo_id: str, evaluated_index: int) -> Turn | None:
        """What the silo is to do now; None: nothing yet."""
        r, phase = self.state.round_index, self.state.phase
        mine = self.enrolments.get(silo_id)
        if self.state.ended:
            return Turn("end", r, outcome=phase.value, text=self.detail)
        if mine is None or self.server is None:
            return None
        tests = (
            mine.num_eval_samples > 0
            and silo_id not in self.dropped
            and evaluated_index < r
            and silo_id not in self.reported.get(r, ())
            and self.config.evaluates_at(r)
        )
        held = self.wire
        if (
            phase is Phase.OPEN
            and silo_id in self.sampled
            and silo_id not in self.accepted
            and mine.role == "trainer"
        ):
            deadline = self.policy.round_deadline_s
            return Turn(
                "train",
                r,
                self.state.attempt,
                self.config.steps_at(r, silo_id, mine.num_samples),
                self.config.lr_at(r),
                self.server.inference_scale,
                tests,
                held,
                counted=self.counted.get(silo_id),
                remaining_s=None if deadline is None else deadline - self.clock() + self.opened_at,
            )
        if tests and phase in (Phase.OPEN, Phase.EVALUATING):
            skip = (VectorId.X_PREV, VectorId.MEAN_MOMENTUM)
            vectors = {v: w for v, w in held.items() if v not in skip}
            return Turn("evaluate", r, self.state.attempt, evaluate=True, vectors=vectors)
        return None

    # what silos send

    def expected_parts(self) -> list[Part]:
        """The vectors of an update of this run, in order."""
        assert self.layout is not None
        dtype = torch_dtype(self.config.update_dtype)
        n = self.layout.num_bytes(Section.TRAINABLE) // 4 * dtype.itemsize
        parts = [Part(VectorId.UPDATE, n, dtype)]
        if self.kernel.average:
            parts.append(Part(VectorId.LOCAL_MOMENTUM, n, dtype))
        for section, vector_id in DOWN_SECTIONS.items():
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
            same = self.accepted[silo_id]["digest"] == upload_digest
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
        row = {
            "digest": upload.digest,
            "vectors": [[p.vector_id, p.num_bytes] for p in self.expected_parts()],
            "num_steps": num_steps,
            "update_norm": norm,
            "metrics": dict(metrics),
        }
        await asyncio.to_thread(
            self.store.accept_update,
            run_id=self.run_id,
            round_index=round_index,
            silo_id=silo_id,
            **row,
        )
        if not self.wants(silo_id, round_index):
            return False
        self.take(silo_id, row)
        if self.disk is not None:
            self.disk = None
            self.say("disk", "updates are kept again")
        self.broadcast.notify()
        return True

    def note_disk(self, why: str) -> None:
        """An update could not be kept: said until one can be."""
        if self.disk is None:
            self.say("disk", f"updates cannot be kept: {why}")
        self.disk = why
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
        self.say("silo-failed", f"{silo_id} failed in round {round_index + 1}: {text}", silo_id)
        self.broadcast.notify()

    def should_abandon(self, silo_id: str, round_index: int) -> bool:
        """Whether a silo trains for a round that is over."""
        r, phase = self.state.round_index, self.state.phase
        over = round_index != r or phase not in (Phase.OPEN, Phase.PAUSED)
        return over or silo_id not in self.sampled

    # what the loop does

    def open_round(self) -> None:
        """Make x_r available and say whose turn it is."""
        assert self.server is not None
        assert self.roster is not None
        s, r = self.server, self.state.round_index
        names = {VectorId.X: "x"}
        if self.kernel.average and "mbar" in s:
            names[VectorId.MEAN_MOMENTUM] = "mbar"
        names |= {v: section.value for section, v in DOWN_SECTIONS.items()}
        self.wire = {
            vector_id: WireVector(s.file, name, vector_id, bytes.fromhex(s.digests[name]), True)
            for vector_id, name in names.items()
            if s.file.num_bytes(name)
        }
        if self.kernel.fusion != "none" and self.previous is not None:
            before = self.previous
            self.wire[VectorId.X_PREV] = WireVector(
                before.file, "x", VectorId.X_PREV, bytes.fromhex(before.digests["x"]), False
            )
        if self.frozen_wire is not None:
            self.wire[VectorId.FROZEN] = self.frozen_wire
        last = r >= self.config.num_rounds
        self.open_for([] if last else self.config.participants_at(r, self.roster))

    def count(self, record: Mapping[str, Any]) -> None:
        """A round is closed with these updates: their silos are told, for their residuals."""
        for p in record["participants"]:
            self.counted[p["silo_id"]] = Counted(record["round_index"], p["digest"])

    def leave_out(self, silo_id: str) -> None:
        """Take a silo that was just dropped out of the open round, unless its set is fixed."""
        if self.collects(self.state.round_index):
            self.take_out(silo_id)
        self.broadcast.notify()

    def take_back(self, silo_id: str) -> None:
        """A silo was re-admitted: from the next round on, or now where nobody is left."""
        if not self.sampled and silo_id in self.chosen:
            self.sampled = [silo_id]
        self.broadcast.notify()

    async def find_updates(self, round_index: int) -> dict[str, dict[str, Any]]:
        """Updates of a round that were accepted before a restart and are still whole, by silo."""
        found = {}
        for row in await asyncio.to_thread(self.store.updates_of, self.run_id, round_index):
            silo_id, digest = row["silo_id"], row["digest"]
            path = update_path(self.spool_of(round_index), silo_id, digest)
            if await asyncio.to_thread(is_whole, path, digest):
                keys = ("digest", "vectors", "num_steps", "update_norm", "metrics")
                found[silo_id] = {k: row[k] for k in keys}
            else:
                text = f"the update of {silo_id} was not wholly on disk; it is asked for again"
                self.say("torn", text, silo_id)
        return found

    def restore(self, found: Mapping[str, dict[str, Any]]) -> None:
        """Count such updates in the open round."""
        for silo_id, row in found.items():
            if silo_id in self.sampled:
                self.take(silo_id, row)

    def move(self, signal: Signal) -> None:
        """Advance the state and tell everybody."""
        self.state = advance(self.state, signal)
        self.broadcast.notify()

    def say(self, kind: str, text: str, silo_id: str | None = None) -> None:
        """Log and record an event of this run."""
        self.events.say(kind, text, self.run_id, silo_id)
