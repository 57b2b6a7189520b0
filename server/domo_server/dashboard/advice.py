"""What to do about a silo's last error, by what its text says; docs/operations.md has more."""

import re

ADVICE = [
    (
        r"out of memory|OutOfMemory",
        "End what else uses that GPU, choose a smaller batch_size, or train on a larger device. "
        "It tries again by itself.",
    ),
    (
        r"No space left|disk is full|Disk quota",
        "Its operator makes room on the disk of its state folder. It keeps its update and tries "
        "again by itself.",
    ),
    (
        r"no data was given|needs test data|there is nothing in it|data folder|no such folder",
        "Its operator starts it again with --data; `domo-client doctor` checks the folder.",
    ),
    (
        r"not on this silo's list",
        "Its operator decides whether that task may run there, and starts it again with --task.",
    ),
    (
        r"model does not match|models differ",
        "Both ends need the same version of the task, and the same number of classes.",
    ),
    (
        r"there is no (module|task)|could not be imported|not a task|of the task .* failed",
        "The task's code is missing or wrong there; `domo-client doctor --task` shows where.",
    ),
    (
        r"not finite|NaN|diverge",
        "If other silos have it too, take a lower local_lr; if only this one, its operator looks "
        "at the data.",
    ),
    (
        r"norm",
        "Its operator looks at the data and the labels; another update of it is taken. Else drop "
        "it, or set norm_factor.",
    ),
    (
        r"enrolment refused|numbers? of samples",
        "Its operator mends what the text names and starts it again.",
    ),
]
OTHER = (
    "It tries again by itself. If it does not get better, its operator looks at its log and at "
    "`domo-client doctor`."
)


def advice_on(error: str | None) -> str | None:
    """What to do; None: there is no error."""
    if not error:
        return None
    found = (words for pattern, words in ADVICE if re.search(pattern, error, re.IGNORECASE))
    return next(found, OTHER)
