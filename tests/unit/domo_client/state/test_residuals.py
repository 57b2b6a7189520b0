import json
from pathlib import Path

import pytest
import torch

from domo_client.state.residuals import NUM_FILES, Residuals
from domo_proto.assignment import Counted

RUN = "1-r"
N = 5


def update(r: int, kind: str = "a") -> Counted:
    return Counted(r, 16 * f"{kind}{r}")


def left(r: int) -> torch.Tensor:
    return torch.arange(N) + 10.0 * r


def read(residuals: Residuals, counted: Counted | None, run_id: str = RUN) -> list[float] | None:
    with residuals.reading(run_id, counted) as block:
        if block is None:
            return None
        assert torch.equal(block(1, 4), torch.cat([block(1, 2), block(2, 4)]))
        return block(0, N).tolist()


def test_the_residual_is_that_of_the_update_that_counts(tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    assert read(residuals, None) is None
    residuals.save(RUN, update(0), None, left(0))
    assert read(residuals, None) is None, "it may never count"
    assert read(residuals, update(0, "b")) is None, "another update did"
    assert read(Residuals(tmp_path), update(0)) == left(0).tolist()
    assert read(residuals, update(0), "2-r") is None


def test_a_silo_that_is_left_out_keeps_what_it_had(tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    residuals.save(RUN, update(0), None, left(0))
    for r in range(1, 9):
        residuals.save(RUN, update(r), update(0), left(r))
        assert read(residuals, update(0)) == left(0).tolist()
    residuals.save(RUN, update(9), update(8), left(9))
    assert read(residuals, update(8)) == left(8).tolist()
    assert read(residuals, update(0)) == left(0).tolist(), "the one before stays"


@pytest.mark.parametrize("again", ["the same update", "another"])
def test_the_coordinator_may_go_back_one_round(again: str, tmp_path: Path) -> None:
    """After a loss of power, in any round: the residual of the round that is open again is here."""
    residuals = Residuals(tmp_path)
    counted: list[Counted | None] = [None]
    for r in range(6):
        made = update(r)
        residuals.save(RUN, made, counted[-1], left(r))
        if r:  # r was begun, so r - 1 had been said to count; it is done again
            kind = "a" if again == "the same update" else "b"
            before = counted[-2]
            wanted = None if before is None else left(r - 2).tolist()
            assert read(residuals, before) == wanted
            residuals.save(RUN, update(r - 1, kind), before, left(r - 1))
            counted[-1] = update(r - 1, kind)
            assert read(residuals, before) == wanted
            assert read(residuals, counted[-1]) == left(r - 1).tolist()
            residuals.save(RUN, made, counted[-1], left(r))
        counted.append(made)
        assert read(residuals, made) == left(r).tolist()
    assert len(list(tmp_path.iterdir())) == 2 * NUM_FILES


@pytest.mark.parametrize(
    "damage", ["flipped", "short", "no bytes", "no notes", "half notes", "version", "no list"]
)
def test_a_damaged_one_is_none(damage: str, tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    residuals.save(RUN, update(0), None, left(0))
    data, notes = tmp_path / "residual-0.bin", tmp_path / "residual-0.json"
    body = json.loads(notes.read_text())
    assert residuals.has(RUN, update(0))
    if damage == "flipped":
        data.write_bytes(b"\xff" + data.read_bytes()[1:])
    elif damage == "short":
        data.write_bytes(data.read_bytes()[:-1])
    elif damage == "no bytes":
        data.unlink()
    elif damage == "no notes":
        notes.unlink()
    elif damage == "half notes":
        notes.write_text(notes.read_text()[:30])
    elif damage == "version":
        notes.write_text(json.dumps({**body, "format_version": 0}))
    else:
        notes.write_text("[]")
    assert not residuals.has(RUN, update(0))
    assert read(residuals, update(0)) is None
    residuals.save(RUN, update(1), update(0), left(1))
    assert read(residuals, update(1)) == left(1).tolist()


def test_a_full_disk_leaves_nothing_that_passes_for_one(tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    (tmp_path / "residual-0.bin").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        residuals.save(RUN, update(0), None, left(0))
    assert not residuals.has(RUN, update(0))


def test_those_of_other_runs_are_deleted(tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    residuals.save("1-r", update(0), None, left(0))
    residuals.save("2-r", update(0), None, left(1))
    (tmp_path / "pending.bin").touch()
    residuals.keep_only("2-r")
    assert read(residuals, update(0), "2-r") == left(1).tolist()
    assert len(list(tmp_path.iterdir())) == 3
    residuals.keep_only("3-r")
    assert [p.name for p in tmp_path.iterdir()] == ["pending.bin"]


def test_an_older_file_is_written_over(tmp_path: Path) -> None:
    residuals = Residuals(tmp_path)
    for r in range(NUM_FILES):
        residuals.save(RUN, update(r), update(r - 1), left(r))
    inodes = {p.stat().st_ino for p in tmp_path.glob("*.bin")}
    for r in range(NUM_FILES, 3 * NUM_FILES):
        residuals.save(RUN, update(r), update(r - 1), left(r))
    assert {p.stat().st_ino for p in tmp_path.glob("*.bin")} == inodes
