"""Many runs, on whatever executes them: this process, processes here, Dask, Slurm."""
