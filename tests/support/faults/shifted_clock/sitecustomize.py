"""A wall clock that is wrong by `SHIFT_S` seconds, for a process with this folder on its path.

grpc's Python layer turns a timeout into a time of day and at once back again with the clock of the
operating system, which this cannot shift; so what it reads stays right.
"""

import os
import sys
import time

_time, _time_ns = time.time, time.time_ns
SHIFT_S = int(os.environ["SHIFT_S"])


def _shift() -> int:
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return 0 if caller.partition(".")[0] == "grpc" else SHIFT_S


time.time = lambda: _time() + _shift()
time.time_ns = lambda: _time_ns() + _shift() * 10**9
