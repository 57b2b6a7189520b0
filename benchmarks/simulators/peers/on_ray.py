"""Flower's simulation on Ray: one process a core, each a silo at a time; see `ray_silo`."""

import os
import sys

import ray
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvgM
from flwr.simulation import run_simulation
from given import Given
from ray_silo import FOLDER, app
from turns import Turns

server = ServerApp()


class Timed(FedAvgM):
    """Ends a turn after the server's step."""

    def aggregate_train(self, server_round, replies):
        """As it is, and then the turn."""
        got = list(replies)
        made = super().aggregate_train(server_round, got)
        steps = [r.content["metrics"]["steps"] for r in got if not r.has_error()]
        if len(steps) < given.num_silos:
            print("a silo of Flower failed", file=sys.stderr)
            os._exit(1)
        turn(sum(steps))
        return made


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds."""
    strategy = Timed(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=given.num_silos,
        min_evaluate_nodes=0,
        min_available_nodes=given.num_silos,
        server_learning_rate=1.0,
        server_momentum=given.server_momentum,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(given.build_model().state_dict()),
        num_rounds=given.num_rounds,
        timeout=600,
    )


if __name__ == "__main__":
    os.environ |= {
        FOLDER: sys.argv[1],
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    given = Given(sys.argv[1])
    turn = Turns(alone=False, at_end=ray.shutdown)
    started = {"log_to_driver": False, "include_dashboard": False, "num_cpus": os.cpu_count()}
    run_simulation(
        server,
        app,
        num_supernodes=given.num_silos,
        backend_config={"init_args": started, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
