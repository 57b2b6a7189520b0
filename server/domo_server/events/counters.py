"""What the coordinator counts while it runs, for `/metrics`; all of it begins at 0 with a start."""

import contextlib
from collections.abc import Collection

from prometheus_client import Counter

from domo.ops.prometheus import (
    Metric,
    counter,
    histogram,
    process_registry,
)
from domo_server.events import kinds
from domo_server.events.kinds import EventKind

EVENTS = Metric("domo_events_total", "counter", "Events, by kind.", ("kind",))
JOINS = Metric(
    "domo_joins_total",
    "counter",
    "Times that a silo joined; more than one: it came back.",
    ("silo",),
)
FAILURES = Metric(
    "domo_silo_failures_total", "counter", "Rounds that a silo said had failed there.", ("silo",)
)
REFUSALS = Metric(
    "domo_refusals_total",
    "counter",
    "What a silo sent and was refused: an `update` that is wrong, one that came `late`, one whose "
    "`norm` is far above the others', an `enrolment`.",
    ("silo", "kind"),
)
BYTES = Metric(
    "domo_bytes_total",
    "counter",
    "Bytes of vectors on the wire, `sent` to a silo or `received` from it.",
    ("direction", "silo"),
)
RPC_ERRORS = Metric(
    "domo_rpc_errors_total", "counter", "Calls of silos that ended with an error.", ("error",)
)
HANDSHAKES = Metric(
    "domo_refused_handshakes_total",
    "counter",
    "Connections to the silos' TLS port that ended before a call: `refused`, by either end; "
    "`silent`, nothing was said, as by a port scanner; `unknown`, too fast to be looked at.",
    ("kind",),
)
LOGINS = Metric(
    "domo_refused_logins_total",
    "counter",
    "Tokens, log-in codes and log-ins that were `wrong`, or were not looked at as too many of "
    "their address had been (`limit`).",
    ("why",),
)
ROUND = Metric(
    "domo_round_duration_seconds", "histogram", "From the opening of a round to its next model."
)
PHASE = Metric(
    "domo_round_phase_seconds",
    "histogram",
    "Parts of a round: `collecting` updates, `summing` them, `committing` the checkpoint (behind "
    "the next round).",
    ("phase",),
)
COUNTED = (EVENTS, JOINS, FAILURES, REFUSALS, BYTES, RPC_ERRORS, HANDSHAKES, LOGINS, ROUND, PHASE)

REFUSED = ("update", "late", "norm", "enrolment")
ENDED = ("refused", "silent", "unknown")
PHASES = ("collecting", "summing", "committing")
BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
"""Seconds: rounds take from less than one to a day."""
MAX_SILOS = 1000
"""Silos that have a label of their own; further ones share `other`."""


class Counters:
    """Counters of one coordinator, with their registry."""

    def __init__(self) -> None:
        self.registry = registry = process_registry()
        self._events = counter(registry, EVENTS)
        self._joins = counter(registry, JOINS)
        self._failures = counter(registry, FAILURES)
        self._refusals = counter(registry, REFUSALS)
        self._bytes = counter(registry, BYTES)
        self._rpc_errors = counter(registry, RPC_ERRORS)
        self._handshakes = counter(registry, HANDSHAKES)
        self._logins = counter(registry, LOGINS)
        self._rounds = histogram(registry, ROUND, BUCKETS)
        self._phases = histogram(registry, PHASE, BUCKETS)
        for phase in PHASES:
            self._phases.labels(phase)
        for kind in ENDED:
            self._handshakes.labels(kind)
        for why in ("wrong", "limit"):
            self._logins.labels(why)
        self._silos: set[str] = set()

    def event(self, kind: EventKind, silo_id: str | None) -> None:
        """Something happened."""
        self._events.labels(kind.name).inc()
        if silo_id is not None and kind in (kinds.JOINED, kinds.SILO_FAILED):
            family = self._joins if kind is kinds.JOINED else self._failures
            family.labels(self._label(silo_id)).inc()

    def refused(self, silo_id: str, kind: str) -> None:
        """Something of a silo was refused."""
        self._refusals.labels(self._label(silo_id), kind).inc()

    def bytes_of(self, direction: str, silo_id: str) -> Counter:
        """The counter of a silo's bytes, `sent` or `received`."""
        return self._bytes.labels(direction, self._label(silo_id))

    def rpc_error(self, error: Exception) -> None:
        """A call ended with an error."""
        self._rpc_errors.labels(type(error).__name__).inc()

    def handshakes(self, kind: str, number: int = 1) -> None:
        """Connections ended before a call."""
        self._handshakes.labels(kind).inc(number)

    def refused_login(self, why: str) -> None:
        """Somebody was turned away: `wrong`, or `limit`."""
        self._logins.labels(why).inc()

    def phase(self, phase: str, seconds: float) -> None:
        """A part of a round took so long."""
        self._phases.labels(phase).observe(seconds)

    def round(self, seconds: float) -> None:
        """A round is closed."""
        self._rounds.observe(seconds)

    def forget(self, silo_ids: Collection[str]) -> None:
        """These names are nobody's any more: others may have their labels."""
        for silo_id in self._silos.intersection(silo_ids):
            self._silos.discard(silo_id)
            labels: list[tuple[Counter, tuple[str, ...]]] = [
                (self._joins, (silo_id,)),
                (self._failures, (silo_id,)),
                *((self._refusals, (silo_id, kind)) for kind in REFUSED),
                *((self._bytes, (direction, silo_id)) for direction in ("sent", "received")),
            ]
            for family, values in labels:
                with contextlib.suppress(KeyError):  # it never had that one
                    family.remove(*values)

    def _label(self, silo_id: str) -> str:
        if silo_id not in self._silos and len(self._silos) >= MAX_SILOS:
            return "other"
        if silo_id not in self._silos:  # an increase from nothing is none to Prometheus: begin at 0
            self._silos.add(silo_id)
            self._failures.labels(silo_id)
            for kind in REFUSED:
                self._refusals.labels(silo_id, kind)
        return silo_id
