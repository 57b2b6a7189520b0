"""What a model says of itself: where it comes from, how it was trained, how well it does.

A card travels as JSON in the metadata of a model's file, at `CARD`, and as Markdown (`card_text`).
It holds what the run's record holds and what its admin wrote; what nobody stated stays empty.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from domo.methods import unused_constants
from domo.metrics.names import direction
from domo.names import GARBLED
from domo.run_config import RunConfig

CARD = "domo_card"
"""Key in a file's metadata."""
SYMBOLS = {
    "num_rounds": "R",
    "local_lr": "eta",
    "lr_decay": "",
    "lr_milestones": "",
    "lr_schedule": "",
    "lr_floor": "",
    "lr_warmup": "",
    "lr_by": "",
    "local_lrs": "eta_r",
    "local_epochs": "E",
    "local_steps": "P",
    "local_steps_list": "P_k",
    "batch_size": "b",
    "drop_last": "",
    "server_momentum": "mu_s",
    "local_momentum": "mu_l",
    "fusion_coef": "beta",
    "server_lr": "alpha",
    "weight_decay": "",
    "step_norm": "",
    "prox": "rho",
    "adaptive_lr": "",
    "adaptive_beta2": "",
    "adaptive_tau": "tau",
    "local_optimizer": "",
    "local_optimizer_args": "",
    "local_state": "",
    "clip_norm": "",
    "private": "",
    "personal": "",
    "personal_prox": "lambda",
    "weights": "omega_k",
    "participation": "S",
    "update_dtype": "",
}
"""Settings that decide what is computed, with the paper's letters."""
QUIET = (
    "personal",
    "personal_prox",
    "lr_schedule",
    "lr_floor",
    "lr_warmup",
    "lr_by",
    "local_optimizer",
    "local_optimizer_args",
)
"""Those that are not worth a line where nobody has set them."""
STATED = ("licence", "data_licence", "intended_use", "limits", "notes")
"""Settings that only the card uses."""
PICK = {"higher": max, "lower": min}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Constant(_Frozen):
    """A hyperparameter: its name here, the paper's letter, its value."""

    name: str
    symbol: str
    value: Any


class CardSilo(_Frozen):
    """A silo that trained the model."""

    silo_id: str
    num_samples: int | None = None
    """As the silo gave it; nobody can check it."""
    rounds: int
    """Rounds that its updates are in."""


class CardPoint(_Frozen):
    """Tests of x_{model_index}."""

    model_index: int
    metrics: Mapping[str, float]
    num_silos: int | None = None


class ModelCard(_Frozen):
    """The card of x_{round_index}."""

    format_version: int = 1
    name: str
    run_id: str | None = None
    state: str | None = None
    """How the run ended; None while it goes on."""
    simulated: bool = False
    """All silos were one process."""
    task: str
    method: str
    seed: int
    round_index: int
    num_rounds: int
    num_params: int | None = None
    constants: Sequence[Constant]
    silos: Sequence[CardSilo]
    points: Sequence[CardPoint]
    primary_metric: str | None = None
    """What the run's models are judged by."""
    best_index: int | None = None
    """i of the best model x_i of the run so far."""
    best_value: float | None = None
    layout_digest: str
    checkpoint_digest: str | None = None
    config_digest: str
    software_version: str
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    training_s: float | None = None
    """Seconds of the rounds that made it: without the wait for silos, and pauses."""
    licence: str | None = None
    data_licence: str | None = None
    intended_use: str | None = None
    limits: str | None = None
    notes: str | None = None

    @property
    def own(self) -> CardPoint | None:
        """The tests of this very model."""
        return next((p for p in self.points if p.model_index == self.round_index), None)

    def best(self, metric: str) -> CardPoint | None:
        """The best model of the run up to this one, of those that as many silos have tested.

        By what the run is judged by, it is the one that was kept.
        """
        if metric == self.primary_metric and self.best_index is not None:
            kept = (p for p in self.points if p.model_index == self.best_index)
            return next((p for p in kept if metric in p.metrics), None)
        most = max((p.num_silos or 0 for p in self.points), default=0)
        full = [p for p in self.points if metric in p.metrics and (p.num_silos or 0) == most]
        better = direction(metric)
        return PICK[better](full, key=lambda p: p.metrics[metric]) if better and full else None


def of_config(config: RunConfig) -> dict[str, Any]:
    """The fields of a card that a run's configuration decides."""
    unused = {*unused_constants(config.method)}
    if config.local_lrs is not None:
        unused |= {"local_lr", "lr_decay"}
    if not config.lr_milestones:
        unused.add("lr_decay")
    usual = RunConfig.model_fields
    unused |= {key for key in QUIET if getattr(config, key) == usual[key].default}
    values = config.model_dump(mode="json", include=set(SYMBOLS))
    values["drop_last"] = config.drop_last or None
    if config.local_steps is None and config.local_steps_list is None:
        values["local_epochs"] = config.local_epochs or 1.0
    chosen = {k: v for k in SYMBOLS if k not in unused and (v := values[k]) not in (None, [])}
    return {
        "name": config.title,
        "task": config.task,
        "method": config.method,
        "seed": config.seed,
        "num_rounds": config.num_rounds,
        "config_digest": config.digest,
        "constants": [Constant(name=k, symbol=SYMBOLS[k], value=v) for k, v in chosen.items()],
        **{key: getattr(config, key) for key in STATED},
    }


def metadata_of(card: ModelCard, config: RunConfig) -> dict[str, str]:
    """Texts for the header of the model's file."""
    return {
        "run_id": card.run_id or "",
        "method": card.method,
        "task": card.task,
        "round_index": str(card.round_index),
        "config": json.dumps(config.model_dump(mode="json")),
        CARD: card.model_dump_json(),
    }


def card_in(metadata: Mapping[str, str]) -> ModelCard | None:
    """The card in a file's metadata; None where there is none that can be read."""
    try:
        return ModelCard.model_validate_json(metadata[CARD])
    except GARBLED:
        return None
