"""What was left out of a folder: counted by kind, and said in one sentence."""

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec

from domo.names import shown
from domo.tasks.images.kinds import CURES, DICOM_SUFFIXES, enumerated, suffix_of

DICOM_CURE = "DICOM: pip install 'domo-federated[dicom]'"


def reads_dicom() -> bool:
    """Whether the extra that reads DICOM is installed."""
    return find_spec("pydicom") is not None


class LeftOut:
    """Counts what is not read; says it, most first."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._many: dict[str, str] = {}
        self._folders: list[str] = []

    def file(self, name: str) -> None:
        """A file whose kind is not read."""
        suffix = suffix_of(name)
        shown_as = shown(suffix) if suffix else "without a suffix"
        cure = DICOM_CURE if suffix in DICOM_SUFFIXES else CURES.get(suffix, "")
        self._kinds[f"{shown_as} ({cure})" if cure else shown_as] += 1

    def kind(self, text: str, many: str | None = None) -> None:
        """Something else, in words after its number; `many` where those for several differ."""
        self._kinds[text] += 1
        self._many[text] = many or text

    def folder(self, name: str) -> None:
        """A folder that is not looked into."""
        self._folders.append(shown(name))

    def _parts(self) -> Iterator[str]:
        for kind, n in sorted(self._kinds.items(), key=lambda item: (-item[1], item[0])):
            yield f"{n:,} {kind if n == 1 else self._many.get(kind, kind)}"
        if self._folders:
            many = "folders" if len(self._folders) > 1 else "folder"
            yield f"the {many} {enumerated(sorted(self._folders))}"

    def __str__(self) -> str:
        return ", ".join(self._parts())
