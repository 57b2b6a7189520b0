"""A task whose rounds a test can hold: it trains round r once no file hold-r is in its folder."""

import time
from pathlib import Path

from domo.tasks.base import ArrayDataset, Shard
from tests.support.tasks.unequal import UnequalTask


class GatedTask(UnequalTask):
    """Leaves a file training-r as it begins round r."""

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        self.root = root
        return super().train_data(root, shard)

    looked_at = False

    def batch_plan(self, round_index: int, num_steps: int) -> None:
        """Wait; then the seeded order, as without a plan."""
        if round_index == 0 and not self.looked_at:  # the look before the run
            self.looked_at = True
            return
        (self.root / f"training-{round_index}").touch()
        while (self.root / f"hold-{round_index}").exists():
            time.sleep(0.02)
