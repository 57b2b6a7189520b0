"""The queue of runs and the silos that serve them."""
