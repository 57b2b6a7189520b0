import stat
from pathlib import Path

import pytest

from domo.errors import StateError
from domo_server.people.local import admin_token, keep_url, known_url


def test_the_admin_token_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    token = admin_token(tmp_path)
    assert token.startswith("domo_")
    assert len(token) >= 40
    assert admin_token(tmp_path) == token
    path = tmp_path / "admin-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == token


def test_an_empty_token_of_a_start_that_died_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "admin-token").touch(mode=0o600)
    assert len(admin_token(tmp_path)) >= 40


def test_a_token_that_can_be_guessed_is_none(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("known")
    with pytest.raises(StateError, match=r"admin-token has 5 characters, .* delete the file"):
        admin_token(tmp_path)


def test_commands_find_the_page_of_a_coordinator_that_has_started(tmp_path: Path) -> None:
    assert known_url(tmp_path) == "http://127.0.0.1:8080"
    keep_url(tmp_path, "http://127.0.0.1:8093")
    assert known_url(tmp_path) == "http://127.0.0.1:8093"
