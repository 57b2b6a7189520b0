"""Heads of audit chains, as each end tells the other its own."""

from typing import Any

from domo.audit.chain import Head
from domo_proto.v1 import federation_pb2 as pb

MOST_LINES = 2**53 - 1
"""The number of a line, at most."""


def head_message(head: Head, key: bytes) -> pb.AuditHead:
    """A head as it travels, with the public key of its chain."""
    digest = bytes.fromhex(head.hash)
    return pb.AuditHead(n=head.n, hash=digest, key=key, signature=head.signature)


def read_head(message: Any) -> tuple[Head | None, bytes]:
    """The head that a message has in its field `audit`, and its key, if both can be any.

    Whether the signature is right is for who looks at the record later: a wrong one is put down,
    as it was told.
    """
    told = message.audit
    sizes = len(told.hash), len(told.key), len(told.signature)
    if not message.HasField("audit") or sizes != (32, 32, 64) or not 0 < told.n <= MOST_LINES:
        return None, b""
    return Head(told.n, told.hash.hex(), told.signature), told.key
