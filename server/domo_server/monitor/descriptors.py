"""Descriptors: who may have how many of them, and whether any are left."""

import errno
import os
import resource
from pathlib import Path
from typing import NamedTuple

WANTED = 65_536
"""As many as are of use; a process that may have millions does not need them."""
MOST_SILO_CONNECTIONS, MOST_PAGE_CONNECTIONS = 4096, 512
"""Connections at a time, where the process may have descriptors enough."""
OF_SILOS, OF_REST = 2, 4
"""Else a half of what it may have is for silos, and a quarter for REST and the page. The rest is
for the coordinator itself: database, checkpoints, updates, webhooks."""


class Shares(NamedTuple):
    """How many connections there may be at a time.

    Attributes:
        silos: On the port for silos.
        page: On the port of REST and the page.
    """

    silos: int
    page: int


def raise_limit() -> None:
    """Have as many descriptors as this process may have: the limit at start is often lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def shares() -> Shares:
    """By the descriptors that this process may have now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return Shares(MOST_SILO_CONNECTIONS, MOST_PAGE_CONNECTIONS)
    silos = min(MOST_SILO_CONNECTIONS, limit // OF_SILOS)
    return Shares(silos, min(MOST_PAGE_CONNECTIONS, limit // OF_REST))


def none_left() -> str | None:
    """That it can open nothing more, and what to do, in words; None: it can."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno == errno.ENFILE:
            return "the coordinator's machine has no file descriptors left (fs.file-max)"
        if error.errno == errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return (
                f"the coordinator has no file descriptors left, of {limit} that it may have: no "
                "silo gets in. Raise ulimit -n (LimitNOFILE= of a service) and start it again"
            )
    return None


def crowded() -> str | None:
    """That as many are connected as may be, in words; None: there is room."""
    try:
        in_use = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:  # not Linux, or none is left, which is told elsewhere
        return None
    most = shares().silos
    if in_use < most:
        return None
    return (
        f"the coordinator has {in_use} connections and files open and takes at most {most} "
        "connections of silos, so another silo may have to try several times. Where these are not "
        "your silos, keep them off with a firewall; else raise ulimit -n (LimitNOFILE=)"
    )
