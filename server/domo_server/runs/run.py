"""One run, live: where it is, what its silos are to do, and what people are told of it.

Everything here happens on the event loop except tensor and disk work, which runs on threads. The
rules are elsewhere: `rounds.state` says when a round closes, `domo.algorithm` how.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from domo.errors import CoordinatorUnavailableError, LayoutMismatchError, ProtocolError, StateError
from domo.run_config import RunConfig
from domo_proto.assignment import Action, Assignment
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Changes
from domo_server.people.person import THE_ADMIN
from domo_server.results.evaluations import Evaluations
from domo_server.rounds.state import Phase, RoundState, Signal, advance
from domo_server.runs.assignment import Assignments
from domo_server.runs.model import ServedModel, digest_of_model, of_its_files
from domo_server.runs.participants import Participants
from domo_server.runs.receiver import Receiver
from domo_server.runs.roster import Roster
from domo_server.runs.wire_vector import WireVector
from domo_server.silos.session import Session
from domo_server.silos.sessions import Sessions
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.rows import Enrolment, RoundRecord
from domo_server.store.store import Store

SETTLE_S = 1.0
QUEUE, ROUND, COMMIT, END = "queue", "round", "commit", "end"
"""Who may hold a run up: its next try; its round; the commit of the one before; its end."""
PAUSED_BY = "paused by "


class Run:
    """State and questions of a run; `RunLoop` moves it.

    Args:
        run_id: Its id.
        config: Its configuration.
        folder: Where it keeps its files.
        store: Durable metadata.
        sessions: Who is connected.
        changes: Told what changes.
        events: What happens, for people.
        dropped: Silos that an admin has left out, and why.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        run_id: str,
        config: RunConfig,
        folder: Path,
        store: Store,
        sessions: Sessions,
        changes: Changes,
        events: EventLog,
        dropped: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ):
        self.run_id, self.config = run_id, config
        self.folder, self.store, self.sessions = folder, store, sessions
        self.changes, self.events, self.dropped, self.clock = changes, events, dropped, clock
        self.state = RoundState()
        self.roster = Roster(run_id, config, store, sessions, dropped)
        self.model = ServedModel(config.kernel)
        self.participants = Participants(run_id, config, sessions, dropped, clock)
        self.receiver = Receiver(
            run_id,
            config,
            folder / "spool",
            store,
            changes,
            events,
            self.roster,
            self.participants,
            lambda: self.state,
            self.model,
        )
        self.evaluations = Evaluations(
            *(run_id, store, changes, events, self.roster.enrolled, dropped),
            newest=lambda: self.state.round_index,
            times=lambda: self.participants.times,
        )
        self._assignments = Assignments(
            config, dropped, self.roster, self.participants, self.evaluations, self.model
        )
        self.ready = False
        self.detail = ""
        self.stop_text: str | None = None
        self.pause_wanted, self.paused_by = False, THE_ADMIN
        self.saving: asyncio.Task[None] | None = None
        self._damage: CoordinatorUnavailableError | None = None
        self._held_up: dict[str, str] = {}

    def say(self, kind: EventKind, text: str, silo_id: str | None = None) -> None:
        """Log and record an event of this run."""
        self.events.say(kind, text, self.run_id, silo_id)

    # what the admin wants

    def want_stop(self, text: str) -> None:
        """It is to end, as soon as its loop can."""
        self.stop_text = text
        self.changes.moved()  # what the admin wants

    def want_pause(self, wanted: bool = True, by: str = THE_ADMIN) -> None:
        """It is to be held, or to go on; by whom."""
        self.pause_wanted, self.paused_by = wanted, by
        self.changes.moved()  # what the admin wants

    # why it waits, in words

    def waits_for(self, reason: str) -> None:
        """What the run does now, or waits for."""
        self.detail = reason

    def notes_on(self, missing: Sequence[str]) -> str:
        """Why a round waits for these silos, where it is not plain work."""
        notes = [f"updates cannot be kept: {self.receiver.disk}"] if self.receiver.disk else []
        notes += [self.unsaved] if self.unsaved else []
        notes += self.participants.notes_on(missing)
        return "".join(f"; {note}" for note in [*notes[:5], *self.roster.about_strangers()])

    def hold_up(self, who: str, why: str | None) -> None:
        """Somebody cannot get on, and why; None: it can again. Nobody clears another's reason."""
        if why is None:
            self._held_up.pop(who, None)
        else:
            self._held_up[who] = why

    @property
    def stuck(self) -> str | None:
        """Why the run does not get on, of the first that is held up; None: none is."""
        return next(iter(self._held_up.values()), None)

    @property
    def unsaved(self) -> str | None:
        """Why the last closed round is not committed; None: nothing is in its way."""
        return self._held_up.get(COMMIT)

    def note_damage(self, error: OSError | StateError) -> None:
        """A file that silos fetch cannot be read: the run is loaded again, once that can be."""
        if self._damage is None:
            self._damage = of_its_files(error)
            self.say(kinds.DISK, f"a model cannot be sent: {self._damage}")
            self.changes.moved()  # the run is to be loaded again

    def check_files(self) -> None:
        """See that silos can fetch what they need, unless the run is to stop.

        Raises:
            CoordinatorUnavailableError: They cannot.
        """
        if self._damage is not None and self.stop_text is None:
            raise self._damage

    # what silos ask

    @property
    def closes_last(self) -> bool:
        """Whether its last round is being closed."""
        last = self.state.round_index + 1 >= self.config.num_rounds
        return last and self.state.phase is Phase.CLOSING

    def offers_to(self, session: Session) -> bool:
        """Whether this silo should be asked to take part."""
        if not self.ready or self.state.ended or self.run_id in session.declined:
            return False
        return self.roster.has_place_for(session)

    async def enroll(self, session: Session, layout_digest: bytes, place: Enrolment) -> None:
        """Take a silo in, or confirm its place after a restart.

        Raises:
            LayoutMismatchError: Its model is not the run's.
            MeaningMismatchError: Its data mean something else.
            ConfigError: It must say how many samples it has, or has another number than before.
        """
        silo_id, layout = session.silo_id, self.model.layout
        if layout is None or not self.offers_to(session):
            where = self.ready, self.state.ended, session.declined
            raise ProtocolError(self.roster.no_place(silo_id, *where, role=session.role))
        self.roster.compare(silo_id, place.meaning)  # first: other classes make another model
        if layout_digest.hex() != layout.digest:
            raise LayoutMismatchError("the silo's model does not match the run's")
        for kind, text in await self.roster.enroll(silo_id, place):
            self.say(kind, text, silo_id)
        session.enrolls(self.run_id)
        session.num_samples, session.num_eval_samples = place.num_samples, place.num_eval_samples
        self.changes.moved()  # a silo has enrolled

    def waits(self, silo_id: str) -> str:
        """What a silo without an assignment waits for, in words that name no other silo."""
        return self._assignments.waits(silo_id, self.state, self.ready)

    def assignment_for(
        self, silo_id: str, evaluated_index: int, tested: str = ""
    ) -> Assignment[WireVector] | None:
        """What the silo is to do now; None: nothing yet.

        Args:
            silo_id: The silo.
            evaluated_index: The newest model that it has tested, as it says.
            tested: Digest of that model; older silos say none.
        """
        if self.state.ended:
            r, rounds, outcome = self.state.round_index, self.config.num_rounds, self.state.phase
            return Assignment(Action.END, "", r, rounds, outcome=outcome.value, text=self.detail)
        ours = self.evaluations.has_model(evaluated_index, tested)
        return self._assignments.of(silo_id, self.state, evaluated_index if ours else -1)

    def untested(self) -> list[str]:
        """Silos that are there and have not tested the newest model, though they are asked to."""
        asked = self._assignments.testers(self.state.round_index)
        return [s for s in asked if self.sessions.of(s) is None or self.sessions.is_online(s)]

    def should_abandon(self, silo_id: str, round_index: int) -> bool:
        """Whether a silo trains for a round that is over."""
        over = not self.receiver.collects(round_index)
        return over or silo_id not in self.participants.sampled

    # what the loop does

    def left_at(self, state: RoundState) -> None:
        """Where it was before a restart; nobody is told yet."""
        self.state = state

    def loaded(self) -> None:
        """Silos may ask."""
        self.ready = True
        self.changes.assigned()  # the run is there

    def count(self, record: RoundRecord) -> None:
        """A round is closed with these updates: their silos are told, for what they keep."""
        if record.model_digest is not None:
            self.evaluations.model_digests[record.round_index + 1] = record.model_digest
        self._assignments.count(record)
        self.participants.yardstick.count(record)

    def open_round(self) -> None:
        """Make x_r available and say whose turn it is."""
        assert self.roster.frozen is not None
        assert self.model.current is not None
        self.model.serve()
        r, self.sessions.rounds = self.state.round_index, self.sessions.rounds + 1
        self.evaluations.model_digests[r] = digest_of_model(self.model.current)
        last = r >= self.config.num_rounds
        self.participants.begin([] if last else self.config.participants_at(r, self.roster.frozen))

    def begin_next(
        self, following: Checkpoint, record: RoundRecord, saving: asyncio.Task[None]
    ) -> None:
        """Go on with x_{r+1}, which is made durable meanwhile.

        Args:
            following: x_{r+1} and what belongs to it.
            record: The set that round r is closed with.
            saving: Commits it.
        """
        self.model.follow(following)
        self.saving, self.detail = saving, ""
        saving.add_done_callback(lambda _: self.changes.moved())  # a round is committed
        self.count(record)
        last = following.round_index >= self.config.num_rounds
        self.move(Signal.LAST_COMMITTED if last else Signal.COMMITTED)
        self.open_round()

    async def settle(self) -> None:
        """Wait until the last closed round is committed; raises why it could not be."""
        while self.saving is not None and not self.saving.done():
            self.waits_for(self.unsaved or "writing the last round's checkpoint")
            await asyncio.wait([self.saving], timeout=SETTLE_S)
        saving, self.saving = self.saving, None
        if saving is not None:
            await saving

    def leave_out(self, silo_id: str) -> None:
        """Take a silo that was just dropped out of the open round, unless its set is fixed."""
        if self.receiver.collects(self.state.round_index):
            self.participants.leave_out(silo_id)
        self.changes.assigned(silo_id)  # who is in the round

    def take_back(self, silo_id: str) -> None:
        """A silo was taken back: from the next round on, or now where nobody is left."""
        self.participants.take_back(silo_id)
        self.changes.assigned(silo_id)  # who is in the round

    def move(self, signal: Signal) -> None:
        """Advance the state and tell everybody."""
        self.state = advance(self.state, signal)
        self.changes.assigned()  # assignments
