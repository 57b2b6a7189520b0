"""Signs of progress: when each silo last moved, and how long it may rest, by what it did before."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from domo_server.silos.session import Session

PATIENCE_S = 120.0
"""How long a silo may rest in a phase that it has not been seen through before."""
MULTIPLE = 5.0
"""How many times its longest rest in a phase, or the time of its longest step, is too long."""
GROWTH = 2.0
"""A rest that was too long, and then was over, makes the limit at most so many times longer."""


@dataclass(slots=True)
class _Seen:
    """One silo as it moved last."""

    sign: Hashable
    phase: str
    step: int
    since: float
    heard: float
    step_s: float | None = None
    longest: dict[str, float] = field(default_factory=dict)


class Signs:
    """Looks at silos again and again.

    A silo moves when its phase, run, round, step or bytes change, or a frame has passed. In
    training, what counts is the time of a step: the longest one as the silo says, or, where it
    says none, what lies between heartbeats by the steps of that time. What was too long teaches
    little: a silo that hung once is not to hang as long again unseen.

    Args:
        floor_s: Shortest rest that is ever too long, seconds.
    """

    def __init__(self, floor_s: float):
        self._floor_s = floor_s
        self._seen: dict[str, _Seen] = {}

    def look(self, session: Session, now: float) -> None:
        """Note what has changed at a silo."""
        s = session
        sign = (s.run_id, s.round_index, s.phase, s.step, s.bytes_sent, s.bytes_received, s.frames)
        seen = self._seen.get(s.silo_id)
        if seen is None:
            self._seen[s.silo_id] = _Seen(sign, s.phase, s.step, now, s.last_seen)
            return
        seen.heard = s.last_seen
        if seen.sign == sign:
            return
        rest, steps, step_s = now - seen.since, s.step - seen.step, s.longest_step_s
        trains = s.phase == "training"
        if seen.phase == "training" and trains and step_s is not None:
            rest = 0.0  # the silo says it better
        elif seen.phase == "training" and rest < self.limit_s(s.silo_id):
            if trains and steps > 0:
                rest /= steps
            elif "training" in seen.longest:
                rest = 0.0  # the last steps of the round lie in it, nobody knows how many
        if trains and step_s is not None and step_s != seen.step_s:
            self._learn(seen, "training", step_s)
        self._learn(seen, seen.phase, rest)
        seen.step_s = step_s
        seen.sign, seen.phase, seen.step, seen.since = sign, s.phase, s.step, now

    def _learn(self, seen: _Seen, phase: str, rest: float) -> None:
        limit = self._limit_s(seen, phase)
        learned = rest if rest <= limit else min(rest, GROWTH * limit / MULTIPLE)
        seen.longest[phase] = max(learned, seen.longest.get(phase, 0.0))

    def _limit_s(self, seen: _Seen, phase: str) -> float:
        longest = seen.longest.get(phase)
        return PATIENCE_S if longest is None else max(self._floor_s, MULTIPLE * longest)

    def limit_s(self, silo_id: str) -> float:
        """How long a silo may rest where it is."""
        seen = self._seen[silo_id]
        return self._limit_s(seen, seen.phase)

    def rests(self, silo_id: str, now: float) -> bool:
        """Whether a silo has not moved for too long, though something was heard of it since."""
        seen = self._seen.get(silo_id)
        if seen is None or seen.heard <= seen.since:
            return False
        return now - seen.since > self.limit_s(silo_id)
