import math

import numpy as np
import pytest

from domo.errors import ProtocolError
from domo.metrics import Table
from domo_proto.tables import table_message
from domo_proto.v1 import federation_pb2 as pb
from domo_server.rpc.access import measured_of, seconds


@pytest.mark.parametrize(
    ("said", "kept"),
    [(0.0, 0.0), (2.5, 2.5), (-0.1, None), (math.inf, None), (math.nan, None), (None, None)],
)
def test_a_length_of_time(said: float | None, kept: float | None) -> None:
    assert seconds(pb.ReportRequest(longest_step_s=said), "longest_step_s") == kept


def test_a_few_bytes_on_the_wire_do_not_become_many_tables() -> None:
    cells = np.zeros((256, 256))
    cells[0, 0] = 1.0
    one = pb.MetricSum(table=table_message(Table("confusion", cells)))
    assert len(measured_of({f"m{i}": one for i in range(4)})) == 4
    with pytest.raises(ProtocolError, match="262144 cells at most"):
        measured_of({f"m{i}": one for i in range(5)})
