"""What may become a part of a path or of a URL: the names of runs, silos and tasks.

They come from whoever may submit a run, from peers, and from files, and nobody's name leads out of
a folder.
"""

import re
from collections import defaultdict
from collections.abc import Collection
from difflib import get_close_matches

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Of a run or a silo."""
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
TASK = rf"{_WORD}(\.{_WORD})*(:{_WORD}(\.{_WORD})*)?"
"""A named task, with its number of classes or not, or `module.path:Class`."""
MOST_TASK = 200
"""Characters of a task."""
MOST_ALIKE = 3
MOST_COMPARED = 500
"""Pairs of names that are compared letter by letter, some 10 us each."""
MOST_TITLE = 100
"""Characters of a name that is made of others; a run's id, with a number before it, has 128."""


def is_name(text: str) -> bool:
    """Whether a run or a silo may be called so."""
    return re.fullmatch(NAME, text) is not None


def is_task(text: str) -> bool:
    """Whether a task may be written so; there may be none of this name."""
    return len(text) <= MOST_TASK and re.fullmatch(TASK, text) is not None


def alike(name: str, others: Collection[str]) -> list[str]:
    """Which of these names may be meant by another one, as in `all_alike`."""
    return all_alike([name], others)[name]


def all_alike(names: Collection[str], others: Collection[str]) -> dict[str, list[str]]:
    """Of each name which others may be meant by it: the same but for case, marks and domain.

    Where there is none of these, those that differ in a letter or two, unless the names are so many
    that this would take long.
    """
    bare, folded = defaultdict[str, list[str]](list), {o.casefold(): o for o in others}
    for other in others:
        for part in _bare(other):
            bare[part].append(other)
    compared = folded if len(names) * len(others) <= MOST_COMPARED else {}
    found = {}
    for name in names:
        same = dict.fromkeys(o for part in sorted(_bare(name)) for o in bare.get(part, ()))
        near = () if same else get_close_matches(name.casefold(), compared, MOST_ALIKE, 0.75)
        found[name] = [*same, *(folded[one] for one in near)][:MOST_ALIKE]
    return found


def _bare(name: str) -> set[str]:
    """Letters and digits of a name: of all of it, and of its first label as of a host."""
    return {
        re.sub(r"[^a-z0-9]", "", part.casefold()) or part for part in (name, name.split(".")[0])
    }


def plain(text: str) -> str:
    """A text as a part of a file's name or of a URL: what has no place there becomes `-`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def shown(path: object) -> str:
    r"""A path or a name in one line that every screen and every wire takes.

    A file may be called anything: bytes that are no UTF-8 and characters that do not print are
    escaped, as in `Jos\xe9.png` and `a\nb.png`.
    """
    text = str(path)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(c: str) -> str:
    byte = ord(c) - 0xDC00  # how Python keeps a byte that is no UTF-8
    if 0x80 <= byte <= 0xFF:
        return f"\\x{byte:02x}"
    return c.encode("unicode_escape", "backslashreplace").decode()
