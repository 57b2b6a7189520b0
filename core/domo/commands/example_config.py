"""An annotated configuration: every key with what it means, its default, and settings that hold.

What is said of a key is the line below it in the code, so that a new one is never missing.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from domo.errors import ConfigError
from domo.run_config import RunConfig

WIDTH = 96
RUN: Mapping[str, Any] = {
    "task": "imagefolder:10",
    "method": "DOMO",
    "num_rounds": 50,
    "num_silos": 3,
    "local_lr": 0.01,
    "lr_milestones": [0.6, 0.8],
    "weight_decay": 0.01,
}
"""Run to its end on 3,000 photographs at three silos: best 50.1 %, last 50.1 %."""
SHOWN: Mapping[str, Any] = {
    "name": "photos-1",
    "roster": ["site-a", "site-b", "site-c"],
    "images": {"size": 64, "channels": 1, "aspect": "pad"},
    "classes": [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ],
    "local_epochs": 1,
    "local_steps": 50,
    "local_optimizer_args": {"betas": [0.9, 0.95]},
    "local_state": "keep",
    "private": ["head.*"],
    "prox": 0.01,
    "clip_norm": 1.0,
    "participation": 2,
    "min_silos": 2,
    "round_deadline_s": 3600,
    "primary_metric": "auc",
    "primary_better": "higher",
    "stop_after": 5,
    "initial_model": "x0.safetensors",
    "licence": "apache-2.0",
    "data_licence": "not to be passed on",
    "intended_use": "sorting photographs",
    "limits": "no medical images",
    "notes": "see the study's protocol",
    "dashboard": "127.0.0.1:8080",
    "state_dir": "/var/lib/domo/coordinator",
    "tls": {"cert": "server.pem", "key": "server.key", "client_ca": "ca.pem"},
    "trackers": {"tensorboard_dir": "tensorboard"},
    "database": "postgresql+psycopg://domo@db/domo",
    "dashboard_url": "https://domo.example.org",
    "dashboard_tls": {"cert": "page.pem", "key": "page.key"},
    "oidc": {
        "issuer": "https://sso.example.org/realms/hospital",
        "client_id": "domo",
        "client_secret_file": "oidc-secret",
        "people": {"anna@example.org": "admin"},
    },
}
"""Examples of keys that have no value by default."""
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML takes without quotes."""
LISTED = "an entry for each round"
"""What those keys hold that are too long for an example."""
RUN_HEAD = (
    "Runs of domo, carried out in this order: for `domo submit FILE` and `domo simulate --config "
    "FILE`, or in a coordinator's file beside [server]. A key behind # is at its default, or not "
    "set where an example is given; docs/configuration.md says more of each."
)


def run_example() -> str:
    """A file with `[[runs]]`."""
    return "\n".join([*comment(RUN_HEAD), "[[runs]]", *keys(RunConfig, RUN), ""])


def keys(model: type[BaseModel], given: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table: for each key what it means, and its value, or its default behind #."""
    notes = notes_of(model)
    for name, field in model.model_fields.items():
        try:
            default = field.get_default(call_default_factory=True)
        except ConfigError:  # a folder in the user's home, where there is none
            default = None
        yield from ["", *comment(notes.get(name, ""))]
        if name in given:
            yield f"{name} = {toml(given[name])}"
        elif _is_plain(default):
            yield f"# {name} = {toml(default)}"
        elif name in SHOWN:
            yield f"# {name} = {toml(SHOWN[name])}   # an example; not set by default"
        else:
            yield f"# {name}: not set by default; a list, {LISTED}"


def notes_of(model: type[BaseModel]) -> dict[str, str]:
    """What the code says of each field, in the line below it."""
    (body,) = (
        node.body
        for node in ast.parse(textwrap.dedent(inspect.getsource(model))).body
        if isinstance(node, ast.ClassDef)
    )
    notes = {}
    for field, below in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            notes[field.target.id] = " ".join(str(below.value.value).split())
    return notes


def comment(text: str) -> list[str]:
    """A text as lines that TOML skips."""
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH)]


def toml(value: Any) -> str:
    """A plain value, or a flat table of such, as TOML has it."""
    if isinstance(value, Mapping):
        pairs = ((k if BARE.fullmatch(k) else toml(k), toml(v)) for k, v in value.items())
        return "{ " + ", ".join(f"{key} = {v}" for key, v in pairs) + " }"
    return json.dumps(list(value) if isinstance(value, tuple) else value, default=str)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | Path)  # not None, no table
