"""Every random choice is a function of where it is made: (seed, silo, round, step, purpose)."""

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def seed_for(run_seed: int, silo_id: str, round_index: int, step: int, purpose: str) -> int:
    """A seed in [0, 2^63) for one use of randomness."""
    text = f"{run_seed}|{silo_id}|{round_index}|{step}|{purpose}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator_for(*where: Any) -> "torch.Generator":
    """A CPU generator seeded with `seed_for(*where)`."""
    import torch  # here: whoever only reads a config shall not wait for it

    return torch.Generator().manual_seed(seed_for(*where))
