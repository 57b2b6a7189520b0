"""What a call heard that no coordinator has answered, in words for an operator.

A coordinator marks each refusal (`domo_proto.errors`). What has no mark was said by grpc, which
reached nobody, or by somebody in between: a proxy, a load balancer, another service.
"""

import re

import grpc

from domo.names import one_line
from domo.ops import proxies

CAUSES = {
    ("DNS resolution failed",): "the name cannot be resolved",
    ("errors resolving",): "the name cannot be resolved",
    ("HTTP proxy returned response code",): "the proxy refuses: HTTP {0}",
    ("http1.x server",): "a web server answers, perhaps the dashboard or a proxy: silos dial the "
    "coordinator's port for silos, 50051 by default",
    ("Failed parsing HTTP/2",): "it speaks something else than gRPC: is the port right? That "
    "for silos is 50051 by default",
    ("CERTIFICATE_VERIFY_FAILED", "expired"): "its certificate has expired, or this machine's "
    "clock is wrong",
    ("CERTIFICATE_VERIFY_FAILED",): "its certificate is not signed by a CA that is trusted here; "
    "--tls-ca names the CA's file",
    ("Hostname Verification",): "its certificate is for another name than the one given here",
    ("is not in peer certificate",): "its certificate is for another name than the one given here",
    ("WRONG_VERSION_NUMBER",): "it does not speak TLS",
    ("handshake failed",): "the TLS handshake failed; --tls-ca must name the CA of its certificate",
    ("failed to connect", "Socket closed"): "it hung up at once: it may want TLS (--tls-ca), or a "
    "certificate of its own CA (--tls-cert, --tls-key)",
    ("RST_STREAM",): "the call was cut off",
    ("GOAWAY",): "the call was cut off",
    ("Socket closed",): "the connection was cut off",
    ("Connection reset",): "the connection was cut off",
}
"""What grpc says of a failed connection (all of the words), in words for an operator."""
HTTP = re.compile(r"(?:header with status|response code):? (\d{3})\b")
KINDS = {
    301: "a redirect, by a proxy or another web server?",
    401: "a proxy or load balancer that wants a log-in?",
    403: "a proxy or load balancer that lets nobody through?",
    404: "a proxy or load balancer without a way to it, or another web server?",
    407: "a proxy that wants a log-in?",
    413: "a proxy or load balancer that limits the size of messages? domo needs 4 MB of them",
    429: "a proxy or load balancer that limits calls?",
    502: "a proxy or load balancer that does not reach it?",
    503: "a proxy or load balancer that does not reach it?",
    504: "a proxy or load balancer that does not reach it?",
} | dict.fromkeys((302, 303, 307, 308), "a redirect, by a proxy or another web server?")
BETWEEN = "a proxy or load balancer?"
MOST_TEXT = 200
"""Characters of what somebody in between says."""
UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def words(code: grpc.StatusCode, details: str, address: str) -> str:
    """What a call without a coordinator's mark has failed with, in one line.

    Args:
        code: The status.
        details: What came with it.
        address: Where the call went.
    """
    said = one_line(details, MOST_TEXT)
    http = HTTP.search(details)
    if http is not None and "HTTP proxy" not in details:
        kind = KINDS.get(int(http[1]), BETWEEN)
        return f"{address} answers with HTTP {http[1]}, which is no coordinator's answer ({kind})"
    if "larger than max" in details:
        return (
            f"{address} limits the size of messages ({said}), which no coordinator does: a proxy "
            "or load balancer? domo needs 4 MB of them"
        )
    if code in UNREACHED or "RST_STREAM" in details:
        return f"no coordinator answers at {address} ({cause(details)})"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {address} in time"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"{address} speaks another protocol, or is no domo coordinator ({said})"
    if details.startswith("Stream removed"):
        return f"{address} answers with no end of gRPC, as no coordinator does ({BETWEEN})"
    told = f"{code.name}: {said}" if said else code.name
    return f"{address} answers with {told}, which is no coordinator's answer ({BETWEEN})"


def of_proxies(code: grpc.StatusCode, address: str) -> str:
    """What there is to say of this machine's proxies beside that, and only at this machine."""
    host = address.rpartition(":")[0].strip("[]")
    reached = code not in (*UNREACHED, grpc.StatusCode.DEADLINE_EXCEEDED)
    return proxies.note_of_grpc(host, reached)


def cause(text: str) -> str:
    """Why nobody is reached, from what grpc says."""
    http = HTTP.search(text)
    for all_of, why in CAUSES.items():
        if all(word in text for word in all_of):
            return why.format(http[1] if http else "?")
    last = text.rsplit(": ", 1)[-1].removesuffix(".").lower()
    return one_line(last, MOST_TEXT)


def empty(address: str) -> str:
    """What to say of an answer with no message in it."""
    return f"{address} answers with nothing in it, as no coordinator does ({BETWEEN})"
