"""The tasks that ship with domo: a model on arrays, or a model on images."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import nn

from domo.inputs.images import ImageSettings
from domo.meaning.value import MAX_CLASSES
from domo.outside.text import task_error
from domo.tasks import datasets, models
from domo.tasks.array_task import ArrayTask
from domo.tasks.augment import augmentation
from domo.tasks.image_task import ImageTask, read_images_once


def digits() -> ArrayTask:
    """Small CNN on 8x8 digits."""
    return ArrayTask(models.small_cnn, _digits, (1, 8, 8), datasets.DIGITS)


def _digits(root: Path) -> datasets.Public:
    del root  # they are in the package
    return datasets.digits()


def fashion_mnist() -> ArrayTask:
    """MLP on 14x14 Fashion-MNIST, 10,240 training images."""
    return ArrayTask(
        models.mlp, datasets.fashion_mnist_quick, (1, 14, 14), datasets.FASHION_CLASSES
    )


def fashion_mnist_quick_cnn() -> ArrayTask:
    """Small CNN on 14x14 Fashion-MNIST, 10,240 training images."""
    model = partial(models.small_cnn, 1, 14)
    return ArrayTask(model, datasets.fashion_mnist_quick, (1, 14, 14), datasets.FASHION_CLASSES)


def fashion_mnist_cnn() -> ArrayTask:
    """Small CNN on 28x28 Fashion-MNIST."""
    model = partial(models.small_cnn, 1, 28)
    return ArrayTask(model, datasets.fashion_mnist, (1, 28, 28), datasets.FASHION_CLASSES)


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
    return ImageTask(models.resnet20, datasets.SVHN, datasets.DIGITS, datasets.svhn)


def image_folder(num_classes: int | None = None, images: ImageSettings | None = None) -> ImageTask:
    """Small CNN on any folder of images, squeezed to 32x32 pixels where the run says no other.

    The number of classes is part of the task's name (`imagefolder:10`), which the run's config
    carries to every silo: so the coordinator builds x_0 without data, and each silo sees that its
    folder has as many. Labels follow root/classes.txt, or the sorted names of the class folders.

    Raises:
        TaskError: No number of classes, fewer than 2, or more than can be meant.
    """
    if num_classes is None or num_classes < 2:
        raise task_error("imagefolder needs the number of classes in its name: imagefolder:10")
    if num_classes > MAX_CLASSES:
        raise task_error(f"imagefolder:{num_classes}: a task has {MAX_CLASSES} classes at most")
    images = images or ImageSettings()
    size = images.height, images.width
    model = partial(models.small_cnn, images.channels, size, num_classes, (32, 64))
    statistics = datasets.PHOTOS if images.channels == 3 else datasets.GREY_PHOTOS
    return ImageTask(model, statistics, num_classes=num_classes, images=images)


def forget_data() -> None:
    """Give back the memory of public datasets and shared folders that were read."""
    readers = (
        datasets.digits,
        datasets.fashion_mnist,
        datasets.fashion_mnist_quick,
        datasets.cifar10,
        datasets.cifar100,
        datasets.svhn,
        read_images_once,
    )
    for reader in readers:
        reader.cache_clear()
