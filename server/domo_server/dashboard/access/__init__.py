"""Who may change something, and how a browser logs in and out."""
