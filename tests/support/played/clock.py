"""A clock whose seconds pass when the test says so."""


class Clock:
    """Call it for the time; `now` may be changed."""

    def __init__(self, now: float = 1000.0):
        self.now = now

    def __call__(self) -> float:
        return self.now
