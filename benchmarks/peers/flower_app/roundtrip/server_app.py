"""A server that runs Flower's FedAvg and stamps its rounds."""

# Runs where the peer is installed, not domo.
# mypy: ignore-errors

from collections.abc import Iterable
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from roundtrip.plan import Plan

app = ServerApp()


class Stamped(FedAvg):
    """FedAvg that says when a round starts, and ends the run where a client is missing."""

    def __init__(self, plan: Plan):
        num_silos = len(plan.constants)
        super().__init__(
            fraction_evaluate=0.0,
            min_train_nodes=num_silos,
            min_available_nodes=num_silos,
        )
        self._plan = plan

    def configure_train(self, server_round: int, *args: Any, **more: Any) -> Iterable[Message]:
        """Stamp the start of the round."""
        self._plan.stamp("round", round=server_round)
        return super().configure_train(server_round, *args, **more)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average, if all clients have replied."""
        replies = list(replies)
        good = [reply for reply in replies if not reply.has_error()]
        if len(good) < len(self._plan.constants):
            reasons = {reply.error.reason for reply in replies if reply.has_error()}
            raise RuntimeError(
                f"{len(good)} of {len(self._plan.constants)} clients replied in round "
                f"{server_round}: {'; '.join(sorted(reasons))}"
            )
        return super().aggregate_train(server_round, replies)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds, then check the final model."""
    plan = Plan.read()
    try:
        # The names sort as the arrays are: Flower keeps them in this order.
        initial = ArrayRecord({f"{i:02d}": Array(a) for i, a in enumerate(plan.initial())})
        result = Stamped(plan).start(
            grid=grid, initial_arrays=initial, num_rounds=plan.num_rounds, timeout=plan.timeout_s
        )
        plan.stamp("end")
        plan.check(result.arrays[name].numpy() for name in sorted(result.arrays))
    except Exception as error:
        plan.stamp("failed", why=f"{type(error).__name__}: {error}")
        raise
