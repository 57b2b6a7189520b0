"""What the store takes and gives out of tests: sums, tables, what models are judged by."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from domo.metrics.numbers import numbers_of_table
from domo.metrics.table import Table


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A silo's sum of one metric over its test data, for x_{model_index}.

    `model_digest` is that of the model that it tested; older versions say none.
    """

    model_index: int
    silo_id: str
    metric: str
    total: float
    num: float
    model_digest: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A silo's table of one metric over its test data, for x_{model_index}.

    Attributes:
        model_index: i of x_i.
        silo_id: Whose.
        metric: Its name.
        kind: A row of `domo.metrics.table.KINDS`.
        labels: Names of the classes.
        shape: Of the table.
        num: Samples that it counts.
        numbers: What it comes to at this silo alone.
        cells: Packed; None: not read, or not kept any more.
    """

    model_index: int
    silo_id: str
    metric: str
    kind: str
    labels: Sequence[str]
    shape: Sequence[int]
    num: float
    numbers: Mapping[str, float]
    cells: bytes | None = None

    def emptied(self) -> Table:
        """One like it that counts nothing."""
        return Table(self.kind, np.broadcast_to(0.0, self.shape), tuple(self.labels))

    def table(self) -> Table | None:
        """The table; None: its cells are not there."""
        if self.cells is None:
            return None
        cells = np.frombuffer(zlib.decompress(self.cells))
        return Table(self.kind, cells.reshape(self.shape), tuple(self.labels))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What x_{model_index} was judged by; it never changes again.

    Attributes:
        model_index: i of x_i.
        metric: The primary one; None: nobody has measured anything.
        value: Of it; None: nobody has measured it.
        num_silos: That had tested the model.
        numbers: Of the federation's tables, which are not all kept.
    """

    model_index: int
    metric: str | None
    value: float | None
    num_silos: int
    numbers: Mapping[str, float]


def table_row(model_index: int, silo_id: str, metric: str, table: Table) -> TableRow:
    """A table as it is kept."""
    return TableRow(
        model_index=model_index,
        silo_id=silo_id,
        metric=metric,
        kind=table.kind,
        labels=table.labels,
        shape=table.values.shape,
        num=table.num,
        numbers=numbers_of_table(metric, table),
        cells=zlib.compress(np.ascontiguousarray(table.values).tobytes(), 3),
    )
