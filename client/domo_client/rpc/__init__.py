"""Calls to the coordinator."""
