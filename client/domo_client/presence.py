"""A call that is held open for as long as this silo is there: when it breaks, so has its line."""

import logging
import threading

import grpc

from domo_client.connection import Connection
from domo_client.line import CALL_S
from domo_proto.v1 import federation_pb2 as pb

log = logging.getLogger(__name__)


class Presence(threading.Thread):
    """Asks again whenever the coordinator has answered; so that it notices a death at once.

    Args:
        connection: Where to; its session is kept alive by the heartbeat.
    """

    def __init__(self, connection: Connection):
        super().__init__(name="presence", daemon=True)
        self._connection, self._stopped = connection, threading.Event()

    def run(self) -> None:
        """Until `stop`, or for a coordinator that does not know the call."""
        line = self._connection
        while not self._stopped.is_set():
            try:
                request = pb.AttendRequest(session=line.session)
                line.stub.Attend(request, timeout=CALL_S + line.long_poll_s)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                log.debug("presence: %s", error)
                self._stopped.wait(line.report_interval_s)
            except ValueError:  # the channel is closed
                return

    def stop(self) -> None:
        """End the thread, once its call is over."""
        self._stopped.set()
