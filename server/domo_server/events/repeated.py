"""Events that come again and again from one source: the first at once, then one a minute."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from domo_server.events.kinds import EventKind

TELL_S = 60.0
"""After how long it is said how often an event came again."""
MOST_SOURCES = 20
"""Sources of a kind that are told apart within that time; further ones are counted together."""
OTHERS = "from further sources, not told apart"


@dataclass(slots=True)
class _Seen:
    """What came from a source since it was last said: how often, and the last text."""

    text: str
    silo_id: str | None
    count: int = 0


class Repeated:
    """Bounds what refused calls, handshakes and log-ins cost: events, and memory.

    Whoever causes these has mostly shown no credential, so it is not told by a name that it
    claims: the events count for no silo's rate, and push no silo's events out. Log-ins are said
    by it too, as whoever has a token may begin a thousand of them.

    Args:
        say: Records an event: kind, text, run, silo.
    """

    def __init__(self, say: Callable[[EventKind, str, str | None, str | None], None]):
        self._say = say
        self._seen: dict[tuple[EventKind, str], _Seen] = {}
        self._telling: asyncio.TimerHandle | None = None

    def say(self, kind: EventKind, source: str, text: str, silo_id: str | None = None) -> None:
        """Say that something happened: now, or counted within a minute.

        Args:
            kind: What.
            source: What is told apart: an address, or a name with one. Any text of a peer will do,
                as it is not shown.
            text: In words, with the address; one printable line.
            silo_id: The silo that it is shown with, where that silo has proved its name.
        """
        if seen := self._seen.get((kind, source)):
            seen.text, seen.silo_id, seen.count = text, silo_id, seen.count + 1
            return
        others = sum(1 for other, _ in self._seen if other is kind) >= MOST_SOURCES
        if others and (seen := self._seen.setdefault((kind, OTHERS), _Seen(text, None))):
            seen.text, seen.count = text, seen.count + 1
            return
        self._seen[kind, source] = _Seen(text, silo_id)
        self._say(kind, text, None, silo_id)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(TELL_S, self.tell)

    def tell(self) -> None:
        """Say what came again since the last time, with how often; forget who has come to rest."""
        self.close()
        seen, self._seen = self._seen, {}
        for (kind, source), one in seen.items():
            if not one.count:
                continue
            again = f"{one.count} more in the last {TELL_S:.0f} s"
            if source == OTHERS:
                self._say(kind, f"{again} {OTHERS}; the last: {one.text}", None, None)
                continue
            self._say(kind, f"{one.text} ({again})", None, one.silo_id)
            self._seen[kind, source] = _Seen(one.text, one.silo_id)
        if self._seen:
            self._telling = asyncio.get_running_loop().call_later(TELL_S, self.tell)

    def close(self) -> None:
        """No timer from now on."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
