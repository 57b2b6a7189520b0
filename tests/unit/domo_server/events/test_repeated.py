"""What is refused again and again: the first at once, then one a minute, in bounded memory."""

import asyncio

import pytest

from domo_server.events import repeated
from domo_server.events.kinds import EventKind
from domo_server.events.repeated import MOST_SOURCES, Repeated

KIND, OTHER = EventKind("refused-x"), EventKind("refused-y")


class Said(list[tuple[str, str, str | None]]):
    """Events as they are recorded."""

    def put(self, kind: EventKind, text: str, run_id: str | None, silo_id: str | None) -> None:
        assert run_id is None
        self.append((kind.name, text, silo_id))


def test_the_first_is_said_at_once_and_the_rest_once_with_a_count() -> None:
    async def main() -> None:
        said = Said()
        events = Repeated(said.put)
        for i in range(1000):
            events.say(KIND, "site-a 10.0.0.7", f"refused {i}", "site-a")
        assert said == [("refused-x", "refused 0", "site-a")]
        events.tell()
        assert said[1:] == [("refused-x", "refused 999 (999 more in the last 60 s)", "site-a")]
        events.say(KIND, "site-a 10.0.0.7", "again", "site-a")
        assert len(said) == 2  # it has had its event of this minute
        events.tell()
        events.tell()  # it has come to rest: the next one is a first one
        events.say(KIND, "site-a 10.0.0.7", "anew")
        assert [text for _, text, _ in said[2:]] == ["again (1 more in the last 60 s)", "anew"]
        events.close()

    asyncio.run(main())


def test_kinds_and_sources_are_told_apart() -> None:
    async def main() -> None:
        said = Said()
        events = Repeated(said.put)
        for kind, source in ((KIND, "a"), (OTHER, "a"), (KIND, "b"), (KIND, "a")):
            events.say(kind, source, source)
        assert said == [
            ("refused-x", "a", None),
            ("refused-y", "a", None),
            ("refused-x", "b", None),
        ]
        events.close()

    asyncio.run(main())


def test_of_many_sources_memory_and_events_are_bounded() -> None:
    async def main() -> None:
        said = Said()
        events = Repeated(said.put)
        for i in range(10_000):
            events.say(KIND, f"10.0.{i // 256}.{i % 256}", f"refused {i}", f"silo-{i}")
        assert len(said) == MOST_SOURCES
        assert len(events._seen) == MOST_SOURCES + 1
        events.say(OTHER, "10.0.0.1", "another kind")  # is not hidden by these
        assert said.pop() == ("refused-y", "another kind", None)
        events.tell()
        text = f"{10_000 - MOST_SOURCES} more in the last 60 s from further sources, not told apart"
        assert said[MOST_SOURCES:] == [("refused-x", f"{text}; the last: refused 9999", None)]
        events.close()

    asyncio.run(main())


def test_it_tells_by_itself_and_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "TELL_S", 0.01)

    async def main() -> None:
        said: list[str] = []
        told = asyncio.Event()

        def put(kind: EventKind, text: str, run_id: str | None, silo_id: str | None) -> None:
            said.append(text)
            if len(said) == 2:
                told.set()

        events = Repeated(put)
        events.say(KIND, "a", "one")
        events.say(KIND, "a", "two")
        async with asyncio.timeout(60):
            await told.wait()
        assert said == ["one", "two (1 more in the last 0 s)"]
        events.tell()
        assert events._telling is None

    asyncio.run(main())
