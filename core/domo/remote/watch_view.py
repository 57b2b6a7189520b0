"""How `domo watch` looks: a run, its silos, its last events, in as much room as there is."""

from collections import Counter
from collections.abc import Sequence

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from domo.api.schema import Event, RunDetail, RunSummary, SiloStatus
from domo.names import one_line
from domo.ops.words import counted, duration
from domo.remote.tables import (
    best_of,
    local_time,
    measured,
    silo_table,
    stalled,
    state_text,
)

KEPT_EVENTS = 20
SHOWN_EVENTS = 5
MOST_BAR = 40
"""Columns of the progress bar, at most."""
ORDER = {"failed": 0, "offline": 1}
"""Silos in trouble come first; dropped ones before them."""


def view(
    run: RunDetail,
    silos: Sequence[SiloStatus],
    events: Sequence[Event],
    away: Exception | None,
    size: ConsoleDimensions,
    last: bool = False,
) -> RenderableType:
    """The whole view; never higher than the terminal, so that nothing scrolls.

    Args:
        run: The run.
        silos: All silos.
        events: Of the run, oldest first.
        away: Why the coordinator cannot be heard; None: it can.
        size: Of the terminal.
        last: The run has ended, and the view stays.
    """
    head: list[RenderableType] = [
        _title(run),
        _progress(run, size.width),
        *_remarks(run, away, size.width),
    ]
    foot = [] if last else [Text("Ctrl-C stops watching; the run goes on", style="dim"), Text("")]
    room = size.height - 1 - len(head) - len(foot)
    newest = list(reversed(events))[: min(SHOWN_EVENTS, max(0, room - 3) // 2)]
    shown = [_event_line(e, size.width) for e in reversed(newest)]
    table = _silos(run, silos, size.width, room - len(shown))
    return Group(*head, *table, *shown, *foot)


def _title(run: RunDetail) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(one_line(run.run_id), style="bold")
    text.append(f"  {one_line(run.method)} on {one_line(run.task)}  ")
    return text.append_text(state_text(run))


def _progress(run: RunDetail, width: int) -> Table:
    rounds = f"round {min(run.rounds_done + 1, run.num_rounds)} of {run.num_rounds}"
    if run.state in ("QUEUED", "WAITING"):
        rounds = counted(run.num_rounds, "round")
    elif run.rounds_done == run.num_rounds or run.finished_at:
        rounds = f"{run.rounds_done} of {run.num_rounds} rounds"
    parts = [f"{duration(run.remaining_s)} left" if run.remaining_s and not run.finished_at else ""]
    parts += numbers(run)
    grid = Table.grid(padding=(0, 1))
    for _ in range(3):
        grid.add_column(no_wrap=True, overflow="ellipsis")
    text = "  ".join(filter(None, parts))
    room = min(MOST_BAR, width - len(rounds) - len(text) - 3)
    bar = ProgressBar(run.num_rounds, run.rounds_done, width=room) if room >= 8 else ""
    grid.add_row(rounds, bar, text)
    return grid


def numbers(run: RunSummary) -> list[str]:
    """The newest numbers that matter most, and the best so far."""
    latest = {"accuracy": run.accuracy, "loss": run.loss, **run.latest}
    names = dict.fromkeys(filter(None, (run.primary_metric, "accuracy", "loss")))
    shown = [f"{n} {measured(n, latest[n])}" for n in names if latest.get(n) is not None]
    return shown + ([f"best {best_of(run)}"] if run.best_index is not None else [])


def _remarks(run: RunDetail, away: Exception | None, width: int) -> list[Text]:
    texts = [(run.detail, ""), (stalled(run), "yellow")]
    texts.append((f"{away}; trying again" if away else "", "red"))
    return [_line(text, width, style) for text, style in texts if text]


def _line(text: str, width: int, style: str = "") -> Text:
    line = Text(one_line(text, None), style=style, no_wrap=True)
    line.truncate(max(1, width - 1), overflow="ellipsis")
    return line


def _event_line(event: Event, width: int) -> Text:
    about = f"{event.silo_id}: " if event.silo_id and event.silo_id not in event.text else ""
    return _line(
        f"{local_time(event.at, '%H:%M:%S')} {about}{event.text}", width, event.colour or "dim"
    )


def _silos(
    run: RunDetail, silos: Sequence[SiloStatus], width: int, room: int
) -> list[RenderableType]:
    """The silos of the run that there is room for, and how many there are beside."""
    mine = [s for s in silos if s.silo_id in run.roster or not run.roster]
    waited = set(run.waiting_for)

    def rank(silo: SiloStatus) -> tuple[bool, int, bool, str]:
        return (
            silo.dropped is None,
            ORDER.get(silo.phase, 2),
            silo.silo_id not in waited,
            silo.silo_id,
        )

    ranked = sorted(mine, key=rank)
    if not ranked or room < 2:
        return []
    fits = len(ranked) if len(ranked) + 1 <= room else max(0, room - 2)
    table = silo_table(ranked[:fits], width)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    rest = Counter(s.phase if s.dropped is None else "dropped" for s in ranked[fits:])
    if not rest:
        return [table]
    more = ", ".join(f"{count} {phase}" for phase, count in rest.most_common())
    return [table, _line(f"and {len(ranked) - fits} more: {more}", width, "dim")]


def result_line(run: RunDetail) -> str:
    """How a run ended, in one line."""
    told = ", ".join(numbers(run))
    line = f"{run.run_id}: {run.state.lower()}, {run.rounds_done} of {run.num_rounds} rounds"
    return line + (f", {told}" if told else "") + (f". {run.detail}" if run.detail else "")
