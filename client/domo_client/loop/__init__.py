"""The loop API."""
