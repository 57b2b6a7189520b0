"""Certificates of silos, on the wire."""

from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.identity.guard import CALL


def certificate_end() -> float | None:
    """When the certificate of the call under way ends, seconds since 1970; None: it showed none."""
    call = CALL.get()
    return call.peer.end if call is not None and call.peer is not None else None


async def certified(coordinator: Coordinator, request: pb.CertifyRequest) -> pb.CertifyResponse:
    """Answer the call under way with a certificate.

    Raises:
        AccessError: Whoever calls may not have it.
        ProtocolError: It is no request for one.
    """
    call = CALL.get()
    assert call is not None
    cert, ca = await coordinator.certifier.certify(call, request.request_pem)
    return pb.CertifyResponse(certificate_pem=cert, ca_pem=ca)
