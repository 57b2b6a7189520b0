"""Whether a coordinator is one that this silo's policy names, before anything is said to it."""

import hashlib
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domo.errors import AccessError
from domo.ops import proxies
from domo.ops.addresses import split
from domo_client.identity.tls import Port
from domo_client.policy.policy import Policy
from domo_proto.certificates import read_certificates
from domo_proto.channel import TlsFiles


class OtherCoordinatorError(AccessError):
    """The coordinator is none that the policy names."""

    code = "other-coordinator"


def see_coordinator(policy: Policy, server: str, tls: TlsFiles | None) -> None:
    """See that a coordinator is one that the policy names.

    Where the policy names CAs, this silo believes no other; where it names keys, the coordinator
    has one of them. The key is asked for in a handshake of its own; that the connection of the run
    ends at the same coordinator is what the CA vouches for.

    Args:
        policy: This silo's.
        server: host:port.
        tls: PEM files; None: no TLS, and no coordinator can be known by it.

    Raises:
        OtherCoordinatorError: It is not.
    """
    if policy.coordinator is None:
        return
    shown = Shown([], None) if tls is None else shows(server, tls)
    named = {
        kind: [p for p in policy.coordinator if p.startswith(kind)] for kind in ("ca:", "key:")
    }
    good = bool(shown.authorities or shown.key) and bool(policy.coordinator)
    if named["ca:"]:
        good = good and set(shown.authorities) <= set(named["ca:"])
    if named["key:"]:
        good = good and shown.key in named["key:"]
    if not good:
        pins = [*shown.authorities, *([shown.key] if shown.key else [])]
        seen = " and ".join(pins) or "no certificate, as it is spoken to without TLS"
        raise OtherCoordinatorError(
            f"coordinator: {server} shows {seen}, which this silo's policy does not name; nothing "
            "was said to it. If it is the right one, add that to policy.toml"
        )


class Shown(NamedTuple):
    """What a coordinator can be known by, as policies name it.

    Attributes:
        authorities: The CAs that this silo believes.
        key: The key that the coordinator has; None: nobody answered.
    """

    authorities: list[str]
    key: str | None


def shows(server: str, tls: TlsFiles) -> Shown:
    """What a coordinator can be known by.

    Args:
        server: host:port.
        tls: PEM files.
    """
    known = read_certificates(tls.ca, "--tls-ca") if tls.ca is not None else []
    authorities = [f"ca:{_sha256(c.public_bytes(Encoding.DER))}" for c in known]
    proxy = proxies.of_grpc(split(server)[0])
    theirs = Port(server, tls, proxy, usable=tls.cert is not None).shake().certificate
    if theirs is None:
        return Shown(authorities, None)
    key = theirs.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Shown(authorities, f"key:{_sha256(key)}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
