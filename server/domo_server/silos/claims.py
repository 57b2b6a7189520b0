"""Two processes with one identity, as after a state folder was copied: which of them has it.

The one that is there keeps it. Whether it is there, a stream that it holds does not say alone: one
whose machine has lost its power looks open for a minute. So the newcomer waits for a call of the
other one: with one it is refused, and with none for as long as a silo may be silent it is the same
silo, started again. A process that was killed leaves a stream that has broken: nobody waits for it.
"""

import asyncio
from typing import NamedTuple

from domo.errors import SiloConflictError
from domo_server.silos.session import Process, Session
from domo_server.silos.sessions import Sessions, quiet_s

ALIVE_S = 1.0
"""A call that comes this long after the newcomer is of a process that lives, not one on its way."""
LOOK_S = 0.1


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
    """The session of another process that lives and has this identity; None: it is free."""
    arrived = sessions.now()
    while True:
        old = sessions.of(claim.silo_id)
        if old is None or old.instance_id != claim.instance_id or not sessions.is_held(old):
            return None
        if sessions.was_here_before(old, claim.process.before):
            return None
        if old.heard_at - arrived > ALIVE_S:
            return old
        if sessions.now() - old.heard_at >= quiet_s(old.interval_s):
            return None
        await asyncio.sleep(LOOK_S)


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
