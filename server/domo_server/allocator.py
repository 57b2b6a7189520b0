"""What a long-lived process that moves many megabytes asks of its allocator and collector."""

import ctypes
import gc
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8
KEPT_BYTES = 128 << 20
"""Freed memory that the C library keeps for the next frame, rather than fetching it anew."""


def prepare() -> None:
    """Keep freed memory for a while, and do not look through what was made at the start again.

    A block that goes back to the system costs a page fault for each 4 KiB when it is needed again:
    with blocks of a megabyte, as much as the work on them. Threads share two heaps, since one for
    each thread would keep what it once held. Where the C library is not glibc, only the collector
    is told.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, 32 << 20)
            set_option(M_TRIM_THRESHOLD, KEPT_BYTES)
            set_option(M_TOP_PAD, 16 << 20)
            set_option(M_ARENA_MAX, 2)
    gc.collect()
    gc.freeze()
