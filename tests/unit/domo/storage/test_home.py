import os
import tempfile
from pathlib import Path

import pytest

from domo.errors import ConfigError
from domo.storage import home
from domo.storage.home import make_results_folder, temporary_in, user_cache, user_state


def no_home(app: str) -> Path:
    raise RuntimeError("could not determine the home directory")


def no_temporary() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found")


@pytest.mark.parametrize(("given", "is_told"), [("", "not set"), ("relative", "no absolute path")])
def test_without_a_home_state_has_no_place_and_public_data_one_that_can_be_named(
    monkeypatch: pytest.MonkeyPatch, given: str, is_told: str
) -> None:
    monkeypatch.setenv("HOME", given)
    monkeypatch.setattr(home, "user_state_path", no_home)
    monkeypatch.setattr(home, "user_cache_path", no_home)
    with pytest.raises(
        ConfigError,
        match=rf"there is no home folder here \(HOME is {is_told}, .* give --state-dir$",
    ):
        user_state("the silo's state")
    assert user_cache() == Path("/.cache/domo")


def test_temporary_files_go_where_the_process_may_write_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    temporary_in(tmp_path / "own")
    assert not (tmp_path / "own").exists()
    monkeypatch.setattr(tempfile, "gettempdir", no_temporary)
    temporary_in(tmp_path / "own")
    assert os.environ["TMPDIR"] == str(tmp_path / "own" / "tmp")
    assert (tmp_path / "own" / "tmp").is_dir()


def test_a_place_for_results_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    make_results_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(ConfigError, match=r"the results have no place: .*give another folder"):
            make_results_folder(tmp_path / place)
