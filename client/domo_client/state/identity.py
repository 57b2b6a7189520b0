"""Who this silo is to each coordinator: another secret for each.

An instance id is what a coordinator knows a silo again by, and without client certificates all that
it does. One id for all coordinators would let each of them be this silo at the others. So each has
its own, found again by its address, or by the CA that its certificate is of: the operator has named
both, and of a coordinator that moves, or gets another CA, one of them stays. Without TLS nothing
proves who answers at an address, so there the address alone decides.

The first coordinator has the id that is in `instance-id`, which older versions told to everybody.
"""

import hashlib
import json
import logging
import secrets
from pathlib import Path
from typing import NamedTuple

from domo.errors import StateError
from domo.ops.addresses import is_loopback
from domo_client.state.files import replace

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
MOST_COORDINATORS = 200
"""That are remembered; the one that was not joined for longest is forgotten."""


class Known(NamedTuple):
    """A coordinator.

    Attributes:
        address: host:port, as it was dialled last.
        authority: Of the CA file that it was dialled with; empty: without TLS.
        instance_id: Who this silo is to it.
    """

    address: str
    authority: str
    instance_id: str


def authority_of(ca: Path | None) -> str:
    """What a CA file is known again by; empty: there is none."""
    try:
        return "" if ca is None else hashlib.sha256(ca.read_bytes()).hexdigest()
    except OSError:
        return ""  # dialling says what is wrong with it


class Identities:
    """The coordinators that a state folder knows.

    Args:
        folder: The state folder.
        first: The id of the first coordinator.
        joined: Its address, as far as an older version has noted it; empty: it has not.
    """

    def __init__(self, folder: Path, first: str, joined: str):
        self._path, self._first, self._joined = folder / "coordinators.json", first, joined

    def of(self, address: str, authority: str, moved_from: str = "") -> str:
        """Who this silo is to a coordinator; kept before anybody is told.

        Args:
            address: Where it is dialled.
            authority: Of its CA.
            moved_from: Where it was before, if the operator says so; empty: nothing is said.

        Raises:
            StateError: The table is damaged, or of a newer version.
        """
        known, address = self._read(), _plain(address)
        places = {address, _plain(moved_from)} if moved_from else {address}
        found = next((k for k in known if k.address in places), None)
        if found is None and authority:
            found = next((k for k in known if k.authority == authority), None)
        if found is None:
            mine = not known and _plain(self._joined) in ("", *places)
            found = Known(address, authority, self._first if mine else secrets.token_hex(16))
        now = Known(address, authority, found.instance_id)
        rest = [k for k in known if k != found]
        if known[:1] != [now]:
            self._write([now, *rest][:MOST_COORDINATORS])
        return now.instance_id

    def _read(self) -> list[Known]:
        try:
            body = json.loads(self._path.read_text(encoding="utf-8"))
            if body["format_version"] != FORMAT_VERSION:
                raise StateError(f"{self._path} is of a newer version of domo: use that one")
            return [Known(*map(str, row)) for row in body["coordinators"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{self._path} is damaged, and with it who this silo is to its coordinators: "
                "restore it from a backup, or delete it and ask their admins for `domo rebind`"
            ) from None

    def _write(self, known: list[Known]) -> None:
        body = {"format_version": FORMAT_VERSION, "coordinators": known}
        replace(self._path, json.dumps(body).encode(), durable=True)


def _plain(address: str) -> str:
    """This machine has several names."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host and is_loopback(address) else address
