"""Whose data are whose when a recorded run is repeated."""

from pathlib import Path

import pytest

from domo.commands.replay import SiloData, find_data
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
