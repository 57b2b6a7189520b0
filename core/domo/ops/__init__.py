"""What is shared by everything that people run."""
