"""Where the images of a folder are: its parts, its class folders, and what lies in the wrong place.

root/train/CLASS and root/test/CLASS hold the two parts. Other spellings of the two are known.
"""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from domo.errors import DataError
from domo.names import shown
from domo.tasks.images.kinds import IMAGE_SUFFIXES, counted, enumerated, is_aside, suffix_of

Part = Literal["train", "test"]
SPELLINGS: dict[Part, tuple[str, ...]] = {
    "train": ("train", "training"),
    "test": ("test", "val", "testing", "valid", "validation"),
}
"""Names of a part's folder, in any case; the first that is there is the part."""
PLAIN = ("train", "test", "val")
"""Those that are a part even where the other part is not there."""
DEEPEST = 3
"""Levels below the given folder at which the right one is looked for."""


class Parts(NamedTuple):
    """The folders of the two parts, and those beside them."""

    train: Path | None
    test: Path | None
    others: list[Path]


def folders_in(root: Path) -> list[Path]:
    """The folders that may be classes or parts, by name.

    Raises:
        DataError: It may not be listed.
    """
    return sorted(root / e.name for e in entries(root) if is_folder(e) and not is_aside(e.name))


def entries(root: Path | str) -> list["os.DirEntry[str]"]:
    """What lies in a folder.

    Raises:
        DataError: It may not be listed.
    """
    try:
        with os.scandir(root) as found:
            return list(found)
    except OSError as error:
        raise DataError(
            f"the folder {shown(root)} cannot be listed: {error.strerror}. Give the user that domo "
            "runs as access to it, or take it away"
        ) from error


def is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def parts_of(root: Path) -> Parts:
    """The folders train and test of root, under any of their names.

    A part holds folders (CIFAR-100 has a class "train"). Spellings other than train, test and val
    are parts only where the other part is there too: they are words that a class may have.

    Raises:
        DataError: Two folders could be one part.
    """
    folders = folders_in(root)
    train, test = (_spelt(folders, part) for part in SPELLINGS)
    _check_one(root, [f for f in train if f.name.casefold() == "train"])
    _check_one(root, [f for f in test if f.name.casefold() == test[0].name.casefold()])
    if not (train and test):
        train, test = ([f for f in there if f.name in PLAIN] for there in (train, test))
    _check_one(root, train)
    first = train[0] if train else None, test[0] if test else None
    others = [f for f in folders if f not in first] if any(first) else []
    return Parts(*first, others)


def _check_one(root: Path, there: Sequence[Path]) -> None:
    if len(there) > 1:
        raise DataError(
            f"{shown(root)} has {' and '.join(shown(f.name) for f in there)}: which of them is "
            "the part? Keep one, and take the other away"
        )


def _spelt(folders: Sequence[Path], part: Part) -> list[Path]:
    names = SPELLINGS[part]
    there = [f for f in folders if f.name.casefold() in names and folders_in(f)]
    return sorted(there, key=lambda f: names.index(f.name.casefold()))


def is_image_tree(root: Path, classes: Sequence[str] | None = None) -> bool:
    """Whether root looks like a folder of images: has a train or test part, or class folders."""
    parts = parts_of(root)
    return bool(parts.train or parts.test) or any((root / n).is_dir() for n in classes or ())


def check_not_straight(root: Path, classes: Sequence[str] | None) -> None:
    """See that images do not lie straight in root, train or test, without class folders.

    Raises:
        DataError: They do; says where they belong.
    """
    folders = folders_in(root)
    spelt = {name for names in SPELLINGS.values() for name in names}
    are_parts = folders and all(f.name.casefold() in spelt for f in folders)
    if are_parts and not set(classes or ()) & {f.name for f in folders}:
        for folder in folders:
            if not folders_in(folder) and (n := num_images(folder)):
                raise DataError(
                    f"{counted(n, 'image')} straight in {shown(folder)}: the class of an image is "
                    f"the folder that it lies in, {folder.name}/CLASS/"
                )
    if not folders and (n := num_images(root)):
        up = root.resolve().parent
        also = f" If {shown(root.name)} is a class, give --data {shown(up)}" if up.name else ""
        raise DataError(
            f"{counted(n, 'image')} straight in {shown(root)}: the class of an image is the folder "
            f"that it lies in, train/CLASS/.{also}"
        )


def num_images(folder: Path) -> int:
    """How many files straight in a folder are named as images."""
    return sum(suffix_of(e.name) in IMAGE_SUFFIXES and e.name[0] != "." for e in entries(folder))


def right_folder(root: Path, classes: Sequence[str] | None, num_classes: int | None) -> Path | None:
    """The folder below root that --data should have named, if there is one that looks so."""
    level = [root]
    for _ in range(DEEPEST):
        level = [f for folder in level for f in _quietly(folder)]
        for folder in level:
            inner = _quietly(folder)
            names = {f.name for f in inner}
            parts = names & {"train", "test"} and any(_quietly(f) for f in inner)
            as_many = num_classes is not None and len(inner) == num_classes and _filled(inner)
            if parts or (classes and names and names <= set(classes)) or as_many:
                return folder
    return None


def _filled(folders: Sequence[Path]) -> bool:
    return all(num_images(f) for f in folders)


def _quietly(folder: Path) -> list[Path]:
    try:
        return folders_in(folder)
    except DataError:
        return []


def beside(root: Path) -> str | None:
    """What to say of a folder that is a part of a larger one, whose other part is not read."""
    here = root.resolve()
    if here.name.casefold() not in {n for names in SPELLINGS.values() for n in names}:
        return None
    others = [f.name for f in _quietly(here.parent) if f.name != here.name and _quietly(f)]
    spelt = [n for names in SPELLINGS.values() for n in names]
    near = [n for n in others if get_close_matches(n.casefold(), spelt, n=1, cutoff=1.0)]
    if not near:
        return None
    return (
        f"{shown(root)} is read by itself, and {enumerated(near)} beside it is not: for both parts "
        f"give --data {shown(here.parent)}"
    )
