"""deploy/monitoring: rules and board name what is exported, and the documents name them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml

from domo.api.schema import RunState, SiloPhase
from domo_client.observe import prometheus as silo
from domo_server.view import metrics as coordinator

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
BOARD = json.loads((FOLDER / "grafana/boards/domo.json").read_text(encoding="utf-8"))
TABLE = {m.name: m for m in (*coordinator.TABLE, *silo.TABLE)}
TARGET = {"job", "instance"}
BASE, OVERLAY = ROOT / "docker-compose.yml", ROOT / "deploy/compose.monitoring.yml"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    return [rule for group in read(FOLDER / "alerts.yml")["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Where, and what is asked."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def test_every_metric_that_is_asked_for_is_exported() -> None:
    """What is exported is the tables: tests/integration/test_metrics.py compares the two."""
    asked = set()
    for where, text in expressions():
        for name, labels in re.findall(r"\b(domo_[a-z_]+)(?:\{([^}]*)\})?", text):
            plain = re.sub(r"_(bucket|sum|count)$", "", name)
            found = plain if TABLE.get(plain, silo.TABLE[0]).kind == "histogram" else name
            assert found in TABLE, f"{where}: {name}"
            used = set(re.findall(r"(\w+) *(?:=~|!=|=)", labels))
            assert used <= {*TABLE[found].labels, *TARGET}, f"{where}: {text}"
            asked.add(found)
    assert len(asked) > 30


def test_values_of_labels_are_those_of_the_code() -> None:
    states, phases = set(get_args(RunState)), set(get_args(SiloPhase))
    text = "\n".join(expr for _, expr in expressions())
    assert set(re.findall(r'state="(\w+)"', text)) == states
    assert set(re.findall(r'phase="(\w+)"', text)) == phases


def test_every_alert_is_described_and_tested() -> None:
    names = [rule["alert"] for rule in rules()]
    text = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Domo\w+)` \|", text, re.M) == names
    tests = read(FOLDER / "alerts_test.yml")["tests"]
    fired = {c["alertname"] for t in tests for c in t["alert_rule_test"] if c["exp_alerts"]}
    assert fired == set(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")


def test_the_board_is_one_that_grafana_provisions() -> None:
    [provider] = read(FOLDER / "grafana/provisioning/dashboards/domo.yml")["providers"]
    [source] = read(FOLDER / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    grafana = read(OVERLAY)["services"]["grafana"]
    mounts = dict(v.split(":")[:2] for v in grafana["volumes"])
    assert mounts["./deploy/monitoring/grafana/boards"] == provider["options"]["path"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert {t["datasource"]["uid"] for t in panel["targets"]} == {source["uid"]}


def test_the_overlay_watches_all_that_compose_starts() -> None:
    base, overlay = read(BASE)["services"], read(OVERLAY)["services"]
    silos = sorted(set(base) - {"coordinator"})
    assert sorted(overlay) == sorted([*silos, "prometheus", "grafana"])
    port = {overlay[name]["environment"]["DOMO_CLIENT_METRICS"] for name in silos}
    assert port == {"0.0.0.0:9464"}
    jobs = read(FOLDER / "prometheus.yml")["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets == {
        "domo-coordinator": ["coordinator:8080"],
        "domo-silo": [f"{name}:9464" for name in silos],
    }
    for name in ("prometheus", "grafana"):
        [published] = overlay[name]["ports"]
        assert published.startswith("127.0.0.1:")
        for volume in overlay[name]["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).exists() or source in read(OVERLAY)["volumes"], volume
