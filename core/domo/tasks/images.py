"""A folder of images as a dataset: one folder for each class, the form that silos really have."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps
from rich.console import Console
from rich.progress import track
from torch import Tensor

from domo.errors import DataError
from domo.inputs.images import ImageSettings

logger = logging.getLogger(__name__)

Part = Literal["train", "test"]
T = TypeVar("T")
IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
HELD_OUT = 0.1
"""Share of the images kept for evaluation where a folder has no part for it."""


def progress(items: Sequence[T], description: str, show_from: int = 2000) -> Iterable[T]:
    """Go through items behind a progress bar, on a terminal and where there are enough of them."""
    console = Console(stderr=True)
    hidden = len(items) < show_from or not console.is_terminal
    return track(items, description, console=console, disable=hidden, transient=True)


class LabelledFile(NamedTuple):
    """An image file, the path below its class folder, and the class number."""

    path: Path
    name: Path
    label: int


def class_names(
    root: Path, known: Sequence[str] | None = None, num_classes: int | None = None
) -> list[str]:
    """The classes of an image folder, in the order of their numbers.

    They are the known ones, or else the lines of root/classes.txt, or else the names of the class
    folders, sorted.

    Args:
        root: The data folder.
        known: Classes of the task, where it has fixed ones.
        num_classes: How many there must be.

    Raises:
        DataError: classes.txt differs from the known classes, or their number is wrong.
    """
    listed = root / "classes.txt"
    names = None
    if listed.is_file():
        lines = listed.read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
        if known is not None and names != list(known):
            odd = sorted(set(names) ^ set(known))
            what = f"they differ in {', '.join(odd[:3])}" if odd else "the order differs"
            raise DataError(f"{listed} does not list the classes of the task: {what}")
        if len(set(names)) < len(names):
            raise DataError(f"{listed} names a class twice")
    if known is not None:
        return list(known)
    source = str(listed)
    if names is None:
        parts = [p for p in (_part_folder(root, "train"), _part_folder(root, "test")) if p]
        names = sorted({f.name for p in parts or [root] for f in _folders(p)})
        source = f"{root} (by its class folders)"
        logger.info("classes by folder name: %s", ", ".join(names))
    if num_classes is not None and len(names) != num_classes:
        raise DataError(
            f"{source} has {len(names)} classes, the task has {num_classes}. Where a silo lacks "
            f"images of a class, put a classes.txt with all class names, one a line, into {root}"
        )
    return names


def image_files(root: Path, part: Part, classes: Sequence[str]) -> list[LabelledFile]:
    """The images of one part of an image folder, by class and name.

    root/train/CLASS and root/test/CLASS (or root/val/CLASS) hold the two parts. Where class
    folders lie in root itself, one image in ten is held out as the test part; which ones depends
    on their names alone.

    Args:
        root: The data folder.
        part: Which part.
        classes: Class names in the order of their numbers.

    Returns:
        Its images; none where only the other part is there.

    Raises:
        DataError: A folder that is no class, or no images.
    """
    if _part_folder(root, "train") or _part_folder(root, "test"):
        folder = _part_folder(root, part)
        return _list_images(folder, classes) if folder else []
    files = _list_images(root, classes)
    keyed = sorted(files, key=lambda f: _name_key(f"{classes[f.label]}/{f.name.as_posix()}"))
    held_out = set(keyed[: max(1, round(HELD_OUT * len(files)))] if len(files) > 1 else [])
    logger.info(
        "%s has no train and test folders: %d of %d images are held out for evaluation",
        root,
        len(held_out),
        len(files),
    )
    return [f for f in files if (f in held_out) == (part == "test")]


def decode(files: Sequence[LabelledFile], images: ImageSettings) -> tuple[Tensor, Tensor]:
    """Read image files as the settings say.

    Returns:
        Pixels of shape (N, channels, height, width), uint8, and labels of shape (N,), int64.

    Raises:
        DataError: Names the file that cannot be read as an image.
    """
    pixels = np.empty((len(files), *images.shape), np.uint8)
    mode = "RGB" if images.channels == 3 else "L"
    for i, file in enumerate(progress(files, "reading images")):
        try:
            with Image.open(file.path) as opened:
                image = opened.convert(mode)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"{file.path} cannot be read as an image: {error}") from error
        pixels[i] = np.atleast_3d(np.asarray(fit(image, images))).transpose(2, 0, 1)
    return torch.from_numpy(pixels), torch.tensor([f.label for f in files], dtype=torch.int64)


def fit(image: Image.Image, images: ImageSettings) -> Image.Image:
    """An image of the settings' size; one that has it already is as it was."""
    size = images.width, images.height
    if image.size == size:
        return image
    if images.aspect == "pad":
        return ImageOps.pad(image, size, Image.Resampling.BILINEAR)
    if images.aspect == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    return image.resize(size, Image.Resampling.BILINEAR)


def is_image_tree(root: Path, classes: Sequence[str] | None = None) -> bool:
    """Whether root looks like a folder of images: has a train or test part, or class folders."""
    parts = _part_folder(root, "train") or _part_folder(root, "test")
    return parts is not None or any((root / name).is_dir() for name in classes or ())


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and p.name[0] not in "._")


def _part_folder(root: Path, part: Part) -> Path | None:
    """root/train, root/test or root/val; it must hold folders (CIFAR-100 has a class "train")."""
    for name in ("train",) if part == "train" else ("test", "val"):
        if (root / name).is_dir() and _folders(root / name):
            return root / name
    return None


def _list_images(folder: Path, classes: Sequence[str]) -> list[LabelledFile]:
    numbers = {name: i for i, name in enumerate(classes)}
    files = []
    for sub in _folders(folder):
        if sub.name not in numbers:
            raise DataError(_unknown_class(sub, classes))
        found = (p for p in sub.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES)
        label = numbers[sub.name]
        files += [LabelledFile(p, p.relative_to(sub), label) for p in sorted(found)]
    if not files:
        kinds = ", ".join(sorted(s[1:] for s in IMAGE_SUFFIXES))
        raise DataError(f"no images in {folder}/CLASS/; files ending in {kinds} are read")
    return files


def _unknown_class(folder: Path, classes: Sequence[str]) -> str:
    if is_image_tree(folder):
        return f"the class folders lie one level down; give --data {folder}"
    near = get_close_matches(folder.name, classes, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    shown = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
    return f"{folder} is not a class of the task.{hint} The classes are {shown}"


def _name_key(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
