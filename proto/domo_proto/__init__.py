"""What goes over the wire: messages, frames, channels and errors."""

import os

PROTOCOL_VERSION = 1
PRESENCE = "presence"
"""Among the capabilities of a silo that holds the stream `Attend`."""

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
"""What grpc would write to standard error at each attempt comes as an error too, and may hold the
password of a proxy. It is read when grpc is imported."""
