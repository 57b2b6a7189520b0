"""What happens, for people; and who waits for it."""
