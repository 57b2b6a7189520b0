"""Files: parts, syncs, state folders."""
