"""Server-sent events: the status now, and again after every change."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from fastapi.responses import StreamingResponse
from starlette.types import Send

from domo.status import Event, StreamMessage
from domo_server.status import ReadModel

NUM_RECENT_EVENTS = 100
"""How many past events a new listener gets."""
RETRY_MS = 2000
"""How long a browser waits before it connects again."""
_PAGE = 1000


class EventTail:
    """The newest events. Reads the log once from its start, and then only what is new."""

    def __init__(self, read: ReadModel):
        self._read = read
        self._tail: deque[Event] = deque(maxlen=NUM_RECENT_EVENTS)
        self._last_id = 0
        self._lock = asyncio.Lock()

    async def since(self, event_id: int) -> Sequence[Event]:
        """Events above `event_id`, oldest first, the newest NUM_RECENT_EVENTS at most."""
        async with self._lock:
            while page := await self._read.events(after=self._last_id, limit=_PAGE):
                self._tail.extend(page)
                self._last_id = page[-1].event_id
        if event_id > self._last_id:  # the id is of another coordinator's log
            event_id = 0
        return [event for event in self._tail if event.event_id > event_id]


class StreamHub:
    """Makes the messages of all open streams, and ends them when the server shuts down.

    Args:
        read: What is shown.
        min_interval_s: Pause after a message; changes in it become one message.
        keepalive_s: Silence after which a sign of life is sent: the listener knows within seconds
            that a coordinator is gone or hangs, and proxies keep the connection.
    """

    def __init__(self, read: ReadModel, min_interval_s: float = 0.1, keepalive_s: float = 2.0):
        self._read = read
        self._tail = EventTail(read)
        self._min_interval_s = min_interval_s
        self._keepalive_s = keepalive_s
        self._wakes: set[asyncio.Event] = set()
        self._closed = False

    def close(self) -> None:
        """End every stream, and each new one at once. Call it on the event loop."""
        self._closed = True
        for wake in self._wakes:
            wake.set()

    async def messages(self, last_event_id: int = 0) -> AsyncGenerator[str, None]:
        """The text of one stream.

        Args:
            last_event_id: The listener knows the events up to this one already.

        Yields:
            `status` events, and `alive` events where nothing changes.
        """
        wake = asyncio.Event()
        self._wakes.add(wake)
        pump = asyncio.create_task(self._pump(wake))
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
                message = await self._message(last_event_id)
                if message.events:
                    last_event_id = message.events[-1].event_id
                yield f"event: status\nid: {last_event_id}\ndata: {message.model_dump_json()}\n\n"
                if pump.done():
                    pump.result()  # no more changes: the listener connects again, or it failed
                    break
                await asyncio.sleep(self._min_interval_s)
        finally:
            self._wakes.discard(wake)
            pump.cancel()
            await asyncio.wait({pump})

    async def _pump(self, wake: asyncio.Event) -> None:
        """Turn changes into wake-ups; a slow listener finds many of them as one."""
        try:
            async for _ in self._read.changes():
                wake.set()
        finally:
            wake.set()

    async def _message(self, last_event_id: int) -> StreamMessage:
        status = await self._read.status()
        summary = status.current_run
        if summary is None:
            summary = next(iter(await self._read.runs()), None)
        run = None if summary is None else await self._read.run(summary.run_id)
        events = await self._tail.since(last_event_id)
        return StreamMessage(status=status, run=run, events=events)


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
