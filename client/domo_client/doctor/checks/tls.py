"""TLS: the files given, and the coordinator's certificate, with `ssl` and `cryptography`."""

import os
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
from cryptography import x509

from domo.errors import ConfigError
from domo.ops.findings import (
    Finding,
    ok,
    problem,
    unchecked,
)
from domo_client.doctor.checks import Facts, Setup
from domo_client.doctor.checks.dial import (
    bare_context,
    first_bytes,
    is_http2,
    spoken_without_tls,
    tls_socket,
)
from domo_client.doctor.checks.network import not_grpc, reason
from domo_proto.certificates import (
    alternative_names,
    check_dates,
    check_pair,
    common_names,
    is_for,
    read_certificates,
)
from domo_proto.channel import TlsFiles

ROOTS_VARIABLE = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
EXPIRED, NOT_YET = 10, 9
"""`X509_V_ERR_CERT_HAS_EXPIRED` and `_NOT_YET_VALID`: the dates are looked at by themselves."""


def files(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """The files on this side: readable, fitting, valid, and of this silo."""
    tls = setup.tls
    if tls is None:
        yield ok("no TLS file is given")
        return
    if tls.ca is not None:
        try:
            first = read_certificates(tls.ca, "--tls-ca")[0]
        except ConfigError as error:
            yield problem(str(error), "check the path and its permissions; ask the admin for it")
        else:
            yield check_dates(first, f"the CA in {tls.ca}", "ask the admin for the new one", _now())
    if tls.cert is None and tls.key is None:
        return
    if tls.cert is None or tls.key is None:
        yield problem("a certificate and its key go together", "give both --tls-cert and --tls-key")
        return
    pair = list(check_pair(tls.cert, tls.key))
    yield from pair
    try:
        facts.own = read_certificates(tls.cert, "--tls-cert")[0]
    except ConfigError:
        return
    facts.sent_tls = all(f.state == "ok" for f in pair)
    renew = "have a new one signed by the federation's CA, and give it with --tls-cert"
    yield check_dates(facts.own, f"the own certificate {tls.cert}", renew, _now())
    names = [*alternative_names(facts.own), *common_names(facts.own)]
    if setup.name in names:
        yield ok(f"the own certificate is for {setup.name}")
        return
    text = f"the own certificate is for {', '.join(dict.fromkeys(names)) or 'nobody'}, not for "
    mend = "give the --name that is in it, or have one made with this name (subject alternative)"
    yield problem(f"{text}{setup.name}", mend)


def _now() -> float:
    return time.time()


def handshake(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """What the port speaks, where TLS is to be used, and whether it takes the own certificate."""
    context = bare_context()
    tls = setup.tls or TlsFiles()
    if facts.sent_tls and tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    try:
        with tls_socket(setup.host, setup.port, facts.proxy, context) as sock:
            facts.presented = _presented(sock)
            protocol = sock.selected_alpn_protocol()
            try:
                good = is_http2(first_bytes(sock))
            except ssl.SSLError:
                good = False
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            yield _hung_up(setup, facts)
            return
        yield _no_tls(setup, facts)
        return
    except OSError as error:
        yield problem(f"the TLS handshake is cut off: {reason(error)}", _FIREWALL)
        return
    if good:
        yield ok(f"{setup.server} speaks gRPC over TLS")
    elif protocol != "h2":
        text = f"{setup.server} speaks TLS, and no gRPC"
        yield problem(text, "check the port in --server; is a firewall or web server before it?")
    else:
        yield _hung_up(setup, facts)


_FIREWALL = "does a firewall open TLS to look inside? It must let this connection pass unopened"


def _presented(sock: ssl.SSLSocket) -> x509.Certificate | None:
    raw = sock.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(raw) if raw else None


def _no_tls(setup: Setup, facts: Facts) -> Finding:
    """A handshake went wrong before anybody refused anything."""
    spoken = spoken_without_tls(setup.host, setup.port, facts.proxy)
    if spoken == "grpc":
        mend = "leave out --tls-ca, --tls-cert and --tls-key, or turn TLS on at the coordinator"
        return problem(f"{setup.server} speaks gRPC without TLS", mend)
    if spoken == "tls":
        return problem(f"{setup.server} speaks TLS of another version", _FIREWALL)
    if spoken == "nothing":
        mend = f"is it the port for silos (50051 by default)? Else: {_FIREWALL}"
        return problem(f"{setup.server} hangs up in the TLS handshake", mend)
    return not_grpc(setup, spoken)


def _hung_up(setup: Setup, facts: Facts) -> Finding:
    if facts.own is None:
        text = f"{setup.server} hangs up: it wants a certificate of the silo (mTLS)"
        return problem(text, "give --tls-cert and --tls-key; the admin's PKI makes them")
    if not facts.sent_tls:
        return unchecked("the own certificate cannot be shown; mend it first")
    text = f"{setup.server} hangs up on the own certificate {setup.tls.cert if setup.tls else ''}"
    mend = "it must be valid and signed by the CA that the coordinator has as client_ca"
    return problem(text, mend)


def certificate(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """The coordinator's certificate: dates, name, CA."""
    cert = facts.presented
    if cert is None:
        yield unchecked("the coordinator has not shown it")
        return
    what = "the coordinator's certificate"
    yield check_dates(cert, what, "ask the admin to renew it and restart the coordinator", _now())
    if is_for(cert, setup.host):
        yield ok(f"{what} is for {setup.host}")
    else:
        names = alternative_names(cert) or common_names(cert)
        text = f"{what} is for {', '.join(names) or 'nobody'}, not for {setup.host}"
        yield problem(text, "give one of these as --server, or have one made for the name in use")
    yield _authority(setup, facts, what)


def _authority(setup: Setup, facts: Facts, what: str) -> Finding:
    tls = setup.tls or TlsFiles()
    roots = tls.ca or _default_roots()
    where = str(tls.ca or _default_where())
    context = bare_context()
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        if roots is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(roots)
        if facts.sent_tls and tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except (OSError, ssl.SSLError):
        return unchecked(f"who signed {what}: {where} cannot be read")
    try:
        with tls_socket(setup.host, setup.port, facts.proxy, context):
            return ok(f"{what} is signed by a CA in {where}")
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (EXPIRED, NOT_YET):
            return ok(f"{what} is signed by a CA in {where}")
        signer = facts.presented.issuer.rfc4514_string() if facts.presented else "another CA"
        text = f"{what} is not signed by a CA in {where}, but by {signer}: the wrong CA"
        return problem(text, "ask the admin for the CA's file and give it as --tls-ca")
    except OSError as error:
        return unchecked(f"who signed {what}: the connection is cut off: {reason(error)}")


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
