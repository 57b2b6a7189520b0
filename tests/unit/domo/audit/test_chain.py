"""A record that only grows, and finds each change."""

import json
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import rfc8785

from domo.audit import chain as chains
from domo.audit.chain import FOLDER, Chain, Head, files, hash_of, read_head
from domo.audit.looking import report
from domo.audit.verify import BrokenChainError, read, verify

NUM_LINES, NUM_EDITS = 6, 10_000


def grown(folder: Path, lines: int = NUM_LINES, file_bytes: int = 500) -> Path:
    """A chain of several files."""
    chain = Chain(folder, file_bytes)
    for i in range(lines):
        chain.add("update", run="1-domo", round=i, sha256=hash_of(bytes([i])), bytes=24_360)
    chain.close()
    return folder / FOLDER


def test_a_line_is_canonical_and_says_what_it_was_told(tmp_path: Path) -> None:
    folder = grown(tmp_path)
    lines = [line for path in files(folder) for line in path.read_bytes().splitlines()]
    assert len(lines) == NUM_LINES
    assert len(files(folder)) > 2, "the chain goes on from file to file"
    for i, line in enumerate(lines):
        said = json.loads(line)
        assert (said["n"], said["round"], said["what"]) == (i + 1, i, "update")
        assert list(said) == sorted(said)
        assert len(line) < 400
    assert [told.said["round"] for told in read(folder)] == list(range(NUM_LINES))
    assert verify(folder).n == NUM_LINES


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    with closing(Chain(tmp_path)) as chain:
        for value in (b"x", 2**53, float("nan"), "\ud800"):
            with pytest.raises(ValueError, match=r"."):
                chain.add("update", run=value)
        assert chain.head.n == 0
        chain.add("update", run="\u20ac")
    assert verify(tmp_path / FOLDER).n == 1


Edit = Callable[[random.Random, Path], None]


def _some(rng: random.Random, folder: Path) -> tuple[Path, list[bytes]]:
    path = rng.choice(files(folder))
    return path, path.read_bytes().splitlines(keepends=True)


def flip(rng: random.Random, folder: Path) -> None:
    path = rng.choice([*files(folder), folder / "head.json"])
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def change(rng: random.Random, folder: Path) -> None:
    """One that keeps the form."""
    path, lines = _some(rng, folder)
    i = rng.randrange(len(lines))
    said = json.loads(lines[i])
    said[rng.choice(["run", "at", "what", "extra"])] = "another"
    lines[i] = rfc8785.dumps(said) + b"\n"
    path.write_bytes(b"".join(lines))


def remove(rng: random.Random, folder: Path) -> None:
    path, lines = _some(rng, folder)
    del lines[rng.randrange(len(lines))]
    path.write_bytes(b"".join(lines))


def add(rng: random.Random, folder: Path) -> None:
    path, lines = _some(rng, folder)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    path.write_bytes(b"".join(lines))


def forge(rng: random.Random, folder: Path) -> None:
    """A line more at the end, as the chain would have it."""
    path = files(folder)[-1]
    last = path.read_bytes().splitlines()[-1]
    said = {
        **json.loads(last),
        "n": NUM_LINES + 1,
        "prev": hash_of(last),
        "round": rng.randrange(99),
    }
    path.write_bytes(path.read_bytes() + rfc8785.dumps(said) + b"\n")


def swap(rng: random.Random, folder: Path) -> None:
    path, lines = _some(rng, folder)
    lines = lines[1:] + lines[:1] if len(lines) > 1 else [b"{}\n"]
    path.write_bytes(b"".join(lines))


def cut(rng: random.Random, folder: Path) -> None:
    path = files(folder)[-1]
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def lose(rng: random.Random, folder: Path) -> None:
    rng.choice([*files(folder), folder / "head.json", folder / "public.pem"]).unlink()


def replace(rng: random.Random, folder: Path) -> None:
    """Another chain's file under the same name."""
    path = rng.choice(files(folder))
    shutil.copy(folder.parent.parent / "other" / FOLDER / path.name, path)


EDITS: tuple[Edit, ...] = (flip, change, remove, add, forge, swap, cut, lose, replace)


def test_ten_thousand_edits_are_found_each(tmp_path: Path) -> None:
    folder = grown(tmp_path / "ours")
    grown(tmp_path / "other")
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    rng = random.Random(1)
    for k in range(NUM_EDITS):
        edit = EDITS[k % len(EDITS)]
        edit(rng, folder)
        changed = [p for p, data in whole.items() if not p.exists() or p.read_bytes() != data]
        assert changed, edit
        with pytest.raises(BrokenChainError):
            verify(folder)
        for path in changed:
            path.write_bytes(whole[path])
    assert verify(folder).n == NUM_LINES


def test_a_chain_that_was_written_anew_is_not_the_one_that_others_know(tmp_path: Path) -> None:
    ours = grown(tmp_path / "ours")
    with closing(Chain(tmp_path / "ours")) as chain:
        key, head = chain.public_key, verify(ours)
    told = Head(5, [line.hash for line in read(ours)][4])
    assert verify(ours, key, [told, head]) == head
    anew = grown(tmp_path / "anew")
    with pytest.raises(BrokenChainError, match="signature"):
        verify(anew, key)
    with pytest.raises(BrokenChainError, match="line 5 is not the one that was told to others"):
        verify(anew, None, [told])
    short = grown(tmp_path / "short", 4)
    with pytest.raises(BrokenChainError, match="line 5 is not the one"):
        verify(short, None, [told])


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        folder = grown(tmp_path, 4)
    assert verify(folder).n == 12
    assert (folder / "key.pem").stat().st_mode & 0o77 == 0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", ["before", "half", "whole", "rotated"])
def test_a_process_that_dies_at_any_instant_leaves_a_whole_chain(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = grown(tmp_path, 3, 10**6)

    def dies(self: Chain, line: bytes) -> None:
        if at == "half":
            self._file.write(line[:20])
        if at == "whole":
            self._file.write(line + b"\n")
        raise Killed

    with (
        closing(Chain(tmp_path, 1 if at == "rotated" else 10**6)) as chain,
        monkeypatch.context() as patch,
    ):
        patch.setattr(chains.Chain, "_append", dies)
        with pytest.raises(Killed):
            chain.add("update", run="x")
    if at != "whole":
        with pytest.raises(BrokenChainError):
            verify(folder)
    with closing(Chain(tmp_path)) as again:
        assert again.head.n == 4
        assert verify(folder).n == 4
        again.add("update", run="y")
    assert verify(folder).n == 5


@pytest.mark.parametrize(
    ("damage", "left"), [("head", 6), ("tail", 2), ("half", 3), ("file", 2), ("key", 6), ("all", 0)]
)
def test_what_the_loss_of_power_took_is_said_and_it_goes_on(
    damage: str, left: int, tmp_path: Path
) -> None:
    folder = grown(tmp_path, 6, 400)
    assert [len(p.read_bytes().splitlines()) for p in files(folder)] == [2, 2, 2]
    first, second, third = files(folder)
    if damage == "head":
        (folder / "head.json").write_bytes(b"")
    elif damage == "tail":
        third.unlink()
        second.write_bytes(b"")
    elif damage == "half":
        third.unlink()
        second.write_bytes(second.read_bytes()[:-10])
    elif damage == "file":
        second.unlink()
        third.unlink()
    elif damage == "key":
        (folder / "key.pem").write_bytes(b"")
    else:
        for path in (first, second, third):
            path.write_bytes(b"")
    with closing(Chain(tmp_path)) as chain:
        assert chain.head.n == left + 1
        chain.add("update", run="y")
    assert verify(folder).n == left + 2
    line = [told.said for told in read(folder)][left]
    assert line["what"] == "recovered"
    assert "lost" in line["why"] or "key" in line["why"]
    text = "\n".join(report(folder))
    assert f"lines may be missing before line {left + 1}" in text
    assert (folder / "000002.torn").exists() == (damage == "half")


def test_a_chain_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    head = chain.add("update", run="x")
    chain.close()
    assert chain.add("update", run="y") == head
    assert verify(tmp_path / FOLDER) == head


def test_the_head_says_the_newest_line(tmp_path: Path) -> None:
    with closing(Chain(tmp_path)) as chain:
        head = chain.add("joined", coordinator="localhost:1")
        told = read_head(tmp_path / FOLDER)
        assert told is not None
        assert told[1] == head == chain.head
        with pytest.raises(ValueError, match="the chain's"):
            chain.add("joined", prev="x")
