"""Server-sent events: the lines of a stream, as events (WHATWG HTML, section 9.2)."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class SentEvent(NamedTuple):
    """One event.

    Attributes:
        kind: Its `event:` field.
        number: Its `id:` field; 0 if there is none that is a number.
        data: Its `data:` lines.
    """

    kind: str
    number: int
    data: str


def server_sent_events(lines: Iterable[str]) -> Iterator[SentEvent]:
    """The events of a stream; comments and an event that is cut off are left out."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif fields:
            number = fields.get("id", ["0"])[-1]
            if "data" in fields:
                yield SentEvent(
                    fields.get("event", ["message"])[-1],
                    int(number) if number.isascii() and number.isdigit() else 0,
                    "\n".join(fields["data"]),
                )
            fields = {}
