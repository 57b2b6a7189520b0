"""What Ctrl-C leaves of a simulation: `--resume` ends with the bytes of an undisturbed one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from domo.errors import ConfigError
from domo.model.layout import BUFFERS
from domo.names import GARBLED
from domo.run_config import RunConfig
from domo.simulating.state import Held, ModelRecord, RoundRecord, ServerState

FILE = "interrupted.safetensors"
PART = "interrupted.json"
"""Of a comparison: the runs that are done."""
_KEY = "domo_interrupted"
Cell = tuple[str, int]


def save_held(path: Path, held: Held, config: RunConfig, samples: Mapping[str, int]) -> None:
    """Write what the rest of a run depends on; whole or not at all."""
    tensors = _tensors("state", held.state)
    if held.best is not None:
        tensors |= _tensors("best", held.best)
    for silo_id, own in held.kept.items():
        tensors |= {f"kept/{name}/{silo_id}": vector for name, vector in own.items()}
    body = {
        "config": config.model_dump(mode="json"),
        "samples": dict(samples),
        "layout": held.layout_digest,
        "history": [asdict(record) for record in held.history],
        "made_by": _round_json(held.state),
        "best_made_by": None if held.best is None else _round_json(held.best),
        "kept": {silo_id: list(own) for silo_id, own in held.kept.items()},
        "mode": held.mode,
    }
    part = path.with_name(path.name + ".part")
    copies = {name: t.detach().clone().contiguous() for name, t in tensors.items()}
    save_file(copies, part, {_KEY: json.dumps(body)})
    part.replace(path)


def load_held(path: Path, config: RunConfig, samples: Mapping[str, int]) -> Held:
    """Read it again.

    Raises:
        ConfigError: There is none, it is damaged, or it is of another run or of other data.
    """
    if not path.exists():
        raise ConfigError(
            f"--resume: no run was interrupted in {path.parent}. Give the --out of the one that "
            "was, or leave --resume out"
        )
    try:
        with safe_open(path, "pt") as file:
            body = json.loads(file.metadata()[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, *GARBLED) as error:
        raise ConfigError(f"--resume: {path} cannot be read: {error}") from None
    check_config(body["config"], config, path.parent)
    if body["samples"] != dict(samples):
        raise ConfigError(f"--resume: the data of {path.parent} were others: {body['samples']}")
    best = _state("best", tensors, body["best_made_by"]) if "best/x" in tensors else None
    return Held(
        layout_digest=body["layout"],
        state=_state("state", tensors, body["made_by"]),
        history=tuple(map(record_of, body["history"])),
        kept={
            s: {name: tensors[f"kept/{name}/{s}"] for name in names}
            for s, names in body["kept"].items()
        },
        best=best,
        mode=body.get("mode", "exact"),
    )


def save_part(
    path: Path, config: RunConfig, done: Mapping[Cell, Sequence[ModelRecord]], mode: str = "exact"
) -> None:
    """Write which runs of a comparison are done, and their numbers."""
    body = {
        "mode": mode,
        "config": config.model_dump(mode="json"),
        "runs": [[m, s, [asdict(r) for r in history]] for (m, s), history in done.items()],
    }
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(body) + "\n", encoding="utf-8")
    part.replace(path)


def load_part(path: Path, config: RunConfig, mode: str = "exact") -> dict[Cell, list[ModelRecord]]:
    """The runs of a comparison that are done.

    Raises:
        ConfigError: There are none, or they are of another comparison.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"--resume: no comparison was interrupted in {path.parent}. Give the --out of the one "
            "that was, or leave --resume out"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"--resume: {path} cannot be read: {error}") from None
    check_config(body["config"], config, path.parent, but=("method", "seed"))
    if (before := body.get("mode", "exact")) != mode:
        raise ConfigError(f"--resume: the comparison began with --mode {before}, not {mode}")
    return {(m, s): [record_of(r) for r in history] for m, s, history in body["runs"]}


def check_config(
    stored: Mapping[str, Any], config: RunConfig, where: Path, but: Sequence[str] = ()
) -> None:
    """See that a run goes on with the settings that it began with.

    Raises:
        ConfigError: Names those that differ.
    """
    ours = json.loads(json.dumps(config.model_dump(mode="json")))
    keys = [k for k in {**stored, **ours} if k not in but and stored.get(k) != ours.get(k)]
    if keys:
        told = ", ".join(f"{k} was {stored.get(k)}, now {ours.get(k)}" for k in keys[:3])
        raise ConfigError(f"--resume: the run in {where} has other settings: {told}")


def record_of(stored: Mapping[str, Any]) -> ModelRecord:
    """A record from its JSON."""
    made_by = _round(stored["made_by"])
    return ModelRecord(**{**stored, "made_by": made_by, "notes": tuple(stored["notes"])})


def _round(stored: Mapping[str, Any] | None) -> RoundRecord | None:
    if stored is None:
        return None
    names = ("participants", "steps", "weights", "silo_metrics")
    lists = {name: tuple(stored.get(name, ())) for name in names}
    return RoundRecord(**{**stored, **lists})


def _round_json(state: ServerState) -> dict[str, Any] | None:
    return None if state.made_by is None else asdict(state.made_by)


def _tensors(prefix: str, state: ServerState) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": vector for name, vector in state.vectors.items()}


def _state(
    prefix: str, tensors: Mapping[str, Tensor], made_by: Mapping[str, Any] | None
) -> ServerState:
    named = {n.removeprefix(f"{prefix}/"): t for n, t in tensors.items() if n.startswith(prefix)}
    buffers = {s: named[s.value] for s in BUFFERS}
    mbar, x_prev = named.get("mbar"), named.get("x_prev")
    made, v, c = _round(made_by), named.get("v"), named.get("c")
    return ServerState(named["x"], named["m"], buffers, mbar, x_prev, made, v, c)
