"""What each thread is doing of the user's, and since when. It costs a few microseconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import NamedTuple


class Now(NamedTuple):
    """A stage of `domo.stages.table`, and since when, monotonic seconds."""

    stage: str
    since: float


_now: dict[int, Now] = {}


def begin(stage: str) -> None:
    """This thread enters a stage, whatever it was in."""
    _now[get_ident()] = Now(stage, time.monotonic())


def end() -> None:
    """This thread is in nothing of the user's."""
    _now.pop(get_ident(), None)


@contextmanager
def in_stage(stage: str) -> Iterator[None]:
    """A stage for a block; what was before goes on after it, and has moved."""
    before = _now.get(get_ident())
    begin(stage)
    try:
        yield
    finally:
        if before is None:
            end()
        else:
            begin(before.stage)


def now_of(thread: int) -> Now | None:
    """What a thread is in; None: in nothing of the user's."""
    return _now.get(thread)
