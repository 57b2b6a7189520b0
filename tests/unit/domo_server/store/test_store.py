import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, event, inspect, text
from sqlalchemy.exc import IntegrityError

from domo.api.round_times import RoundTimes, SiloTimes
from domo.errors import StateError
from domo_server.store.database import connect, open_beside, open_database, versions
from domo_server.store.measured import EvaluationRow
from domo_server.store.rows import (
    AcceptedUpdate,
    Enrolment,
    Participant,
    RoundRecord,
)
from domo_server.store.store import Store
from domo_server.store.tables import metadata
from tests.support.older_database import take_back
from tests.support.played.names import METRICS, NAMES, fill, orders


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_database(f"sqlite:///{tmp_path / 'coordinator.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def store(engine: Engine) -> Store:
    return Store(engine)


def test_migrations_make_the_tables_of_the_code(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == versions()[0]
    tables = set(inspect(engine).get_table_names())
    assert tables == {*metadata.tables, "alembic_version"}


def test_sqlite_is_durable(engine: Engine) -> None:
    with engine.connect() as c:
        assert c.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert c.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL


def test_opening_again_keeps_what_is_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    for known in (0, 1):
        store = Store(open_database(url))
        assert len(store.all_runs()) == known
        store.create_run(*a_run(f"run-{known}"))
        store.close()


@pytest.mark.parametrize("name", ["no-such-folder/x.db", "not-a-database"])
def test_a_database_that_cannot_be_opened(name: str, tmp_path: Path) -> None:
    (tmp_path / "not-a-database").write_text("hello, I am no database, but a text file\n" * 99)
    with pytest.raises(StateError, match="cannot open the database sqlite:///"):
        open_database(f"sqlite:///{tmp_path / name}")


@pytest.mark.parametrize(
    "url", ["no url", "nosuchdialect://user:hidden@host/db", "mysql+nosuchdriver://u:hidden@h/d"]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(StateError, match=r"^cannot open the database") as caught:
        open_database(url)
    assert "hidden" not in str(caught.value)


def test_a_server_that_does_not_answer_is_one_line_without_a_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StateError, match=r"@127.0.0.1:1/d: connection failed") as caught:
        open_database("postgresql+psycopg://u:hidden@127.0.0.1:1/d")
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    engine = open_database(url)
    with engine.begin() as c:
        c.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StateError, match=r"'9999'; was it made by a newer domo\?"):
        open_database(url)


def insert_run(engine: Engine, values: dict[str, object]) -> None:
    names = ", ".join(values)
    marks = names.replace(", ", ", :")
    with engine.begin() as c:
        c.execute(text(f"INSERT INTO runs ({names}) VALUES (:{marks})"), values)


def test_migrations_need_no_new_sqlite(tmp_path: Path) -> None:
    """RHEL 9 has 3.34, which drops no column; a run that is there stays, and what is unique."""
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    open_database(url).dispose()
    take_back(url, "0007")
    made: dict[str, object] = {"run_id": "1-a", "number": 1, "name": "a"}
    made |= {"config": '{"task": "digits"}'}
    made |= {"config_digest": "d", "state": "OPEN", "created_at": "now", "roster": '["b"]'}
    made |= {"detail": "", "rounds_done": 2, "attempt": 0, "num_params": 2**40}
    old = connect(url)
    insert_run(old, made)
    old.dispose()
    said: list[str] = []

    @event.listens_for(Engine, "before_cursor_execute")
    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        said.append(statement.upper())

    try:
        engine = open_database(url)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert any("DROP TABLE RUNS" in statement for statement in said)
    assert not any("DROP COLUMN" in statement for statement in said)
    store = Store(engine)
    (row,) = store.all_runs()
    assert (row.run_id, row.config, row.roster) == ("1-a", {"task": "digits"}, ["b"])
    assert (row.state, row.rounds_done, row.num_params) == ("OPEN", 2, 2**40)
    del made["attempt"]
    for column in ("number", "name"):
        other = {**made, "run_id": "2-b", "number": 2, "name": "b", column: made[column]}
        with pytest.raises(IntegrityError, match=f"runs.{column}"):
            insert_run(engine, other)
    store.close()


def test_a_migration_that_fails_leaves_the_tables_of_before(tmp_path: Path) -> None:
    """As on a full disk, or where the coordinator is killed: the next start begins anew."""
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    open_database(url).dispose()
    take_back(url, "0006")
    engine = connect(url)
    with engine.begin() as c:
        c.execute(text("CREATE INDEX ix_events_kind ON events (kind)"))
    with pytest.raises(StateError, match="ix_events_kind already exists"):
        open_database(url)
    with engine.begin() as c:
        assert MigrationContext.configure(c).get_current_revision() == "0006"
        c.execute(text("DROP INDEX ix_events_kind"))
    engine.dispose()
    open_database(url).dispose()


@pytest.mark.parametrize(
    ("version", "text"),
    [("0003", "start the coordinator with this domo once"), ("9999", "a newer domo's")],
)
def test_beside_a_coordinator_nothing_is_migrated(version: str, text: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    open_database(url).dispose()
    engine = open_beside(url)
    with engine.begin() as c:
        c.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
    with pytest.raises(StateError, match=f"has version {version}, this domo uses .*{text}"):
        open_beside(url)
    with engine.connect() as c:
        assert MigrationContext.configure(c).get_current_revision() == version
    engine.dispose()


def a_run(name: str) -> tuple[str, dict[str, str], str]:
    return name, {"task": "digits"}, "d" * 32


def test_runs(store: Store) -> None:
    first, second = store.create_run(*a_run("alpha")), store.create_run(*a_run("beta"))
    assert (first.run_id, second.run_id) == ("1-alpha", "2-beta")
    assert (first.state, first.rounds_done, first.roster) == ("QUEUED", 0, None)
    assert first.config == {"task": "digits"}
    store.update_run("1-alpha", state="OPEN", roster=["a", "b"])
    assert store.run("1-alpha") == replace(first, state="OPEN", roster=["a", "b"])
    assert store.run("2-beta") == second
    assert store.run_by_name("beta") == second
    assert store.run("3-gamma") is None
    assert store.run_by_name("gamma") is None
    assert [r.run_id for r in store.all_runs()] == ["2-beta", "1-alpha"]
    with pytest.raises(IntegrityError):
        store.create_run(*a_run("beta"))


def test_a_run_that_is_queued_is_said_to_be_by_one_transaction(
    engine: Engine, store: Store
) -> None:
    commits: list[object] = []
    event.listen(engine, "commit", commits.append)
    event.listen(engine, "begin", commits.append)
    assert store.create_run(*a_run("alpha")).state == "QUEUED"
    assert len(commits) == 2


def test_enrolments_are_replaced(store: Store) -> None:
    store.enroll("1-r", "a", Enrolment("trainer", 5, 0))
    store.enroll("1-r", "b", Enrolment("evaluator", 0, 9))
    store.enroll("1-r", "a", Enrolment("trainer", 6, 1))
    store.enroll("2-r", "a", Enrolment("trainer", 7, 0))
    got = store.enrolled("1-r")
    assert got == {"a": Enrolment("trainer", 6, 1), "b": Enrolment("evaluator", 0, 9)}


def an_update(silo_id: str, digest: str) -> AcceptedUpdate:
    return AcceptedUpdate(silo_id, digest, [(7, 40)], 3, 0.5, {"loss": 1.25})


def test_updates_are_replaced(store: Store) -> None:
    """A second one comes where the first one's file was lost with the machine."""
    for silo_id, digest, r in (("a", "1", 0), ("b", "2", 0), ("a", "3", 0), ("a", "4", 1)):
        store.accept_update("1-r", r, an_update(silo_id, digest))
    got = {u.silo_id: u for u in store.updates_of("1-r", 0)}
    assert got == {"a": an_update("a", "3"), "b": an_update("b", "2")}
    assert store.updates_of("2-r", 0) == []


def a_record(round_index: int) -> RoundRecord:
    part = Participant("a", 1.5, 3, 0.25, None, "d", [(7, 40), (8, 4)])
    return RoundRecord(round_index, [part], {"b": "late"}, 0.1, 2.5, opened_at="then")


def test_a_round_is_closed_and_committed(engine: Engine, store: Store) -> None:
    store.create_run(*a_run("r"))
    record = a_record(0)
    store.begin_close("1-r", record)
    assert store.run("1-r").state == "CLOSING"
    assert store.rounds_of("1-r") == [record]
    assert "cosine" not in stored_participants(engine)
    with pytest.raises(IntegrityError):
        store.begin_close("1-r", record)  # the set of a round never changes
    parts = [replace(p, cosine=-0.5) for p in record.participants]
    closed = replace(record, participants=parts, closed_at="now", duration_s=2.0, drift=0.7)
    run = {"state": "OPEN", "rounds_done": 1, "checkpoint": "x1", "inference_scale": 0.1 + 0.2}
    store.commit_round("1-r", closed, run)
    assert store.rounds_of("1-r") == [store.round_at("1-r", 0)]
    assert store.round_at("1-r", 0) == replace(closed, state="COMMITTED")
    now = store.run("1-r")
    assert {k: getattr(now, k) for k in run} == run  # the float64 too, to the last bit


PARTICIPANTS = (
    '[{"silo_id": "a", "weight": 1.5, "num_steps": 3, "update_norm": 0.25, "train_loss": null, '
    '"digest": "d", "vectors": [[7, 40], [8, 4]]%s}]'
)


def stored_participants(engine: Engine) -> str:
    with engine.connect() as c:
        return c.execute(text("SELECT participants FROM rounds")).scalar_one()


def test_what_is_stored_of_participants_is_what_older_versions_stored(
    engine: Engine, store: Store
) -> None:
    record = a_record(0)
    store.begin_close("1-r", record)
    assert stored_participants(engine) == PARTICIPANTS % ""
    parts = [replace(p, cosine=None) for p in record.participants]
    store.commit_round("1-r", replace(record, participants=parts), {"rounds_done": 1})
    assert stored_participants(engine) == PARTICIPANTS % ', "cosine": null'


def test_participants_that_another_version_stored_are_read(engine: Engine, store: Store) -> None:
    record = a_record(0)
    store.begin_close("1-r", record)
    more = PARTICIPANTS % ', "cosine": 0.5, "of_tomorrow": {"x": 1}'
    for stored, cosine in ((PARTICIPANTS % "", None), (more, 0.5)):
        with engine.begin() as c:
            c.execute(text("UPDATE rounds SET participants = :p"), {"p": stored})
        (part,) = store.round_at("1-r", 0).participants
        assert part == replace(record.participants[0], cosine=cosine)


def test_rounds_are_in_order(store: Store) -> None:
    for r in (0, 2, 1):
        store.begin_close("1-r", a_record(r))
    assert [r.round_index for r in store.rounds_of("1-r")] == [0, 1, 2]


def test_evaluations_are_replaced_by_silo_and_model(store: Store) -> None:
    store.add_evaluation("1-r", 0, "a", {"loss": (3.0, 2), "accuracy": (1.0, 2)})
    store.add_evaluation("1-r", 0, "b", {"loss": (5.0, 4)})
    store.add_evaluation("1-r", 1, "a", {"loss": (9.0, 2)})
    store.add_evaluation("1-r", 0, "a", {"loss": (4.0, 2)})
    wanted = [(0, "a", "loss", 4.0, 2), (0, "b", "loss", 5.0, 4), (1, "a", "loss", 9.0, 2)]
    assert store.evaluations_of("1-r") == [EvaluationRow(*values) for values in wanted]


def test_silos(store: Store) -> None:
    values = {"instance_id": "i", "role": "trainer", "device": "cpu", "software_version": "1"}
    assert store.silo("b") is None
    store.save_silo("b", **values)
    store.save_silo("a", **values)
    seen = store.silo("b")
    assert seen.first_seen == seen.last_seen
    store.mark_silo("b", readmitted=True)
    assert store.silo("b") == replace(seen, readmitted=True)
    store.save_silo("b", **{**values, "device": "cuda"})
    again = store.silo("b")
    assert again == replace(seen, device="cuda", last_seen=again.last_seen)
    assert [s.silo_id for s in store.all_silos()] == ["a", "b"]


def test_events_come_oldest_first_and_the_newest_are_kept(store: Store) -> None:
    for i in range(5):
        store.add_event("kind", f"text {i}", "1-r" if i else None)
    events = store.events_after(0, 3)
    assert [e.text for e in events] == ["text 2", "text 3", "text 4"]
    assert [e.text for e in store.events_after(events[1].event_id, 9)] == ["text 4"]


def test_threads_write_at_once(store: Store) -> None:
    """No writer is turned away: each waits for the others."""
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for i in range(5):
                store.add_event("kind", f"{number} {i}")
                store.enroll(f"{number}-r", str(i), Enrolment("trainer", 1, 1))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert len(store.events_after(0, 99)) == 20
    assert [len(store.enrolled(f"{n}-r")) for n in range(4)] == [5] * 4


def test_silos_are_ordered_byte_by_byte(store: Store) -> None:
    fill(store)
    assert orders(store) == [*[NAMES] * 4, METRICS]


def test_a_round_that_is_reopened_forgets_the_numbers_of_its_model(store: Store) -> None:
    store.create_run(*a_run("r"))
    store.begin_close("1-r", a_record(0))
    for model_index, model_digest in ((0, None), (1, "x")):
        store.add_evaluation("1-r", model_index, "a", {"loss": (3.0, 2)}, model_digest)
    store.add_evaluation("2-r", 1, "a", {"loss": (3.0, 2)})
    store.reopen_round("1-r", 0)
    assert store.evaluations_of("1-r") == [EvaluationRow(0, "a", "loss", 3.0, 2)]
    assert len(store.evaluations_of("2-r")) == 1


def test_events_of_a_silo_are_found_among_many_others(engine: Engine, store: Store) -> None:
    store.add_event("joined", "first", "1-r", "a")
    with engine.begin() as c:
        many = [{"at": "t", "kind": "refused", "text": "x", "silo_id": "b"}] * 10_001
        c.execute(metadata.tables["events"].insert(), many)
    assert [e.text for e in store.events_after(0, 50, silo_id="a")] == ["first"]
    assert [e.text for e in store.events_after(0, 50, run_id="1-r")] == ["first"]
    assert [e.text for e in store.events_after(0, 50, kinds=["joined", "left"])] == ["first"]
    assert [e.text for e in store.events_after(0, 50, but=["refused"])] == ["first"]
    assert [e.event_id for e in store.events_after(0, 2, silo_id="b")] == [10_001, 10_002]
    assert store.events_after(0, 50, kinds=[]) == []
    with engine.connect() as c:
        for where, index in (("silo_id = 'a'", "silo_id"), ("kind IN ('joined')", "kind")):
            query = f"SELECT * FROM events WHERE {where} ORDER BY event_id DESC LIMIT 50"
            plan = c.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
            assert f"ix_events_{index}" in str(plan)


def test_the_next_run_the_newest_and_how_many(store: Store) -> None:
    assert (store.next_run(), store.newest_run(), store.count_runs()) == (None, None, {})
    for name in ("a", "b", "c", "d"):
        store.create_run(*a_run(name))
    store.update_run("1-a", state="FAILED")
    store.update_run("2-b", state="PAUSED")
    assert store.next_run() == store.run("2-b")
    assert store.newest_run() == store.run("4-d")
    assert store.count_runs() == {"FAILED": 1, "PAUSED": 1, "QUEUED": 2}


def test_times_of_a_round_come_back_and_those_of_another_version_are_none(
    engine: Engine, store: Store
) -> None:
    store.create_run(*a_run("r"))
    record = replace(a_record(0), closed_by="silo", closed_by_silo="a")
    store.begin_close("1-r", record)
    assert store.round_at("1-r", 0) == record, "what closed it outlives a kill"
    silos = {"a": SiloTimes(fetch_at_s=0.1, wait_s=2.0, tries={"fetch": 2})}
    times = RoundTimes(span_s=3.0, pauses=[(1.0, 2.0)], silos=silos)
    store.commit_round("1-r", replace(record, times=times), {"rounds_done": 1})
    assert store.round_at("1-r", 0) == replace(record, state="COMMITTED", times=times)
    for stored, wanted in (
        ('{"span_s": 1.5, "of_tomorrow": 1}', RoundTimes(span_s=1.5)),
        ('{"span": 1.5}', None),
        (None, None),
    ):
        with engine.begin() as c:
            c.execute(text("UPDATE rounds SET times = :t"), {"t": stored})
        assert store.round_at("1-r", 0).times == wanted


def test_a_run_of_before_began_when_its_first_round_was_opened(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    older = Store(open_database(url))
    for name in ("a", "b"):
        older.create_run(*a_run(name))
    older.begin_close("1-a", a_record(0))
    older.close()
    take_back(url, "0008")
    newer = Store(open_database(url))
    assert [row.began_at for row in newer.all_runs()] == [None, "then"]
    assert newer.round_at("1-a", 0) == a_record(0)
    newer.close()
