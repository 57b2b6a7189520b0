"""The command `domo-server`.

What needs torch is imported where it is used: a health check is asked every few seconds, and must
cost little.
"""

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import grpc
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc

from domo.errors import (
    ConfigError,
    CoordinatorUnavailableError,
    PortError,
    StateError,
    UnknownSiloError,
)
from domo.ops.addresses import is_loopback
from domo.ops.command_app import CheckLimit, Version, make_app
from domo.ops.console import confirm, console, friendly_errors, go_on_without_log, say
from domo.ops.exit_codes import DONE, OF_STATES
from domo.ops.logs import setup_logging
from domo.ops.terminal import fill_closed, output_may_be_lost
from domo.ops.words import typed
from domo.storage.home import user_state
from domo_proto.channel import TlsFiles, make_channel
from domo_proto.errors import from_rpc
from domo_server.events.commands import app as audit
from domo_server.identity.commands import identity_app, pki_app
from domo_server.people.commands import login, session_app, token_app
from domo_server.pki_files import pki_of

if TYPE_CHECKING:
    from domo_server.config import ServerConfig
    from domo_server.startup import Started

app = make_app("domo-server")
app.add_typer(token_app, name="token")
app.add_typer(session_app, name="session")
app.add_typer(audit)
app.command()(login)

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="federation.toml: [server] and [[runs]].")
]
HEALTH_S = 5.0
"""How long `domo-server health` waits for an answer."""
CODES = ((PortError, 7), (StateError, 8))
"""Exit codes of a coordinator that cannot start, beside those of all programs."""
StateDir = Annotated[Path | None, typer.Option(help="Runs, checkpoints, database, admin token.")]


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context,
    config: Config = None,
    listen: Annotated[
        str | None, typer.Option(help="host:port for silos [default: 127.0.0.1:50051].")
    ] = None,
    dashboard: Annotated[
        str | None, typer.Option(help="host:port for REST and the page [default: 127.0.0.1:8080].")
    ] = None,
    state_dir: StateDir = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Allow silos without TLS on a network you trust."),
    ] = None,
    exit_when_done: Annotated[
        bool,
        typer.Option(
            "--exit-when-done",
            help="Stop when all runs of the file have ended; exit 3: one failed, 4: stopped.",
        ),
    ] = False,
    log_format: Annotated[
        str | None,
        typer.Option(envvar="DOMO_LOG", help="text, or json for machines [default: text]."),
    ] = None,
    version: Version = False,
) -> None:
    """Coordinate federated training: serve models to silos, and show what happens."""
    os.umask(0o077)  # what it keeps is its user's, whichever of its commands has made it
    if context.invoked_subcommand is not None:
        return
    from domo_server.config import load_config

    flags = {
        "listen": listen,
        "dashboard": dashboard,
        "state_dir": state_dir,
        "insecure": insecure,
    }
    go_on_without_log()
    form = setup_logging(form=log_format, said=True)
    for chatty in ("uvicorn", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    settings, runs = load_config(config, flags)
    from domo_server.app import serve

    def started(where: "Started") -> None:
        _banner(settings, where, link=form == "text" and console.is_terminal)

    with output_may_be_lost():
        ends = asyncio.run(serve(settings, runs, exit_when_done=exit_when_done, on_started=started))
    codes = [OF_STATES.get(state, DONE) for state in ends] if exit_when_done else []
    raise typer.Exit(next((code for code in codes if code != DONE), DONE))


def _banner(settings: "ServerConfig", where: "Started", link: bool) -> None:
    """Say where it listens; a link that logs in is for a terminal, and for no log file."""
    from domo.api.client import DASHBOARD
    from domo.remote.token import default_token_file
    from domo.remote.which import here
    from domo_server.config import DEFAULT_DASHBOARD

    used = settings.tls_in_use
    tls = "mTLS" if used and used.client_ca else "TLS" if used else "no TLS"
    token = settings.state_dir / "admin-token"
    usual = token == default_token_file()
    say(f"domo-server: silos at {where.grpc_address} ({tls}), state in {settings.state_dir}")
    say(f"  dashboard  {where.dashboard_url}")
    state_dir = None if usual else settings.state_dir
    command = typed("domo-server", "login", state_dir=state_dir)
    say(f"  log in     {where.login_url() if link else f'{command} prints a link, good once'}")
    if settings.open_reading and not is_loopback(settings.dashboard or DEFAULT_DASHBOARD):
        say("  reading    is open: whoever reaches the page may read (open_reading)")
    if settings.tls is None and used is not None:
        say(f"  let in     {typed('domo-server', 'enroll', 'NAME', state_dir=state_dir)}")
    if where.run_ids:
        say(f"  runs       {', '.join(where.run_ids)}")
        here_only = ", on this machine," if is_loopback(where.grpc_address) else ""
        command = _silo_command(settings, where.grpc_address)
        say(f"next: start the silos{here_only or ','} each with: {command}")
        at = where.dashboard_url
        say(f"and watch: {here('domo', 'watch', at=at)}")
    else:
        say("idle: no run is configured. Write a file with one, and hand it to this coordinator:")
        say("  domo config > federation.toml")
        at = where.dashboard_url
        server = None if at == DASHBOARD else at
        token_file = None if usual else token
        say(f"  {typed('domo', 'submit', 'federation.toml', server=server, token_file=token_file)}")
    console.file.flush()


def _silo_command(settings: "ServerConfig", address: str) -> str:
    """What an operator types: with the TLS files that this coordinator asks for."""
    host, _, port = address.rpartition(":")
    here = f"HOST:{port}" if host in ("0.0.0.0", "[::]") else address
    if settings.tls is None and settings.tls_in_use is not None:
        return "domo-client --data DIR"  # what it was enrolled with says the rest
    command = f"domo-client --server {here} --name NAME --data DIR"
    if settings.tls is None:
        return command if is_loopback(address) else f"{command} --insecure"
    mutual = " --tls-cert CERT --tls-key KEY" if settings.tls.client_ca else ""
    return f"{command} --tls-ca CA{mutual}"


@app.command()
def check(
    config: Annotated[Path, typer.Argument(help="federation.toml")],
    file_only: Annotated[
        bool, typer.Option("--file-only", help="Read the file, look at nothing else.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    limit: CheckLimit = None,
) -> None:
    """See whether a coordinator could start here with a configuration file; starts nothing."""
    from domo_server.check import check as look

    raise typer.Exit(look(config, as_json, file_only, limit))


@app.command(name="config")
def print_config() -> None:
    """Print a federation.toml to start from: every key, what it means, its default."""
    from domo.commands.example_config import comment, keys, run_example
    from domo_server.config import ServerConfig

    head = (
        "A coordinator's federation.toml: domo-server check FILE, then domo-server --config FILE."
    )
    say("\n".join([*comment(head), "[server]", *keys(ServerConfig, {}), "", run_example()[:-1]]))


@app.command()
def webhook_test(
    config: Annotated[Path, typer.Argument(help="federation.toml")],
) -> None:
    """Send a test message to each webhook of a configuration file, once."""
    from domo_server.config import load_config
    from domo_server.integrations.webhooks import send_test

    settings, _ = load_config(config, {})
    if not settings.webhooks:
        raise ConfigError(f"{config} has no [[server.webhooks]]")
    found = asyncio.run(send_test(settings.webhooks, settings.dashboard_url))
    for host, fault in found.items():
        say(f"{host}: {fault or 'delivered'}", style="red" if fault else None)
    raise typer.Exit(1 if any(found.values()) else 0)


@app.command()
def health(
    server: Annotated[str, typer.Option(help="host:port")] = "127.0.0.1:50051",
    tls_ca: Annotated[Path | None, typer.Option(help="CA of its certificate.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Own certificate (mTLS).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="DOMO_SERVER_STATE_DIR", help="Where its own CA is, if no files are given."
        ),
    ] = None,
) -> None:
    """Ask the health service; exit 0 if the coordinator is serving."""
    own = None
    if tls_ca is None and tls_cert is None:
        with contextlib.suppress(ConfigError):  # no home: there is no folder by default
            pki = pki_of(state_dir or user_state("the coordinator's state") / "coordinator")
            own = TlsFiles(pki.ca, pki.cert, pki.key) if pki.exists() else None
    tls = TlsFiles(tls_ca, tls_cert, tls_key) if tls_ca or tls_cert else own
    with make_channel(server, tls) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_S)
        except grpc.RpcError as error:
            raise from_rpc(error, server) from None
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise CoordinatorUnavailableError(f"the coordinator at {server} is not serving")
    say(f"{server}: serving")


@app.command()
def rebind(
    silo: Annotated[str, typer.Argument(help="Name of the silo.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Let a silo's name be taken by another state folder, once: the old one was lost."""
    from domo.remote.admin import REBIND, REBOUND
    from domo_server.config import load_config
    from domo_server.store.database import open_beside
    from domo_server.store.store import Store

    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})  # no listening
    if settings.database is None and not (settings.state_dir / "coordinator.db").exists():
        raise ConfigError(f"there is no coordinator's database in {settings.state_dir}")
    store = Store(open_beside(settings.database_url))
    row = store.silo(silo)
    if row is None:
        raise UnknownSiloError(f"no silo named {silo!r} has ever joined")
    if not yes:
        confirm(REBIND.format(silo=silo))
    store.mark_silo(silo, readmitted=True)
    store.close()
    say(REBOUND.format(silo=silo))
    if row.dropped is not None:
        say(f"it is left out still ({row.dropped}): domo undrop {silo} takes it back")


app.add_typer(pki_app)
app.registered_commands += identity_app.registered_commands


def main() -> None:
    """Entry point."""
    fill_closed()
    with friendly_errors(CODES):
        app()
