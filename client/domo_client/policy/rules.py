"""The rules of a policy, one row each: what a run asks for, what this silo allows.

Every rule is told whether it refuses or not, so that an operator sees what a run is held against.
`verdicts` needs the run's configuration only, and is asked before the silo's data are opened.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from domo.ops.words import counted
from domo.run_config import RunConfig, batches_of_pass
from domo_client.policy.policy import Policy


class Verdict(NamedTuple):
    """What a rule says of a run.

    Attributes:
        rule: The key of the policy.
        asked: What the run has.
        allowed: What the policy has.
        ok: Whether that is within it.
    """

    rule: str
    asked: str
    allowed: str
    ok: bool

    def __str__(self) -> str:
        return f"{self.rule}: {self.asked}, and this silo's policy says {self.allowed}"


def refusal(found: Iterator[Verdict]) -> str:
    """What is said of a run where rules refuse it, all of them; empty: none does."""
    return "; ".join(str(verdict) for verdict in found if not verdict.ok)


def verdicts(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    """What the rules say of a run, as far as its configuration alone tells.

    Args:
        policy: This silo's.
        config: The run.
    """
    for rule in RULES:
        yield from rule(policy, config)


def of_data(policy: Policy, config: RunConfig, silo_id: str, samples: int) -> Iterator[Verdict]:
    """What they say once it is known how many samples there are.

    Args:
        policy: This silo's.
        config: The run.
        silo_id: This silo.
        samples: Its training data; 0: it only tests.
    """
    if not samples:
        return
    least = min(policy.min_batch, config.batch_size)
    yield _least("min_batch", samples, least, f"batches of {counted(samples, 'sample')}")
    steps = _steps_here(config, silo_id, samples)
    if steps:
        yield of_round(policy, config, min(steps), samples)
        yield from _at_most_steps(policy, max(steps))


def of_round(policy: Policy, config: RunConfig, steps: int, samples: int) -> Verdict:
    """Whether an update of so many steps is made of enough samples, or of whole passes."""
    made_of = min(steps * config.batch_size, samples)
    passes = steps >= batches_of_pass(samples, config.batch_size, config.drop_last)
    asked = f"updates of {counted(made_of, 'sample')} ({counted(steps, 'step')})"
    allowed = f"{policy.min_samples_per_update} or more, or whole passes"
    ok = passes or made_of >= policy.min_samples_per_update
    return Verdict("min_samples_per_update", asked, allowed, ok)


def _task(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if (tasks := policy.tasks) is not None:
        yield Verdict("tasks", config.task, _one_of(tasks), config.task in tasks)


def _method(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if (methods := policy.methods) is not None:
        yield Verdict("methods", config.method, _one_of(methods), config.method in methods)


def _batch(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    asked = f"batches of {counted(config.batch_size, 'sample')}"
    yield _least("min_batch", config.batch_size, policy.min_batch, asked)


def _samples(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if steps := _listed_steps(config):
        samples, least = min(steps) * config.batch_size, policy.min_samples_per_update
        asked = f"updates of {counted(samples, 'sample')} ({counted(min(steps), 'step')})"
        allowed = f"{least} or more, or local_epochs >= 1"
        yield Verdict("min_samples_per_update", asked, allowed, samples >= least)


def _silos(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    silos = _fewest_silos(config)
    yield _least("min_silos", silos, policy.min_silos, f"rounds of {counted(silos, 'silo')}")


def _steps(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if steps := _listed_steps(config):
        yield from _at_most_steps(policy, max(steps))


def _step_size(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if policy.max_step_size is not None:
        eta = max(config.local_lrs or (config.local_lr,))
        yield _most("max_step_size", eta, policy.max_step_size, f"a step size of {eta:g}")


def _rounds(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if policy.max_rounds is not None:
        rounds = config.num_rounds
        yield _most("max_rounds", rounds, policy.max_rounds, counted(rounds, "round"))


def _threads(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    if policy.max_threads is not None:
        asked = counted(config.threads, "CPU thread")
        yield _most("max_threads", config.threads, policy.max_threads, asked)


def _clip(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    """Clipping and noise are of the update: a second vector beside it would go around them."""
    if policy.clip is not None:
        second = " with an averaged momentum" if config.kernel.average else ""
        asked = f"updates of {config.method}{second}"
        yield Verdict("clip", asked, "one vector, which is clipped here", not second)


RULES: Sequence[Callable[[Policy, RunConfig], Iterator[Verdict]]] = (
    _task, _method, _batch, _samples, _silos, _steps, _step_size, _rounds, _threads, _clip,
)  # fmt: skip


def _listed_steps(config: RunConfig) -> list[int]:
    """Numbers of steps that a configuration names; none where they follow from the data."""
    if config.local_steps_list is not None:
        entries = (e.values() if isinstance(e, dict) else [e] for e in config.local_steps_list)
        return [p for entry in entries for p in entry]
    return [] if config.local_steps is None else [config.local_steps]


def _steps_here(config: RunConfig, silo_id: str, samples: int) -> set[int]:
    """Numbers of steps that rounds ask of a silo."""
    if config.local_steps_list is None:
        return {config.steps_at(0, silo_id, samples)}
    entries = [{silo_id: e} if isinstance(e, int) else e for e in config.local_steps_list]
    return {entry[silo_id] for entry in entries if silo_id in entry}


def _fewest_silos(config: RunConfig) -> int:
    """The fewest silos whose updates may make a model."""
    listed = [len(set(silos)) for silos in config.participants or ()]
    all_of_them = config.expected_silos
    fewest = min([config.participation or all_of_them, all_of_them, *listed])
    if config.on_missing == "proceed" and config.min_silos is not None:
        fewest = min(fewest, config.min_silos)
    return fewest


def _at_most_steps(policy: Policy, steps: int) -> Iterator[Verdict]:
    if policy.max_steps is not None:
        asked = counted(steps, "step") + " in a round"
        yield _most("max_steps", steps, policy.max_steps, asked)


def _least(rule: str, value: float, least: float, asked: str) -> Verdict:
    return Verdict(rule, asked, f"{least:g} or more", value >= least)


def _most(rule: str, value: float, most: float, asked: str) -> Verdict:
    return Verdict(rule, asked, f"{most:g} at most", value <= most)


def _one_of(names: Sequence[str]) -> str:
    return f"only {', '.join(names)}" if names else "none"
