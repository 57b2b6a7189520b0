"""A silo's state folder is one process's."""

import multiprocessing
from pathlib import Path

import pytest

from domo.errors import StateError
from domo_client.state.folder import SiloState


def hold(folder: str, connection) -> None:
    """Another process that uses a state folder until it is told to end."""
    state = SiloState(Path(folder))
    connection.send(state.instance_id)
    connection.recv()
    state.close()


def test_a_folder_is_one_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    other = context.Process(target=hold, args=(str(tmp_path / "state"), theirs))
    other.start()
    try:
        identity = mine.recv()
        with pytest.raises(StateError) as caught:
            SiloState(tmp_path / "state")
        assert f"another domo-client (process {other.pid}) uses the state folder" in str(
            caught.value
        )
        mine.send("end")
        other.join(60)
    finally:
        other.kill()
        other.join()
        mine.close()
        theirs.close()
    again = SiloState(tmp_path / "state")
    assert again.instance_id == identity
    again.close()
