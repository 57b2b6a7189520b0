"""Chaos, bit for bit: processes die at random instants, and the model ends with the same bytes.

    PYTHONPATH=. python benchmarks/chaos.py [--rounds 50] [--kills 45] [--only wait] [--json F]

A coordinator and four silos, each a real process, train a model of 10 MB. Exponential waiting times
and victims come from the seed, and so does the aim of every second kill: a short phase, such as a
commit, that it waits for. Whoever is hit by SIGKILL is started again at once and nobody else
intervenes. x_R and m_R are compared with an undisturbed `domo simulate` (`on_missing = wait`, for
three methods), and, where the run goes on without a silo (`proceed`, 3 of 4), with
`domo simulate --replay` of the recorded participants.

What a kill hits is what the dead process was writing (`fetch`: a silo the model, `saving`: a silo
its update, `upload`: the update on its way, `receiving`: the same at the coordinator, `commit`: the
coordinator its checkpoint), or else what REST said a moment before; `joining` is a silo that was
killed before and has not come back yet.

About five minutes for each of the four runs, on two CPU cores. The short version is
tests/e2e/test_chaos.py.
"""

import argparse
import json
import tempfile
from pathlib import Path

from tests.support.live.chaos import Plan, Report, chaos

RUNS = (("DOMO", False), ("DOMO-S", False), ("FedAvgSLM", False), ("DOMO", True))


def show(report: Report) -> None:
    plan = report.plan
    policy = "proceed" if plan.proceed else "wait"
    print(
        f"{plan.method}, {policy}, seed {plan.seed}: {plan.num_rounds} rounds, "
        f"{report.num_kills} kills, {report.seconds:.0f} s, "
        f"{report.incomplete_rounds} rounds without all silos"
    )
    for hit, count in sorted(report.kills.items()):
        print(f"  {count:3d}  {hit}")
    print(f"  x_R {report.digests['x']}, m_R {report.digests['m']}")
    print(f"  {'the same bytes' if report.same_bytes else 'OTHER BYTES'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill processes of a federation; compare bytes.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--kills", type=int, default=45)
    parser.add_argument("--mean-wait", type=float, default=3.0, help="seconds between kills")
    parser.add_argument("--seed", type=int, default=11, help="of the first run; then counted up")
    parser.add_argument("--only", choices=("wait", "proceed"), help="runs with this policy")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    reports = []
    for i, (method, proceed) in enumerate(RUNS):
        if args.only and (args.only == "proceed") != proceed:
            continue
        plan = Plan(
            method,
            args.rounds,
            args.kills,
            args.mean_wait / 2 if proceed else args.mean_wait,  # it is over sooner
            seed=args.seed + i,
            proceed=proceed,
            large=True,
        )
        with tempfile.TemporaryDirectory(prefix="domo-chaos-") as folder:
            reports.append(chaos(Path(folder), plan))
        show(reports[-1])
    if args.json:
        args.json.write_text(json.dumps([r.to_json() for r in reports], indent=1) + "\n")
    good = all(r.same_bytes and r.num_kills == args.kills for r in reports)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
