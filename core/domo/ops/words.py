"""Words around numbers and the commands that texts tell people to type."""

import itertools
import shlex
from pathlib import Path


def counted(num: int, one: str, many: str | None = None) -> str:
    """A number of things: `1 run`, `2 runs`, `no run`'s plural is `0 runs`.

    Args:
        num: How many.
        one: The word for one.
        many: For any other number; by default `one` with an s.
    """
    return f"{num} {one if num == 1 else many or one + 's'}"


def typed(*words: str | Path, **flags: str | Path | None) -> str:
    """A command as somebody types it: quoted where need be, with the flags that have a value.

    Args:
        words: The command and its arguments.
        flags: Names of flags, `_` for `-`, to values; one of None is left out.
    """
    parts = [str(word) for word in words]
    for name, value in flags.items():
        if value is not None:
            parts += ["--" + name.replace("_", "-"), str(value)]
    return shlex.join(parts)


def duration(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    left = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (name, size), (smaller, part) in itertools.pairwise(units):
        if left >= size:
            whole, rest = left // size, left % size // part
            return f"{whole} {name} {rest} {smaller}" if rest else f"{whole} {name}"
    return f"{left} s"
