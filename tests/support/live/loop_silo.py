"""A silo process with a loop of its own on a linear model.

`python -m tests.support.live.loop_silo ...`

Prints one JSON line for each round (seconds since the start: model held, update accepted) and one
at the end.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

import domo_client
from domo.tasks.base import ArrayDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("name")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--shape", type=int, nargs=2, default=(1000, 2000))
    parser.add_argument("--value", type=float, default=1.0, help="of all inputs")
    parser.add_argument("--pause-s", type=float, default=0.0, help="of local training")
    args = parser.parse_args()
    start = time.monotonic()

    def say(**what: object) -> None:
        sys.stdout.write(json.dumps({"at": round(time.monotonic() - start, 3), **what}) + "\n")
        sys.stdout.flush()

    model = nn.Linear(*args.shape, bias=False)
    data = ArrayDataset(
        torch.full((1, args.shape[0]), args.value), torch.zeros(1, dtype=torch.int64)
    )
    with domo_client.connect(
        args.address,
        args.name,
        state_dir=args.state_dir,
        on_trouble=lambda text: say(event="trouble", text=text),
    ) as silo:
        say(event="joined")
        silo.on_sent = lambda rnd, state, text: say(
            event="sent", round=rnd.round_index, state=state, text=text
        )
        for rnd in silo.rounds(model, samples=1):
            say(event="holds", round=rnd.round_index)
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                time.sleep(args.pause_s)
                opt.step()
                opt.zero_grad()
            say(event="trained", round=rnd.round_index)
        assert silo.outcome is not None
        wire = silo.connection.counts
        say(
            event="ended",
            state=silo.outcome.state,
            clock=time.time(),
            sent=wire.bytes_sent,
            received=wire.bytes_received,
        )


if __name__ == "__main__":
    main()
