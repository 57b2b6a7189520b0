from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from domo.errors import ProtocolError
from domo_server.rounds.state import (
    ENDED,
    TRANSITIONS,
    Decision,
    Phase,
    Policy,
    RoundState,
    Signal,
    advance,
    decide,
    has_quorum,
)

LIFE = {
    (Phase.WAITING, Signal.ROSTER_FROZEN): Phase.OPEN,
    (Phase.OPEN, Signal.QUORUM): Phase.CLOSING,
    (Phase.OPEN, Signal.ENOUGH): Phase.FINISHED,
    (Phase.OPEN, Signal.PAUSE): Phase.PAUSED,
    (Phase.PAUSED, Signal.RESUME): Phase.OPEN,
    (Phase.CLOSING, Signal.COMMITTED): Phase.OPEN,
    (Phase.CLOSING, Signal.LAST_COMMITTED): Phase.EVALUATING,
    (Phase.EVALUATING, Signal.EVALUATED): Phase.FINISHED,
}
"""Written out by hand; STOP and FAIL are tested by rule below."""
SIGNALS = [s for s in Signal if s not in (Signal.STOP, Signal.FAIL)]


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("phase", Phase)
def test_every_pair_is_a_transition_or_an_error(phase: Phase, signal: Signal) -> None:
    state = RoundState(phase, 3)
    wanted = LIFE.get((phase, signal))
    if wanted is None:
        with pytest.raises(ProtocolError, match=f"means nothing to a run that is {phase.value}"):
            advance(state, signal)
        return
    after = advance(state, signal)
    committed = signal in (Signal.COMMITTED, Signal.LAST_COMMITTED)
    assert after == RoundState(wanted, 4 if committed else 3)


@pytest.mark.parametrize("phase", Phase)
def test_every_run_that_has_not_ended_may_stop_and_fail(phase: Phase) -> None:
    for signal, end in ((Signal.STOP, Phase.STOPPED), (Signal.FAIL, Phase.FAILED)):
        if phase in (Phase.FINISHED, Phase.STOPPED, Phase.FAILED):
            with pytest.raises(ProtocolError):
                advance(RoundState(phase), signal)
        else:
            assert advance(RoundState(phase, 1), signal) == RoundState(end, 1)


def test_nothing_else_is_in_the_table() -> None:
    assert {k: v for k, v in TRANSITIONS.items() if k[1] in SIGNALS} == LIFE
    assert {p for p, _ in TRANSITIONS} == set(Phase) - ENDED


class Life(RuleBasedStateMachine):
    """Any signals in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = RoundState()

    @rule(signal=st.sampled_from(Signal))
    def signal(self, signal: Signal) -> None:
        before = self.state
        try:
            after = advance(before, signal)
        except ProtocolError:
            assert (before.phase, signal) not in TRANSITIONS
            return
        step = after.round_index - before.round_index
        assert step == (signal in (Signal.COMMITTED, Signal.LAST_COMMITTED))
        assert not before.ended
        self.state = after

    @invariant()
    def known(self) -> None:
        assert isinstance(self.state.phase, Phase)
        assert self.state.round_index >= 0
        assert self.state.ended == (self.state.phase in ENDED)
        before_the_first = self.state.phase is Phase.WAITING
        assert not (before_the_first and self.state.round_index)


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase

# when a round closes: four silos a, b, c, d

FOUR = ("a", "b", "c", "d")


def decision(policy: Policy, accepted: str, lost: str = "", open_s=1.0, quorum_s=None) -> Decision:
    return decide(policy, FOUR, set(accepted), set(lost), open_s, quorum_s)


@pytest.mark.parametrize("on_missing", ["wait", "proceed", "fail"])
def test_all_updates_close_a_round_under_every_policy(on_missing) -> None:
    policy = Policy(on_missing, min_silos=3, round_deadline_s=10, grace_s=5)
    assert decision(policy, "abcd") == Decision("close", "all updates are in")
    assert decision(policy, "abcd", open_s=99, quorum_s=98).action == "close"


def test_wait_waits_for_everybody_whatever_the_time() -> None:
    policy = Policy("wait", min_silos=2, round_deadline_s=10, grace_s=5)
    wanted = Decision("wait", "waiting for 1 more of 4 silos: d", None, ["d"])
    assert decision(policy, "abc") == wanted
    assert decision(policy, "abc", "d", open_s=1e9, quorum_s=1e9) == wanted


def test_proceed_waits_for_its_quorum_even_after_the_deadline() -> None:
    policy = Policy("proceed", min_silos=3, round_deadline_s=10, grace_s=5)
    text = "waiting for 2 more of 4 silos: c, d; it needs 1 of them"
    wanted = Decision("wait", text, None, ["c", "d"])
    assert decision(policy, "ab") == wanted
    assert decision(policy, "ab", open_s=11) == wanted
    needed = replace(policy, min_silos=2, required_silos=("d",))
    text = "waiting for 2 more of 4 silos: c, d; it does not close without d"
    assert decision(needed, "ab", open_s=11).text == text


def test_proceed_gives_the_others_their_grace() -> None:
    policy = Policy("proceed", min_silos=3, grace_s=5)
    late = decision(policy, "abc", open_s=20, quorum_s=0)
    assert late.action == "wait"
    assert late.wait_s == 5
    assert late.text == "waiting for 1 more of 4 silos: d, 5 s of grace left"
    assert decision(policy, "abc", open_s=23, quorum_s=3).wait_s == 2
    closed = decision(policy, "abc", open_s=25, quorum_s=5)
    wanted = Decision("close", "going on without d", missing=["d"], cause="grace")
    assert closed == wanted


def test_the_deadline_cuts_the_grace_short() -> None:
    policy = Policy("proceed", min_silos=3, round_deadline_s=30, grace_s=60)
    assert decision(policy, "abc", open_s=27, quorum_s=2).wait_s == 3
    assert decision(policy, "abc", open_s=30, quorum_s=5).action == "close"


def test_proceed_does_not_wait_for_silos_of_which_nothing_will_come() -> None:
    policy = Policy("proceed", min_silos=2, grace_s=60)
    assert decision(policy, "ab", "cd", quorum_s=1).action == "close"
    assert decision(policy, "ab", "c", quorum_s=1).action == "wait"


def test_fail_ends_the_run_at_the_deadline_and_says_who_was_missing() -> None:
    policy = Policy("fail", round_deadline_s=10)
    early = decision(policy, "abc", open_s=4)
    assert (early.action, early.wait_s) == ("wait", 6)
    late = decision(policy, "abc", open_s=10)
    assert late == Decision("fail", "no update in 10 s from d", missing=["d"])


def test_names_are_cut_after_five() -> None:
    many = [f"s{i}" for i in range(8)]
    text = decide(Policy(), many, ["s7"], [], 0, None).text
    assert text == "waiting for 7 more of 8 silos: s0, s1, s2, s3, s4 and 2 more"


@pytest.mark.parametrize(
    ("min_silos", "accepted", "enough"),
    [
        (None, "abc", False),
        (None, "abcd", True),
        (3, "ab", False),
        (3, "abd", True),
        (9, "abc", False),
    ],
)
def test_quorum(min_silos: int | None, accepted: str, enough: bool) -> None:
    assert has_quorum(Policy("proceed", min_silos), FOUR, accepted) is enough


def test_more_than_the_sampled_silos_are_not_needed() -> None:
    assert has_quorum(Policy("proceed", 3), ("a", "b"), "ab")


def test_required_silos_are_needed_where_they_are_sampled() -> None:
    policy = Policy("proceed", 2, required_silos=("d", "z"))
    assert not has_quorum(policy, FOUR, "abc")
    assert has_quorum(policy, FOUR, "ad")
    assert has_quorum(policy, ("a", "b", "c"), "ab")
    assert has_quorum(replace(policy, required_silos=()), FOUR, "ab")
