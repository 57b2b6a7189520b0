"""A run at its coordinator, from Python: what it is now, and its history.

run = domo.Coordinator(url).run("1-domo-digits")
run.history().plot()
print(run.wait().state)
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from domo.api.answers import not_understood
from domo.api.measured import ModelTest
from domo.api.round_times import SiloTimes
from domo.api.schema import Participant, RoundRecord, RunDetail
from domo.errors import ConfigError, ProtocolError
from domo.history.history import History
from domo.history.records import Round, RunFacts, SiloRound, Test

if TYPE_CHECKING:
    from domo.api.client import Coordinator


class LiveRun(RunDetail):
    """A run with everything that a coordinator says of it, at the moment when it was asked.

    Its fields are those of `RunDetail` and do not change; `status` asks again.
    """

    _coordinator: Any = PrivateAttr(None)

    def at(self, coordinator: "Coordinator") -> Self:
        """The same, with whom to ask."""
        self._coordinator = coordinator
        return self

    @property
    def coordinator(self) -> "Coordinator":
        """Whom it asks.

        Raises:
            ConfigError: Nobody: it was not made by `Coordinator.run`.
        """
        if self._coordinator is None:
            raise ConfigError("this run has no coordinator: take it from Coordinator.run(run_id)")
        found: Coordinator = self._coordinator
        return found

    def __repr__(self) -> str:
        """One line."""
        return f"<run {self.run_id}: {self.state}, {self.rounds_done} of {self.num_rounds} rounds>"

    def status(self) -> "LiveRun":
        """The same run as it is now; raises what `Coordinator` raises."""
        return self.coordinator.run(self.run_id)

    def wait(self, timeout_s: float | None = None) -> "LiveRun":
        """The same run once it has ended; see `Coordinator.wait`."""
        return self.coordinator.wait(self.run_id, timeout_s)

    def history(self) -> History:
        """Its rounds and tests up to now, as what `domo.simulate` returns has them.

        Seconds, bytes, norms and losses of single silos are there too, as the coordinator measured
        them.

        Raises:
            ProtocolError: What answers contradicts itself, or is no coordinator.
        """
        asked = self.coordinator
        now = self.status()  # first: what is said of the run is never ahead of its rounds
        return history_of(now, asked.rounds(self.run_id), asked.tests(self.run_id))


def history_of(
    run: RunDetail, rounds: Sequence[RoundRecord], tests: Sequence[ModelTest]
) -> History:
    """What a coordinator says of a run, as a history.

    Args:
        run: The run.
        rounds: Its rounds; one that is being closed is left out.
        tests: Of its models.

    Raises:
        ProtocolError: A round or a model comes twice, or a silo twice in one of them.
    """
    closed = [record for record in rounds if record.state == "COMMITTED"]
    _once("rounds", [record.round_index for record in closed])
    _once("tests", [test.model_index for test in tests])
    seed = run.config.get("seed", 0)
    facts = RunFacts(
        title=run.name,
        method=run.method,
        task=run.task,
        seed=seed if isinstance(seed, int) else None,
        num_silos=len(run.roster) or None,
        num_rounds=run.num_rounds,
        mode="coordinator",
        state=run.state,
        detail=run.detail,
        digest=run.checkpoint_digest,
        primary_metric=run.primary_metric,
        better=run.primary_better,
        best_index=run.best_index,
        best_value=run.best_value,
        run_id=run.run_id,
    )
    return History(facts, tuple(map(_round, closed)), tuple(map(_test, tests)))


def _round(record: RoundRecord) -> Round:
    names = [part.silo_id for part in record.participants]
    _once(f"rounds.{record.round_index}.participants", [*names, *record.left_out])
    parts = [_part(part, record) for part in record.participants]
    left = [SiloRound(name, left_out=why) for name, why in record.left_out.items()]
    return Round(
        record.round_index,
        (*parts, *left),
        record.local_lr,
        record.train_loss,
        dict(record.train_metrics),
        record.duration_s,
        record.drift,
    )


def _part(part: Participant, record: RoundRecord) -> SiloRound:
    times = (record.times.silos.get(part.silo_id) if record.times else None) or SiloTimes()
    return SiloRound(
        silo_id=part.silo_id,
        num_steps=part.num_steps,
        train_loss=part.train_loss,
        train_metrics=dict(part.metrics),
        weight=part.weight,
        update_bytes=part.update_bytes,
        update_norm=part.update_norm,
        cosine=part.cosine,
        fetching_s=times.fetch_s,
        testing_s=times.test_s,
        training_s=times.train_s,
        uploading_s=times.upload_s,
        waiting_s=times.wait_s,
    )


def _test(test: ModelTest) -> Test:
    _once(f"tests.{test.model_index}.silos", [silo.silo_id for silo in test.silos])
    own: dict[str, Mapping[str, float]] = {s.silo_id: dict(s.metrics) for s in test.silos}
    return Test(test.model_index, dict(test.metrics), own)


def _once(where: str, found: Sequence[object]) -> None:
    """See that nothing is there twice.

    Raises:
        ProtocolError: Names what is.
    """
    if len(set(found)) < len(found):
        raise ProtocolError(not_understood(where, "the same one comes twice"))
