"""The silo: the loop API, and the agent that trains a task over it."""

from domo_client.session import Outcome, Silo, connect

__all__ = ["Outcome", "Silo", "connect"]
