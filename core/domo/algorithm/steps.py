"""What local steps count as, at a silo and at the server."""

from domo.methods import Kernel


def counted_steps(kernel: Kernel, num_steps: float) -> float:
    """What P local steps count as: P, or |a|_1 = sum_p (1 - mu_l^(P-p))/(1 - mu_l) for `nova`.

    Source: Wang et al., NeurIPS 2020, section 3.2: a is the weight of each gradient in a round.
    """
    mu = kernel.mu_l
    if kernel.step_norm != "nova" or not mu:
        return num_steps
    return float(num_steps - mu * (1 - mu**num_steps) / (1 - mu)) / (1 - mu)
