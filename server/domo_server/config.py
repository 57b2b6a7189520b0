"""The coordinator's configuration: flag > DOMO_SERVER_* > federation.toml > default."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from domo.errors import ConfigError
from domo.names import is_name
from domo.ops.addresses import is_loopback, listen_address
from domo.ops.config_file import load_toml, validate, validate_all
from domo.run_config import RunConfig
from domo.storage.home import user_state
from domo_proto.channel import TlsFiles
from domo_proto.identities import ENROL_URI
from domo_server.dashboard_config import DashboardTls, OidcConfig, is_safe_url, networks
from domo_server.pki_files import pki_of

PREFIX = "DOMO_SERVER_"
HookEvent = Literal[
    "started", "paused", "resumed", "finished", "failed", "stopped", "stalled", "moves-again",
    "falls-apart", "silo-failed", "silo-stalled", "silo-moves-again",
    "silo-lost", "silo-back", "silo-conflict", "disk",
]  # fmt: skip
DEFAULT_DASHBOARD = "127.0.0.1:8080"


class TlsConfig(BaseModel):
    """PEM files for TLS; with `client_ca`, silos must show a certificate (mTLS)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert: Path
    """Certificate chain of the coordinator."""
    key: Path
    """Its private key."""
    client_ca: Path | None = None
    """CA of the silos' certificates; a silo's name must be in its certificate."""
    names: dict[str, str] = {}
    """Silos by the URI in their certificate that stands for them, such as a SPIFFE ID."""

    @field_validator("names")
    @classmethod
    def _silos(cls, names: dict[str, str]) -> dict[str, str]:
        for uri, name in names.items():
            if not is_name(name) or ":" not in uri or uri.startswith(ENROL_URI):
                raise ValueError(f'{uri!r} = {name!r}: it is "spiffe://domain/path" = "silo"')
        return names

    @property
    def files(self) -> TlsFiles:
        """As the channel takes them."""
        return TlsFiles(self.client_ca, self.cert, self.key)


class TrackersConfig(BaseModel):
    """Where runs are written beside the coordinator's own record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tensorboard_dir: Path | None = None
    """Folder of TensorBoard's event files."""
    mlflow_uri: str | None = None
    """MLflow's tracking server, or a database."""
    mlflow_experiment: str = Field("domo", min_length=1)
    """MLflow's experiment; made if need be."""


class WebhookConfig(BaseModel):
    """An address that is told what happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://[^\s/]+(/\S*)?$")
    """http or https."""
    events: tuple[HookEvent, ...] = ("finished", "failed", "stalled")
    """What it is told."""
    secret_file: Path | None = None
    """File with the secret that messages are signed with."""
    secret_env: str | None = None
    """Or the variable that holds it."""

    @model_validator(mode="after")
    def _one_secret(self) -> "WebhookConfig":
        if self.secret_file is not None and self.secret_env is not None:
            raise ValueError("secret_file and secret_env: give one of them")
        return self


def default_state() -> Path:
    """Where a coordinator keeps its state.

    Raises:
        ConfigError: The user has no home.
    """
    flag = "--state-dir, or state_dir in [server]"
    return user_state("the coordinator's state", flag) / "coordinator"


class ServerConfig(BaseSettings):
    """The table [server]."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_nested_delimiter="__"
    )

    listen: str = "127.0.0.1:50051"
    """host:port for silos."""
    dashboard: str | None = None
    """host:port for REST and the page; 127.0.0.1:8080 or the next free port by default."""
    state_dir: Path = Field(default_factory=default_state)
    """Runs, checkpoints, database, admin token."""
    database: str | None = None
    """SQLAlchemy URL; a SQLite file in state_dir by default."""
    tls: TlsConfig | None = None
    """TLS for silos; the files of `domo-server pki init` by default, where it was."""
    insecure: bool = False
    """Allow silos without TLS on an address that is not loopback."""
    durability: Literal["process", "power"] = "process"
    """What an accepted update survives: the death of any process, or of the machine."""
    report_interval_s: float = Field(2.0, gt=0, le=60)
    """How often silos report."""
    long_poll_s: float = Field(20.0, gt=0, le=300)
    """How long a silo's question may wait for its answer."""
    stall_after_s: float = Field(2.5, ge=1, le=3600)
    """Shortest rest of all silos that a round waits for that makes it a stalled run."""
    trackers: TrackersConfig | None = None
    """TensorBoard and MLflow."""
    open_reading: bool = False
    """Let anybody read who reaches the page; by default only where it is on loopback."""
    webhooks: tuple[WebhookConfig, ...] = ()
    """Addresses that are told what happens."""
    dashboard_url: str | None = Field(None, pattern=r"^https?://\S+$")
    """The page as people reach it, for links in webhooks, and for log-ins through a provider."""
    dashboard_tls: DashboardTls | None = None
    """TLS of the page and of REST."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of the proxies before the page."""
    oidc: OidcConfig | None = None
    """Log-in of people through an OpenID Provider."""

    @field_validator("listen", "dashboard")
    @classmethod
    def _understood(cls, address: str | None) -> str | None:
        try:
            return None if address is None else listen_address(address)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return networks(given)

    @model_validator(mode="after")
    def _people_can_log_in(self) -> "ServerConfig":
        if self.oidc is not None and not is_safe_url(self.dashboard_url or ""):
            raise ValueError(
                "[server.oidc] needs dashboard_url, the page as people reach it: the provider "
                "sends them back there. It begins with https://, or is on loopback"
            )
        return self

    @model_validator(mode="after")
    def _safe(self) -> "ServerConfig":
        if self.tls_in_use is None and not self.insecure and not is_loopback(self.listen):
            raise ValueError(
                f"listen = {self.listen!r} is reachable from other machines, and without "
                "TLS everybody on the way could read and change the model. Make certificates with "
                "`domo-server pki init`, set [server.tls] to your own, or insecure = true for a "
                "network that you trust"
            )
        if self.dashboard == self.listen and not self.listen.endswith(":0"):
            raise ValueError("listen and dashboard are one address; each needs a port of its own")
        urls = [hook.url for hook in self.webhooks]
        if len(set(urls)) < len(urls):
            raise ValueError("webhooks: two have one url; give it all events in one of them")
        return self

    @property
    def tls_in_use(self) -> TlsConfig | None:
        """The files of TLS: those that are set, else those of the coordinator's own CA."""
        own = pki_of(self.state_dir)
        if self.tls is not None or not own.exists():
            return self.tls
        return TlsConfig(cert=own.cert, key=own.key, client_ca=own.ca)

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL."""
        return self.database or f"sqlite:///{self.state_dir / 'coordinator.db'}"


class FederationFile(BaseModel):
    """federation.toml: [server] and any number of [[runs]]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: dict[str, Any] = {}
    runs: tuple[RunConfig, ...] = ()


def load_config(
    path: Path | None, flags: Mapping[str, Any]
) -> tuple[ServerConfig, Sequence[RunConfig]]:
    """Everything that the coordinator is told.

    Args:
        path: federation.toml, if there is one.
        flags: Fields of [server] from the command line; None means not given.

    Raises:
        ConfigError: Names file, key, value and what is allowed.
    """
    where = path or "the command line"
    told = load_toml(path) if path else {}
    server = told.get("server", {})
    environment = EnvSettingsSource(ServerConfig)()
    given = {k: v for k, v in flags.items() if v is not None}
    names = {k: f"{PREFIX}{k.upper()}" for k in environment}
    names |= {k: f"--{k.replace('_', '-')}" for k in given}
    in_file = server if isinstance(server, dict) else {}
    merged = {**in_file, **environment, **given}
    for table in ("tls", "trackers", "dashboard_tls", "oidc"):
        if isinstance(in_file.get(table), dict) and table in environment:
            merged[table] = {**in_file[table], **environment[table]}
    file, settings = validate_all(
        where,
        lambda: validate(FederationFile, told, where),
        lambda: validate(ServerConfig, merged, where, at="server", names=names),
    )
    assert isinstance(file, FederationFile)
    assert isinstance(settings, ServerConfig)
    return settings, file.runs


def name_runs(runs: Sequence[RunConfig]) -> list[tuple[str, RunConfig]]:
    """Each run of a file with its name: its own, or method-task, counted where it repeats.

    Raises:
        ConfigError: Two runs have one name.
    """
    named: list[tuple[str, RunConfig]] = []
    for run in runs:
        taken = {name for name, _ in named}
        name, number = run.title, 2
        if run.name is not None and name in taken:
            raise ConfigError(f"two runs are named {name!r}")
        while name in taken:
            name, number = f"{run.title}-{number}", number + 1
        named.append((name, run))
    return named
