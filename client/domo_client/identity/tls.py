"""What is wrong between two ends of TLS, each fault with what to do: `doctor`, and joining, say it.

grpc says little: that the other end hung up, or of a name with two addresses that the second one
refused. So the port is asked once more with `ssl`, and files are looked at before anybody dials.
"""

import os
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509

from domo.errors import ConfigError
from domo.names import one_line
from domo.ops import proxies
from domo.ops.addresses import split
from domo.ops.findings import Finding, ok, problem, unchecked
from domo.ops.proxies import Proxy
from domo_client.identity.dial import (
    bare_context,
    first_bytes,
    is_http2,
    reason,
    tls_socket,
)
from domo_proto.certificates import (
    CertificateError,
    alternative_names,
    check_dates,
    check_pair,
    common_names,
    is_for,
    read_certificates,
)
from domo_proto.channel import TlsFiles
from domo_proto.identities import dns_names, uris, who

ROOTS_VARIABLE = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
EXPIRED, NOT_YET = 10, 9
"""`X509_V_ERR_CERT_HAS_EXPIRED` and `_NOT_YET_VALID`: the dates are looked at by themselves."""
RENEW = (
    "have a new one: the admin runs domo-server enroll NAME, and this silo domo-client enroll; or "
    "have it signed by your own CA, and give it with --tls-cert"
)
THEIRS = "the coordinator's certificate"


@dataclass(slots=True)
class Shown:
    """What a handshake has shown.

    Attributes:
        certificate: The coordinator's; None: none came.
        hung_up: Whether the coordinator ended it once it had seen what this end has.
        speaks: Whether gRPC is spoken then.
        protocol: As ALPN has it.
        fault: Why there was no handshake, as `ssl` or the system says; None: there was one.
    """

    certificate: x509.Certificate | None = None
    hung_up: bool = False
    speaks: bool = False
    protocol: str | None = None
    fault: OSError | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """A coordinator's port for silos, with the files that go with it.

    Attributes:
        server: host:port, as it is said.
        tls: The files.
        proxy: Through which it is dialled.
        usable: Whether the own certificate and key can be shown.
    """

    server: str
    tls: TlsFiles
    proxy: Proxy | None = None
    usable: bool = False

    @property
    def host(self) -> str:
        """Its name or address, without brackets."""
        return split(self.server)[0]

    def dial(self, context: ssl.SSLContext) -> AbstractContextManager[ssl.SSLSocket]:
        """A connection after its handshake."""
        return tls_socket(*split(self.server), self.proxy, context)

    def own_in(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """A context that shows the own certificate, if it can be."""
        if self.usable and self.tls.cert is not None:
            context.load_cert_chain(self.tls.cert, self.tls.key)
        return context

    def shake(self) -> Shown:
        """A handshake that believes everything, and the first bytes of HTTP/2."""
        shown = Shown()
        try:
            with self.dial(self.own_in(bare_context())) as sock:
                raw = sock.getpeercert(binary_form=True)
                shown.certificate = x509.load_der_x509_certificate(raw) if raw else None
                shown.protocol = sock.selected_alpn_protocol()
                with suppress(ssl.SSLError):
                    shown.speaks = is_http2(first_bytes(sock))
                shown.hung_up = not shown.speaks and shown.protocol == "h2"
        except OSError as error:
            shown.fault = error
            said = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
            shown.hung_up = "ALERT" in said and ("CERT" in said or "UNKNOWN_CA" in said)
        return shown


def own_files(tls: TlsFiles, name: str) -> Iterator[Finding]:
    """The files on this side: readable, fitting, valid, and of this silo."""
    if tls.ca is not None:
        try:
            ca = max(read_certificates(tls.ca, "--tls-ca"), key=lambda c: c.not_valid_after_utc)
        except ConfigError as error:
            yield problem(str(error), "check the path and its permissions; ask the admin for it")
        else:
            mend = "ask the admin for the new one"
            yield check_dates(ca, f"the CA in {tls.ca}", mend, time.time())
    if tls.cert is None and tls.key is None:
        return
    if tls.cert is None or tls.key is None:
        yield problem("a certificate and its key go together", "give both --tls-cert and --tls-key")
        return
    yield from check_pair(tls.cert, tls.key)
    try:
        own = read_certificates(tls.cert, "--tls-cert")[0]
    except ConfigError:
        return
    yield check_dates(own, f"the own certificate {tls.cert}", RENEW, time.time())
    yield own_name(own, name)


def check_own(tls: TlsFiles, name: str) -> None:
    """See that the files on this side will do, before anybody dials.

    Raises:
        ConfigError: A file cannot be read, or one is missing.
        CertificateError: One does not hold now, is not this silo's, or they do not fit.
    """
    if (tls.cert is None) != (tls.key is None):
        raise ConfigError("tls: a client certificate and its key go together")
    for which in ("ca", "cert", "key"):
        tls.read(which)
    if (wrong := first_problem(own_files(tls, name))) is not None:
        raise CertificateError(f"{wrong.text}; {wrong.mend}")


def own_name(own: x509.Certificate, name: str) -> Finding:
    """Whether a certificate is a silo's: its name must be a DNS name in it.

    One that holds a URI may be another one's at the coordinator: its table of names says.
    """
    if name in dns_names(own) or uris(own):
        return ok(f"the own certificate is for {name}")
    mend = "give the --name that is in it, or have one made with this name (subject alternative)"
    return problem(f"the own certificate is for {who(own)}, not for {name}", mend)


def coordinators(port: Port, cert: x509.Certificate) -> Iterator[Finding]:
    """The coordinator's certificate: dates, name, CA."""
    renew = "ask the admin to renew it, and see whether this machine's clock is right"
    yield check_dates(cert, THEIRS, renew, time.time())
    if is_for(cert, port.host):
        yield ok(f"{THEIRS} is for {port.host}")
    else:
        names = alternative_names(cert) or common_names(cert)
        text = f"{THEIRS} is for {one_line(', '.join(names)) or 'nobody'}, not for {port.host}"
        yield problem(text, "give one of these as --server, or have one made for the name in use")
    yield _authority(port, cert)


def _authority(port: Port, cert: x509.Certificate) -> Finding:
    roots = port.tls.ca or _default_roots()
    where = str(port.tls.ca or _default_where())
    context = bare_context()
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        if roots is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(roots)
        port.own_in(context)
    except (OSError, ssl.SSLError):
        return unchecked(f"who signed {THEIRS}: {where} cannot be read")
    try:
        with port.dial(context) as sock:
            with suppress(OSError):
                first_bytes(sock)  # a connection without a call would be a refused handshake there
            return ok(f"{THEIRS} is signed by a CA in {where}")
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (EXPIRED, NOT_YET):
            return ok(f"{THEIRS} is signed by a CA in {where}")
        signer = one_line(cert.issuer.rfc4514_string())
        text = f"{THEIRS} is not signed by a CA in {where}, but by {signer}: the wrong CA"
        return problem(text, "ask the admin for the CA's file and give it as --tls-ca")
    except OSError as error:
        return unchecked(f"who signed {THEIRS}: the connection is cut off: {reason(error)}")


def _default_where() -> str:
    given = os.environ.get(ROOTS_VARIABLE)
    if given:
        return f"{given} (of {ROOTS_VARIABLE}; no --tls-ca is given)"
    return "the public CAs (no --tls-ca is given)"


def _default_roots() -> Path | None:
    """Those that grpc believes where no CA is given."""
    given = os.environ.get(ROOTS_VARIABLE)
    if given:
        return Path(given)
    bundled = Path(grpc.__file__).parent / "_cython" / "_credentials" / "roots.pem"
    return bundled if bundled.is_file() else None


def hung_up(port: Port) -> Finding:
    """What is wrong where the coordinator ends a handshake once it has seen this end's papers."""
    if port.tls.cert is None:
        text = f"{port.server} hangs up: it wants a certificate of the silo (mTLS)"
        return problem(text, "domo-client enroll makes one; or give --tls-cert and --tls-key")
    if not port.usable:
        return unchecked("the own certificate cannot be shown; mend it first")
    text = f"{port.server} hangs up on the own certificate {port.tls.cert}"
    try:
        own = read_certificates(port.tls.cert, "--tls-cert")[0]
    except ConfigError:
        pass
    else:
        text += f", signed by {own.issuer.rfc4514_string()}"
    mend = (
        "it must be signed by the CA that the coordinator has (client_ca), for a client, and valid "
        "by the coordinator's clock; ask the admin, whose events name this refusal, or enrol again"
    )
    return problem(text, mend)


def fault(server: str, tls: TlsFiles, name: str, by_code: bool = False) -> Finding | None:
    """Why TLS with a coordinator fails, and does not pass by itself; None: it is not that.

    Args:
        server: host:port.
        tls: The files.
        name: This silo's.
        by_code: The own certificate is that of a code.
    """
    if not by_code and (own := first_problem(own_files(tls, name))) is not None:
        return own
    proxy = proxies.of_grpc(split(server)[0])
    port = Port(server, tls, proxy, tls.cert is not None)
    shown = port.shake()
    if shown.certificate is not None:
        found = first_problem(coordinators(port, shown.certificate))
        if found is not None:
            return found
    if by_code and shown.hung_up and shown.certificate is not None:
        text = f"{server} hangs up on this code: it was made by another coordinator"
        mend = "ask the admin for a new one: domo-server enroll NAME; or the code is a week old"
        return problem(text, mend)
    return hung_up(port) if shown.hung_up else None


def first_problem(findings: Iterator[Finding]) -> Finding | None:
    """The first of them that is one."""
    return next((f for f in findings if f.state == "problem"), None)
