"""What the shell is told on Tab: runs and silos of a coordinator, methods, tasks.

A coordinator that does not answer at once proposes nothing, without a word: somebody is typing.
"""

import os
from collections.abc import Callable, Iterator

import typer

from domo.api.client import DASHBOARD, Coordinator
from domo.methods import METHODS, PRESETS
from domo.ops.words import counted
from domo.remote.token import reader

PATIENCE_S = 1.0
"""How long Tab may take where nobody answers."""
TASKS = (
    "digits",
    "fashion-mnist",
    "fashion-mnist-quick-cnn",
    "fashion-mnist-cnn",
    "cifar10-cnn",
    "cifar10-vgg16",
    "cifar10-resnet56",
    "cifar100-vgg16",
    "cifar100-resnet56",
    "svhn-resnet20",
    "imagefolder",
)
"""Names of `domo.tasks.TASKS`, which needs torch: a second on each Tab."""
Proposals = Iterator[tuple[str, str]]


def runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Runs by number and name, as `3-chest`, and by name alone."""
    return _of_coordinator(context, incomplete, _runs)


def silos(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Silos that have ever joined."""
    return _of_coordinator(context, incomplete, _silos)


def methods(incomplete: str) -> list[str]:
    """Rows and presets of the table, in any case."""
    return [m for m in (*METHODS, *PRESETS) if m.lower().startswith(incomplete.lower())]


def tasks(incomplete: str) -> list[str]:
    """Named tasks."""
    return [name for name in TASKS if name.startswith(incomplete)]


def _runs(coordinator: Coordinator) -> Proposals:
    found = coordinator.runs()
    for run in found:
        done = f"{run.rounds_done} of {counted(run.num_rounds, 'round')}"
        yield run.run_id, f"{run.state.lower()}, {done}"
    names = [run.name for run in found]
    yield from ((name, "") for name in dict.fromkeys(names) if names.count(name) == 1)


def _silos(coordinator: Coordinator) -> Proposals:
    yield from ((silo.silo_id, silo.phase) for silo in coordinator.silos())


def _of_coordinator(
    context: typer.Context, incomplete: str, ask: Callable[[Coordinator], Proposals]
) -> list[tuple[str, str]]:
    server = context.params.get("server") or os.environ.get("DOMO_SERVER") or DASHBOARD
    token_file = context.params.get("token_file")
    try:
        with reader(server, token_file, timeout_s=PATIENCE_S) as coordinator:
            return [found for found in ask(coordinator) if found[0].startswith(incomplete)]
    except Exception:  # whatever is wrong, a command says it; Tab does not
        return []
