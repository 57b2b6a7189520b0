"""The coordinator as the outside sees it."""
