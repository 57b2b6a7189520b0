"""What goes into a local round, and what comes out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from domo.methods import Kernel
from domo.run_config import RunConfig

RESIDUAL, CONTROL = "residual", "control"
"""Names of what a silo keeps: e_k, and c_k or h_k; others are of the state of its optimizer."""
Kept = Mapping[str, Tensor]
"""Vectors that a silo keeps, by name; they follow the update that left them."""


@dataclass(frozen=True, slots=True)
class RoundNumbers:
    """What a silo is told about a round.

    Attributes:
        silo_id: Whose round it is.
        round_index: r; the model in hand is x_r.
        num_rounds: R.
        num_steps: P of this silo; 0 where it only evaluates.
        local_lr: eta_r.
        batch_size: b.
        run_seed: Seed of the run.
        kernel: The method's constants.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
        evaluates: Whether x_r is to be tested.
        drop_last: Whether a short last batch of a pass is left out.
        factor: How eta goes within the round; None: it stays.
        personal_prox: How strongly a personal model is held near x_r; 0: there is none.
    """

    silo_id: str
    round_index: int
    num_rounds: int
    num_steps: int
    local_lr: float
    batch_size: int
    run_seed: int
    kernel: Kernel
    inference_scale: float | None = None
    evaluates: bool = True
    drop_last: bool = False
    factor: Callable[[int], float] | None = None
    personal_prox: float = 0.0


def round_numbers(
    config: RunConfig,
    silo_id: str,
    round_index: int,
    num_steps: int,
    local_lr: float,
    inference_scale: float | None,
    evaluates: bool = True,
) -> RoundNumbers:
    """What follows from a run's configuration, and what the coordinator says of the round.

    Args:
        config: The run.
        silo_id: Whose round it is.
        round_index: r.
        num_steps: P of this silo; 0 where it only evaluates.
        local_lr: eta_r.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
        evaluates: Whether x_r is to be tested.
    """
    return RoundNumbers(
        silo_id=silo_id,
        round_index=round_index,
        num_rounds=config.num_rounds,
        num_steps=num_steps,
        local_lr=local_lr,
        batch_size=config.batch_size,
        run_seed=config.seed,
        kernel=config.kernel,
        inference_scale=inference_scale,
        evaluates=evaluates,
        drop_last=config.drop_last,
        factor=config.lr_factor(round_index, num_steps) if num_steps else None,
        personal_prox=config.personal_prox if config.personal != "none" else 0.0,
    )


@dataclass(slots=True)
class LocalResult:
    """What a silo sends back. Vectors are float32 on the CPU.

    Attributes:
        update: d_k, shape (n,). Of another type once `domo.update_format` has encoded it.
        momentum: m_{k,P}, shape (n,), where the method averages it. Likewise.
        float_buffers: Absolute values.
        integer_buffers: Bytes (uint8).
        num_steps: P_k.
        metrics: What the loop logged.
        correction: s, shape (n,), of `domo.algorithm.control`; stays at the silo.
        pulled: How much of the update goes into c_k' or h_k'; 0: there is none.
        state: Of the local optimizer, where the silo keeps it, by name.
    """

    update: Tensor
    momentum: Tensor | None
    float_buffers: Tensor
    integer_buffers: Tensor
    num_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    correction: Tensor | None = None
    pulled: float = 0.0
    state: dict[str, Tensor] = field(default_factory=dict)
