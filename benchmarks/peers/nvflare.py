"""NVIDIA FLARE in its POC mode: a server and a client process for each silo, over mutual TLS.

A job adds one process to the server and one to each client, in which the training script runs.
"""

import shutil
from pathlib import Path

from .bench import Bench, Trouble, free_ports
from .install import Package
from .measure import PeerResult, measured
from .processes import SERVER

HERE = Path(__file__).parent
PACKAGE = Package("nvflare", "nvflare", ("nvflare>=2.9", "numpy"), 240)
CONNECT_S = "60"


def measure(
    shape: str, num_silos: int, rounds: int, folder: Path, limit_s: float | None = None
) -> PeerResult:
    """Measure rounds of FLARE's FedAvg.

    Args:
        shape: "tiny", "59mb" or "1gb".
        num_silos: How many silos take part in each round.
        rounds: How many rounds are timed, after one that warms up.
        folder: Where everything is written; it must not hold an earlier measurement.
        limit_s: After how many seconds to give up; None for one that goes with shape and rounds.
    """
    variables = {"NVFLARE_POC_WORKSPACE": str(folder.resolve() / "poc")}
    return measured(PACKAGE, shape, num_silos, rounds, folder, limit_s, variables, start)


def start(bench: Bench) -> None:
    """Provision and start all sites, and submit the job to them."""
    if " " in str(bench.folder):
        raise Trouble(f"FLARE's start scripts cannot do with the space in {bench.folder}")
    job = bench.folder / "job"
    shutil.copytree(HERE / "nvflare_job", job, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "plan.py", job)
    port, admin_port = free_ports(2)
    project, exported = bench.folder / "project.yml", bench.folder / "exported"
    words = [str(project), str(port), str(admin_port), str(exported)]
    bench.call("setup", "python", job / "make.py", *words, log="setup.log")
    bench.call("setup", "nvflare", "poc", "prepare", "--force", "-i", project, log="prepare.log")
    # `nvflare poc start` runs these scripts; its own process would count as the site's.
    sites = bench.folder / "poc" / "bench" / "prod_00"
    bench.call(SERVER, sites / "server" / "startup" / "start.sh", log="server.log")
    bench.wait_for_port(port)
    for silo in range(1, bench.num_silos + 1):
        script = sites / f"site-{silo}" / "startup" / "start.sh"
        bench.call(f"silo-{silo}", script, log=f"silo-{silo}.log")
    # The job waits for all of its clients.
    submit = ["nvflare", "--format", "json", "--connect-timeout", CONNECT_S, "job", "submit"]
    bench.call("submit", *submit, "-j", exported / "roundtrip", log="submit.log")
