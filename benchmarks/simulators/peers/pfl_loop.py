"""Apple's pfl-research: its simulated backend in one process, FederatedAveraging."""

import math
import sys

import torch
from given import Given
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional
from turns import Turns


def main() -> None:
    """Rounds."""
    torch.set_num_threads(1)
    given = Given(sys.argv[1])
    turn = Turns()
    silos = {k: PyTorchTensorDataset(given.silo(k), user_id=str(k)) for k in range(given.num_silos)}
    samples = len(silos[0])
    data = FederatedDataset(silos.get, get_user_sampler("minimize_reuse", list(silos)))

    class Model(torch.nn.Module):
        """Ours with the two functions that theirs has."""

        def __init__(self):
            super().__init__()
            self.net = given.build_model()

        def loss(self, inputs, labels):
            """Of a batch."""
            self.train()
            return functional.cross_entropy(self.net(inputs), labels)

        @torch.no_grad()
        def metrics(self, inputs, labels):
            """Of a batch."""
            loss = functional.cross_entropy(self.net(inputs), labels, reduction="sum")
            return {"loss": Weighted(loss.item(), len(labels))}

    class Told(TrainingProcessCallback):
        """Ends a turn after each round."""

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            """After the server's step."""
            turn(given.num_silos * given.num_steps)
            return False, Metrics()

    module = Model()

    def local_optimizer(params, lr):
        return torch.optim.SGD(
            params, lr, momentum=given.local_momentum, weight_decay=given.weight_decay
        )

    central = torch.optim.SGD(module.parameters(), lr=1.0, momentum=given.server_momentum)
    per_pass = math.ceil(samples / given.batch_size)
    within = given.num_steps <= per_pass
    if not within and given.num_steps % per_pass:
        sys.exit(f"pfl counts passes: {given.num_steps} steps are not whole ones of {per_pass}")
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=given.num_rounds,
            evaluation_frequency=10**6,
            train_cohort_size=given.num_silos,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(module, local_optimizer, central),
        NNTrainHyperParams(
            local_num_epochs=None if within else given.num_steps // per_pass,
            local_num_steps=given.num_steps if within else None,
            local_learning_rate=given.local_lr,
            local_batch_size=given.batch_size,
        ),
        callbacks=[Told()],
    )


if __name__ == "__main__":
    main()
