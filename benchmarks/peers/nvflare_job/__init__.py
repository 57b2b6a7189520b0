"""The job that NVIDIA FLARE runs. plan.py is put beside these files."""
