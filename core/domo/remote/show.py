"""What `domo status`, `runs`, `run` and `compare` print."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, get_args

from rich.table import Table

from domo.api.client import Coordinator
from domo.api.schema import RunDetail, RunState, RunSummary
from domo.api.transport import quoted, understood
from domo.errors import ConfigError
from domo.metrics.names import main_names
from domo.ops.console import say
from domo.ops.words import duration
from domo.remote.tables import (
    NARROW,
    add_row,
    best_of,
    local_time,
    make_table,
    measured,
    print_table,
    setting,
    silo_table,
    stalled,
    state_text,
    terminal_width,
)
from domo.run_config import as_meant

NUM_RUNS = 10
"""How many runs `domo status` shows."""


def show_status(coordinator: Coordinator, as_json: bool) -> None:
    """Print the newest runs and all silos."""
    if as_json:
        body = {
            "status": coordinator.ask("GET", "/status"),
            "runs": coordinator.ask("GET", "/runs"),
        }
        say(json.dumps(body, indent=2))
        return
    status, runs = coordinator.status(), coordinator.runs()
    tls = "TLS" if status.tls else "no TLS"
    online = f"{status.num_silos_online} of {len(status.silos)} silos online"
    where = f"coordinator {status.version} at {status.grpc_address} ({tls})"
    say(f"{where}, up {duration(status.uptime_s)}, {online}")
    _print_runs(runs[:NUM_RUNS])
    if len(runs) > NUM_RUNS:
        say(f"and {len(runs) - NUM_RUNS} older ones: domo runs")
    if status.silos:
        print_table(silo_table(status.silos, terminal_width()))
    else:
        say("no silo has joined yet")


def show_runs(
    coordinator: Coordinator,
    wanted: Mapping[str, str | Sequence[str] | None],
    limit: int,
    as_json: bool,
    archived: bool = False,
) -> None:
    """Print runs, newest first.

    Args:
        coordinator: Where from.
        wanted: `state` (several), `method`, `task`, `tags`, in any case; None or empty: any.
        limit: The newest so many of those that fit.
        as_json: One array of objects, as REST gives them.
        archived: Whether those that are archived are listed too.

    Raises:
        ConfigError: There is no such state.
    """
    states = [name.lower() for name in get_args(RunState)]
    for state in wanted.get("state") or ():
        if state.lower() not in states:
            raise ConfigError(f"--state {state}: must be one of {', '.join(states)}")
    as_given = coordinator.ask("GET", "/runs")
    runs = understood(list[RunSummary], json.dumps(as_given))
    found = [pair for pair in zip(runs, as_given, strict=True) if _fits(pair[0], wanted, archived)][
        :limit
    ]
    if as_json:
        say(json.dumps([given for _, given in found], indent=2))
    else:
        hides = not archived and any(run.archived for run in runs)
        _print_runs([run for run, _ in found], any(wanted.values()), hides)


def _fits(
    run: RunSummary, wanted: Mapping[str, str | Sequence[str] | None], archived: bool
) -> bool:
    for key, values in wanted.items():
        choices = {c.lower() for c in ([values] if isinstance(values, str) else values or ())}
        has = getattr(run, key)
        words = {str(word).lower() for word in ([has] if isinstance(has, str) else has)}
        if choices and not words & choices:
            return False
    return archived or not run.archived


def _print_runs(runs: Sequence[RunSummary], chosen: bool = False, hides: bool = False) -> None:
    if not runs and hides and not chosen:
        say("no run that is not archived; domo runs --archived has those")
        return
    if not runs:
        say("no such runs" if chosen else "no run yet; start one: domo submit federation.toml")
        return
    wide = terminal_width() >= NARROW
    metrics = {run.primary_metric for run in runs if run.primary_metric is not None}
    one = metrics.pop() if len(metrics) == 1 else None
    head = one or ("metric" if metrics else "accuracy")
    table = make_table("run", "state", "round", head, *(("best", "what") if wide else ()))
    for run in runs:
        done = f"{run.rounds_done} of {run.num_rounds}"
        what = " / ".join(filter(None, (stalled(run), run.detail)))
        shown = measured(run.primary_metric, run.primary_value)
        if run.primary_metric is None:  # nothing is tested yet, or the coordinator is older
            shown = measured("accuracy", run.accuracy)
        elif one is None:
            shown = f"{run.primary_metric} {shown}"
        more = (best_of(run), what) if wide else ()
        add_row(table, run.run_id, state_text(run), done, shown, *more)
    print_table(table)


def show_run(coordinator: Coordinator, run_id: str, as_json: bool) -> None:
    """Print one run: what it is, how far it is, its numbers, and its settings."""
    if as_json:
        say(json.dumps(coordinator.ask("GET", f"/runs/{quoted(run_id)}"), indent=2))
        return
    run = coordinator.run(run_id)
    rows = {
        "run": run.run_id,
        "state": state_text(run),
        "what": run.detail,
        "stalled": stalled(run),
        "method": f"{run.method} on {run.task}",
        "rounds": f"{run.rounds_done} of {run.num_rounds}",
        "to go": "" if run.remaining_s is None else duration(run.remaining_s),
        **final_numbers(run),
        "best": "" if run.best_index is None else f"{run.primary_metric} {best_of(run)}",
        "all silos in all rounds": "" if run.complete is None else "yes" if run.complete else "no",
        "roster": ", ".join(run.roster),
        "waiting for": ", ".join(run.waiting_for),
        "data": "; ".join(run.meaning),
        "created": local_time(run.created_at),
        "started": local_time(run.started_at),
        "ended": local_time(run.finished_at),
        "checkpoint": run.checkpoint_digest or "",
    }
    told = ("name", "method", "task", "num_rounds", "roster")
    config = {k: setting(v) for k, v in run.config.items() if v is not None and k not in told}
    rows |= {f"  {key}": value for key, value in config.items()}
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            add_row(table, name, value)
    print_table(table)


def compare_runs(
    coordinator: Coordinator, run_ids: Sequence[str], all_settings: bool, as_json: bool
) -> None:
    """Print runs side by side: their numbers, and the settings that differ.

    Raises:
        ConfigError: Fewer than two runs.
    """
    if len(run_ids) < 2:
        raise ConfigError("what with what? Give two runs or more, as `domo runs` lists them")
    runs = [coordinator.run(run_id) for run_id in run_ids]
    numbers = {run.run_id: final_numbers(run) for run in runs}
    configs = {run.run_id: as_meant(run.config) for run in runs}
    keys = dict.fromkeys(key for config in configs.values() for key in config)
    if not all_settings:
        keys = {k: None for k in keys if differ([c.get(k) for c in configs.values()])}
    if as_json:
        body = [
            {
                "run_id": run.run_id,
                "state": run.state,
                "rounds_done": run.rounds_done,
                "num_rounds": run.num_rounds,
                "waiting_s": run.waiting_s,
                "training_s": run.training_s,
                "metrics": dict(run.metrics[-1].metrics) if run.metrics else {},
                "best_index": run.best_index,
                "best_value": run.best_value,
                "settings": {key: configs[run.run_id].get(key) for key in keys},
            }
            for run in runs
        ]
        say(json.dumps(body, indent=2))
        return
    table = make_table("", *(run.run_id for run in runs))
    add_row(table, "state", *(state_text(run) for run in runs))
    add_row(table, "round", *(f"{run.rounds_done} of {run.num_rounds}" for run in runs))
    if any(run.best_index is not None for run in runs):
        add_row(table, "best", *(f"{r.primary_metric or ''} {best_of(r)}".strip() for r in runs))
    for name in dict.fromkeys(name for found in numbers.values() for name in found):
        add_row(table, name, *(numbers[run.run_id].get(name, "-") for run in runs))
    table.add_section()
    for key in keys:
        add_row(table, key, *(setting(configs[run.run_id].get(key)) for run in runs))
    print_table(table)
    if not keys:
        say("all settings are the same")


def differ(values: Sequence[Any]) -> bool:
    """Whether not all are the same; 1 is 1.0, and a tuple is a list."""
    plain = [json.loads(json.dumps(value)) for value in values]
    return any(value != plain[0] for value in plain)


def final_numbers(run: RunDetail) -> dict[str, str]:
    """The newest test numbers of a run, by name, and how long it trained and had waited."""
    found = run.metrics[-1].metrics if run.metrics else {}
    names = main_names(found, run.primary_metric)
    shown = {f"test {name}": measured(name, found[name]) for name in names}
    if run.training_s is not None:
        shown["trained for"] = duration(run.training_s)
    if run.waiting_s is not None:
        shown["waited for silos"] = duration(run.waiting_s)
    if run.started_at and run.finished_at:
        with suppress(ValueError, TypeError):  # one of them is no time
            took = datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)
            shown["time in all"] = duration(took.total_seconds())
    return shown
