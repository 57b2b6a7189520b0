"""The table of who is let in, and its codes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import event

from domo_server.store.admissions import Admissions
from domo_server.store.database import _migrations, connect, open_beside, open_database
from domo_server.store.store import Store

A, B = "site-a", "site-b"


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Admissions]:
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    yield Admissions(store)
    store.close()


def invite(it: Admissions, name: str, nonce: str) -> None:
    it.invite(name, "me", nonce, time.time() + 60, 30)


def test_after_every_change_the_version_is_another(it: Admissions) -> None:
    seen = [it.version()]
    for change in (
        lambda: it.admit(A, "me"),
        lambda: invite(it, B, "n"),
        lambda: it.renewed(A, "k", 1.0),
        lambda: it.revoke(A, "me"),
        lambda: it.admit(A, "me"),
    ):
        change()
        seen.append(it.version())
    assert seen[0] == 0
    assert len(set(seen)) == len(seen)


def test_a_name_that_is_let_in_again_is_renewed_as_before(it: Admissions) -> None:
    """After a revocation that was a mistake."""
    it.admit(A, "me", "key", 9.0, 30.0)
    it.revoke(A, "me")
    it.admit(A, "me", "key")
    row = it.of(A)
    assert row is not None
    assert (row.state, row.key, row.until, row.days) == ("active", "key", 9.0, 30.0)


def test_of_two_changes_at_once_none_is_overlooked(it: Admissions, tmp_path: Path) -> None:
    """A renewal has begun when a revocation is made and read; then the renewal is written."""
    it.admit(A, "me")
    it.admit(B, "me")
    beside = Store(open_beside(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    read: list[int] = []

    def meanwhile(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE admissions") and not read:
            read.append(-1)
            Admissions(beside).revoke(B, "another")
            read[0] = Admissions(beside).version()

    event.listen(it._store._engine, "before_cursor_execute", meanwhile)
    assert it.renewed(A, "k", 1.0)
    assert it.version() != read[0]
    beside.close()


def test_a_code_is_used_once_and_lets_its_name_in_with_that_key(it: Admissions) -> None:
    invite(it, A, "n")
    code = it.code("n")
    assert code is not None
    assert [c.nonce for c in it.open_codes()] == ["n"]
    assert it.use(code, "key", 9.0, "pem")
    assert not it.use(code, "other", 9.0, "pem")
    row, used = it.of(A), it.code("n")
    assert row is not None
    assert used is not None
    assert (row.state, row.key, row.until, row.days) == ("active", "key", 9.0, 30)
    assert (used.key, used.certificate) == ("key", "pem")
    assert it.open_codes() == []


def test_a_code_that_was_voided_cannot_be_used(it: Admissions) -> None:
    for void in (
        lambda: invite(it, A, "new"),
        lambda: it.revoke(A, "me"),
        lambda: it.admit(A, "me"),
    ):
        invite(it, A, "n")
        code = it.code("n")
        assert code is not None
        void()
        assert it.code("n") is None
        assert not it.use(code, "key", 9.0, "pem")


def test_who_is_let_in_stays_so_until_the_new_code_is_used(it: Admissions) -> None:
    it.admit(A, "me", "old")
    invite(it, A, "n")
    row = it.of(A)
    assert row is not None
    assert (row.state, row.key) == ("active", "old")
    it.revoke(A, "me")
    invite(it, A, "m")
    row = it.of(A)
    assert row is not None
    assert (row.state, row.key) == ("invited", None)


def test_only_an_active_key_is_renewed(it: Admissions) -> None:
    assert not it.renewed(A, "key", 1.0)
    it.admit(A, "me", "key")
    assert it.renewed(A, "key", 1.0)
    assert not it.renewed(A, "other", 1.0)
    it.revoke(A, "me")
    assert not it.renewed(A, "key", 1.0)


def test_names_that_a_database_of_before_knows_are_let_in_with_any_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    engine, config = connect(url), _migrations()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0012")
        connection.exec_driver_sql(
            "INSERT INTO silos (silo_id, instance_id, role, device, software_version, first_seen, "
            "last_seen, readmitted) VALUES ('site-a', 'i', 'trainer', '', '', '', '', 0)"
        )
        connection.commit()
    engine.dispose()
    store = Store(open_database(url))
    (row,) = Admissions(store).all()
    store.close()
    assert (row.silo_id, row.state, row.key) == (A, "active", None)
