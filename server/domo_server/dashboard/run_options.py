"""What a run can be made of: the form's choices, from the code that carries runs out."""

from functools import cache

from domo.methods import METHODS, PAPER_METHODS, PRESETS, method_row, unused_constants
from domo.run_config import RunConfig
from domo.tasks import TASKS
from domo_server.dashboard.models import MethodOption, RunOptions, TaskOption


@cache
def run_options() -> RunOptions:
    """Schema, methods and tasks."""
    return RunOptions(
        config_schema=RunConfig.model_json_schema(),
        methods=[_method(name) for name in (*METHODS, *PRESETS)],
        tasks=[TaskOption(name=name, description=row.description) for name, row in TASKS.items()],
    )


def _method(name: str) -> MethodOption:
    row, preset = method_row(name), PRESETS.get(name)
    return MethodOption(
        name=name,
        kind="preset" if preset else "paper" if name in PAPER_METHODS else "variant",
        row=row.name,
        source=preset.source if preset else None,
        unused=unused_constants(name),
    )
