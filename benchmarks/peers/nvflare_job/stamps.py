"""The server's side of the job: the initial model, stamps of rounds, a look at the final model."""

# Runs where the peer is installed, not domo.
# mypy: ignore-errors

from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.model import (
    ModelLearnable,
    ModelLearnableKey,
    make_model_learnable,
)
from nvflare.app_common.abstract.model_persistor import ModelPersistor
from nvflare.app_common.app_event_type import AppEventType
from plan import Plan


class Stamps(ModelPersistor):
    """Gives the initial model, and stamps instead of saving."""

    def __init__(self) -> None:
        super().__init__()
        self._rounds = 0
        self._done = False

    def load_model(self, fl_ctx: FLContext) -> ModelLearnable:
        """The initial model."""
        weights = {f"{i:02d}": array for i, array in enumerate(Plan.read().initial())}
        return make_model_learnable(weights=weights, meta_props={})

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Stamp the start of a round, and the end of a job that did not come to its last one."""
        super().handle_event(event_type, fl_ctx)
        if event_type == AppEventType.ROUND_STARTED:
            self._rounds += 1
            Plan.read().stamp("round", round=self._rounds)
        elif event_type == EventType.END_RUN and not self._done:
            Plan.read().stamp("failed", why=f"the job ended in round {self._rounds}")

    def save_model(self, model: ModelLearnable, fl_ctx: FLContext) -> None:
        """Called at the end of each round; the last one is stamped and checked."""
        plan = Plan.read()
        if self._rounds < plan.num_rounds:
            return
        plan.stamp("end")
        self._done = True
        weights: dict[str, Any] = model[ModelLearnableKey.WEIGHTS]
        plan.check(weights[name] for name in sorted(weights))
