"""A record that only grows: who did what, and what left and came, each line bound to all before."""
