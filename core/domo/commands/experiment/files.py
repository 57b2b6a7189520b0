"""The numbers of a recipe as files: CSV, and Parquet where pyarrow is installed."""

import csv
from collections.abc import Iterator
from pathlib import Path

from domo.experiments.recipe import SYMBOLS
from domo.experiments.results import Results


def write_files(r: Results, folder: Path) -> list[Path]:
    """Write `runs`, a row a run, and `curves`, a row a tested model.

    Returns:
        The files.
    """
    made = []
    for name, rows in (("runs", list(long_rows(r))), ("curves", list(curve_rows(r)))):
        if not rows:
            continue
        path = folder / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        made.append(path)
        made += _parquet(rows, folder / f"{name}.parquet")
    return made


def _parquet(rows: list[dict[str, object]], path: Path) -> list[Path]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return []
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return [path]


def long_rows(r: Results) -> Iterator[dict[str, object]]:
    """One row a finished run, for files; accuracy in 0..1."""
    for cell in r.cells:
        record = r.records.get((cell.panel, cell.row, cell.seed))
        if record is None:
            continue
        c, last = cell.config, {name: values[-1] for name, values in record.metrics.items()}
        yield {
            **_which(r, cell.panel, cell.row, cell.seed),
            "method": c.method,
            "task": c.task,
            "similarity": c.similarity,
            "local_epochs": c.local_epochs,
            "num_rounds": c.num_rounds,
            "local_lr": c.local_lr,
            **{key: getattr(c, key) for key in SYMBOLS},
            "accuracy": last.get("accuracy"),
            "loss": last.get("loss"),
            "failed": record.failed,
            "local_steps": record.steps,
            "seconds": record.seconds,
            "cpu_seconds": record.cpu_seconds,
            "mode": record.mode,
            "device": record.device,
            "config_digest": c.digest,
        }


def curve_rows(r: Results) -> Iterator[dict[str, object]]:
    """One row a tested model; `train_loss` is that of the round that made it, none of x_0."""
    for (panel, row, seed), record in r.records.items():
        for i, index in enumerate(record.model_indices):
            loss = record.train_loss[index - 1] if 0 < index <= len(record.train_loss) else None
            yield {
                **_which(r, panel, row, seed),
                "model_index": index,
                "accuracy": record.metrics["accuracy"][i],
                "loss": record.metrics["loss"][i] if "loss" in record.metrics else None,
                "train_loss": loss,
            }


def _which(r: Results, panel: str, row: str, seed: int) -> dict[str, object]:
    return {"recipe": r.recipe.name, "scale": r.scale, "panel": panel, "row": row, "seed": seed}
