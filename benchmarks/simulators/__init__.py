"""Silo-steps per second: our simulators beside plain PyTorch loops and peers, in one run.

    python -m benchmarks.simulators [--models mlp,cnn8,cnn,resnet20] [--only exact,...,flower,pfl]
        [--turns 12] [--data data] [--json out.json]

Each contender is a process of its own with one torch thread, and is ready before the first figure
is taken. Then they take turns, in rotating order: a turn is one round of a federation, all K silos
with P steps each and the server's step, without a test of the model. So whatever else the machine
does meets all of them alike. A figure is the median over the turns; a ratio is the median of (this
contender / the plain indexed loop of the same turn). Seconds are CPU-seconds of the process and of
those that it starts, and wall seconds beside them: what works on several cores is compared by the
latter.

All train the same model on the same shards with momentum SGD; all but ours are FedAvg with
local momentum and server momentum, as one would write them down:

    exact      domo.simulate, DOMO: what a deployed federation ends with, byte by byte
    batched    the same with --mode batched: equal within float tolerance, not in bytes
    processes  as exact, silos over two processes
    indexed    batches are rows of a tensor in memory: inputs[order[i : i + b]]
    loader     torch's DataLoader over a TensorDataset, shuffle=True
    flower     Flower's simulation on Ray, a process a core; a silo is the indexed loop
    pfl        Apple's pfl-research, its simulated backend in one process; batches are always the
               same slices, which it keeps

A further contender is a row of `contenders.CONTENDERS`: a function that trains and calls
`turn(steps)` after each round. A peer is a script in `peers`, run with an interpreter of its own,
into which it is installed on first use (6 GB each: torch); `--only` names peers.
"""
