"""A model as an ONNX file, and what says that it computes the same."""

import importlib.metadata
import logging
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from domo.errors import ConfigError, TaskError
from domo.tasks.base import Task

MAX_PROTO_BYTES = 1_800_000_000
"""Weights of more bytes get a file of their own: a protobuf message has 2 GiB at most."""
RELATIVE = 1e-3
"""Of the largest output, that a result may be off; float32 on two runtimes is off by 1e-6."""


def need_onnx() -> None:
    """See that what writes ONNX is installed.

    Raises:
        ConfigError: It is not; says how to get it.
    """
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"--format onnx needs {' and '.join(missing)}: pip install 'domo-federated[onnx]'"
        )


def example_inputs(task: Task, root: Path | None) -> tuple[Tensor, ...]:
    """What the task's model is called with, for a batch of two.

    Args:
        task: Gives it by its method `example_input`, or by its first samples.
        root: Folder with samples.

    Raises:
        TaskError: There is no way to know it; says what to do.
    """
    make = getattr(task, "example_input", None)
    if make is not None:
        given = make()
    elif root is not None:
        given = _inputs_of(_first_samples(task, root))
    else:
        raise TaskError(
            "this needs an example of what the model is called with: give --data with some "
            "samples, or the task a method example_input() that returns a batch of two inputs"
        )
    inputs = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not inputs or not all(isinstance(x, Tensor) for x in inputs):
        raise TaskError(
            "the input of the model is no tensor and no tuple of tensors: give the task a method "
            "example_input() that returns what the model is called with"
        )
    return inputs


def _first_samples(task: Task, root: Path) -> Any:
    tests = getattr(task, "eval_data", None)
    data: Any = tests(root, None) if tests is not None else None
    if data is None or not len(data):
        data = task.train_data(root, None)
    if not len(data):
        raise TaskError(f"there are no samples in {root}")
    return default_collate([data[0], data[1 % len(data)]])


def _inputs_of(batch: Any) -> Any:
    """Batches are (inputs, labels), or the inputs alone."""
    return batch[0] if isinstance(batch, tuple | list) else batch


def write_onnx(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, metadata: Mapping[str, str]
) -> str:
    """Write a model that takes batches of any size; what is to be said of it.

    Args:
        module: In evaluation mode.
        inputs: A batch of two.
        path: The file; weights beyond `MAX_PROTO_BYTES` lie beside it.
        metadata: Texts for the file.

    Raises:
        TaskError: The exporter cannot follow the model, or the result computes something else.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    batch = torch.export.Dim("batch")
    shapes = tuple({0: batch} if x.dim() else None for x in inputs)
    num_bytes = sum(x.numel() * x.element_size() for x in module.state_dict().values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        try:
            program = torch.onnx.export(
                module, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False
            )
        except Exception as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            raise TaskError(
                "the model cannot be written as ONNX with a batch of any size: "
                f"{type(error.__cause__ or error).__name__}: {reason}"
            ) from error
    assert program is not None
    fixed = [v.name for v in program.model.graph.inputs if v.shape and isinstance(v.shape[0], int)]
    if fixed:
        raise TaskError(
            "the model cannot be written as ONNX with a batch of any size: its code fixes that "
            f"of {', '.join(map(str, fixed))}; let it take the size from its input, as x.shape[0]"
        )
    program.model.metadata_props.update(metadata)
    program.save(path, external_data=num_bytes > MAX_PROTO_BYTES)
    opset = program.model.opset_imports[""]
    return f"opset {opset}, batches of any size; {_check(module, inputs, path)}"


def _check(module: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> str:
    """Compare with PyTorch, on a batch of three."""
    if find_spec("onnxruntime") is None:
        return "not compared with PyTorch: onnxruntime is not installed"
    import onnxruntime

    three = [torch.cat([x, x[:1]]) if x.dim() else x for x in inputs]
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        named = zip(session.get_inputs(), three, strict=True)
        found = session.run(None, {i.name: x.numpy() for i, x in named})
    except Exception as error:  # its errors have no class in common
        reason = str(error).partition("\n")[0]
        raise TaskError(f"onnxruntime cannot run the ONNX model: {reason}") from error
    with torch.no_grad():
        wanted = _tensors(module(*three))
    pairs = [(torch.from_numpy(f), w) for f, w in zip(found, wanted, strict=True)]
    if any(f.shape != w.shape for f, w in pairs):
        raise TaskError("the ONNX model gives results of another shape than PyTorch's")
    off = max(float((f.double() - w.double()).abs().max()) for f, w in pairs)
    largest = max(float(w.abs().max()) for w in wanted)
    if not off <= RELATIVE * max(largest, 1.0):
        raise TaskError(f"the ONNX model computes something else: its results are off by {off:.3g}")
    version = importlib.metadata.version("onnxruntime")
    return f"largest difference to PyTorch {off:.2g} (onnxruntime {version})"


def _tensors(result: Any) -> Sequence[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    parts = result.values() if isinstance(result, Mapping) else result
    return [t for part in parts for t in _tensors(part)]
