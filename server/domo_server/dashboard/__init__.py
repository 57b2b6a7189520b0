"""The dashboard: REST, live events and one page, on top of `ReadModel` and `Control`.

It sees frozen status objects only: no torch, no grpc, nothing of the wire.
"""

from domo_server.dashboard.app import create_app
from domo_server.dashboard.server import DashboardServer

__all__ = ["DashboardServer", "create_app"]
