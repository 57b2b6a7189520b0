"""`domo-server token`, `login` and `session`, beside a coordinator that runs."""

import json
import re
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from domo_server.cli import app
from domo_server.people.local import keep_url
from domo_server.people.people import People
from domo_server.store.database import open_database
from domo_server.store.people import PeopleRows
from domo_server.store.store import Store


@pytest.fixture
def people(tmp_path: Path) -> People:
    """What a coordinator has open all the while."""
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    people = People(PeopleRows(store))
    people.keep_local("domo_of-the-operator-of-here")
    keep_url(tmp_path, "http://127.0.0.1:8093")
    return people


def typed(folder: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--state-dir", str(folder)])
    if code == 0:
        assert done.exit_code == 0, done.output or done.exception
        return done.stdout
    assert done.exit_code != 0
    return str(done.exception)


def test_a_token_from_its_making_to_its_end(people: People, tmp_path: Path) -> None:
    said = typed(tmp_path, "token", "create", "grafana", "--role", "viewer").splitlines()
    assert said[0].startswith("token of grafana, viewer, until 20")
    assert said[0].endswith("; it cannot be shown again:")
    assert re.fullmatch(r"domo_[A-Za-z0-9_-]{43}", said[1])
    assert people._token(said[1]).role == "viewer"
    table = typed(tmp_path, "token", "list")
    assert said[1] not in table
    name, role, *_, state = table.splitlines()[1].split()
    assert (name, role, state) == ("grafana", "viewer", "good")
    assert table.splitlines()[2].startswith("the admin  admin")
    (row, local) = json.loads(typed(tmp_path, "token", "list", "--json"))
    assert (row["name"], row["state"]) == ("grafana", "good")
    assert (local["name"], local["ends"]) == ("the admin", "")
    again = typed(tmp_path, "token", "create", "grafana", "--role", "admin", code=1)
    assert "there is a token 'grafana' already, with the role viewer: revoke it" in again
    assert "sessions ended: 0" in typed(tmp_path, "token", "revoke", "grafana")
    with pytest.raises(Exception, match="was revoked"):
        people._token(said[1])
    assert "revoked 20" in typed(tmp_path, "token", "list")
    assert "already" in typed(tmp_path, "token", "revoke", "grafana", code=1)
    new = typed(tmp_path, "token", "create", "grafana", "--role", "auditor").splitlines()[1]
    assert people._token(new).role == "auditor"
    people.close()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("token", "create", "a b", "--role", "viewer"), "'a b' is not"),
        (("token", "create", "the admin", "--role", "admin"), "'the admin' is not"),
        (("token", "create", "x", "--role", "root"), "must be one of viewer, auditor, admin"),
        (("token", "revoke", "x"), "there is no token 'x' (tokens: none)"),
        (("token", "revoke", "the admin"), "another one once the file is deleted"),
        (("session", "end", "x"), "'x' has no session"),
        (("login", "--name", "a\x1b[2J"), "is not"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], text: str, people: People, tmp_path: Path) -> None:
    assert text in typed(tmp_path, *words, code=1)
    people.close()


def test_a_link_logs_in_once_and_its_session_is_listed_and_ended(
    people: People, tmp_path: Path
) -> None:
    said = typed(tmp_path, "login", "--role", "auditor", "--name", "anna").splitlines()
    assert said[0] == "a link for anna, auditor, good once and for 5 minutes:"
    link = httpx.URL(said[1])
    assert (link.host, link.port, link.path) == ("127.0.0.1", 8093, "/login")
    person, cookie = people._by_code(link.params["code"])
    assert (person.name, person.role) == ("anna", "auditor")
    table = typed(tmp_path, "session", "list").splitlines()
    assert table[1].split()[:2] == ["anna", "auditor"]
    assert cookie not in "".join(table)
    assert typed(tmp_path, "session", "end", "anna") == "sessions of anna ended: 1\n"
    assert people._session(cookie) is None
    people.close()


def test_where_there_is_no_database(tmp_path: Path) -> None:
    for words in (("token", "list"), ("login",), ("session", "list")):
        assert "start the coordinator first" in typed(tmp_path, *words, code=1)
    assert list(tmp_path.iterdir()) == [], "nothing is made there"
