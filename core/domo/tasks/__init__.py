"""Tasks: what is trained on what."""
