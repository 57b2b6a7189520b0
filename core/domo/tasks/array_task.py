"""A classifier on arrays; a silo's own data is a folder with train.npz and test.npz."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import nn

from domo.errors import DataError
from domo.inputs.form import InputForm
from domo.outside.text import saying
from domo.tasks.arrays import check_folder, left_beside, read_arrays
from domo.tasks.base import (
    VERSION,
    ArrayDataset,
    Shard,
    classification_sums,
    cross_entropy_loss,
)
from domo.tasks.datasets import Public
from domo.tasks.shards import eval_shard, train_shard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArrayTask:
    """A classifier on arrays; a silo's own data is a folder with train.npz and test.npz.

    Attributes:
        build_model: Makes the model.
        public: Reads the public dataset, given a folder.
        shape: Shape of one input.
        classes: Class names in the order of their numbers.
    """

    build_model: Callable[[], nn.Module]
    public: Callable[[Path], Public]
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    version: ClassVar[str] = VERSION

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    @property
    def input_form(self) -> InputForm:
        """What one input is; its values are taken as they lie in the files."""
        return InputForm(self.shape, dtype="float32")

    @property
    def data_hint(self) -> str:
        """What `--data` should hold."""
        shape = ", ".join(map(str, self.shape))
        return (
            f"train.npz and test.npz with inputs (N, {shape}), float32, and labels (N,), int64, in "
            f"0..{len(self.classes) - 1}; `domo data split` makes such folders"
        )

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        """A shard of the public training set, or (None) root/train.npz.

        Raises:
            TaskError: The data cannot be read, or does not fit the model.
            ConfigError: No such shard.
        """
        if shard is not None:
            return train_shard(self.public(root).train, shard)
        check_folder(root, self.data_hint)
        path = root / "train.npz"
        if not path.is_file():
            there = left_beside(root)
            also = f"; {there}" if there else ""
            text = f"It should hold {self.data_hint}"
            raise saying(
                DataError(f"there is no train.npz in {root}. {text}{also}"),
                f"there is no train.npz in the data folder. {text}",
            )
        data = read_arrays(path, self.shape, len(self.classes))
        if note := left_beside(root):
            logger.warning("%s", note)
            data.notes = [note]
        return data

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset | None:
        """A shard of the public test set, or (None) root/test.npz, which may be absent.

        Raises:
            TaskError: The data cannot be read, or does not fit the model.
            ConfigError: No such shard.
        """
        if shard is not None:
            return eval_shard(self.public(root).test, shard)
        check_folder(root, self.data_hint)
        path = root / "test.npz"
        if not path.is_file():
            logger.info("there is no test.npz in %s: nothing to evaluate on", root)
            return None
        return read_arrays(path, self.shape, len(self.classes))
