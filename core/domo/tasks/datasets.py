"""Public datasets in memory: training and test set, standardised, read once in a process.

Digits is inside the package. The others are looked for on disk and else downloaded by torchvision.
"""

import gzip
import logging
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from domo.errors import DataError
from domo.tasks.base import ArrayDataset
from domo.tasks.shards import select

logger = logging.getLogger(__name__)

FASHION_FILES = {
    True: ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    False: ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")
QUICK_SIZE = 10_240
"""Training images of the quick comparison."""

# class names, in the order of their numbers
CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
CIFAR100_CLASSES = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
    cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
    lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()  # noqa: SIM905
)
DIGITS = tuple("0123456789")
FASHION_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


class Public(NamedTuple):
    """A public dataset."""

    train: ArrayDataset
    test: ArrayDataset


class PixelDataset(ArrayDataset):
    """Images kept as they were read; items are standardised float32.

    Args:
        pixels: Shape (N, C, H, W), uint8, or float32 in 0..255.
        labels: Shape (N,), int64.
        mean: For each channel, in units of the pixel range 0..1.
        std: For each channel, in the same units.

    Attributes:
        classes: Names of the labels; empty where they are not known.
    """

    def __init__(self, pixels: Tensor, labels: Tensor, mean: Sequence[float], std: Sequence[float]):
        super().__init__(pixels, labels)
        self.classes: Sequence[str] = ()
        self.mean = 255 * torch.tensor(mean).view(-1, 1, 1)
        self.std = 255 * torch.tensor(std).view(-1, 1, 1)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return (self.inputs[index] - self.mean) / self.std, self.labels[index]

    def stacked(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch of these items, standardised."""
        where = torch.as_tensor(indices)
        return (self.inputs[where] - self.mean) / self.std, self.labels[where]


def standardised(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets with the mean of the training set taken off, over its standard deviation."""
    mean, std = train.mean(), train.std()
    return (train - mean) / std, (test - mean) / std


@lru_cache(maxsize=1)
def digits() -> Public:
    """1,437 training and 360 test images of handwritten digits, shape (1, 8, 8).

    `digits.npz` beside this file holds the 1,797 images and labels of scikit-learn's
    `load_digits`, in a random order that is part of the file. They are the test part of "Optical
    Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
    1998, doi:10.24432/C50P49), licensed under CC BY 4.0; the order and the file form are changed.
    """
    file = resources.files("domo.tasks") / "digits.npz"
    with file.open("rb") as f, np.load(f, allow_pickle=False) as arrays:
        data = {k: torch.from_numpy(arrays[k].astype(np.int64)) for k in arrays.files}
    images = (data[f"{part}_images"].float().unsqueeze(1) for part in ("train", "test"))
    train, test = standardised(*images)
    return Public(
        ArrayDataset(train, data["train_labels"]), ArrayDataset(test, data["test_labels"])
    )


@lru_cache(maxsize=2)
def fashion_mnist(root: Path) -> Public:
    """60,000 training and 10,000 test images of clothes, shape (1, 28, 28).

    Read from the four IDX gzip files in root, root/FashionMNIST/raw, $DOMO_FASHION_MNIST or where
    the Debian package dataset-fashion-mnist puts them; else downloaded into root.

    Raises:
        DataError: The files are damaged, or absent and cannot be downloaded.
    """
    folder = _find_fashion(root)
    parts = []
    for train in (True, False):
        images, labels = (_read_idx(folder / name) for name in FASHION_FILES[train])
        parts.append(PixelDataset(images.unsqueeze(1), labels.long(), [0.2860], [0.3530]))
    return Public(*parts)


@lru_cache(maxsize=2)
def fashion_mnist_quick(root: Path) -> Public:
    """Fashion-MNIST for quick comparisons: mean-pooled to (1, 14, 14), 10,240 training images.

    The subset is the same for every seed of a run. See `fashion_mnist` for where it is read from.

    Raises:
        DataError: As `fashion_mnist`.
    """
    full = fashion_mnist(root)
    order = torch.randperm(len(full.train), generator=torch.Generator().manual_seed(0))
    chosen = select(full.train, order[:QUICK_SIZE])
    pooled = (functional.avg_pool2d(d.inputs.float(), 2) for d in (chosen, full.test))
    train, test = standardised(*pooled)
    return Public(ArrayDataset(train, chosen.labels), ArrayDataset(test, full.test.labels))


def _find_fashion(root: Path) -> Path:
    raw = root / "FashionMNIST" / "raw"
    given = os.environ.get("DOMO_FASHION_MNIST")
    wanted = [name for names in FASHION_FILES.values() for name in names]
    for folder in (root, raw, *([Path(given)] if given else []), DEBIAN_FASHION):
        if all((folder / name).is_file() for name in wanted):
            return folder
    logger.info("downloading Fashion-MNIST (31 MB) into %s", root)
    try:
        import torchvision

        torchvision.datasets.FashionMNIST(str(root), download=True)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"Fashion-MNIST is not in {root} and could not be downloaded ({error}). Put its four "
            ".gz files there, name their folder in DOMO_FASHION_MNIST, or on Debian: "
            "apt install dataset-fashion-mnist"
        ) from error
    return raw


def _read_idx(path: Path) -> Tensor:
    """An IDX file of bytes: two zeros, type 8, number of dimensions, sizes (big endian), values."""
    try:
        content = gzip.decompress(path.read_bytes())
        rank = content[3]
        shape = np.frombuffer(content, ">u4", rank, offset=4).tolist()
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise DataError(f"{path} is not a gzipped IDX file: {error}. Fetch it again.") from error
    return torch.from_numpy(values.copy())


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel, in units of the pixel range 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR10 = Statistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = Statistics((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
SVHN = Statistics((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
PHOTOS = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Of everyday photographs: the same numbers at every silo, whatever its images are."""
GREY_PHOTOS = Statistics((0.449,), (0.226,))
"""The means of those numbers over the channels."""


@lru_cache(maxsize=2)
def cifar10(root: Path) -> Public:
    """50,000 training and 10,000 test images, shape (3, 32, 32), by torchvision.

    Raises:
        DataError: Absent and cannot be downloaded.
    """
    return _torchvision("CIFAR10", root, "170 MB", CIFAR10)


@lru_cache(maxsize=2)
def cifar100(root: Path) -> Public:
    """50,000 training and 10,000 test images of 100 classes, shape (3, 32, 32), by torchvision.

    Raises:
        DataError: Absent and cannot be downloaded.
    """
    return _torchvision("CIFAR100", root, "169 MB", CIFAR100)


@lru_cache(maxsize=2)
def svhn(root: Path) -> Public:
    """73,257 training and 26,032 test images of house numbers, shape (3, 32, 32), by torchvision.

    Raises:
        DataError: Absent and cannot be downloaded, or scipy (which reads the files) is missing.
    """
    return _torchvision("SVHN", root, "246 MB", SVHN)


def _torchvision(name: str, root: Path, size: str, statistics: Statistics) -> Public:
    import torchvision

    open_dataset = getattr(torchvision.datasets, name)
    parts = []
    for train in (True, False):
        part: dict[str, Any] = {"train": train}
        if name == "SVHN":
            part = {"split": "train" if train else "test"}
        try:
            try:
                data = open_dataset(str(root), **part)
            except RuntimeError:  # not there
                logger.info("downloading %s (%s in all) into %s", name, size, root)
                data = open_dataset(str(root), **part, download=True)
        except ImportError as error:
            raise DataError(f"{name} cannot be read: {error}. Try: pip install scipy") from error
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{name} is not in {root} and could not be downloaded: {error}. Put the files that "
                f"torchvision.datasets.{name} expects there, or a folder of images for each class."
            ) from error
        pixels = torch.from_numpy(np.ascontiguousarray(data.data))
        if pixels.shape[-1] == 3:
            pixels = pixels.permute(0, 3, 1, 2).contiguous()
        labels = torch.as_tensor(getattr(data, "targets", None) or data.labels).long()
        parts.append(PixelDataset(pixels, labels, *statistics))
    return Public(*parts)
