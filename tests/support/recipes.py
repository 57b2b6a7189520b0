"""Results that are made up: a recipe whose numbers are said."""

from collections.abc import Callable, Sequence

from domo.experiments.recipe import Recipe
from domo.experiments.records import Record
from domo.experiments.results import Results

Number = Callable[[str, str, int], float | None]


def record(config, accuracies: Sequence[float], failed: str = "") -> Record:
    """One with these accuracies of x_0, x_1, ..."""
    n = len(accuracies)
    return Record(
        config=config.model_dump(mode="json"),
        mode="exact",
        device="cpu",
        versions={"domo": "0", "torch": "2"},
        seconds=2.0,
        cpu_seconds=1.5,
        steps=10,
        model_indices=list(range(n)),
        metrics={} if failed else {"accuracy": list(accuracies), "loss": [1.0] * n},
        train_loss=[1.0] * (n - 1),
        failed=failed,
    )


def made_up(recipe: Recipe, number: Number, scale="tiny", seeds=()) -> Results:
    """Results whose last accuracy is `number(panel, row, seed)`, per cent.

    None: not done; -inf: diverged.
    """
    cells = recipe.cells(scale, seeds)
    records = {}
    for cell in cells:
        value = number(cell.panel, cell.row, cell.seed)
        if value == float("-inf"):
            records[cell.panel, cell.row, cell.seed] = record(cell.config, [], "round 1: NaN")
        elif value is not None:
            curve = [0.1, value / 200, value / 100]
            records[cell.panel, cell.row, cell.seed] = record(cell.config, curve)
    return Results(recipe, scale, cells, records)
