"""What a finished cell leaves: one file, written whole or not at all, and never changed.

A record is named by the digest of its run's settings and by how it was computed, so recipes that
share a run share its record. The plan of a recipe says which records it was begun with: settings
that have changed since are noticed there.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from domo.errors import ConfigError
from domo.experiments.recipe import Cell
from domo.names import GARBLED
from domo.run_config import RunConfig, as_meant
from domo.storage.files import replace, sync

FORMAT = 1
CELLS, PLAN = "cells", "plan.json"
EXACT: Final = "exact"
"""How a run is computed: silo by silo, with the bytes of a deployed run."""
BATCHED: Final = "batched"
"""The silos in one call: the same within float tolerance."""
AUTO: Final = "auto"
"""Whichever of the two is quicker; a record says which it was."""


@dataclass(frozen=True, slots=True)
class Record:
    """The numbers of one run.

    Attributes:
        config: All of its settings.
        mode: How it was computed: `EXACT` or `BATCHED`.
        device: Where.
        versions: Of domo and of torch.
        seconds: Wall time of training and tests, without reading the data.
        cpu_seconds: Of the same; on a busy machine, what it took more nearly than wall time.
        steps: Local steps of all silos.
        model_indices: The i of each x_i that was tested.
        metrics: Name to the value at each of them; accuracy is in 0..1.
        train_loss: Mean training loss of each round.
        failed: Why it ended before its last round: numbers that are not finite; empty: it did not.
    """

    config: Mapping[str, Any]
    mode: str
    device: str
    versions: Mapping[str, str]
    seconds: float
    cpu_seconds: float
    steps: int
    model_indices: Sequence[int] = ()
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    train_loss: Sequence[float] = ()
    failed: str = ""

    def final(self, metric: str = "accuracy") -> float:
        """The metric of x_R; -inf for a run that failed."""
        return -math.inf if self.failed else self.metrics[metric][-1]


def record_name(config: RunConfig, mode: str) -> str:
    """The name of a run's record, without its ending."""
    return config.digest if mode == EXACT else f"{config.digest}-{mode}"


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole, or as it was, whatever ends this process or the power."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync(file.fileno())
    replace(part, path)


def save_record(folder: Path, config: RunConfig, record: Record) -> None:
    """Keep a record."""
    body = json.dumps({"format": FORMAT, **asdict(record)})
    write_whole(folder / f"{record_name(config, record.mode)}.json", body + "\n")


def load_record(folder: Path, config: RunConfig, mode: str) -> Record | None:
    """The record of a run; None: it is not done.

    Raises:
        ConfigError: It cannot be read, or is of a run with other settings.
    """
    path = folder / f"{record_name(config, mode)}.json"
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body.pop("format") != FORMAT:
            raise ConfigError(f"{path} was written by another version of domo: give another --out")
        record = Record(**body)
        ours, theirs = _meant(config.model_dump(mode="json")), _meant(record.config)
        if ours == theirs:
            return record
    except FileNotFoundError:
        return None
    except (OSError, *GARBLED) as error:
        raise ConfigError(f"{path} cannot be read ({error}): delete it, to run it again") from None
    told = _differences(theirs, ours)
    raise ConfigError(f"{path} is of a run with other settings ({told}): give another --out")


def _meant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with what they mean where they say nothing, as JSON has them."""
    made: dict[str, Any] = json.loads(json.dumps(as_meant(config)))
    return made


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = [k for k in {**before, **now} if before.get(k) != now.get(k)]
    return ", ".join(f"{k} was {before.get(k)}, now {now.get(k)}" for k in keys[:3])


def begin(folder: Path, cells: Sequence[Cell], mode: str, afresh: bool) -> None:
    """Write down with which settings a recipe is run, or see that they are those of before.

    Args:
        folder: Of the recipe.
        cells: All of its runs.
        mode: How they are computed.
        afresh: Take these settings, whatever they were before.

    Raises:
        ConfigError: A cell had other settings; says which, and what to do.
    """
    path = folder / PLAN
    now = {c.key: _meant({**c.config.model_dump(mode="json"), "mode": mode}) for c in cells}
    before = {} if afresh else {key: _meant(given) for key, given in _plan(path).items()}
    changed = [key for key, given in now.items() if before.get(key, given) != given]
    if changed:
        told = _differences(before[changed[0]], now[changed[0]])
        raise ConfigError(
            f"{folder} was begun with other settings: {told} ({changed[0]}, and "
            f"{len(changed) - 1} more cells). Give another --out; or --afresh to go on here with "
            "these: cells whose settings are the same are not run again"
        )
    write_whole(path, json.dumps({**before, **now}) + "\n")


def _plan(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): delete it") from None
    return found
