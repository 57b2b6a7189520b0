"""Tables of `domo.metrics` on the wire: the cells that are not 0."""

import math

import numpy as np

from domo.errors import ProtocolError
from domo.metrics.table import MOST_CELLS, Table, why_bad, why_unlike
from domo_proto.v1 import federation_pb2 as pb

TABLES = "metric-tables"
"""Capability of a coordinator that adds tables over silos."""


def table_message(table: Table) -> pb.MetricTable:
    """A table as it travels."""
    cells = table.values.ravel()
    (at,) = np.nonzero(cells)
    return pb.MetricTable(
        kind=table.kind,
        shape=table.values.shape,
        labels=table.labels,
        at=at.tolist(),
        values=cells[at].tolist(),
    )


def table_of(message: pb.MetricTable) -> Table:
    """A table that a peer has sent.

    Raises:
        ProtocolError: It is none.
    """
    shape, labels = tuple(message.shape), tuple(message.labels)
    why = why_bad(message.kind, shape, labels, message.values)
    if why is not None:
        raise ProtocolError(why)
    size = math.prod(shape)
    at = np.array(message.at, dtype=np.int64)
    if size > MOST_CELLS or len(at) != len(message.values):
        raise ProtocolError(f"a table of {size} cells has {len(at)} places for its values")
    if len(at) and ((np.diff(at) <= 0).any() or at[-1] >= size):
        raise ProtocolError("the places of a table's cells do not ascend, or lie outside it")
    cells = np.zeros(size)
    cells[at] = message.values
    table = Table(message.kind, cells.reshape(shape), labels)
    why = why_unlike(table)
    if why is not None:
        raise ProtocolError(why)
    return table
