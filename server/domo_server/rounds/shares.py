"""Whose model it is, where silos weigh by the samples that they say they have."""

from collections.abc import Mapping

from domo.run_config import RunConfig

MOST_SHARE = 0.9
"""Of all samples at one silo: more is said."""


def about_shares(config: RunConfig, samples: Mapping[str, int]) -> str | None:
    """That one silo decides nearly alone what the model is, in words; None: none does.

    Nobody can see from outside how many samples a silo has: that is for people to judge.

    Args:
        config: The run.
        samples: Training samples by silo, of those that the run begins with.
    """
    if config.weights != "samples" or len(samples) < 2:
        return None
    most = max(samples, key=lambda silo_id: samples[silo_id])
    share = samples[most] / max(1, sum(samples.values()))
    if share <= MOST_SHARE:
        return None
    return (
        f"{config.title}: {most} says that it has {samples[most]} training samples, "
        f'{100 * share:.4g} % of all, and with weights = "samples" that is its share in every '
        "model: the others hardly count. Where it cannot be right, stop the run and give weights "
        "as a table, or uniform"
    )
