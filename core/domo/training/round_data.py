"""What goes into a local round, and what comes out of it."""

from dataclasses import dataclass, field

from torch import Tensor

from domo.methods import Kernel


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
    """

    update: Tensor
    momentum: Tensor | None
    float_buffers: Tensor
    integer_buffers: Tensor
    num_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    correction: Tensor | None = None
    pulled: float = 0.0
