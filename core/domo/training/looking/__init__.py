"""What is looked at once, before the first round."""
