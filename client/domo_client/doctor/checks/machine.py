"""This machine: device, memory, disk, state folder, shared memory."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from domo.errors import ConfigError
from domo.ops.findings import (
    Finding,
    ok,
    problem,
    unchecked,
    warning,
)
from domo.ops.folder_checks import (
    check_folder,
    check_space,
    files_in,
    human_size,
)
from domo_client.doctor.checks import Facts, Setup
from domo_client.given import check_workers, parse_device
from domo_client.telemetry.resources import available_memory

MODELS_ON_DISK = 8
"""In the state folder, at most: three vectors, one that arrives, one update, three residuals."""
MODELS_IN_MEMORY = 6
"""At least, while it trains: weights, gradients, momentum, two vectors, and the update."""
SMALL_DISK = 10_000_000
"""What is wanted where the model's size is not known."""
SHM = Path("/dev/shm")
SHM_PER_WORKER = 128 << 20


def device(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether the device is there and has memory for the model."""
    try:
        facts.device = parse_device(setup.device)
    except ConfigError as error:
        yield problem(str(error).removesuffix("; try auto or cpu"), _mend_device(setup.device))
        return
    what = str(facts.device)
    if facts.device.type == "cuda":
        free = torch.cuda.mem_get_info(facts.device)[0]
        what = f"{what} ({torch.cuda.get_device_name(facts.device)})"
    else:
        free = available_memory()
    text = f"{what} is there, with {human_size(free)} of memory free"
    need = MODELS_IN_MEMORY * (facts.model_bytes or 0)
    if free < need:
        size = human_size(facts.model_bytes or 0)
        mend = "end what else uses it, or train on a larger device"
        yield problem(f"{text}; a model of {size} needs {human_size(need)}", mend)
    else:
        yield ok(text)


def _mend_device(text: str) -> str:
    if not text.startswith("cuda"):
        return "give --device auto, cpu, cuda or cuda:1"
    if torch.version.cuda is None:
        return "--device cpu or auto, or install a build of torch with CUDA"
    count = torch.cuda.device_count()
    if count:
        return f"there are {count} GPUs here, cuda:0 to cuda:{count - 1}; or --device cpu"
    return (
        "no GPU is to be seen: --device cpu or auto, or see to the driver (nvidia-smi), "
        "CUDA_VISIBLE_DEVICES, and docker's --gpus"
    )


def state_folder(setup: Setup) -> Iterator[Finding]:
    """Whether the state folder can be written and is not in use."""
    if setup.state_dir is None:
        yield problem("there is no home folder here for what a silo remembers", "give --state-dir")
        return
    yield from check_folder(setup.state_dir, "domo-client")


def space(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether the state folder has room for the model."""
    if setup.state_dir is None:
        yield unchecked("there is no state folder")
        return
    if facts.model_bytes is None:
        yield check_space(setup.state_dir, SMALL_DISK, "the least; the model's size is not known")
        return
    size = human_size(facts.model_bytes)
    needed = MODELS_ON_DISK * facts.model_bytes + SMALL_DISK
    already = sum(size for _, size in files_in(setup.state_dir))  # is written over
    what = f"{MODELS_ON_DISK} times a model of {size}"
    yield check_space(setup.state_dir, max(SMALL_DISK, needed - already), what)


def shared_memory(setup: Setup) -> Iterator[Finding]:
    """Whether loader processes have room for their batches."""
    if not setup.workers:
        yield ok("not needed without loader processes (--workers 0)")
        return
    try:
        check_workers(setup.workers)
    except ConfigError as error:
        text, _, mend = str(error).partition("; ")
        yield problem(text, mend)
        return
    free = shutil.disk_usage(SHM).free
    wanted = setup.workers * SHM_PER_WORKER
    text = f"{human_size(free)} are free in {SHM} for {setup.workers} loader processes"
    if free < wanted:
        mend = f"in a container: --shm-size {-(-wanted // (1 << 30))}g or more; or fewer --workers"
        yield warning(f"{text}; {human_size(wanted)} are safe", mend)
    else:
        yield ok(text)
