"""A stream that is open for as long as this silo is there: when it breaks, so has its link."""

import logging
import threading

import grpc

from domo.names import one_line
from domo_client.rpc.session import Session
from domo_proto.v1 import federation_pb2 as pb

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Before it is opened again."""
SIGN_S = 0.1
"""Between two signs of life that are read: more often nobody needs them."""
UNKNOWN_S = 30.0
"""The same where the call is not known: by an older coordinator, or by somebody in between."""


class Presence(threading.Thread):
    """Holds the stream, so that the coordinator notices a death at once.

    It is one stream, not one call after the other: a process needs a moment to die, some 60 ms for
    700 MB of memory, and a call that is answered in that moment breaks no more. It has no
    deadline: the heartbeat's calls have, and a link that answers no ping is closed.

    Args:
        session: Kept alive by the heartbeat.
        before: Ends once this one is heard: at no moment there is none.
    """

    def __init__(self, session: Session, before: "Presence | None" = None):
        super().__init__(name="presence", daemon=True)
        self._session, self._stopped = session, threading.Event()
        self._before, self._call = before, None

    def run(self) -> None:
        """Until `stop`."""
        session = self._session
        while not self._stopped.is_set():
            pause_s = PAUSE_S
            try:
                with session.lines.now() as line:
                    call = line.stub.Attend(pb.AttendRequest(session=session.token))
                    self._call = call
                    if self._stopped.is_set():
                        call.cancel()
                    call.initial_metadata()  # it is heard
                    self._relieve()
                    for _ in call:
                        self._stopped.wait(SIGN_S)
            except grpc.RpcError as error:
                log.debug("presence: %s", one_line(str(error)))
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    pause_s = UNKNOWN_S
            except ValueError:  # the channel is closed
                return
            self._stopped.wait(pause_s)  # the session is over, or the coordinator

    def _relieve(self) -> None:
        if self._before is not None:
            self._before.end()
            self._before = None

    def stop(self) -> None:
        """End the thread, once its stream is over."""
        self._stopped.set()

    def end(self) -> None:
        """End the thread with its stream."""
        self._stopped.set()
        if self._call is not None:
            self._call.cancel()


class Attendance:
    """The stream of now; another one takes its place without a gap.

    Args:
        session: As for `Presence`.
    """

    def __init__(self, session: Session):
        self._session, self._now = session, Presence(session)
        session.lines.on_moved = self._anew
        self._now.start()

    def _anew(self) -> None:
        """Calls go over another channel: so does the stream."""
        self._now = Presence(self._session, self._now)
        self._now.start()

    def stop(self) -> None:
        """End it, once its stream is over."""
        self._now.stop()

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended."""
        self._now.join(timeout_s)
