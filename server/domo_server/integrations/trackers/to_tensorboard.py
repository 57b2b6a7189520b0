"""Runs as TensorBoard's event files, a folder for each run."""

import importlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from domo.api.schema import ENDED, RunDetail
from domo.names import plain
from domo_server.integrations.trackers.points import Point, settings_of

COMPLETE = "domo-complete"
"""Marks a folder whose run has ended and is all here: it need not be read again."""


class TensorBoardWriter:
    """Writes the points that the event files do not have yet, whoever wrote them.

    Args:
        folder: Where TensorBoard looks.
    """

    name, uri = "TensorBoard", ""

    def __init__(self, folder: Path):
        self._folder = folder
        self._open: dict[str, tuple[Any, set[tuple[str, int]]]] = {}

    def prepare(self) -> None:
        """Import TensorBoard."""
        importlib.import_module("torch.utils.tensorboard")
        importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    def write(self, run: RunDetail, points: Sequence[Point]) -> None:
        """Write what is not there yet."""
        folder = self._folder / folder_name(run)
        if (folder / COMPLETE).exists():
            return
        known = self._open.pop(run.run_id, (None, set()))
        writer, there = known if known[0] is not None else _open(folder, run)
        try:
            for point in points:
                if (point.name, point.step) not in there:
                    writer.add_scalar(point.name, point.value, point.step, point.at_s)
                    there.add((point.name, point.step))
            writer.flush()
        except BaseException:
            _abandon(writer)
            raise
        if run.state in ENDED:
            writer.close()
            (folder / COMPLETE).touch()
        else:
            self._open[run.run_id] = writer, there


def folder_name(run: RunDetail) -> str:
    """Its id and when it was queued: another coordinator may have a run of the same id."""
    return f"{plain(run.run_id)}-{datetime.fromisoformat(run.created_at):%Y%m%d-%H%M%S}"


def read_points(folder: Path) -> set[tuple[str, int]]:
    """Names and steps that a folder's event files have; a torn end is left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    if not folder.is_dir():
        return set()
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    names = events.Tags()["scalars"]
    return {(name, event.step) for name in names for event in events.Scalars(name)}


def _open(folder: Path, run: RunDetail) -> tuple[Any, set[tuple[str, int]]]:
    from torch.utils import tensorboard

    there = read_points(folder)
    typed: Any = tensorboard
    writer = typed.SummaryWriter(str(folder))
    if not there:
        names = {f"test/{name}" for point in run.metrics for name in point.metrics}
        of_tests = dict.fromkeys(sorted(names), 0.0)
        for summary in typed.summary.hparams(settings_of(run), of_tests):
            writer.file_writer.add_summary(summary)
    return writer, there


def _abandon(writer: Any) -> None:
    """Close a writer that has failed; the next one reads what has come to the disk."""
    try:
        writer.close()
    except Exception:  # it fails as it did before
        return
