"""The image files of a folder, by class; and what else lies there, counted."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from domo.errors import DataError
from domo.names import shown
from domo.outside.text import saying
from domo.tasks.images.classes import (
    LISTED,
    by_case,
    check_name,
    classes_of,
    folder_names,
    listed_classes,
    nearly_listed,
    same,
    twice,
    unknown_class,
)
from domo.tasks.images.folders import (
    Part,
    beside,
    check_not_straight,
    entries,
    folders_in,
    is_folder,
    is_image_tree,
    parts_of,
    right_folder,
)
from domo.tasks.images.kinds import IMAGE_SUFFIXES, counted, is_aside, is_system
from domo.tasks.images.left_out import LeftOut
from domo.tasks.images.walk import LabelledFile, Walk

logger = logging.getLogger(__name__)

HELD_OUT = 0.1
"""Share of the images kept for evaluation where a folder has no part for it."""


class Found(NamedTuple):
    """The images of a part, and what is to be said of what else was there."""

    folder: Path
    files: list[LabelledFile]
    notes: list[str]


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
    path = root / LISTED
    names = listed_classes(path)
    if names is not None and known is not None and names != list(known):
        odd = sorted(set(names) ^ set(known))
        what = f"they differ in {', '.join(odd[:3])}" if odd else "the order differs"
        raise DataError(f"{shown(path)} does not list the classes of the task: {what}")
    if known is not None:
        return list(known)
    source = shown(path)
    if names is None:
        check_not_straight(root, None)
        parts = parts_of(root)
        there = [p for p in (parts.train, parts.test) if p]
        every = sorted({n for p in there or [root] for n in folder_names(folders_in(p))})
        if not every:
            told = "; ".join(_strays(root, []))
            raise DataError(f"no class folders in {shown(root)}" + (f"; {told}" if told else ""))
        names, source = every, f"{shown(root)} (by its class folders)"
    if num_classes is not None and len(names) != num_classes:
        has = f"{source} has {classes_of(len(names))}, the task has {num_classes}"
        lower = not path.is_file() and not is_image_tree(root)
        below = right_folder(root, None, num_classes) if lower else None
        if below is not None:
            raise DataError(
                f"{has}: the class folders lie further down; give --data {shown(below)}"
            )
        few = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        for group in by_case(names):
            few += f". By capitals alone differ {' and '.join(group)}: one class has one spelling"
        error = DataError(
            f"{has}. Where a silo lacks images of a class, put a classes.txt with all class names, "
            f"one a line, into {shown(root)}, or let the run list them as classes = [...]. "
            f"Here are: {few or 'none'}"
        )
        text = f"the data folder has {classes_of(len(names))}, the task has {num_classes}"
        raise saying(error, text)
    return names


def say_names(root: Path, names: Sequence[str]) -> None:
    """Log the classes that the folders gave, where nothing else did: once for all parts."""
    if (root / LISTED).is_file():
        return
    logger.info("classes by folder name: %s", ", ".join(names))
    for group in by_case(names):
        logger.warning("classes that differ by capitals alone: %s", ", ".join(group))


def image_files(root: Path, part: Part, classes: Sequence[str]) -> Found:
    """The images of one part of an image folder, by class and name.

    root/train/CLASS and root/test/CLASS (or root/val/CLASS) hold the two parts. Where class
    folders lie in root itself, one image in ten is held out as the test part; which ones depends
    on their names alone.

    Args:
        root: The data folder.
        part: Which part.
        classes: Class names in the order of their numbers.

    Returns:
        Its images, none where only the other part is there; and notes, which are logged too.

    Raises:
        DataError: A folder that is no class, no images, or files that cannot be reached.
    """
    check_not_straight(root, classes)
    parts = parts_of(root)
    if parts.train or parts.test:
        folder = parts.train if part == "train" else parts.test
        first = part == "train" or not parts.train
        notes = list(_strays(root, parts.others)) if first else []
        found = _list_images(folder, root, classes) if folder else Found(root, [], [])
        return _said(found._replace(notes=notes + found.notes))
    _, files, notes = _list_images(root, root, classes)
    keyed = sorted(files, key=lambda f: _name_key(f"{classes[f.label]}/{f.name.as_posix()}"))
    held_out = set(keyed[: max(1, round(HELD_OUT * len(files)))] if len(files) > 1 else [])
    chosen = [f for f in files if (f in held_out) == (part == "test")]
    if part == "test":  # said once
        return Found(root, chosen, [])
    logger.info(
        "%s has no train and test folders: %d of %d images are held out for evaluation",
        shown(root),
        len(held_out),
        len(files),
    )
    if aside := beside(root):
        notes.append(aside)
    return _said(Found(root, chosen, notes))


def _said(found: Found) -> Found:
    for note in found.notes:
        logger.warning("%s", note)
    return found


def _strays(root: Path, others: Sequence[Path]) -> Iterator[str]:
    """What lies beside the folders of the parts."""
    left = LeftOut()
    beside_parts = {f.name for f in others}
    for entry in entries(root):
        if entry.name in beside_parts or (is_folder(entry) and entry.name[0] == "_"):
            left.folder(entry.name)
        elif is_aside(entry.name) or is_system(entry.name):
            left.kind("hidden or of the system")
        elif note := nearly_listed(root / entry.name, root):
            yield note
        elif not is_folder(entry) and entry.name != LISTED:
            left.file(entry.name)
    if str(left):
        yield f"left out, straight in {shown(root)}: {left}"


def _list_images(folder: Path, root: Path, classes: Sequence[str]) -> Found:
    numbers = {same(name): i for i, name in enumerate(classes)}
    walk, notes, seen = Walk(), list[str](), dict[str, Path]()
    for entry in sorted(entries(folder), key=lambda e: e.name):
        path = folder / entry.name
        if not is_folder(entry):
            if note := nearly_listed(path, root):
                notes.append(note)
            elif path != root / LISTED:
                walk.stray(entry)
            continue
        if is_aside(entry.name) and same(entry.name) not in numbers:
            walk.aside(entry.name)
            continue
        check_name(entry.name, f"{shown(folder)} has the class folder")
        name = same(entry.name)
        if seen.setdefault(name, path) != path:
            raise DataError(twice(folder, name))
        if parts_of(path).train:
            raise DataError(f"the class folders lie one level down; give --data {shown(path)}")
        if name not in numbers:
            lower = right_folder(folder, classes, None)
            if lower is not None:
                raise DataError(f"the class folders lie further down; give --data {shown(lower)}")
            told = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
            text = f"a folder is not a class of the task. The classes are {told}"
            raise saying(DataError(unknown_class(path, classes)), text)
        if not walk.through(path, numbers[name]):
            notes.append(f"no images in {shown(path)}")
    walk.check()
    if str(walk.left):
        notes.insert(0, f"left out in {shown(folder)}: {walk.left}")
    if walk.recognised:
        notes.append(
            f"in {shown(folder)}, not named as images, recognised by their content: "
            f"{counted(walk.recognised, 'file')}"
        )
    if not walk.files:
        kinds = ", ".join(sorted(s[1:] for s in IMAGE_SUFFIXES))
        also = f"; {notes[0]}" if str(walk.left) else ""
        raise DataError(
            f"no images in {shown(folder)}/CLASS/; files ending in {kinds} are read{also}"
        )
    return Found(folder, walk.files, notes)


def _name_key(name: str) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
