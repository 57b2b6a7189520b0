"""A federation of honest silos, and one that attacks while they train."""
