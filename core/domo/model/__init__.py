"""A model: its layout, its flat vector, its files, its card."""
