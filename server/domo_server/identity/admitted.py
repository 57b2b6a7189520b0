"""Who is let in, as calls are checked by it: the table in memory, and what is wrong with a peer."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from domo.errors import AccessError, CoordinatorUnavailableError, DomoError
from domo.names import is_name, shown
from domo.ops.words import typed
from domo_server.identity.peers import Peer
from domo_server.identity.refusals import (
    CertificateEndedError,
    NotAdmittedError,
    RevokedError,
)
from domo_server.store.admissions import AdmissionRow, Admissions


@dataclass(frozen=True, slots=True)
class Rules:
    """What certificates mean at a coordinator.

    Attributes:
        mutual: Whether silos must show one.
        own_key: The fingerprint of the coordinator's own.
        own_names: Its names, in small letters: no silo is called so.
        named: Silos by the URI of a foreign PKI that stands for them.
        enrols: Whether the coordinator has a CA of its own.
    """

    mutual: bool = False
    own_key: str = ""
    own_names: frozenset[str] = frozenset()
    named: Mapping[str, str] | None = None
    enrols: bool = False


class Admitted:
    """Used from the event loop only, but for `load`.

    Args:
        admissions: Who is let in.
        clock: Seconds since 1970.
    """

    def __init__(self, admissions: Admissions, clock: Callable[[], float] = time.time):
        self._admissions, self._clock = admissions, clock
        self._rows: dict[str, AdmissionRow] = {}
        self._version, self._loading = -1, threading.Lock()
        self.rules = Rules()

    def load(self) -> bool:
        """Read the table if it is new; whether it was. Blocks.

        Raises:
            CoordinatorUnavailableError: The database does not answer.
        """
        with self._loading:  # several threads: what one has read before must not come after
            version = self._admissions.version()
            if version == self._version:
                return False
            self._rows = {row.silo_id: row for row in self._admissions.all()}
            self._version = version
            return True

    def now(self) -> float:
        """By this machine's clock, seconds since 1970."""
        return self._clock()

    def __contains__(self, silo_id: str) -> bool:
        return silo_id in self._rows

    @property
    def anybody(self) -> bool:
        """Whether any name is let in, or will be by a code."""
        return any(row.state != "revoked" for row in self._rows.values())

    @property
    def gone(self) -> dict[str, str]:
        """Names that were revoked, and by whom."""
        return {row.silo_id: row.by_whom for row in self._rows.values() if row.state == "revoked"}

    def ended(self, peer: Peer, silo_id: str) -> DomoError | None:
        """What to say where the certificate of a peer has ended.

        Args:
            peer: The peer.
            silo_id: For whom it speaks; empty: that is not known.
        """
        now = self._clock()
        if peer.end > now:
            return None
        row = self._rows.get(silo_id)
        if row is not None and row.key == peer.key and (row.until or 0) > now:
            # not its fault: its newer certificate has another connection
            return CoordinatorUnavailableError(
                "the certificate of this connection has ended; the silo has a newer one"
            )
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(peer.end))
        return CertificateEndedError(f"the certificate of {peer.shown} expired at {when}: renew it")

    def bars(self, silo_id: str, peer: Peer) -> bool:
        """Whether a name, or a key, is the coordinator's own."""
        return silo_id.lower() in self.rules.own_names or peer.key == self.rules.own_key

    def revoked(self, peer: Peer) -> DomoError | None:
        """What to say where all that a peer is called was revoked; it may make no call then."""
        for name in peer.names:  # a loop, as each call comes here
            row = self._rows.get(name)
            if row is None or row.state != "revoked":
                return None
        return self.refusal(min(peer.names), peer) if peer.names else None

    def refusal(self, silo_id: str, peer: Peer) -> DomoError | None:
        """Why a peer with a silo's name in its certificate may not speak for it; None: it may."""
        if self.bars(silo_id, peer):
            return AccessError(
                f"{shown(silo_id)} is a name of the coordinator itself: no silo may have it"
            )
        row = self._rows.get(silo_id)
        if row is not None and row.state == "active" and row.key in (None, peer.key):
            return None
        kind: type[AccessError] = NotAdmittedError
        if row is not None and row.state == "revoked":
            kind, why = RevokedError, f"was revoked by {row.by_whom} at {row.at[:19]}Z"
        elif row is not None and row.state == "active":
            why = f"is let in with the key {row.key}, and this certificate has the key {peer.key}"
        elif self.rules.enrols:
            why = "is not let in: nobody has enrolled it here"
        else:
            why = "is not let in: no run names it, and nobody has admitted it"
        verb = "enroll" if self.rules.enrols else "admit"
        command = typed("domo-server", verb, silo_id if is_name(silo_id) else "NAME")
        return kind(f"{shown(silo_id)} {why}; the coordinator's admin lets it in with: {command}")


def in_the_place_of(row: AdmissionRow, when: str) -> str:
    """What becomes of a name that is known here already, where it is let in anew, in words."""
    if row.state == "revoked":
        at = f"{row.at[:19]}Z"
        return f"{row.silo_id} was revoked by {row.by_whom} at {at}: it is in again {when}"
    if row.state == "invited":
        return f"{row.silo_id} has had a code already, which is void now"
    key = row.key or "any key of the CA"
    return f"{row.silo_id} is let in already, with {key}: that is refused {when}"
