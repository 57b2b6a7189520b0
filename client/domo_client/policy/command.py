"""`domo-client policy`, `approve` and `refuse`: what this silo allows, and who says so."""

import getpass
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_json

from domo.errors import ConfigError
from domo.ops.command_app import make_app
from domo.ops.config_file import load_runs, validate
from domo.ops.console import say
from domo.ops.exit_codes import MISUSE
from domo.run_config import RunConfig
from domo_client.identity.choice import chosen, default_state, host_name
from domo_client.policy.approval import Approvals, Asked
from domo_client.policy.policy import Chosen, Policy
from domo_client.policy.rules import Verdict, verdicts

WIDTH = 78
app = make_app("policy", "What this silo lets a coordinator do with its data.")
Name = Annotated[
    str | None,
    typer.Option(envvar="DOMO_CLIENT_NAME", help="The silo's name [default: this machine's name]."),
]
StateDir = Annotated[
    Path | None,
    typer.Option(envvar="DOMO_CLIENT_STATE_DIR", help="Its state folder [default: by name]."),
]
Given = Annotated[
    str | None,
    typer.Option(
        "--policy",
        envvar="DOMO_CLIENT_POLICY",
        help="A file, default, or open [default: policy.toml in the state folder, else default].",
    ),
]
RunId = Annotated[str | None, typer.Argument(metavar="RUN", help="Its id.", show_default=False)]


def state_folder(name: str | None, state_dir: Path | None) -> Path:
    """The state folder that is meant: the one given, that of a name, or of the only identity."""
    if state_dir is None and name is None and (kept := chosen(None, None)) is not None:
        return kept.folder
    return state_dir or default_state(name or host_name())


@app.command()
def explain(given: Given = None, name: Name = None, state_dir: StateDir = None) -> None:
    """Print the policy that applies, as a policy.toml with a word on each setting."""
    found = Chosen.of(given, state_folder(name, state_dir))
    say(f"# This silo's policy: {found.source}.")
    for line in as_toml(found.policy):
        say(line)


def as_toml(policy: Policy) -> Iterator[str]:
    """A policy as a file; what is left open is a comment."""
    for key, field in Policy.model_fields.items():
        yield ""
        for line in textwrap.wrap(" ".join((field.description or "").split()), WIDTH):
            yield f"# {line}"
        value = getattr(policy, key)
        yield f"# {key} =" if value is None else f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    """JSON of these types is TOML."""
    return to_json(value).decode()


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="RUN", help="A file with [[runs]], as the coordinator has it.")
    ],
    given: Given = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    """Hold runs against the policy: what each rule says, the model's digest, its first weights."""
    found = Chosen.of(given, state_folder(name, state_dir))
    say(f"policy: {found.source}")
    refused = False
    for i, data in enumerate(load_runs(file)):
        config = validate(RunConfig, data, file, at=f"runs[{i}]")
        say(f"run {config.title}: {config.method} on {config.task}")
        shown = [*verdicts(found.policy, config), *_of_model(found.policy, config)]
        for verdict in shown:
            mark = "ok     " if verdict.ok else "refused"
            say(f"  {mark} {verdict.rule}: {verdict.asked} ({verdict.allowed})")
        refused = refused or not all(verdict.ok for verdict in shown)
    say("what depends on this silo's data is looked at when a run is offered")
    if refused:
        raise typer.Exit(MISUSE)


def _of_model(policy: Policy, config: RunConfig) -> Iterator[Verdict]:
    """What is seen of a run's model, as this silo's code builds it."""
    from domo.model.layout import Section
    from domo.training.initial import initial_of, task_of
    from domo_client.policy.gate import sha256_of

    try:
        layout, vectors = initial_of(config, task_of(config))
    except Exception as error:  # a task's own code, which may not be here
        yield Verdict(
            "layouts", f"the model cannot be built here ({type(error).__name__})", "", True
        )
        return
    listed, digest = policy.layouts, sha256_of(vectors[Section.TRAINABLE])
    ok = listed is None or layout.digest in listed
    yield Verdict("layouts", layout.digest, "any" if listed is None else "a list", ok)
    seeded = config.initial_model is None and "seed" in (policy.x0 or ())
    ok = policy.x0 is None or digest in policy.x0 or seeded
    yield Verdict("x0", digest, "any" if policy.x0 is None else "a list", ok)


def approve(
    run_id: RunId = None,
    name: Name = None,
    state_dir: StateDir = None,
    by: Annotated[str | None, typer.Option(help="Who says so [default: this user].")] = None,
) -> None:
    """Let a run begin that waits for it (approve = "ask"); without RUN, list those that wait."""
    _say("yes", run_id, name, state_dir, by, "")


def refuse(
    run_id: RunId = None,
    name: Name = None,
    state_dir: StateDir = None,
    by: Annotated[str | None, typer.Option(help="Who says so [default: this user].")] = None,
    why: Annotated[str, typer.Option(help="For this silo's record; it is not sent.")] = "",
) -> None:
    """Decline a run that waits to be approved; without RUN, list those that wait."""
    _say("no", run_id, name, state_dir, by, why)


def _say(
    answer: Any,
    run_id: str | None,
    name: str | None,
    state_dir: Path | None,
    by: str | None,
    why: str,
) -> None:
    approvals = Approvals(state_folder(name, state_dir))
    if run_id is None:
        waiting = list(approvals.waiting())
        for asked in waiting:
            _show(asked)
        if not waiting:
            say("no run waits to be approved")
        return
    asked = approvals.asked(run_id)
    _show(asked)
    approvals.say(run_id, answer, by or _user(), why)
    say(f"run {run_id}: {'approved' if answer == 'yes' else 'refused'}")


def _show(asked: Asked) -> None:
    settings = ", ".join(f"{k} = {_toml(v)}" for k, v in asked.config.items())
    say(f"run {asked.run_id}: {settings}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError("this user has no name here: give --by NAME") from None
