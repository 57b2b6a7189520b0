"""The fuzzers of `benchmarks/fuzz`, in short; what they have found has tests of its own below."""

import json
import struct
from pathlib import Path

import pytest
from torch import nn

from benchmarks.fuzz import files, handlers, rest, silo, wire
from domo.errors import StateError
from domo.model.layout import Layout
from domo.model.model_file import open_model
from domo.names import GARBLED

SEED = 20261129


def test_frames_and_headers() -> None:
    assert wire.run(50_000, SEED) == 50_000


@pytest.mark.slow
def test_handlers_and_the_run_is_the_undisturbed_one() -> None:
    assert handlers.run(1500, SEED) == 1500


def test_what_a_silo_reads() -> None:
    assert silo.run(4000, SEED) == 4000


def test_tensor_files() -> None:
    assert files.run(1000, SEED) == 1000


@pytest.mark.slow
def test_rest_for_each_role() -> None:
    pytest.importorskip("schemathesis")
    assert rest.run(100, SEED) >= 400


@pytest.mark.parametrize(
    "header", ["[" * 100_000, '{"x":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}']
)
def test_a_file_whose_header_is_no_table_is_named(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(8))
    with pytest.raises(StateError, match=r"x\.safetensors"):
        open_model(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("shape", [-1]), ("shape", [2**40, 2**40]), ("shape", ["a"]), ("dtype", "load"),
     ("dtype", 3), ("name", []), ("section", "x")],
)  # fmt: skip
def test_a_layout_that_no_module_has_is_none(key: str, value: object) -> None:
    body = json.loads(Layout.of(nn.Linear(2, 1)).to_json())
    body["entries"][0][key] = value
    with pytest.raises(GARBLED):
        Layout.from_json(json.dumps(body))


def test_a_layout_whose_aliases_are_no_table_is_none() -> None:
    body = json.loads(Layout.of(nn.Linear(2, 1)).to_json())
    for aliases in (0, [1], {"a": 1}):
        with pytest.raises(GARBLED):
            Layout.from_json(json.dumps(body | {"aliases": aliases}))
