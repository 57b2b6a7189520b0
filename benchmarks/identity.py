"""What it costs to know who calls: the check of a call, and mTLS beside no TLS.

    python -m benchmarks.identity [--rounds 6] [--calls 5000] [--json out.json]

The check is timed in a server with mTLS, call by call: reading the peer's certificate, its end, its
name and key in the table of 1,000 silos, and what is kept of the call. Rounds are those of
`data_plane`: 59 MB, four silos, no training; without TLS and with mTLS in turn, in one run.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import grpc
import grpc.aio

from benchmarks.data_plane import papers
from benchmarks.data_plane.domo import light_rounds
from domo_server.config import ServerConfig
from domo_server.events.repeated import Repeated
from domo_server.identity.credentials import Credentials
from domo_server.identity.guard import Guard
from domo_server.identity.own import rules_of
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_database
from domo_server.store.store import Store

VGG, SILOS, ADMITTED, TURNS = 58_879_272, 4, 1000, 2


async def check_us(folder: Path, calls: int) -> dict[str, float]:
    """Microseconds of one check, in a server that is asked by one silo."""
    store = Store(open_database(f"sqlite:///{folder / 'coordinator.db'}"))
    papers.begin(folder)
    admissions = Admissions(store)
    for k in range(ADMITTED):
        admissions.admit(f"site-{k}", "a benchmark")
    mine = papers.enrol(folder, folder, "site-0")
    tls = ServerConfig(state_dir=folder).tls_in_use
    assert tls is not None
    guard = Guard(admissions, Repeated(lambda *_: None), lambda *_, **__: None, lambda: ())
    guard.rules = rules_of(tls, True)
    guard.admitted.load()
    taken: list[float] = []

    async def answer(request: bytes, context: Any) -> bytes:
        begun = time.perf_counter()
        with guard.call(context):
            guard.speaks_for("site-0")
            taken.append(time.perf_counter() - begun)
        return b""

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("b", {"c": handler}),))
    port = server.add_secure_port("127.0.0.1:0", Credentials(tls.files).for_server())
    await server.start()
    pems = [mine.read(which) for which in ("ca", "key", "cert")]
    async with grpc.aio.secure_channel(
        f"localhost:{port}", grpc.ssl_channel_credentials(*pems)
    ) as channel:
        call = channel.unary_unary("/b/c")
        for _ in range(calls):
            await call(b"")
    await server.stop(None)
    store.close()
    each = sorted(1e6 * s for s in taken)
    return {"median_us": round(median(each), 1), "p99_us": round(quantiles(each, n=100)[98], 1)}


def rounds(n: int) -> dict[str, Any]:
    """Seconds of a round in turn without TLS and with mTLS, and their ratio."""
    seconds: dict[str, list[float]] = {"no TLS": [], "mTLS": []}
    for _ in range(TURNS):
        for name, found in seconds.items():
            it = light_rounds(name, VGG, SILOS, n, mutual=name == "mTLS")
            if not it.correct:
                raise RuntimeError(f"{name}: the model is not right")
            found += it.round_s
            print(f"{name}: {it.seconds:.3f} s a round, {it.cpu_s:.2f} s of CPU", flush=True)
    each = {name: round(median(found), 3) for name, found in seconds.items()}
    return each | {"ratio": round(each["mTLS"] / each["no TLS"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, help="timed, of each of four runs")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="domo-bench-") as folder:
        found: dict[str, Any] = {"check of a call": asyncio.run(check_us(Path(folder), args.calls))}
    print(json.dumps(found), flush=True)
    if args.rounds:
        found["59 MB x 4"] = rounds(args.rounds)
    print(json.dumps(found, indent=2))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
