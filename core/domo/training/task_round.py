"""One local round of a task: what the agent and the simulation both do."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from domo.errors import DivergenceError
from domo.stages.now import in_stage
from domo.tasks.base import Task
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.personal import PERSONAL, PREFIX, Personal
from domo.training.round_data import LocalResult


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """bf16 autocast where asked for."""
    return torch.autocast(device.type, dtype=dtype) if dtype else nullcontext()


def run_task_round(
    task: Task,
    rnd: LocalRound,
    train: BatchLoader | None,
    evaluation: BatchLoader | None,
    autocast_dtype: torch.dtype | None = None,
) -> LocalResult | None:
    """Evaluate and train a task for one round.

    Returns:
        The update, or None where the round only evaluates or was abandoned.

    Raises:
        DivergenceError: The loss or the update is not finite.
    """
    with in_stage("round"):
        return _round(task, rnd, train, evaluation, autocast_dtype)


def _round(
    task: Task,
    rnd: LocalRound,
    train: BatchLoader | None,
    evaluation: BatchLoader | None,
    autocast_dtype: torch.dtype | None,
) -> LocalResult | None:
    personal = Personal(rnd) if rnd.numbers.personal_prox else None
    if evaluation is not None and len(evaluation):
        rnd.evaluate(task.evaluate, evaluation.sequential())
        if personal is not None:
            personal.evaluate(task, evaluation)
    if not rnd.num_steps or train is None:
        return None
    loss = _steps(task, rnd, train, autocast_dtype)
    if loss is None:
        return None
    rnd.log(loss=loss)
    result = rnd.finish()
    if personal is not None:
        loss = _steps(task, personal.round(), train, autocast_dtype)
        if loss is None:
            return None
        result.metrics[f"{PREFIX}loss"] = loss
        result.state[PERSONAL] = personal.left()
    return result


def _steps(
    task: Task, rnd: LocalRound, train: BatchLoader, autocast_dtype: torch.dtype | None
) -> float | None:
    """All local steps of a round; their mean loss, or None where the round was abandoned."""
    opt = rnd.optimizer()
    rnd.model.train()
    plan, on_gradients = getattr(task, "batch_plan", None), getattr(task, "on_gradients", None)
    total: Tensor | None = None
    with in_stage("plan"):
        planned = plan(rnd.round_index, rnd.num_steps) if plan else None
    batches = rnd.batches(
        train,
        augment=getattr(task, "augment", None),
        plan=planned,
    )
    for batch in batches:
        with autocast(rnd.device, autocast_dtype):
            loss = task.loss(rnd.model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if on_gradients is not None:
            on_gradients(rnd.model)
        opt.step()
        opt.zero_grad()
        total = loss.detach().double() if total is None else total.add_(loss.detach())
    if rnd.abandoned:
        return None
    loss_mean = float(total) / rnd.num_steps if total is not None else math.nan
    if not math.isfinite(loss_mean):
        raise DivergenceError("the training loss is not finite; try a smaller local_lr", 1)
    return loss_mean
