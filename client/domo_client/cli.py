"""The command `domo-client`.

What needs torch is imported where it is used: a health check is asked every few seconds, and must
cost little.
"""

import json
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from platformdirs import user_cache_path, user_state_path

from domo.console import friendly_errors, say, setup_logging
from domo.errors import ConfigError, CoordinatorUnavailableError
from domo_client import options
from domo_proto.channel import TlsFiles

if TYPE_CHECKING:
    import torch

    from domo_client.checks import Setup

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
HEALTHY_S = 30.0


def host_name() -> str:
    """This machine's name as a silo name."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().split(".")[0])
    return name.strip("-._") or "silo"


def default_state(name: str) -> Path:
    """Where a silo of this name keeps its state."""
    return user_state_path("domo") / "silos" / name


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context,
    server: options.Server = None,
    name: options.Name = None,
    data: options.Data = None,
    shard: options.Shard = None,
    task: options.Task = None,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
    workers: options.Workers = 0,
    role: options.Role = "trainer",
    state_dir: options.StateDir = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    insecure: options.Insecure = False,
    compression: Annotated[
        str,
        typer.Option(
            envvar="DOMO_CLIENT_COMPRESSION", help="none, or zstd for links below about 1 Gbit/s."
        ),
    ] = "none",
    connect_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to try before the first connection.")
    ] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Stop after one run.")] = False,
) -> None:
    """Train one PyTorch model together with other silos; this silo's data stay here."""
    if context.invoked_subcommand is not None:
        return
    if server is None:
        raise ConfigError("which coordinator? Give --server host:port")
    import torch

    from domo_client.agent import AgentOptions, parse_device, parse_shard, run_agent
    from domo_client.session import connect
    from domo_client.ui import Ui

    setup_logging()
    silo_id = name or host_name()
    if role not in ("trainer", "evaluator"):
        raise ConfigError(f"--role must be trainer or evaluator, got {role!r}")
    if precision not in ("float32", "bf16"):
        raise ConfigError(f"--precision must be float32 or bf16, got {precision!r}")
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}: there is no such folder")
    where = parse_device(device)
    agent_options = AgentOptions(
        data=data,
        shard=parse_shard(shard),
        tasks=tuple(task or ()),
        device=where,
        autocast=torch.bfloat16 if precision == "bf16" else None,
        num_workers=workers,
        role=role,
        cache=user_cache_path("domo"),
    )
    tls = TlsFiles(tls_ca, tls_cert, tls_key) if tls_ca or tls_cert else None
    ui = Ui(["domo-client", *sys.argv[1:]])
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with connect(
            server,
            silo_id,
            state_dir=state_dir or default_state(silo_id),
            tls=tls,
            insecure=insecure,
            role=role,
            device=describe_device(where),
            first_connect_s=connect_timeout,
            on_trouble=ui.trouble,
            compression=compression,
        ) as silo:
            ui.joined(silo, server)
            outcome = run_agent(silo, agent_options, ui, once=once)
    except KeyboardInterrupt:
        say(f"{silo_id}: stopped")
        return
    if outcome is None:
        raise typer.Exit(2)  # declined: what this silo was given does not fit the run
    raise typer.Exit(0 if outcome.state == "FINISHED" else 1)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def describe_device(device: "torch.device") -> str:
    """For the dashboard: `cpu`, or the GPU's name."""
    import torch

    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


@app.command()
def health(
    name: Annotated[str | None, typer.Option(envvar="DOMO_CLIENT_NAME")] = None,
    state_dir: Annotated[Path | None, typer.Option(envvar="DOMO_CLIENT_STATE_DIR")] = None,
) -> None:
    """Exit 0 if the silo with this state folder was heard by its coordinator lately."""
    path = (state_dir or default_state(name or host_name())) / "status.json"
    if not path.exists():
        raise CoordinatorUnavailableError(f"no silo has run with the state folder {path.parent}")
    age = time.time() - path.stat().st_mtime
    if age > HEALTHY_S:
        raise CoordinatorUnavailableError(
            f"the coordinator last heard of this silo {age:.0f} s ago; see the silo's log"
        )
    say(f"heard {age:.0f} s ago: {json.loads(path.read_text(encoding='utf-8'))['phase']}")


@app.command()
def doctor(
    server: options.Server = None,
    name: options.Name = None,
    data: options.Data = None,
    shard: options.Shard = None,
    task: options.Task = None,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
    workers: options.Workers = 0,
    role: options.Role = "trainer",
    state_dir: options.StateDir = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    insecure: options.Insecure = False,
    dashboard: options.Dashboard = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Look at all that joining needs, and say what is wrong; joins nothing, changes nothing."""
    from domo_client.doctor import doctor as examine

    raise typer.Exit(examine(_setup(locals()), as_json))


@app.command()
def support_bundle(
    server: options.Server = None,
    name: options.Name = None,
    data: options.Data = None,
    shard: options.Shard = None,
    task: options.Task = None,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
    workers: options.Workers = 0,
    role: options.Role = "trainer",
    state_dir: options.StateDir = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    insecure: options.Insecure = False,
    dashboard: options.Dashboard = None,
    log: Annotated[Path | None, typer.Option(help="A log file; its last lines go in.")] = None,
    out: Annotated[Path | None, typer.Option(help="The archive to write.")] = None,
) -> None:
    """Write an archive for whoever helps you: what doctor finds, versions; no data, no keys."""
    from domo_client.support_bundle import write_bundle

    write_bundle(_setup(locals()), log, out)


def _setup(given: dict[str, Any]) -> "Setup":
    """The flags of doctor, for its checks; log lines as joining has them, but warnings only."""
    from domo_client.checks import Setup

    setup_logging(os.environ.get("DOMO_LOG_LEVEL") or "WARNING")
    silo_id = given["name"] or host_name()
    tls = TlsFiles(given["tls_ca"], given["tls_cert"], given["tls_key"])
    same = ("server", "data", "shard", "device", "precision", "workers", "role", "insecure")
    return Setup(
        name=silo_id,
        state_dir=given["state_dir"] or default_state(silo_id),
        tasks=tuple(given["task"] or ()),
        tls=None if tls == TlsFiles() else tls,
        dashboard=given["dashboard"],
        **{key: given[key] for key in same},
    )


def main() -> None:
    """Entry point."""
    with friendly_errors():
        app()
