"""One run, live: who takes part, and whose turn it is.

Everything here happens on the event loop except tensor and disk work, which runs on threads. The
rules are elsewhere: `round_state` says when a round closes, `domo.algorithm` how.
"""

import asyncio

from domo.errors import ConfigError, LayoutMismatchError, ProtocolError
from domo.run_config import sort_roster
from domo_proto.codec import VectorId
from domo_server.events import kinds
from domo_server.rounds.state import Phase, Signal, advance
from domo_server.runs.assignment import Assignment, Counted
from domo_server.runs.receiver import BUFFER_IDS, Intake
from domo_server.runs.wire_vector import WireVector
from domo_server.silos.sessions import Session
from domo_server.store.rows import Enrolment, RoundRecord

MAX_SAMPLES = 10**12
"""More samples than this at one silo are a mistake, or a lie."""
MAX_STEPS = 2**31 - 1
"""Local steps that a round can ask for."""
NOBODY = "every silo of this round is left out; re-admit one, or stop the run"


class Run(Intake):
    """State and questions of a run; `RunLoop` (in `rounds`) moves it."""

    # what silos ask

    def offers_to(self, session: Session) -> bool:
        """Whether this silo should be asked to take part."""
        return self.run_id not in session.declined and self.concerns(session)

    def concerns(self, session: Session) -> bool:
        """Whether the run is for this silo."""
        if not self.ready or self.state.ended:
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
            await asyncio.to_thread(self.store.enroll, self.run_id, silo_id, mine)
            self.enrolments[silo_id] = mine
            self.say(kinds.ENROLLED, f"{silo_id} enrolled with {num_samples} samples", silo_id)
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
        if evaluated_index != self.state.round_index or silo_id not in self.enrolments:
            return
        reported = self.reported.setdefault(evaluated_index, set())
        if silo_id not in reported:
            reported.add(silo_id)
            self.broadcast.notify()

    def waits(self) -> str:
        """What a silo without a turn waits for, in words that name no other silo."""
        phase = self.state.phase
        if phase is Phase.PAUSED:
            return "the run is paused by the admin"
        if self.roster is None:
            return "the run begins when all its silos have enrolled"
        if phase is Phase.OPEN and self.sampled:
            there = sum(silo_id in self.accepted for silo_id in self.sampled)
            r = self.state.round_index + 1
            return f"round {r} has updates of {there} of its {len(self.sampled)} silos"
        if phase is Phase.EVALUATING:
            return "the last model is being tested"
        return ""

    def assignment_for(self, silo_id: str, evaluated_index: int) -> Assignment | None:
        """What the silo is to do now; None: nothing yet."""
        r, phase = self.state.round_index, self.state.phase
        mine = self.enrolments.get(silo_id)
        if self.state.ended:
            return Assignment("end", r, outcome=phase.value, text=self.detail)
        if mine is None or self.server is None:
            return None
        tests = (
            mine.num_eval_samples > 0
            and silo_id not in self.dropped
            and evaluated_index != r
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
            return Assignment(
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
            return Assignment("evaluate", r, self.state.attempt, evaluate=True, vectors=vectors)
        return None

    # what the loop does

    def open_round(self) -> None:
        """Make x_r available and say whose turn it is."""
        assert self.server is not None
        assert self.roster is not None
        s, r = self.server, self.state.round_index
        names = {VectorId.X: "x"}
        if self.kernel.average and "mbar" in s:
            names[VectorId.MEAN_MOMENTUM] = "mbar"
        names |= {v: section.value for section, v in BUFFER_IDS.items()}
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

    def count(self, record: RoundRecord) -> None:
        """A round is closed with these updates: their silos are told, for their residuals."""
        for p in record.participants:
            self.counted[p.silo_id] = Counted(record.round_index, p.digest)

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

    def move(self, signal: Signal) -> None:
        """Advance the state and tell everybody."""
        self.state = advance(self.state, signal)
        self.broadcast.notify()
