"""What a model says of itself: where it comes from, how it was trained, how well it does.

A card travels as JSON in the metadata of a model's file, under `CARD`, and as Markdown, with the
head that the Hugging Face Hub reads. It holds what the run's record holds and what its admin wrote;
what nobody stated stays empty.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from domo.methods import unused_constants
from domo.run_config import RunConfig

CARD = "domo_card"
"""Key in a file's metadata."""
SYMBOLS = {
    "num_rounds": "R",
    "local_lr": "eta",
    "lr_decay": "",
    "lr_milestones": "",
    "local_lrs": "eta_r",
    "local_epochs": "E",
    "local_steps": "P",
    "local_steps_list": "P_k",
    "batch_size": "b",
    "server_momentum": "mu_s",
    "local_momentum": "mu_l",
    "fusion_coef": "beta",
    "server_lr": "alpha",
    "weight_decay": "",
    "step_norm": "",
    "weights": "omega_k",
    "participation": "S",
    "update_dtype": "",
}
"""Settings that decide what is computed, with the paper's letters."""
STATED = ("licence", "data_licence", "intended_use", "limits", "notes")
"""Settings that only the card uses."""
BEST = {"accuracy": max, "loss": min}
"""Which value of a metric is the best; of others nobody knows."""
MAX_ROWS = 50
"""Lines of the table of metrics; the JSON has all of them."""


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
    layout_digest: str
    checkpoint_digest: str | None = None
    config_digest: str
    software_version: str
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
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
        """The best model of the run up to this one, of those that as many silos have tested."""
        most = max((p.num_silos or 0 for p in self.points), default=0)
        full = [p for p in self.points if metric in p.metrics and (p.num_silos or 0) == most]
        choose = BEST.get(metric)
        return choose(full, key=lambda p: p.metrics[metric]) if choose and full else None


def of_config(config: RunConfig) -> dict[str, Any]:
    """The fields of a card that a run's configuration decides."""
    unused = {*unused_constants(config.method)}
    if config.local_lrs is not None:
        unused |= {"local_lr", "lr_decay"}
    if not config.lr_milestones:
        unused.add("lr_decay")
    values = config.model_dump(mode="json", include=set(SYMBOLS))
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
    except (KeyError, ValidationError):
        return None


def markdown(card: ModelCard) -> str:
    """The card as README.md of a model repository."""
    lines = [*_head(card), f"# {_plain(card.name)}", "", _summary(card), ""]
    lines += ["## Use", ""]
    lines += [f"Intended use: {card.intended_use or 'not stated.'}", ""]
    lines += [f"Limits: {card.limits or 'not stated.'}", ""]
    lines += [f"Licence of the model: {card.licence or 'not stated.'}", ""]
    if card.notes:
        lines += [card.notes, ""]
    lines += ["## Data", "", f"Licence of the data: {card.data_licence or 'not stated.'}", ""]
    lines += ["The data stayed at the silos. Samples are as each silo gave them.", ""]
    silos = [(s.silo_id, s.num_samples, s.rounds) for s in card.silos]
    lines += _table(("silo", "training samples", "rounds"), silos)
    lines += ["## Training", ""]
    constants = [(c.name, c.symbol, json.dumps(c.value)) for c in card.constants]
    lines += _table(("setting", "in the paper", "value"), [*constants, ("seed", "", card.seed)])
    lines += [
        "Method: An Xu and Heng Huang, Coordinating Momenta for Cross-silo Federated Learning, "
        "AAAI-22.",
        "",
        *_results(card),
        *_origin(card),
    ]
    return "\n".join(lines)


def _head(card: ModelCard) -> Iterator[str]:
    """YAML that the Hugging Face Hub reads; JSON strings are YAML strings."""
    yield from ("---", "library_name: domo")
    if card.licence:
        known = re.fullmatch(r"[a-z0-9][a-z0-9.-]*", card.licence.lower()) is not None
        yield f"license: {json.dumps(card.licence.lower() if known else 'other')}"
        if not known:
            yield f"license_name: {json.dumps(card.licence)}"
    yield from ("tags:", "- federated-learning", "- cross-silo", "- domo")
    names = sorted({name for point in card.points for name in point.metrics})
    if names:
        yield from ("metrics:", *(f"- {json.dumps(name)}" for name in names))
    yield from ("---", "")


def _summary(card: ModelCard) -> str:
    end = f"; the run ended as {card.state}" if card.state not in (None, "FINISHED") else ""
    params = f", {card.num_params:,} trained parameters" if card.num_params is not None else ""
    run = f" of the run `{card.run_id}`" if card.run_id else ""
    silos = f"{len(card.silos)} {'simulated ' if card.simulated else ''}silos"
    return (
        f"x_{card.round_index}{run}: the task `{card.task}`{params}, trained by {card.method} at "
        f"{silos} in {card.round_index} of {card.num_rounds} rounds{end}."
    )


def _results(card: ModelCard) -> Iterator[str]:
    yield from ("## Results", "")
    names = sorted({name for point in card.points for name in point.metrics})
    if not names:
        yield from ("The model was not tested.", "")
        return
    yield "Means over the test data of all silos that have some."
    yield ""
    if card.own is None:
        yield f"x_{card.round_index} itself was not tested."
    for name in names:
        found = [f"{_plain(name)}:"]
        if card.own is not None and name in card.own.metrics:
            found.append(f"{card.own.metrics[name]:.6g} (this model)")
        if (best := card.best(name)) is not None:
            found.append(f"best {best.metrics[name]:.6g} (x_{best.model_index})")
        yield f"- {' '.join(found)}"
    yield ""
    every = -(-len(card.points) // MAX_ROWS)
    shown = [p for i, p in enumerate(card.points) if i % every == 0 or p is card.points[-1]]
    rows = [
        (f"x_{p.model_index}", *(p.metrics.get(name) for name in names), p.num_silos) for p in shown
    ]
    yield from _table(("model", *names, "silos"), rows)


def _origin(card: ModelCard) -> Iterator[str]:
    yield from ("## Origin", "")
    told = {
        "layout digest": card.layout_digest,
        "checkpoint digest (xxh3-128)": card.checkpoint_digest,
        "configuration digest": card.config_digest,
        "domo": card.software_version,
        "queued": card.created_at,
        "started": card.started_at,
        "ended": card.finished_at,
    }
    yield from _table(("", ""), [(k, v) for k, v in told.items() if v is not None])
    yield "Tensors have the names of `state_dict()` of the task's `build_model()`. `domo export`"
    yield "makes a PyTorch file of them."
    yield ""


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(_cell(c) for c in line)} |" for line in lines), ""]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else _plain(str(value))


def _plain(text: str) -> str:
    """A text that is neither markup nor more than one line: names of metrics come from silos."""
    return re.sub(r"([\\`*\[\]|<>])", r"\\\1", " ".join(text.split()))
