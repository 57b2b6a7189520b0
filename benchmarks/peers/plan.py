"""What a peer's server and silos have to do, and what the server says about it.

This file is copied beside the code that a peer runs, in an environment that has no domo: it needs
numpy only. Both sides find the plan through an environment variable that all processes inherit.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PLAN = "PEER_BENCH_PLAN"
"""The environment variable with the path of the plan."""
CLOSE = 1e-4
"""float32 rounds by 1e-7 a round; one silo's constant left out would make 5e-4 in each round."""

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """One measurement, as all processes of a peer know it."""

    shapes: list[list[int]]
    constants: list[float]
    """What each silo adds to what it got."""
    num_rounds: int
    """With the first one, which warms up."""
    timeout_s: float
    stamps: str
    """A file to which the server adds a line of JSON at each start of a round and at the end."""

    @classmethod
    def read(cls) -> "Plan":
        """The plan that this process was started for."""
        return cls(**json.loads(Path(os.environ[PLAN]).read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """Write the plan for the processes to come."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def initial(self) -> Iterator[FloatArray]:
        """The arrays of the initial model, one after the other; the same ones on every call."""
        for index, shape in enumerate(self.shapes):
            yield np.random.default_rng(index).random(shape, dtype=np.float32)

    def stamp(self, event: str, **more: Any) -> None:
        """Add a line with the time, on a clock that all processes share."""
        line = json.dumps({"event": event, "t": time.monotonic(), **more})
        with Path(self.stamps).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def check(self, final: Iterable[FloatArray]) -> None:
        """Stamp whether a final model is what it should be.

        Args:
            final: Its arrays in the order of the shapes. One is looked at at a time, so that this
                adds nothing to the peak of memory.
        """
        added = self.num_rounds * sum(self.constants) / len(self.constants)
        worst, dtypes = 0.0, set()
        for before, after in zip(self.initial(), final, strict=True):
            worst = max(worst, float(np.abs(after - before - added).max()))
            dtypes.add(str(after.dtype))
        self.stamp("checked", error=worst, correct=worst < CLOSE, dtypes=sorted(dtypes))
