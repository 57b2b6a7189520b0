"""A state folder is its user's alone."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from domo.errors import StateError
from domo.storage import state_folder
from domo.storage.state_folder import keep_private, lock_folder
from domo_client.state.folder import SiloState

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="to give files away takes root")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_what_is_made_is_the_users_whatever_the_umask(tmp_path: Path) -> None:
    state = SiloState(tmp_path / "state")
    state.use_as("site-a")
    state.identity("a.example.org:1", None)
    state.note_joined("a.example.org:1", "who")
    data = memoryview(b"update")
    state.save_pending("1-r", 0, "basis", [(7, data)], 1, {})
    for path in tmp_path.glob("state/**/*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(state.folder) == 0o700
    state.close()


@pytest.mark.parametrize("wide", [0o755, 0o750, 0o775, 0o770])
def test_one_that_others_can_read_is_tightened_and_said_once(
    wide: int, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.chmod(wide)
    for _ in range(2):
        lock_folder(folder, "domo-client").close()
    assert mode(folder) == 0o700
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said == [f"others could read the state folder {folder}; it is now its user's alone"]


@pytest.mark.parametrize("wide", [0o777, 0o1777, 0o707])
def test_one_that_everybody_could_write_to_is_not_used(wide: int, folder: Path) -> None:
    folder.chmod(wide)
    with pytest.raises(StateError, match=f"everybody on this machine .* chmod 700 {folder}"):
        lock_folder(folder, "domo-server")
    assert mode(folder) == wide, "what was refused is as it was"
    assert not list(folder.iterdir())


@ROOT_ONLY
def test_one_of_another_user_is_not_used(folder: Path) -> None:
    os.chown(folder, 12345, 12345)
    with pytest.raises(StateError, match=f"belongs to user 12345.* chown -R 0 {folder}"):
        lock_folder(folder, "domo-server")


@ROOT_ONLY
def test_a_file_that_another_user_has_laid_there_is_not_believed(folder: Path) -> None:
    (folder / "admin-token").write_text("known")
    os.chown(folder / "admin-token", 12345, 12345)
    with pytest.raises(StateError, match=r"admin-token .* belongs to user 12345: somebody else"):
        lock_folder(folder, "domo-server")


@ROOT_ONLY
def test_a_share_that_squashes_root_goes_on_to_work(folder: Path) -> None:
    os.chown(folder, state_folder.NOBODY, state_folder.NOBODY)
    lock_folder(folder, "domo-server").close()


def test_a_link_in_place_of_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "there", tmp_path / "absent"):
        (tmp_path / "there").touch()
        (folder / "coordinator.db").symlink_to(target)
        with pytest.raises(StateError, match=f"is a link to {target}: what is written there"):
            lock_folder(folder, "domo-server")
        with pytest.raises(StateError, match=r"coordinator\.db cannot be used"):
            keep_private(folder / "coordinator.db")
        (folder / "coordinator.db").unlink()
    assert not (tmp_path / "absent").exists()


def test_a_folder_on_a_larger_disk_may_be_linked(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (folder / "runs").symlink_to(tmp_path / "large")
    lock_folder(folder, "domo-server").close()


def test_a_file_system_without_modes_goes_on_to_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o777)
    monkeypatch.setattr(Path, "chmod", lambda self, mode: None)
    lock_folder(folder, "domo-client").close()


@pytest.mark.usefixtures("no_umask")
def test_the_database_is_its_users(folder: Path) -> None:
    path = folder / "coordinator.db"
    keep_private(path)
    assert mode(path) == 0o600
    path.chmod(0o644)
    keep_private(path)
    assert mode(path) == 0o600
