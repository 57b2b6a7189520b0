"""The dashboard: REST, live events and one page, on top of `ReadModel` and `Control`.

It sees frozen status objects only: no torch, no grpc, nothing of the wire.
"""

from domo_server.dashboard.app import DashboardServer, create_app

__all__ = ["DashboardServer", "create_app"]
