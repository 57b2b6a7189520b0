"""Whether this process can open anything more: without, no silo and no page gets in."""

import errno
import os
import resource


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
