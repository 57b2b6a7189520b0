"""Certificates of a minute under a run that goes on: renewed in time, and no round is lost.

    python -m benchmarks.short_certificates [--minutes 10] [--seconds 60] [--mb 59] [--silos 4]

Real processes through the command line: `pki init`, `enroll`, and agents that train a vector of
that size, one step a round, over mTLS. At the end: rounds, renewals, what went wrong, and whether a
process ended.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch

from benchmarks.data_plane import light
from benchmarks.data_plane.domo import AGENT_SHAPE, TASK
from domo.model.model_file import write_model
from tests.support.live.federation import BIN, federation

DAY_S = 86_400.0
RUN = """
[[runs]]
name = "r"
task = "{task}"
num_rounds = 1000000
num_silos = {silos}
local_steps = 1
batch_size = 1
evaluate_every = 0
norm_check = "off"
initial_model = "{x0}"
"""
HARMLESS = ("untested", "unusual")
"""Kinds of events that this task makes: nothing is tested, and all updates are the same."""


def command(*words: str) -> str:
    """What a command says that ends."""
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]], check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout


def measure(minutes: float, seconds: float, mb: float, silos: int) -> dict[str, Any]:
    """Train so long with certificates so short."""
    os.environ[AGENT_SHAPE] = str(int(mb * 1e6) // 4)
    with tempfile.TemporaryDirectory(prefix="domo-bench-") as root, federation(Path(root)) as fed:
        state = ["--state-dir", str(fed.state_dir)]
        command("domo-server", "pki", "init", "--host", "localhost", *state)
        layout, zeros = light.layout_of(int(mb * 1e6) // 4), torch.zeros(1 << 18)
        x0 = fed.folder / "x0.safetensors"
        write_model(x0, layout, lambda _, lo, hi: zeros[: hi - lo])
        run = RUN.format(task=TASK, silos=silos, x0=x0)
        server = fed.start_server(run, report_interval_s=2.0)
        data = fed.folder / "data"
        data.mkdir()
        port = fed.address.rpartition(":")[2]
        flags = ["--days", str(seconds / DAY_S), "--address", f"localhost:{port}"]
        for k in range(silos):
            name = f"silo-{k}"
            code = command("domo-server", "enroll", name, *flags, *state).strip()
            own = fed.folder / f"state-{name}"
            command("domo-client", "enroll", code, "--state-dir", str(own))
            fed.start_silo(name, "--data", str(data), "--task", TASK, address=f"localhost:{port}")
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(5)
            ended = [name for name, silo in fed.silos.items() if silo.poll() is not None]
            if ended or server.poll() is not None:
                raise RuntimeError(f"ended: {ended or 'the coordinator'}")
        newest = asked(fed.url, "/runs")[0]
        problems = asked(fed.url, "/events?level=problem&limit=1000")
        renewed = [e["silo_id"] for e in asked(fed.url, "/events?kind=renewed&limit=1000")]
        joined = asked(fed.url, "/events?kind=joined&limit=1000")
        return {
            "minutes": minutes,
            "certificates_s": seconds,
            "rounds": newest["rounds_done"],
            "state": newest["state"],
            "renewals": {name: renewed.count(name) for name in sorted(set(renewed))},
            "joins": len(joined),
            "problems": [e["text"] for e in problems if e["kind"] not in HARMLESS],
            "warnings_of_silos": sum(
                len(re.findall("network:", silo.output)) for silo in fed.silos.values()
            ),
        }


def asked(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/api/v1{path}", timeout=60) as answer:
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="of a certificate")
    parser.add_argument("--mb", type=float, default=59, help="of the model")
    parser.add_argument("--silos", type=int, default=4)
    args = parser.parse_args()
    found = measure(args.minutes, args.seconds, args.mb, args.silos)
    print(json.dumps(found, indent=2))
    failed = found["problems"] or found["joins"] != args.silos
    sys.exit(1 if failed or not found["rounds"] else 0)


if __name__ == "__main__":
    main()
