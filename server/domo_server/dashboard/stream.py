"""Server-sent events: the status now, and again after every change."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Send

from domo.api.schema import (
    MAX_EVENTS,
    Event,
    RunDetail,
    Status,
    StreamMessage,
)
from domo_server.dashboard.errors import ApiError
from domo_server.events.kinds import OF_PEOPLE
from domo_server.people.person import Person
from domo_server.view.interfaces import ReadModel

NUM_RECENT_EVENTS = 100
"""How many past events a new listener gets."""
GATHER_S = 0.1
"""Pause after a message; what changes in it is one message."""
SIGN_S = 2.0
"""Silence after which a sign of life is sent."""
CHECK_S = 10.0
"""How often it is looked whether a listener may still listen."""
MOST_LISTENERS, MOST_OF_ONE = 120, 40
"""Streams that are open at a time: in all, and from one address (a proxy is one)."""
RETRY_MS = 2000
"""How long a browser waits before it connects again."""


class EventTail:
    """The newest events. Reads the log once from its start, and then only what is new."""

    def __init__(self, read: ReadModel):
        self._read = read
        self._tail: deque[Event] = deque(maxlen=NUM_RECENT_EVENTS)
        self._last_id = 0

    async def read(self) -> None:
        """Read on to the end of the log."""
        while page := await self._read.events(after=self._last_id, limit=MAX_EVENTS):
            self._tail.extend(page)
            self._last_id = page[-1].event_id

    def since(self, event_id: int, *, of_people: bool = False) -> Sequence[Event]:
        """Events above `event_id`, oldest first, of the newest NUM_RECENT_EVENTS.

        Args:
            event_id: The id.
            of_people: Log-ins too.
        """
        if event_id > self._last_id:  # the id is of another coordinator's log
            event_id = 0
        new = (event for event in self._tail if event.event_id > event_id)
        return [event for event in new if of_people or event.kind not in OF_PEOPLE]


class _Now(NamedTuple):
    """What is the same for all listeners.

    Attributes:
        status: The coordinator's.
        run: That is shown.
        made: Messages so far, by what their listeners knew, which is kept with them.
    """

    status: Status
    run: RunDetail | None
    made: dict[tuple[int, int, bool], tuple[RunDetail | None, int, str]]


class StreamHub:
    """Makes the messages of all open streams, and ends them when the server shuts down.

    However many listen, what is shown is read once after a change.

    Args:
        read: What is shown.
        min_interval_s: Pause after a message; changes in it become one message.
        keepalive_s: Silence after which a sign of life is sent: the listener knows within seconds
            that a coordinator is gone or hangs, and proxies keep the connection.
    """

    def __init__(
        self, read: ReadModel, min_interval_s: float = GATHER_S, keepalive_s: float = SIGN_S
    ):
        self._read = read
        self._tail = EventTail(read)
        self._min_interval_s = min_interval_s
        self._keepalive_s = keepalive_s
        self._wakes: dict[asyncio.Event, str] = {}
        self._reader: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._now: _Now | None = None
        self._closed = False

    def close(self) -> None:
        """End every stream, and each new one at once. Call it on the event loop."""
        self._closed = True
        self._wake_all()

    def open(self, request: Request, last_event_id: int = 0) -> AsyncGenerator[str, None]:
        """The text of a stream for one more listener, as `messages`.

        Raises:
            ApiError: There are too many, or from this address.
        """
        host = request.client.host if request.client else ""
        hosts = list(self._wakes.values())
        if len(hosts) >= MOST_LISTENERS or hosts.count(host) >= MOST_OF_ONE:
            text = f"{len(hosts)} listen to live events, {hosts.count(host)} of them from {host}: "
            raise ApiError(503, "unavailable", f"{text}close some", {"Retry-After": "5"})
        person: Person = request.state.person
        return self.messages(last_event_id, host, of_people=person.may("auditor"))

    async def messages(
        self, last_event_id: int = 0, host: str = "", *, of_people: bool = False
    ) -> AsyncGenerator[str, None]:
        """The text of one stream.

        Args:
            last_event_id: The listener knows the events up to this one already.
            host: Where it is.
            of_people: It may see who logs in.

        Yields:
            `status` events, and `alive` events where nothing changes.
        """
        wake = asyncio.Event()
        self._wakes[wake] = host
        reader, known = self._start_reader(), None
        try:
            yield f"retry: {RETRY_MS}\n\n"
            while not self._closed:
                try:
                    await asyncio.wait_for(wake.wait(), self._keepalive_s)
                except TimeoutError:
                    yield "event: alive\ndata:\n\n"
                    continue
                if self._closed:
                    break
                wake.clear()
                ended = reader.done()
                if self._now is not None:
                    now = self._now
                    last_event_id, text = self._told(now, known, last_event_id, of_people)
                    known = now.run
                    yield text
                if ended:
                    reader.result()  # no more changes: the listener connects again, or it failed
                    break
        finally:
            self._wakes.pop(wake, None)
            if not self._wakes:
                self._reader = None
                reader.cancel()
                await asyncio.wait({reader})

    def _told(
        self, now: _Now, known: RunDetail | None, last_event_id: int, of_people: bool
    ) -> tuple[int, str]:
        """What a listener is told that knows so much, and the last event in it; made once."""
        key = id(known), last_event_id, of_people
        if key not in now.made:
            events = self._tail.since(last_event_id, of_people=of_people)
            last = events[-1].event_id if events else last_event_id
            told = StreamMessage(status=now.status, run=_untold(now.run, known), events=events)
            text = f"event: status\nid: {last}\ndata: {told.model_dump_json()}\n\n"
            now.made[key] = known, last, text
        return now.made[key][1:]

    def _start_reader(self) -> "asyncio.Task[None]":
        """The task that reads for all; the first listener starts it, a new one makes it read."""
        if self._reader is None or self._reader.done():
            self._now, self._due = None, asyncio.Event()
            self._reader = asyncio.create_task(self._read_changes(self._due))
        else:
            self._due.set()
        return self._reader

    async def _read_changes(self, due: asyncio.Event) -> None:
        """Read again after every change, and wake the listeners."""
        pump = asyncio.create_task(self._pump(due))
        try:
            while True:
                await due.wait()
                due.clear()
                ended = pump.done()
                self._now = await self._look()
                self._wake_all()
                if ended:
                    return pump.result()
                await asyncio.sleep(self._min_interval_s)
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            self._wake_all()

    async def _pump(self, due: asyncio.Event) -> None:
        """Turn changes into a flag, so that none is missed while something is read."""
        try:
            async for _ in self._read.changes():
                due.set()
        finally:
            due.set()

    async def _look(self) -> _Now:
        await self._tail.read()
        status = _light(await self._read.status())
        return _Now(status, await self._read.shown_run(), {})

    def _wake_all(self) -> None:
        for wake in self._wakes:
            wake.set()


async def while_allowed(
    messages: AsyncGenerator[str, None], still: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[str, None]:
    """A stream that ends soon after its listener may not listen any more.

    Args:
        messages: The stream; something comes at least every SIGN_S.
        still: Whether the listener may go on.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + CHECK_S
    async with contextlib.aclosing(messages):
        async for text in messages:
            if loop.time() >= due:
                if not await still():
                    return
                due = loop.time() + CHECK_S
            yield text


def _light(status: Status) -> Status:
    """The status without what only a silo's own page shows: it asks for that itself."""
    silos = [silo.model_copy(update={"resources": None}) for silo in status.silos]
    return status.model_copy(update={"silos": silos})


def _untold(run: RunDetail | None, known: RunDetail | None) -> RunDetail | None:
    """The run with those test metrics that the listener has not been told, or not like this."""
    if run is None or known is None or run.run_id != known.run_id:
        return run
    pairs = zip(known.metrics, run.metrics, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return run.model_copy(update={"metrics": run.metrics[same:]})


class EventStream(StreamingResponse):
    """A streaming answer that closes its generator as soon as the listener has gone."""

    media_type = "text/event-stream"

    def __init__(self, messages: AsyncGenerator[str, None]):
        super().__init__(messages, headers={"X-Accel-Buffering": "no"})
        self._messages = messages

    async def stream_response(self, send: Send) -> None:
        """Send until either end is done."""
        async with contextlib.aclosing(self._messages):
            await super().stream_response(send)


def parse_event_id(header: str | None) -> int:
    """The number in a Last-Event-ID header; 0 if there is none that makes sense."""
    digits = header or ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
