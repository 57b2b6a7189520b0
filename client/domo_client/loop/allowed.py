"""The rounds of a run, held against this silo's policy; and what the policy does to its updates."""

import threading
from collections.abc import Mapping

from torch import Tensor

from domo.outside.text import Public
from domo.training.round_data import LocalResult
from domo_client.loop.heartbeat import Reporter
from domo_client.loop.outbox import basis
from domo_client.policy.gate import Gate
from domo_client.rpc.connection import Connection
from domo_client.rpc.data import Tested
from domo_client.rpc.offer import Offer, PolicyError
from domo_proto.assignment import Announced, Assignment
from domo_proto.codec import VectorId, model_digest

AGAIN_S = 30.0
"""Until a round that has to wait is looked at again."""


class Allowed:
    """What the policy says in one run.

    Args:
        gate: The policy.
        offer: The run.
        connection: To the coordinator.
        reporter: Told why a round has to wait.
        closed: Set once the silo has left.
        samples: Size of the training data.
        built: SHA-256 of the parameters that this silo has built from the run's seed.
    """

    def __init__(
        self,
        gate: Gate,
        offer: Offer,
        connection: Connection,
        reporter: Reporter,
        closed: threading.Event,
        samples: int,
        built: str,
    ):
        self._gate, self._offer, self._connection = gate, offer, connection
        self._reporter, self._closed, self._samples = reporter, closed, samples
        self._built = built
        self._told = Tested(), -1  # the model whose numbers were told last, and in which session
        self._held = ""

    @property
    def seed(self) -> int:
        """Of all that is drawn here in the run."""
        return self._gate.seed(self._offer.run_id, self._offer.config)

    def see(self, assignment: Assignment[Announced], vectors: Mapping[VectorId, Tensor]) -> None:
        """Hold a round against the policy, as it is by now.

        Raises:
            PolicyError: It is refused, and the run with it.
        """
        a, gate, run_id, config = assignment, self._gate, self._offer.run_id, self._offer.config
        why = gate.of_run(config)
        if a.action == "TRAIN":
            why = why or gate.of_round(config, a.num_steps, a.local_lr, self._samples)
            first = run_id, config, a.round_index, vectors[VectorId.X], self._built
            why = why or gate.of_first_model(*first)
        asked = Tested(a.round_index, model_digest(a.digests)), self._connection.counts.joins
        if a.evaluate and asked == self._told and not gate.chosen.is_open:
            why = why or f"max_tests_a_day: model {a.round_index} is to be tested a second time"
        if why:
            raise PolicyError(run_id, why)

    def has_to_wait(self, assignment: Assignment[Announced]) -> bool:
        """Let time pass where the policy has a round wait; whether it was so."""
        a = assignment
        held = self._gate.of_today(self._name_of(a), a.action == "TRAIN", a.evaluate)
        if held is None:
            return False
        if held.reason != self._held:
            self._held = held.reason
            self._reporter.tell(Public(f"run {self._offer.run_id} waits here: {held.reason}"))
        self._reporter.now("waiting", self._offer.run_id, a.round_index)
        self._closed.wait(AGAIN_S)
        return True

    def told(self, model_index: int, tested: str) -> None:
        """The numbers of a model are with the coordinator."""
        self._told = Tested(model_index, tested), self._connection.counts.joins

    def tests(self, trains: bool) -> None:
        """A model was tested, and its numbers are about to leave; `trains`: an update follows."""
        self._gate.note_test(trains)

    def leaves(self, assignment: Assignment[Announced], result: LocalResult) -> None:
        """Clip an update as the policy says, and count it, before it leaves."""
        self._gate.protect(result.update)
        self._gate.note_update(self._name_of(assignment))

    def _name_of(self, assignment: Assignment[Announced]) -> str:
        """An update, by what it is made of."""
        run, r = self._offer.run_id, assignment.round_index
        return f"{run}/{r}/{basis(self._offer, assignment)}"
