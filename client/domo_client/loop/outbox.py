"""What becomes of a local round's result: encoded, kept on disk, sent until the round is over."""

import threading
from collections.abc import Sequence

from torch import Tensor

from domo.errors import DivergenceError, DomoError, ProtocolError, TaskError
from domo.model.flat import byte_view
from domo.model.layout import Layout
from domo.model.private import PRIVATE, private_size
from domo.outside.text import Public
from domo.training.personal import PERSONAL
from domo.training.round_data import CONTROL, RESIDUAL, LocalResult
from domo.update_format import encode_result
from domo_client.loop.heartbeat import Reporter
from domo_client.rpc.connection import Connection
from domo_client.rpc.offer import Offer
from domo_client.state.folder import PendingUpdate, SiloState
from domo_client.telemetry.describe import SHORT
from domo_proto.assignment import Announced, Assignment, Counted
from domo_proto.codec import VectorId

REFUSED = "REFUSED"
FIRST_WAIT_S, MAX_WAIT_S = 1.0, 60.0
"""Between attempts to write to a full disk."""


class Outbox:
    """The updates of a silo on their way.

    Args:
        connection: Where to.
        state: Where they are kept.
        reporter: Knows whether the coordinator still wants the round in hand; told why an update
            has to wait, or cannot go: then its round is made again.
        closed: Set once the silo has left.

    Attributes:
        has_unsaved: Whether an update is in hand that is not on disk.
    """

    def __init__(
        self,
        connection: Connection,
        state: SiloState,
        reporter: Reporter,
        closed: threading.Event,
    ):
        self._connection, self._state = connection, state
        self._reporter, self._closed = reporter, closed
        self.has_unsaved = False

    def send(
        self, offer: Offer, assignment: Assignment[Announced], result: LocalResult
    ) -> tuple[str, str] | None:
        """Encode an update, keep it, and send it.

        Returns:
            `ACCEPTED`, `STALE` or `REFUSED`, and a text; None: it is not wanted any more.
        """
        config, counted = offer.config, _counted(offer, assignment)
        self.has_unsaved = True
        try:
            with self._state.kept.reading(offer.run_id, counted) as before:
                if config.keeps == {RESIDUAL} and counted is not None and not before:
                    text = f"error feedback begins anew in round {assignment.round_index + 1}"
                    self._reporter.tell(Public(f"{text}: {_gone(counted)}"))
                kept = encode_result(result, before.get(RESIDUAL), config.update_dtype)
            if kept.keys() != config.keeps:
                raise TaskError(
                    f'personal = "{config.personal}" is for tasks: in a loop of its own a silo '
                    "trains its personal model by itself"
                )
        except (DivergenceError, TaskError, *SHORT) as error:
            self.has_unsaved = False
            self._reporter.fail(error)
            return REFUSED, str(error)

        def keep(digest: str) -> None:
            views = [view for _, view in data]
            r, steps = assignment.round_index, result.num_steps
            self._connection.record.update(offer.run_id, r, steps, views)
            if kept:
                update = Counted(assignment.round_index, digest)
                self._state.kept.save(offer.run_id, update, counted, kept)

        vectors = [
            (VectorId.UPDATE, result.update),
            (VectorId.LOCAL_MOMENTUM, result.momentum),
            (VectorId.FLOAT_BUFFERS, result.float_buffers),
            (VectorId.INTEGER_BUFFERS, result.integer_buffers),
        ]
        data = [(v, byte_view(t)) for v, t in vectors if t is not None and len(t)]
        wait_s = FIRST_WAIT_S
        while True:
            try:
                update = self._state.save_pending(
                    offer.run_id,
                    assignment.round_index,
                    basis(offer, assignment),
                    data,
                    result.num_steps,
                    result.metrics,
                    keep,
                )
                break
            except OSError as error:  # a full disk; the update waits in memory
                self._reporter.beat(error)
                self._reporter.on_short(assignment.round_index, error)
                self._closed.wait(wait_s)
                wait_s = min(2 * wait_s, MAX_WAIT_S)
                if self._closed.is_set() or not self._reporter.may_go_on():
                    self.has_unsaved = False
                    return None
        self.has_unsaved = False
        return self._submit(update, [view for _, view in data])

    def pending(self, offer: Offer, assignment: Assignment[Announced]) -> PendingUpdate | None:
        """An update of this round that was made before a crash, with what it has left."""
        update = self._state.pending(offer.run_id, assignment.round_index, basis(offer, assignment))
        if update is None or not offer.config.keeps:
            return update
        made = Counted(update.round_index, update.digest)
        return update if self._state.kept.has(offer.run_id, made) else None

    def begins_with(
        self, offer: Offer, assignment: Assignment[Announced], layout: Layout
    ) -> dict[str, Tensor]:
        """What a round begins with but for e_k, by name."""
        sizes = offer.config.kept_sizes(layout.num_params, private_size(layout))
        counted, trains = _counted(offer, assignment), assignment.action == "TRAIN"
        sizes = {
            n: s for n, s in sizes.items() if n in (PRIVATE, PERSONAL) or (trains and n != RESIDUAL)
        }
        if not sizes or counted is None:
            return {}
        with self._state.kept.reading(offer.run_id, counted) as before:
            if before:
                return {name: before[name](0, size) for name, size in sizes.items()}
        text = f"what {offer.config.method} keeps begins anew in round {assignment.round_index + 1}"
        so = (
            ". The corrections of all silos cancel out no more, and the model may end elsewhere: a "
            "run that counts is begun again"
        )
        self._reporter.tell(Public(f"{text}: {_gone(counted)}{so if CONTROL in sizes else ''}"))
        return {}

    def send_again(self, update: PendingUpdate) -> bool:
        """Send such an update; whether that is all that the round needs."""
        self.has_unsaved = False
        state, _ = self._submit(update)
        return state != REFUSED

    def _submit(
        self, update: PendingUpdate, data: Sequence[memoryview] | None = None
    ) -> tuple[str, str]:
        """Send an update; a refused one is this silo's failure, and is forgotten."""
        updates = self._connection.counts.updates
        try:
            state, text = self._connection.data.submit(update, data)
            updates[state.lower()] += 1
            return state, text
        except DomoError as error:
            if type(error) not in (ProtocolError, DivergenceError):
                raise
            updates[REFUSED.lower()] += 1
            self._state.drop_pending()
            self._reporter.fail(error)
            return REFUSED, str(error)


def basis(offer: Offer, assignment: Assignment[Announced]) -> str:
    """What an update is computed from: digests, also of the one that left what it begins with."""
    told = _counted(offer, assignment)
    from_model = f"{offer.config.digest}/{assignment.digests[VectorId.X]}"
    return from_model if told is None else f"{from_model}/{told.digest}"


def _counted(offer: Offer, assignment: Assignment[Announced]) -> Counted | None:
    """The update whose vectors this silo begins the round with, in a run that keeps some."""
    return assignment.counted if offer.config.keeps else None


def _gone(counted: Counted) -> str:
    return (
        f"what the update of round {counted.round_index + 1} left is not in this silo's state "
        "folder, as after an older copy of it, or of the coordinator's state, was restored"
    )
