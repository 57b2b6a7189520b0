"""What runs of a sweep can be executed on, each as a `concurrent.futures.Executor`."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from domo.errors import ConfigError
from domo.stages.orphans import end_quietly

DASK, SLURM = "dask://", "slurm"
CONNECT_S = 10.0
"""How long a Dask scheduler may take to answer."""


@contextmanager
def processes(num: int) -> Iterator[Executor]:
    """Processes of this machine; what they compute ends with whatever ends the block."""
    of_its_own, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    with ProcessPoolExecutor(num, of_its_own, end_quietly) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - set(others):
                process.terminate()  # what they compute is for nobody
            raise


def elsewhere(on: str, folder: Path, threads: int) -> AbstractContextManager[Executor]:
    """Workers on other machines, as `--on` names them.

    Args:
        on: `dask://host:port`, or `slurm`.
        folder: Where Slurm's jobs and their logs are kept; all machines have it.
        threads: Of one run.

    Raises:
        ConfigError: It names no such thing, what it needs is not installed, or nobody answers.
    """
    if on.startswith(DASK) and on != DASK:
        return _dask(on)
    if on == SLURM:
        return jobs(folder, threads)
    raise ConfigError(f"--on {on!r}: give dask://host:port, the scheduler's address, or slurm")


@contextmanager
def _dask(on: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise _not_installed(on, "dask") from None
    address = on.replace(DASK, "tcp://", 1)
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"--on {on}: no Dask scheduler answers there ({error}). Start one with `dask scheduler`"
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise ConfigError(
                f"--on {on}: the scheduler has no worker. Start some with `dask worker {address} "
                "--nthreads 1`"
            )
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]


@contextmanager
def jobs(folder: Path, threads: int, cluster: str = SLURM) -> Iterator[Executor]:
    """A Slurm job for each run, through submitit; limits and partition are those of `SBATCH_*`.

    Args:
        folder: Where the jobs and their logs are kept.
        threads: CPUs of a job.
        cluster: As submitit calls it; `local` for processes here.
    """
    try:
        import submitit

        from domo.sweeps.slurm import Jobs
    except ImportError:
        raise _not_installed(SLURM, "slurm") from None
    try:
        inner = submitit.AutoExecutor(folder=folder, cluster=cluster)
    except RuntimeError as error:  # no srun
        raise ConfigError(f"--on {SLURM}: this machine is no part of a Slurm ({error})") from None
    inner.update_parameters(name="domo", cpus_per_task=threads, slurm_time=None)  # not 5 minutes
    executor = Jobs(inner)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _not_installed(on: str, extra: str) -> ConfigError:
    return ConfigError(f'--on {on} needs: pip install "domo-federated[{extra}]"')
