"""The wire: control and data rpcs."""
