"""The command `domo-client`.

What needs torch is imported where it is used: a health check is asked every few seconds, and must
cost little.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domo.errors import ConfigError, CoordinatorUnavailableError
from domo.ops.command_app import CheckLimit, Version, make_app
from domo.ops.console import complain, friendly_errors, go_on_without_log, say
from domo.ops.exit_codes import FAULT, MISUSE, OF_STATES
from domo.ops.logs import log_context, setup_logging
from domo.ops.terminal import at_hangup, fill_closed, has_terminal, output_may_be_lost
from domo.outside.text import Public
from domo.stages.stopping import end_soon, send_again, stops
from domo.storage.home import user_cache
from domo_client.audit_command import app as audit
from domo_client.flags import Dashboard, Flags, takes_flags
from domo_client.identity.choice import chosen, default_state, host_name, settled
from domo_client.identity.command import enroll
from domo_client.operator_signals import hang_up, listen
from domo_client.policy.command import app as policies
from domo_client.policy.command import approve, refuse

if TYPE_CHECKING:
    import torch

    from domo_client.doctor.checks import Setup

app = make_app("domo-client")
app.command()(enroll)
app.add_typer(policies)
app.add_typer(audit)
app.command()(approve)
app.command()(refuse)
HEALTHY_S, HEALTHY_BEATS = 30.0, 3
"""A silo is well that was heard so many seconds ago, or so many of its heartbeats."""
AGAIN_S = 0.05
"""Until an interrupt that was lost comes again."""
SHARED = (
    "the coordinator sees: updates, numbers of samples, sums of test metrics, phase, errors, "
    "memory and disk; "
)
LOG_TOO = "and domo's own log lines (--share-log)"
LOG_STAYS = "log lines stay here (--share-log would send domo's own)"


@app.callback(invoke_without_command=True)
@takes_flags
def main_command(
    context: typer.Context,
    flags: Flags,
    version: Version = False,
) -> None:
    """Train one PyTorch model together with other silos; this silo's data stay here."""
    os.umask(0o077)  # what it remembers, draws of the data, and what its task leaves, is its user's
    if context.invoked_subcommand is not None:
        return
    go_on_without_log()
    setup_logging(form=flags.log_format, said=True)
    flags = settled(flags)
    if flags.server is None:
        raise ConfigError(
            "which coordinator? Give --server host:port, or enrol this silo: domo-client enroll"
        )
    if flags.role not in ("trainer", "evaluator"):
        raise ConfigError(f"--role must be trainer or evaluator, got {flags.role!r}")
    if flags.precision not in ("float32", "bf16"):
        raise ConfigError(f"--precision must be float32 or bf16, got {flags.precision!r}")
    if flags.data is not None and not os.path.isdir(flags.data):  # noqa: PTH112 - no error of a disk
        if flags.once:
            raise ConfigError(f"--data {flags.data}: there is no such folder")
        complain(
            f"--data {flags.data}: there is no such folder (yet). This silo joins and looks again "
            "for each run that wants it. Ctrl-C ends it; or give another --data",
            "yellow",
        )
    if flags.tls is not None:
        from domo_client.policy.greeting import greet

        greet(flags.server, flags.tls, flags)
    import torch  # after what is wrong without it

    from domo_client.agent import run_agent
    from domo_client.given import check_workers, parse_device, parse_shard
    from domo_client.leftovers import give_back
    from domo_client.loop.connect import connect
    from domo_client.loop.silo import Silo
    from domo_client.observe.messages import Ui, certificate_note
    from domo_client.observe.prometheus import SiloMetrics
    from domo_client.work import AgentOptions

    silo_id = flags.name or host_name()
    log_context(silo=silo_id)
    where = parse_device(flags.device)
    check_workers(flags.workers)
    agent_options = AgentOptions(
        data=flags.data,
        shard=parse_shard(flags.shard),
        tasks=tuple(flags.task or ()),
        device=where,
        autocast=torch.bfloat16 if flags.precision == "bf16" else None,
        num_workers=flags.workers,
        role=flags.role,
        cache=user_cache(),
    )
    ui = Ui(["domo-client", *sys.argv[1:]], lambda: certificate_note(flags.tls))
    heed_sigterm()
    at_hand: list[Silo] = []

    def goodbye(text: str) -> None:
        """What is said where this process has to be ended by force."""
        say(f"{silo_id}: {text}")
        ui.stopped(silo_id)
        for silo in at_hand:
            silo.connection.session.close(Public("stopped by its operator"))

    at_hangup(hang_up, serves=True)
    with output_may_be_lost():
        try:
            with stops(goodbye, hangs_up=has_terminal()), ExitStack() as ending:
                metrics = None
                if flags.metrics is not None:
                    metrics = ending.enter_context(SiloMetrics(flags.metrics, flags.tls))
                silo = connect(
                    flags.server,
                    silo_id,
                    state_dir=flags.state_dir or default_state(silo_id),
                    tls=flags.tls,
                    insecure=flags.insecure,
                    role=flags.role,
                    device=describe_device(where),
                    first_connect_s=flags.connect_timeout,
                    on_trouble=ui.trouble,
                    compression=flags.compression,
                    share_log=flags.share_log,
                    max_threads=flags.max_threads,
                    moved_from=flags.moved_from or "",
                    policy=flags.policy,
                    public_data=flags.shard is not None,
                    on_stuck=ui.stuck,
                )
                ending.enter_context(silo)
                at_hand.append(silo)
                if metrics is not None:
                    metrics.watch(silo)
                    say(f"{silo_id}: metrics at {metrics.url}")
                ending.enter_context(ui)
                ui.joined(
                    silo,
                    silo.connection.session.address,
                    SHARED + (LOG_TOO if flags.share_log else LOG_STAYS),
                )
                outcome = run_agent(silo, agent_options, ui, once=flags.once, after_run=give_back)
        except KeyboardInterrupt:
            ui.stopped(silo_id)
            return
    if outcome is None:
        raise typer.Exit(MISUSE)  # declined: what this silo was given does not fit the run
    raise typer.Exit(OF_STATES.get(outcome.state, FAULT))


def heed_sigterm() -> None:
    """SIGTERM ends what is under way as Ctrl-C does, and neither is lost in a destructor.

    Python ignores what a `__del__` raises, also the interrupt that came while it waited: torch's
    loader waits in its own for its processes. Such an interrupt is sent once more.
    """
    listen()
    sys.unraisablehook = _interrupt_again


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        threading.Timer(AGAIN_S, send_again, (signal.SIGTERM,)).start()
    else:
        sys.__unraisablehook__(ignored)


def describe_device(device: "torch.device") -> str:
    """For the dashboard: `cpu`, or the GPU's name."""
    import torch

    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


@app.command()
def health(
    name: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_NAME", help="The silo's name [default: this machine's name]."
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(envvar="DOMO_CLIENT_STATE_DIR", help="Its state folder [default: by name]."),
    ] = None,
) -> None:
    """Exit 0 if the silo with this state folder was heard by its coordinator lately."""
    if name is None and state_dir is None and (kept := chosen(None, None)) is not None:
        state_dir = kept.folder
    path = (state_dir or default_state(name or host_name())) / "status.json"
    if not path.exists():
        raise CoordinatorUnavailableError(f"no silo has run with the state folder {path.parent}")
    age = time.time() - path.stat().st_mtime
    told = json.loads(path.read_text(encoding="utf-8"))
    if age > max(HEALTHY_S, HEALTHY_BEATS * told.get("next_s", 0.0)):
        raise CoordinatorUnavailableError(
            f"the coordinator last heard of this silo {age:.0f} s ago; see the silo's log"
        )
    say(f"heard {age:.0f} s ago: {told['phase']}")


@app.command()
@takes_flags
def doctor(
    flags: Flags,
    dashboard: Dashboard = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For scripts and tickets: names no file of the data.")
    ] = False,
    names: Annotated[
        bool, typer.Option("--names", help="With --json: names of files too, as without it.")
    ] = False,
    look: Annotated[
        Path | None,
        typer.Option(
            help="Draw some inputs with their classes, as the model will see them: a PNG."
        ),
    ] = None,
    limit: CheckLimit = None,
) -> None:
    """Look at all that joining needs, and say what is wrong; joins nothing, changes nothing."""
    from domo_client.doctor.doctor import doctor as examine

    if names and not as_json:
        raise ConfigError("--names belongs to --json: without it names are always shown")
    raise typer.Exit(examine(_setup(flags, dashboard, look), as_json, limit, names))


def _setup(flags: Flags, dashboard: str | None, look: Path | None) -> "Setup":
    """The flags of doctor, for its checks; log lines as joining has them, but warnings only."""
    from domo_client.doctor.checks import Setup

    setup_logging(os.environ.get("DOMO_LOG_LEVEL") or "WARNING")
    if not os.environ.get("DOMO_LOG_LEVEL"):
        logging.getLogger("domo.tasks").setLevel(logging.ERROR)  # its warnings are findings
    flags = settled(flags)
    silo_id = flags.name or host_name()
    state_dir = flags.state_dir
    if state_dir is None:
        with suppress(ConfigError):  # no home: a finding
            state_dir = default_state(silo_id)
    return Setup(
        server=flags.server,
        name=silo_id,
        state_dir=state_dir,
        data=flags.data,
        shard=flags.shard,
        tasks=tuple(flags.task or ()),
        device=flags.device,
        precision=flags.precision,
        workers=flags.workers,
        role=flags.role,
        tls=flags.tls,
        insecure=flags.insecure,
        compression=flags.compression,
        dashboard=dashboard,
        look=look,
        policy=flags.policy,
    )


def main() -> None:
    """Entry point."""
    fill_closed()
    try:
        with friendly_errors():
            app()
    finally:
        end_soon(complain)
