"""What a peer is given: settings, a silo's data, the model. Needs numpy and torch, and no domo."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Given:
    """What lies in the folder that a peer's script is called with."""

    def __init__(self, folder: str):
        self.folder = Path(folder)
        self.settings: dict[str, Any] = json.loads((self.folder / "given.json").read_text())

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["settings"][name]
        except KeyError:
            raise AttributeError(name) from None

    def silo(self, k: int) -> tuple[Tensor, Tensor]:
        """All samples of a silo, in memory."""
        with np.load(self.folder / f"silo-{k}.npz") as arrays:
            return torch.from_numpy(arrays["inputs"]), torch.from_numpy(arrays["labels"])

    def build_model(self) -> nn.Module:
        """The model that all contenders train, by our file of models alone."""
        torch.manual_seed(0)
        spec = importlib.util.spec_from_file_location("domo_models", self.models)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        name, *args = self.model
        made: nn.Module = getattr(module, name)(*args)
        return made
