"""`/metrics` of a silo, for a Prometheus at its own site; off unless the operator asks for it."""

import platform
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import torch
from prometheus_client import start_http_server

import domo
from domo.errors import ConfigError
from domo.ops.addresses import listen_address, split
from domo.ops.prometheus import (
    AtScrape,
    Metric,
    Sample,
    process_registry,
)
from domo_client.loop.silo import Silo
from domo_client.rpc.control import PHASES
from domo_client.telemetry.counts import LOST_BEATS, LOST_S, OUTCOMES
from domo_proto.certificates import term_of_file
from domo_proto.channel import TlsFiles

NAME = "domo_client_"
TABLE = (
    Metric(
        "domo_client_build_info",
        "gauge",
        "1; the versions.",
        ("silo", "version", "python", "torch"),
    ),
    Metric("domo_client_connected", "gauge", "1 while the coordinator answers heartbeats."),
    Metric("domo_client_last_heard_seconds", "gauge", "Since the coordinator last answered one."),
    Metric("domo_client_phase", "gauge", "1 for the phase that the silo is in.", ("phase",)),
    Metric("domo_client_run_info", "gauge", "1; the run in hand.", ("run",)),
    Metric("domo_client_round", "gauge", "The round in hand, from 1."),
    Metric("domo_client_step", "gauge", "Local steps made in it."),
    Metric("domo_client_num_steps", "gauge", "Local steps that it has."),
    Metric("domo_client_loss", "gauge", "Mean training loss of the last round."),
    Metric("domo_client_steps_total", "counter", "Local steps."),
    Metric("domo_client_rounds_total", "counter", "Rounds of training that were done here."),
    Metric(
        "domo_client_updates_total",
        "counter",
        "Updates by what became of them: `accepted`, `stale` (they came too late) or `refused`.",
        ("outcome",),
    ),
    Metric("domo_client_failures_total", "counter", "Rounds that failed here; refused ones too."),
    Metric("domo_client_joins_total", "counter", "Sessions; more than one: it came back."),
    Metric("domo_client_retries_total", "counter", "Calls that failed and were made again."),
    Metric(
        "domo_client_bytes_total",
        "counter",
        "Bytes of vectors on the wire, `sent` or `received`.",
        ("direction",),
    ),
    Metric(
        "domo_client_seconds_total",
        "counter",
        "Time spent `training`, `evaluating`, `downloading` and `uploading`; the rest is waiting.",
        ("activity",),
    ),
    Metric("domo_client_disk_free_bytes", "gauge", "Free in the state folder's file system."),
    Metric("domo_client_gpu_memory_used_bytes", "gauge", "Of the GPU's memory, by all processes."),
    Metric("domo_client_gpu_memory_reserved_bytes", "gauge", "Of it, by torch in this process."),
    Metric("domo_client_gpu_memory_size_bytes", "gauge", "Memory of the GPU."),
    Metric("domo_client_gpu_busy_ratio", "gauge", "Share of the last moments with a kernel on it."),
    Metric(
        "domo_client_certificate_expiry_timestamp_seconds",
        "gauge",
        "When this silo's TLS certificate ends; seconds since 1970.",
    ),
)
EXAMPLE = "127.0.0.1:9464"


class SiloMetrics:
    """A port that answers to Prometheus; a context manager.

    Args:
        address: host:port to listen on.
        tls: For the end of the silo's certificate.

    Raises:
        ConfigError: A bad address, or it is in use.
    """

    def __init__(self, address: str, tls: TlsFiles | None = None):
        address = listen_address(address, "--metrics", EXAMPLE)
        self._host, port = split(address)
        self._silo: Silo | None = None
        self._cert = None if tls is None else tls.cert
        self._expiry: float | None = None
        if self._cert is not None:
            self._expiry = term_of_file(self._cert, "certificate")[1]
        registry = process_registry()
        registry.register(AtScrape(TABLE, self._read))
        try:
            self._server, self._thread = start_http_server(port, self._host, registry)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(
                f"--metrics {address}: cannot listen there: {why}. Give another port, such as "
                "127.0.0.1:9465, or stop what uses this one"
            ) from None

    @property
    def url(self) -> str:
        """Where it is scraped."""
        return f"http://{self._host}:{self._server.server_port}/metrics"

    def watch(self, silo: Silo) -> None:
        """Show this silo; before, it is shown as not connected."""
        self._silo = silo

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _read(self) -> Iterator[Sample]:
        silo = self._silo
        with suppress(ConfigError):  # half of it is written
            self._expiry = (
                None if self._cert is None else term_of_file(self._cert, "certificate")[1]
            )
        yield Sample(NAME + "certificate_expiry_timestamp_seconds", self._expiry)
        if silo is None:
            yield Sample(NAME + "connected", 0)
            return
        versions = (domo.__version__, platform.python_version(), torch.__version__)
        yield Sample(NAME + "build_info", 1, (silo.connection.session.silo_id, *versions))
        yield from self._now(silo)
        yield from self._so_far(silo)

    def _now(self, silo: Silo) -> Iterator[Sample]:
        heard_at = silo.connection.counts.heard_at
        interval_s = silo.connection.session.report_interval_s
        age_s = None if heard_at is None else time.monotonic() - heard_at
        there = age_s is not None and age_s < max(LOST_S, LOST_BEATS * interval_s)
        yield Sample(NAME + "connected", there)
        yield Sample(NAME + "last_heard_seconds", age_s)
        progress = silo.progress
        for phase in PHASES:
            yield Sample(NAME + "phase", phase == progress.phase, (phase,))
        if progress.run_id:
            yield Sample(NAME + "run_info", 1, (progress.run_id,))
            yield Sample(NAME + "round", progress.round_index + 1)
        yield Sample(NAME + "step", progress.step)
        yield Sample(NAME + "num_steps", progress.num_steps)
        yield Sample(NAME + "loss", progress.loss)
        found = silo.resources()
        yield Sample(NAME + "disk_free_bytes", found.get("disk_free_bytes"))
        yield Sample(NAME + "gpu_memory_used_bytes", found.get("gpu_memory_used_bytes"))
        yield Sample(NAME + "gpu_memory_size_bytes", found.get("gpu_memory_total_bytes"))
        yield Sample(NAME + "gpu_busy_ratio", found.get("gpu_busy"))
        if "gpu_memory_total_bytes" in found:
            yield Sample(
                NAME + "gpu_memory_reserved_bytes", torch.cuda.memory_reserved(silo.device)
            )

    def _so_far(self, silo: Silo) -> Iterator[Sample]:
        counts = silo.connection.counts
        for name in ("steps", "rounds", "failures", "joins", "retries"):
            yield Sample(f"{NAME}{name}_total", getattr(counts, name))
        for outcome in OUTCOMES:
            yield Sample(NAME + "updates_total", counts.updates[outcome], (outcome,))
        yield Sample(NAME + "bytes_total", counts.bytes_sent, ("sent",))
        yield Sample(NAME + "bytes_total", counts.bytes_received, ("received",))
        for activity, seconds in counts.seconds.items():
            yield Sample(NAME + "seconds_total", seconds, (activity,))
