"""The table of methods, and the words that its columns are written in."""

from dataclasses import dataclass
from typing import Literal

Fusion = Literal["none", "pre", "intra"]
RoundEnd = Literal["reset", "average"]
StepNorm = Literal["per_silo", "delta", "nova"]
Anchor = Literal["server", "start"]
ServerStep = Literal["momentum", "adam", "yogi", "adagrad"]


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
            coordinate by its own second moment v (FedAdam, FedYogi, FedAdagrad).
    """

    name: str
    server_momentum: bool
    local_momentum: bool
    round_end: RoundEnd
    fusion: Fusion
    server: ServerStep = "momentum"

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
    )
}  # fmt: skip
PAPER_METHODS = tuple(METHODS)[:8]
"""The eight methods that the paper compares."""
