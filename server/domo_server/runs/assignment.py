"""What each silo of a run is to do now."""

from collections.abc import Mapping

from domo.run_config import RunConfig
from domo_proto.assignment import Action, Assignment, Counted
from domo_proto.codec import VectorId
from domo_server.results.evaluations import Evaluations
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.model import ServedModel
from domo_server.runs.participants import Participants
from domo_server.runs.roster import Roster
from domo_server.runs.wire_vector import WireVector
from domo_server.store.rows import Enrolment, RoundRecord

SKIPPED = (VectorId.X_PREV, VectorId.MEAN_MOMENTUM, VectorId.CONTROL)
"""Vectors that are not needed to test a model."""


class Assignments:
    """Whose turn it is. Used from the event loop only.

    Args:
        config: The run.
        dropped: Silos that an admin has left out, and why.
        roster: Who has enrolled.
        participants: The silos of the open round.
        evaluations: Know who has tested which model.
        model: The newest one.
    """

    def __init__(
        self,
        config: RunConfig,
        dropped: Mapping[str, str],
        roster: Roster,
        participants: Participants,
        evaluations: Evaluations,
        model: ServedModel,
    ):
        self._config, self._dropped, self._roster = config, dropped, roster
        self._participants, self._model = participants, model
        self._evaluations = evaluations
        self._counted: dict[str, Counted] = {}

    def count(self, record: RoundRecord) -> None:
        """A round is closed with these updates: their silos are told, for what they keep."""
        for p in record.participants:
            self._counted[p.silo_id] = Counted(record.round_index, p.digest)

    def of(
        self, silo_id: str, state: RoundState, evaluated_index: int
    ) -> Assignment[WireVector] | None:
        """What a silo is to do in a run that goes on; None: nothing yet.

        Args:
            silo_id: The silo.
            state: Where the run is.
            evaluated_index: The newest model that it has tested, as it says.
        """
        r, phase, model = state.round_index, state.phase, self._model
        mine = self._roster.enrolled.get(silo_id)
        if mine is None or model.current is None:
            return None
        tests = evaluated_index != r and self._is_to_test(silo_id, mine, r)
        wanted = phase is Phase.OPEN and self._participants.awaits(silo_id)
        if wanted and mine.role == "trainer":
            return Assignment(
                Action.TRAIN,
                round_index=r,
                num_rounds=self._config.num_rounds,
                num_steps=self._config.steps_at(r, silo_id, mine.num_samples),
                local_lr=self._config.lr_at(r),
                inference_scale=model.current.inference_scale,
                evaluate=tests,
                vectors=model.vectors,
                counted=self._counted.get(silo_id),
            )
        if tests and phase in (Phase.OPEN, Phase.EVALUATING):
            vectors = {v: w for v, w in model.vectors.items() if v not in SKIPPED}
            return Assignment(
                Action.EVALUATE,
                round_index=r,
                num_rounds=self._config.num_rounds,
                evaluate=True,
                vectors=vectors,
                counted=self._counted.get(silo_id) if self._config.has_own_models else None,
            )
        return None

    def waits(self, silo_id: str, state: RoundState, ready: bool) -> str:
        """What a silo without an assignment waits for, in words that name no other silo."""
        if not ready:
            return "the run is being loaded"
        if silo_id in self._dropped:
            return "the admin has left this silo out; domo undrop takes it back"
        phase, sampled = state.phase, self._participants.sampled
        if phase is Phase.PAUSED:
            return "the run is paused by the admin"
        if self._roster.frozen is None:
            return "the run begins when all its silos have enrolled"
        if phase is Phase.OPEN and sampled:
            there = len(sampled) - len(self._participants.missing)
            return (
                f"round {state.round_index + 1} has updates of {there} of its {len(sampled)} silos"
            )
        if phase is Phase.EVALUATING:
            return "the last model is being tested"
        return ""

    def testers(self, model_index: int) -> list[str]:
        """Silos whose numbers of a model are asked for, and not in."""
        enrolled = sorted(self._roster.enrolled.items())
        return [s for s, mine in enrolled if self._is_to_test(s, mine, model_index)]

    def _is_to_test(self, silo_id: str, mine: Enrolment, model_index: int) -> bool:
        reported = silo_id in self._evaluations.reported.get(model_index, ())
        may = mine.num_eval_samples > 0 and silo_id not in self._dropped
        return may and not reported and self._config.evaluates_at(model_index)
