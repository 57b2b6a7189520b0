"""What the paper says: the algorithm, the methods, tasks, and the reference simulation."""

__version__ = "0.1.0"
