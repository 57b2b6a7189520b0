"""TLS: the files given, and the coordinator's certificate."""

import ssl
from collections.abc import Iterator

from domo.errors import ConfigError
from domo.ops.findings import Finding, ok, problem, unchecked
from domo_client.doctor.checks import Facts, Setup
from domo_client.doctor.checks.network import not_grpc
from domo_client.identity.dial import reason, spoken_without_tls
from domo_client.identity.tls import Port, coordinators, hung_up, own_files
from domo_proto.certificates import check_pair, read_certificates
from domo_proto.channel import TlsFiles


def files(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """The files on this side: readable, fitting, valid, and of this silo."""
    tls = setup.tls
    if tls is None:
        yield ok("no TLS file is given")
        return
    yield from own_files(tls, setup.name)
    if tls.cert is None or tls.key is None:
        return
    try:
        facts.own = read_certificates(tls.cert, "--tls-cert")[0]
    except ConfigError:
        return
    facts.sent_tls = all(f.state == "ok" for f in check_pair(tls.cert, tls.key))


def _port(setup: Setup, facts: Facts) -> Port:
    return Port(setup.server or "", setup.tls or TlsFiles(), facts.proxy, facts.sent_tls)


def handshake(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """What the port speaks, where TLS is to be used, and whether it takes the own certificate."""
    port = _port(setup, facts)
    shown = port.shake()
    facts.presented = shown.certificate
    if shown.speaks:
        yield ok(f"{setup.server} speaks gRPC over TLS")
    elif shown.hung_up:
        yield hung_up(port)
    elif shown.fault is None:
        text = f"{setup.server} speaks TLS, and no gRPC"
        yield problem(text, "check the port in --server; is a firewall or web server before it?")
    elif isinstance(shown.fault, ssl.SSLError):
        yield _no_tls(setup, facts)
    else:
        yield problem(f"the TLS handshake is cut off: {reason(shown.fault)}", _FIREWALL)


_FIREWALL = "does a firewall open TLS to look inside? It must let this connection pass unopened"


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


def certificate(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """The coordinator's certificate: dates, name, CA."""
    if facts.presented is None:
        yield unchecked("the coordinator has not shown it")
        return
    yield from coordinators(_port(setup, facts), facts.presented)
