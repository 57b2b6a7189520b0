import grpc
import pytest

from domo_proto.heard import CAUSES, words

ADDRESS = "coordinator.example:50051"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)


@pytest.mark.parametrize(("said", "cause"), CAUSES.items())
def test_why_nobody_answers(said: tuple[str, ...], cause: str) -> None:
    text = "; last error: ".join(said)
    found = words(UNAVAILABLE, text, ADDRESS)
    assert found == f"no coordinator answers at {ADDRESS} ({cause.format('?')})"


def test_a_cause_that_is_not_in_the_table_is_the_end_of_what_grpc_says() -> None:
    text = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: No route."
    assert words(UNAVAILABLE, text, ADDRESS) == f"no coordinator answers at {ADDRESS} (no route)"


def test_something_else_answers() -> None:
    assert words(grpc.StatusCode.UNIMPLEMENTED, "unknown service", ADDRESS) == (
        f"{ADDRESS} speaks another protocol, or is no domo coordinator (unknown service)"
    )


def test_what_somebody_in_between_says_is_one_short_line() -> None:
    found = words(grpc.StatusCode.INTERNAL, "one\n\x1b[31mtwo" + "x" * 5000, ADDRESS)
    assert found.isprintable()
    assert len(found) < 400
    assert "INTERNAL: one twoxx" in found
