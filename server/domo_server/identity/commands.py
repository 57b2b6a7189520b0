"""The commands of `domo-server` about who is let in; all but `pki` work beside a coordinator.

What they do is imported when one is called: a health check is one of the same program.
"""

from pathlib import Path
from typing import Annotated

import typer

from domo.ops.command_app import make_app

identity_app = make_app("domo-server")
pki_app = make_app("pki", "Make the coordinator's own CA.")

SILO_DAYS = 30.0
VALID = "1h"

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="federation.toml: [server] and [[runs]].")
]
StateDir = Annotated[Path | None, typer.Option(help="The coordinator's state folder.")]
Name = Annotated[str, typer.Argument(help="Name of the silo.")]
Days = Annotated[float, typer.Option(help="For how long its certificates are valid, days.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back.")]
Address = Annotated[
    str | None, typer.Option(help="host:port that the silo dials [default: of `pki init`].")
]


@pki_app.callback()
def pki() -> None:
    """Make the coordinator's own CA."""


@pki_app.command("init")
def pki_init(
    host: Annotated[
        list[str], typer.Option(help="Name or IP address that silos dial; may be repeated.")
    ],
    listen: Annotated[
        str | None, typer.Option(help="host:port for silos [default: 0.0.0.0:50051].")
    ] = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Make a CA and the coordinator's certificate in its state folder; once."""
    from domo_server.identity import deeds

    deeds.init(deeds.Where(config, state_dir), host, listen)


@identity_app.command()
def enroll(
    name: Name,
    valid: Annotated[str, typer.Option(help="For how long the code is good: 30m, 1h, 7d.")] = VALID,
    days: Days = SILO_DAYS,
    address: Address = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Print a code, one line, with which a silo gets its certificate: once."""
    from domo_server.identity import deeds

    deeds.enroll(deeds.Where(config, state_dir), name, valid, days, address)


@identity_app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="Made by `domo-client enroll --request`.")],
    yes: Yes = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the answer goes [default: NAME.domo beside it].")
    ] = None,
    days: Days = SILO_DAYS,
    address: Address = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Sign a silo's request, once its key has been compared, and let the silo in."""
    from domo_server.identity import deeds

    deeds.sign(deeds.Where(config, state_dir), file, yes, out, days, address)


@identity_app.command()
def admit(
    name: Name,
    key: Annotated[
        str | None, typer.Option(help="SHA256:... of its key [default: any of the CA].")
    ] = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Let a silo in whose certificate comes from a CA of your own."""
    from domo_server.identity import deeds

    deeds.admit(deeds.Where(config, state_dir), name, key)


@identity_app.command()
def revoke(name: Name, config: Config = None, state_dir: StateDir = None) -> None:
    """Let a silo in no more; a coordinator that runs ends its calls within a second."""
    from domo_server.identity import deeds

    deeds.revoke(deeds.Where(config, state_dir), name)


@identity_app.command()
def silos(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """List who is let in, with which key, until when, and codes that were not used."""
    from domo_server.identity import deeds

    deeds.tell(deeds.Where(config, state_dir), as_json)
