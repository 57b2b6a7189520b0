"""What the commands about who is let in do."""

import getpass
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from domo.errors import ConfigError
from domo.names import alike, is_name, shown
from domo.ops.addresses import grpc_address, is_loopback, joined, listen_address, split
from domo.ops.console import complain, confirm, say
from domo.ops.words import duration, typed
from domo.storage.state_folder import keep_private
from domo_proto.certificates import alternative_names
from domo_proto.enrolment import Bundle, make_bundle
from domo_proto.identities import ca_key, read_request
from domo_server.config import ServerConfig, load_config
from domo_server.events import kinds
from domo_server.identity.admitted import in_the_place_of
from domo_server.identity.authority import MOST_SILO_DAYS, Authority, make_pki
from domo_server.identity.certify import new_code
from domo_server.pki_files import Pki, pki_of
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_beside, open_database
from domo_server.store.store import Store, time_text

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
MOST_VALID_S = 7 * 86_400.0
"""A code's certificate is not valid for longer."""
KEY = r"SHA256:[A-Za-z0-9+/]{43}"


class Where(NamedTuple):
    """Of which coordinator.

    Attributes:
        config: Its federation.toml.
        state_dir: Its state folder.
    """

    config: Path | None
    state_dir: Path | None

    def settings(self) -> ServerConfig:
        """Its settings, whatever it listens on."""
        return load_config(self.config, {"state_dir": self.state_dir, "insecure": True})[0]


def init(where: Where, host: list[str], listen: str | None) -> None:
    """Make the CA and the coordinator's certificate.

    Raises:
        ConfigError: There is one, or a host is none.
    """
    settings = where.settings()
    own = pki_of(settings.state_dir)
    usual = None if is_loopback(settings.listen) else settings.listen
    wanted = listen_address(listen or usual or "0.0.0.0:50051")
    address = grpc_address(joined(host[0].strip("[]"), split(wanted)[1]), "--host")
    make_pki(own, host, address)
    say(f"{own.folder}: a CA, and a certificate for {', '.join(host)}; silos will dial {address}")
    say(f"its key {own.ca_key} is what lets silos in: keep a copy where only you have it")
    say(f"silos are shown that key as {ca_key(own.ca.read_bytes())}")
    flags = where._asdict()
    told = None if where.config is not None and usual is not None and listen is None else wanted
    say(f"next: {typed('domo-server', listen=told, **flags)}")
    say(f"and, for each silo: {typed('domo-server', 'enroll', 'NAME', **flags)}")


def enroll(where: Where, name: str, valid: str, days: float, address: str | None) -> None:
    """Print a code.

    Raises:
        ConfigError: There is no CA of its own, or something that is given is none.
    """
    settings, own = _own(where)
    valid_s, dialled = _seconds(valid), _address(own, address)
    _check_name(name, own)
    _check_days(days)
    authority = Authority(own)
    with _beside(settings) as store:
        before = Admissions(store).of(name)
        code = new_code(authority, Admissions(store), name, dialled, valid_s, days, _me())
        _say_if_out(store, name)
    say(code)
    until = time_text(time.time() + valid_s)[:16]
    complain(
        f"this line is a secret: it lets one machine in as {name}, once, until {until}Z "
        f"({duration(valid_s)}). At the silo: domo-client enroll CODE"
    )
    complain(f"it is to say there that the CA has the key {ca_key(authority.ca_pem)}")
    if before is not None:
        complain(in_the_place_of(before, "once the code is used"))


def sign(
    where: Where, file: Path, yes: bool, out: Path | None, days: float, address: str | None
) -> None:
    """Sign a request.

    Raises:
        ConfigError: It is none, or its key is not the silo's.
    """
    settings, own = _own(where)
    dialled = _address(own, address)
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
    authority = Authority(own)
    complain(f"{file} asks to be {name}, with the key {request.fingerprint}")
    with _beside(settings) as store:
        before = Admissions(store).of(name)
    if before is not None and (before.state, before.key) != ("active", request.fingerprint):
        complain(in_the_place_of(before, "once this is signed"))
    if not yes:
        confirm("Does its operator read the same key to you, over a way that you trust?")
    cert = authority.certify(request.csr.public_key(), name, days)
    pem = cert.public_bytes(Encoding.PEM)
    answer = out or file.with_name(f"{name}.domo")
    with _beside(settings) as store:
        until = cert.not_valid_after_utc.timestamp()
        Admissions(store).admit(name, _me(), request.fingerprint, until, days)
        text = f"{name} was let in by {_me()}, by its request: key {request.fingerprint}"
        store.add_event(kinds.ADMITTED.name, text, silo_id=name)
        _say_if_out(store, name)
    try:
        answer.write_bytes(make_bundle(Bundle(dialled, pem, authority.ca_pem)))
    except OSError as error:
        raise ConfigError(f"cannot write {answer}: {error.strerror}; give --out") from None
    say(str(answer))
    complain(f"hand it to the silo, it is no secret: domo-client enroll --install {answer.name}")
    complain(f"it is to say there that the CA has the key {ca_key(authority.ca_pem)}")


def admit(where: Where, name: str, key: str | None) -> None:
    """Let a silo in that has a certificate from elsewhere.

    Raises:
        ConfigError: It is no name, or no key.
    """
    settings = where.settings()
    own, used = pki_of(settings.state_dir), settings.tls_in_use
    _check_name(name, own)
    if key is None and used is not None and used.client_ca == own.ca:
        raise ConfigError(
            f"which key? Keys that were stolen or revoked have certificates for {name} too: give "
            f"--key SHA256:..., or let it make a new one with domo-server enroll {name}"
        )
    if key is not None and not re.fullmatch(KEY, key):
        raise ConfigError(f"--key {shown(key)!r}: a key is shown as SHA256: and 43 characters")
    with _beside(settings) as store:
        Admissions(store).admit(name, _me(), key)
        by = f"with the key {key}" if key else "with any certificate of the CA for this name"
        store.add_event(kinds.ADMITTED.name, f"{name} was let in by {_me()}, {by}", silo_id=name)
        _say_if_out(store, name)
    say(f"{name} is let in, {by}")


def _say_if_out(store: Store, name: str) -> None:
    """Say that runs go on without a silo, as one that was revoked is left out of them."""
    row = store.silo(name)
    if row is not None and row.dropped is not None:
        complain(f"it is left out of runs still ({row.dropped}): domo undrop {name} takes it back")


def revoke(where: Where, name: str) -> None:
    """Let a silo in no more.

    Raises:
        ConfigError: It is no name.
    """
    settings = where.settings()
    if not is_name(name):
        raise ConfigError(f"{shown(name)!r} is no name of a silo")
    with _beside(settings) as store:
        known = [row.silo_id for row in Admissions(store).all()]
        Admissions(store).revoke(name, _me())
        store.add_event(kinds.REVOKED.name, f"{name} was revoked by {_me()}", silo_id=name)
    say(f"{name} is revoked: no call of it is answered, whatever key it has")
    if name not in known:
        meant = " or ".join(alike(name, known)) or "another name"
        complain(f"nobody had let {name} in; did you mean {meant}?")
    if settings.tls_in_use is None or settings.tls_in_use.client_ca is None:
        complain("silos show no certificate here, so this holds nobody back: domo drop does")


def tell(where: Where, as_json: bool) -> None:
    """Say who is let in."""
    settings = where.settings()
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


def _own(where: Where) -> tuple[ServerConfig, Pki]:
    settings = where.settings()
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
        if name.lower() in map(str.lower, alternative_names(cert)):
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


@contextmanager
def _beside(settings: ServerConfig) -> Iterator[Store]:
    """The database of a coordinator that may be running, or that was never started."""
    there = settings.database is not None or (settings.state_dir / "coordinator.db").exists()
    if not there and not settings.state_dir.is_dir():
        raise ConfigError(f"there is no coordinator's state in {settings.state_dir}")
    if not there:
        keep_private(settings.state_dir / "coordinator.db")
    store = Store((open_beside if there else open_database)(settings.database_url))
    try:
        yield store
    finally:
        store.close()
