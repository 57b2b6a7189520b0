"""/metrics of a real federation, against what REST says and what the documentation promises."""

import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from domo.errors import ConfigError
from domo.ops.prometheus import Metric
from domo_client.observe.prometheus import TABLE as SILO_TABLE
from domo_client.observe.prometheus import SiloMetrics
from domo_server.view.metrics import TABLE
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options

DOCS = Path(__file__).parents[2] / "docs"
Key = tuple[str, frozenset[tuple[str, str]]]


class Scrape(NamedTuple):
    """What one end answered."""

    text: str
    kinds: dict[str, str]
    values: dict[Key, float]

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]


def scrape(url: str) -> Scrape:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    found = list(text_string_to_metric_families(text))
    kinds = {f.name + ("_total" if f.type == "counter" else ""): f.type for f in found}
    samples = [s for f in found for s in f.samples]
    values = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(values) == len(samples), "a series is there twice"
    return Scrape(text, kinds, values)


class Seen(NamedTuple):
    """A federation in its rounds, and after them."""

    server: Scrape
    silo: Scrape
    ended: Scrape
    state_dir: Path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("metrics")
    names = ["site-a", "site-b"]
    run = {"task": "digits", "method": "DOMO", "num_rounds": 10_000, "local_steps": 2}
    run["roster"] = names
    with (
        coordinator(folder, run) as c,
        agents(c.address, names, folder, lambda i: options(shard=(i, 2))) as silos,
        SiloMetrics("127.0.0.1:0") as metrics,
    ):
        alone = scrape(metrics.url)
        assert alone.value("domo_client_connected") == 0
        metrics.watch(silos[0].silo)
        c.until(f"/runs/{c.run_ids[0]}", lambda r: r["rounds_done"] >= 3 and r["accuracy"])
        server, silo = scrape(f"{c.url}/metrics"), scrape(metrics.url)
        c.post(f"/runs/{c.run_ids[0]}/stop")
        c.until("/events", lambda events: any(e["kind"] == "stopped" for e in events))
        yield Seen(server, silo, scrape(f"{c.url}/metrics"), c.state_dir)


@pytest.mark.parametrize("end", ["server", "silo"])
def test_all_metrics_of_the_table_are_there(seen: Seen, end: str) -> None:
    at, table = getattr(seen, end), {"server": TABLE, "silo": SILO_TABLE}[end]
    own = {n: k for n, k in at.kinds.items() if not n.startswith("process_")}
    assert own == {m.name: m.kind for m in table}
    for metric in table:
        kept = [dict(labels) for name, labels in at.values if name == metric.name]
        assert all(set(labels) == set(metric.labels) for labels in kept), metric.name
    assert at.value("process_resident_memory_bytes") > 1e6


def test_a_run_under_way(seen: Seen) -> None:
    at, run = seen.server, "1-domo-digits"
    assert at.value("domo_run_info", run=run, method="DOMO", task="digits") == 1
    assert at.value("domo_run_rounds_wanted", run=run) == 10_000
    done = at.value("domo_run_rounds_committed", run=run)
    assert 3 <= done < 10_000
    assert at.value("domo_run_remaining_seconds", run=run) > 0
    states = {dict(k)["state"]: v for (n, k), v in at.values.items() if n == "domo_run_state"}
    assert sum(states.values()) == 1
    assert states["OPEN"] + states["CLOSING"] == 1
    assert 0 < at.value("domo_test_accuracy", run=run) <= 1
    for name in ("domo_test_loss", "domo_train_loss", "domo_drift"):
        assert at.value(name, run=run) > 0
    for phase in ("collecting", "summing", "committing"):
        count = at.value("domo_round_phase_seconds_count", phase=phase)
        assert done - 1 <= count <= done + 2
    assert at.value("domo_round_duration_seconds_count") >= done
    parts = sum(mean(at, "domo_round_phase_seconds", phase=p) for p in ("collecting", "summing"))
    whole = mean(at, "domo_round_duration_seconds")
    assert parts < 1.5 * whole + 0.1, "the phases of a round that is not committed count, too"


def mean(at: Scrape, histogram: str, **labels: str) -> float:
    return at.value(f"{histogram}_sum", **labels) / at.value(f"{histogram}_count", **labels)


def test_its_silos(seen: Seen) -> None:
    at = seen.server
    for silo in ("site-a", "site-b"):
        assert at.value("domo_silo_up", silo=silo) == 1
        assert at.value("domo_silo_on_roster", silo=silo) == 1
        phases = [
            v for (n, k), v in at.values.items() if n == "domo_silo_phase" and ("silo", silo) in k
        ]
        assert sum(phases) == 1
        assert at.value("domo_update_norm", silo=silo) > 0
        assert -1 <= at.value("domo_update_cosine", silo=silo) <= 1
        assert at.value("domo_joins_total", silo=silo) == 1
        assert at.value("domo_refusals_total", silo=silo, kind="update") == 0
        assert at.value("domo_silo_last_seen_seconds", silo=silo) < 5
        received = at.value("domo_bytes_total", direction="received", silo=silo)
        assert at.value("domo_bytes_total", direction="sent", silo=silo) > received / 2 > 10_000


def test_a_run_that_has_ended(seen: Seen) -> None:
    at, run = seen.ended, "1-domo-digits"
    assert (
        at.value("domo_runs", state="STOPPED")
        == at.value("domo_run_state", run=run, state="STOPPED")
        == 1
    )
    assert at.value("domo_runs", state="OPEN") == 0
    gone = ("domo_silo_on_roster", "domo_run_remaining_seconds")
    assert not {name for name, _ in at.values} & set(gone)
    assert at.value("domo_events_total", kind="stopped") == 1
    disk = shutil.disk_usage(seen.state_dir)
    assert at.value("domo_disk_size_bytes") == disk.total


def test_a_silo_in_a_run(seen: Seen) -> None:
    at, name = seen.silo, "domo_client_"
    assert at.value(name + "connected") == 1
    assert at.value(name + "last_heard_seconds") < 5
    assert at.value(name + "run_info", run="1-domo-digits") == 1
    rounds, trained = at.value(name + "round"), at.value(name + "rounds_total")
    assert 3 <= trained <= rounds
    assert 2 * trained <= at.value(name + "steps_total") <= 2 * trained + 2
    assert trained - 1 <= at.value(name + "updates_total", outcome="accepted") <= trained
    assert at.value(name + "updates_total", outcome="refused") == 0
    assert at.value(name + "joins_total") == 1
    assert at.value(name + "retries_total") == at.value(name + "failures_total") == 0
    assert at.value(name + "loss") > 0
    for activity in ("training", "evaluating", "downloading", "uploading"):
        assert 0 < at.value(name + "seconds_total", activity=activity) < 60
    for direction in ("sent", "received"):
        assert at.value(name + "bytes_total", direction=direction) > 10_000
    phases = [v for (n, _), v in at.values.items() if n == name + "phase"]
    assert sum(phases) == 1


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with SiloMetrics("127.0.0.1:0") as first:
        address = first.url.split("/")[2]
        with pytest.raises(ConfigError, match=f"--metrics {address}: .* in use. Give another port"):
            SiloMetrics(address)
    with pytest.raises(ConfigError, match="must be host:port, such as 127"):
        SiloMetrics("9464")


@pytest.mark.parametrize(("heading", "table"), [("The coordinator", TABLE), ("A silo", SILO_TABLE)])
def test_the_documentation_has_the_same_table(heading: str, table: Sequence[Metric]) -> None:
    text = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    part = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    written = [line for line in part.splitlines() if line.startswith("| `domo_")]
    assert written == [row(m) for m in table]


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.text} |"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("end", ["server", "silo"])
def test_promtool_finds_nothing_to_say(seen: Seen, end: str) -> None:
    command, text = ["promtool", "check", "metrics"], getattr(seen, end).text
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_names_follow_the_conventions() -> None:
    for metric in (*TABLE, *SILO_TABLE):
        assert re.fullmatch(r"domo_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.text.endswith("."), metric.name
