"""From the cause of an event to its words in the page."""

import queue
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Any

from benchmarks.dashboard.browser import opened
from benchmarks.dashboard.live import Coordinator, coordinator, submit_light
from benchmarks.dashboard.report import Figure, figures_of
from benchmarks.dashboard.silos import Cause, Pace, name_of, silos

NUM_SILOS = 4
NUM_EACH = {"step": 100, "round": 40, "log": 60}
PACE = Pace(train_s=2.0, report_s=0.6)
WATCH = """
window.seen = [];
const now = () => performance.timeOrigin + performance.now();
new MutationObserver((records) => {
  const at = now();
  for (const { addedNodes, target } of records) {
    for (const node of addedNodes) {
      const about = target.closest("#silos [data-key]")?.dataset.key ?? target.id;
      window.seen.push([at / 1000, about, node.textContent]);
    }
  }
}).observe(document.getElementById("view-overview"), { childList: true, subtree: true });
"""


@dataclass(frozen=True)
class Event:
    """One that will be on the screen: at an element, words that it will have."""

    kind: str
    about: str
    words: str
    at_s: float


def measure() -> list[Figure]:
    """A live run of four silos, and a fifth that the admin drops and takes back.

    `step`: from the instant before a silo's heartbeat to its step in its card. `round`: from the
    instant before the last silo sends its update to the next round's number; between them are the
    upload, the sum and the next round's opening. `log`: from the instant before the admin's request
    to the line in the list of events.
    """
    rounds = NUM_EACH["round"] + 20
    with coordinator(PACE.report_s) as it:
        run_id = submit_light(it, rounds, NUM_SILOS)
        with (
            silos(it.address, it.fed.folder, NUM_SILOS, PACE, spare=1) as causes,
            opened(it, "#/") as browser,
        ):
            it.until(lambda: it.rounds_done(run_id) >= 2, "in round 3")
            browser.page.find("#silos [data-key=silo-004]")
            _drain(causes)
            browser.page.driver.execute_script(WATCH)
            drops = _drop_now_and_then(it, run_id)
            seen = browser.page.driver.execute_script("return window.seen")
            events = [*drops, *_of_silos(_drain(causes), rounds)]
    return figures_of(_waits(events, seen), "ms")


def _drop_now_and_then(it: Coordinator, run_id: str) -> list[Event]:
    """Until there are rounds enough; the spare silo is out and in again once a second or so."""
    spare, drops = name_of(NUM_SILOS), []
    until, n = it.rounds_done(run_id) + NUM_EACH["round"] + 1, 0
    while it.rounds_done(run_id) < until or n < NUM_EACH["log"]:
        n += 1
        text = f"{spare} is left out by the admin: number {n}."
        drops.append(Event("log", "events", text, time.time()))
        it.post(f"/silos/{spare}/drop", {"reason": f"number {n}."})
        time.sleep(0.5 + 0.1 * (n % 7))
        it.post(f"/silos/{spare}/undrop", {})
        time.sleep(0.3)
    time.sleep(2.0)
    return drops


def _of_silos(causes: list[Cause], rounds: int) -> list[Event]:
    """A round waits for its last update."""
    events, last = [], defaultdict[int, list[float]](list)
    for cause in causes:
        kind, _, number = cause.what.partition(" ")
        if kind == "step":
            events.append(Event("step", cause.silo_id, cause.what, cause.at_s))
        else:
            last[int(number)].append(cause.at_s)
    for r, times in last.items():
        if len(times) == NUM_SILOS and r + 2 <= rounds:
            events.append(Event("round", "run-round", f"Round {r + 2} of {rounds}", max(times)))
    return events


def _waits(events: list[Event], seen: list[Any]) -> Mapping[str, list[float]]:
    """Milliseconds by kind, of the first of each.

    Raises:
        RuntimeError: One of them never came to the screen.
    """
    out: dict[str, list[float]] = {kind: [] for kind in NUM_EACH}
    for event in sorted(events, key=lambda event: event.at_s):
        if len(out[event.kind]) == NUM_EACH[event.kind]:
            continue
        shown = (at_s for at_s, about, text in seen if about == event.about and _is(event, text))
        if (at_s := next(shown, None)) is None:
            raise RuntimeError(f"never on the screen: {event}")
        out[event.kind].append(1000 * (at_s - event.at_s))
    return {**out, "all": [ms for waits in out.values() for ms in waits]}


def _is(event: Event, text: str) -> bool:
    """Whether a text tells of the event; a silo's newer step tells of an older one too."""
    if event.kind == "step":
        return text.startswith("step ") and int(text.split()[1]) >= int(event.words.split()[1])
    return event.words in text


def _drain(causes: "Queue[Cause]") -> list[Cause]:
    found = []
    while True:
        try:
            found.append(causes.get(timeout=0.5))
        except queue.Empty:
            return found
