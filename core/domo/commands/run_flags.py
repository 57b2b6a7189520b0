"""What `domo simulate` is asked for: its flags, and a run of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from domo.batched.how import EXACT
from domo.errors import ConfigError
from domo.ops.config_file import load_runs, validate
from domo.ops.words import typed
from domo.run_config import RunConfig
from domo.trial import DEFAULTS, PREFIX, laid_over

FLAGS = {
    "num_rounds": "--rounds",
    "num_silos": "--silos",
    "local_lr": "--lr",
    **{
        key: "--" + key.replace("_", "-")
        for key in (
            "task",
            "method",
            "similarity",
            "seed",
            "lr_milestones",
            "local_epochs",
            "local_steps",
            "batch_size",
            "drop_last",
            "server_momentum",
            "local_momentum",
            "fusion_coef",
            "server_lr",
            "weight_decay",
            "participation",
            "weights",
            "threads",
        )
    },
}
"""The keys of a run that have a flag."""
USUAL = {
    "jobs": 1,
    "device": "cpu",
    "silo_name_prefix": PREFIX,
    "mode": EXACT.mode,
    "precision": EXACT.precision,
}
"""Other flags that mean nothing where they say what is so anyway."""


def make_config(flags: Mapping[str, Any], path: Path | None, run: str | None) -> RunConfig:
    """The run that flags and a file ask for; a flag wins over the file, both over the demo.

    Args:
        flags: Keys of `RunConfig` to values; None where a flag was not given.
        path: TOML file with `[[runs]]`.
        run: The name of the entry; not needed where there is one.

    Raises:
        ConfigError: Something is wrong; names the file or flag, and says what is allowed.
    """
    given = {k: v for k, v in flags.items() if v is not None}
    entry, at = find_run(path, run) if path else ({}, "")
    if path:
        validate(RunConfig, entry, path, at=at)  # so that its faults are told as the file's
    wanted = laid_over(laid_over(DEFAULTS, entry), given)
    return validate(RunConfig, wanted, "the command line", names=FLAGS)


def refuse_beside_replay(flags: Mapping[str, Any], beside: Mapping[str, Any]) -> None:
    """See that nothing describes a run that is recorded; `task` only says which code may run.

    Raises:
        ConfigError: Names the first flag that does.
    """
    given = [FLAGS[k] for k, v in flags.items() if v is not None and k != "task"]
    given += [f"--{name}" for name, value in beside.items() if value not in (None, USUAL.get(name))]
    if given:
        raise ConfigError(f"--replay takes the run as it is recorded: leave out {given[0]}")


def typed_again(flags: Mapping[str, Any], **others: Any) -> str:
    """`domo simulate` with what it was given, as somebody types it.

    Args:
        flags: As in `make_config`.
        others: Further flags; None, False or as in `USUAL`: not given, True: one without a value.
    """
    given = {FLAGS[key].lstrip("-"): value for key, value in flags.items()}
    given |= {n: v for n, v in others.items() if v is True or v != USUAL.get(n)}
    shown = {
        name.replace("-", "_"): ",".join(f"{v:g}" for v in value)
        if isinstance(value, tuple)
        else value
        for name, value in given.items()
        if value is not None and value is not False and value is not True
    }
    bare = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is True]
    return " ".join([typed("domo", "simulate", **shown), *bare])


def find_run(path: Path, name: str | None) -> tuple[dict[str, Any], str]:
    """One entry of `[[runs]]` and where it lies.

    Raises:
        ConfigError: No entry, none of that name, or several and no name.
    """
    runs = load_runs(path)
    names = [str(r.get("name", f"number {i}")) for i, r in enumerate(runs)]
    known = f"{path} has the runs {', '.join(names)}"
    if name is None and len(runs) > 1:
        raise ConfigError(f"{known}: choose one with --run NAME")
    if name is not None and name not in names:
        raise ConfigError(f"{known}, and no run {name!r}")
    i = names.index(name) if name is not None else 0
    return runs[i], f"runs[{i}]"


def parse_numbers(flag: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas; None where the flag is not given.

    Raises:
        ConfigError: Not numbers.
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(f"{flag} {text!r}: needs numbers separated by commas") from None


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds separated by commas.

    Raises:
        ConfigError: Not numbers, below 0, or one of them twice.
    """
    words = [word.strip() for word in text.split(",")]
    seeds = tuple(int(word) for word in words if word.isdecimal())
    if len(seeds) < len(words) or len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text!r}: give numbers from 0 up, each once, such as 0,1,2")
    return seeds


def num_processes(processes: int | None, jobs: int, on: str | None, compares: bool) -> int | None:
    """Processes for the silos of each run; None: as many as pay. Compared runs have one each.

    Args:
        processes: As it was asked for.
        jobs: Processes for runs.
        on: Where else runs are computed.
        compares: Whether there are several runs.

    Raises:
        ConfigError: Two flags share the same cores out, or one has nothing to share out.
    """
    if on is not None and not compares:
        raise ConfigError("--on is for several runs: give it with --compare or --seeds")
    if on is not None and jobs > 1:
        raise ConfigError("--jobs and --on both say where runs are computed: give one")
    if compares and processes is not None and jobs > 1:
        raise ConfigError(
            "--jobs shares the runs of a comparison out, --processes the silos of a run: give one"
        )
    return (processes or 1) if compares else processes


def check_device(name: str) -> None:
    """See that torch can use a device.

    Raises:
        ConfigError: It cannot; says why.
    """
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--device {name}: {reason}") from None
