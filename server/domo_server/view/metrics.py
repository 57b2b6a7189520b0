"""`/metrics` of the coordinator, for Prometheus: what it counts, and its state at the scrape.

Of runs, the one under way is shown, or the newest; so the number of series does not grow with them.
"""

import asyncio
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest

import domo
from domo.api.schema import (
    ENDED,
    RoundRecord,
    RunDetail,
    RunState,
    SiloPhase,
    SiloStatus,
)
from domo.ops.prometheus import AtScrape, Metric, Sample
from domo_server.coordinator.coordinator import Coordinator
from domo_server.events.counters import COUNTED, MAX_SILOS
from domo_server.view.rows import round_record
from domo_server.view.view import CoordinatorView

RUN, SILO = ("run",), ("silo",)
GAUGES = (
    Metric("domo_build_info", "gauge", "1; the versions.", ("version", "python")),
    Metric("domo_runs", "gauge", "Runs in each state, all that there ever were.", ("state",)),
    Metric("domo_run_info", "gauge", "1; what the run is.", (*RUN, "method", "task")),
    Metric("domo_run_state", "gauge", "1 for the state that the run is in.", (*RUN, "state")),
    Metric("domo_run_rounds_wanted", "gauge", "Rounds that the run has in all.", RUN),
    Metric("domo_run_rounds_committed", "gauge", "Rounds that are done; r.", RUN),
    Metric("domo_run_remaining_seconds", "gauge", "Estimate from the last rounds.", RUN),
    Metric(
        "domo_run_stalled", "gauge", "1 while the run makes no progress; the page says why.", RUN
    ),
    Metric("domo_run_waiting_silos", "gauge", "Silos whose update the round waits for.", RUN),
    Metric("domo_train_loss", "gauge", "Mean training loss of the last committed round.", RUN),
    Metric(
        "domo_drift", "gauge", "Spread of the last round's updates, relative to their mean.", RUN
    ),
    Metric("domo_test_accuracy", "gauge", "Of the newest model that was tested, 0 to 1.", RUN),
    Metric("domo_test_loss", "gauge", "Of the newest model that was tested.", RUN),
    Metric("domo_update_norm", "gauge", "Length of the silo's update in the last round.", SILO),
    Metric("domo_update_cosine", "gauge", "Of the silo's update to the server momentum.", SILO),
    Metric("domo_silo_up", "gauge", "1 while the silo is heard of, 0 while it is not.", SILO),
    Metric(
        "domo_silo_on_roster",
        "gauge",
        "1 if the run under way counts on the silo; 0 if it does not, or an admin left it out.",
        SILO,
    ),
    Metric("domo_silo_phase", "gauge", "1 for the phase that the silo is in.", (*SILO, "phase")),
    Metric("domo_silo_last_seen_seconds", "gauge", "Since the silo was last heard of.", SILO),
    Metric("domo_silo_step", "gauge", "Local steps made in the round.", SILO),
    Metric("domo_silo_num_steps", "gauge", "Local steps that the round has.", SILO),
    Metric("domo_silo_loss", "gauge", "Training loss, as the silo last reported it.", SILO),
    Metric("domo_disk_free_bytes", "gauge", "Free in the state folder's file system."),
    Metric("domo_disk_size_bytes", "gauge", "Size of that file system."),
    Metric(
        "domo_certificate_expiry_timestamp_seconds",
        "gauge",
        "When the TLS certificate ends that was loaded at the start; seconds since 1970.",
    ),
)
TABLE = (*GAUGES, *COUNTED)


class CoordinatorMetrics:
    """What `/metrics` answers.

    Args:
        coordinator: Whose counters are shown.
        view: What the dashboard shows.
    """

    def __init__(self, coordinator: Coordinator, view: CoordinatorView):
        self._c, self._view = coordinator, view

    async def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        counted, silos = await self._view.num_runs(), await self._view.silos()
        detail = await self._view.shown_run()
        last = await self._last_round(detail)
        samples = [
            *self._process(),
            *of_runs(counted),
            *of_run(detail, last),
            *of_silos(silos, detail, last),
        ]
        now = CollectorRegistry()
        now.register(AtScrape(GAUGES, lambda: samples))
        return await asyncio.to_thread(
            lambda: generate_latest(now) + generate_latest(self._c.counters.registry)
        )

    async def _last_round(self, run: RunDetail | None) -> RoundRecord | None:
        if run is None or run.rounds_done == 0:
            return None
        store, r = self._c.store, run.rounds_done - 1
        row = await asyncio.to_thread(store.round_at, run.run_id, r)
        return round_record(row) if row is not None else None

    def _process(self) -> Iterator[Sample]:
        yield Sample("domo_build_info", 1, (domo.__version__, platform.python_version()))
        disk = shutil.disk_usage(self._c.state_dir)
        yield Sample("domo_disk_free_bytes", disk.free)
        yield Sample("domo_disk_size_bytes", disk.total)
        yield Sample("domo_certificate_expiry_timestamp_seconds", self._c.expiry.own_end)


def of_runs(counted: Mapping[RunState, int]) -> Iterator[Sample]:
    """How many runs are in which state."""
    for state in get_args(RunState):
        yield Sample("domo_runs", counted.get(state, 0), (state,))


def of_run(run: RunDetail | None, last: RoundRecord | None) -> Iterator[Sample]:
    """The run that is shown, and its last committed round."""
    if run is None:
        return
    name = (run.run_id,)
    yield Sample("domo_run_info", 1, (*name, run.method, run.task))
    for state in get_args(RunState):
        yield Sample("domo_run_state", state == run.state, (*name, state))
    yield Sample("domo_run_rounds_wanted", run.num_rounds, name)
    yield Sample("domo_run_rounds_committed", run.rounds_done, name)
    remaining_s = None if run.state in ENDED else run.remaining_s
    yield Sample("domo_run_remaining_seconds", remaining_s, name)
    yield Sample("domo_run_stalled", run.stalled is not None, name)
    yield Sample("domo_run_waiting_silos", len(run.waiting_for), name)
    yield Sample("domo_test_accuracy", run.accuracy, name)
    yield Sample("domo_test_loss", run.loss, name)
    if last is not None:
        yield Sample("domo_train_loss", last.train_loss, name)
        yield Sample("domo_drift", last.drift, name)


def of_silos(
    silos: Sequence[SiloStatus], run: RunDetail | None, last: RoundRecord | None
) -> Iterator[Sample]:
    """All silos, those of the roster that never joined too; the ones that are there first."""
    for part in last.participants if last is not None else ():
        yield Sample("domo_update_norm", part.update_norm, (part.silo_id,))
        yield Sample("domo_update_cosine", part.cosine, (part.silo_id,))
    roster = set(run.roster or run.config.get("roster") or ()) if run is not None else set()
    known = {silo.silo_id for silo in silos}
    unknown = [SiloStatus(silo_id=s, phase="offline") for s in sorted(roster - known)]
    under_way = run is not None and run.state not in ENDED
    first = sorted(
        [*silos, *unknown], key=lambda s: (s.silo_id not in roster, s.phase == "offline")
    )
    for silo in first[:MAX_SILOS]:
        name = (silo.silo_id,)
        yield Sample("domo_silo_up", silo.phase != "offline", name)
        if under_way:
            counts = silo.silo_id in roster and silo.dropped is None
            yield Sample("domo_silo_on_roster", counts, name)
        for phase in get_args(SiloPhase):
            yield Sample("domo_silo_phase", phase == silo.phase, (*name, phase))
        yield Sample("domo_silo_last_seen_seconds", silo.last_seen_s, name)
        yield Sample("domo_silo_step", silo.step, name)
        yield Sample("domo_silo_num_steps", silo.num_steps, name)
        yield Sample("domo_silo_loss", silo.loss, name)
