"""What keeps one silo from taking all of the coordinator's time: how often it calls, what it holds.

A call too many is answered late and without work. A connection may have so many streams only
(`channel.MOST_STREAMS`): grpc refuses what is beyond before any of this sees it.
"""

from collections.abc import Callable
from typing import Any

from domo_proto.errors import TooManyCallsError
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.silos.session import Session

MOST_HELD = 2
"""Calls of a kind that one silo holds: one, and another while its calls move to a new channel."""


def check_rate(coordinator: Coordinator, session: Session) -> None:
    """See that a silo may make this call.

    Raises:
        TooManyCallsError: It makes too many.
    """
    if not session.allowed.call(coordinator.sessions.rounds):
        raise TooManyCallsError(f"{session.silo_id} makes too many calls; ask again in a while")


def check_reports(session: Session) -> None:
    """See that a silo may send this heartbeat.

    Raises:
        TooManyCallsError: It sends too many.
    """
    if not session.allowed.report():
        raise TooManyCallsError(f"{session.silo_id} sends too many heartbeats; wait a while")


def hold(coordinator: Coordinator, session: Session, kind: str) -> Callable[[], bool]:
    """Begin to hold a call; those of its kind are woken that are too many now, and end.

    Returns:
        Whether this one is still among the newest.
    """
    mine = session.holds[kind] = session.holds.get(kind, 0) + 1
    coordinator.changes.silos.notify(session.silo_id)
    return lambda: session.holds[kind] < mine + MOST_HELD


async def attend(coordinator: Coordinator, session: Session, context: Any) -> None:
    """Hold a stream open for as long as a silo is there, and notice when it breaks."""
    sessions, changes = coordinator.sessions, coordinator.changes
    is_new = hold(coordinator, session, "Attend")

    def over() -> bool | None:
        ended = coordinator.stopping or not sessions.is_current(session)
        return ended or not is_new() or None

    session.attending, session.attended = session.attending + 1, True
    try:
        await context.send_initial_metadata(())  # heard: the one before it may end
        while not await changes.silos.until(over, coordinator.long_poll_s, session.silo_id):
            await context.write(pb.AttendResponse())
    except BaseException:  # cancelled, or nobody is there to write to
        session.attending -= 1
        sessions.broke(session)
        changes.moved()
        raise
    session.attending -= 1
