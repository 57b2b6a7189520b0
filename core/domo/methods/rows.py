"""The table of methods, and the words that its columns are written in."""

from dataclasses import dataclass
from typing import Literal

Fusion = Literal["none", "pre", "intra"]
RoundEnd = Literal["reset", "average", "keep"]
StepNorm = Literal["per_silo", "delta", "nova"]
Anchor = Literal["server", "start", "given"]
ServerStep = Literal["momentum", "adam", "yogi", "adagrad", "dyn", "exp"]
Control = Literal["none", "scaffold", "dyn"]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    Attributes:
        name: As the paper prints it.
        server_momentum: mu_s is on.
        local_momentum: mu_l is on.
        round_end: What becomes of the local momentum buffer when a round ends.
        fusion: Where m_r enters local training: nowhere, before the first step (Option I, DOMO),
            or in every step (Option II, DOMO-S).
        server: What the server makes of the mean update: the paper's momentum, or a step for each
            coordinate by its own second moment v (FedAdam, FedYogi, FedAdagrad), or the sum of all
            steps before, on top (FedDyn), or a longer step the less the updates agree (FedExP).
        control: A vector that a silo keeps from round to round and that corrects its gradients:
            c_k, its own mean gradient, against c_r, that of all (SCAFFOLD); or h_k, how far it
            has pulled so far (FedDyn).
        step_norm: What the method needs of it; None: what the run says.
        prox: rho where none is given.
    """

    name: str
    server_momentum: bool
    local_momentum: bool
    round_end: RoundEnd
    fusion: Fusion
    server: ServerStep = "momentum"
    control: Control = "none"
    step_norm: StepNorm | None = None
    prox: float = 0.0

    @property
    def num_vectors(self) -> int:
        """Vectors of the model's size that travel each way in a round."""
        return 2 if self.round_end == "average" else 1


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        #      name            mu_s   mu_l   round end  fusion
        Method("FedAvg",       False, False, "reset",   "none"),
        Method("FedAvgSM",     True,  False, "reset",   "none"),
        Method("FedAvgLM",     False, True,  "average", "none"),
        Method("FedAvgLM-Z",   False, True,  "reset",   "none"),
        Method("FedAvgSLM",    True,  True,  "average", "none"),
        Method("FedAvgSLM-Z",  True,  True,  "reset",   "none"),
        Method("DOMO",         True,  True,  "reset",   "pre"),
        Method("DOMO-S",       True,  True,  "reset",   "intra"),
        Method("DOMO-avg",     True,  True,  "average", "pre"),
        Method("DOMO-S-avg",   True,  True,  "average", "intra"),
        Method("FedAdam",      True,  False, "reset",   "none",  "adam"),
        Method("FedYogi",      True,  False, "reset",   "none",  "yogi"),
        Method("FedAdagrad",   True,  False, "reset",   "none",  "adagrad"),
        Method("DOMO-Adam",    True,  True,  "reset",   "pre",   "adam"),
        Method("FedExP",       False, False, "reset",   "none",  "exp"),
        Method("FedExP-LM-Z",  False, True,  "reset",   "none",  "exp"),
        Method("SCAFFOLD",     False, False, "reset",   "none",  "momentum", "scaffold", "nova"),
        Method("SCAFFOLD-LM-Z", False, True, "reset",   "none",  "momentum", "scaffold", "nova"),
        Method("DOMO-SCAFFOLD", True, True,  "reset",   "pre",   "momentum", "scaffold", "nova"),
        Method("FedDyn",       False, False, "reset",   "none",  "dyn",   "dyn", "delta", 0.01),
        Method("FedDyn-LM-Z",  False, True,  "reset",   "none",  "dyn",   "dyn", "delta", 0.01),
        Method("DOMO-FedDyn",  False, True,  "reset",   "pre",   "dyn",   "dyn", "delta", 0.01),
    )
}  # fmt: skip
PAPER_METHODS = tuple(METHODS)[:8]
"""The eight methods that the paper compares."""
