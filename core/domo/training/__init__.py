"""One local round at a silo."""
