"""A run's history from a coordinator: every number of REST, and answers that cannot be."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import domo
from domo.api.schema import RunDetail
from domo.errors import ConfigError, ProtocolError
from tests.support.played.judged import BEST, LEFT_OUT, ROUNDS, SILOS, Judged
from tests.support.played.people import TOKEN
from tests.support.played.serving import serving


@pytest.fixture
def federation() -> Judged:
    return Judged()


@pytest.fixture
def there(federation: Judged, monkeypatch: pytest.MonkeyPatch) -> Iterator[domo.Coordinator]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(federation) as (url, _), domo.Coordinator(url, TOKEN) as coordinator:
        yield coordinator


def test_the_history_of_a_run(there: domo.Coordinator) -> None:
    run = there.run("2-judged")
    history = run.history()
    rounds, tests = there.rounds("2-judged"), there.tests("2-judged")
    assert len(history.rounds) == ROUNDS == len(rounds)
    facts = history.facts
    assert (facts.mode, facts.state, facts.run_id) == ("coordinator", "OPEN", "2-judged")
    assert (facts.method, facts.num_rounds, facts.best_index) == (run.method, 60, BEST)
    assert facts.num_silos == len(SILOS)
    for mine, told in zip(history.rounds, rounds, strict=True):
        assert mine.participants == tuple(p.silo_id for p in told.participants)
        assert mine.steps == tuple(p.num_steps for p in told.participants)
        assert (mine.local_lr, mine.train_loss) == (told.local_lr, told.train_loss)
        assert (mine.duration_s, mine.drift) == (told.duration_s, told.drift)
        left = {s.silo_id: s.left_out for s in mine.silos if s.left_out is not None}
        assert left == dict(told.left_out)
        times = told.times.silos if told.times else {}
        for silo in mine.silos:
            if silo.silo_id in times:
                assert silo.training_s == times[silo.silo_id].train_s
    assert [r.round_index + 1 for r in history.rounds if len(r.participants) < 3] == LEFT_OUT
    assert [t.metrics for t in history.tests] == [t.metrics for t in tests]
    assert history.tests[5].silos == {s.silo_id: s.metrics for s in tests[5].silos}
    table = history.silos_to_pandas()
    assert table.loc[(7, SILOS[1]), "num_steps"] == rounds[6].participants[1].num_steps
    assert "coordinator" in history._repr_html_()


def test_it_is_the_detail_that_it_was_and_can_ask_again(
    there: domo.Coordinator, federation: Judged
) -> None:
    run = there.run("2-judged")
    assert isinstance(run, RunDetail)
    assert run == there.run("2-judged")
    assert repr(run) == f"<run 2-judged: OPEN, {run.rounds_done} of 60 rounds>"
    assert "coordinator" not in run.model_dump()
    done = federation.run_list[0].model_copy(update={"state": "FINISHED"})
    federation.run_list[0] = done
    assert (run.state, run.status().state, run.wait(5).state) == ("OPEN", "FINISHED", "FINISHED")
    alone = type(run).model_validate(run.model_dump())
    with pytest.raises(ConfigError, match="take it from Coordinator"):
        alone.history()


def test_a_round_that_is_being_closed_is_none(there: domo.Coordinator, federation: Judged) -> None:
    last = federation.round_list[-1].model_copy(update={"state": "CLOSING"})
    federation.round_list[-1] = last
    assert len(there.run("2-judged").history().rounds) == ROUNDS - 1


def _twice(federation: Judged) -> None:
    federation.round_list[1] = federation.round_list[0]


def _backwards(federation: Judged) -> None:
    federation.round_list.reverse()


def _silo_twice(federation: Judged) -> None:
    first = federation.round_list[0]
    parts = [*first.participants, first.participants[0]]
    federation.round_list[0] = first.model_copy(update={"participants": parts})


def _in_and_out(federation: Judged) -> None:
    first = federation.round_list[0]
    left = {first.participants[0].silo_id: "late"}
    federation.round_list[0] = first.model_copy(update={"left_out": left})


@pytest.mark.parametrize("lie", [_twice, _backwards, _silo_twice, _in_and_out])
def test_what_contradicts_itself_is_refused(
    there: domo.Coordinator, federation: Judged, lie: Callable[[Judged], None]
) -> None:
    lie(federation)
    with pytest.raises(ProtocolError, match="is not what this version of domo understands"):
        there.run("2-judged").history()


def test_a_list_that_has_no_end_is_not_read_for_ever(
    there: domo.Coordinator, federation: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rounds(run_id: str, after: int = -1, limit: int | None = None) -> Any:
        first = federation.round_list[0]
        numbers = range(limit or 1)
        return [first.model_copy(update={"round_index": i}) for i in numbers]

    monkeypatch.setattr(federation, "rounds", rounds)
    with pytest.raises(ProtocolError, match="round_index does not go up"):
        there.rounds("2-judged")
