"""Whether a chain is as it was written: every line, its order, its end, its signature."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from domo.audit.chain import FIRST, Head, files, hash_of, read_head, said_by
from domo.errors import StateError


class BrokenChainError(StateError):
    """A chain is not as it was written; the text says where it is first seen."""

    code = "broken-chain"


class Line(NamedTuple):
    """A line of a chain.

    Attributes:
        file: Its file.
        number: In that file, from 1.
        said: What it says.
        hash: Its hex SHA-256.
    """

    file: str
    number: int
    said: dict[str, Any]
    hash: str


def read(folder: Path) -> Iterator[Line]:
    """The lines of a chain, each seen to follow on the one before.

    Args:
        folder: The chain's own.

    Raises:
        BrokenChainError: One does not.
    """
    before, n = FIRST, 0
    for k, path in enumerate(files(folder), 1):
        if int(path.stem) != k:
            raise BrokenChainError(f"{path.name}: the file {k:06d}.jsonl is missing before it")
        data = path.read_bytes()
        if not data.endswith(b"\n"):
            raise BrokenChainError(f"{path.name}: its last line has no end")
        for i, line in enumerate(data[:-1].split(b"\n"), 1):
            n += 1
            said = _said(line, f"{path.name}, line {i}")
            if said["n"] != n:
                raise BrokenChainError(f"{path.name}, line {i}: is line {said['n']}, not {n}")
            if said["prev"] != before:
                raise BrokenChainError(f"{path.name}, line {i}: does not follow on the one before")
            before = hash_of(line)
            yield Line(path.name, i, said, before)


def _said(line: bytes, where: str) -> dict[str, Any]:
    if (said := said_by(line)) is None:
        raise BrokenChainError(f"{where}: was changed: it is no line of a chain")
    return said


def verify(folder: Path, key: bytes | None = None, known: Sequence[Head] = ()) -> Head:
    """See that a chain is whole, ends where its signed head says, and holds what others know of it.

    Args:
        folder: The chain's own.
        key: The public key that it must be signed with, 32 bytes; None: public.pem beside it.
        known: Heads that others were told.

    Returns:
        Its head.

    Raises:
        BrokenChainError: It is not.
    """
    hashes = [FIRST, *(line.hash for line in read(folder))]
    told = read_head(folder)
    if told is None:
        raise BrokenChainError("head.json is missing or damaged")
    line, head = told
    if len(hashes) == head.n and _said(line, "head.json")["prev"] == hashes[-1]:
        raise BrokenChainError(
            f"line {head.n} is in head.json only: its writer has died just then, and puts it back "
            "when it starts again; or it was cut off"
        )
    if (head.n, head.hash) != (len(hashes) - 1, hashes[-1]):
        raise BrokenChainError(
            f"it ends with line {len(hashes) - 1}, and its head is line {head.n}: lines were cut "
            "off, or added"
        )
    check_signature(head, key if key is not None else public_key(folder))
    for other in known:
        if other.n >= len(hashes) or hashes[other.n] != other.hash:
            raise BrokenChainError(
                f"line {other.n} is not the one that was told to others: lines were cut off, or "
                "the chain was written anew"
            )
    return head


def check_signature(head: Head, key: bytes) -> None:
    """See that a head was signed with a key.

    Args:
        head: As it was told.
        key: 32 bytes.

    Raises:
        BrokenChainError: It was not.
    """
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(head.signature, head.signed)
    except (InvalidSignature, ValueError):
        text = f"the signature of line {head.n} is not that of the chain's key"
        raise BrokenChainError(text) from None


def public_key(folder: Path) -> bytes:
    """The key of a chain, 32 bytes, from public.pem.

    Raises:
        BrokenChainError: It is missing or damaged.
    """
    try:
        key = load_pem_public_key((folder / "public.pem").read_bytes())
        assert isinstance(key, Ed25519PublicKey)
    except (OSError, ValueError, AssertionError):
        raise BrokenChainError("public.pem is missing or damaged") from None
    return key.public_bytes_raw()
