"""Pre-train the base, and write x_0 with it: about five seconds on one core.

python -m examples.lora.base --out x0.safetensors
"""

import argparse
from pathlib import Path

import torch

import domo
from examples.lora.model import Reader
from examples.lora.task import Turned, Whole


def pretrain(seed=0, steps=400):
    """Train all of a model centrally on digits 0 to 4, upright; its tensors by name."""
    data = domo.load_task("digits").train_data(Path(), domo.Shard(0, 1))
    known = data.labels < 5
    inputs, labels = data.inputs[known], data.labels[known]
    torch.manual_seed(seed)
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for _ in range(steps):
        batch = torch.randint(len(labels), (32,))
        optimizer.zero_grad()
        domo.cross_entropy_loss(model, (inputs[batch], labels[batch])).backward()
        optimizer.step()
    return model.state_dict()


def initial_model(task, seed=0, steps=400):
    """The model of a task on that base; the head is new, for it has other digits to tell."""
    base = {k: v for k, v in pretrain(seed, steps).items() if not k.startswith("head.")}
    model = task.build_model()
    model.load_state_dict(base, strict=False)  # without the adapters and the head
    return model


def main():
    """Write x_0 to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("x0.safetensors"))
    parser.add_argument("--whole", action="store_true", help="of the model without adapters")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    domo.save_initial(initial_model(Whole() if args.whole else Turned(), args.seed), args.out)


if __name__ == "__main__":
    main()
