"""Cross-silo federated learning with coordinated momenta.

What tasks, scripts and notebooks need is here by name, and imported at first use: `import domo`
loads neither torch nor the network. What is deeper in the package may move.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domo import metrics
    from domo.api.client import Coordinator
    from domo.errors import (
        AccessError,
        ConfigError,
        CoordinatorUnavailableError,
        DeadlineError,
        DivergenceError,
        DomoError,
        IncompleteRoundError,
        LayoutMismatchError,
        MeaningMismatchError,
        NotFoundError,
        ProtocolError,
        RoundError,
        StateError,
        StrayParameterError,
        TaskError,
        TransportError,
    )
    from domo.history.comparison import HistoryComparison, compare
    from domo.history.history import History
    from domo.inputs.form import InputForm
    from domo.meaning.measure import meaning_of
    from domo.meaning.value import Meaning
    from domo.methods import METHODS, PRESETS
    from domo.metrics.table import Sum
    from domo.model.card import ModelCard
    from domo.model.model_file import load_card, load_weights
    from domo.run_config import RunConfig
    from domo.simulated import SimulationResult
    from domo.simulating.state import ModelRecord
    from domo.tasks import load_task
    from domo.tasks.base import (
        ArrayDataset,
        Collated,
        Shard,
        Task,
        classification_sums,
        cross_entropy_loss,
    )
    from domo.training.batches import BatchLoader
    from domo.training.initial import save_initial
    from domo.training.local_round import LocalRound
    from domo.trial import simulate

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "PRESETS",
    "AccessError",
    "ArrayDataset",
    "BatchLoader",
    "Collated",
    "ConfigError",
    "Coordinator",
    "CoordinatorUnavailableError",
    "DeadlineError",
    "DivergenceError",
    "DomoError",
    "History",
    "HistoryComparison",
    "IncompleteRoundError",
    "InputForm",
    "LayoutMismatchError",
    "LocalRound",
    "Meaning",
    "MeaningMismatchError",
    "ModelCard",
    "ModelRecord",
    "NotFoundError",
    "ProtocolError",
    "RoundError",
    "RunConfig",
    "Shard",
    "SimulationResult",
    "StateError",
    "StrayParameterError",
    "Sum",
    "Task",
    "TaskError",
    "TransportError",
    "__version__",
    "classification_sums",
    "compare",
    "cross_entropy_loss",
    "load_card",
    "load_task",
    "load_weights",
    "meaning_of",
    "metrics",
    "save_initial",
    "simulate",
]
_HOME = {
    "METHODS": "domo.methods",
    "PRESETS": "domo.methods",
    "AccessError": "domo.errors",
    "ArrayDataset": "domo.tasks.base",
    "BatchLoader": "domo.training.batches",
    "Collated": "domo.tasks.base",
    "ConfigError": "domo.errors",
    "Coordinator": "domo.api.client",
    "CoordinatorUnavailableError": "domo.errors",
    "DeadlineError": "domo.errors",
    "DivergenceError": "domo.errors",
    "DomoError": "domo.errors",
    "History": "domo.history.history",
    "HistoryComparison": "domo.history.comparison",
    "IncompleteRoundError": "domo.errors",
    "InputForm": "domo.inputs.form",
    "LayoutMismatchError": "domo.errors",
    "LocalRound": "domo.training.local_round",
    "Meaning": "domo.meaning.value",
    "MeaningMismatchError": "domo.errors",
    "ModelCard": "domo.model.card",
    "ModelRecord": "domo.simulating.state",
    "NotFoundError": "domo.errors",
    "ProtocolError": "domo.errors",
    "RoundError": "domo.errors",
    "RunConfig": "domo.run_config",
    "Shard": "domo.tasks.base",
    "SimulationResult": "domo.simulated",
    "StateError": "domo.errors",
    "StrayParameterError": "domo.errors",
    "Sum": "domo.metrics.table",
    "Task": "domo.tasks.base",
    "TaskError": "domo.errors",
    "TransportError": "domo.errors",
    "classification_sums": "domo.tasks.base",
    "compare": "domo.history.comparison",
    "cross_entropy_loss": "domo.tasks.base",
    "load_card": "domo.model.model_file",
    "load_task": "domo.tasks",
    "load_weights": "domo.model.model_file",
    "meaning_of": "domo.meaning.measure",
    "metrics": "domo.metrics",
    "save_initial": "domo.training.initial",
    "simulate": "domo.trial",
}


def __getattr__(name: str) -> Any:
    """A name of `__all__`, at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    value = globals()[name] = home if home.__name__ == f"domo.{name}" else getattr(home, name)
    return value


def __dir__() -> list[str]:
    return __all__
