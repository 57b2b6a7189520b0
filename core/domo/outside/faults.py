"""What is said elsewhere of a fault here: the one gate between an exception and the wire.

The text of an exception can hold anything: `KeyError: 'Doe'`, the path of an image. So it stays
here, and what leaves is what kind of fault it is and where in the user's code it was raised. Only
what is known to be made of domo's own words goes as it is.
"""

import os
import re
import traceback

from domo.errors import (
    ChecksumError,
    ConfigError,
    DataError,
    DomoError,
    ProtocolError,
    RoundError,
    StateError,
    TaskError,
    TransportError,
)
from domo.outside.text import Public
from domo.stages.place import Place

PUBLIC = (ProtocolError, TransportError, RoundError)
"""What the two ends have to say to each other, and how far a round got."""
KINDS: dict[type[DomoError], str] = {
    ChecksumError: "bytes were damaged, on the way or on a disk; they are fetched again",
    DataError: "the data are not what the task reads",
    TaskError: "the task cannot be used here",
    ConfigError: "what the silo was given does not fit",
    StateError: "the silo's state folder cannot be used",
}
"""What is said of the others, where they say nothing of it themselves."""
MORE = "the silo's own text says more"

NO_OUTPUT = re.compile(r"Target -?\d+ is out of bounds\.")
"""What torch's losses say of a label."""
FROM_0 = "Labels are numbered from 0, and the model has no output for this one"
NO_KEYBOARD = "EOF when reading a line"
"""What `input()` raises where nobody can answer."""
ASKS = "the task asks at the keyboard, and there is none"
SHORT = re.compile(r"out of memory|can(?:not|'t) allocate memory|ALLOC_FAILED", re.IGNORECASE)
LONE = re.compile(r"Expected more than 1 value per channel when training")
MORE_THAN_ONE = (
    "BatchNorm needs 2 samples or more in a batch: drop_last = true in the run leaves a short last "
    "one out; batch_size must be 2 or more, and so must be a silo's samples; or take GroupNorm"
)
"""What torch's norms say of a batch of one sample, and what helps wherever it is met."""
OF_TORCH = re.compile(r"'?Caught (\w+) in DataLoader worker process \d+\.")
"""How the text begins of what torch's own loader has raised in a process."""
NO_SHARED_MEMORY = (
    "loader processes have no shared memory left: --workers 0, or more of it (docker's --shm-size "
    "2g, shm_size in compose, or --ipc=host)"
)
TOO_MANY_FILES = (
    "too many open files: fewer --workers, or a higher limit (ulimit -n, LimitNOFILE= of the "
    "service, docker's --ulimit nofile=65536)"
)
SHORT_OF = {
    r"shared memory|/torch_\d+.*No space left|Bus error": NO_SHARED_MEMORY,
    r"items of ancdata|Too many open files": TOO_MANY_FILES,
}
"""What a text of torch, or of the system, means."""


def outside(error: BaseException) -> Public:
    """An exception for people elsewhere."""
    return Public(_of_domo(error) if isinstance(error, DomoError) else kind_of_fault(error))


def _of_domo(error: DomoError) -> str:
    if error.elsewhere:
        return error.elsewhere
    if isinstance(error, PUBLIC) and not isinstance(error, ChecksumError):
        return str(error)
    words = next((text for kind, text in KINDS.items() if isinstance(error, kind)), "an error")
    return f"{words}; {MORE}"


def kind_of_fault(error: BaseException) -> str:
    """What kind of exception it is, with its place in the user's code; nothing of its text."""
    if isinstance(error, KeyboardInterrupt):
        said = next(iter(error.args), None)
        return said if isinstance(said, Public) else "stopped by its operator"
    root = root_of(error)
    if isinstance(root, DomoError):
        return _of_domo(root)
    kind = _kind(root)
    place = place_of(root) or place_of(error)
    hidden = kind == type(root).__name__ and words_of(root)
    return f"{kind}{place}; {MORE}" if hidden else f"{kind}{place}"


def _kind(error: BaseException) -> str:
    name, text = type(error).__name__, words_of(error)
    if name == "OutOfMemoryError":  # torch's
        return "out of memory"
    if meant := meant_by(error):
        return meant
    if LONE.search(text):
        return MORE_THAN_ONE
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and SHORT.search(text)):
        return "memory is short"
    if own := OF_TORCH.match(text):
        return f"{own[1]} in a loader process"
    if isinstance(error, IndexError) and NO_OUTPUT.fullmatch(text):
        return f"{name}: a label is out of bounds. {FROM_0}"
    if isinstance(error, EOFError) and text == NO_KEYBOARD:
        return f"{name}: {ASKS}"
    if isinstance(error, OSError) and error.errno:
        return f"{name} ({os.strerror(error.errno)})"
    return name


def words_of(error: BaseException) -> str:
    """Its own text; empty where it cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def meant_by(error: BaseException) -> str:
    """What the machine lacks, if that is what an exception says; else empty."""
    if not isinstance(error, RuntimeError | OSError):
        return ""
    found = (meant for sign, meant in SHORT_OF.items() if re.search(sign, words_of(error)))
    return next(found, "")


def root_of(error: BaseException) -> BaseException:
    """What an exception came of: its first cause, of a group that of the first."""
    seen = {id(error)}
    while True:
        cause = error.__cause__
        if isinstance(error, BaseExceptionGroup):
            cause = error.exceptions[0]
        if cause is None or id(cause) in seen or getattr(error, "is_root", False):
            return error
        seen.add(id(cause))
        error = cause


def users_place(error: BaseException) -> Place | None:
    """Where in the user's code an exception was raised; None: it was not there."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        place = Place(code.co_filename, line, code.co_name)
        if not (place.is_installed or place.is_standard or place.is_own):
            return place
    return None


def place_of(error: BaseException) -> str:
    """The same in words, with the file's name and not its folder; empty: it was not there."""
    place = users_place(error)
    if place is None:
        return ""
    return f", in {os.path.basename(place.file)}, line {place.line} ({place.name})"  # noqa: PTH119
