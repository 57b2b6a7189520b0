"""The way to the coordinator: flags, proxy, name, port, protocol, clock."""

import os
import socket
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

import domo
from domo.errors import ConfigError, ProtocolError, VersionError
from domo.names import is_name
from domo.ops import proxies
from domo.ops.addresses import PAGE_PORT, grpc_address, is_local, is_loopback, joined, page_url
from domo.ops.findings import (
    Finding,
    ok,
    problem,
    unchecked,
    warning,
)
from domo_client.doctor.checks import Facts, Setup
from domo_client.given import parse_shard
from domo_client.identity.dial import (
    ProxyRefusedError,
    dial,
    reason,
    spoken_without_tls,
)
from domo_client.loop.connect import COMPRESSIONS
from domo_proto import PROTOCOL_VERSION
from domo_proto.channel import CLIENT_OPTIONS, federation_stub, make_channel
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb

CALL_S = 10.0
DASHBOARD_S = 3.0
CLOCK_OK_S, CLOCK_BAD_S = 30.0, 300.0
"""Differences of clocks: nobody minds up to the first; certificates fail beyond the second."""


def flags(setup: Setup) -> Iterator[Finding]:
    """What joining would refuse before it dials."""
    good = True
    if setup.server is None:
        good = False
        yield problem("which coordinator? Give --server host:port", "or set DOMO_CLIENT_SERVER")
    else:
        try:
            grpc_address(setup.server)
        except ConfigError as error:
            good = False
            yield problem(str(error), "such as --server coordinator.example.org:50051")
        if good and setup.tls is None and not setup.insecure and not is_loopback(setup.server):
            good = False
            text = f"{setup.server} is another machine, and no TLS file is given"
            mend = "--tls-ca, and --tls-cert and --tls-key; --insecure on a network that you trust"
            yield problem(text, mend)
    if not is_name(setup.name):
        good = False
        text = f"{setup.name!r} is no silo name: letters, digits, '.', '_', '-', at most 64"
        yield problem(text, "choose another --name")
    for flag, value, allowed in (
        ("--role", setup.role, ("trainer", "evaluator")),
        ("--precision", setup.precision, ("float32", "bf16")),
        ("--compression", setup.compression, COMPRESSIONS),
    ):
        if value not in allowed:
            good = False
            yield problem(f"{flag} {value}: no such choice", f"give {' or '.join(allowed)}")
    try:
        parse_shard(setup.shard)
    except ConfigError as error:
        good = False
        yield problem(str(error), "count parts from 0")
    if good:
        yield ok(f"{setup.name} would join {setup.server}")


def proxy(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether a variable sends grpc to a proxy, and whether that lets it through."""
    found = proxies.of_grpc(setup.host)
    if found is None:
        yield _no_proxy(setup)
        return
    way = proxies.way_past(found, setup.host)
    mend = f"export {way}, or unset {found.variable}, before domo-client starts"
    text = f"the variable {found.variable} sends grpc to {setup.host} through the proxy {found}"
    try:
        dial(setup.host, setup.port, found).close()
    except ProxyRefusedError as error:
        facts.proxy_broken = True
        yield problem(f"{text}, which refuses: {error}", mend)
    except OSError as error:
        facts.proxy_broken = True
        yield problem(f"{text}, where nobody answers: {reason(error)}", mend)
    else:
        facts.proxy = found
        yield warning(f"{text}; it lets us through, and may cut long connections", mend)


def _no_proxy(setup: Setup) -> Finding:
    """No proxy is taken; where a variable may have been meant otherwise, that is said."""
    unused = proxies.unused_by_grpc()
    if unused and not is_local(setup.host):
        why = "; ".join(f"{variable}: {why}" for variable, why in unused.items())
        mend = "export https_proxy=http://HOST:PORT, if the way to the coordinator is by a proxy"
        return warning(f"grpc dials {setup.host} directly, in spite of {why}", mend)
    variables = (*proxies.GRPC_VARIABLES, *proxies.GRPC_EXCEPTIONS)
    given = [v for v in variables if os.environ.get(v)]
    why = f"{', '.join(given)}: none of them concerns {setup.host}"
    return ok(why if given else "no proxy variable is set")


def name(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether the coordinator's name has an address."""
    if facts.proxy is not None:
        yield unchecked(f"the proxy looks {setup.host} up")
        return
    try:
        found = socket.getaddrinfo(setup.host, setup.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        text = f"the name {setup.host} cannot be resolved: {getattr(error, 'strerror', error)}"
        yield problem(text, "check the host in --server for a slip; ask who runs your DNS")
        return
    addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
    if list(addresses) == [setup.host]:
        yield ok(f"{setup.host} is an address; no name is looked up")
    else:
        yield ok(f"{setup.host} is {', '.join(addresses)}")


def port(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether the coordinator's port can be connected to."""
    try:
        dial(setup.host, setup.port, facts.proxy).close()
    except ConnectionRefusedError:
        mend = "is the coordinator started, is the port right, does it listen beyond its loopback?"
        yield problem(f"nothing listens at {setup.server}: connection refused", mend)
    except TimeoutError:
        mend = f"let TCP to port {setup.port} out of your firewall, and into the coordinator's"
        yield problem(f"{setup.server} does not answer: packets are lost on the way", mend)
    except OSError as error:
        mend = "check the address in --server, and this machine's network"
        yield problem(f"{setup.server} cannot be reached: {reason(error)}", mend)
    else:
        yield ok(f"{setup.server} can be connected to")


def speaks_grpc(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """What the port speaks, where no TLS is to be used."""
    spoken = spoken_without_tls(setup.host, setup.port, facts.proxy)
    if spoken == "grpc":
        yield ok(f"{setup.server} speaks gRPC, without TLS")
    elif spoken == "tls":
        mend = "ask the admin for the CA's file: --tls-ca, and perhaps --tls-cert and --tls-key"
        yield problem(f"{setup.server} speaks TLS, and no TLS file is given", mend)
    else:
        yield not_grpc(setup, spoken)


def not_grpc(setup: Setup, spoken: str) -> Finding:
    """The port is somebody else's."""
    mend = "give the port for silos (50051 by default), not that of the dashboard"
    if spoken == "http":
        return problem(f"{setup.server} is a web server, and speaks no gRPC", mend)
    said = "takes connections and says nothing" if spoken == "nothing" else "speaks something else"
    return problem(f"{setup.server} {said}; it is no coordinator", mend)


def protocol(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Ask over grpc, as the agent would: is it a coordinator, and of our version?

    The question is a Join without a name: the version is looked at first, the name is refused, and
    nothing has happened.
    """
    failed = "a call over gRPC fails"
    with channel(setup, facts) as way:
        health = health_pb2_grpc.HealthStub(way)
        service = pb.DESCRIPTOR.services_by_name["Federation"].full_name
        try:
            health.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_S)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED):
                text = f"{setup.server} speaks gRPC, and is no domo coordinator"
                yield problem(text, "check the port in --server")
            else:
                text = f"{failed}: {from_rpc(error, setup.server or '')}"
                yield problem(text, "the coordinator's log may say more")
            return
        request = pb.JoinRequest(
            protocol_version=PROTOCOL_VERSION, software_version=domo.__version__
        )
        try:
            federation_stub(way).Join(request, timeout=CALL_S)
        except grpc.RpcError as error:
            found = from_rpc(error, setup.server or "")
            if type(found) is ProtocolError:  # it got as far as the name
                text = f"{setup.server} is a coordinator, and speaks protocol {PROTOCOL_VERSION}"
                yield ok(text)
            elif isinstance(found, VersionError):
                yield problem(str(found), "install the same version of domo at both ends")
            else:
                yield problem(f"{failed}: {found}", "the coordinator's log may say more")
            return
    yield problem(f"{setup.server} takes a silo without a name", "is it a domo coordinator?")


def channel(setup: Setup, facts: Facts) -> grpc.Channel:
    """As the agent's; past a proxy that is broken, to find out what else is."""
    address = setup.server or ""
    if not facts.proxy_broken:
        return make_channel(address, setup.tls)
    options = [*CLIENT_OPTIONS, ("grpc.enable_http_proxy", 0)]
    if setup.tls is None:
        return grpc.insecure_channel(address, options)
    tls = setup.tls
    credentials = grpc.ssl_channel_credentials(tls.read("ca"), tls.read("key"), tls.read("cert"))
    return grpc.secure_channel(address, credentials, options)


def clock(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """This machine's clock beside the coordinator's, as its dashboard gives the time."""
    url = setup.dashboard or f"http://{joined(setup.host, PAGE_PORT)}"
    try:
        url = page_url(url, "--dashboard")
    except ConfigError as error:
        yield problem(str(error), f"give the page's address, such as http://HOST:{PAGE_PORT}")
        return
    before = time.time()
    try:
        with httpx.Client(trust_env=False, timeout=DASHBOARD_S) as client:
            answer = client.get(f"{url}/api/v1/status")
        there = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError, TypeError):
        yield _clock_alone(setup, facts, url)
        return
    off = (before + time.time()) / 2 - (there + 0.5)  # the header has whole seconds
    side = "ahead of" if off > 0 else "behind"
    text = f"this machine's clock is {_span(abs(off))} {side} the coordinator's"
    mend = "set the clock of the one that is wrong (timedatectl set-ntp true); certificates need it"
    if abs(off) >= CLOCK_BAD_S:
        yield problem(text, mend)
    elif abs(off) >= CLOCK_OK_S:
        yield warning(text, mend)
    else:
        yield ok(f"this machine's clock is that of the coordinator, to {CLOCK_OK_S:.0f} s")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _clock_alone(setup: Setup, facts: Facts, url: str) -> Finding:
    """Without the coordinator's time: nothing that is here may be from the future."""
    now, made = time.time(), []
    for what, cert in (
        ("the coordinator's certificate", facts.presented),
        ("the own certificate", facts.own),
    ):
        if cert is not None:
            made.append((cert.not_valid_before_utc.timestamp(), what))
    files = [Path(domo.__file__), *_files(setup.state_dir)]
    made += [(path.stat().st_mtime, str(path)) for path in files]
    newest, what = max(made)
    if newest > now + CLOCK_BAD_S:
        text = f"this machine's clock is at least {_span(newest - now)} behind: {what} is younger"
        return problem(text, "set it: timedatectl set-ntp true")
    return unchecked(
        f"no dashboard gives the coordinator's time at {url}; the clock could not be compared",
        "--dashboard URL, or compare the two clocks by hand",
    )


def _files(folder: Path | None) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()] if folder else []
    except OSError:
        return []
