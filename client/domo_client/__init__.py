"""The silo: the loop API, and the agent that trains a task over it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domo_client.loop.connect import connect
    from domo_client.loop.silo import Outcome, Silo

__all__ = ["Outcome", "Silo", "connect"]


def __getattr__(name: str) -> Any:
    """The loop API needs torch, the health check does not: imported at first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from domo_client.loop import connect as joining
    from domo_client.loop import silo as session

    return getattr(joining if name == "connect" else session, name)
