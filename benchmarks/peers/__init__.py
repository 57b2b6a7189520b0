"""What a round costs in other systems that train across silos: Flower and NVIDIA FLARE.

Each peer is set up as its own documentation says, as separate processes on this machine, and does
the same nothing: every silo adds a constant to the model and returns it.

    python -m benchmarks.peers flower tiny 2 --rounds 4

The peers are installed on first use, each into a virtual environment of its own, as not all of
them can share one with domo: Flower 1.42 wants protobuf below 7.
"""
