"""Tensor files and what is read from them: layouts, cards, digests."""

import contextlib
import json
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.fuzz.wild import damaged, wild_json
from domo.errors import DomoError
from domo.model.model_file import check_content, load_card, load_weights, open_model
from domo.model.tensor_file import LENGTH, MAX_HEADER
from domo.training.initial import save_initial


def good_file(path: Path) -> bytes:
    """A small model's file, with all sections."""
    save_initial(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), path)
    return path.read_bytes()


def wild_file(rng: random.Random, good: bytes) -> bytes:
    """A file that is not quite one."""
    (length,) = LENGTH.unpack_from(good)
    header, body = good[LENGTH.size :][:length], good[LENGTH.size + length :]
    kind = rng.randrange(5)
    if kind == 0:
        return damaged(rng, good)
    if kind == 1:
        return struct.pack("<Q", rng.choice((0, 1, length, MAX_HEADER, 2**63, 2**64 - 1))) + header
    table: Any = json.loads(header)
    if kind == 2 and "domo_layout" in table["__metadata__"]:
        layout = json.loads(table["__metadata__"]["domo_layout"])
        table["__metadata__"]["domo_layout"] = wild_json(rng, layout)
        text = json.dumps(table)
    else:
        text = wild_json(rng, table)
    written = text.encode("utf-8", "replace")
    return struct.pack("<Q", len(written)) + written + body


def one(path: Path) -> None:
    """Everything that reads a model's file; only a DomoError may come of it."""
    with contextlib.suppress(DomoError):
        layout, file = open_model(path)
        check_content(file)
        assert layout.num_params >= 0
    with contextlib.suppress(DomoError):
        load_card(path)
    with contextlib.suppress(DomoError):
        weights = load_weights(path)
        assert all(isinstance(t, torch.Tensor) for t in weights.values())


def run(cases: int, seed: int) -> int:
    """So many cases; how many were made."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        good = good_file(path)
        one(path)
        written = good
        try:
            for _ in range(cases):
                written = wild_file(rng, good)
                path.write_bytes(written)
                one(path)
        except BaseException:
            Path("fuzz-failure.safetensors").write_bytes(written)
            raise
    return cases
