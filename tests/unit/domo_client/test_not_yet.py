from pathlib import Path

import pytest

from domo.errors import DataError, TaskError
from domo_client.not_yet import FIRST_PAUSE_S, LONGEST_PAUSE_S, NotYet, Pauses, see_folder


def test_pauses_grow_to_a_bound_and_begin_anew_with_another_run() -> None:
    pauses = Pauses()
    lengths = [pauses.after("1-r", 0.1) for _ in range(8)]
    assert lengths[0] == FIRST_PAUSE_S
    assert lengths == sorted(lengths)
    assert lengths[-1] == LONGEST_PAUSE_S
    assert pauses.after("2-r", 0.1) == FIRST_PAUSE_S


def test_a_look_that_takes_long_is_not_made_without_rest() -> None:
    assert Pauses().after("1-r", 300.0) == 300.0


def test_the_coordinator_hears_of_no_file_and_no_folder() -> None:
    cause = FileNotFoundError(2, "No such file or directory", "/data/MRN 0123.dcm")
    error = TaskError(f"train_data fails: {cause}")
    error.__cause__ = cause
    said = NotYet.of(error)
    assert "MRN 0123" in said.here
    assert said.elsewhere == "the task cannot be used here; the silo's own text says more"
    of_folder = NotYet.of(DataError("the data folder /data is empty"))
    assert of_folder.elsewhere.startswith("the data are not what the task reads")
    assert of_folder.code == "data"


def test_a_data_folder(tmp_path: Path) -> None:
    see_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"the data folder .*absent: No such file or directory"):
        see_folder(tmp_path / "absent")
    with pytest.raises(DataError, match=r"the data folder .*file: Not a directory"):
        see_folder(tmp_path / "file")


def test_what_is_not_there_is_no_line_of_domos(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        see_folder(tmp_path / "absent")
    said = NotYet.of(raised.value.with_traceback(None))
    assert said.elsewhere == "the data folder: No such file or directory"
    assert said.here == f"the data folder {tmp_path / 'absent'}: No such file or directory"
