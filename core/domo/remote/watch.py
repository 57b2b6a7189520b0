"""`domo watch`: one run, live, until it ends."""

import json
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.live import Live

from domo.api.client import Coordinator
from domo.api.schema import (
    ENDED,
    Event,
    RunDetail,
    SiloStatus,
    StreamMessage,
)
from domo.errors import ConfigError, CoordinatorUnavailableError, DeadlineError, DomoError
from domo.ops.console import complain, console, say
from domo.ops.exit_codes import DONE, INTERRUPTED, OF_STATES
from domo.ops.words import counted
from domo.remote.admin import submit_runs
from domo.remote.events import show_event
from domo.remote.tables import stalled
from domo.remote.watch_view import KEPT_EVENTS, result_line, view
from domo.remote.which import here

REDRAWS = 4
"""Of the live view, at most so many in a second."""
QUIET_S = 60.0
"""Without a terminal: a line at least so often, so that a log shows that it goes on."""
PAST_EVENTS = 5
"""Shown of what happened before somebody watched."""
ASK_S = 1.0
"""How often a run is asked for that is not the current one."""


class Seen(NamedTuple):
    """What is known of a run now.

    Attributes:
        run: The run.
        silos: All silos.
        events: Of the run, new since last time.
    """

    run: RunDetail
    silos: Sequence[SiloStatus]
    events: Sequence[Event]


class Watcher:
    """Follows a run: the coordinator's stream, on a thread, and what it means for this run.

    Whoever makes one closes it.

    Args:
        coordinator: Where from.
        run_id: The run; None: the current or newest one.
        timeout_s: How long at most.
    """

    def __init__(self, coordinator: Coordinator, run_id: str | None, timeout_s: float | None):
        self._coordinator = coordinator
        if run_id is None:
            status, runs = coordinator.status(), coordinator.runs()
            newest = status.current_run or next(iter(runs), None)
            if newest is None:
                raise ConfigError("there is no run to watch yet; start one: domo submit FILE")
            run_id = newest.run_id
        self.first = coordinator.run(run_id)
        self.run_id = run_id
        self.away: DomoError | None = None
        self._asked, self._behind = 0.0, False
        self._events = list[Event]()
        self._silos: Sequence[SiloStatus] = ()
        self._timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s
        self._inbox: queue.SimpleQueue[StreamMessage | DomoError] = queue.SimpleQueue()
        self._stream = coordinator.again()
        threading.Thread(target=self._listen, name="stream", daemon=True).start()

    def close(self) -> None:
        """Hang up; the thread ends with the next sign of life, or at the end of a silence."""
        self._stream.close()

    def _listen(self) -> None:
        try:
            for message in self._stream.stream(on_away=self._lost):
                self.away = None
                self._inbox.put(message)
        except DomoError as error:
            self._inbox.put(error)

    def _lost(self, error: DomoError) -> None:
        self.away = error

    def next(self, wait_s: float) -> Seen | None:
        """What is new; None: nothing in `wait_s` seconds.

        Raises:
            DeadlineError: The time is up.
            CoordinatorUnavailableError: The coordinator was away for too long.
        """
        left = wait_s if self._end is None else min(wait_s, self._end - time.monotonic())
        if left <= 0:
            raise DeadlineError(
                f"run {self.run_id} has not ended after {self._timeout_s:g} s; it goes on"
            )
        if self._behind:
            left = min(left, max(0.0, self._asked + ASK_S - time.monotonic()))
        run = None
        try:
            message = self._inbox.get(timeout=left)
        except queue.Empty:
            if not self._behind:
                return None
        else:
            if isinstance(message, DomoError):
                raise message
            self._events += [e for e in message.events if e.run_id == self.run_id]
            run, self._silos = message.run, message.status.silos
        if run is None or run.run_id != self.run_id:  # it waits in the queue, or has ended
            self._behind = True  # until it has been asked for: nothing more may come
            if time.monotonic() - self._asked < ASK_S:
                return None
            self._asked = time.monotonic()
            try:
                run = self._coordinator.run(self.run_id)
            except CoordinatorUnavailableError:
                return None
        events, self._events, self._behind = self._events, [], False
        return Seen(run, self._silos, events)


def watch(
    coordinator: Coordinator, run_id: str | None, timeout_s: float | None, as_json: bool
) -> int:
    """Show a run until it ends.

    Args:
        coordinator: Where from.
        run_id: The run; None: the current or newest one.
        timeout_s: How long at most.
        as_json: An object on each line, at the start and after every change.

    Returns:
        The exit code that tells how it ended.

    Raises:
        ConfigError: There is no such run.
        DeadlineError: It has not ended in time.
        CoordinatorUnavailableError: Nobody answers.
    """
    watcher = Watcher(coordinator, run_id, timeout_s)
    try:
        shown = console.is_terminal and not console.is_dumb_terminal
        if as_json:
            run = _in_json(watcher)
        elif shown:
            run = _live(watcher)
        else:
            run = _in_lines(watcher)
    except KeyboardInterrupt:
        again = here("domo", "watch", watcher.run_id, at=coordinator)
        complain(f"no longer watching; the run goes on. Again: {again}")
        return INTERRUPTED
    finally:
        watcher.close()
    if not as_json and not shown:
        say(result_line(run), style=None if run.state == "FINISHED" else "yellow")
    return OF_STATES[run.state]


def submit_and_watch(
    server: str, path: Path, name: str | None, token: str, follow: bool, timeout_s: float | None
) -> int:
    """Queue the runs of a file; with `follow`, show each until it ends.

    Returns:
        The exit code of the first run that did not finish; else 0.
    """
    queued = submit_runs(server, path, name, token)
    if not follow:
        say(f"next: {here('domo', 'watch', queued[0], at=server)}")
        return DONE
    end = None if timeout_s is None else time.monotonic() + timeout_s
    codes = []
    with Coordinator(server, token) as coordinator:
        for run_id in queued:
            left = None if end is None else max(0.0, end - time.monotonic())
            codes.append(watch(coordinator, run_id, left, as_json=False))
            if codes[-1] == INTERRUPTED:
                break
    return next((code for code in codes if code != DONE), DONE)


def _in_json(watcher: Watcher) -> RunDetail:
    while True:
        seen = watcher.next(QUIET_S)
        if seen is None:
            continue
        skipped = {"config", "metrics", "roster"}
        body = {
            "run": seen.run.model_dump(mode="json", exclude=skipped),
            "silos": [silo.model_dump(mode="json") for silo in seen.silos],
            "events": [event.model_dump(mode="json") for event in seen.events],
        }
        say(json.dumps(body))
        console.file.flush()
        if seen.run.state in ENDED:
            return seen.run


def _in_lines(watcher: Watcher) -> RunDetail:
    run: RunDetail = watcher.first
    said, away = time.monotonic(), False
    say(
        f"{run.run_id}: {run.method} on {run.task}, "
        f"{counted(run.num_rounds, 'round')}; {run.state.lower()}"
    )
    first = True
    while run.state not in ENDED:
        seen = watcher.next(1.0)
        if watcher.away is not None and not away:
            complain(f"{watcher.away}; waiting for it")
        away = watcher.away is not None
        told: Sequence[Event] = ()
        if seen is not None:
            told, first = seen.events[-PAST_EVENTS:] if first else seen.events, False
            if stalled(seen.run) and stalled(seen.run) != stalled(run):
                say(f"{run.run_id} {stalled(seen.run)}", style="yellow")
                said = time.monotonic()
            run = seen.run
        for event in told:
            show_event(event)
        if told:
            said = time.monotonic()
        elif time.monotonic() - said > QUIET_S:
            say(f"{run.run_id}: {run.rounds_done} of {run.num_rounds} rounds. {run.detail}")
            said = time.monotonic()
        console.file.flush()
    return run


def _live(watcher: Watcher) -> RunDetail:
    seen = Seen(watcher.first, (), ())
    events: list[Event] = []
    with Live(console=console, auto_refresh=False, transient=True) as live:
        drawn = 0.0
        while seen.run.state not in ENDED:
            fresh = watcher.next(1.0)
            if fresh is not None:
                seen = fresh
                events = [*events, *fresh.events][-KEPT_EVENTS:]
            if time.monotonic() - drawn >= 1 / REDRAWS or seen.run.state in ENDED:
                live.update(
                    view(seen.run, seen.silos, events, watcher.away, console.size), refresh=True
                )
                drawn = time.monotonic()
    console.print(view(seen.run, seen.silos, events, None, console.size, last=True))
    return seen.run
