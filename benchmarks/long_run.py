"""A run of many rounds with many metrics: what of it grows.

    python -m benchmarks.long_run [--rounds 2000] [--metrics 50] [--silos 3] [--page] [--json FILE]

Light silos (4 KB of model, no training) log `--metrics` numbers in each round and test each model
for as many. At a twentieth of the rounds and at the end: seconds a round, size and seconds of what
REST answers, memory of the coordinator, size of its database; at the end, with `--page`, the run's
page in Chromium. What a figure at the end is over the one at a twentieth is printed beside it.
"""

import argparse
import json
import math
import multiprocessing
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch

from benchmarks.dashboard.live import Coordinator, coordinator, cpu_s, submit_light
from benchmarks.dashboard.silos import NUM_PARAMS, name_of
from benchmarks.data_plane import light
from domo.meaning.value import NOTHING
from domo.tasks.base import Sum
from domo_client.rpc.control import Control
from domo_client.rpc.data import Tested
from domo_client.rpc.session import Session
from domo_client.state.folder import PendingUpdate, SiloState
from domo_proto.codec import VectorId, model_digest

NUM_TESTS = 100
PATIENCE_S = 6 * 3600.0
ASKED = (
    "/status", "/runs", "/runs/{run}", "/runs/{run}/rounds", "/runs/{run}/rounds?after={late}",
    "/runs/{run}/tests", "/runs/{run}/tests?after={late}", "/runs/{run}/history.csv",
    "/runs/{run}/card", "/silos/silo-000", "/metrics",
)  # fmt: skip


def names(num_metrics: int) -> list[str]:
    """loss, accuracy, and others up to so many."""
    return ["loss", "accuracy", *(f"m{i:02d}" for i in range(num_metrics - 2))]


def silo(k: int, address: str, folder: Path, num_metrics: int) -> None:
    """One silo of the run, from its offer to its end."""
    state = SiloState(folder / name_of(k))
    session = Session(address, name_of(k), state.instance_id)
    control, data = Control(session), light.Streaming(session, state)
    session.join()
    while (offer := control.wait_for_run()) is None:
        pass
    layout = light.layout_of(NUM_PARAMS)
    data.vectors.expect(layout)
    data.make_up(NUM_PARAMS, 1, light.value_of(k))
    control.enroll(offer, layout, 1000 + k, NUM_TESTS, NOTHING)
    tested, logged = Tested(), names(num_metrics)
    while True:
        told, _ = data.fetch_round(offer.run_id, tested, list(data.vectors.seen))
        if told.action == "ASK_AGAIN":
            continue
        r = told.round_index
        values = {n: 1 + math.sin(i + k) / (1 + r) for i, n in enumerate(logged)}
        if r > tested.model_index:
            tested = Tested(r, model_digest(told.digests))
            sums = {n: Sum(NUM_TESTS * v, NUM_TESTS) for n, v in values.items()}
            control.report_evaluation(offer.run_id, r, tested.digest, sums)
        if told.action == "END":
            break
        sizes = [(VectorId.UPDATE, 4 * NUM_PARAMS)]
        update = PendingUpdate(offer.run_id, r, "", data.digest, sizes, told.num_steps, values)
        data.submit(update)


def silos(address: str, folder: Path, num_silos: int, num_metrics: int) -> None:
    """All of them, as threads of this process."""
    import threading

    torch.set_num_threads(1)
    threads = [
        threading.Thread(target=silo, args=(k, address, folder, num_metrics))
        for k in range(num_silos)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def look(it: Coordinator, run_id: str) -> dict[str, float]:
    """What REST answers now, and what the coordinator holds."""
    found: dict[str, float] = {}
    late = it.rounds_done(run_id) - 3
    for path in ASKED:
        where = path.format(run=run_id, late=late)
        base = it.url if path == "/metrics" else f"{it.url}/api/v1"
        before, began = cpu_s(it.pid), time.monotonic()
        with urllib.request.urlopen(base + where, timeout=600) as answer:
            size = len(answer.read())
        found[f"{path} kB"] = round(size / 1e3, 1)
        found[f"{path} s"] = round(time.monotonic() - began, 3)
        found[f"{path} cpu s"] = round(cpu_s(it.pid) - before, 2)
    status = Path(f"/proc/{it.pid}/status").read_text()
    found["RSS MB"] = int(status.split("VmRSS:")[1].split()[0]) / 1e3
    folder = it.fed.state_dir
    found["database MB"] = sum(f.stat().st_size for f in folder.glob("coordinator.db*")) / 1e6
    files = [f for f in folder.rglob("*") if f.is_file()]
    found["files"] = len(files)
    return found


def wait_for(it: Coordinator, num_rounds: int) -> None:
    """Until so many rounds are done; the run's own page of numbers is not asked for, it is long."""

    def there() -> bool:
        run = it.get("/status")["current_run"]
        return run is not None and run["rounds_done"] >= num_rounds

    it.until(there, f"round {num_rounds}", PATIENCE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--metrics", type=int, default=50)
    parser.add_argument("--silos", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="the run's page in Chromium")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    context = multiprocessing.get_context("spawn")
    with coordinator() as it:
        run_id = submit_light(it, args.rounds + 1, args.silos)
        arguments = (it.address, it.fed.folder, args.silos, args.metrics)
        process = context.Process(target=silos, args=arguments, daemon=True)
        process.start()
        try:
            began, used, done = time.monotonic(), cpu_s(it.pid), 0
            for n in (args.rounds // 20, args.rounds * 19 // 20, args.rounds):
                wait_for(it, n)
                now, cpu = time.monotonic(), cpu_s(it.pid)
                rounds = it.rounds_done(run_id) - done
                found[f"{n}"] = {
                    "s a round": round((now - began) / rounds, 4),
                    "cpu ms a round": round(1000 * (cpu - used) / rounds, 2),
                    **(look(it, run_id) if n != args.rounds * 19 // 20 else {}),
                }
                print(n, json.dumps(found[f"{n}"], indent=1), flush=True)
                began, used, done = time.monotonic(), cpu_s(it.pid), it.rounds_done(run_id)
        finally:
            process.kill()
            process.join()
        if args.page:
            found["page"] = page(it, run_id)
            print("page", found["page"], flush=True)
    first, last = found[f"{args.rounds // 20}"], found[f"{args.rounds}"]
    for key, value in last.items():
        if key in first:
            ratio = value / first[key] if first[key] else float("nan")
            print(f"{key:40} {first[key]:10.3f} {value:10.3f} {ratio:8.1f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def page(it: Coordinator, run_id: str) -> dict[str, float]:
    """Seconds from the address to charts, and what the page holds then."""
    from benchmarks.dashboard.browser import opened

    with opened(it, "#/") as watched:
        began, used = time.monotonic(), watched.cpu_s()
        watched.page.go(f"#/runs/{run_id}")
        watched.page.find("#view-run canvas, #view-run svg")
        seconds = time.monotonic() - began
        time.sleep(10)
        used_s = watched.cpu_s()[0] - used[0]
        heap = watched.heap()
        return {
            "s to charts": round(seconds, 2), "renderer cpu s": round(used_s, 2),
            "heap MB": heap.heap_mb, "renderer MB": heap.renderer_mb, "nodes": heap.nodes,
        }  # fmt: skip


if __name__ == "__main__":
    main()
