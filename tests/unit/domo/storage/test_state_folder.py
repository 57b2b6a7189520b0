import errno
import fcntl
from pathlib import Path

import pytest

from domo.errors import StateError
from domo.storage.state_folder import lock_folder


def test_a_share_without_locks_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StateError, match=r"takes no locks \(No locks available\).* a local disk"):
        lock_folder(tmp_path, "domo-client")


def test_one_that_another_has_is_told_with_its_process(tmp_path: Path) -> None:
    held = lock_folder(tmp_path, "domo-client")
    with pytest.raises(StateError, match=r"another domo-client \(process \d+\) uses the state"):
        lock_folder(tmp_path, "domo-client")
    held.close()
