import os
from pathlib import Path

import torch

from domo.tasks import datasets
from domo_client.leftovers import give_back, process_as_it_was


def test_folder_and_defaults_are_the_next_runs_as_they_were(tmp_path: Path) -> None:
    folder = Path.cwd()
    with process_as_it_was():
        os.chdir(tmp_path)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
    assert Path.cwd() == folder
    assert torch.get_default_dtype() == torch.float32
    assert torch.ones(1).device.type == "cpu"
    assert torch.is_grad_enabled()


def test_datasets_that_were_read_are_let_go() -> None:
    datasets.digits()
    give_back()
    assert datasets.digits.cache_info().currsize == 0
