"""A model's card as Markdown, with the head that the Hugging Face Hub reads."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from domo.metrics.names import main_names
from domo.model.card import ModelCard
from domo.names import one_line

MAX_ROWS = 50
"""Lines of the table of metrics; the JSON has all of them."""


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
    if card.best_index is not None and card.primary_metric is not None:
        which = "this model" if card.best_index == card.round_index else f"x_{card.best_index}"
        yield f"Judged by {_plain(card.primary_metric)}, the best of the run is {which}."
        yield ""
    for name in names:
        found = [f"{_plain(name)}:"]
        if card.own is not None and name in card.own.metrics:
            found.append(f"{card.own.metrics[name]:.6g} (this model)")
        if (best := card.best(name)) is not None:
            found.append(f"best {best.metrics[name]:.6g} (x_{best.model_index})")
        yield f"- {' '.join(found)}"
    yield ""
    names = main_names(names, card.primary_metric)  # the list above has them all
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
        "trained for (s)": card.training_s,
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
    return re.sub(r"([\\`*\[\]|<>])", r"\\\1", one_line(text, None))
