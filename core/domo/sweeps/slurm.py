"""submitit's jobs as futures, which one thread polls: submitit itself has no executor of those."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import suppress
from typing import Any

import submitit

POLL_S = 1.0
"""How often it is looked for the results of jobs."""


class Jobs(Executor):
    """Submits each call as a job.

    Args:
        inner: submitit's executor.
    """

    def __init__(self, inner: submitit.Executor):
        self._inner = inner
        self._jobs: dict[Future[Any], submitit.Job[Any]] = {}
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._poll, name="jobs", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A job; its future raises submitit's error where the job is gone without a result."""
        if self._stopped.is_set():
            raise RuntimeError("cannot submit after shutdown")
        future: Future[Any] = Future()
        job = self._inner.submit(fn, *args, **kwargs)
        with self._lock:
            self._jobs[future] = job
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread; jobs that are not done are cancelled with their futures, or go on."""
        self._stopped.set()
        if wait:
            self._thread.join()
        if cancel_futures:
            for future, job in self._jobs.items():
                future.cancel()
                job.cancel(check=False)

    def _poll(self) -> None:
        while not self._stopped.wait(POLL_S):
            with self._lock:
                now = dict(self._jobs)
            for future, job in now.items():
                if self._settled(future, job):
                    del self._jobs[future]

    def _settled(self, future: Future[Any], job: submitit.Job[Any]) -> bool:
        if future.cancelled():
            job.cancel(check=False)
            return True
        if not job.done():
            return False
        with suppress(InvalidStateError):  # cancelled just now
            try:
                future.set_result(job.result())
            except Exception as error:
                future.set_exception(error)
        return True
