"""Closing a round: which updates count, the record of them, and what follows from it.

Pure functions of the recorded set; the same set gives the same bytes, however often it is summed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from torch import Tensor

from domo.algorithm import inference_scale, reference_steps, server_round
from domo.fold import average
from domo.methods import Kernel
from domo.run_config import RunConfig
from domo.vector import Section
from domo_proto.codec import VectorId
from domo_server.checkpoint import ServerState
from domo_server.spool import SpooledUpdate, update_path

MIN_FOR_OUTLIERS = 3
"""Updates that a round needs before one of them can be far from the others."""


def outliers(norms: Mapping[str, float], factor: float) -> dict[str, str]:
    """Silos whose update is far larger than the others', with the reason in words.

    Args:
        norms: Norm of d_k by silo.
        factor: How many times the median is far.
    """
    if len(norms) < MIN_FOR_OUTLIERS:
        return {}
    middle = median(norms.values())
    return {
        silo_id: f"the norm of its update, {norm:.3g}, is {norm / middle:.3g} times the median"
        for silo_id, norm in norms.items()
        if norm > factor * middle > 0
    }


def make_record(
    config: RunConfig,
    round_index: int,
    sampled: Sequence[str],
    accepted: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, int],
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """The row that fixes what a round is closed with.

    Args:
        config: The run.
        round_index: r.
        sampled: Silos of the round, in roster order; those not accepted are left out.
        accepted: Rows of accepted updates by silo.
        samples: Training samples by silo.
        left_out: Reasons of silos without an update.
    """
    participants = []
    for silo_id in (s for s in sampled if s in accepted):
        row = accepted[silo_id]
        participants.append(
            {
                "silo_id": silo_id,
                "weight": config.weight_of(silo_id, samples[silo_id]),
                "num_steps": row["num_steps"],
                "update_norm": row["update_norm"],
                "train_loss": row["metrics"].get("loss"),
                "digest": row["digest"],
                "vectors": row["vectors"],
            }
        )
    omegas = [p["weight"] for p in participants]
    losses = [p["train_loss"] for p in participants]
    mean = None
    if all(v is not None for v in losses):
        mean = sum(w * v for w, v in zip(omegas, losses, strict=True)) / sum(omegas)
    return {
        "round_index": round_index,
        "local_lr": config.lr_at(round_index),
        "reference_steps": reference_steps(omegas, [p["num_steps"] for p in participants]),
        "participants": participants,
        "left_out": dict(left_out),
        "train_loss": mean,
    }


def sum_round(
    kernel: Kernel, state: ServerState, record: Mapping[str, Any], spool: Path
) -> ServerState:
    """x_{r+1}, m_{r+1} and what else follows from a recorded set.

    Args:
        kernel: The method's constants.
        state: x_r, m_r and the rest.
        record: From `make_record`, or from the database.
        spool: Folder of the round's updates.

    Raises:
        DivergenceError: x_{r+1} is not finite.
        OSError: An update's file is missing.
    """
    members = record["participants"]
    omegas = [p["weight"] for p in members]
    steps = [p["num_steps"] for p in members]
    h = record["local_lr"]
    files: list[SpooledUpdate] = []
    try:
        for p in members:
            path = update_path(spool, p["silo_id"], p["digest"])
            files.append(SpooledUpdate(path, [(v, n) for v, n in p["vectors"]]))
        updates = [f.reader(VectorId.UPDATE) for f in files]
        x, m = server_round(kernel, state.x, state.m, updates, omegas, steps, h)

        def mean(vector_id: VectorId, n: int) -> Tensor:
            return average([f.reader(vector_id) for f in files], omegas, n)

        mbar = mean(VectorId.LOCAL_MOMENTUM, len(x)) if kernel.average else None
        buffers = dict(state.buffers)
        if n := len(buffers[Section.FLOAT_BUFFER]):
            buffers[Section.FLOAT_BUFFER] = mean(VectorId.FLOAT_BUFFERS, n)
        if len(buffers[Section.INTEGER_BUFFER]):
            buffers[Section.INTEGER_BUFFER] = files[0].whole(VectorId.INTEGER_BUFFERS)
    finally:
        for f in files:
            f.close()
    scale = inference_scale(kernel, h, reference_steps(omegas, steps))
    return ServerState(state.round_index + 1, x, m, state.x, mbar, scale, buffers)
