"""Durable metadata: runs, rounds, updates, evaluations, silos, events.

SQLite (WAL) by default, any SQLAlchemy URL in production. Each function is one transaction, durable
when it returns; with `relaxed`, those that a round waits for survive the death of any process only.
The calls block; the coordinator makes them on threads. What a full disk or a lost database refuses
is a `CoordinatorUnavailableError`, at any of them.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar, Unpack

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from domo.api.schema import ENDED, RunState
from domo.errors import CoordinatorUnavailableError
from domo.meaning.value import NOTHING, Meaning
from domo_server.store.database import in_words
from domo_server.store.measured import EvaluationRow, Judgement, TableRow
from domo_server.store.rows import (
    AcceptedUpdate,
    Enrolment,
    EventRow,
    RoundRecord,
    RunChanges,
    RunRow,
    SiloChanges,
    SiloRow,
    accepted_update,
    participant_json,
    round_record,
)
from domo_server.store.tables import (
    enrolments,
    evaluation_tables,
    evaluations,
    events,
    judgements,
    rounds,
    runs,
    silos,
    updates,
    webhooks,
)

T = TypeVar("T")

_NEVER_ENROLLED = silos.c.dropped.is_(None) & silos.c.silo_id.not_in(select(enrolments.c.silo_id))

UNAVAILABLE = (OperationalError, InternalError, PoolTimeoutError, sqlite3.OperationalError)
"""A full disk, a database that is gone, being restarted, or read-only after a failover."""


def now_text() -> str:
    """The wall clock as ISO 8601 in UTC; for people, never for decisions."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def time_text(at: float) -> str:
    """Seconds since 1970 in the same form."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def seconds_since(text: str) -> float:
    """How long ago such a time was; 0 where it is to come, as the clock was set."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())


class Store:
    """The queries, by what they are for.

    Args:
        engine: From `domo_server.store.database.open_database`.
        relaxed: Whether SQLite need not wait for the disk where a round is under way: an accepted
            update, a set that is recorded, numbers. The order of transactions is kept anyway.
    """

    def __init__(self, engine: Engine, relaxed: bool = False):
        self._engine = engine
        self._relaxed = relaxed and engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def transaction(self, in_round: bool = False) -> Iterator[Connection]:
        """A transaction; `in_round`: one that a round under way waits for.

        Raises:
            CoordinatorUnavailableError: A full disk, or a database that does not answer.
        """
        try:
            with self._engine.connect() as connection:
                if self._relaxed:
                    level = "NORMAL" if in_round else "FULL"
                    connection.connection.cursor().execute(f"PRAGMA synchronous = {level}")
                with connection.begin():
                    yield connection
        except UNAVAILABLE as error:
            text = f"the coordinator's database says: {in_words(error)}"
            raise CoordinatorUnavailableError(text) from error

    def _rows(self, make: Callable[..., T], statement: Any) -> list[T]:
        with self.transaction() as c:
            return [make(**row) for row in c.execute(statement).mappings()]

    def _one(self, make: Callable[..., T], statement: Any) -> T | None:
        rows = self._rows(make, statement)
        return rows[0] if rows else None

    # runs

    def create_run(self, name: str, config: Mapping[str, Any], config_digest: str) -> RunRow:
        """Insert a queued run; its number and id are given here."""
        with self.transaction() as c:
            number = (c.execute(select(func.max(runs.c.number))).scalar() or 0) + 1
            run_id = f"{number}-{name}"
            c.execute(
                insert(runs).values(
                    run_id=run_id,
                    number=number,
                    created_at=now_text(),
                    state="QUEUED",
                    detail="in the queue",
                    name=name,
                    config=config,
                    config_digest=config_digest,
                )
            )
            # read before the commit: a failure after it would deny a run that is queued
            row = c.execute(select(runs).where(runs.c.run_id == run_id)).mappings().one()
            return RunRow(**row)

    def update_run(self, run_id: str, **changes: Unpack[RunChanges]) -> None:
        """Change a run."""
        with self.transaction() as c:
            c.execute(update(runs).where(runs.c.run_id == run_id).values(**changes))

    def run(self, run_id: str) -> RunRow | None:
        """One run."""
        return self._one(RunRow, select(runs).where(runs.c.run_id == run_id))

    def run_by_name(self, name: str) -> RunRow | None:
        """One run by its name."""
        return self._one(RunRow, select(runs).where(runs.c.name == name))

    def all_runs(self) -> list[RunRow]:
        """All runs, newest first."""
        return self._rows(RunRow, select(runs).order_by(runs.c.number.desc()))

    def next_run(self) -> RunRow | None:
        """The first run of the queue that has not ended."""
        waiting = select(runs).where(runs.c.state.not_in(ENDED)).order_by(runs.c.number).limit(1)
        return self._one(RunRow, waiting)

    def open_runs(self) -> list[RunRow]:
        """All runs that have not ended."""
        return self._rows(RunRow, select(runs).where(runs.c.state.not_in(ENDED)))

    def newest_run(self) -> RunRow | None:
        """The last one that was queued."""
        return self._one(RunRow, select(runs).order_by(runs.c.number.desc()).limit(1))

    def rostered(self) -> set[str]:
        """Silos that runs which have not ended name."""
        waiting = select(runs.c.config).where(runs.c.state.not_in(ENDED))
        with self.transaction() as c:
            configs = c.execute(waiting).scalars().all()
        keys = ("roster", "required_silos", "evaluators")
        return {name for config in configs for key in keys for name in config.get(key) or ()}

    def count_runs(self) -> dict[RunState, int]:
        """How many runs are in which state; in others there are none."""
        counted = select(runs.c.state, func.count()).group_by(runs.c.state)
        with self.transaction() as c:
            return {state: int(num) for state, num in c.execute(counted)}

    # rosters

    def enroll(self, run_id: str, silo_id: str, place: Enrolment) -> None:
        """Insert or replace a silo's enrolment."""
        key = (enrolments.c.run_id == run_id) & (enrolments.c.silo_id == silo_id)
        with self.transaction() as c:
            c.execute(delete(enrolments).where(key))
            values = asdict(place) | {"meaning": place.meaning.to_json()}
            c.execute(insert(enrolments).values(run_id=run_id, silo_id=silo_id, **values))

    def enrolled(self, run_id: str) -> dict[str, Enrolment]:
        """The enrolments of a run, by silo, in its order."""

        def place(
            run_id: str, silo_id: str, meaning: str | None, **values: Any
        ) -> tuple[str, Enrolment]:
            said = Meaning.from_json(meaning) if meaning else NOTHING
            return silo_id, Enrolment(**values, meaning=said)

        found = select(enrolments).where(enrolments.c.run_id == run_id)
        return dict(self._rows(place, found.order_by(enrolments.c.silo_id)))

    def test_samples(self, run_id: str) -> dict[str, int]:
        """Test samples that each silo of a run enrolled with."""
        e = enrolments.c
        with self.transaction() as c:
            rows = c.execute(select(e.silo_id, e.num_eval_samples).where(e.run_id == run_id))
            return {silo_id: int(num) for silo_id, num in rows}

    # rounds

    def accept_update(self, run_id: str, round_index: int, accepted: AcceptedUpdate) -> None:
        """Record that a spooled update counts; replaces one whose file was lost."""
        old = _round(updates, run_id, round_index) & (updates.c.silo_id == accepted.silo_id)
        with self.transaction(in_round=True) as c:
            c.execute(delete(updates).where(old))
            c.execute(
                insert(updates).values(
                    run_id=run_id,
                    round_index=round_index,
                    silo_id=accepted.silo_id,
                    digest=accepted.digest,
                    vectors=accepted.vectors,
                    num_steps=accepted.num_steps,
                    update_norm=accepted.update_norm,
                    metrics=accepted.metrics,
                    accepted_at=now_text(),
                )
            )

    def updates_of(self, run_id: str, round_index: int) -> list[AcceptedUpdate]:
        """Accepted updates of a round, in order of silo."""
        found = select(updates).where(_round(updates, run_id, round_index))
        return self._rows(accepted_update, found.order_by(updates.c.silo_id))

    def begin_close(self, run_id: str, record: RoundRecord) -> None:
        """Record the set that a round is closed with; it never changes again."""
        with self.transaction(in_round=True) as c:
            c.execute(
                insert(rounds).values(
                    run_id=run_id,
                    round_index=record.round_index,
                    state="CLOSING",
                    opened_at=record.opened_at,
                    local_lr=record.local_lr,
                    reference_steps=record.reference_steps,
                    participants=[participant_json(p) for p in record.participants],
                    left_out=record.left_out,
                    train_loss=record.train_loss,
                    closed_by=record.closed_by,
                    closed_by_silo=record.closed_by_silo,
                )
            )
            c.execute(update(runs).where(runs.c.run_id == run_id).values(state="CLOSING"))

    def reopen_round(self, run_id: str, round_index: int) -> None:
        """Forget the set of a round that was not committed, and what followed from it."""
        with self.transaction() as c:
            c.execute(delete(rounds).where(_round(rounds, run_id, round_index)))
            after = updates.c.round_index > round_index
            c.execute(delete(updates).where((updates.c.run_id == run_id) & after))
            for of_models in (evaluations, evaluation_tables, judgements):
                discarded = of_models.c.model_index > round_index
                c.execute(delete(of_models).where((of_models.c.run_id == run_id) & discarded))

    def round_at(self, run_id: str, round_index: int) -> RoundRecord | None:
        """One round, from when its set is recorded on."""
        where = _round(rounds, run_id, round_index)
        return self._one(round_record, select(rounds).where(where))

    def commit_round(self, run_id: str, closed: RoundRecord, changes: RunChanges) -> None:
        """The commit point of a round: its checkpoint is durable, r advances."""
        parts = [{**participant_json(p), "cosine": p.cosine} for p in closed.participants]
        times = closed.times and closed.times.model_dump(mode="json", exclude_defaults=True)
        with self.transaction() as c:
            c.execute(
                update(rounds)
                .where(_round(rounds, run_id, closed.round_index))
                .values(
                    state="COMMITTED",
                    closed_at=closed.closed_at,
                    duration_s=closed.duration_s,
                    participants=parts,
                    drift=closed.drift,
                    model_digest=closed.model_digest,
                    times=times,
                )
            )
            c.execute(update(runs).where(runs.c.run_id == run_id).values(**changes))

    def rounds_of(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> list[RoundRecord]:
        """The rounds of a run above an index, oldest first; at most so many."""
        where = (rounds.c.run_id == run_id) & (rounds.c.round_index > after)
        found = select(rounds).where(where).order_by(rounds.c.round_index).limit(limit)
        return self._rows(round_record, found)

    # evaluations

    def add_evaluation(
        self,
        run_id: str,
        model_index: int,
        silo_id: str,
        sums: Mapping[str, Sequence[float]],
        model_digest: str | None = None,
        tables: Sequence[TableRow] = (),
        unlike: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Record a silo's sums and tables for x_{model_index}; replaces what it said before.

        Args:
            run_id: The run.
            model_index: i of x_i.
            silo_id: The silo.
            sums: By metric: total and count.
            model_digest: Of the model that it tested.
            tables: Its tables.
            unlike: Silo and metric of tables that these cannot be added to: they go.
        """
        with self.transaction(in_round=True) as c:
            for of_silo in (evaluations, evaluation_tables):
                e = of_silo.c
                where = (e.run_id == run_id) & (e.model_index == model_index)
                c.execute(delete(of_silo).where(where & (e.silo_id == silo_id)))
            for other, metric in unlike:
                t = evaluation_tables.c
                old = (t.run_id == run_id) & (t.silo_id == other) & (t.metric == metric)
                c.execute(delete(evaluation_tables).where(old))
            for row in tables:
                c.execute(insert(evaluation_tables).values(run_id=run_id, **asdict(row)))
            for metric, (total, num) in sums.items():
                c.execute(
                    insert(evaluations).values(
                        run_id=run_id,
                        model_index=model_index,
                        silo_id=silo_id,
                        metric=metric,
                        total=total,
                        num=num,
                        model_digest=model_digest,
                    )
                )

    def last_tested(self, run_id: str, first: int, num_models: int) -> int | None:
        """The last of so many tested models from one on; None: there are no more than these."""
        found: list[int] = []
        for table in (evaluations, evaluation_tables):
            index = table.c.model_index
            where = (table.c.run_id == run_id) & (index >= first)
            nth = select(index).distinct().where(where).order_by(index).limit(num_models + 1)
            with self.transaction() as c:
                found += c.execute(nth).scalars()
        indices = sorted(set(found))
        return indices[num_models - 1] if len(indices) > num_models else None

    def tested_by(self, run_id: str) -> set[tuple[int, str]]:
        """Model and silo of all tests of a run."""
        found: set[tuple[int, str]] = set()
        for t in (evaluations.c, evaluation_tables.c):
            pairs = select(t.model_index, t.silo_id).distinct().where(t.run_id == run_id)
            with self.transaction() as c:
                found |= {(index, silo_id) for index, silo_id in c.execute(pairs)}
        return found

    def summed_by(self, run_id: str) -> set[tuple[str, str]]:
        """Silo and metric of all sums of a run."""
        e = evaluations.c
        with self.transaction() as c:
            found = c.execute(select(e.silo_id, e.metric).distinct().where(e.run_id == run_id))
            return {(silo_id, metric) for silo_id, metric in found}

    def evaluations_of(
        self, run_id: str, first: int = 0, last: int | None = None
    ) -> list[EvaluationRow]:
        """All sums of a run from a model on, up to one, in order of model, silo and metric."""
        e = evaluations.c
        order = (e.model_index, e.silo_id, e.metric)
        where = _models(evaluations, run_id, first, last)
        columns = (*order, e.total, e.num, e.model_digest)
        with self.transaction() as c:  # of many silos and rounds these are many: by place
            found = c.execute(select(*columns).where(where).order_by(*order))
            return [EvaluationRow(*row) for row in found]

    def tables_of(
        self, run_id: str, first: int = 0, last: int | None = None, *, cells: bool = False
    ) -> list[TableRow]:
        """Tables of a run from a model on, up to one, in order of model, silo and metric.

        Args:
            run_id: The run.
            first: The first model.
            last: The last one; None: to the end.
            cells: Whether their cells are wanted too: they are large, and kept of few models.
        """
        t = evaluation_tables.c
        order = (t.model_index, t.silo_id, t.metric)
        columns = (*order, t.kind, t.labels, t.shape, t.num, t.numbers)
        chosen = select(*columns, *((t.cells,) if cells else ()))
        where = _models(evaluation_tables, run_id, first, last)
        return self._rows(TableRow, chosen.where(where).order_by(*order))

    def judge(
        self, run_id: str, judgement: Judgement, changes: RunChanges, keep: Sequence[int]
    ) -> None:
        """Record what a model is judged by, and the best so far; tables of others may go.

        Args:
            run_id: The run.
            judgement: Of the model.
            changes: Of the run, where the model is the best.
            keep: Models below this one whose tables are kept.
        """
        t, i = evaluation_tables.c, judgement.model_index
        old = (t.run_id == run_id) & (t.model_index < i) & t.model_index.not_in(keep)
        with self.transaction(in_round=not changes) as c:
            c.execute(insert(judgements).values(run_id=run_id, **asdict(judgement)))
            c.execute(
                update(evaluation_tables).where(old & t.cells.is_not(None)).values(cells=None)
            )
            if changes:
                c.execute(update(runs).where(runs.c.run_id == run_id).values(**changes))

    def judgements_of(
        self, run_id: str, first: int = 0, last: int | None = None
    ) -> list[Judgement]:
        """What the models of a run from one on, up to one, were judged by, in their order."""
        j = judgements.c
        columns = (j.model_index, j.metric, j.value, j.num_silos, j.numbers)
        where = _models(judgements, run_id, first, last)
        return self._rows(Judgement, select(*columns).where(where).order_by(j.model_index))

    # silos and events

    def silo(self, silo_id: str) -> SiloRow | None:
        """One silo."""
        return self._one(SiloRow, select(silos).where(silos.c.silo_id == silo_id))

    def all_silos(self) -> list[SiloRow]:
        """All silos that have ever joined, by id."""
        return self._rows(SiloRow, select(silos).order_by(silos.c.silo_id))

    def never_enrolled(self) -> list[str]:
        """Silos that have joined and were never in a run, nor left out by an admin."""
        with self.transaction() as c:
            return list(c.execute(select(silos.c.silo_id).where(_NEVER_ENROLLED)).scalars())

    def forget_silos(self, silo_ids: Sequence[str]) -> None:
        """Those of them go."""
        with self.transaction() as c:
            for silo_id in silo_ids:
                c.execute(delete(silos).where(silos.c.silo_id == silo_id, _NEVER_ENROLLED))

    def save_silo(
        self, silo_id: str, instance_id: str, role: str, device: str, software_version: str
    ) -> None:
        """Insert or change a silo that joins; the leave to have a new state folder is used up."""
        at = now_text()
        values = {
            "instance_id": instance_id,
            "role": role,
            "device": device,
            "software_version": software_version,
            "last_seen": at,
            "readmitted": False,
        }
        with self.transaction() as c:
            changed = c.execute(update(silos).where(silos.c.silo_id == silo_id).values(**values))
            if not changed.rowcount:
                c.execute(insert(silos).values(silo_id=silo_id, first_seen=at, **values))

    def saw_silos(self, seen: Mapping[str, str]) -> None:
        """When silos were last heard of, by id; never earlier than is known already."""
        s = silos.c
        with self.transaction(in_round=True) as c:
            for silo_id, at in seen.items():
                where = (s.silo_id == silo_id) & (s.last_seen < at)
                c.execute(update(silos).where(where).values(last_seen=at))

    def mark_silo(self, silo_id: str, **changes: Unpack[SiloChanges]) -> None:
        """Change a silo that is not heard of by this."""
        with self.transaction() as c:
            c.execute(update(silos).where(silos.c.silo_id == silo_id).values(**changes))

    def add_event(
        self,
        kind: str,
        text: str,
        run_id: str | None = None,
        silo_id: str | None = None,
        at: str | None = None,
    ) -> None:
        """Record something that happened, now or `at`."""
        with self.transaction(in_round=True) as c:
            c.execute(
                insert(events).values(
                    at=at or now_text(), kind=kind, text=text, run_id=run_id, silo_id=silo_id
                )
            )

    def events_after(
        self,
        after: int,
        limit: int,
        run_id: str | None = None,
        silo_id: str | None = None,
        kinds: Sequence[str] | None = None,
        but: Sequence[str] = (),
    ) -> list[EventRow]:
        """The newest `limit` events with a higher id, oldest first.

        Args:
            after: The id.
            limit: At most so many.
            run_id: Only of this run.
            silo_id: Only of this silo.
            kinds: Only of these kinds.
            but: And not of these.
        """
        e = events.c
        where = [e.event_id > after]
        where += [e.run_id == run_id] if run_id is not None else []
        where += [e.silo_id == silo_id] if silo_id is not None else []
        where += [e.kind.in_(kinds)] if kinds is not None else []
        where += [e.kind.not_in(but)] if but else []
        newest = select(events).where(*where).order_by(e.event_id.desc()).limit(limit)
        return self._rows(EventRow, newest)[::-1]

    # webhooks

    def oldest_events(self, after: int, kinds: Sequence[str], limit: int) -> list[EventRow]:
        """The oldest `limit` events of these kinds with a higher id, oldest first."""
        wanted = (events.c.event_id > after) & events.c.kind.in_(kinds)
        oldest = select(events).where(wanted).order_by(events.c.event_id).limit(limit)
        return self._rows(EventRow, oldest)

    def runs_with_event(self, kinds: Sequence[str]) -> set[str]:
        """Runs that have an event of one of these kinds."""
        found = select(events.c.run_id).where(events.c.kind.in_(kinds)).distinct()
        with self.transaction() as c:
            return set(c.execute(found).scalars())

    def keep_hooks(self, hooks: Sequence[str]) -> None:
        """Forget webhooks that are not configured any more; new ones begin at the newest event."""
        with self.transaction() as c:
            c.execute(delete(webhooks).where(webhooks.c.hook.not_in(hooks)))
            known = set(c.execute(select(webhooks.c.hook)).scalars())
            newest = c.execute(select(func.max(events.c.event_id))).scalar() or 0
            for hook in hooks:
                if hook not in known:
                    c.execute(insert(webhooks).values(hook=hook, event_id=newest))

    def hook_at(self, hook: str) -> int:
        """The last event that a webhook is through with."""
        with self.transaction() as c:
            at = c.execute(select(webhooks.c.event_id).where(webhooks.c.hook == hook)).scalar()
        return at or 0

    def move_hook(self, hook: str, event_id: int) -> None:
        """A webhook is through with an event."""
        with self.transaction(in_round=True) as c:
            c.execute(update(webhooks).where(webhooks.c.hook == hook).values(event_id=event_id))


def _round(table: Table, run_id: str, round_index: int) -> ColumnElement[bool]:
    return (table.c.run_id == run_id) & (table.c.round_index == round_index)


def _models(table: Table, run_id: str, first: int, last: int | None) -> ColumnElement[bool]:
    where = (table.c.run_id == run_id) & (table.c.model_index >= first)
    return where if last is None else where & (table.c.model_index <= last)
