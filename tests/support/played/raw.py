"""A silo on the wire that says whatever it is told to."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import grpc
import numpy as np
import pytest
import xxhash
from grpc_health.v1 import health_pb2_grpc

from domo import errors
from domo_proto import PROTOCOL_VERSION
from domo_proto.codec import VectorId, encode_frame
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from tests.support.live.coordinator import Coordinator

GOOD = np.array([1, 2, 3], "<f4").tobytes()
"""An update of nn.Linear(2, 1)."""


class Raw:
    """A silo that says what it is told to."""

    def __init__(self, server: Coordinator, channel: grpc.Channel | None = None):
        self._channel = channel or grpc.insecure_channel(server.address)
        self.stub: Any = pb_grpc.FederationStub(self._channel)
        data = "/domo_proto.v1.FederationData/"
        self._fetch: Any = self._channel.unary_stream(data + "FetchRound")
        self._submit: Any = self._channel.stream_unary(data + "SubmitUpdate")
        self.health = health_pb2_grpc.HealthStub(self._channel)
        self.run_id = server.run_ids[0] if server.run_ids else ""

    def join(self, **given: Any) -> Any:
        values = {
            "protocol_version": PROTOCOL_VERSION,
            "silo_id": "site-a",
            "instance_id": "i",
            "role": pb.TRAINER,
        }
        answer = self.stub.Join(pb.JoinRequest(**{**values, **given}), timeout=30)
        self.session = answer.session
        return answer

    def enroll(self, **given: Any) -> Any:
        offer = self.stub.WaitForRun(pb.WaitForRunRequest(session=self.session), timeout=30).offer
        values = {
            "session": self.session,
            "run_id": self.run_id,
            "config_digest": offer.config_digest,
            "layout_digest": offer.layout_digest,
        }
        return self.stub.Enroll(pb.EnrollRequest(**{**values, **given}), timeout=30)

    def fetch(self, **given: Any) -> list[bytes]:
        values = {"session": self.session, "run_id": self.run_id, "evaluated_index": -1}
        request = pb.FetchRequest(**{**values, **given}).SerializeToString()
        return list(self._fetch(request, timeout=30))

    def status(self, whole: bytes = GOOD, r: int = 0) -> Any:
        digest = xxhash.xxh3_128_digest(whole)
        request = pb.UploadStatusRequest(
            session=self.session, run_id=self.run_id, round_index=r, digest=digest
        )
        return self.stub.UploadStatus(request, timeout=30)

    def submit(
        self, whole: bytes = GOOD, frames: Iterable[bytes] | None = None, **given: Any
    ) -> Any:
        values = {
            "session": self.session,
            "run_id": self.run_id,
            "vectors": [pb.VectorInfo(id=pb.UPDATE, num_bytes=12)],
            "digest": xxhash.xxh3_128_digest(whole),
            "num_steps": 1,
        }
        header = pb.UpdateHeader(**{**values, **given}).SerializeToString()
        if frames is None:
            frames = [encode_frame(VectorId.UPDATE, 0, memoryview(whole))]
        return pb.SubmitResponse.FromString(self._submit(chain([header], frames), timeout=30))

    def submit_bytes(self, *messages: bytes) -> Any:
        return self._submit(iter(messages), timeout=30)

    def close(self) -> None:
        self._channel.close()


def fault(call: Any, *args: Any, **given: Any) -> errors.DomoError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **given)
    return from_rpc(caught.value, "here")
