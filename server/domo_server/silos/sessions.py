"""Who is connected: sessions with leases, one for each silo name.

A silo is its name and the random instance id in its state folder. The same instance may come back
at once and replaces its old session, unless another process has it and lives (`claims`); another
instance under the same name is refused, while the lease lives and afterwards, until an admin lets
the name go (`rebind`).
"""

import secrets
import time
from collections.abc import Callable, Collection

from domo.api.schema import SiloStatus
from domo.errors import SiloConflictError
from domo_proto.errors import SessionError
from domo_server.silos.allowed import Allowed
from domo_server.silos.session import NotReady, Process, Session
from domo_server.silos.status import not_seen, shown

RETURN_S = 60.0
"""Time that silos have to come back after a restart of the coordinator."""
MOST_BEATS = 200.0
"""Heartbeats a second from all silos together: of more silos each reports less often."""
QUIET_S = 4.5
"""Silence from which on a silo is shown as offline, where heartbeats are frequent."""
MISSED_BEATS = 2
LEASE_S, LEASE_BEATS = 5.0, 5
"""Silence, and heartbeats missed, from which on a silo is away for its round."""
SOON_S = 0.5
"""Until the next heartbeat of a silo whose name another process wants."""
NOBODYS = Process()
BROKE = "its connection broke: its process ended, or the network did"
SILENT = "no heartbeat: its process hangs or is stopped, or the link is cut"
NOT_SEEN = "not seen since this coordinator started"


def lease_s(interval_s: float) -> float:
    """Silence from which on a silo is away for its round, by the interval of its heartbeats."""
    return max(LEASE_BEATS * interval_s, LEASE_S)


def quiet_s(interval_s: float) -> float:
    """Silence from which on a silo is shown as offline."""
    return max(MISSED_BEATS * interval_s + 0.5, QUIET_S)


class Sessions:
    """All sessions since this coordinator started.

    Args:
        report_interval_s: How often silos report; above `MOST_BEATS` a second, less often.
        clock: Monotonic seconds.
    """

    def __init__(self, report_interval_s: float, clock: Callable[[], float] = time.monotonic):
        self.report_interval_s = report_interval_s
        self._clock, self._started_at = clock, clock()
        self._by_token: dict[str, Session] = {}
        self._by_silo: dict[str, Session] = {}
        self.rounds = 0
        """Opened since then: each is a reason for some calls."""

    def join(
        self,
        silo_id: str,
        instance_id: str,
        known_instance: str | None,
        role: str,
        device: str,
        software_version: str,
        process: Process = NOBODYS,
    ) -> Session:
        """Open a session.

        Args:
            silo_id: The silo's name.
            instance_id: From its state folder.
            known_instance: The instance that the database has under this name; None: a new name,
                or one that an admin has let go.
            role: `trainer` or `evaluator`.
            device: What it trains on, in words.
            software_version: Its domo version.
            process: That asks.

        Raises:
            SiloConflictError: Another instance has this name.
        """
        if known_instance not in (None, instance_id):
            raise SiloConflictError(
                f"the name {silo_id!r} is taken by another silo"
                + (", which is connected now" if self.is_online(silo_id) else "")
                + ". Give this one another --name; or, if the coordinator had another address "
                "before, start it once with --moved-from OLDHOST:PORT; or, if its state folder was "
                f"lost, ask the coordinator's admin to run: domo rebind {silo_id}"
            )
        old = self._by_silo.get(silo_id)
        session = Session(
            secrets.token_hex(16),
            silo_id,
            instance_id,
            role,
            device,
            software_version,
            self._clock(),
            self.report_interval_s,
            process=process,
            since=time.strftime("%d %b %H:%M UTC", time.gmtime()),
            heard_at=self._clock(),
            allowed=old.allowed if old is not None else Allowed(self.report_interval_s),
        )
        if old is not None:
            self._by_token.pop(old.token, None)
            if old.left is None and not self.was_here_before(old, process.before):
                session.replaced = old.token, old.heard_at
            session.bytes_sent, session.bytes_received = old.bytes_sent, old.bytes_received
            if old.instance_id == instance_id:
                session.log = old.log
                session.log.begin()
        self._by_token[session.token] = self._by_silo[silo_id] = session
        return session

    def now(self) -> float:
        """By the clock that sessions are stamped with, seconds."""
        return self._clock()

    def get(self, token: str) -> Session:
        """The session of a call, marked as alive.

        Raises:
            SessionError: Unknown; the silo joins again.
        """
        session = self._by_token.get(token)
        if session is None:
            raise SessionError("this session is over; join again")
        session.last_seen = session.heard_at = self._clock()
        session.broken_at = None
        return session

    def was_here_before(self, holder: Session, token: str) -> bool:
        """Whether a process had a session before the process that has its name now came.

        Its connection was away for a moment, or this coordinator: the other one was quicker.

        Args:
            holder: The session of the other one.
            token: That of the first one's session.
        """
        if not token:
            return False
        replaced, heard_at = holder.replaced
        if token == replaced:
            return self._clock() - heard_at < RETURN_S
        return not holder.process.before and self._clock() - self._started_at < RETURN_S

    def next_report_s(self, session: Session) -> float:
        """After how long a silo that reports now is to report again; it is expected then."""
        session.interval_s = max(self.report_interval_s, len(self._by_token) / MOST_BEATS)
        session.heartbeats, awaited, session.awaited = (
            session.heartbeats + 1,
            session.awaited,
            False,
        )
        return min(session.interval_s, SOON_S) if awaited else session.interval_s

    def is_current(self, session: Session) -> bool:
        """Whether a session is neither replaced nor over."""
        return session.token in self._by_token

    def broke(self, session: Session) -> None:
        """A call that the silo held open to show that it is there has broken."""
        if not session.attending:
            session.broken_at = self._clock()

    def leave(self, session: Session, reason: str = "") -> None:
        """End a session that said goodbye."""
        self._by_token.pop(session.token, None)
        session.left = reason
        session.last_seen = self._clock()
        session.phase = "offline"

    def forget(self, silo_ids: Collection[str]) -> None:
        """These names are nobody's any more."""
        for session in filter(None, (self._by_silo.pop(name, None) for name in silo_ids)):
            self._by_token.pop(session.token, None)

    def of(self, silo_id: str) -> Session | None:
        """The latest session of a silo."""
        return self._by_silo.get(silo_id)

    def all(self) -> list[Session]:
        """The latest session of each silo."""
        return list(self._by_silo.values())

    def is_online(self, silo_id: str) -> bool:
        """Whether the silo was heard of within its lease."""
        session = self._by_silo.get(silo_id)
        if session is None or session.left is not None:
            return False
        return self._clock() - session.last_seen < lease_s(session.interval_s)

    def is_absent(self, silo_id: str) -> bool:
        """Whether the silo is away, and not only because this coordinator has just started."""
        if self._by_silo.get(silo_id) is None:
            return self._clock() - self._started_at > RETURN_S
        return not self.is_online(silo_id)

    def away(self, silo_id: str, broken_s: float = 0.0) -> str | None:
        """Why nothing is heard of a silo, in words; None: it is there.

        This is what is shown. Rounds go by `is_online` and `is_absent`, which wait longer.

        Args:
            silo_id: Its name.
            broken_s: How long its connection must have been broken: it may come back at once.
        """
        session, now = self._by_silo.get(silo_id), self._clock()
        if session is None:
            return NOT_SEEN
        if session.left is not None:
            return f"left: {session.left}" if session.left else "left"
        if session.broken_at is not None and now - session.broken_at >= broken_s:
            return BROKE
        if now - session.last_seen >= quiet_s(session.interval_s):
            return SILENT
        return None

    def not_ready(self, silo_id: str, run_id: str) -> NotReady | None:
        """What a silo that is there says of a run that it cannot take part in yet."""
        session = self._by_silo.get(silo_id)
        said = session.not_ready if session is not None and self.away(silo_id) is None else None
        return said if said is not None and said.run_id == run_id else None

    def why_not(self, silo_id: str, run_id: str) -> str | None:
        """Why a silo takes no part in a run as things are: `declined: ...` or `not ready: ...`."""
        said, session = self.not_ready(silo_id, run_id), self._by_silo.get(silo_id)
        if said is not None:
            return str(said)
        return session.declines(run_id) if session is not None else None

    def away_text(self, silo_id: str) -> str:
        """Since when a silo is away, in words, and what is known of it."""
        session, seen = self._by_silo.get(silo_id), self.last_seen_text(silo_id)
        if session is not None and session.left:
            return f"left: {session.left}"
        if session is not None and session.broken_at is not None:
            return f"{seen}: its connection broke"
        return seen

    def last_seen_text(self, silo_id: str) -> str:
        """`last seen 4 min ago`, in words."""
        session = self._by_silo.get(silo_id)
        if session is None or session.left is not None:
            return "is not connected"
        age = self._clock() - session.last_seen
        if age < 120:
            return f"last seen {age:.0f} s ago"
        minutes = age / 60
        if minutes < 120:
            return f"last seen {minutes:.0f} min ago"
        return f"last seen {minutes / 60:.0f} h ago"

    def status(
        self,
        silo_id: str,
        role: str,
        software_version: str,
        dropped: str | None = None,
        last_seen: str | None = None,
    ) -> SiloStatus:
        """A silo as the outside sees it; the arguments are the database's, for one not seen yet."""
        session, known = self._by_silo.get(silo_id), (silo_id, role, software_version, dropped)
        if session is None:
            return not_seen(*known, last_seen, NOT_SEEN)
        age = self._clock() - session.last_seen
        return shown(session, age, self.away(silo_id), dropped)
