"""Certificates of silos, on the wire."""

from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.identity.guard import CALL
from domo_server.silos.session import Session


def shows_certificate() -> bool:
    """Whether the call under way came with a certificate."""
    call = CALL.get()
    return call is not None and call.peer is not None


def note_certificate(session: Session) -> None:
    """Write down from when until when the certificate of the call under way is valid."""
    call = CALL.get()
    if call is not None and call.peer is not None:
        session.certificate_begin, session.certificate_end = call.peer.begin, call.peer.end


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
