"""What a coordinator answers is one printable line each, and no number beyond any measure."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from domo.api.schema import Event, RunDetail, Status
from domo.api.transport import Rest, understood
from domo.errors import DomoError, ProtocolError
from domo.names import MOST_SAID, one_line
from domo.remote.events import show_event
from domo.remote.tables import local_time
from domo_server.dashboard import openapi_examples as examples
from tests.support.hostile import FORGED, hostile


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_of(one)


def spoilt(value: Any, rng: random.Random) -> Any:
    """JSON with each text replaced that is not one of a few known ones."""
    if isinstance(value, str) and value not in ("COMMITTED", "CLOSING"):
        return value if rng.random() < 0.5 else hostile(rng)
    if isinstance(value, dict):
        kept = {
            "config",
            "notes",
            "state",
            "phase",
            "role",
            "level",
            "colour",
            "closed_by",
            "better",
        }
        return {k: v if k in kept else spoilt(v, rng) for k, v in value.items()}
    return [spoilt(one, rng) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("example", [examples.STATUS, examples.RUN, examples.REFUSED])
def test_every_text_of_an_answer(example: Any) -> None:
    rng, body, told = random.Random(62), example.model_dump(mode="json"), 0
    refused: list[str] = []
    for _ in range(50):
        try:
            found = understood(type(example), json.dumps(spoilt(body, rng)))
        except ProtocolError as error:
            refused.append(str(error))
            continue
        told += 1
        for text in texts_of(found.model_dump(mode="json")):
            assert text == one_line(text, MOST_SAID)
    assert told
    assert all(text == one_line(text, None) for text in refused)


def test_notes_have_several_lines_and_a_config_stays_exact() -> None:
    body = examples.RUN.model_dump(mode="json")
    body |= {"notes": "one\ntwo \x1b[2J", "config": {"notes": "a\n  b", "task": "digits"}}
    run = understood(RunDetail, json.dumps(body))
    assert run.notes == "one\ntwo "
    assert run.config == {"notes": "a\n  b", "task": "digits"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, str(2**63)])
def test_a_number_that_no_coordinator_says(number: str) -> None:
    text = examples.STATUS.model_dump_json().replace(
        f'"uptime_s":{examples.STATUS.model_dump()["uptime_s"]}', f'"uptime_s":{number}'
    )
    assert number in text
    with pytest.raises(ProtocolError, match="is not what this version of domo understands"):
        understood(Status, text)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ud800", '{"a": "\\ud800"}', "[1, 2"])
def test_no_answer_is_a_crash(text: str) -> None:
    with pytest.raises(ProtocolError):
        understood(Status, text.encode(errors="surrogatepass"))


def test_what_is_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    for at in ("never", "0001-01-01T00:00:00+14:00", "2026-01-05T09:00:00Z\n", "\n" * 99):
        event = Event(event_id=1, at=one_line(at), kind="left\nright", text="a\nb", run_id="r\ns")
        show_event(event)
        assert len(capsys.readouterr().out.splitlines()) == 1
    assert local_time(None) == ""


def refusal(body: Any, status: int = 409) -> str:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json=body)

    with Rest("http://127.0.0.1:1") as rest:
        rest.http = httpx.Client(transport=httpx.MockTransport(answer))
        with pytest.raises(DomoError) as refused:
            rest.ask("POST", "/runs")
    assert len(refused.value.code) <= 64
    return str(refused.value)


@pytest.mark.parametrize("evil", FORGED)
def test_the_words_of_a_refusal(evil: str) -> None:
    for status in (400, 404, 409, 422, 500, 503):
        error = {"code": "conflict", "message": "no" + evil * 20, "cause": evil}
        text = refusal({"error": error}, status)
        assert text == one_line(text, None)


def test_faults_of_a_config_are_a_line_each_and_none_looks_like_another() -> None:
    said = "f: 2 faults\n  one\x1b[2J\nerror: two" + "x" * 999
    error = {"code": "invalid_config", "message": said}
    head, one, two = refusal({"error": error}, 422).split("\n")
    assert (head, one, two[:13]) == ("f: 2 faults", "  one", "  error: twox")
    assert len(two) == MOST_SAID + 2
    error["message"] = "f" + "\n fault" * 10_000
    assert refusal({"error": error}, 422).count("\n") == 50


@pytest.mark.parametrize("body", [[], {}, {"error": []}, {"error": {"code": 1}}, "x", None])
def test_what_is_no_refusal_of_a_coordinator(body: Any) -> None:
    assert "answered 409" in refusal(body)
