"""A stream that is open for as long as this silo is there: when it breaks, so has its link."""

import logging
import threading

import grpc

from domo_client.rpc.session import Session
from domo_proto.v1 import federation_pb2 as pb

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Before it is opened again."""
UNKNOWN_S = 30.0
"""The same where the call is not known: by an older coordinator, or by somebody in between."""


class Presence(threading.Thread):
    """Holds the stream, so that the coordinator notices a death at once.

    It is one stream, not one call after the other: a process needs a moment to die, some 60 ms for
    700 MB of memory, and a call that is answered in that moment breaks no more. It has no
    deadline: the heartbeat's calls have, and a link that answers no ping is closed.

    Args:
        session: Kept alive by the heartbeat.
    """

    def __init__(self, session: Session):
        super().__init__(name="presence", daemon=True)
        self._session, self._stopped = session, threading.Event()

    def run(self) -> None:
        """Until `stop`."""
        session = self._session
        while not self._stopped.is_set():
            pause_s = PAUSE_S
            try:
                for _ in session.stub.Attend(pb.AttendRequest(session=session.token)):
                    pass
            except grpc.RpcError as error:
                log.debug("presence: %s", error)
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    pause_s = UNKNOWN_S
            except ValueError:  # the channel is closed
                return
            self._stopped.wait(pause_s)  # the session is over, or the coordinator

    def stop(self) -> None:
        """End the thread, once its stream is over."""
        self._stopped.set()
