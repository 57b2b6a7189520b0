"""A short form of experiments/quick_comparison.py: the point of the paper in half a minute."""

from pathlib import Path

import pytest

from domo.commands.compare import Setting, compare
from domo.run_config import RunConfig
from domo.tasks.datasets import DEBIAN_FASHION, FASHION_FILES

HAVE_DATA = (DEBIAN_FASHION / FASHION_FILES[True][0]).is_file()


@pytest.mark.slow
@pytest.mark.skipif(not HAVE_DATA, reason="needs the Debian package dataset-fashion-mnist")
def test_domo_is_above_fedavg_after_few_rounds(tmp_path: Path):
    config = RunConfig(
        task="fashion-mnist",
        num_rounds=6,
        num_silos=16,
        local_epochs=2,
        local_lr=0.1,
        weight_decay=5e-4,
        evaluate_every=6,
    )
    c = compare(Setting(config, tmp_path), ("FedAvg", "DOMO"), (0,))
    (fedavg,), (domo,) = c.finals("FedAvg"), c.finals("DOMO")
    assert fedavg > 0.6
    assert domo > fedavg + 0.01
