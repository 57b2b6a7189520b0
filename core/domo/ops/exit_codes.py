"""What the exit codes of `domo`'s commands tell, beyond done (0), a fault (1) and misuse (2)."""

from domo.errors import DeadlineError, DomoError, NotFoundError, TransportError

DONE, FAULT, MISUSE = 0, 1, 2
RUN_FAILED, RUN_STOPPED = 3, 4
UNREACHABLE, NOT_FOUND = 5, 6
TIMED_OUT = 124
"""As timeout(1) has it."""
HUNG_UP, INTERRUPTED, TERMINATED = 129, 130, 143

OF_ERRORS: tuple[tuple[type[DomoError], int], ...] = (
    (NotFoundError, NOT_FOUND),
    (DeadlineError, TIMED_OUT),
    (TransportError, UNREACHABLE),
)
"""For commands that speak to a coordinator; the first that fits."""
OF_STATES: dict[str, int] = {"FINISHED": DONE, "FAILED": RUN_FAILED, "STOPPED": RUN_STOPPED}
"""For commands that follow a run to its end; another state is none."""
