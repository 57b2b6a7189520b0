"""Who a silo is to each coordinator."""

import json
from pathlib import Path

import pytest

from domo.errors import StateError
from domo_client.state.folder import SiloState
from domo_client.state.identity import MOST_COORDINATORS, Identities

A, B = "a.example.org:50051", "b.example.org:50051"


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text("one")
    return path


def other(folder: Path, text: str) -> Path:
    path = folder / f"{text}.pem"
    path.write_text(text)
    return path


def test_each_coordinator_knows_another_one_and_the_same_one_each_time(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    first, second = state.identity(A, None), state.identity(B, None)
    assert len({first, second}) == 2
    assert (state.identity(B, None), state.identity(A, None)) == (second, first)
    state.close()
    again = SiloState(tmp_path / "state")
    assert (again.identity(A, None), again.identity(B, None)) == (first, second)
    assert first == again.instance_id, "of the first one, as older versions have it"
    again.close()


def test_an_id_that_an_older_version_has_told_stays_where_it_was_told(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    (state.folder / "joined").write_text(A)
    told = state.identity(B, None)
    assert told != state.instance_id
    assert state.identity(A, None) != told
    state.close()


def test_the_one_that_it_was_told_to_has_it_on(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    (state.folder / "joined").write_text(A)
    assert state.identity(A, None) == state.instance_id
    state.close()


def test_a_coordinator_that_moves_is_known_by_its_ca_and_one_with_a_new_ca_by_its_place(
    tmp_path: Path, ca: Path
) -> None:
    state = SiloState(tmp_path / "state")
    first = state.identity(A, ca)
    assert state.identity(B, ca) == first
    assert state.identity(B, other(tmp_path, "two")) == first
    assert state.identity("c.example.org:1", other(tmp_path, "three")) != first
    state.close()


def test_without_tls_a_move_is_said_by_the_operator(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    first = state.identity(A, None)
    assert state.identity(B, None, moved_from=A) == first
    assert state.identity(B, None) == first
    state.close()


def test_names_of_this_machine_are_one(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    first = state.identity("localhost:1", None)
    assert state.identity("127.0.0.1:1", None) == first
    assert state.identity("127.0.0.1:2", None) != first, "another federation on this machine"
    state.close()


def test_the_table_is_the_users_and_bounded(tmp_path: Path) -> None:
    known = Identities(tmp_path, "first", "")
    for i in range(MOST_COORDINATORS + 5):
        known.of(f"h{i}.example.org:1", "")
    path = tmp_path / "coordinators.json"
    assert len(json.loads(path.read_text())["coordinators"]) == MOST_COORDINATORS
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 1, "coordinators": [1]}'])
def test_a_damaged_table_is_no_new_identity(text: str, tmp_path: Path) -> None:
    (tmp_path / "coordinators.json").write_text(text)
    with pytest.raises(StateError, match="is damaged, and with it who this silo is"):
        Identities(tmp_path, "first", "").of(A, "")


def test_a_newer_table_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "coordinators.json").write_text('{"format_version": 2, "coordinators": []}')
    with pytest.raises(StateError, match="of a newer version"):
        Identities(tmp_path, "first", "").of(A, "")
