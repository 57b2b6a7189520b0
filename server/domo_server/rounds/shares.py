"""Whose model it is, where weights or steps follow from the samples that silos say they have."""

from collections.abc import Mapping

from domo.errors import ConfigError
from domo.run_config import RunConfig

MAX_SAMPLES = 10**12
"""More samples than this at one silo are a mistake, or a lie."""
MAX_STEPS = 2**31 - 1
"""Local steps that a round can ask for."""
MOST_SHARE = 0.9
"""Of all samples, or of all local steps, at one silo: more is said."""


def check_samples(config: RunConfig, silo_id: str, num_samples: int, num_eval_samples: int) -> None:
    """See that a silo can have as many samples as it says.

    Raises:
        ConfigError: It cannot.
    """
    if max(num_samples, num_eval_samples) > MAX_SAMPLES:
        raise ConfigError(
            f"{silo_id} says that it has {num_samples} training and {num_eval_samples} test "
            f"samples; more than {MAX_SAMPLES} cannot be right"
        )
    steps = num_samples and config.local_steps_list is None
    if steps and config.steps_at(0, silo_id, num_samples) > MAX_STEPS:
        raise ConfigError(
            f"with {num_samples} training samples {silo_id} would make more than {MAX_STEPS} "
            "local steps in a round"
        )


def about_shares(config: RunConfig, samples: Mapping[str, int]) -> str | None:
    """That one silo decides nearly alone what the model is, in words; None: none does.

    Nobody can see from outside how many samples a silo has: that is for people to judge.

    Args:
        config: The run.
        samples: Training samples by silo, of those that the run begins with.
    """
    if len(samples) < 2:
        return None
    most = max(samples, key=lambda silo_id: samples[silo_id])
    says = f"{config.title}: {most} says that it has {samples[most]} training samples"
    share = samples[most] / max(1, sum(samples.values()))
    if config.weights == "samples" and share > MOST_SHARE:
        return (
            f'{says}, {100 * share:.4g} % of all, and with weights = "samples" that is its share '
            "in every model: the others hardly count. Where it cannot be right, stop the run and "
            "give weights as a table, or uniform"
        )
    if not config.steps_by_samples:
        return None
    steps = {s: config.steps_at(0, s, num) for s, num in samples.items()}
    if steps[most] <= MOST_SHARE * sum(steps.values()):
        return None
    return (
        f"{says}, so that it makes {steps[most]} local steps in a round, where all others "
        f"together make {sum(steps.values()) - steps[most]}: how far the model moves in a round "
        "goes by the mean. Where it cannot be right, stop the run and give local_steps"
    )
