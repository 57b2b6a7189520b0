"""The commands of `domo-server` about who is let in; all but `pki` work beside a coordinator."""

import getpass
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from domo.errors import ConfigError
from domo.names import is_name, shown
from domo.ops.addresses import grpc_address, is_loopback, joined, listen_address, split
from domo.ops.command_app import make_app
from domo.ops.console import complain, confirm, say
from domo.ops.words import duration, typed
from domo_proto.certificates import alternative_names
from domo_proto.enrolment import Bundle, make_bundle
from domo_proto.identities import read_request
from domo_server.config import ServerConfig, load_config
from domo_server.events import kinds
from domo_server.events.kinds import EventKind
from domo_server.identity.authority import MOST_SILO_DAYS, Authority, make_pki
from domo_server.identity.certify import new_code
from domo_server.pki_files import Pki, pki_of
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_beside, open_database
from domo_server.store.store import Store, time_text

identity_app = make_app("domo-server")
pki_app = make_app("pki", "Make the coordinator's own CA.")

SILO_DAYS = 30.0
VALID = "1h"
UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
MOST_VALID_S = 7 * 86_400.0
"""A code's certificate is not valid for longer."""
KEY = r"SHA256:[A-Za-z0-9+/]{43}"

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
    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})
    own = pki_of(settings.state_dir)
    usual = None if is_loopback(settings.listen) else settings.listen
    wanted = listen_address(listen or usual or "0.0.0.0:50051")
    address = grpc_address(joined(host[0].strip("[]"), split(wanted)[1]), "--host")
    make_pki(own, host, address)
    say(f"{own.folder}: a CA, and a certificate for {', '.join(host)}; silos will dial {address}")
    say(f"its key {own.ca_key} is what lets silos in: keep a copy where only you have it")
    flags = {"config": config, "state_dir": state_dir}
    told = None if config is not None and usual is not None and listen is None else wanted
    say(f"next: {typed('domo-server', listen=told, **flags)}")
    say(f"and, for each silo: {typed('domo-server', 'enroll', 'NAME', **flags)}")


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
    settings, own = _own(config, state_dir)
    valid_s, where = _seconds(valid), _address(own, address)
    _check_name(name, own)
    _check_days(days)
    authority = Authority(own)
    with _beside(settings) as store:
        code = new_code(authority, Admissions(store), name, where, valid_s, days, _me())
    say(code)
    until = time_text(time.time() + valid_s)[:16]
    complain(
        f"this line is a secret: it lets one machine in as {name}, once, until {until}Z "
        f"({duration(valid_s)}). At the silo: domo-client enroll CODE"
    )


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
    settings, own = _own(config, state_dir)
    where = _address(own, address)
    _check_days(days)
    try:
        request = read_request(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    if len(request.names) != 1:
        raise ConfigError(f"{file} must ask to be one silo; it asks for {len(request.names)} names")
    (name,) = request.names
    _check_name(name, own)
    complain(f"{file} asks to be {name}, with the key {request.fingerprint}")
    if not yes:
        confirm("Does its operator read the same key to you, over a way that you trust?")
    authority = Authority(own)
    cert = authority.certify(request.csr.public_key(), name, days)
    pem = cert.public_bytes(Encoding.PEM)
    answer = out or file.with_name(f"{name}.domo")
    with _beside(settings) as store:
        until = cert.not_valid_after_utc.timestamp()
        Admissions(store).admit(name, _me(), request.fingerprint, until, days)
        text = f"{name} was let in by {_me()}, by its request: key {request.fingerprint}"
        _record(store, kinds.ADMITTED, text, name)
    try:
        answer.write_bytes(make_bundle(Bundle(where, pem, authority.ca_pem)))
    except OSError as error:
        raise ConfigError(f"cannot write {answer}: {error.strerror}; give --out") from None
    say(str(answer))
    complain(f"hand it to the silo, it is no secret: domo-client enroll --answer {answer.name}")


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
    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})
    _check_name(name, pki_of(settings.state_dir))
    if key is not None and not re.fullmatch(KEY, key):
        raise ConfigError(f"--key {shown(key)!r}: a key is shown as SHA256: and 43 characters")
    with _beside(settings) as store:
        Admissions(store).admit(name, _me(), key)
        by = f"with the key {key}" if key else "with any certificate of the CA for this name"
        _record(store, kinds.ADMITTED, f"{name} was let in by {_me()}, {by}", name)
    say(f"{name} is let in, {by}")


@identity_app.command()
def revoke(name: Name, config: Config = None, state_dir: StateDir = None) -> None:
    """Let a silo in no more; a coordinator that runs ends its calls within a second."""
    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})
    if not is_name(name):
        raise ConfigError(f"{shown(name)!r} is no name of a silo")
    with _beside(settings) as store:
        Admissions(store).revoke(name, _me())
        _record(store, kinds.REVOKED, f"{name} was revoked by {_me()}", name)
    say(f"{name} is revoked: no call of it is answered, whatever key it has")
    if settings.tls_in_use is None or settings.tls_in_use.client_ca is None:
        complain("silos show no certificate here, so this holds nobody back: domo drop does")


@identity_app.command()
def silos(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """List who is let in, with which key, until when, and codes that were not used."""
    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})
    with _beside(settings) as store:
        rows, codes = Admissions(store).all(), Admissions(store).open_codes()
    if as_json:
        say(json.dumps([asdict(row) for row in rows]))
        return
    waiting = {code.silo_id: code.until for code in codes}
    for row in rows:
        key = row.key or ("any key" if row.state == "active" else "no key")
        end = f"certificate until {time_text(row.until)[:16]}Z" if row.until else ""
        code = ""
        if row.silo_id in waiting:
            late = waiting[row.silo_id] < time.time()
            code = "code expired" if late else f"code until {time_text(waiting[row.silo_id])[:16]}Z"
        parts = (f"by {row.by_whom}", end, code)
        say(f"{row.silo_id:<20} {row.state:<8} {key:<50} {', '.join(filter(None, parts))}")
    if not rows:
        say("nobody is let in yet")


def _own(config: Path | None, state_dir: Path | None) -> tuple[ServerConfig, Pki]:
    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})
    own = pki_of(settings.state_dir)
    if not own.exists():
        raise ConfigError(
            f"this coordinator has no CA of its own ({own.folder}): make one with domo-server pki "
            "init --host NAME; where certificates come from a CA of yours: domo-server admit NAME"
        )
    if settings.tls is not None and settings.tls.client_ca != own.ca:
        raise ConfigError(
            f"[server.tls] is set, so the CA in {own.folder} is not used: take the table out, or "
            "let the silo in with domo-server admit NAME"
        )
    return settings, own


def _check_name(name: str, own: Pki) -> None:
    if not is_name(name):
        raise ConfigError(
            f"{shown(name)!r} is no name of a silo: letters, digits, '.', '_', '-', at most 64"
        )
    if own.cert.exists():
        cert = x509.load_pem_x509_certificate(own.cert.read_bytes())
        if name in alternative_names(cert):
            raise ConfigError(f"{name} is the coordinator's own name: no silo may have it")


def _check_days(days: float) -> None:
    if not 0 < days <= MOST_SILO_DAYS:
        raise ConfigError(f"--days must be above 0 and at most {MOST_SILO_DAYS:g}, got {days:g}")


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text.strip())
    if found is None or found[2] not in UNITS:
        raise ConfigError(f"--valid {shown(text)!r}: a time such as 30m, 1h, 7d")
    seconds = float(found[1]) * UNITS[found[2]]
    if not 0 < seconds <= MOST_VALID_S:
        raise ConfigError(f"--valid {shown(text)!r}: a code is good for at most 7d")
    return seconds


def _address(own: Pki, given: str | None) -> str:
    if given is not None:
        return grpc_address(given, "--address")
    told = own.address.read_text("utf-8").strip() if own.address.exists() else ""
    if not told:
        raise ConfigError(f"which address do silos dial? {own.address} is gone: give --address")
    return grpc_address(told, str(own.address))


def _me() -> str:
    """Who uses this command, in words."""
    try:
        return f"{getpass.getuser()} at the coordinator"[:128]
    except (KeyError, OSError):
        return f"user {os.getuid()} at the coordinator"


def _record(store: Store, kind: EventKind, text: str, name: str) -> None:
    store.add_event(kind.name, text, silo_id=name)


@contextmanager
def _beside(settings: ServerConfig) -> Iterator[Store]:
    """The database of a coordinator that may be running, or that was never started."""
    there = settings.database is not None or (settings.state_dir / "coordinator.db").exists()
    if not there and not settings.state_dir.is_dir():
        raise ConfigError(f"there is no coordinator's state in {settings.state_dir}")
    store = Store((open_beside if there else open_database)(settings.database_url))
    try:
        yield store
    finally:
        store.close()
