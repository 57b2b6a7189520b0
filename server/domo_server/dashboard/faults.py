"""Which fields of a run's config a refusal speaks of, so that a form can say it there."""

import re
from collections.abc import Mapping, Sequence

from domo.run_config import RunConfig

_WORD = re.compile(r"[a-z_]+")


def faults_by_field(message: str) -> Mapping[str, Sequence[str]]:
    """Each fault under the field that it is about; those of no single field under "".

    A fault names its field first (`num_rounds = 0: must be ...`), or in its text.
    """
    found: dict[str, list[str]] = {}
    for line in _lines(message):
        words = [] if ": unknown key" in line else _WORD.findall(line)
        field = next((word for word in words if word in RunConfig.model_fields), "")
        found.setdefault(field, []).append(line)
    return found


def _lines(message: str) -> list[str]:
    first, *others = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    first = first.removeprefix("run: ")
    return others if re.fullmatch(r"\d+ faults", first) else [first, *others]
