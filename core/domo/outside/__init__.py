"""What may be said of a silo elsewhere: in words of domo's own, never a file's name or a value."""
