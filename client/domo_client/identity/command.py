"""`domo-client enroll`."""

from pathlib import Path
from typing import Annotated

import typer

from domo.errors import ConfigError
from domo.names import is_name
from domo.ops.console import say
from domo.ops.words import typed
from domo_client.identity.choice import default_state
from domo_client.identity.kept import Kept, enrolled


def enroll(
    code: Annotated[
        str | None,
        typer.Argument(
            help="The line of `domo-server enroll`; a file that holds it; or - to read it from "
            "standard input, so that it is in no history of a shell.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_NAME", help="The silo's name; it must be that of the code."
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="DOMO_CLIENT_STATE_DIR", help="The silo's state folder [default: by name]."
        ),
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Use no code: make a key here, and write the request for its certificate.",
        ),
    ] = None,
    install: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take in the answer to that, of `domo-server sign`."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where this silo is enrolled already.")
    ] = False,
) -> None:
    """Get this silo's certificate: its key is made here, and stays here."""
    from domo_client.identity import enrolment
    from domo_proto.enrolment import read_bundle

    if sum(way is not None for way in (code, request, install)) != 1:
        raise ConfigError(
            "give a code of `domo-server enroll`; or --request FILE, and then --install FILE"
        )
    if request is not None:
        if name is None:
            raise ConfigError("--request needs the silo's --name")
        folder = _folder(name, name, state_dir)
        if not force:
            enrolment.see_free(folder, "key")
        key = enrolment.request(name, folder, request)
        say(f"{name}: the key of the request {request} is {key}")
        say(f"give {request} to the coordinator's admin, who compares the key, and runs:")
        say(f"  domo-server sign {request.name}")
        then = typed("domo-client", "enroll", install="ANSWER", state_dir=state_dir)
        say(f"and with the file that comes back, here: {then}")
        return
    if install is not None:
        bundle = read_bundle(install)
        theirs = enrolment.bundle_name(bundle)
        folder = _folder(theirs, name, state_dir)
        if not force:
            enrolment.see_free(folder, "certificate")
        _done(enrolment.install(bundle, folder), state_dir)
        return
    assert code is not None
    given = enrolment.given_code(code)
    folder = _folder(given.name, name, state_dir)
    if not force:
        enrolment.see_free(folder, "certificate")
    _done(enrolment.enroll(given, folder), state_dir)


def _folder(name: str, wanted: str | None, state_dir: Path | None) -> Path:
    if wanted is not None and wanted != name:
        raise ConfigError(f"this is for {name}, and --name says {wanted}")
    if not is_name(name):
        raise ConfigError(f"{name!r} is no silo name: letters, digits, '.', '_', '-', at most 64")
    return state_dir or default_state(name)


def _done(kept: Kept, state_dir: Path | None) -> None:
    from domo_proto.certificates import read_certificates
    from domo_proto.identities import fingerprint

    assert kept.tls.cert is not None
    cert = read_certificates(kept.tls.cert, "certificate")[0]
    until = f"{cert.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    say(f"{kept.name} is enrolled with {kept.server}, until {until}; a silo that runs renews that")
    say(f"its key {fingerprint(cert)} was made here; the coordinator has an event with the same")
    assert kept.tls.ca is not None
    theirs = fingerprint(read_certificates(kept.tls.ca, "CA")[0])
    say(f"the coordinator's CA has the key {theirs}: compare it with its admin, by another way")
    only = state_dir is None and len(enrolled(kept.folder.parent)) == 1
    where = None if only or state_dir is not None else kept.name
    say(f"next: {typed('domo-client', name=where, state_dir=state_dir)} --data DIR")
