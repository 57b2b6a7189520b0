"""Tables of metrics on the wire: what peers may send."""

from typing import Any

import numpy as np
import pytest

from domo import metrics
from domo.errors import ProtocolError
from domo_proto.tables import table_message, table_of
from domo_proto.v1 import federation_pb2 as pb


@pytest.mark.parametrize(
    "table",
    [
        metrics.auc([0, 1, 1], logits=[-1.0, 0.5, 2.0]),
        metrics.average_precision([0, 2, 1], logits=np.eye(3), classes=["a", "b", "c"]),
        metrics.confusion([0, 1], predictions=[1, 1], classes=["cat", "dog"]),
        metrics.calibration([0, 1], logits=[0.1, 0.2]),
        metrics.regression([1.0, 2.0], [1.5, -2.0]),
    ],
    ids=lambda table: table.kind,
)
def test_there_and_back(table: metrics.Table) -> None:
    message = pb.MetricTable.FromString(table_message(table).SerializeToString())
    back = table_of(message)
    assert (back.kind, back.labels) == (table.kind, table.labels)
    assert np.array_equal(back.values, table.values)
    assert message.ByteSize() < 300, "cells that are 0 do not travel"


def message(**changes: Any) -> pb.MetricTable:
    good = {"kind": "confusion", "shape": [2, 2], "labels": [], "at": [0, 3], "values": [1.0, 2.0]}
    return pb.MetricTable(**{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "of-tomorrow"}, "no kind of table 'of-tomorrow'"),
        ({"shape": [2, 3]}, r"kind confusion has no shape \(2, 3\)"),
        ({"shape": [2**31, 2**31]}, "has no shape"),
        ({"shape": [1, 1]}, "has no shape"),
        ({"shape": [1] * 40}, "has no shape"),
        ({"kind": "auc", "shape": [1, 2, 4]}, "has no shape"),
        ({"kind": "auc", "shape": [2**32 - 1, 2, 2]}, "has no shape"),
        ({"labels": ["a"]}, "2 classes has 1 labels"),
        ({"labels": ["a", "a"]}, "two that are the same"),
        ({"labels": ["a", "b\n"]}, "one printable line"),
        ({"labels": ["a", "b" * 65]}, "up to 64 characters"),
        ({"values": [1.0, float("nan")]}, "not finite"),
        ({"values": [1.0, float("inf")]}, "not finite"),
        ({"values": [1.0, -2.0]}, "less than nothing"),
        ({"values": [1.0, 1e16]}, "more than 1e"),
        ({"values": [1.0]}, "2 places"),
        ({"at": [0, 4]}, "outside it"),
        ({"at": [3, 0]}, "do not ascend"),
        ({"at": [0, 0]}, "do not ascend"),
        ({"kind": "calibration", "shape": [3, 2], "at": [0, 2]}, "more confidence"),
        ({"kind": "regression", "shape": [5], "at": [0, 1], "values": [2.0, -1.0]}, "below 0"),
        ({"kind": "regression", "shape": [5], "at": [0, 3], "values": [1.0, 9.0]}, "go together"),
    ],
)
def test_what_is_no_table_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        table_of(message(**changes))
