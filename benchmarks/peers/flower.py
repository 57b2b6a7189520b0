"""Flower: a SuperLink and one SuperNode for each silo, as its deployment guide starts them.

Subprocess isolation is its default: the ServerApp is a process of the SuperLink, and each message
to a SuperNode is handled by a new ClientApp process.
"""

import shutil
from pathlib import Path

from .bench import Bench, free_ports
from .install import Package
from .measure import PeerResult, measured
from .processes import SERVER

HERE = Path(__file__).parent
PACKAGE = Package("flower", "flwr", ("flwr>=1.42", "numpy"), 300)
CONNECTION = "bench"


def measure(
    shape: str, num_silos: int, rounds: int, folder: Path, limit_s: float | None = None
) -> PeerResult:
    """Measure rounds of Flower's FedAvg.

    Args:
        shape: "tiny", "59mb" or "1gb".
        num_silos: How many silos take part in each round.
        rounds: How many rounds are timed, after one that warms up.
        folder: Where everything is written; it must not hold an earlier measurement.
        limit_s: After how many seconds to give up; None for one that goes with shape and rounds.
    """
    variables = {
        "FLWR_HOME": str(folder.resolve() / "home" / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    return measured(PACKAGE, shape, num_silos, rounds, folder, limit_s, variables, start)


def start(bench: Bench) -> None:
    """Start the SuperLink and the SuperNodes, and submit the app to them."""
    app = bench.folder / "app"
    shutil.copytree(HERE / "flower_app", app, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "plan.py", app / "roundtrip")
    port, *node_ports = free_ports(1 + bench.num_silos)
    address = f"127.0.0.1:{port}"
    home = bench.folder / "home" / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{CONNECTION}"\n\n'
        f'[superlink.{CONNECTION}]\naddress = "{address}"\ninsecure = true\n',
        encoding="utf-8",
    )
    # Without the flag, it would resolve the app's dependencies over the network.
    link = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
    bench.start(SERVER, *link, "--port", str(port))
    bench.wait_for_port(port)
    for silo, node_port in enumerate(node_ports):
        node = ["flower-supernode", "--insecure", "--superlink", address]
        which = f"partition-id={silo} num-partitions={bench.num_silos}"
        bench.start(f"silo-{silo}", *node, "--port", str(node_port), "--node-config", which)
    # The app waits for all of its SuperNodes.
    bench.call("submit", "flwr", "run", app, CONNECTION, log="submit.log")
