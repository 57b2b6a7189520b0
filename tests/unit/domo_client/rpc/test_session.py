import gc
import itertools
import weakref

import grpc
import pytest

from domo.errors import ProtocolError, SiloConflictError
from domo_client.rpc import session as line
from domo_client.rpc.session import Session
from domo_client.telemetry.describe import describe
from domo_proto.errors import SessionError, from_rpc


def test_pauses_grow_until_a_transfer_gets_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "JITTER_S", 0.0)
    it = Session("127.0.0.1:1", "a", "i")
    pause = it._pause()
    assert [pause(None) for _ in range(4)] == [0.2, 0.4, 0.8, 1.6]
    it.advanced += 7
    assert [pause(None) for _ in range(2)] == [0.2, 0.4]
    assert list(itertools.islice(iter(lambda: pause(None), 0), 5000))[-1] == line.LONGEST_PAUSE_S
    it.close()


def test_a_coordinator_says_how_often_to_report_within_bounds() -> None:
    it = Session("127.0.0.1:1", "a", "i")
    it.report_after(5.0)
    for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e9):
        it.report_after(wrong)
    assert it.report_interval_s == 5.0
    it.close()


def test_pauses_differ() -> None:
    it = Session("127.0.0.1:1", "a", "i")
    first = {it._pause()(None) for _ in range(20)}
    assert len(first) == 20
    assert all(0.2 <= p <= 0.2 + line.JITTER_S for p in first)
    it.close()


def test_who_does_not_wait_for_the_goodbye_hangs_up_all_the_same() -> None:
    """The second Ctrl-C, while the first one's goodbye is on its way."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    it = Session("127.0.0.1:1", "a", "i")
    it.token, it.lines.now().stub.Leave = "t", interrupted
    with pytest.raises(KeyboardInterrupt):
        it.close()
    it.close()
    with pytest.raises(ValueError, match="closed channel"):
        it.lines.now().channel.unary_unary("/a/b")(b"")


def test_who_is_refused_its_name_in_mid_run_asks_no_more() -> None:
    """Else two processes with one identity would take it from each other in turns."""
    joins = 0

    def join() -> None:
        nonlocal joins
        joins += 1
        raise SiloConflictError("another process with the identity")

    def over(token: str) -> None:
        raise SessionError("this session is over")

    it = Session("127.0.0.1:1", "a", "i")
    it._join = join  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(SiloConflictError, match="another process with the identity"):
            it.ask(over)
    assert joins == 1
    it.close()


def test_what_is_sent_of_a_fault_names_nothing_of_this_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.internal:3128")
    monkeypatch.setenv("no_proxy", "pacs.internal")
    monkeypatch.setattr(line, "JITTER_S", 0.0)
    failed, said = [Unreached()], list[str]()

    def call(token: str) -> None:
        if failed:
            raise from_rpc(failed.pop(), "coordinator.example:50051")

    it = Session("127.0.0.1:1", "a", "i", on_trouble=said.append)
    it.ask(call)
    assert "proxy.internal:3128" in said[0]
    assert it.counts.network == "no coordinator answers at coordinator.example:50051 (no route)"
    assert "internal" not in describe(from_rpc(Unreached(), "coordinator.example:50051"))
    it.close()


class Unreached(grpc.RpcError):
    """A call that has reached nobody."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "no route"

    def trailing_metadata(self) -> None:
        return None


class Held:
    """What whoever made the call has in hand, such as the vectors of a round."""


def test_a_refusal_keeps_nothing_of_who_heard_it() -> None:
    """The garbage collector counts objects, not bytes."""

    def refuse(token: str) -> None:
        raise ProtocolError("no")

    def hear() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(ProtocolError, match=r"^no$"):
            it.ask(refuse)
        return weakref.ref(held)

    it = Session("127.0.0.1:1", "a", "i")
    gc.disable()
    try:
        assert hear()() is None
    finally:
        gc.enable()
        it.close()
