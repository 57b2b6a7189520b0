"""Goes through class folders: keeps the images, counts the rest, remembers what is out of reach."""

import os
from pathlib import Path
from typing import NamedTuple

from domo.errors import DataError
from domo.names import shown
from domo.tasks.images.folders import entries, is_folder
from domo.tasks.images.kinds import IMAGE_SUFFIXES, counted, is_aside, kind_of, suffix_of
from domo.tasks.images.left_out import LeftOut, reads_dicom


class LabelledFile(NamedTuple):
    """An image file, the path below its class folder, and the class number."""

    path: Path
    name: Path
    label: int


def _place(status: os.stat_result) -> tuple[int, int]:
    """What is one folder, whatever leads there; the roots of all drives have the same number."""
    return status.st_dev, status.st_ino


class Walk:
    """What class folders hold.

    Attributes:
        files: The images.
        left: What was left out.
        recognised: How many of the files are images by their content and not by their name.
    """

    def __init__(self) -> None:
        self.files: list[LabelledFile] = []
        self.left = LeftOut()
        self.recognised = 0
        self._unreachable: list[str] = []
        self._dicom = reads_dicom()

    def through(self, folder: Path, label: int) -> int:
        """A class folder and all folders in it, links followed; returns how many images it has.

        Raises:
            DataError: A folder may not be listed.
        """
        found: list[tuple[str, ...]] = []
        above = frozenset(_place(p.stat()) for p in folder.resolve().parents)
        self._enter(str(folder), (), above, found)
        here = str(folder)
        for parts in sorted(found):
            name = "/".join(parts)
            self.files.append(LabelledFile(Path(f"{here}/{name}"), Path(name), label))
        return len(found)

    def _enter(
        self,
        folder: str,
        relative: tuple[str, ...],
        above: frozenset[tuple[int, int]],
        found: list[tuple[str, ...]],
    ) -> None:
        inside = entries(folder)
        here = above | {_place(Path(folder).stat())}
        for entry in inside:
            if not is_folder(entry):
                if self._is_image(entry):
                    found.append((*relative, entry.name))
            elif is_aside(entry.name):
                self.aside(entry.name)
            elif entry.is_symlink() and _place(entry.stat()) in here:
                self.left.kind("link that leads in a circle", "links that lead in a circle")
            else:
                self._enter(entry.path, (*relative, entry.name), here, found)

    def _is_image(self, entry: "os.DirEntry[str]") -> bool:
        """Whether a file is one of the images; else it is counted."""
        try:
            if not entry.is_file():  # follows links
                self._no_file(entry)
                return False
            kind, by_name = kind_of(entry.name, entry.path)
        except OSError as error:
            self._unreachable.append(f"{shown(entry.path)}: {error.strerror}")
            return False
        if kind == "image" or (kind == "dicom" and self._dicom):
            self.recognised += not by_name
            return True
        if kind == "system":
            self.left.kind("hidden or of the system")
        else:
            self.left.file("a.dcm" if kind == "dicom" else entry.name)
        return False

    def aside(self, name: str) -> None:
        """A folder that is not looked into."""
        if name[0] == "_" and not name.startswith("__"):
            self.left.folder(name)
        else:
            self.left.kind("hidden or of the system")

    def stray(self, entry: "os.DirEntry[str]") -> None:
        """A file in no class folder."""
        before = len(self._unreachable)
        if self._is_image(entry):
            self.recognised -= suffix_of(entry.name) not in IMAGE_SUFFIXES
            self.left.kind(f"{shown(suffix_of(entry.name)) or 'images'} in no class folder")
        del self._unreachable[before:]

    def _no_file(self, entry: "os.DirEntry[str]") -> None:
        if not entry.is_symlink():
            self.left.kind("pipe or device", "pipes or devices")
        elif suffix_of(entry.name) in IMAGE_SUFFIXES and entry.name[0] != ".":
            self._unreachable.append(f"{shown(entry.path)} is a link to what is not there")
        else:
            self.left.kind("link to what is not there", "links to what is not there")

    def check(self) -> None:
        """See that nothing that should be an image was out of reach.

        Raises:
            DataError: Names the first, and says how many.
        """
        if self._unreachable:
            more = len(self._unreachable) - 1
            also = f", and {counted(more, 'more file')} like it" if more else ""
            raise DataError(
                f"{self._unreachable[0]}{also}: see to it that the user that domo runs as can read "
                "it, or take it away"
            )
