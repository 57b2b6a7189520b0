"""The files of a coordinator's own CA, in its state folder."""

from pathlib import Path
from typing import NamedTuple

FOLDER = "pki"


class Pki(NamedTuple):
    """Where they are; they need not be there.

    Attributes:
        folder: Only its owner may enter.
    """

    folder: Path

    @property
    def ca(self) -> Path:
        """The CA's certificate."""
        return self.folder / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """Its private key."""
        return self.folder / "ca.key"

    @property
    def cert(self) -> Path:
        """The coordinator's certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """Its private key."""
        return self.folder / "server.key"

    @property
    def address(self) -> Path:
        """host:port that silos dial, for codes."""
        return self.folder / "address"

    def exists(self) -> bool:
        """Whether there is a CA."""
        return self.ca.exists()


def pki_of(state_dir: Path) -> Pki:
    """Where a coordinator's own CA is, or would be."""
    return Pki(state_dir / FOLDER)
