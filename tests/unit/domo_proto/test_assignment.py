import struct
from dataclasses import replace

import pytest
from torch import nn

from domo.errors import ProtocolError
from domo.model.layout import Layout
from domo_proto.assignment import (
    Action,
    Announced,
    Assignment,
    Counted,
    read_header,
    sizes_of,
)
from domo_proto.codec import VectorId
from domo_proto.v1 import federation_pb2 as pb

SIZES = sizes_of(Layout.of(nn.BatchNorm1d(2)))
X, X_PREV = Announced(16, b"x" * 16), Announced(16, b"p" * 16)
TRAIN = Assignment(
    Action.TRAIN,
    run_id="1-r",
    round_index=6,
    num_rounds=9,
    num_steps=12,
    local_lr=0.05,
    inference_scale=0.6,
    evaluate=True,
    vectors={VectorId.X: X, VectorId.X_PREV: X_PREV},
    counted=Counted(4, "ab" * 16),
)
OTHERS = [
    Assignment(Action.ASK_AGAIN, run_id="1-r", text="the run is paused by the admin"),
    Assignment(Action.EVALUATE, run_id="1-r", evaluate=True, vectors={VectorId.X: X}),
    Assignment(Action.END, run_id="1-r", round_index=9, outcome="FINISHED", text="all done"),
]


def test_what_one_end_says_the_other_reads() -> None:
    wire = TRAIN.header({VectorId.X: 8}).SerializeToString()
    read = read_header(pb.RoundHeader.FromString(wire), SIZES)
    sent = {VectorId.X: X._replace(sent=True, offset=8), VectorId.X_PREV: X_PREV}
    assert read == replace(TRAIN, vectors=sent)


@pytest.mark.parametrize("said", OTHERS, ids=[said.action for said in OTHERS])
def test_other_actions(said: Assignment[Announced]) -> None:
    assert read_header(said.header(), SIZES) == said


def test_the_actions_are_those_of_the_wire() -> None:
    assert {a.value for a in Action} == {*pb.Action.keys()} - {"ACTION_UNSPECIFIED"}


def test_the_sizes_are_those_of_the_model() -> None:
    """BatchNorm1d(2): weight and bias; two means and variances; a counter of 8 bytes."""
    down = dict.fromkeys((VectorId.X, VectorId.X_PREV, VectorId.MEAN_MOMENTUM), 16)
    down[VectorId.CONTROL] = 16
    buffers = {VectorId.FLOAT_BUFFERS: 16, VectorId.INTEGER_BUFFERS: 8, VectorId.FROZEN: 0}
    assert down | buffers == SIZES


def test_a_header_that_does_not_fit_is_refused() -> None:
    """Each kind of lie is in tests/unit/domo_client/rpc/test_data.py, over a real channel."""
    large = replace(TRAIN, vectors={VectorId.X: X._replace(num_bytes=1 << 60)})
    with pytest.raises(ProtocolError, match="of X; the model has 16"):
        read_header(large.header(), SIZES)


def test_a_coordinator_of_before_is_understood() -> None:
    """It says `attempt` (4) and `remaining_s` (13), which nobody used."""
    older = b"\x20\x01" + b"\x69" + struct.pack("<d", 30.0)
    wire = TRAIN.header().SerializeToString() + older
    assert read_header(pb.RoundHeader.FromString(wire), SIZES) == TRAIN
