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
import os
import threading
import time
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
        StateError: What is there is damaged, or is not written by this key.
    """

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES):
        self.folder, self._file_bytes = folder / FOLDER, file_bytes
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._key = _key(self.folder)
        self.head = Head()
        self._number = max(map(_number, files(self.folder)), default=1)
        self._go_on()
        self._file = open(self._path, "ab", buffering=0, opener=private)  # noqa: SIM115

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
            The chain's new head.

        Raises:
            OSError: A full disk; the line is not in the chain.
        """
        if not said.keys().isdisjoint(OWN):
            raise ValueError(f"{', '.join(OWN)} are the chain's")
        with self._lock:
            line = rfc8785.dumps(
                {
                    "n": self.head.n + 1,
                    "at": datetime.fromtimestamp(time.time(), UTC).isoformat(
                        timespec="milliseconds"
                    ),
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

    def close(self) -> None:
        """Nothing more is put down."""
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

    def _go_on(self) -> None:
        """Find the newest line, and put it where it belongs if a process has died meanwhile."""
        told = read_head(self.folder)
        lines = self._path.read_bytes() if self._path.exists() else b""
        whole, cut = lines.rpartition(b"\n")[::2]
        last = whole.rpartition(b"\n")[2]
        if told is None:
            if lines or self._number > 1:
                raise StateError(f"{self.folder / 'head.json'} is missing or damaged; {_CURE}")
            return
        line, self.head = told
        if last == line and not cut:
            return
        if cut and not line.startswith(cut):
            raise StateError(f"{self._path} ends with half a line that is not the newest; {_CURE}")
        end = len(whole) + 1 if whole else 0
        before = json.loads(line)["prev"]
        if before != (hash_of(last) if whole else _last_of_file_before(self.folder, self._number)):
            raise StateError(f"{self._path} does not end where head.json says; {_CURE}")
        with open(self._path, "r+b" if self._path.exists() else "wb", opener=private) as file:
            file.truncate(end)
            file.seek(end)
            file.write(line + b"\n")


_CURE = "look with `audit verify`; to begin anew, move the folder away, where it can be looked at"


def files(folder: Path) -> list[Path]:
    """The files of a chain, in order."""
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def _number(path: Path) -> int:
    return int(path.stem)


def _last_of_file_before(folder: Path, number: int) -> str:
    path = folder / f"{number - 1:06d}.jsonl"
    if not path.exists():
        return FIRST
    return hash_of(path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2])


def _key(folder: Path) -> Ed25519PrivateKey:
    path = folder / "key.pem"
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        _replace(folder / "public.pem", public)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _replace(path, pem)
    try:
        key_there = load_pem_private_key(path.read_bytes(), None)
    except ValueError:
        raise StateError(f"{path} is damaged; {_CURE}") from None
    if not isinstance(key_there, Ed25519PrivateKey):
        raise StateError(f"{path} is no Ed25519 key; {_CURE}")
    return key_there


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
