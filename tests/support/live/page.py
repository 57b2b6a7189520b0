"""What the page of a federation says as time passes: new events, and texts that changed."""

import http.client
import json
import re
import threading
import time
import urllib.parse
from typing import Any, NamedTuple

from tests.support.live.killable import COORDINATOR, RUN_ID, Federation

LOOK_S = 0.15


class Line(NamedTuple):
    """Something that the page says from a moment on, `time.monotonic()`."""

    at: float
    text: str


class Page(threading.Thread):
    """Looks at REST again and again, as the page does; a context manager.

    Args:
        fed: The federation; its coordinator may be away.
    """

    def __init__(self, fed: Federation):
        super().__init__(name="page", daemon=True)
        self._fed, self._stopped = fed, threading.Event()
        host = urllib.parse.urlsplit(fed.url).netloc
        self._connection = http.client.HTTPConnection(host, timeout=2)
        self.lines: list[Line] = []
        self._shown: dict[str, str | None] = {}
        self._last_event = 0

    def __enter__(self) -> "Page":
        self._look()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(20)
        self._connection.close()

    def run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        status = self._get("/status")
        self._shows("page", "" if status else "the coordinator does not answer")
        if status is None:
            return
        for silo in status["silos"]:
            for key in ("away", "error"):
                text = silo[key] and f"{silo['silo_id']} {key}: {silo[key]}"
                self._shows(f"{silo['silo_id']} {key}", text)
        run = status["current_run"] or {}
        for key in ("detail", "stalled"):
            self._shows(key, run.get(key) and f"run {key}: {run[key]}")
        events = self._get(f"/events?after={self._last_event}&limit=1000") or []
        for event in events:
            self._last_event = event["event_id"]
            self._add(f"event {event['kind']} {event['silo_id'] or COORDINATOR}: {event['text']}")

    def _get(self, path: str) -> Any:
        """An answer of REST over one connection, as the page has it; None: there is none."""
        try:
            self._connection.request("GET", "/api/v1" + path)
            return json.load(self._connection.getresponse())
        except (http.client.HTTPException, OSError, ValueError):
            self._connection.close()  # the next request opens it again
            return None

    def _shows(self, what: str, text: str | None) -> None:
        if self._shown.get(what) != text:
            self._shown[what] = text
            if text:
                self._add(text)

    def _add(self, text: str) -> None:
        self.lines.append(Line(time.monotonic(), text))

    def first(self, pattern: str, since: float) -> Line | None:
        """The first line since then that has this."""
        found = (line for line in list(self.lines) if line.at >= since)
        return next((line for line in found if re.search(pattern, line.text)), None)

    def now(self) -> str:
        """What is shown now, in words."""
        return f"{RUN_ID}: " + "; ".join(text for text in self._shown.values() if text)
