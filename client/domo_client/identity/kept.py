"""What enrolment leaves in a silo's state folder, and how `domo-client` finds it.

client.toml          the coordinator, the silo's name, where the files are; an operator may edit it
identity/ca.pem      the CA of the coordinator's certificate and of this silo's
identity/silo.pem    this silo's certificate
identity/silo.key    its private key: made here, and nowhere else
identity.new/        the same while a coordinator is asked; a try that was cut off goes on there
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

from domo.errors import ConfigError
from domo.names import is_name
from domo.ops.addresses import grpc_address
from domo.ops.config_file import load_toml, validate
from domo_proto.channel import TlsFiles

CLIENT_FILE = "client.toml"


class ClientFile(BaseModel):
    """client.toml: what `domo-client` goes by where no flag says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    """host:port of the coordinator."""
    name: str
    """The silo's name."""
    tls_ca: Path
    """CA of the coordinator."""
    tls_cert: Path
    """The silo's certificate."""
    tls_key: Path
    """Its private key."""

    @field_validator("server")
    @classmethod
    def _dialled(cls, server: str) -> str:
        try:
            return grpc_address(server)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not is_name(name):
            raise ValueError(f"{name!r} is no silo name")
        return name


@dataclass(frozen=True, slots=True)
class Kept:
    """An enrolled identity.

    Attributes:
        folder: The silo's state folder.
        server: host:port of the coordinator.
        name: The silo's name.
        tls: Its files.
    """

    folder: Path
    server: str
    name: str
    tls: TlsFiles


def read(folder: Path) -> Kept | None:
    """The identity in a state folder; None: there is none.

    Raises:
        ConfigError: client.toml is damaged.
    """
    path = folder / CLIENT_FILE
    if not path.is_file():
        return None
    told = validate(ClientFile, load_toml(path), path)
    files = (folder / each for each in (told.tls_ca, told.tls_cert, told.tls_key))
    return Kept(folder, told.server, told.name, TlsFiles(*files))


def enrolled(silos: Path) -> list[str]:
    """Names of the folders with an identity.

    Args:
        silos: The folder of all silos of this user.
    """
    with suppress(OSError):
        return sorted(path.parent.name for path in silos.glob(f"*/{CLIENT_FILE}"))
    return []


def is_enrolled(tls: TlsFiles) -> bool:
    """Whether files are of `domo-client enroll`; those of another PKI are renewed by that."""
    if tls.cert is None:
        return False
    with suppress(ConfigError):
        kept = read(tls.cert.parent.parent)
        return kept is not None and kept.tls == tls
    return False
