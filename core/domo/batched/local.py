"""The local rounds of K silos with the same number of steps, in one call a step."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from domo.algorithm import LocalSGD, correction, infer_momentum, num_non_finite, pulled
from domo.batched.data import Joined, parts_of_round
from domo.batched.losses import losses
from domo.batched.stack import Stack
from domo.errors import DivergenceError
from domo.model.layout import Section
from domo.run_config import RunConfig
from domo.simulating.visit import Broadcast
from domo.tasks.base import Task
from domo.training.batches import BatchLoader
from domo.training.round_data import CONTROL, Kept, LocalResult
from domo.training.task_round import autocast


def train(
    config: RunConfig,
    task: Task,
    stack: Stack,
    loaders: Mapping[str, BatchLoader],
    joined: Joined | None,
    sent: Broadcast,
    kept: Mapping[str, Kept],
    num_steps: int,
    dtype: torch.dtype | None = None,
) -> dict[str, LocalResult]:
    """P local steps at K silos (lines 6-12 of Algorithm 1): `LocalSGD` on a vector of K*n entries.

    Args:
        config: The run.
        task: What is trained.
        stack: The model of K silos; its weights are overwritten.
        loaders: Training data of the silos, by name.
        joined: The same data as one dataset, if there is one.
        sent: The round.
        kept: What silos have kept of their last rounds.
        num_steps: P.
        dtype: Lower precision inside the forward pass.

    Returns:
        What each silo gives back.

    Raises:
        DivergenceError: Non-finite numbers; names the round and the first silo that has them.
    """
    kernel, r = config.kernel, sent.round_index
    inferred = m_r = None
    if kernel.infers and sent.x_prev is not None and sent.inference_scale is not None:
        inferred = infer_momentum(sent.x_prev, sent.x, sent.inference_scale)
        m_r = stack.spread(inferred)
    told = sent.c if kernel.tells_control else inferred
    own = [kept.get(name, {}).get(CONTROL) for name in loaders]
    corrections = [correction(kernel, told, one) for one in own]
    with torch.no_grad():
        stack.vector.copy_(stack.spread(sent.x))
    opt = LocalSGD(
        kernel,
        stack.vector,
        stack.params,
        h=config.lr_at(r),
        num_steps=num_steps,
        m_r=m_r,
        m_start=None if sent.mbar is None else stack.spread(sent.mbar),
        correction=stack.gather(corrections),
        factor=config.lr_factor(r, num_steps),
        spend=True,
    )
    with torch.no_grad():
        opt.begin()
    device = stack.vector.device
    total = torch.zeros(len(loaders), dtype=torch.float64, device=device)
    for parts in parts_of_round(config, task, loaders, joined, r, num_steps, device):
        opt.zero_grad()
        for part in parts:
            where = None if part.places is None else torch.tensor(part.places, device=device)
            stack.chosen.choose(where)
            with autocast(device, dtype):
                each = losses(task, stack.module, part.batch, part.num)
            each.sum().backward()  # type: ignore[no-untyped-call]
            total[slice(None) if where is None else where] += each.detach()
        opt.step()
    opt.zero_grad()
    d, momentum = opt.finish()
    results = _results(r, list(loaders), stack, d, momentum, total / num_steps, sent, num_steps)
    for result, s in zip(results.values(), corrections, strict=True):
        result.correction, result.pulled = s, pulled(kernel, config.lr_at(r), num_steps)
    return results


def _results(
    r: int,
    names: Sequence[str],
    stack: Stack,
    d: Tensor,
    momentum: Tensor | None,
    means: Tensor,
    sent: Broadcast,
    num_steps: int,
) -> dict[str, LocalResult]:
    updates = stack.rows(d)
    momenta = None if momentum is None else stack.rows(momentum)
    found = {}
    for k, (name, mean) in enumerate(zip(names, means.tolist(), strict=True)):
        bad = num_non_finite(updates[k]) or int(not torch.isfinite(means[k]))
        if bad:
            raise DivergenceError(
                f"round {r + 1}, {name}: local training diverged: the loss or the update is not "
                "finite. A smaller local_lr usually mends it.",
                bad,
            )
        found[name] = LocalResult(
            update=updates[k],
            momentum=None if momenta is None else momenta[k],
            float_buffers=sent.buffers[Section.FLOAT_BUFFER],
            integer_buffers=sent.buffers[Section.INTEGER_BUFFER],
            num_steps=num_steps,
            metrics={"loss": mean},
        )
    return found
