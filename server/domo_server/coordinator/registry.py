"""The silos of a coordinator: who may have which name, who declines, who is left out."""

import asyncio
import logging
import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from domo.errors import (
    ConfigError,
    SiloConflictError,
    TransportError,
)
from domo_proto.errors import TooManyCallsError
from domo_server.coordinator.queue import Queue
from domo_server.coordinator.strangers import FORGET_S, Strangers
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Changes
from domo_server.people.person import THE_ADMIN
from domo_server.silos.claims import Claim, event_text, holder, refusal
from domo_server.silos.rates import Bucket
from domo_server.silos.session import NotReady, Process, Session
from domo_server.silos.sessions import NOBODYS, Sessions
from domo_server.store.store import Store, time_text

log = logging.getLogger(__name__)

MOST_JOINS, JOINS_PER_S = 20, 1 / 15
"""Times that one silo may join at once, and a second on average, before that is a fault."""
SAY_S = 600.0
"""How often it is said that two have one name."""
AGAIN = (
    "{} joins again and again, now from {}: two processes have its identity, as after a machine or "
    "a state folder was copied, or its process ends as soon as it begins. A copy needs its own "
    "--name and a new --state-dir"
)
REVOKED = "revoked"
"""Why a silo is left out that is let in no more."""
SEEN_S = 60.0
"""How often it is recorded when silos were last heard of."""
NUMBERS = re.compile(r"\d+(?:\.\d+)?")


class Registry:
    """Joins silos; drops them, takes them back and frees names as the admin says.

    Args:
        store: Durable metadata.
        sessions: Who is connected.
        dropped: Silos that an admin has left out, and why; kept here.
        queue: Whose run is told.
        changes: Told what changes.
        events: What happens, for people.
    """

    def __init__(
        self,
        store: Store,
        sessions: Sessions,
        dropped: dict[str, str],
        queue: Queue,
        changes: Changes,
        events: EventLog,
    ):
        self._store, self._sessions, self.dropped = store, sessions, dropped
        self._queue, self._changes, self._events = queue, changes, events
        self._joining = asyncio.Lock()
        self.strangers = Strangers(store, sessions, self._forget)
        events.strangers = self.strangers.names
        self._joins: dict[str, Bucket] = {}
        self._said_at: dict[str, float] = {}

    def load(self) -> None:
        """Who was left out before this start."""
        rows = self._store.all_silos()
        self.dropped |= {r.silo_id: r.dropped for r in rows if r.dropped is not None}
        self.strangers.load()

    async def join(self, session_values: Mapping[str, str], process: Process = NOBODYS) -> Session:
        """Open a session for a silo.

        Args:
            session_values: Fields of `Sessions.join`.
            process: That asks.

        Raises:
            SiloConflictError: The name is taken, or another process has this identity.
            CoordinatorUnavailableError: Too many names are new, or too many ask for this one.
            TooManyCallsError: It joins again and again.
        """
        silo_id = session_values["silo_id"]
        claim, session = Claim(silo_id, session_values["instance_id"], process), None
        while session is None:
            await self._see_free(claim)
            was = self._sessions.of(silo_id)
            if was is not None and not was.allowed.join():
                raise TooManyCallsError(f"{silo_id} joins too often; ask again in a while")
            async with self._joining:  # of two that take a new name at once, one gets it
                if self._sessions.of(silo_id) is was:
                    session = await self._open(session_values, process)
        self._changes.assigned(silo_id)  # calls of the session before are over
        if self._joins.setdefault(silo_id, Bucket(MOST_JOINS, JOINS_PER_S)).take():
            moved = _moved(was, process.place)
            self._events.say(kinds.JOINED, f"{silo_id} joined{moved}", silo_id=silo_id)
        else:
            self._say_conflict(silo_id, AGAIN.format(silo_id, process.place))
        return session

    async def _see_free(self, claim: Claim) -> None:
        """See that no other process lives that has this identity.

        Raises:
            SiloConflictError: One does.
        """
        if (other := await holder(self._sessions, claim)) is not None:
            self._say_conflict(claim.silo_id, event_text(claim, other))
            raise refusal(claim, other)

    async def _open(self, session_values: Mapping[str, str], process: Process) -> Session:
        silo_id = session_values["silo_id"]
        row = await asyncio.to_thread(self._store.silo, silo_id)
        if row is None:
            await self.strangers.admit(silo_id, process)
        known = row.instance_id if row and not row.readmitted else None
        try:
            session = self._sessions.join(known_instance=known, process=process, **session_values)
        except SiloConflictError as error:
            self._say_conflict(silo_id, f"{process.place} was refused: {error}")
            raise
        await asyncio.to_thread(self._store.save_silo, **session_values)
        return session

    def _say_conflict(self, silo_id: str, text: str) -> None:
        """Two seem to have one name: said once in a while, however often they ask."""
        now = self._sessions.now()
        if now - self._said_at.get(silo_id, -math.inf) >= SAY_S:
            self._said_at[silo_id] = now
            self._events.say(kinds.SILO_CONFLICT, text, silo_id=silo_id)

    async def decline(self, session: Session, run_id: str, reason: str, code: str = "") -> None:
        """A silo will not take part in a run; it is not asked again in this session."""
        before, run = session.declined.get(run_id), self._queue.find(run_id)
        if run is None or before or before == reason:
            return  # no such run, or it is known already
        if run.state.ended or not run.roster.has_place_for(session):
            return  # it is not for this silo; one that is loaded again may be
        own = (session.error or "").removeprefix("enrolment refused: ")
        if code == session.error_code and own != session.error and len(own) > len(reason):
            reason = own  # it repeats that, and has less room for it
        session.declined[run_id] = reason
        session.fails(reason, code)
        text = f"{session.silo_id} declined {run_id}: {reason}"
        self._events.say(kinds.DECLINED, text, run_id, session.silo_id)
        self._changes.moved()  # a silo is lost for a run

    def note_ready(self, session: Session, said: NotReady | None, code: str) -> None:
        """Whether a silo is ready for the run that wants it, as it says in each report."""
        before = session.not_ready
        run = self._queue.find(said.run_id) if said is not None else None
        if said is None or run is None or run.state.ended or not run.roster.has_place_for(session):
            if session.is_ready():
                self._changes.moved()  # a silo is there again
            return
        session.not_ready, session.phase = said, "failed"
        session.fails(str(said), code)
        if before is None or _gist(before) != _gist(said):
            text = f"{session.silo_id} is not ready for {said.run_id}: {said.reason}"
            self._events.say(kinds.NOT_READY, text, said.run_id, session.silo_id)
            self._changes.moved()  # nothing comes of a silo for now

    async def seen(self, sessions: Sequence[Session]) -> None:
        """Record when these were last heard of, for whoever asks after a restart."""
        now = self._sessions.now()
        at = {s.silo_id: time_text(time.time() - (now - s.last_seen)) for s in sessions}
        try:
            await asyncio.to_thread(self._store.saw_silos, at)
        except TransportError as error:  # nothing waits for it
            log.warning("when silos were last heard of was not recorded: %s", error)

    async def watch(self) -> None:
        """Record it again and again, as a process may end without a word."""
        recorded = self._sessions.now()
        while True:
            await asyncio.sleep(SEEN_S)
            now = self._sessions.now()
            await self.seen([s for s in self._sessions.all() if s.last_seen > recorded])
            recorded = now
            async with self._joining:
                try:
                    await self.strangers.forget(FORGET_S)
                except TransportError as error:  # nothing waits for it
                    log.warning("names that nobody uses any more: %s", error)

    def _forget(self, silo_ids: Collection[str]) -> None:
        self._events.forget(silo_ids)
        for name in silo_ids:
            self._joins.pop(name, None)
            self._said_at.pop(name, None)

    async def drop(self, silo_id: str, reason: str, by: str = THE_ADMIN) -> None:
        """Leave a silo out of all rounds from the open one on; `by` whom, in words.

        Raises:
            ConfigError: No such silo, or it is out already.
        """
        await self._known(silo_id)
        if silo_id in self.dropped:
            raise ConfigError(f"{silo_id} is left out already: {self.dropped[silo_id]}")
        reason = reason.strip()[:500] or "no reason given"
        told = f"{silo_id} is left out by {by}: {reason}"
        if by != THE_ADMIN:  # of one admin of several the record says who
            reason = f"{reason} (by {by})"
        await asyncio.to_thread(self._store.mark_silo, silo_id, dropped=reason)
        self.dropped[silo_id] = reason
        if self._queue.current is not None:
            self._queue.current.leave_out(silo_id)
        self._say(kinds.DROPPED, told, silo_id)

    async def leave_out_revoked(self, silo_id: str, by: str) -> None:
        """A silo is let in no more: no round waits for it, until it is taken back (`undrop`)."""
        if silo_id in self.dropped or await asyncio.to_thread(self._store.silo, silo_id) is None:
            return
        with suppress(ConfigError):  # an admin has done so meanwhile
            await self.drop(silo_id, REVOKED, by)

    async def undrop(self, silo_id: str, by: str = THE_ADMIN) -> None:
        """Take a dropped silo back, `by` whom; its name stays bound to its state folder.

        Raises:
            ConfigError: No such silo, it is not left out, or its data mean something else than
                those of the silos that have enrolled without it.
        """
        await self._known(silo_id)
        if silo_id not in self.dropped:
            raise ConfigError(
                f"{silo_id} is not left out, so there is nothing to take back. If it lost its "
                "state folder, it is its name that has to be let go: rebind"
            )
        current = self._queue.current
        if current is not None and not current.state.ended:
            current.roster.compare_again(silo_id)
        await asyncio.to_thread(self._store.mark_silo, silo_id, dropped=None)
        self.dropped.pop(silo_id, None)
        if self._queue.current is not None:
            self._queue.current.take_back(silo_id)
        self._say(kinds.READMITTED, f"{silo_id} is taken back by {by}", silo_id)

    async def rebind(self, silo_id: str, by: str = THE_ADMIN) -> None:
        """Let the next process that joins under a name have it, with whatever state folder.

        Args:
            silo_id: The name.
            by: Who wants it, in words.

        Raises:
            ConfigError: No such silo, or it is connected, and so has its state folder.
        """
        await self._known(silo_id)
        if self._sessions.is_online(silo_id):
            raise ConfigError(
                f"{silo_id} is connected now, so its state folder is not lost. Where another "
                "machine is to have the name, stop the domo-client that has it first"
            )
        await asyncio.to_thread(self._store.mark_silo, silo_id, readmitted=True)
        text = f"the name {silo_id} is free for one state folder that is new, says {by}"
        self._say(kinds.REBOUND, text, silo_id)

    async def _known(self, silo_id: str) -> None:
        if await asyncio.to_thread(self._store.silo, silo_id) is None:
            raise ConfigError(f"no silo named {silo_id!r} has ever joined")

    def _say(self, kind: EventKind, text: str, silo_id: str) -> None:
        current = self._queue.current
        run_id = current.run_id if current is not None else None
        self._events.say(kind, text, run_id, silo_id)
        self._changes.assigned(silo_id)  # a silo's place


def _moved(was: Session | None, place: str) -> str:
    """That a silo comes from another machine than it did, in words; empty: it does not."""
    before = was.process.place if was is not None else ""
    return f", now from {place}; before from {before}" if before and before != place else ""


def _gist(said: NotReady) -> tuple[str, str]:
    """What is the same though numbers, such as free memory, differ each time."""
    return said.run_id, NUMBERS.sub("0", said.reason)
