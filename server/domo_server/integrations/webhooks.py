"""Webhooks: each follows the log of events and is told those that it asks for, in order.

How far each has come is in the database, so that what happened is told at least once, however the
coordinator stops. Nothing of a round waits for this.
"""

import asyncio
import logging
from collections.abc import Sequence

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from domo.api.schema import ENDED, Event, RunSummary
from domo.errors import DomoError, TransportError
from domo_server.config import WebhookConfig
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.integrations.webhook_message import (
    NAMES,
    DeliveryError,
    Hook,
    body_of,
    client,
)
from domo_server.store.store import Store, now_text
from domo_server.view.interfaces import ReadModel
from domo_server.view.rows import event_of

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
GIVE_UP_S = 900.0
"""How long one message is tried."""
CLOSE_S = 3.0
"""How long a coordinator that stops waits for messages; what is left is sent at its next start."""
LOOK_S = 60.0
PAGE = 50


class Webhooks:
    """Sends what happens to all webhooks.

    Args:
        hooks: From [[server.webhooks]].
        store: Where events are, and how far each webhook has come.
        events: Wakes this; told what could not be delivered.
        read: Has the runs.
        page: The dashboard's address, for links.

    Raises:
        ConfigError: A secret cannot be read.
    """

    def __init__(
        self,
        hooks: Sequence[WebhookConfig],
        store: Store,
        events: EventLog,
        read: ReadModel,
        page: str | None,
    ):
        self._hooks = [Hook(config) for config in hooks]
        self._store, self._events, self._read, self._page = store, events, read, page
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin where each left off; a new one is told what happens from now on."""
        await asyncio.to_thread(complete_log, self._store)
        await asyncio.to_thread(self._store.keep_hooks, [hook.key for hook in self._hooks])
        for hook in self._hooks:
            self._tasks.append(asyncio.create_task(self._serve(hook), name=f"webhook {hook.host}"))

    async def close(self) -> None:
        """Send what is there, if it goes quickly; then end."""
        if not self._tasks:
            return
        await self._events.flush()
        self._closing = True
        self._events.recorded.notify()
        _, late = await asyncio.wait(self._tasks, timeout=CLOSE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, hook: Hook) -> None:
        async with client() as http:
            while True:
                wake = asyncio.ensure_future(self._events.recorded.changed(LOOK_S))
                await asyncio.sleep(0)  # it listens before the log is read: nothing is missed
                try:
                    await self._send_new(hook, http)
                except TransportError as error:  # the database
                    log.warning("webhook %s: %s; it is tried again", hook.host, error)
                except Exception:
                    log.exception("webhook %s", hook.host)
                if self._closing:
                    wake.cancel()
                    return
                await wake

    async def _send_new(self, hook: Hook, http: httpx.AsyncClient) -> None:
        while True:
            at = await asyncio.to_thread(self._store.hook_at, hook.key)
            rows = await asyncio.to_thread(self._store.oldest_events, at, hook.kinds, PAGE)
            for row in rows:
                await self._deliver(hook, http, event_of(row))
                await asyncio.to_thread(self._store.move_hook, hook.key, row.event_id)
            if len(rows) < PAGE:
                return

    async def _deliver(self, hook: Hook, http: httpx.AsyncClient, event: Event) -> None:
        """Send one message as often as it takes; what cannot be sent is an event itself."""
        detail = None if event.run_id is None else await self._read.run(event.run_id)
        run = None if detail is None else RunSummary.model_validate(detail.model_dump())
        body = body_of(event, run, self._page)
        what = f"the webhook at {hook.host} was not told {NAMES[event.kind]!r}"

        def again(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if state.attempt_number == 1:
                text = f"{what}: {error}; it is tried for {GIVE_UP_S / 60:.0f} min"
                self._events.say(kinds.WEBHOOK, text, event.run_id)
            else:
                log.warning("%s: %s", what, error)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(DeliveryError),
            wait=wait_exponential_jitter(FIRST_PAUSE_S, LONGEST_PAUSE_S),
            stop=stop_after_delay(GIVE_UP_S),
            before_sleep=again,
            reraise=True,
        )
        try:
            await retrying(hook.send, http, body)
        except DomoError as error:
            self._events.say(kinds.WEBHOOK, f"{what}: {error}; given up", event.run_id)


async def send_test(hooks: Sequence[WebhookConfig], page: str | None) -> dict[str, str | None]:
    """Send a test message to each webhook, once; by host, what was wrong.

    Raises:
        ConfigError: A secret cannot be read.
    """
    ready = [Hook(config) for config in hooks]
    text = "a test message; webhooks of this coordinator arrive here"
    body = body_of(Event(event_id=0, at=now_text(), kind="test", text=text), None, page)
    found: dict[str, str | None] = {}
    async with client() as http:
        for hook in ready:
            try:
                await hook.send(http, body)
            except DomoError as error:
                found[hook.host] = str(error)
            else:
                found.setdefault(hook.host, None)
    return found


def complete_log(store: Store) -> None:
    """Record the end of a run whose event was lost when the coordinator was killed just then."""
    told = store.runs_with_event([kind.name for kind in kinds.ENDS.values()])
    for row in reversed(store.all_runs()):
        if row.state in ENDED and row.run_id not in told:
            kind = kinds.ENDS[row.state].name
            text = f"{row.name}: {kind}: {row.detail}"
            store.add_event(kind, text, row.run_id, at=row.finished_at)
