"""What a silo counts and measures."""
