"""Whether a run gets on."""
