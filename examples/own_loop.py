"""A training loop of your own in a federation; `domo-client` is not needed.

python -m examples.own_loop SERVER NAME FOLDER
"""

import sys
from pathlib import Path

from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import domo_client
from examples.own_task import OwnTask


def take_part(server: str, name: str, folder: Path) -> domo_client.Outcome | None:
    """Train in the next run of a coordinator until it ends."""
    task = OwnTask()
    model = task.build_model()  # move it to its device here, before rounds(model)
    train_set, test_set = task.train_data(folder, None), task.eval_data(folder, None)
    test_batches = DataLoader(test_set, batch_size=256)
    sizes = {"samples": len(train_set), "eval_samples": len(test_set)}

    with domo_client.connect(server, silo=name) as silo:
        for rnd in silo.rounds(model, **sizes):  # x_r is in the model now
            rnd.evaluate(task.evaluate, test_batches)  # optional; x_r, before any shift
            opt, total = rnd.optimizer(), 0.0
            model.train()
            for inputs, labels in rnd.batches(train_set):  # P steps; DOMO's shift is here
                loss = cross_entropy(model(inputs), labels)
                loss.backward()
                opt.step()
                opt.zero_grad()
                total += loss.item()
            rnd.log(loss=total / max(1, rnd.num_steps))
    return silo.outcome


if __name__ == "__main__":
    outcome = take_part(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    sys.exit(outcome is None or outcome.state != "FINISHED")
