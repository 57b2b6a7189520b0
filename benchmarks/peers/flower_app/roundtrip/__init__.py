"""The app that Flower runs. plan.py is put beside these files."""
