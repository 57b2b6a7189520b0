"""The kinds of task that ship with domo: a model on arrays, and a model on 3x32x32 images."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from torch import nn

from domo.errors import DataError, TaskError
from domo.tasks import datasets, models
from domo.tasks.arrays import check_folder, read_arrays
from domo.tasks.augment import Augment, augmentation
from domo.tasks.base import ArrayDataset, Shard, classification_sums, cross_entropy_loss
from domo.tasks.datasets import PixelDataset, Public, Statistics
from domo.tasks.images import Part, class_names, decode, image_files, is_image_tree
from domo.tasks.shards import eval_shard, train_shard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArrayTask:
    """A classifier on arrays; a silo's own data is a folder with train.npz and test.npz.

    Attributes:
        build_model: Makes the model.
        public: Reads the public dataset, given a folder.
        shape: Shape of one input.
        num_classes: Labels are 0..num_classes-1.
    """

    build_model: Callable[[], nn.Module]
    public: Callable[[Path], Public]
    shape: tuple[int, ...]
    num_classes: int = 10

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    @property
    def data_hint(self) -> str:
        """What `--data` should hold."""
        shape = ", ".join(map(str, self.shape))
        return (
            f"train.npz and test.npz with inputs (N, {shape}), float32, and labels (N,), int64, in "
            f"0..{self.num_classes - 1}; `domo data split` makes such folders"
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
            raise DataError(f"there is no train.npz in {root}. It should hold {self.data_hint}")
        return read_arrays(path, self.shape, self.num_classes)

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
        return read_arrays(path, self.shape, self.num_classes)


@dataclass(frozen=True)
class ImageTask:
    """A classifier on 3x32x32 images; a silo's own data is a folder of images for each class.

    Attributes:
        build_model: Makes the model.
        statistics: What images are standardised with.
        classes: Class names in the order of their numbers; None: those of the folder.
        public: Reads the public dataset, given a folder; None: there is none.
        augment: Random augmentation, if any.
        num_classes: How many classes the model tells apart.
    """

    build_model: Callable[[], nn.Module]
    statistics: Statistics
    classes: tuple[str, ...] | None = None
    public: Callable[[Path], Public] | None = None
    augment: Augment | None = None
    num_classes: int = 10

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    @property
    def data_hint(self) -> str:
        """What `--data` should hold."""
        names = f", CLASS being {', '.join(self.classes[:3])}, ..." if self.classes else ""
        return (
            f"train/CLASS/*.png and test/CLASS/*.png (or .jpg){names}; {self.num_classes} classes"
        )

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        """A shard of the public training set or of the images in root, or (None) all of those.

        Raises:
            TaskError: The images cannot be read, or their classes are not the task's.
            ConfigError: No such shard.
        """
        if shard is not None:
            return train_shard(self.whole(root, "train"), shard)
        data = self.own_images(root, "train")
        if not len(data):
            raise DataError(f"no training images in {root}. It should hold {self.data_hint}")
        return data

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset | None:
        """A shard of the test set, or (None) the silo's own test images, if it has any.

        Raises:
            TaskError: The images cannot be read, or their classes are not the task's.
            ConfigError: No such shard.
        """
        if shard is not None:
            return eval_shard(self.whole(root, "test"), shard)
        data = self.own_images(root, "test")
        if not len(data):
            logger.info("there is no test folder in %s: nothing to evaluate on", root)
            return None
        return data

    def reads_images(self, root: Path) -> bool:
        """Whether root is a folder of images rather than where torchvision keeps the dataset."""
        return self.public is None or (root.is_dir() and is_image_tree(root, self.classes))

    def whole(self, root: Path, part: Part) -> ArrayDataset:
        """All of a part, before it is dealt out: images in root, else the public dataset.

        Raises:
            TaskError: It cannot be read.
        """
        if self.public is not None and not self.reads_images(root):
            public = self.public(root)
            return public.train if part == "train" else public.test
        check_folder(root, self.data_hint)
        return _read_images_once(root, part, self.classes, self.num_classes, self.statistics)

    def own_images(self, root: Path, part: Part) -> PixelDataset:
        """The images of one part of a folder of images, in memory.

        Raises:
            TaskError: They cannot be read, or their classes are not the task's.
        """
        check_folder(root, self.data_hint)
        return _read_images(root, part, self.classes, self.num_classes, self.statistics)


def _read_images(
    root: Path,
    part: Part,
    classes: tuple[str, ...] | None,
    num_classes: int,
    statistics: Statistics,
) -> PixelDataset:
    names = class_names(root, classes, num_classes)
    return PixelDataset(*decode(image_files(root, part, names)), *statistics)


_read_images_once = lru_cache(maxsize=4)(_read_images)
"""For shards: many silos of a simulation share one folder, which does not change."""


def digits() -> ArrayTask:
    """Small CNN on 8x8 digits."""
    return ArrayTask(models.small_cnn, lambda root: datasets.digits(), (1, 8, 8))


def fashion_mnist() -> ArrayTask:
    """MLP on 14x14 Fashion-MNIST, 10,240 training images."""
    return ArrayTask(models.mlp, datasets.fashion_mnist_quick, (1, 14, 14))


def fashion_mnist_cnn() -> ArrayTask:
    """Small CNN on 28x28 Fashion-MNIST."""
    return ArrayTask(partial(models.small_cnn, 1, 28), datasets.fashion_mnist, (1, 28, 28))


def cifar10(model: Callable[[int], nn.Module]) -> ImageTask:
    """CIFAR-10 with the paper's augmentation."""
    return ImageTask(
        partial(model, 10),
        datasets.CIFAR10,
        datasets.CIFAR10_CLASSES,
        datasets.cifar10,
        augmentation(*datasets.CIFAR10),
    )


def cifar100(model: Callable[[int], nn.Module]) -> ImageTask:
    """CIFAR-100 with the paper's augmentation."""
    return ImageTask(
        partial(model, 100),
        datasets.CIFAR100,
        datasets.CIFAR100_CLASSES,
        datasets.cifar100,
        augmentation(*datasets.CIFAR100),
        100,
    )


def cifar_cnn(num_classes: int) -> nn.Module:
    """The small CNN for 3x32x32 images."""
    return models.small_cnn(3, 32, num_classes, widths=(32, 64))


def svhn_resnet20() -> ImageTask:
    """ResNet-20 on SVHN, without augmentation."""
    return ImageTask(models.resnet20, datasets.SVHN, datasets.SVHN_CLASSES, datasets.svhn)


def image_folder(num_classes: int | None = None) -> ImageTask:
    """Small CNN on any folder of images, squeezed to 32x32 pixels.

    The number of classes is part of the task's name (`imagefolder:10`), which the run's config
    carries to every silo: so the coordinator builds x_0 without data, and each silo sees that its
    folder has as many. Labels follow root/classes.txt, or the sorted names of the class folders.

    Raises:
        TaskError: No number of classes, or fewer than 2.
    """
    if num_classes is None or num_classes < 2:
        raise TaskError("imagefolder needs the number of classes in its name: imagefolder:10")
    return ImageTask(partial(cifar_cnn, num_classes), datasets.PHOTOS, num_classes=num_classes)
