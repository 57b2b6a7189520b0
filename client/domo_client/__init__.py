"""The silo: the loop API, and the agent that trains a task over it.

What a training loop of one's own needs is here by name, and imported at first use: the health check
needs no torch. What is deeper in the package may move.
"""

import importlib
from typing import TYPE_CHECKING, Any

import domo_proto  # noqa: F401  before grpc, which it quiets

if TYPE_CHECKING:
    from domo_client.loop.connect import connect
    from domo_client.loop.outcome import Outcome
    from domo_client.loop.silo import Silo
    from domo_client.observe.prometheus import SiloMetrics
    from domo_client.rpc.control import LostRunError
    from domo_client.rpc.offer import Offer, UnknownRunError
    from domo_proto.channel import TlsFiles

__all__ = [
    "LostRunError",
    "Offer",
    "Outcome",
    "Silo",
    "SiloMetrics",
    "TlsFiles",
    "UnknownRunError",
    "connect",
]
_HOME = {
    "LostRunError": "domo_client.rpc.control",
    "Offer": "domo_client.rpc.offer",
    "Outcome": "domo_client.loop.outcome",
    "Silo": "domo_client.loop.silo",
    "SiloMetrics": "domo_client.observe.prometheus",
    "TlsFiles": "domo_proto.channel",
    "UnknownRunError": "domo_client.rpc.offer",
    "connect": "domo_client.loop.connect",
}


def __getattr__(name: str) -> Any:
    """A name of `__all__`, at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
