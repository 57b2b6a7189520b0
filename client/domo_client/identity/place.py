"""Where an identity is made: complete, or not at all."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from domo.errors import StateError
from domo.storage.files import sync_path
from domo_client.identity.kept import CLIENT_FILE, Kept, read
from domo_proto.enrolment import CA_FILE, CERT_FILE, IDENTITY, KEY_FILE

HEAD = "# Of domo-client enroll. Flags and DOMO_CLIENT_* go before; paths begin at this folder.\n"


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read; nobody ever sees half of it.

    Raises:
        OSError: A full disk.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
    sync_path(path.parent)


class Place:
    """Where an identity is made, and put in the place of the one before at once.

    Args:
        folder: The silo's state folder; made if need be.

    Raises:
        StateError: It cannot be used.
    """

    def __init__(self, folder: Path):
        self.folder, self.new = folder, folder / f"{IDENTITY}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.new.mkdir(exist_ok=True, mode=0o700)
            self.new.chmod(0o700)
        except OSError as error:
            raise StateError(
                f"the identity has no place: {error.filename or folder} cannot be written "
                f"({error.strerror}); choose another with --state-dir"
            ) from None

    @property
    def key(self) -> Path:
        """The key that is asked for."""
        return self.new / KEY_FILE

    @property
    def is_cut_off(self) -> bool:
        """Whether the last file is missing, and all the others are there."""
        return (self.folder / IDENTITY).is_dir() and not (self.folder / CLIENT_FILE).exists()

    def fill(self, files: Mapping[str, bytes], server: str, name: str) -> Kept:
        """Take a certificate in: all is here, or nothing has changed.

        Args:
            files: Bytes by the name of the file; the key lies there already.
            server: host:port of the coordinator.
            name: The silo's.
        """
        for file, data in files.items():
            write_private(self.new / file, data)
        home, old = self.folder / IDENTITY, self.folder / f"{IDENTITY}.old"
        shutil.rmtree(old, ignore_errors=True)
        if home.exists():
            home.rename(old)
        self.new.rename(home)
        paths = {"tls_ca": CA_FILE, "tls_cert": CERT_FILE, "tls_key": KEY_FILE}
        lines = [f'server = "{server}"', f'name = "{name}"']
        lines += [f'{key} = "{IDENTITY}/{file}"' for key, file in paths.items()]
        write_private(self.folder / CLIENT_FILE, (HEAD + "\n".join(lines) + "\n").encode())
        shutil.rmtree(old, ignore_errors=True)
        kept = read(self.folder)
        assert kept is not None
        return kept
