"""The command `domo-client`.

What needs torch is imported where it is used: a health check is asked every few seconds, and must
cost little.
"""

import json
import re
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from platformdirs import user_cache_path, user_state_path

from domo.console import friendly_errors, say, setup_logging
from domo.errors import ConfigError, CoordinatorUnavailableError
from domo_proto.channel import TlsFiles

if TYPE_CHECKING:
    import torch

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
    server: Annotated[
        str | None,
        typer.Option(envvar="DOMO_CLIENT_SERVER", help="The coordinator, host:port."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(envvar="DOMO_CLIENT_NAME", help=r"This silo's name \[this machine's name]."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_DATA", help="Folder of this silo's data.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_SHARD",
            help="i/K: train on part i of K of a public dataset instead (demos).",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(help=r"A task that may be trained here, repeatable \[the named ones]."),
    ] = None,
    device: Annotated[
        str, typer.Option(envvar="DOMO_CLIENT_DEVICE", help="auto, cpu, cuda, cuda:1.")
    ] = "auto",
    precision: Annotated[str, typer.Option(help="float32, or bf16 for autocast.")] = "float32",
    workers: Annotated[int, typer.Option(min=0, help="Loader processes.")] = 0,
    role: Annotated[str, typer.Option(help="trainer, or evaluator: test data only.")] = "trainer",
    state_dir: Annotated[
        Path | None,
        typer.Option(envvar="DOMO_CLIENT_STATE_DIR", help="What this silo remembers."),
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CA", help="CA of the coordinator.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CERT", help="Own certificate (mTLS).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_KEY", help="Its private key.")
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="DOMO_CLIENT_INSECURE",
            help="Speak without TLS to another machine, on a network you trust.",
        ),
    ] = False,
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
    options = AgentOptions(
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
        ) as silo:
            ui.joined(silo, server)
            outcome = run_agent(silo, options, ui, once=once)
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


def main() -> None:
    """Entry point."""
    with friendly_errors():
        app()
