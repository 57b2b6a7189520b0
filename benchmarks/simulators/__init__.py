"""Silo-steps per second: the exact simulator beside plain PyTorch loops, in one run.

    python -m benchmarks.simulators [--models mlp,cnn] [--turns 12] [--data data] [--json out.json]

Each contender is a process of its own with one torch thread, and is ready before the first figure
is taken. Then they take turns, in rotating order: a turn is one round of a federation, all K silos
with P steps each and the server's step, without a test of the model. So whatever else the machine
does meets all of them alike. A figure is the median over the turns; a ratio is the median of (this
contender / the plain indexed loop of the same turn). Seconds are CPU-seconds of the process, and
wall seconds beside them: what works on several cores is compared by the latter.

All train the same model on the same shards with momentum SGD; the plain loops are FedAvg with
local momentum and server momentum, as one would write them down:

    exact      domo.simulate, DOMO: what a deployed federation ends with, byte by byte
    batched    the same with --mode batched: exact but for rounding
    indexed    batches are rows of a tensor in memory: inputs[order[i : i + b]]
    loader     torch's DataLoader over a TensorDataset, shuffle=True

A further contender is a row of `contenders.CONTENDERS`: a function that trains and calls
`turn(steps)` after each round. What cannot be imported here is started by such a function as a
command, and its rounds are said for it.
"""
