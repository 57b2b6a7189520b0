import math

import pytest

from domo_proto.v1 import federation_pb2 as pb
from domo_server.rpc.access import seconds


@pytest.mark.parametrize(
    ("said", "kept"),
    [(0.0, 0.0), (2.5, 2.5), (-0.1, None), (math.inf, None), (math.nan, None), (None, None)],
)
def test_a_length_of_time(said: float | None, kept: float | None) -> None:
    assert seconds(pb.ReportRequest(longest_step_s=said), "longest_step_s") == kept
