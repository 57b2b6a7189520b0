"""A coordinator's REST from outside: the JSON, and a client."""
