"""The classes of an image folder: their names, in the order of their numbers."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from domo.errors import DataError
from domo.inputs.form import MAX_NAME
from domo.names import shown

BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def same(name: str) -> str:
    """A name in the one form of Unicode in which names are compared.

    macOS writes an e with an accent as two characters, other systems as one.
    """
    return unicodedata.normalize("NFC", name)


LISTED = "classes.txt"
NEARLY_LISTED = {"classes.txt", "classes.txt.txt", "classes", "class.txt", "labels.txt"}
"""Names, in any case, that were likely meant to be it."""


def nearly_listed(path: Path, root: Path) -> str | None:
    """What to say of a list of classes that is not where and as it has to be."""
    wanted = root / LISTED
    if path.name.casefold() not in NEARLY_LISTED or path == wanted:
        return None
    return f"{shown(path)} is not read: it has to be {shown(wanted)}"


def listed_classes(path: Path) -> list[str] | None:
    """The names in a classes.txt, one a line; blank lines and spaces around names do not count.

    Returns:
        The names; None where there is no such file.

    Raises:
        DataError: It is no text, or names a class twice.
    """
    if not path.is_file():
        if path.is_symlink() or path.exists():
            raise DataError(f"{shown(path)} is no file that can be read: mend it, or take it away")
        return None
    try:
        content = path.read_bytes()
        text = content.decode(BOMS.get(content[:2], "utf-8-sig"))
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shown(path)} is no UTF-8 text (byte {error.start + 1}): save it as UTF-8, as with "
            f"iconv -f latin1 -t utf8"
        ) from error
    lines = (same(line.strip()) for line in re.split(r"\r\n|\r|\n", text))
    names = [line for line in lines if line]
    for name in names:
        check_name(name, f"{shown(path)} names the class")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{shown(path)} names a class twice: {twice}")
    return names


def check_name(name: str, what: str) -> None:
    """See that a class has a name that all silos can be told.

    Raises:
        DataError: It is no Unicode, does not print, is too long, or has spaces around it.
    """
    if any(0xDC80 <= ord(c) <= 0xDCFF for c in name):
        raise DataError(
            f"{what} {shown(name)}: this is no UTF-8 (Latin-1?). Rename it, as with "
            "convmv -f latin1 -t utf8"
        )
    if not name.isprintable():
        raise DataError(f"{what} {shown(name)}: some of it does not print. Rename it")
    if len(name) > MAX_NAME:
        raise DataError(f"{what} {shown(name[:40])}...: more than {MAX_NAME} characters. Rename it")
    if name != name.strip():
        raise DataError(f"{what} '{name}', with a space before or after. Rename it")


def folder_names(folders: Iterable[Path]) -> list[str]:
    """The classes that class folders name, sorted.

    Raises:
        DataError: One has a name that cannot be a class's, or two are the same name.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        check_name(folder.name, f"{shown(folder.parent)} has the class folder")
        other = found.setdefault(same(folder.name), folder)
        if other.name != folder.name:
            raise DataError(twice(folder.parent, same(folder.name)))
    return sorted(found)


def twice(parent: Path, name: str) -> str:
    """What is wrong where two class folders are called the same."""
    return (
        f"{shown(parent)} has two class folders named {name}, written differently in Unicode: put "
        "their files into one"
    )


def classes_of(num: int) -> str:
    """How many, in words."""
    return f"{num:,} {'class' if num == 1 else 'classes'}"


def by_case(names: Sequence[str]) -> list[list[str]]:
    """Classes whose names differ by capitals alone."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    return [group for group in alike.values() if len(group) > 1]


def unknown_class(folder: Path, classes: Sequence[str]) -> str:
    """What is wrong with a class folder that is none of the classes."""
    folded = {name.casefold(): name for name in classes}
    near = [folded[n] for n in [folder.name.casefold().strip()] if n in folded]
    near = near or get_close_matches(folder.name, classes, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    told = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
    return f"{shown(folder)} is not a class of the task.{hint} The classes are {told}"
