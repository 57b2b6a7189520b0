"""What `domo-client doctor` looks at: the way to the coordinator, TLS, this machine, the training.

Nothing here joins, takes the silo's name, or writes to its state folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from domo.ops.addresses import split
from domo_proto.channel import TlsFiles

if TYPE_CHECKING:
    import torch
    from cryptography.x509 import Certificate

    from domo.meaning.value import Meaning
    from domo.ops.proxies import Proxy
    from domo_client.rpc.offer import Offer
    from domo_client.work import Work


@dataclass(frozen=True, slots=True)
class Setup:
    """What the operator gave; the fields are the flags of `domo-client`."""

    server: str | None
    name: str
    state_dir: Path | None
    data: Path | None = None
    shard: str | None = None
    tasks: Sequence[str] = ()
    device: str = "auto"
    precision: str = "float32"
    workers: int = 0
    role: str = "trainer"
    tls: TlsFiles | None = None
    insecure: bool = False
    compression: str = "none"
    dashboard: str | None = None
    look: Path | None = None
    policy: str | None = None

    @property
    def host(self) -> str:
        """The coordinator's name or address, without brackets."""
        return split(self.server or "")[0]

    @property
    def port(self) -> int:
        """The coordinator's port."""
        return split(self.server or "")[1]


class OpenRun(NamedTuple):
    """A run that the coordinator would offer.

    Attributes:
        offer: As silos are offered it.
        wanted: What data are to mean in it, as far as that is said.
    """

    offer: "Offer"
    wanted: "Meaning"


@dataclass(slots=True)
class Facts:
    """What one check has found out for the next ones.

    Attributes:
        proxy: The proxy that grpc takes, if it works.
        proxy_broken: grpc is sent to a proxy that does not let it through.
        own: The own certificate, if it can be read.
        sent_tls: Whether the own certificate and key can be used.
        presented: The coordinator's certificate.
        run: The run that is open to this silo.
        device: Where to train, if it is there.
        works: Tasks, made ready, by name.
        model_bytes: Size of the largest of their models.
    """

    proxy: "Proxy | None" = None
    proxy_broken: bool = False
    own: "Certificate | None" = None
    sent_tls: bool = False
    presented: "Certificate | None" = None
    run: OpenRun | None = None
    device: "torch.device | None" = None
    works: "dict[str, Work]" = field(default_factory=dict)
    model_bytes: int | None = None
