"""A classifier on images; a silo's own data is a folder of images for each class."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from torch import nn

from domo.errors import DataError
from domo.inputs.form import InputForm
from domo.inputs.images import ImageSettings
from domo.meaning.value import Meaning
from domo.names import shown
from domo.outside.text import saying, task_error
from domo.tasks.arrays import check_folder
from domo.tasks.augment import Augment
from domo.tasks.base import (
    VERSION,
    ArrayDataset,
    Shard,
    Task,
    classification_sums,
    cross_entropy_loss,
)
from domo.tasks.datasets import PixelDataset, Public, Statistics
from domo.tasks.images.finding import class_names, image_files, say_names
from domo.tasks.images.folders import Part, is_image_tree, parts_of
from domo.tasks.images.reading import read
from domo.tasks.shards import eval_shard, train_shard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageTask:
    """A classifier on images; a silo's own data is a folder of images for each class.

    Attributes:
        build_model: Makes the model.
        statistics: What images are standardised with.
        classes: Class names in the order of their numbers; None: those of the folder.
        public: Reads the public dataset, given a folder; None: there is none.
        augment: Random augmentation, if any.
        num_classes: How many classes the model tells apart.
        images: How files become inputs.
    """

    build_model: Callable[[], nn.Module]
    statistics: Statistics
    classes: tuple[str, ...] | None = None
    public: Callable[[Path], Public] | None = None
    augment: Augment | None = None
    num_classes: int = 10
    images: ImageSettings = field(default_factory=ImageSettings)

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    @property
    def input_form(self) -> InputForm:
        """What one input is."""
        return InputForm(
            self.images.shape,
            channels="RGB" if self.images.channels == 3 else "L",
            dtype="float32",
            values="0..1",
            aspect=self.images.aspect,
            value_range=self.images.range,
            mean=self.statistics.mean,
            std=self.statistics.std,
        )

    def meaning(self, root: Path, shard: Shard | None) -> Meaning:
        """What the numbers stand for; the classes are the folder's, where the task has none.

        Raises:
            TaskError: The classes cannot be read, or are not the task's.
        """
        names = self.classes
        if shard is None or (names is None and self.reads_images(root)):
            check_folder(root, self.data_hint)
            known, names = names, tuple(class_names(root, names, self.num_classes))
            if known is None:
                say_names(root, names)
        return Meaning(classes=names or (), input=self.input_form, version=VERSION)

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
            text = f". It should hold {self.data_hint}"
            raise saying(
                DataError(f"no training images in {root}{text}"),
                f"no training images in the data folder{text}",
            )
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

    def splits_itself(self, root: Path) -> bool:
        """Whether test images are held out of the training images, as there is no part for them."""
        parts = parts_of(root)
        return self.reads_images(root) and not (parts.train or parts.test)

    def whole(self, root: Path, part: Part) -> ArrayDataset:
        """All of a part, before it is dealt out: images in root, else the public dataset.

        Raises:
            TaskError: It cannot be read.
        """
        if self.public is not None and not self.reads_images(root):
            public = self.public(root)
            return public.train if part == "train" else public.test
        check_folder(root, self.data_hint)
        return read_images_once(
            root, part, self.classes, self.num_classes, self.statistics, self.images
        )

    def own_images(self, root: Path, part: Part) -> PixelDataset:
        """The images of one part of a folder of images, in memory.

        Raises:
            TaskError: They cannot be read, or their classes are not the task's.
        """
        check_folder(root, self.data_hint)
        return _read_images(
            root, part, self.classes, self.num_classes, self.statistics, self.images
        )


def _read_images(
    root: Path,
    part: Part,
    classes: tuple[str, ...] | None,
    num_classes: int,
    statistics: Statistics,
    images: ImageSettings,
) -> PixelDataset:
    names = class_names(root, classes, num_classes)
    found = image_files(root, part, names)
    where = shown(found.folder)
    made = read(found.files, images, where)
    for note in made.notes:
        logger.warning("%s", note)
    data = PixelDataset(made.pixels, made.labels, *statistics)
    data.classes, data.facts, data.notes = names, made.facts, found.notes + made.notes
    return data


read_images_once = lru_cache(maxsize=4)(_read_images)
"""For shards: many silos of a simulation share one folder, which does not change."""


def with_images(task: Task, name: str, images: ImageSettings) -> ImageTask:
    """A named task whose model is fixed, with the image settings of a run.

    Raises:
        TaskError: It reads no folders of images, or its model takes images of another form.
    """
    if not isinstance(task, ImageTask):
        raise task_error(f"images: the task {name} reads no folders of images: leave them out")
    if images.shape != task.images.shape:
        shapes = ("x".join(map(str, s)) for s in (task.images.shape, images.shape))
        raise task_error(
            f"images: the model of {name} takes {next(shapes)} (channels, height, width), and the "
            f"run asks for {next(shapes)}: leave size and channels out, or take imagefolder:"
            f"{task.num_classes}"
        )
    return replace(task, images=images)


def with_classes(task: Task, classes: tuple[str, ...] | None) -> Task:
    """A task whose silos number classes by the run's list, where it goes by their folders else."""
    if classes is None or not isinstance(task, ImageTask) or task.classes is not None:
        return task
    return replace(task, classes=classes)
