"""What others write: the names of runs, silos and tasks, and texts that people are shown.

Names may become a part of a path or of a URL. They come from whoever may submit a run, from peers,
and from files, and nobody's name leads out of a folder.

A text of a peer becomes one line that leads no terminal, log or reader astray: once where its
messages are read, and again where it is shown. A second time changes nothing.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection
from difflib import get_close_matches

GARBLED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What Python raises where a file or a message of somebody else is not what it should be."""

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
MOST_TEXT = 300
"""Characters of a text of a peer that are kept, shown or sent on."""
MOST_SAID = 1000
"""Of what a coordinator says with texts of its silos in it: an event, what a run waits for."""
MOST_LOOKED_AT = 16
"""Times as many are looked at: what does not print is not counted."""
MOST_MARKS = 4
"""Combining marks on one letter. No language stacks more, and a hundred cover the lines around."""
_CUT = "..."

_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, erasing (CSI)
    "|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\\\|\x9c)"  # OSC, DCS
    "|\x1b[@-Z\\\\-~]?"
)
"""What terminals obey, whole: of one without its begin the rest would stay as letters."""
_RANGES = ((0x180B, 0x1810), (0xFE00, 0xFE10), (0xE0100, 0xE01F0))
_NO_WIDTH = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {
    chr(code) for first, end in _RANGES for code in range(first, end)
}
"""Letters and marks that print as nothing."""
_BLANK = "\u2800"
"""Braille without a dot: it prints as a space."""


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


def one_line(text: str, most: int | None = MOST_TEXT) -> str:
    """A text as one line of characters that print, with one space between words.

    Left out are sequences that terminals obey and what has no width or changes the direction; white
    space becomes a space, and what is no character `?`.

    Args:
        text: Of a peer, or with one of a peer in it.
        most: Characters; a text that is cut ends with three dots. None: all of it.
    """
    if text.isascii() and text.isprintable():
        line, more = text, False
    else:
        seen = text if most is None else text[: MOST_LOOKED_AT * most]
        line, more = _cleaned(seen), len(seen) < len(text)
    line = " ".join(line.split())
    if most is None or (len(line) <= most and not more):
        return line
    return line[: most - len(_CUT)].rstrip() + _CUT


def prints(text: str) -> bool:
    """Whether a text is one line of characters that all print, as it is."""
    return text.isprintable() and (text.isascii() or _cleaned(text) == text)


def printable(text: str) -> str:
    """Own text of one or several lines, without what a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(map(_cleaned, text.split("\n")))


def _cleaned(text: str) -> str:
    """A text of characters that print, and spaces."""
    found: list[str] = []
    marks = MOST_MARKS  # at the start there is no letter to bear one
    for c in _ESCAPES.sub("", text):
        if " " <= c <= "~":
            found.append(c)
            marks = MOST_MARKS if c == " " else 0
            continue
        kind = unicodedata.category(c)
        if kind == "Cf" or c in _NO_WIDTH:
            continue
        if kind in ("Cc", "Zs", "Zl", "Zp") or c == _BLANK:
            found.append(" ")
            marks = MOST_MARKS
        elif kind[0] == "M":
            if marks < MOST_MARKS:
                found.append(c)
            marks += 1
        else:
            found.append("?" if kind in ("Cn", "Cs", "Co") else c)
            marks = 0
    return "".join(found)
