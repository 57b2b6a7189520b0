"""Where a silo is in what is the user's, since when, and whether anything moves there."""
