"""Tables of what a coordinator has: its runs, its silos, one run, and runs side by side."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from domo.api.client import Coordinator
from domo.api.schema import (
    RunDetail,
    RunState,
    RunSummary,
    SiloStatus,
)
from domo.api.transport import quoted, understood
from domo.errors import ConfigError
from domo.ops.console import console, printable, say

NUM_RUNS = 10
"""How many runs `domo status` shows."""
NARROW = 72
"""Below so many columns a table has only those that matter most."""
PIPE_WIDTH = 200
"""Columns where nobody's terminal says how many there are."""
STATE_STYLES = {"FAILED": "red", "STOPPED": "yellow", "PAUSED": "yellow", "FINISHED": "green"}


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
        print_table(silo_table(status.silos, _width()))
    else:
        say("no silo has joined yet")


def show_runs(
    coordinator: Coordinator,
    wanted: Mapping[str, str | Sequence[str] | None],
    limit: int,
    as_json: bool,
) -> None:
    """Print runs, newest first.

    Args:
        coordinator: Where from.
        wanted: `state` (several), `method`, `task`, in any case; None or empty: any.
        limit: The newest so many of those that fit.
        as_json: One array of objects, as REST gives them.

    Raises:
        ConfigError: There is no such state.
    """
    states = [name.lower() for name in get_args(RunState)]
    for state in wanted.get("state") or ():
        if state.lower() not in states:
            raise ConfigError(f"--state {state}: must be one of {', '.join(states)}")
    as_given = coordinator.ask("GET", "/runs")
    runs = understood(list[RunSummary], json.dumps(as_given))
    found = [pair for pair in zip(runs, as_given, strict=True) if _fits(pair[0], wanted)][:limit]
    if as_json:
        say(json.dumps([given for _, given in found], indent=2))
    else:
        _print_runs([run for run, _ in found], any(wanted.values()))


def _fits(run: RunSummary, wanted: Mapping[str, str | Sequence[str] | None]) -> bool:
    for key, values in wanted.items():
        choices = [values] if isinstance(values, str) else values or ()
        if choices and str(getattr(run, key)).lower() not in {c.lower() for c in choices}:
            return False
    return True


def _print_runs(runs: Sequence[RunSummary], chosen: bool = False) -> None:
    if not runs:
        say("no such runs" if chosen else "no run yet; start one: domo submit federation.toml")
        return
    wide = _width() >= NARROW
    table = make_table("run", "state", "round", "accuracy", *(("loss", "what") if wide else ()))
    for run in runs:
        done = f"{run.rounds_done} of {run.num_rounds}"
        what = " / ".join(filter(None, (stalled(run), run.detail)))
        more = (number(run.loss), what) if wide else ()
        add_row(table, run.run_id, state_text(run), done, percent(run.accuracy), *more)
    print_table(table)


def silo_table(silos: Iterable[SiloStatus], width: int) -> Table:
    """Silos and what they do, as wide as there is room."""
    wide = width >= NARROW
    columns = ("seen", "what") if wide else ()
    table = make_table("silo", "phase", "step", *columns, width=width)
    for silo in silos:
        steps = f"{silo.step} of {silo.num_steps}" if silo.num_steps else ""
        ago = "" if silo.last_seen_s is None else f"{silo.last_seen_s:.0f} s ago"
        phase = silo.phase if silo.dropped is None else f"dropped, {silo.phase}"
        bad = silo.dropped is not None or silo.phase in ("failed", "offline")
        parts = [text for text in (silo.dropped, silo.error, rate(silo)) if text]
        what = " ".join(" / ".join(parts).split())
        shown = Text(phase, style="yellow" if bad else "")
        add_row(table, silo.silo_id, shown, steps, *((ago, what) if wide else ()))
    return table


def rate(silo: SiloStatus) -> str:
    """What a silo that moves bytes moves in a second; empty: nothing."""
    from domo.ops.folder_checks import human_size

    moving = {"downloading": silo.received_per_s, "uploading": silo.sent_per_s}.get(silo.phase)
    return f"{human_size(int(moving))}/s" if moving else ""


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
        "all silos in all rounds": "" if run.complete is None else "yes" if run.complete else "no",
        "roster": ", ".join(run.roster),
        "waiting for": ", ".join(run.waiting_for),
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
    keys = dict.fromkeys(key for run in runs for key in run.config)
    if not all_settings:
        keys = {k: None for k in keys if len({json.dumps(run.config.get(k)) for run in runs}) > 1}
    if as_json:
        body = [
            {
                "run_id": run.run_id,
                "state": run.state,
                "rounds_done": run.rounds_done,
                "num_rounds": run.num_rounds,
                "metrics": dict(run.metrics[-1].metrics) if run.metrics else {},
                "settings": {key: run.config.get(key) for key in keys},
            }
            for run in runs
        ]
        say(json.dumps(body, indent=2))
        return
    table = make_table("", *(run.run_id for run in runs))
    add_row(table, "state", *(state_text(run) for run in runs))
    add_row(table, "round", *(f"{run.rounds_done} of {run.num_rounds}" for run in runs))
    for name in dict.fromkeys(name for found in numbers.values() for name in found):
        add_row(table, name, *(numbers[run.run_id].get(name, "-") for run in runs))
    table.add_section()
    for key in keys:
        add_row(table, key, *(setting(run.config.get(key)) for run in runs))
    print_table(table)
    if not keys:
        say("all settings are the same")


def final_numbers(run: RunDetail) -> dict[str, str]:
    """The newest test numbers of a run, by name, and the time that it took."""
    found = run.metrics[-1].metrics if run.metrics else {}
    names = sorted(found, key=lambda name: name != "accuracy")
    shown = {f"test {n}": percent(found[n]) if n == "accuracy" else number(found[n]) for n in names}
    if run.started_at and run.finished_at:
        took = datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)
        shown["time"] = duration(took.total_seconds())
    return shown


def stalled(run: RunSummary) -> str:
    """Why a run does not get on; empty: it does, or the coordinator does not say."""
    return f"stalled: {run.stalled}" if run.stalled else ""


def state_text(run: RunSummary) -> Text:
    """A run's state with its colour."""
    return Text(run.state.lower(), style=STATE_STYLES.get(run.state, ""))


def percent(share: float | None) -> str:
    """A share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """A number in four digits."""
    return "" if value is None else f"{value:.4g}"


def setting(value: Any) -> str:
    """A setting in words."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(setting, value)) or "none"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def duration(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    left = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (name, size), (smaller, part) in itertools.pairwise(units):
        if left >= size:
            whole, rest = left // size, left % size // part
            return f"{whole} {name} {rest} {smaller}" if rest else f"{whole} {name}"
    return f"{left} s"


def local_time(text: str | None) -> str:
    """An ISO 8601 time by this machine's clock."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}" if text else ""


def make_table(first: str, *columns: str, width: int | None = None) -> Table:
    """A table that gives names a third of the width, or 24 columns."""
    table = Table(box=None)
    table.add_column(first, overflow="fold", min_width=min(24, (width or _width()) // 3))
    for column in columns:
        table.add_column(printable(column), overflow="fold")
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """A row of texts as they are: no markup, and nothing that a terminal would obey."""
    table.add_row(*(Text(printable(c)) if isinstance(c, str) else c for c in cells))


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; where there is none, no cell is broken."""
    if console.is_terminal:
        console.print(table)
    else:
        Console(file=console.file, width=_width()).print(table)


def _width() -> int:
    return console.width if console.is_terminal else max(console.width, PIPE_WIDTH)
