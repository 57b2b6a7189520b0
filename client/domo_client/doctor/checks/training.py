"""Task, data, and a few steps as in a round. Nothing is sent."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from domo.errors import ConfigError, DataError, DivergenceError, DomoError
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.names import shown
from domo.ops.findings import (
    Finding,
    ok,
    problem,
    unchecked,
    warning,
)
from domo.outside.faults import outside
from domo.run_config import RunConfig
from domo.storage.home import user_cache
from domo.tasks import is_named, load_task
from domo.training.batches import configure_torch
from domo.training.initial import build_model, task_of
from domo.training.local_round import LocalRound
from domo.training.looking.ready import Look, look
from domo.training.round_data import RoundNumbers
from domo.training.task_errors import LoadError, task_errors, told
from domo.training.task_round import run_task_round
from domo_client.doctor.checks import Facts, Setup
from domo_client.given import parse_shard
from domo_client.rpc.offer import Offer
from domo_client.work import AgentOptions, MissingDataError, Work, prepare

STEPS = 3
CALM_LR = 1e-4
"""A step so small that only bad data or a wrong task can make it diverge."""
NO_TASK = "no --task is given: what the run will train is not known"
GIVE_TASK = "--task TASK, as the admin has it in the run"


def _tasks(setup: Setup, facts: Facts) -> Sequence[str]:
    """Those that are given, or that of the open run, if it comes with domo."""
    if setup.tasks or facts.run is None:
        return setup.tasks
    task = facts.run.offer.task
    return [task] if is_named(task) else []


def model(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether each task can be found and makes a model, and of what size."""
    if not _tasks(setup, facts):
        yield unchecked(NO_TASK, GIVE_TASK)
        return
    for name in _tasks(setup, facts):
        try:
            module = build_model(task_of(_config(name, facts)), 0)
            with task_errors("the model cannot be made ready here"):
                layout = FlatModel(module, _config(name, facts).private).layout
        except DomoError as error:
            mend = "see docs/bring-your-model.md; `domo tasks` lists"
            yield problem(f"{name}: {error}", mend, f"{name}: {outside(error)}")
            continue
        size = sum(layout.num_bytes(section) for section in Section)
        facts.model_bytes = max(size, facts.model_bytes or 0)
        yield ok(f"{name}: a model of {layout.num_params:,} parameters")


def folder(setup: Setup) -> Iterator[Finding]:
    """Whether the data folder is there, can be read, and holds something."""
    path = setup.data
    if path is None and setup.shard is not None:
        yield ok(f"part {setup.shard} of a public dataset stands in for data")
        return
    if path is None:
        text = "no data are given: this silo would join, and take part in no run"
        yield warning(text, "--data DIR; what it should hold depends on the task")
        return
    if not path.exists():
        yield _of_folder(path, ": there is no such folder", "check the path; is it mounted?")
    elif not path.is_dir():
        yield _of_folder(path, " is a file, not a folder", "give the folder that it lies in")
    elif not os.access(path, os.R_OK | os.X_OK):
        yield _of_folder(path, " may not be read", "give the user of domo-client access")
    else:
        try:
            with os.scandir(path) as entries:
                empty = next(entries, None) is None
        except OSError as error:
            mend = "see to the disk or the network drive"
            yield _of_folder(path, f" cannot be read: {error.strerror}", mend)
            return
        if empty:
            yield _of_folder(path, " is empty", _hint(setup) or "put the data there")
        else:
            text = "is there and can be read"
            yield ok(f"{shown(path)} {text}", f"the folder of --data {text}")


def _of_folder(path: Path, what: str, mend: str) -> Finding:
    return problem(f"--data {shown(path)}{what}", mend, f"--data{what}")


def _hint(setup: Setup) -> str:
    """What the first task wants, in its own words."""
    for name in setup.tasks:
        try:
            hint = getattr(load_task(name), "data_hint", "")
        except DomoError:
            continue
        if hint:
            return f"the folder should hold {hint}"
    return ""


def data(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Load the data as each task does, and count."""
    if not _tasks(setup, facts):
        yield unchecked(NO_TASK, GIVE_TASK)
        return
    try:
        shard = parse_shard(setup.shard)
    except ConfigError:
        yield unchecked("--shard must be right first")
        return
    options = AgentOptions(
        data=setup.data,
        shard=shard,
        tasks=tuple(setup.tasks),
        device=torch.device("cpu"),
        autocast=None,
        num_workers=setup.workers,
        role=setup.role,
        cache=user_cache(),
    )
    for name in _tasks(setup, facts):
        offer = Offer("doctor", "doctor", name, _config(name, facts))
        try:
            work = prepare(offer, options)
        except MissingDataError as error:
            yield unchecked(f"{name}: no data are given", f"it wants {error}")
        except DomoError as error:
            hint = _hint(setup)
            mend = "do as the text says" + (f"; {hint}" if hint else "")
            if is_named(name) and isinstance(error, DataError):
                mend += "; docs/data.md says what is read"
            yield problem(f"{name}: {error}", mend, f"{name}: {outside(error)}")
        else:
            facts.works[name] = work
            trains = len(work.train) if work.train else 0
            tests = len(work.evaluation) if work.evaluation else 0
            yield ok(f"{name}: {trains} training and {tests} test samples")


def _config(name: str, facts: Facts) -> RunConfig:
    """A run of a few steps, with what the open run says of the data, if it trains the same."""
    given: dict[str, Any] = {"task": name, "num_rounds": 1, "num_silos": 1, "local_steps": STEPS}
    if facts.run is not None and facts.run.offer.task == name:
        theirs = facts.run.offer.config
        given |= {"images": theirs.images, "classes": theirs.classes, "seed": theirs.seed}
        given |= {"similarity": theirs.similarity, "batch_size": theirs.batch_size}
        given |= {"drop_last": theirs.drop_last}
    return RunConfig.model_validate({**given, "local_lr": CALM_LR})


def dummy_round(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """A few steps on the device, and a test batch."""
    if not facts.works:
        yield unchecked("no task with its data is ready")
        return
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        yield unchecked(
            "no folder for temporary files can be written, and torch needs one",
            "set TMPDIR; a silo takes its state folder for them",
        )
        return
    for name, work in facts.works.items():
        assert facts.device is not None
        configure_torch(1, facts.device)
        try:
            with task_errors("the round fails"):
                text, notes = _steps(setup, facts, name, work)
        except DomoError as error:
            text = f"{name}: {_first(told(error))}"
            yield problem(text, _mend(error), f"{name}: {outside(error)}")
        else:
            yield ok(f"{name}: {text}; nothing was sent")
            for note in notes:
                yield warning(f"{name}: {note}", "see that the model's forward uses it")


def _steps(setup: Setup, facts: Facts, name: str, work: Work) -> tuple[str, tuple[str, ...]]:
    assert facts.device is not None
    config = _config(name, facts)
    flat = FlatModel(work.model.to(facts.device), config.private)
    numbers = RoundNumbers(
        silo_id=setup.name,
        round_index=0,
        num_rounds=1,
        num_steps=STEPS if work.train else 0,
        local_lr=CALM_LR,
        batch_size=config.batch_size,
        drop_last=config.drop_last,
        run_seed=0,
        kernel=config.kernel,
    )
    autocast = torch.bfloat16 if setup.precision == "bf16" else None
    samples = len(work.train) if work.train else 0
    most = -(-samples // config.batch_size)
    if facts.run is not None and facts.run.offer.task == name and samples:
        most = facts.run.offer.config.most_steps(setup.name, samples)
    how = Look(config.batch_size, max(STEPS, most), autocast, drop_last=config.drop_last)
    notes = look(work.task, flat, work.train, work.evaluation, how)
    rnd = LocalRound(flat, numbers, flat.read(Section.TRAINABLE))
    done = []
    if work.evaluation:
        done.append(f"a batch of {min(config.batch_size, len(work.evaluation))} tested")
    if work.train:
        run_task_round(work.task, rnd, work.train, None, autocast)
        done.insert(0, f"{STEPS} steps made, train loss {rnd.metrics['loss']:.4f}")
    return f"on {facts.device}: " + ", ".join(done), notes


def _first(text: str) -> str:
    return text.strip().splitlines()[0][:500]


def _mend(error: DomoError) -> str:
    if isinstance(error, DivergenceError):
        return "look for samples that are not finite, or labels that are wrong"
    if isinstance(error.__cause__, torch.OutOfMemoryError):
        return "a smaller batch_size in the run, --precision bf16, or another device"
    if isinstance(error.__cause__, LoadError) and error.__cause__.passes:
        return "fewer --workers, or what the text says"
    return "it is code of the task: mend it, or the data; DOMO_LOG_LEVEL=DEBUG shows where"
