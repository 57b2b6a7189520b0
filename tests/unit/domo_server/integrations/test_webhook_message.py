"""What webhooks say to people: one line and a link, and nothing that a chat obeys."""

import json
import random

import pytest

from domo.api.schema import Event
from domo.names import MOST_SAID, one_line
from domo_server.integrations.webhook_message import body_of, for_chat
from tests.support.hostile import FORGED, hostile

AT = "\N{FULLWIDTH COMMERCIAL AT}"


def event(text: str) -> Event:
    return Event(event_id=7, at="2026-01-05T09:00:00Z", kind="silo-failed", text=text, run_id="1-r")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!channel> <!here> <@U1>", f"&lt;!channel&gt; &lt;!here&gt; &lt;{AT}U1&gt;"),
        ("<http://evil|log in again>", "&lt;http://evil|log in again&gt;"),
        ("a &lt; b", "a &amp;lt; b"),
        ("@all @here @channel @everyone a@b", f"{AT}all {AT}here {AT}channel {AT}everyone a{AT}b"),
        ("[log in](http://evil) ![x](http://evil/x.png)",
         "[log in] (http://evil) ![x] (http://evil/x.png)"),
        ("[log in][1] [1]: http://evil", "[log in] [1] [1] : http://evil"),
        ("round 3 of 1-domo, 12 %: out of memory (40 GiB)", None),
    ],
)  # fmt: skip
def test_a_chat_shows_it_as_it_is(text: str, shown: str | None) -> None:
    assert for_chat(text) == (text if shown is None else shown)


@pytest.mark.parametrize("page", [None, "http://127.0.0.1:8080"])
def test_whatever_happened(page: str | None) -> None:
    rng = random.Random(64)
    for text in [*FORGED, *(hostile(rng) for _ in range(500))]:
        body = json.loads(json.dumps(body_of(event(text), None, page)))
        assert body["reason"] == one_line(text, MOST_SAID), "a field for programs is exact"
        head, *link = body["text"].split("\n")
        assert link == ([] if page is None else [body["link"]])
        assert head.isprintable()
        assert not set("<>@") & set(head)
        assert not any(sign in head for sign in ("](", "][", "]:"))
