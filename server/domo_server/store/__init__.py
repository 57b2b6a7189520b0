"""What survives: the database, checkpoints, uploads."""
