"""Two processes with one identity, as after a state folder was copied: which of them has it.

The one that is there keeps it. Whether it is there, a stream that it holds does not say alone: one
whose machine has lost its power looks open for a minute. So the newcomer waits for heartbeats of
the other one. The first may have been on its way when its process was killed, behind megabytes on a
slow link; the second is sent once the first is answered, by a process that lives: the newcomer is
refused. With no call for as long as a silo may be silent it is the same silo, started again. A
process that was killed leaves a stream that has broken: nobody waits for it.
"""

import asyncio
from typing import NamedTuple

from domo.errors import CoordinatorUnavailableError, SiloConflictError
from domo_server.silos.session import Process, Session
from domo_server.silos.sessions import Sessions, quiet_s

ALIVE_BEATS = 2
"""Heartbeats that come after the newcomer, of a process that lives."""
LOOK_S = 0.1
MOST_CLAIMS = 4
"""Processes that wait for one name at a time."""


class Claim(NamedTuple):
    """A process that wants a name.

    Attributes:
        silo_id: The name.
        instance_id: From its state folder.
        process: That asks.
    """

    silo_id: str
    instance_id: str
    process: Process


async def holder(sessions: Sessions, claim: Claim) -> Session | None:
    """The session of another process that lives and has this identity; None: it is free.

    Raises:
        CoordinatorUnavailableError: Many wait for it already.
    """
    last, heard = None, 0
    while True:
        old = sessions.of(claim.silo_id)
        if old is None or old.instance_id != claim.instance_id or not _has(sessions, old):
            return None
        if sessions.was_here_before(old, claim.process.before):
            return None
        if old is not last:
            last, heard = old, old.heartbeats
        if old.heartbeats - heard >= ALIVE_BEATS:
            return old
        if sessions.now() - old.heard_at >= quiet_s(old.interval_s):
            return None
        if old.claims >= MOST_CLAIMS:
            raise CoordinatorUnavailableError(f"many ask for the name {claim.silo_id}; ask again")
        old.awaited, old.claims = True, old.claims + 1
        try:
            await asyncio.sleep(LOOK_S)
        finally:
            old.claims -= 1


def _has(sessions: Sessions, session: Session) -> bool:
    """Whether a process seems to have this session: it holds its stream, or never could."""
    coming = session.process.attends and session.broken_at is None and not session.attended
    return sessions.is_current(session) and bool(session.attending or coming)


def refusal(claim: Claim, old: Session) -> SiloConflictError:
    """What the newcomer is told."""
    return SiloConflictError(
        f"another process with the identity of this state folder is connected as "
        f"{claim.silo_id}: {old.told}. If this machine or its state folder is a copy, give "
        "this one its own --name and a new --state-dir. To move the silo here, stop the other one "
        "first"
    )


def event_text(claim: Claim, old: Session) -> str:
    """What the coordinator's people are told."""
    return (
        f"two processes have the identity of {claim.silo_id}: {old.told}, keeps it; "
        f"{claim.process.place or 'another'} was refused. If one's machine or state folder is a "
        "copy of the other's, it needs its own --name and a new --state-dir; to move the silo, "
        "stop the one that has it"
    )
