"""A silo's connection to the coordinator: a session, and what is said and carried over it.

Every call either returns, or raises a `DomoError`. Network faults are retried with jittered
back-off for as long as it takes once the silo has been connected; a session that the coordinator
no longer knows (it was restarted) is opened again without anybody noticing.
"""

from domo_client.rpc.control import Control
from domo_client.rpc.data import Data
from domo_client.rpc.session import Session
from domo_client.state.folder import SiloState
from domo_client.state.record import Record


class Connection:
    """A session with its calls.

    Args:
        session: Not open yet.
        state: The silo's state folder.
        record: What the silo puts down of itself.

    Attributes:
        session: The channel, who is at its ends, retries.
        control: The control rpcs.
        data: The data rpcs, and the vectors that came.
        counts: What was done so far.
        record: As it was given.
    """

    def __init__(self, session: Session, state: SiloState, record: Record):
        self.session, self.record = session, record
        self.control = Control(session, record)
        self.data = Data(session, state)
        self.counts = session.counts
