"""The life of a run as a table of transitions, and when a round closes. No I/O, no clock.

    WAITING -> OPEN(r) -> CLOSING(r) -> OPEN(r+1) | EVALUATING -> FINISHED
    OPEN(r) -> FINISHED, where x_r has not become better for long enough
    any state that has not ended -> STOPPED | FAILED

A missing entry of the table is a `ProtocolError`: the caller is wrong, not the network.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from domo.errors import ProtocolError


class Phase(StrEnum):
    """Where a run is."""

    WAITING = "WAITING"
    OPEN = "OPEN"
    CLOSING = "CLOSING"
    EVALUATING = "EVALUATING"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Signal(StrEnum):
    """What moves it."""

    ROSTER_FROZEN = "roster frozen"
    QUORUM = "quorum"
    COMMITTED = "committed"
    LAST_COMMITTED = "last round committed"
    EVALUATED = "evaluated"
    ENOUGH = "no better model for long enough"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    FAIL = "fail"


ENDED = frozenset({Phase.FINISHED, Phase.FAILED, Phase.STOPPED})

TRANSITIONS: dict[tuple[Phase, Signal], Phase] = {
    (Phase.WAITING, Signal.ROSTER_FROZEN): Phase.OPEN,
    (Phase.OPEN, Signal.QUORUM): Phase.CLOSING,
    (Phase.OPEN, Signal.PAUSE): Phase.PAUSED,
    (Phase.PAUSED, Signal.RESUME): Phase.OPEN,
    (Phase.CLOSING, Signal.COMMITTED): Phase.OPEN,
    (Phase.CLOSING, Signal.LAST_COMMITTED): Phase.EVALUATING,
    (Phase.EVALUATING, Signal.EVALUATED): Phase.FINISHED,
    (Phase.OPEN, Signal.ENOUGH): Phase.FINISHED,
    **{(p, Signal.STOP): Phase.STOPPED for p in Phase if p not in ENDED},
    **{(p, Signal.FAIL): Phase.FAILED for p in Phase if p not in ENDED},
}


@dataclass(frozen=True, slots=True)
class RoundState:
    """State of a run.

    Attributes:
        phase: Where it is.
        round_index: r; the model is x_r.
    """

    phase: Phase = Phase.WAITING
    round_index: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase in ENDED


def advance(state: RoundState, signal: Signal) -> RoundState:
    """The next state.

    Raises:
        ProtocolError: The signal has no meaning in this state.
    """
    phase = TRANSITIONS.get((state.phase, signal))
    if phase is None:
        raise ProtocolError(f"{signal.value!r} means nothing to a run that is {state.phase.value}")
    if signal in (Signal.COMMITTED, Signal.LAST_COMMITTED):
        return RoundState(phase, state.round_index + 1)
    return RoundState(phase, state.round_index)


@dataclass(frozen=True, slots=True)
class Policy:
    """When a round may close without everybody (fields as in `RunConfig`)."""

    on_missing: Literal["wait", "proceed", "fail"] = "wait"
    min_silos: int | None = None
    required_silos: Sequence[str] = ()
    round_deadline_s: float | None = None
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with an open round now.

    Attributes:
        action: Close it, wait, or fail the run.
        text: Why, in words.
        wait_s: Ask again after this long even if nothing happens; None: only when something does.
        missing: Silos without an update.
        cause: What closes the round where silos are missing.
    """

    action: Literal["close", "wait", "fail"]
    text: str
    wait_s: float | None = None
    missing: Sequence[str] = ()
    cause: Literal["deadline", "grace", "lost"] | None = None


def decide(
    policy: Policy,
    sampled: Sequence[str],
    accepted: Collection[str],
    lost: Collection[str],
    open_for_s: float,
    quorum_for_s: float | None,
) -> Decision:
    """Decide about an open round.

    Args:
        policy: The run's policy.
        sampled: The silos of this round.
        accepted: Those whose update is in.
        lost: Those of which nothing will come as things are: they have failed, declined, are not
            ready, or were away before the round began.
        open_for_s: Seconds since the round opened.
        quorum_for_s: Seconds since it first had its quorum; None: it has none.
    """
    missing = [s for s in sampled if s not in accepted]
    if not missing:
        return Decision("close", "all updates are in")
    names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    text = f"waiting for {len(missing)} more of {len(sampled)} silos: {names}"
    deadline = policy.round_deadline_s
    left = None if deadline is None else deadline - open_for_s
    if policy.on_missing == "fail" and left is not None:
        if left <= 0:
            return Decision("fail", f"no update in {deadline:g} s from {names}", missing=missing)
        return Decision("wait", text, left, missing)
    if policy.on_missing == "proceed" and quorum_for_s is not None:
        grace = policy.grace_s - quorum_for_s
        gone = all(s in lost for s in missing)
        late = left is not None and left <= 0
        if grace <= 0 or gone or late:
            cause: Literal["deadline", "grace", "lost"] = "grace" if grace <= 0 else "lost"
            text, cause = f"going on without {names}", "deadline" if late else cause
            return Decision("close", text, missing=missing, cause=cause)
        wait_s = grace if left is None else min(grace, left)
        return Decision("wait", text + f", {wait_s:.0f} s of grace left", wait_s, missing)
    if policy.on_missing == "proceed":
        text += _enough(policy, sampled, accepted)
    return Decision("wait", text, None, missing)


def _enough(policy: Policy, sampled: Sequence[str], accepted: Collection[str]) -> str:
    """Which of the missing silos a round under `proceed` cannot do without, in words."""
    short = min(policy.min_silos or len(sampled), len(sampled)) - len(accepted)
    required = [s for s in policy.required_silos if s in sampled and s not in accepted]
    text = f"; it needs {short} of them" if 0 < short < len(sampled) - len(accepted) else ""
    return text + (f"; it does not close without {', '.join(required)}" if required else "")


def has_quorum(policy: Policy, sampled: Sequence[str], accepted: Collection[str]) -> bool:
    """Whether the round could close under `proceed`."""
    required = [s for s in policy.required_silos if s in sampled]
    enough = len(accepted) >= min(policy.min_silos or len(sampled), len(sampled))
    return enough and all(s in accepted for s in required)
