"""What goes over the wire: messages, frames, channels and errors."""

import re

PROTOCOL_VERSION = 1
SILO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a silo may be called; match the whole name."""
