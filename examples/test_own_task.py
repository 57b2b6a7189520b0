"""A test of your own task: a real coordinator in this process, a real silo, two rounds.

pytest examples/test_own_task.py
"""

import numpy as np

import domo_client.testing
import domo_server.testing
from examples.own_task import OwnTask


def test_own_task_in_a_federation(tmp_path):
    """It takes part, its numbers arrive, and nothing in it is random without a seed."""
    source = np.random.default_rng(0)
    for part, size in (("train", 100), ("test", 20)):
        inputs = source.random((size, 1, 8, 8), dtype="float32")
        np.savez(tmp_path / part, inputs=inputs, labels=source.integers(10, size=size))

    with domo_server.testing.coordinator(task=OwnTask()) as coordinator:
        tried = domo_client.testing.try_task(OwnTask(), tmp_path, coordinator.address)

    assert tried.losses[1] < tried.losses[0]
    assert [sorted(m) for m in tried.metrics] == [["accuracy"]] * 3  # x_0, x_1, x_2
    assert tried.notes == ()
