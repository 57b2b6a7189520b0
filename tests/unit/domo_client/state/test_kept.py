import json
from pathlib import Path

import pytest
import torch

from domo_client.state.kept import NUM_FILES, KeptVectors
from domo_proto.assignment import Counted

RUN = "1-r"
N = 5


def update(r: int, kind: str = "a") -> Counted:
    return Counted(r, 16 * f"{kind}{r}")


def left(r: int) -> dict[str, torch.Tensor]:
    e = torch.arange(N) + 10.0 * r
    return {"residual": e, "control": -2 * e}


def listed(kept: dict[str, torch.Tensor]) -> dict[str, list[float]]:
    return {name: vector.tolist() for name, vector in kept.items()}


def read(
    kept: KeptVectors, counted: Counted | None, run_id: str = RUN
) -> dict[str, list[float]] | None:
    with kept.reading(run_id, counted) as named:
        for block in named.values():
            assert torch.equal(block(1, 4), torch.cat([block(1, 2), block(2, 4)]))
        return {name: block(0, N).tolist() for name, block in named.items()} or None


def test_it_is_that_of_the_update_that_counts(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    assert read(kept, None) is None
    kept.save(RUN, update(0), None, left(0))
    assert read(kept, None) is None, "it may never count"
    assert read(kept, update(0, "b")) is None, "another update did"
    assert read(KeptVectors(tmp_path), update(0)) == listed(left(0))
    assert read(kept, update(0), "2-r") is None


def test_a_silo_that_is_left_out_keeps_what_it_had(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    kept.save(RUN, update(0), None, left(0))
    for r in range(1, 9):
        kept.save(RUN, update(r), update(0), left(r))
        assert read(kept, update(0)) == listed(left(0))
    kept.save(RUN, update(9), update(8), left(9))
    assert read(kept, update(8)) == listed(left(8))
    assert read(kept, update(0)) == listed(left(0)), "the one before stays"


@pytest.mark.parametrize("again", ["the same update", "another"])
def test_the_coordinator_may_go_back_one_round(again: str, tmp_path: Path) -> None:
    """After a loss of power, in any round: what the round began with that is open again is here."""
    kept = KeptVectors(tmp_path)
    counted: list[Counted | None] = [None]
    for r in range(6):
        made = update(r)
        kept.save(RUN, made, counted[-1], left(r))
        if r:  # r was begun, so r - 1 had been said to count; it is done again
            kind = "a" if again == "the same update" else "b"
            before = counted[-2]
            wanted = None if before is None else listed(left(r - 2))
            assert read(kept, before) == wanted
            kept.save(RUN, update(r - 1, kind), before, left(r - 1))
            counted[-1] = update(r - 1, kind)
            assert read(kept, before) == wanted
            assert read(kept, counted[-1]) == listed(left(r - 1))
            kept.save(RUN, made, counted[-1], left(r))
        counted.append(made)
        assert read(kept, made) == listed(left(r))
    assert len(list(tmp_path.iterdir())) == 2 * NUM_FILES


@pytest.mark.parametrize(
    "damage", ["flipped", "short", "no bytes", "no notes", "half notes", "version", "no list"]
)
def test_a_damaged_one_is_none(damage: str, tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    kept.save(RUN, update(0), None, left(0))
    data, notes = tmp_path / "kept-0.bin", tmp_path / "kept-0.json"
    body = json.loads(notes.read_text())
    assert kept.has(RUN, update(0))
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
    assert not kept.has(RUN, update(0))
    assert read(kept, update(0)) is None
    kept.save(RUN, update(1), update(0), left(1))
    assert read(kept, update(1)) == listed(left(1))


def test_a_full_disk_leaves_nothing_that_passes_for_one(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    (tmp_path / "kept-0.bin").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        kept.save(RUN, update(0), None, left(0))
    assert not kept.has(RUN, update(0))


def test_those_of_other_runs_are_deleted(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    kept.save("1-r", update(0), None, left(0))
    kept.save("2-r", update(0), None, left(1))
    (tmp_path / "pending.bin").touch()
    kept.keep_only("2-r")
    assert read(kept, update(0), "2-r") == listed(left(1))
    assert len(list(tmp_path.iterdir())) == 3
    kept.keep_only("3-r")
    assert [p.name for p in tmp_path.iterdir()] == ["pending.bin"]


def test_an_older_file_is_written_over(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path)
    for r in range(NUM_FILES):
        kept.save(RUN, update(r), update(r - 1), left(r))
    inodes = {p.stat().st_ino for p in tmp_path.glob("*.bin")}
    for r in range(NUM_FILES, 3 * NUM_FILES):
        kept.save(RUN, update(r), update(r - 1), left(r))
    assert {p.stat().st_ino for p in tmp_path.glob("*.bin")} == inodes


def test_a_folder_of_a_version_that_kept_residuals_alone(tmp_path: Path) -> None:
    """What rounding left is found again, so a silo may be updated in the middle of a run."""
    KeptVectors(tmp_path).save(RUN, update(0), None, {"residual": left(0)["residual"]})
    body = json.loads((tmp_path / "kept-0.json").read_text())
    del body["vectors"]
    (tmp_path / "kept-0.json").write_text(json.dumps({**body, "format_version": 1}))
    for path in list(tmp_path.iterdir()):
        path.rename(tmp_path / path.name.replace("kept", "residual"))
    kept = KeptVectors(tmp_path)
    assert read(kept, update(0)) == {"residual": listed(left(0))["residual"]}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept-0.bin", "kept-0.json"]
