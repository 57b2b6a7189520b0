"""What people ask of a chain: its lines, whether it is whole, what the other end knows of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from domo.audit.chain import OWN, Head
from domo.audit.verify import BrokenChainError, check_signature, public_key, read, verify
from domo.errors import ConfigError
from domo.names import one_line
from domo.ops.words import counted


class Compared(NamedTuple):
    """What two records have in common.

    Attributes:
        heads: How many of this one's heads the other end was told.
        updates: How many updates both have, with the same SHA-256.
    """

    heads: int
    updates: int


def shown(line: dict[str, Any]) -> str:
    """A line for people."""
    said = ", ".join(f"{k} {v}" for k, v in line.items() if k not in OWN and v is not None)
    return one_line(f"{line['n']:>6} {line['at']} {line['what']}: {said}", None)


def lines(folder: Path, run_id: str | None = None, what: str | None = None) -> Iterator[str]:
    """The lines of a chain for people, in order.

    Args:
        folder: The chain's own.
        run_id: Those of one run only.
        what: Those of one kind only.

    Raises:
        BrokenChainError: One does not follow on the one before.
        ConfigError: There is no chain.
    """
    _see(folder)
    for line in read(folder):
        said = line.said
        if run_id in (None, said.get("run")) and what in (None, said["what"]):
            yield shown(said)


def report(folder: Path, other: Path | None = None) -> Iterator[str]:
    """What is found when a chain is looked at as a whole, in lines for people.

    Args:
        folder: The chain's own.
        other: The chain of the other end, or a copy of its files; None: none is at hand.

    Raises:
        BrokenChainError: It is not as it was written.
        ConfigError: There is no chain.
    """
    _see(folder)
    head = verify(folder)
    yield f"whole: {counted(head.n, 'line')}, the newest is {head.hash}"
    for line in read(folder):
        if line.said["what"] == "recovered":
            yield f"lines may be missing before line {line.said['n']}: {line.said['why']}"
    if other is None:
        yield "the other end's record would show whether lines were cut off: --other FOLDER"
        return
    _see(other)
    found = compare(folder, other, head)
    yield (
        f"the other end knows {counted(found.heads, 'head')} of it, and all fit; "
        f"{counted(found.updates, 'update')} with the same SHA-256 at both ends"
    )


def compare(folder: Path, other: Path, head: Head) -> Compared:
    """Hold a whole chain against that of the other end.

    Args:
        folder: The chain's own.
        other: The other end's.
        head: Of the chain.

    Raises:
        BrokenChainError: The other end was told a line that is not in the chain, or an update
            differs.
    """
    key = public_key(folder)
    ours, theirs = ([line.said for line in read(at)] for at in (folder, other))
    known = list(_heads_of(theirs, key))
    verify(folder, key, known)
    updates = [_updates(said) for said in (ours, theirs)]
    both = updates[0].keys() & updates[1].keys()
    for run_id, r, silo in sorted(both):
        if not updates[0][run_id, r, silo] & updates[1][run_id, r, silo]:
            text = f"the update of {run_id}, round {r + 1}, is another one at the other end"
            raise BrokenChainError(text)
    return Compared(len(known), len(both))


def _heads_of(said: Iterable[dict[str, Any]], key: bytes) -> Iterator[Head]:
    """Heads in another chain that were signed with a key; one is said where it is a new one."""
    keys: dict[str, str] = {}
    for line in said:
        if line["what"] == "head" and "key" in line:
            keys[line.get("silo", "")] = line["key"]
        if line["what"] == "head" and keys.get(line.get("silo", "")) == key.hex():
            head = Head(line["n_of"], line["hash"], bytes.fromhex(line["signature"]))
            check_signature(head, key)
            yield head


Place = tuple[str, int, str]


def _updates(said: list[dict[str, Any]]) -> dict[Place, set[str]]:
    """SHA-256 of updates, by run, round and silo.

    A silo's own lines name no silo: it has said its name when it joined.
    """
    found: dict[Place, set[str]] = {}
    name = ""
    for line in said:
        if line["what"] == "joined":
            name = line["name"]
        if line["what"] == "update":
            place = line["run"], line["round"], line.get("silo", name)
            found.setdefault(place, set()).add(line["sha256"])
    return found


def _see(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no audit record")
