"""The command `domo`."""
