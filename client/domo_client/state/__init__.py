"""What a silo remembers on disk."""
