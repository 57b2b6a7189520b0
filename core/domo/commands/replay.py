"""`domo simulate --replay`: a run that a coordinator has recorded, run again with the same bytes.

The record is the `history.json` that REST serves. It holds the configuration, the frozen roster and
who took part in each committed round, so a run that went on without some silos is repeated too.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel

from domo.api.client import DASHBOARD
from domo.api.transport import Rest
from domo.commands.run_flags import check_device
from domo.commands.simulate import run_and_keep
from domo.errors import ConfigError, ReplayError
from domo.names import one_line, plain
from domo.ops.config_file import validate
from domo.ops.console import say
from domo.ops.words import counted
from domo.remote.token import reader
from domo.remote.which import find_run
from domo.run_config import RunConfig
from domo.simulated import SimulationResult
from domo.simulating.visit import SimulatedSilo
from domo.tasks import check_named
from domo.tasks.base import Shard
from domo.training.initial import task_of
from domo.trial import load_silo

TIMEOUT_S = 60.0


Line = Annotated[str, AfterValidator(one_line)]
"""A record may be of anybody."""


class RecordedPart(BaseModel):
    """A silo's part in a round."""

    silo_id: Line
    weight: float
    num_steps: int


class RecordedRound(BaseModel):
    """A round."""

    round_index: int
    state: Line
    participants: tuple[RecordedPart, ...]


class RecordedRun(BaseModel):
    """What is used of a run's record."""

    run_id: Line
    config: RunConfig
    roster: tuple[Line, ...]
    rounds_done: int
    checkpoint_digest: Line | None = None


class Recording(BaseModel):
    """What is used of history.json."""

    run: RecordedRun
    rounds: tuple[RecordedRound, ...]

    @property
    def committed(self) -> tuple[RecordedRound, ...]:
        """The rounds that made x_r of the record; further ones may follow in it."""
        return self.rounds[: self.run.rounds_done]


class SiloData(NamedTuple):
    """Where a silo's data are.

    Attributes:
        root: A folder.
        shard: (index, number of parts) of the public dataset in it; None: the silo's own data.
    """

    root: Path
    shard: tuple[int, int] | None

    def of(self, config: RunConfig) -> Shard | None:
        """The shard as the run splits the dataset."""
        return None if self.shard is None else Shard(*self.shard, config.similarity, config.seed)


def replay_run(
    source: str,
    root: Path,
    prefix: str,
    own: Sequence[str],
    initial_model: Path | None,
    device: str,
    out: Path | None,
    named: str | None = None,
    processes: int | None = None,
) -> SimulationResult:
    """Run a recorded run again and compare the bytes.

    Args:
        source: history.json, a file or a URL.
        root: Where public datasets lie.
        prefix: The silo PREFIXi holds shard i.
        own: `NAME=DIR` for silos with data of their own.
        initial_model: x_0, where the run was given one.
        device: Where silos compute.
        out: Folder for what is made; `runs/replay-RUN` by default.
        named: The task of one's own that may be imported, as the operator has named it.
        processes: Of the silos; None: as many as pay.

    Raises:
        ConfigError: The record cannot be read, or the data are not those of the run.
        ReplayError: The run ends with other bytes.
    """
    check_device(device)
    record = read_recording(source)
    run, rounds = record.run, record.committed
    check_named(run.config.task, named, f"domo simulate --replay {source}")
    config = with_initial_model(run.config, initial_model)
    task = task_of(config)
    data = find_data(run.roster, root, prefix, own)
    silos = [load_silo(task, name, data[name].root, data[name].of(config)) for name in run.roster]
    check_parts(config, rounds, silos)
    full = sum(len(r.participants) == len(run.roster) for r in rounds)
    say(
        f"{run.run_id}: {config.method} on {config.task}, {counted(len(silos), 'silo')}, "
        f"{len(rounds)} of {config.num_rounds} rounds as they were recorded, {full} of them with "
        "all silos"
    )
    parts = [[p.silo_id for p in r.participants] for r in rounds]
    folder = out or Path("runs") / f"replay-{plain(run.run_id)}"
    result = run_and_keep(config, task, silos, device, folder, parts, processes=processes)
    ours, theirs, r = result.checkpoint_digest, run.checkpoint_digest, len(rounds)
    if theirs is None:
        say(f"the record has no checkpoint_digest to compare with; here it is {ours}")
    elif theirs != ours:
        raise ReplayError(
            f"other bytes: the checkpoint x_{r}, m_{r} of {run.run_id} has the digest {theirs}, "
            f"here it is {ours}. Are data, initial model, torch and kind of device those of the "
            "run?"
        )
    else:
        say(f"same bytes: x_{r}, m_{r} and all else in the checkpoint of {run.run_id} ({ours})")
    return result


def read_recording(source: str) -> Recording:
    """Read a record.

    Args:
        source: A file, a URL such as http://127.0.0.1:8080/api/v1/runs/1-r/history.json, or a run
            at the coordinator of DOMO_SERVER.

    Raises:
        ConfigError: It cannot be read, is no history.json, or no round of it is committed.
        NotFoundError: The coordinator at the URL has no such run.
        CoordinatorUnavailableError: Nobody answers at the URL, or it cannot for the moment.
    """
    try:
        body = json.loads(_read(source))
    except (ValueError, RecursionError):
        raise ConfigError(f"--replay {source}: not JSON") from None
    if not isinstance(body, dict) or not {"run", "rounds"} <= set(body):
        raise ConfigError(
            f"--replay {source}: not the history.json of a coordinator's run. Give the run itself, "
            "by number or name, where its coordinator runs (DOMO_SERVER)"
        )
    record = validate(Recording, body, source)
    rounds = record.committed
    if not rounds:
        raise ConfigError(f"--replay {source}: no round of {record.run.run_id} is committed")
    good = [r.round_index == i and r.state == "COMMITTED" for i, r in enumerate(rounds)]
    if not all(good) or len(rounds) < record.run.rounds_done:
        raise ConfigError(f"--replay {source}: the record lacks committed rounds")
    return record


def _fetch(rest: Rest, url: str) -> bytes:
    with rest, rest.faults():
        answer = rest.http.get(url)
        rest.check(answer)
        return answer.content


def _read(source: str) -> bytes:
    """The record: of a URL, of a file, or of a run at the coordinator of DOMO_SERVER."""
    if "://" in source:
        return _fetch(Rest(source, timeout_s=TIMEOUT_S), source)  # with no token: it is anybody's
    path = Path(source)
    if not path.exists() and path.suffix != ".json" and len(path.parts) == 1:
        at = reader(os.environ.get("DOMO_SERVER") or DASHBOARD, timeout_s=TIMEOUT_S)
        return _fetch(at, at.api(f"/runs/{find_run(at, source)}/history.json"))
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--replay {path}: cannot be read: {error.strerror}") from None


def with_initial_model(config: RunConfig, path: Path | None) -> RunConfig:
    """The run with the file of x_0 as it lies here.

    Raises:
        ConfigError: The run was given x_0, and there is no such file here.
    """
    if path is None and config.initial_model is not None:
        path = Path(config.initial_model)
    if path is None:
        return config
    if not path.is_file():
        raise ConfigError(
            f"the run began with the model in {path}, which is not here: give --initial-model "
            "FILE. The coordinator keeps it as runs/RUN/x0.safetensors in its state folder"
        )
    return config.model_copy(update={"initial_model": str(path)})


def find_data(
    roster: Sequence[str], root: Path, prefix: str, own: Sequence[str]
) -> Mapping[str, SiloData]:
    """Where each silo's data are: its own folder, or its shard of the public dataset.

    The silo PREFIXi holds shard i if the whole roster is named so; else a silo's place in the
    roster is its shard.

    Raises:
        ConfigError: An entry of `own` is not NAME=DIR, or names no silo of the roster.
    """
    numbers = [name.removeprefix(prefix) for name in roster]
    count = [str(i) for i in range(len(roster))]
    by_name = sorted(numbers) == sorted(count) and all(s.startswith(prefix) for s in roster)
    data = {}
    for place, name in enumerate(roster):
        index = int(numbers[place]) if by_name else place
        data[name] = SiloData(root, (index, len(roster)))
    for text in own:
        name, equals, where = text.partition("=")
        if not equals or name not in data:
            known = ", ".join(roster)
            raise ConfigError(f"--silo-data {text!r}: must be NAME=DIR, NAME being one of {known}")
        shard = re.fullmatch(r"(\d+)/(\d+)", where)
        if shard is not None:
            data[name] = SiloData(root, (int(shard[1]), int(shard[2])))
        else:
            data[name] = SiloData(Path(where), None)
    return data


def check_parts(
    config: RunConfig, rounds: Sequence[RecordedRound], silos: Sequence[SimulatedSilo]
) -> None:
    """See that silos would have the weights and steps that are recorded.

    Raises:
        ConfigError: Other data than the run had.
    """
    samples = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    for r, recorded in enumerate(rounds):
        for p in recorded.participants:
            if p.silo_id not in samples:
                raise ConfigError(f"round {r + 1} has {p.silo_id} in it, who is not on the roster")
            n = samples[p.silo_id]
            steps, weight = config.steps_at(r, p.silo_id, n), config.weight_of(p.silo_id, n)
            if (steps, weight) != (p.num_steps, p.weight):
                raise ConfigError(
                    f"{p.silo_id} made {p.num_steps} steps with weight {p.weight:g} in round "
                    f"{r + 1}; with the data here, {n} samples, it would make {steps} with weight "
                    f"{weight:g}. Give the data that it had: --silo-data {p.silo_id}=DIR"
                )
