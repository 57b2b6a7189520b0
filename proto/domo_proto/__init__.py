"""What goes over the wire: messages, frames, channels and errors."""

PROTOCOL_VERSION = 1
