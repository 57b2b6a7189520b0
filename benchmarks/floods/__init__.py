"""Floods beside two honest silos: what one peer can take from the others."""
