"""A silo of Flower, as one would write it down: samples in memory, a batch is rows of a tensor."""

import os

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from given import Given
from torch.nn import functional

FOLDER = "DOMO_BENCH_FOLDER"
KEPT = {}
"""What this process has read: settings, the model, silos."""

app = ClientApp()


def had(k):
    """Settings, model and data, read once a process."""
    if not KEPT:
        torch.set_num_threads(1)
        KEPT["given"] = Given(os.environ[FOLDER])
        KEPT["model"] = KEPT["given"].build_model()
    if k not in KEPT:
        KEPT[k] = KEPT["given"].silo(k)
    return KEPT["given"], KEPT["model"], KEPT[k]


@app.train()
def train(message: Message, context: Context) -> Message:
    """P local steps of momentum SGD."""
    given, model, (inputs, labels) = had(int(context.node_config["partition-id"]))
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    opt = torch.optim.SGD(
        model.parameters(),
        given.local_lr,
        momentum=given.local_momentum,
        weight_decay=given.weight_decay,
    )
    done = 0
    while done < given.num_steps:
        order = torch.randperm(len(labels))
        for i in range(0, len(labels), given.batch_size):
            where = order[i : i + given.batch_size]
            loss = functional.cross_entropy(model(inputs[where]), labels[where])
            opt.zero_grad()
            loss.backward()
            opt.step()
            done += 1
            if done == given.num_steps:
                break
    reply = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(labels), "steps": done}),
    }
    return Message(content=RecordDict(reply), reply_to=message)
