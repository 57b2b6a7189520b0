import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import xxhash

from domo.errors import ChecksumError, StateError
from domo.model.flat import byte_view, digest
from domo.storage import part_file
from domo.storage.part_file import MARK, mark_path
from domo_client.state import folder as state_module
from domo_client.state.folder import PendingUpdate, SiloState
from domo_proto.assignment import Counted


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SiloState]:
    state = SiloState(tmp_path / "state")
    yield state
    state.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"cannot be used: .*; choose another with --state-dir"):
        SiloState(tmp_path / "file" / "state")


def test_instances_differ_and_stay(tmp_path: Path) -> None:
    seen = set()
    for name in ("a", "b", "a"):
        state = SiloState(tmp_path / name)
        seen.add((name, state.instance_id))
        state.close()
    assert len(seen) == 2
    assert len({i for _, i in seen}) == 2
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_folder_that_becomes_another_silos_has_nothing_of_the_first_to_send(
    state: SiloState, caplog: pytest.LogCaptureFixture
) -> None:
    """As a machine that was copied and then got a name of its own."""
    made = [(7, memoryview(b"abcd"))]
    state.save_pending("1-r", 0, "basis", made, 1, {})
    state.kept.save("1-r", Counted(0, "u"), None, {"residual": torch.ones(3)})
    for name in ("site-a", "site-a"):  # the first is not known of a folder of an older version
        state.use_as(name)
        assert state.pending("1-r", 0, "basis") is not None
        assert state.kept.has("1-r", Counted(0, "u"))
    assert not caplog.records
    state.use_as("site-b")
    assert "was the folder of 'site-a'" in caplog.text
    assert state.pending("1-r", 0, "basis") is None
    assert not state.kept.has("1-r", Counted(0, "u"))


def test_what_was_made_with_another_coordinator_is_not_kept_for_the_next(state: SiloState) -> None:
    made = [(7, memoryview(b"abcd"))]
    state.note_joined("a:1", "who-to-a")
    state.save_pending("1-r", 0, "basis", made, 1, {})
    state.kept.save("1-r", Counted(0, "u"), None, {"residual": torch.ones(3)})
    held = put(state, torch.ones(4))
    for address in ("a:1", "moved:2"):
        state.note_joined(address, "who-to-a")
        assert state.pending("1-r", 0, "basis") is not None
        assert state.held() == [held]
    state.note_joined("b:1", "who-to-b")
    assert state.pending("1-r", 0, "basis") is None
    assert not state.pending_path.exists()
    assert not state.kept.has("1-r", Counted(0, "u"))
    assert not state.held()


def test_an_older_version_has_noted_the_address_alone(state: SiloState) -> None:
    (state.folder / "joined").write_text("a:1")
    held = put(state, torch.ones(4))
    state.note_joined("a:1", "who-to-a")
    assert state.held() == [held]
    (state.folder / "work-of").unlink()
    state.note_joined("b:1", "who-to-b")
    assert not state.held()


def test_the_newest_round_that_is_known_of_a_run(state: SiloState) -> None:
    assert state.newest_round("1-r", "c") == -1
    state.save_pending("1-r", 6, "c/x", [(7, memoryview(b"abcd"))], 1, {})
    assert state.newest_round("1-r", "c") == 6
    assert state.newest_round("2-r", "c") == state.newest_round("1-r", "d") == -1
    (state.folder / "pending.json").write_text("[]")
    assert state.newest_round("1-r", "c") == -1


# vectors


def put(state: SiloState, vector: torch.Tensor) -> str:
    name = digest(vector)
    with state.part(name) as part:
        part.begin(memoryview(bytearray()))
        part.append(byte_view(vector))
        part.finish(True)
    return name


@pytest.mark.parametrize(
    "vector",
    [torch.randn(7), torch.tensor([1, 0, 255], dtype=torch.uint8), torch.empty(0)],
    ids=["floats", "bytes", "empty"],
)
def test_vectors_come_back(vector: torch.Tensor, state: SiloState) -> None:
    name = put(state, vector)
    assert state.held() == [name]
    back = state.get(name, torch.empty_like(vector))
    assert torch.equal(back, vector)
    back += 1  # the trainer may write to what it was given
    assert torch.equal(state.get(name, torch.empty_like(vector)), vector)


@pytest.mark.parametrize("damage", ["flipped", "short"])
def test_a_damaged_vector_is_deleted_and_said(damage: str, state: SiloState) -> None:
    name = put(state, torch.randn(7))
    path = state.folder / "vectors" / name
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[3] ^= 1
    path.write_bytes(data if damage == "flipped" else data[:-4])
    with pytest.raises(ChecksumError, match="was damaged and is deleted") as caught:
        state.get(name, torch.empty(7))
    assert caught.value.retryable
    assert state.held() == []
    with pytest.raises(ChecksumError, match="cannot read the cached"):
        state.get(name, torch.empty(7))


def broken(*_: object) -> bool:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_what_cannot_be_read_is_deleted_and_fetched_again(
    state: SiloState, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = put(state, torch.randn(7))
    arrive(state, 16)
    monkeypatch.setattr(state_module, "read_at", broken)
    with pytest.raises(ChecksumError, match="Input/output error; it is fetched again"):
        state.get(name, torch.empty(7))
    assert state.held() == []
    monkeypatch.setattr(part_file, "read_at", broken)
    text = "Input/output error; it is deleted"
    with state.part(NAME) as part, pytest.raises(ChecksumError, match=text):
        part.begin(memoryview(bytearray(16)))
    assert state.parts() == {}


def test_old_vectors_are_dropped(state: SiloState) -> None:
    names = [put(state, torch.full((3,), float(i))) for i in range(4)]
    state.keep_only(names[2:])
    assert sorted(state.held()) == sorted(names[2:])


def test_what_is_no_vector_is_not_offered(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    name = put(state, torch.randn(3))
    vectors = state.folder / "vectors"
    (vectors / f"{name}.tmp").write_bytes(b"half")
    (vectors / ".DS_Store").touch()
    assert state.held() == [name]
    state.close()
    state = SiloState(tmp_path / "state")  # a start cleans up after a crash
    assert not (vectors / f"{name}.tmp").exists()
    assert state.held() == [name]
    state.close()


# vectors that arrive

WHOLE_VECTOR = bytes(range(40))
NAME = xxhash.xxh3_128_hexdigest(WHOLE_VECTOR)


def arrive(state: SiloState, stop: int, size: int = 8) -> None:
    """Go on with `NAME` up to `stop`, with what is here read back first."""
    held = state.parts().get(NAME, 0)
    start = bytearray(held)
    with state.part(NAME) as part:
        part.begin(memoryview(start))
        assert start == WHOLE_VECTOR[:held]
        for at in range(held, stop, size):
            part.append(memoryview(WHOLE_VECTOR)[at : min(at + size, stop)])
        if stop == len(WHOLE_VECTOR):
            part.finish(True)


@pytest.mark.parametrize("stops", [[0, 40], [8, 40], [3, 20, 39, 40], [40]])
def test_a_vector_arrives_in_parts_over_many_starts(stops: list[int], tmp_path: Path) -> None:
    for stop in stops:
        state = SiloState(tmp_path / "state")
        arrive(state, stop)
        assert state.parts() == ({} if stop in (0, 40) else {NAME: stop})
        state.close()
    state = SiloState(tmp_path / "state")
    assert state.held() == [NAME]
    assert byte_view(state.get(NAME, torch.empty(40, dtype=torch.uint8))) == WHOLE_VECTOR
    state.close()


def test_what_lies_behind_the_offset_is_cut_off(state: SiloState) -> None:
    arrive(state, 24)
    with state.part(NAME) as part:
        part.begin(memoryview(bytearray(16)))
    assert state.parts() == {NAME: 16}
    arrive(state, 40)
    assert byte_view(state.get(NAME, torch.empty(40, dtype=torch.uint8))) == WHOLE_VECTOR


def test_a_part_that_became_shorter_begins_anew(state: SiloState) -> None:
    arrive(state, 16)
    text = "has 16 bytes, not 24; it is deleted"
    with state.part(NAME) as part, pytest.raises(ChecksumError, match=text):
        part.begin(memoryview(bytearray(24)))
    assert state.parts() == {}


def test_a_whole_that_does_not_fit_begins_anew(state: SiloState) -> None:
    arrive(state, 16)
    with state.part(NAME) as part, pytest.raises(ChecksumError, match="it is sent again") as caught:
        part.finish(False)
    assert caught.value.retryable
    assert (state.parts(), state.held()) == ({}, [])


def test_stale_parts_go_with_the_old_vectors(state: SiloState) -> None:
    arrive(state, 16)
    name = put(state, torch.randn(7))
    (state.folder / "vectors" / "x.part").touch()
    assert state.parts() == {NAME: 16}  # what has no digest for a name is none
    state.keep_only([name, NAME])
    assert state.parts() == {}
    assert state.held() == [name]


def test_a_full_disk_is_said(state: SiloState) -> None:
    path = state.folder / "vectors" / f"{NAME}.part"
    path.symlink_to("/dev/full")
    mark_path(path).write_bytes(MARK.pack(0))
    with pytest.raises(OSError, match="No space left"), state.part(NAME) as part:
        part.append(memoryview(WHOLE_VECTOR))


# the pending update

VECTORS = [(7, byte_view(torch.arange(6.0))), (5, memoryview(b"\x01\x02"))]
WHOLE = torch.arange(6.0).numpy().tobytes() + b"\x01\x02"


def save(state: SiloState, run_id: str = "1-r", r: int = 2, basis: str = "c/x") -> PendingUpdate:
    return state.save_pending(run_id, r, basis, VECTORS, 5, {"loss": 0.5})


def test_a_pending_update_survives_the_process(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    saved = save(state)
    state.close()
    state = SiloState(tmp_path / "state")
    assert state.pending("1-r", 2, "c/x") == saved
    assert saved == PendingUpdate(
        "1-r", 2, "c/x", xxhash.xxh3_128_hexdigest(WHOLE), [(7, 24), (5, 2)], 5, {"loss": 0.5}
    )
    assert state.pending_path.read_bytes() == WHOLE
    state.close()


@pytest.mark.parametrize("other", [("2-r", 2, "c/x"), ("1-r", 3, "c/x"), ("1-r", 2, "d/x")])
def test_of_another_run_round_or_basis_it_is_dropped(
    other: tuple[str, int, str], state: SiloState
) -> None:
    save(state)
    assert state.pending(*other) is None
    assert state.pending("1-r", 2, "c/x") is None


def test_its_bytes_are_not_read_for_another_round(
    state: SiloState, caplog: pytest.LogCaptureFixture
) -> None:
    """That takes 0.3 s for 256 MB, in every round."""
    save(state)
    state.pending_path.write_bytes(b"damaged")
    assert state.pending("1-r", 3, "c/x") is None
    assert "damaged" not in caplog.text


def test_a_new_one_replaces_it(state: SiloState) -> None:
    save(state)
    newer = save(state, r=3)
    assert state.pending("1-r", 3, "c/x") == newer


@pytest.mark.parametrize(
    "damage", ["flipped", "short", "no bytes", "no json", "half json", "version", "no number"]
)
def test_a_damaged_one_is_not_sent(damage: str, state: SiloState) -> None:
    save(state)
    data, notes = state.pending_path, state.folder / "pending.json"
    body = json.loads(notes.read_text())
    if damage == "flipped":
        data.write_bytes(b"\xff" + WHOLE[1:])
    elif damage == "short":
        data.write_bytes(WHOLE[:-1])
    elif damage == "no bytes":
        data.unlink()
    elif damage == "no json":
        notes.unlink()
    elif damage == "half json":
        notes.write_text(notes.read_text()[:30])
    elif damage == "version":
        notes.write_text(json.dumps({**body, "format_version": 1}))
    else:
        notes.write_text(json.dumps({k: v for k, v in body.items() if k != "num_steps"}))
    assert state.pending("1-r", 2, "c/x") is None


def test_it_is_dropped_when_its_run_is_over(state: SiloState) -> None:
    save(state)
    state.delete_pending()
    state.delete_pending()
    assert state.pending("1-r", 2, "c/x") is None
    assert not list(state.folder.glob("pending.*"))
