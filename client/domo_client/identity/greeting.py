"""Whether the coordinator lets this silo in: asked before torch is loaded, so that a no is soon."""

from contextlib import closing

import grpc

from domo.errors import AccessError, CoordinatorUnavailableError
from domo.ops.addresses import grpc_address
from domo_client.identity.look import Look
from domo_client.identity.tls import check_own
from domo_proto.certificates import CertificateError
from domo_proto.channel import TlsFiles, federation_stub, make_channel
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb

GREET_S = 3.0
"""How long an answer is waited for; without one, joining finds out."""


def see_let_in(server: str, tls: TlsFiles, name: str) -> None:
    """See that files, both ends' certificates and the silo's name are good for a connection.

    Raises:
        ConfigError: A file cannot be read, or is missing.
        CertificateError: One keeps the two ends apart.
        AccessError: The coordinator does not let this silo in; it says why.
    """
    check_own(tls, name)
    server = grpc_address(server)
    with closing(make_channel(server, tls)) as channel:
        try:
            federation_stub(channel).LookAtRun(pb.LookAtRunRequest(silo_id=name), timeout=GREET_S)
        except grpc.RpcError as error:
            said = from_rpc(error, server)
            if isinstance(said, AccessError):
                raise said from None
            unmarked = isinstance(said, CoordinatorUnavailableError) and said.elsewhere
            if unmarked and (why := Look(server, tls, name).why()):
                raise CertificateError(why) from None
