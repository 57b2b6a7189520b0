"""Which identity `domo-client` speaks with, where its flags leave that open."""

import socket
from dataclasses import replace
from pathlib import Path

from domo.errors import ConfigError
from domo.names import plain
from domo.ops.addresses import grpc_address
from domo.storage.home import user_state
from domo_client.flags import Flags
from domo_client.identity.kept import Kept, enrolled, read


def host_name() -> str:
    """This machine's name as a silo name."""
    name = plain(socket.gethostname().split(".")[0])
    return name.strip("-._") or "silo"


def default_state(name: str) -> Path:
    """Where a silo of this name keeps its state.

    Raises:
        ConfigError: The user has no home.
    """
    return user_state("the silo's state") / "silos" / name


def chosen(name: str | None, state_dir: Path | None) -> Kept | None:
    """The identity of a name, of a folder, or the only one of this user; None: there is none.

    Raises:
        ConfigError: client.toml is damaged; or there are several to choose from.
    """
    if state_dir is not None:
        return read(state_dir)
    try:
        silos = default_state("x").parent
    except ConfigError:
        return None  # no home: what was given must do
    if name is not None:
        return read(silos / name)
    names = enrolled(silos)
    if len(names) > 1:
        raise ConfigError(f"{len(names)} silos are enrolled here: give --name {' or '.join(names)}")
    return read(silos / names[0]) if names else None


def settled(flags: Flags) -> Flags:
    """The flags, with what they leave open from an enrolled identity.

    Flags go before. Where the coordinator is named, only an identity of that one counts: a silo at
    another coordinator, or on a trusted network, shows no certificate that it was not told to show.

    Raises:
        ConfigError: client.toml is damaged; or there are several identities, and no coordinator.
    """
    if flags.server is not None and (flags.tls is not None or flags.insecure):
        return flags
    try:
        kept = chosen(flags.name, flags.state_dir)
    except ConfigError:
        if flags.server is None:
            raise
        return flags
    if kept is None or (flags.server is not None and grpc_address(flags.server) != kept.server):
        return flags
    tls = kept.tls if flags.tls is None and not flags.insecure else flags.tls
    return replace(
        flags,
        server=flags.server or kept.server,
        name=flags.name or kept.name,
        state_dir=flags.state_dir or kept.folder,
        tls_ca=tls.ca if tls else None,
        tls_cert=tls.cert if tls else None,
        tls_key=tls.key if tls else None,
    )
