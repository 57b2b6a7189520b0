"""A client that adds its constant to what it got and returns it at once."""

# Runs where the peer is installed, not domo.
# mypy: ignore-errors

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from roundtrip.plan import Plan

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one message.

    The constants differ, as Flower stores equal arrays once: equal replies would cost less.
    """
    constant = Plan.read().constants[int(context.node_config["partition-id"])]
    received = message.content["arrays"]
    changed = {name: Array(array.numpy() + constant) for name, array in received.items()}
    content = RecordDict(
        {"arrays": ArrayRecord(changed), "metrics": MetricRecord({"num-examples": 1})}
    )
    return Message(content=content, reply_to=message)
