"""The record itself: lines of canonical JSON, each with the SHA-256 of the line before it.

audit/000001.jsonl   lines; the file with the highest number is written to
audit/head.json      the newest line and its number, signed
audit/key.pem        the key that signs (Ed25519), mode 0600; audit/public.pem for whoever verifies

A line says its number (`n`), when (`at`), what (`what`), the hash of the line before (`prev`, of
the first line 64 zeros), and what belongs to it. The head is written before its line, so that a
process may die between the two at any instant: the next one puts the line where it belongs. A file
that has become long is followed by another one, and the chain goes on in it.
"""

import hashlib
import json
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from domo.errors import StateError
from domo.names import GARBLED
from domo.storage.state_folder import private

log = logging.getLogger(__name__)

FOLDER = "audit"
FIRST = "0" * 64
"""What the first line has as the hash of the line before."""
FILE_BYTES = 16 * 2**20
"""Size from which on a file is followed by another one."""
OWN = ("n", "at", "what", "prev")


class Head(NamedTuple):
    """The newest line of a chain, as it is told to others.

    Attributes:
        n: Its number; 0: there is none.
        hash: Hex SHA-256 of it.
        signature: Of n and hash, by the key of the chain; empty: not signed.
    """

    n: int = 0
    hash: str = FIRST
    signature: bytes = b""

    @property
    def signed(self) -> bytes:
        """What the signature is of."""
        return f"domo audit {self.n} {self.hash}".encode()


def hash_of(line: bytes) -> str:
    """Hex SHA-256 of a line, without its end."""
    return hashlib.sha256(line).hexdigest()


class Chain:
    """A chain that is written to; threads may share it.

    Args:
        folder: Where its folder is; the chain is in `audit` below it.
        file_bytes: Size from which on a file is followed by another one.

    Raises:
        StateError: It cannot be written to, as on a full disk.
    """

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES):
        self.folder, self._file_bytes = folder / FOLDER, file_bytes
        try:
            self._open()
        except OSError as error:
            text = f"{self.folder}: cannot be written to: {error.strerror}"
            raise StateError(text) from None

    def _open(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._key, new_key = _key(self.folder)
        self.head, self._closed = Head(), False
        self._number = max(map(_number, files(self.folder)), default=1)
        lost = [*self._go_on(), *(["the key was damaged: this is a new one"] if new_key else [])]
        self._file = open(self._path, "ab", buffering=0, opener=private)  # noqa: SIM115
        if lost:
            self.add("recovered", why="; ".join(lost))

    @property
    def public_key(self) -> bytes:
        """Of the key that signs: 32 bytes."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def _path(self) -> Path:
        return self.folder / f"{self._number:06d}.jsonl"

    def add(self, what: str, **said: Any) -> Head:
        """Put down a line.

        Args:
            what: What kind of thing happened.
            said: What belongs to it, of JSON's types.

        Returns:
            The chain's new head; of one that is closed the last one.

        Raises:
            OSError: A full disk; the line is not in the chain.
        """
        if not said.keys().isdisjoint(OWN):
            raise ValueError(f"{', '.join(OWN)} are the chain's")
        with self._lock:
            if self._closed:
                return self.head
            line = rfc8785.dumps(
                {
                    "n": self.head.n + 1,
                    "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "what": what,
                    "prev": self.head.hash,
                    **said,
                }
            )
            head = Head(self.head.n + 1, hash_of(line))
            head = head._replace(signature=self._key.sign(head.signed))
            _replace(self.folder / "head.json", _as_file(line, head))
            self._append(line)
            self.head = head
            return head

    def note(self, what: str, **said: Any) -> None:
        """Put down what is worth knowing, if it can be; else the log says so."""
        try:
            self.add(what, **said)
        except (OSError, ValueError) as error:
            log.warning("the audit record takes no line (%s): %s", what, error)

    def close(self) -> None:
        """Nothing more is put down."""
        with self._lock:
            self._closed = True
            self._file.close()

    def _append(self, line: bytes) -> None:
        if self._file.tell() >= self._file_bytes:
            self._file.close()
            self._number += 1
            self._file = open(self._path, "ab", buffering=0, opener=private)  # noqa: SIM115
        at = self._file.tell()
        try:
            if self._file.write(line + b"\n") != len(line) + 1:
                raise OSError(28, "No space left on device", str(self._path))
        except OSError:
            self._file.truncate(at)
            raise

    def _go_on(self) -> list[str]:
        """Find the newest line, and put it where it belongs if a process has died meanwhile.

        Returns:
            Why lines may be missing, as after the loss of power; empty: none is.
        """
        told = read_head(self.folder)
        lines = self._path.read_bytes() if self._path.exists() else b""
        if told is None:
            return self._cut_back() if lines or self._number > 1 else []
        line, self.head = told
        whole, cut = lines.rpartition(b"\n")[::2]
        last = whole.rpartition(b"\n")[2]
        if last == line and not cut:
            return []
        _, before = _end_before(self.folder, self._number)
        if line.startswith(cut) and json.loads(line)["prev"] == (
            hash_of(last) if whole else before
        ):
            with open(self._path, "r+b" if self._path.exists() else "wb", opener=private) as file:
                file.truncate(len(lines) - len(cut))
                file.seek(0, os.SEEK_END)
                file.write(line + b"\n")
            return []
        return self._cut_back()

    def _cut_back(self) -> list[str]:
        """Go back to the newest line that follows on those before; what is cut off is put aside."""
        while True:
            data = self._path.read_bytes() if self._path.exists() else b""
            n, before = _end_before(self.folder, self._number)
            good = 0
            for line in data.split(b"\n")[:-1]:
                if (said := said_by(line)) is None or (said["n"], said["prev"]) != (n + 1, before):
                    break
                n, before, good = n + 1, hash_of(line), good + len(line) + 1
            if good < len(data):
                with open(self._path.with_suffix(".torn"), "ab", opener=private) as file:
                    file.write(data[good:])
                os.truncate(self._path, good)
            if good or self._number == 1:
                break
            self._path.unlink(missing_ok=True)
            self._number -= 1
        self.head = Head(n, before)
        return [f"line {n} is the newest that was whole; those after it, if any, are lost"]


def files(folder: Path) -> list[Path]:
    """The files of a chain, in order."""
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def _number(path: Path) -> int:
    return int(path.stem)


def _end_before(folder: Path, number: int) -> tuple[int, str]:
    """Number and hash of the last line before a file."""
    path = folder / f"{number - 1:06d}.jsonl"
    last = path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2] if path.exists() else b""
    said = said_by(last)
    return (0, FIRST) if said is None else (said["n"], hash_of(last))


def said_by(line: bytes) -> dict[str, Any] | None:
    """What a line says; None: it is none of a chain."""
    try:
        said = json.loads(line)
        if rfc8785.dumps(said) == line and isinstance(said["n"], int) and said["prev"]:
            return dict(said)
    except GARBLED:
        pass
    return None


def _key(folder: Path) -> tuple[Ed25519PrivateKey, bool]:
    """The key that signs, and whether it is there in the place of a damaged one."""
    path, damaged = folder / "key.pem", False
    if path.exists():
        try:
            key = load_pem_private_key(path.read_bytes(), None)
            if isinstance(key, Ed25519PrivateKey):
                return key, False
        except ValueError:
            pass
        damaged = True
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _replace(folder / "public.pem", public)
    _replace(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key, damaged


def _as_file(line: bytes, head: Head) -> bytes:
    """What head.json says, in the one form of it."""
    said: dict[str, Any] = {"hash": head.hash, "n": head.n, "signature": head.signature.hex()}
    return rfc8785.dumps({"line": line.decode(), **said})


def read_head(folder: Path) -> tuple[bytes, Head] | None:
    """The newest line with its head; None: there is none, or it is damaged."""
    try:
        data = (folder / "head.json").read_bytes()
        told = json.loads(data)
        line = told["line"].encode()
        head = Head(told["n"], hash_of(line), bytes.fromhex(told["signature"]))
        return (line, head) if _as_file(line, head) == data else None
    except (OSError, *GARBLED):
        return None


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", opener=private) as file:
        file.write(data)
    os.replace(temporary, path)  # noqa: PTH105 - at every line
